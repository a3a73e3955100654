"""A real browser shows a report whole, on telephones and on a screen."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import warnings

import pandas as pd
import pytest
from report_pages import SHORT, Page, few_experiments

from sklearn_graphid import LangevinSystemIdentifier

pytestmark = pytest.mark.usefixtures("real_pictures")

# Looks into a page at the widths of two telephones and of a screen, and writes what it sees.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><body><pre id="seen"></pre><script>
const widths = [360, 390, 1200], seen = [];
// Words of a cell that take more than one line; a line may end after a blank or a hyphen.
function broken(cell) {
  const words = [], walker = cell.ownerDocument.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) for (const word of walker.currentNode.data.matchAll(/[^\\s-]+/g)) {
    const range = cell.ownerDocument.createRange();
    range.setStart(walker.currentNode, word.index);
    range.setEnd(walker.currentNode, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) words.push(word[0]);
  }
  return words;
}
function look(width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:800px;border:0`;
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement;
    page.querySelectorAll("details").forEach(folded => folded.open = true);
    const pictures = [...page.images].map(image => ({alt: image.alt, drawn: image.complete && image.naturalWidth > 100,
      fits: image.getBoundingClientRect().right <= root.clientWidth + 1,
      // A wide picture on a telephone keeps its size, and its own box is moved sideways.
      scrolls: image.parentElement.getBoundingClientRect().right <= root.clientWidth + 1
        && getComputedStyle(image.parentElement).overflowX === "auto"}));
    seen.push({width, pictures, overflow: root.scrollWidth - root.clientWidth, title: page.title,
      broken: [...page.querySelectorAll("td.name, th.name")].flatMap(broken),
      cut: [...page.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth + 1)
        .map(box => box.firstChild.id),
      tables: Object.fromEntries([...page.querySelectorAll("table")].map(table => [table.id, table.rows.length])),
      scripts: page.scripts.length, ink: frame.contentWindow.getComputedStyle(page.body).color});
    if (seen.length == widths.length) document.getElementById("seen").textContent = JSON.stringify(seen);
    else look(widths[seen.length]);
  };
  frame.src = REPORT;
  document.body.append(frame);
}
look(widths[0]);
</script></body>"""


def browse(path, folder):
    """What a headless Chromium sees of a page, and its messages."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium is installed on this machine")
    probe = folder / "probe.html"
    probe.write_text(PROBE.replace("REPORT", json.dumps(path.as_uri())), encoding="utf-8")
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}"]
    # The sandbox needs rights that a container may lack; the page was written by the test itself.
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        *quiet,
        "--allow-file-access-from-files",
        "--enable-logging=stderr",
    ]
    command += ["--virtual-time-budget=20000", "--dump-dom", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def assert_shown_whole(path, folder, n_pictures):
    seen, messages = browse(path, folder)
    assert not messages
    assert [view["width"] for view in seen] == [360, 390, 1200]
    for view in seen:
        assert len(view["pictures"]) == n_pictures
        assert all(picture["drawn"] for picture in view["pictures"]), view
        assert all(picture["fits"] or picture["scrolls"] for picture in view["pictures"]), view
        assert all(picture["fits"] for picture in view["pictures"]) == (view["width"] == 1200)
        assert view["overflow"] <= 0
        assert view["scripts"] == 0
        assert view["ink"] != "rgb(0, 0, 0)"  # the page's own style is applied
    return seen


def test_a_browser_shows_tables_and_pictures(fitted, tmp_path):
    path = fitted.report(tmp_path / "report.html")
    seen = assert_shown_whole(path, tmp_path, n_pictures=5)
    expected = {name: len(rows) for name, rows in Page(path.read_text(encoding="utf-8")).tables.items()}
    assert all(view["tables"] == expected for view in seen)
    assert seen[0]["title"] == "LangevinSystemIdentifier: 16 nodes"


def test_a_telephone_shows_names_unbroken_and_tables_whole(grid, tmp_path):
    """With strengths there are seven columns, which do not fit beside one another."""
    X, Y = few_experiments(grid)
    names = [f"Umspannwerk Obertürkheim {node}" for node in range(8)] + [f"Reutlingen-West{node}" for node in range(8)]
    settings = {**SHORT, "n_sweeps": 4, "edge_weights": "positive"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few and noisy experiments
        fitted = LangevinSystemIdentifier("polynomial", **settings).fit(pd.DataFrame(X, columns=names), Y)
    seen, _ = browse(fitted.report(tmp_path / "report.html"), tmp_path)
    for view in seen:
        assert view["broken"] == []
        assert view["cut"] == []


def test_a_browser_is_not_taken_in_by_names(hostile_path, tmp_path):
    assert_shown_whole(hostile_path, tmp_path, n_pictures=5)
