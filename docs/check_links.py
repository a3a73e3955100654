"""Check that every link of the built site leads somewhere.

    python docs/check_links.py                 # docs/_build/html
    python docs/check_links.py another/folder

Pages, places within pages, pictures, styles and downloads must be in the folder. Addresses of other sites are not
visited, as this also runs without a network; they must only have the form of an address.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parent / "_build" / "html"
LINKING = {"href", "src", "poster", "data"}
# What another site's address looks like: a host with a dot and no blanks, or somebody's mailbox.
OUTSIDE = re.compile(
    r"https?://[\w-]+(\.[\w-]+)+(:\d+)?([/?#]\S*)?|mailto:[^\s@]+@[^\s@]+\.\w+|data:.*",
    re.DOTALL,
)


class Page(HTMLParser):
    """The links of a page, with their lines, and the names of its places."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[tuple[int, str]] = []
        self.places = {"", "top"}  # both are the beginning of any page
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the tag links to, and what it can be found by."""
        for name, value in attrs:
            if name in LINKING and (name != "data" or tag == "object"):
                self.links.append((self.getpos()[0], (value or "").strip()))
            elif name == "srcset":
                # Pictures for several screens, each followed by its size.
                self.links += [
                    (self.getpos()[0], picture.split()[0])
                    for picture in (value or "").split(", ")
                ]
            elif (name == "id" or (name == "name" and tag == "a")) and value:
                self.places.add(value)


read_page = cache(Page)


def complaint(site: Path, page: Path, link: str) -> str:
    """Return what is wrong with a link; nothing where it leads somewhere."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return "" if OUTSIDE.fullmatch(link) else "not an address"
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not target.is_relative_to(site):
        return "outside the site"
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return f"no file {target.relative_to(site)}"
    place = unquote(parts.fragment)
    if place and target.suffix == ".html" and place not in read_page(target).places:
        return f"no place #{place} in {target.relative_to(site)}"
    return ""


def check_site(site: Path) -> tuple[int, list[str]]:
    """Return how many links the pages have, and a line for each that leads nowhere."""
    site = site.resolve()
    n_links, complaints = 0, []
    # What themes leave in _static are parts of pages.
    for page in (
        path
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.relative_to(site).parts
    ):
        for line, link in read_page(page).links:
            n_links += 1
            if reason := complaint(site, page, link):
                complaints.append(f"{page.relative_to(site)}:{line}: {link!r}: {reason}")
    return n_links, complaints


def main(arguments: list[str]) -> int:
    """Check the site that the command line names, and return the exit code."""
    site = Path(arguments[0]) if arguments else SITE
    if not any(site.rglob("*.html")):
        print(f"There are no pages in {site}; make docs builds them.")
        return 1
    n_links, complaints = check_site(site)
    print("".join(f"{complaint}\n" for complaint in complaints), end="")
    print(f"{n_links} links, {len(complaints)} of them broken")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
