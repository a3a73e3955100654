"""What the benchmarks share: command lines, tables, files of results, and processes of their own."""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import warnings
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sklearn_graphid

if TYPE_CHECKING:
    import pandas as pd

RESULTS = Path(__file__).parent / "results"


def command_line(
    description: str | None, quick: str, n_jobs: bool = False, deezer: bool = False
) -> argparse.ArgumentParser:
    """A parser with `--quick` and, where they are asked for, `--n-jobs` and `--zip`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    if n_jobs:
        parser.add_argument("--n-jobs", type=int, default=2)
    if deezer:
        parser.add_argument("--zip", dest="zip_path", help="a local deezer_ego_nets.zip")
    return parser


def table(head: Sequence[str], rows: Iterable[Iterable[Any]], forms: str | Sequence[str] = ".3g") -> str:
    """A table in Markdown; floats have the form of their column, or the one form of all, and None is an empty cell."""
    columns = [forms] * len(head) if isinstance(forms, str) else forms
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [_cell(value, form) for value, form in zip(row, columns, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(value: Any, form: str) -> str:
    if value is None:
        return ""
    return format(value, form) if isinstance(value, float) else str(value)


def publish(name: str, text: str, rows: Any = None) -> None:
    """Print the tables, and write them and the rows that they come from to the folder of results."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).with_suffix(".md").write_text(text + "\n")
    if rows is not None:
        write_rows(name, rows)
    print(text)


def write_rows(name: str, rows: Any) -> None:
    """Write the rows that tables come from to the folder of results, all or nothing."""
    path = (RESULTS / name).with_suffix(".json")
    RESULTS.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(rows, indent=2) + "\n")
    unfinished.replace(path)


def read_rows(name: str) -> list[dict[str, Any]]:
    """The rows of an earlier run, none where there was no run."""
    path = (RESULTS / name).with_suffix(".json")
    rows: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return rows


def code_version() -> str:
    """A number that changes with the source of the package, so that rows of different code are told apart."""
    package = Path(sklearn_graphid.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def all_fitted(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame of `identify_many`, or the first error in it: a mean over the systems that went well says little."""
    failed = frame[frame["error_type"].notna()]
    if len(failed):
        name, kind, message = failed.iloc[0][["name", "error_type", "error_message"]]
        raise RuntimeError(f"system {name}: {kind}: {message}")
    return frame


def in_own_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a new process, whose peak memory is then its own.

    On Linux a process that this one starts counts the memory of this one in its peak. One that a server forks does not.
    It keeps its warnings to itself, as runs to be measured are too short to be of other use.
    """
    context = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, context, initializer=warnings.simplefilter, initargs=("ignore",)) as executor:
        return executor.submit(function, *arguments).result()
