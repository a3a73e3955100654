"""How the documentation is built."""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

from sphinx_gallery.sorting import ExplicitOrder

import sklearn_graphid

sys.path.insert(0, str(Path(__file__).parent))  # for the extension that is beside this file

project = "sklearn_graphid"
author = "The sklearn_graphid developers"
project_copyright = f"2026, {author}"
version = release = sklearn_graphid.__version__

extensions = [
    "link_names",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # formulas without a network: MathJax is a part of the site
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "auto_examples/**.ipynb", "auto_examples/**.md5", "examples/**"]

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    # Not beside examples, which have few headings and long lines of code.
    "secondary_sidebar_items": {page: ["page-toc"] for page in ("*", "guide/*", "generated/*")},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["version.html", "theme-switcher"],
    "footer_start": ["copyright", "citing.html"],
}
# Repository and issue tracker, from [project.urls] in pyproject.toml, once the project has them.
_icons = {"Repository": "fa-solid fa-code-branch", "Issues": "fa-solid fa-circle-exclamation"}
_addresses = (
    entry.split(", ", 1) for entry in metadata("sklearn-graphid").get_all("Project-URL", [])
)
if links := [
    {"name": n, "url": url, "icon": _icons[n]} for n, url in _addresses if n in _icons
]:
    html_theme_options["icon_links"] = links
    html_theme_options["navbar_end"].append("navbar-icon-links")
    html_theme_options["footer_end"] = ["navbar-icon-links", "theme-version"]
html_title = "sklearn_graphid"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_js_files = [("figures.js", {"defer": "defer"})]
# Pages without pages beneath them need no list of these.
html_sidebars = {
    page: []
    for page in (
        "index",
        "start",
        "for_*",
        "which_method",
        "method",
        "faq",
        "changelog",
        "citing",
        "contributing",
    )
}
html_show_sourcelink = False
html_copy_source = False

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"  # a class has long pages and a narrow list beside them
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# From the first look to the inner workings.
examples = [
    "plot_signal_on_graph.py",
    "plot_hidden_edges.py",
    "plot_heat_on_ego_net.py",
    "plot_state_incomes.py",
    "plot_power_grid.py",
    "plot_water_network.py",
    "plot_real_network.py",
    "plot_how_certain.py",
    "plot_on_paper.py",
    "plot_next_experiment.py",
    "plot_did_it_mix.py",
    "plot_predictive_check.py",
    "plot_compare_identifiers.py",
    "plot_grid_search_filters.py",
    "plot_partial_outputs.py",
    "plot_your_own_filter.py",
    "plot_train_a_prior.py",
    "plot_paper_figures.py",
    "*",
]

sphinx_gallery_conf = {
    "within_subsection_order": ExplicitOrder(examples),
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "backreferences_dir": "generated/backreferences",  # for the examples on the pages of the reference
    "doc_module": ("sklearn_graphid",),
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,  # its page would fetch styles from the network
    "remove_config_comments": True,
    "abort_on_example_error": True,
}


def _format_warning(message: Any, category: type[Warning], *_: Any) -> str:
    """What an example warns of is for the reader; in which file of which machine is not."""
    return f"{category.__name__}: {message}\n"  # on one line, which wide.css breaks where the page ends


warnings.formatwarning = _format_warning
