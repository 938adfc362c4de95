"""How the documentation is built: `make docs`."""

from sketchridge import __version__

project = "sketchridge"
copyright = "the sketchridge developers"
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
html_theme = "furo"
html_title = "sketchridge"

# Headings are link targets, as they are where the pages are read as plain Markdown.
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say more
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


def skip_routing(app, what, name, obj, skip, options):
    """Leave out scikit-learn's own methods for metadata routing, which its documentation has."""
    return skip or name.endswith("_request") or name == "get_metadata_routing"


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-skip-member", skip_routing)
