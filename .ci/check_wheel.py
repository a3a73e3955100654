"""Build wheel and sdist, install the wheel into an empty environment, and use it outside the source tree.

The environment holds the wheel and what its metadata asks for, nothing else: a dependency that is imported
but not declared, or a file that is used but not packed, fails here and not on the first user's machine.
"""

import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "sklearn_graphid"
WEIGHTS = f"{PACKAGE}/priors/weights"
PROMISED_PRIORS = {"general", "grids", "deezer-ego-nets"}

# Runs in the new environment; its arguments are the names of the priors.
PROBE = """
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import sklearn_graphid
from sklearn_graphid import load_prior

location = Path(sklearn_graphid.__file__).resolve()
assert location.is_relative_to(Path(sys.prefix).resolve()), f"imported from {location}, not from the wheel"
assert sklearn_graphid.__version__ == version("sklearn-graphid")
for name in sys.argv[1:]:
    denoised = load_prior(name).denoise(np.zeros((6, 6)), 0.5)
    assert denoised.shape == (6, 6) and np.isfinite(denoised).all(), name
    print(f"prior {name}: loaded and used")
"""


def run(*command: object, cwd: Path) -> None:
    subprocess.run([str(part) for part in command], cwd=cwd, check=True)


def build_archives(directory: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from the sdist, so that each proves the other complete."""
    run(sys.executable, "-m", "build", "--outdir", directory, ROOT, cwd=directory)
    (wheel,) = directory.glob("*.whl")
    (sdist,) = directory.glob("*.tar.gz")
    return wheel, sdist


def package_files() -> set[str]:
    """Return what the source tree has in the package, as paths inside an archive."""
    files = (path for path in (ROOT / PACKAGE).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def check_wheel_files(names: set[str]) -> None:
    """Fail unless the wheel is the package, all of it, and its metadata."""
    packed = {name for name in names if not name.split("/")[0].endswith(".dist-info")}
    difference = packed ^ package_files()
    if difference:
        sys.exit(f"The wheel and the source tree differ in: {', '.join(sorted(difference))}")
    if f"{PACKAGE}/py.typed" not in packed:
        sys.exit("The wheel has no py.typed, so type checkers ignore the annotations.")


def check_sdist_files(names: set[str]) -> None:
    """Fail if the sdist holds something that a tool made."""
    made_by_tools = {".venv", "__pycache__", "_build", "auto_examples", "dist", ".mypy_cache", ".ruff_cache"}
    junk = sorted(name for name in names if made_by_tools.intersection(PurePosixPath(name).parts))
    if junk:
        sys.exit(f"The sdist should not hold: {', '.join(junk)}")


def shipped_priors(names: set[str]) -> set[str]:
    """Return the names to load: a prior is called like its file, with hyphens for underscores."""
    files = (PurePosixPath(name) for name in names if name.startswith(f"{WEIGHTS}/"))
    priors = {file.stem.replace("_", "-") for file in files if file.suffix == ".safetensors"}
    missing = PROMISED_PRIORS - priors
    if missing:
        sys.exit(f"The wheel has no weights in {WEIGHTS} for: {', '.join(sorted(missing))}")
    return priors


def use_wheel(wheel: Path, priors: set[str], directory: Path) -> None:
    """Install the wheel into a new environment and run the probe there."""
    venv.create(directory / "venv", with_pip=True)
    python = directory / "venv" / "bin" / "python"
    quiet_install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*quiet_install, "-c", ROOT / "constraints.txt", wheel, cwd=directory)
    # -I keeps PYTHONPATH and the working directory off sys.path, so only the wheel can answer.
    run(python, "-I", "-c", PROBE, *sorted(priors), cwd=directory)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        wheel, sdist = build_archives(directory)
        with zipfile.ZipFile(wheel) as archive:
            wheel_names = set(archive.namelist())
        with tarfile.open(sdist) as archive:
            sdist_names = set(archive.getnames())
        check_wheel_files(wheel_names)
        check_sdist_files(sdist_names)
        use_wheel(wheel, shipped_priors(wheel_names), directory)
        print(f"{wheel.name} and {sdist.name} are fit to publish")


if __name__ == "__main__":
    main()
