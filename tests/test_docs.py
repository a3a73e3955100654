"""The checks behind `make pages` and `make links` pass over what is right, and name what is not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
GOOD = """<h1 id="first">One</h1><a href="#first">up</a><a href="guide/two.html?highlight=x#second">on</a>
<img src="plot%201.png" srcset="plot%201.png, guide/large.png 2.00x"><a href="https://example.org/a?b#c">out</a>
<a href="guide/">a folder</a><a href="">here</a><a href="#">top</a><a href="mailto:us@example.org">write</a>"""


def script(name):
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def check_links():
    return script("check_links")


@pytest.fixture
def site(tmp_path):
    site = tmp_path / "site"
    (site / "guide").mkdir(parents=True)
    (site / "index.html").write_text(GOOD)
    (site / "guide" / "index.html").write_text('<a href="../index.html#first">back</a>')
    (site / "guide" / "two.html").write_text('<a name="second"></a>')
    (site / "plot 1.png").touch()
    (site / "guide" / "large.png").touch()
    (site / "_static").mkdir()
    (site / "_static" / "part.html").write_text('<a href="{{ pathto(page) }}">a template</a>')
    (tmp_path / "elsewhere.html").touch()  # is there now, but would not be published
    return site


def test_good_links_pass(check_links, site, capsys):
    assert check_links.main([str(site)]) == 0
    assert capsys.readouterr().out == "11 links, 0 of them broken\n"


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ('<a href="three.html">', "'three.html': no file guide/three.html"),
        ('<a href="../index.html#third">', "'../index.html#third': no place #third in index.html"),
        ('<a href="#third">', "'#third': no place #third in guide/two.html"),
        ('<img src="../plot.png">', "'../plot.png': no file plot.png"),
        ('<img srcset="large.png, larger.png 2.00x">', "'larger.png': no file guide/larger.png"),
        ('<a href="../../elsewhere.html">', "'../../elsewhere.html': outside the site"),
        ('<a href="/index.html">', "'/index.html': outside the site"),
        ('<a href="https://example org">', "'https://example org': not an address"),
        ('<a href="https//example.org">', "'https//example.org': no file guide/https/example.org"),
        ('<a href="mailto:us">', "'mailto:us': not an address"),
    ],
)
def test_broken_link_is_named_with_page_and_line(check_links, site, capsys, tag, reason):
    (site / "guide" / "two.html").write_text(f'<p id="second">\n{tag}')
    assert check_links.main([str(site)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first == f"guide/two.html:2: {reason}"
    assert last.endswith(" 1 of them broken")


def test_site_that_is_not_built_does_not_pass(check_links, tmp_path, capsys):
    assert check_links.main([str(tmp_path)]) == 1
    assert "make docs builds them" in capsys.readouterr().out


def test_page_that_prints_or_draws_something_else_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n![A plot.](images/pages/plot.png)\n")
    complaints = script("run_pages").run_page(page)
    assert len(complaints) == 2
    assert "expected\n3\nbut it prints\n2" in complaints[0]
    assert "draws nothing" in complaints[1]
