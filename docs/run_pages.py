"""Run the Python blocks of every page, and compare what they print with the text block that follows.

    python docs/run_pages.py                       # all pages
    python docs/run_pages.py start.md              # some of them
    python docs/run_pages.py --figures start.md    # and write the figures that they show

The blocks of a page share their names. A block that cannot run here is written as a `code-block` directive. An image
from images/pages that follows a block shows the figure that the block drew last.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import time
import types
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt

DOCS = Path(__file__).parent
# index.md shows a call on data that are yours.
LEFT_OUT = {"index.md"}
BLOCK = re.compile(
    r"^```(?P<kind>python|text)\n(?P<content>.*?)^```$|^!\[[^]]*\]\((?P<image>[^)]*images/pages/[^)]*)\)",
    re.MULTILINE | re.DOTALL,
)
FIGURE_DPI = 110


def run_page(path: Path, writes_figures: bool = False) -> list[str]:
    """Run one page and return what does not agree."""
    page = sys.modules["page"] = types.ModuleType(
        "page"
    )  # dataclasses look up the module that they are defined in
    printed, complaints = "", []
    for match in BLOCK.finditer(path.read_text()):
        kind, content, image = match.groups()
        if image is not None:
            complaints += _show_figure(path.parent / image, writes_figures)
        elif kind == "python":
            plt.close("all")
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                # Line numbers are those of the page, and what this file imports from the future is not the page's.
                lines = "\n" * path.read_text().count("\n", 0, match.start("content"))
                exec(
                    compile(lines + content, str(path), "exec", dont_inherit=True),
                    page.__dict__,
                )
            printed = stream.getvalue()
        elif content.strip() != printed.strip():
            complaints.append(
                f"expected\n{content.rstrip()}\nbut it prints\n{printed.rstrip()}"
            )
    plt.close("all")
    return complaints


def _show_figure(image: Path, is_written: bool) -> list[str]:
    """Write the figure of the block before, and return what is wrong with it."""
    if not plt.get_fignums():
        return [f"{image.name} is shown, but the block before it draws nothing"]
    if is_written:
        image.parent.mkdir(parents=True, exist_ok=True)
        plt.gcf().savefig(image, dpi=FIGURE_DPI, bbox_inches="tight")
    return [] if image.exists() else [f"{image.name} is not there; --figures writes it"]


def main() -> None:
    """Run the pages that the command line names, or all."""
    matplotlib.use("Agg")
    warnings.simplefilter("error", DeprecationWarning)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="*", help="paths within docs; default: all")
    parser.add_argument(
        "--figures", action="store_true", help="write the figures that pages show"
    )
    arguments = parser.parse_args()
    every = (DOCS.glob(pattern) for pattern in ("*.md", "guide/*.md", "howto/*.md"))
    wanted = [DOCS / name for name in arguments.pages] or sorted(
        path for paths in every for path in paths
    )
    n_complaints = 0
    for path in wanted:
        if path.name in LEFT_OUT:
            continue
        start = time.perf_counter()
        complaints = run_page(path, arguments.figures)
        n_complaints += len(complaints)
        print(
            f"{path.relative_to(DOCS)}: {'differs' if complaints else 'ok'}, {time.perf_counter() - start:.0f} s"
        )
        print("".join(f"{complaint}\n" for complaint in complaints), end="", flush=True)
    sys.exit(n_complaints > 0)


if __name__ == "__main__":
    main()
