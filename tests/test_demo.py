"""The demo and the README's example run from end to end, and what they print and draw is true."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from sklearn_graphid.datasets import make_grid_graphs
from sklearn_graphid.metrics import edge_f1_score

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "benchmarks" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    specification = importlib.util.spec_from_file_location("demo", DEMO)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_demo_prints_a_table_and_writes_a_picture(demo, tmp_path, capsys):
    picture = tmp_path / "small.png"
    results = demo.main(["--output", str(picture), "--n-chains", "1", "--n-experiments", "4"])
    printed = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "215 of its 861 pairs of nodes; 26 of them are edges" in printed
    rows = re.findall(r"^(\w+), (?:learned|no) prior +(\d\.\d\d) +(\d\.\d{3}) +(\d+\.\d{3}) +(\d+\.\d)$", printed, re.M)
    names = ["LangevinSystemIdentifier", "LikelihoodLangevinIdentifier", "AdamSystemIdentifier"]
    assert [row[0] for row in rows] == names
    case = demo.make_case(4)
    for row, identifier in zip(rows, results["estimator"], strict=True):
        f1 = edge_f1_score(case.true_adjacency, identifier.adjacency_, case.known_mask)
        assert row[1] == f"{f1:.2f}"
        assert f"{row[0]} found" in printed
    widths = {len(line) for line in printed.splitlines() if re.search(r" prior +\d|theta NRMSE", line)}
    assert len(widths) == 1


@pytest.mark.parametrize("seed", range(3))
def test_grid_shape_sees_through_the_extra_edges(demo, seed):
    adjacency = make_grid_graphs(1, shuffle_nodes=False, random_state=seed)[0]
    height, width = demo.grid_shape(adjacency)
    assert height * width == len(adjacency)
    with pytest.raises(ValueError, match="row by row"):
        demo.grid_shape(np.zeros((6, 6)))


def without_numbers(text):
    """Other processors round otherwise, and samplers make much of little; words and their order stay."""
    return re.sub(r"[-.\d]+", "#", text).split()


def test_the_code_in_the_readme_prints_what_it_says(capsys):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)
    variables = {}
    exec(compile(code, "README.md", "exec"), variables)
    assert without_numbers(capsys.readouterr().out) == without_numbers(shown)
    assert edge_f1_score(variables["network"], variables["identifier"].adjacency_, variables["known"]) > 0.6


@pytest.mark.parametrize("page", ["README.md", "docs/start.md"])
def test_requirements_are_those_of_the_package(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = " ".join((ROOT / page).read_text().split())
    required = dict(requirement.split(">=") for requirement in project["dependencies"])
    required["Python"] = project["requires-python"].removeprefix(">=")
    for name in ("safetensors", "jinja2"):  # of no concern to anybody who does not have them yet
        del required[name]
    for name, version in required.items():
        assert f"{name} {version}" in text
