"""A report as its reader takes it apart: tags, tables and words; and small fits to report."""

from __future__ import annotations

from html.parser import HTMLParser

from sklearn_graphid.datasets import make_system

SHORT = {"n_chains": 4, "n_levels": 3, "n_steps": 2, "n_sweeps": 12, "random_state": 0}
HOSTILE = [
    "<script>alert(1)</script>",
    "</table></main><h1>mine</h1>",
    '"><img src=x onerror=alert(1)>',
    "$\\frac{$ and $x_{",
    "a" * 300,
    "駅 😀 \ud800\nnew\x00 line & 'quote'",
]


class Page(HTMLParser):
    """The tags, tables and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.tables, self.words = [], [], {}, []
        self._table, self._is_in_cell = None, False
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag == "table":
            self._table = self.tables.setdefault(dict(attrs)["id"], [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._is_in_cell = False

    def handle_data(self, data):
        self.words.append(data)
        if self._is_in_cell:
            self._table[-1][-1] += data


def report_of(identifier, folder):
    path = identifier.report(folder / "report.html")
    assert path == folder / "report.html"
    return Page(path.read_text(encoding="utf-8"))


def few_experiments(grid):
    """Data that leave many pairs in doubt."""
    return make_system(grid, "polynomial", [0.3, 0.2, -0.05], n_experiments=2, noise_std=2.0, random_state=0)
