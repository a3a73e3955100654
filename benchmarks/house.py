"""How large is the house? Files, lines, records and constants of the package, and what a default fit passes.

    python benchmarks/house.py

A default fit is followed by `sys.setprofile`: which files of the package it enters, how many functions, how deep, and
which record types (dataclasses and named tuples) it makes.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import networkx as nx

import sklearn_graphid
from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system

ROOT = Path(sklearn_graphid.__file__).parent


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass or a named tuple."""
    marks = [ast.unparse(part) for part in (*node.decorator_list, *node.bases)]
    return any(mark.startswith(("dataclass", "NamedTuple")) for mark in marks)


def is_numeric_constant(node: ast.stmt) -> bool:
    """Whether a statement of a module gives names to numbers."""
    if not isinstance(node, ast.Assign):
        return False
    values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    return all(
        isinstance(part, ast.Constant) and isinstance(part.value, int | float) and not isinstance(part.value, bool)
        for value in values
        for part in [value.operand if isinstance(value, ast.UnaryOp) else value]
    )


def count_source() -> dict[str, int]:
    """Files, lines, classes, records and numeric module constants."""
    counts = dict.fromkeys(("files", "lines", "classes", "records", "numeric module constants"), 0)
    for path in ROOT.rglob("*.py"):
        text = path.read_text()
        tree = ast.parse(text)
        classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        counts["files"] += 1
        counts["lines"] += len(text.splitlines())
        counts["classes"] += len(classes)
        counts["records"] += sum(map(is_record, classes))
        counts["numeric module constants"] += sum(map(is_numeric_constant, tree.body))
    return counts


def follow_fit(**settings: Any) -> dict[str, int]:
    """Files, functions, records and depth of one fit."""
    graph = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    X, Y = make_system(graph, "polynomial", [0.1, 0.1, 0.05], n_experiments=20, random_state=0)
    known = hide_edges(graph, 0.3, random_state=0)
    functions: set[CodeType] = set()
    records: set[str] = set()
    deepest = depth = 0

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal deepest, depth
        code = frame.f_code
        if not code.co_filename.startswith(str(ROOT)):
            if code.co_name == "__new__" and "_cls" in frame.f_locals:  # of a named tuple
                kind = frame.f_locals["_cls"]
                if str(kind.__module__).startswith("sklearn_graphid"):
                    records.add(kind.__qualname__)
            if code.co_name == "__init__" and code.co_filename == "<string>" and "self" in frame.f_locals:
                kind = type(frame.f_locals["self"])  # of a dataclass
                if str(kind.__module__).startswith("sklearn_graphid"):
                    records.add(kind.__qualname__)
            return
        if event == "call":
            functions.add(code)
            depth += 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    identifier = LangevinSystemIdentifier(n_chains=2, random_state=0, verbose=False, **settings)
    sys.setprofile(profile)
    try:
        identifier.fit(X, Y, known)
    finally:
        sys.setprofile(None)
    print("records on the way:", ", ".join(sorted(records)))
    files = {code.co_filename for code in functions}
    return {"files": len(files), "functions": len(functions), "records": len(records), "deepest": deepest}


def main() -> None:
    """Print the counts."""
    print("package:", count_source())
    for name, settings in {"default fit": {}, "strengths": {"edge_weights": "positive"}}.items():
        print(f"{name}:", follow_fit(**settings))


if __name__ == "__main__":
    main()
