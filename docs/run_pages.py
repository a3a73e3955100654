"""Run the Python blocks of every page, and compare what they print with the text block that follows.

    python docs/run_pages.py             # all pages
    python docs/run_pages.py start.md    # some of them

The blocks of a page share their names. A block that cannot run here is written as a `code-block` directive.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
import types
import warnings
from pathlib import Path

import matplotlib

DOCS = Path(__file__).parent
# index.md shows a call on data that are yours.
LEFT_OUT = {"index.md"}
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(path: Path) -> list[str]:
    """Run one page and return what does not agree."""
    page = sys.modules["page"] = types.ModuleType("page")  # dataclasses look up the module that they are defined in
    printed, complaints = "", []
    for match in BLOCK.finditer(path.read_text()):
        kind, content = match.groups()
        if kind == "python":
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                # Line numbers are those of the page, and what this file imports from the future is not the page's.
                lines = "\n" * path.read_text().count("\n", 0, match.start(2))
                exec(compile(lines + content, str(path), "exec", dont_inherit=True), page.__dict__)
            printed = stream.getvalue()
        elif content.strip() != printed.strip():
            complaints.append(f"expected\n{content.rstrip()}\nbut it prints\n{printed.rstrip()}")
    return complaints


def main() -> None:
    """Run the pages that the command line names, or all."""
    matplotlib.use("Agg")
    warnings.simplefilter("error", DeprecationWarning)
    wanted = [DOCS / name for name in sys.argv[1:]] or sorted([*DOCS.glob("*.md"), *DOCS.glob("guide/*.md")])
    n_complaints = 0
    for path in wanted:
        if path.name in LEFT_OUT:
            continue
        start = time.perf_counter()
        complaints = run_page(path)
        n_complaints += len(complaints)
        print(f"{path.relative_to(DOCS)}: {'differs' if complaints else 'ok'}, {time.perf_counter() - start:.0f} s")
        print("".join(f"{complaint}\n" for complaint in complaints), end="", flush=True)
    sys.exit(n_complaints > 0)


if __name__ == "__main__":
    main()
