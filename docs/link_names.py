"""A Sphinx extension: names of the package in the text, such as `KnownEdges`, link to their pages of the reference."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

# A name alone, with what it is called with, or with one of its methods: `KnownEdges`,
# `LangevinSystemIdentifier(directed=True)`, `KnownEdges.from_array(partial)`.
_NAME = re.compile(r"(?:\w+\.)*?(?:(\w+)\.)?(\w+)(?:\(.*\))?")


def link_names(app: Any, doctree: nodes.document, page: str) -> None:
    """Make every literal that is a public name a link, but not on the name's own page, in links and in headings."""
    pages = {
        found.rpartition(".")[-1]: found
        for found in app.env.found_docs
        if found.startswith("generated/")
    }
    for literal in list(doctree.findall(nodes.literal)):
        match = _NAME.fullmatch(literal.astext())
        owner, name = match.groups() if match else (None, "")
        target = pages.get(name) or pages.get(owner)
        if (
            target is None
            or target == page
            or _is_within(literal, (nodes.reference, nodes.title))
        ):
            continue
        # Methods have a place on the page of their class.
        method = "" if name in pages else f"{target.removeprefix('generated/')}.{name}"
        place = f"#{method}" if method in app.env.domaindata["py"]["objects"] else ""
        link = nodes.reference(
            "", "", internal=True, refuri=app.builder.get_relative_uri(page, target) + place
        )
        literal.replace_self(link)
        link += literal


def _is_within(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    parent = node.parent
    while parent is not None:
        if isinstance(parent, kinds):
            return True
        parent = parent.parent
    return False


def setup(app: Any) -> dict[str, bool]:
    """Register."""
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
