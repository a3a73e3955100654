"""The how-tos run from top to bottom, print what they say they print, and draw what they show."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted((DOCS / "howto").glob("*.md"))


@pytest.fixture(scope="module")
def run_pages():
    specification = importlib.util.spec_from_file_location("run_pages", DOCS / "run_pages.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_there_are_five():
    assert len(PAGES) == 5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_prints_and_draws_what_it_says(run_pages, page):
    assert run_pages.run_page(page) == []


def test_page_that_prints_something_else_is_found(run_pages, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n![A plot.](images/pages/plot.png)\n")
    complaints = run_pages.run_page(page)
    assert len(complaints) == 2
    assert "expected\n3\nbut it prints\n2" in complaints[0]
    assert "draws nothing" in complaints[1]
