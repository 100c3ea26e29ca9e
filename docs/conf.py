"""Settings of the pages: ``make docs`` builds them without a network, and warnings are errors."""

import shutil
import sys
from pathlib import Path

import bayesdrop

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

project, author, copyright = "bayesdrop", "the bayesdrop authors", "the bayesdrop authors"  # noqa: A001
release = version = bayesdrop.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
    "formulas",
    "offline",
]
exclude_patterns = ["_*"]
templates_path = ["_templates"]
html_static_path = ["_static"]

html_theme = "pydata_sphinx_theme"
html_title = "bayesdrop"
html_show_sourcelink = False
html_math_renderer = "mathml"
html_css_files = ["pages.css"]
html_theme_options = {
    "navbar_center": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"**": ["navigation"]}

# Names are shown where they are public, with their parameters by the docstrings' words: annotations give shapes twice.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
python_use_unqualified_type_names = True

# Notebooks are shown with the outputs that they are stored with: `make notebooks` makes those.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _notebooks_beside_the_pages() -> None:
    """Sphinx reads one folder: the notebooks are copied into it, and git ignores the copies."""
    target = HERE / "notebooks"
    for made in (target, HERE / "api" / "generated"):  # what is no longer there would be a page without a place
        shutil.rmtree(made, ignore_errors=True)
    target.mkdir()
    for path in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        shutil.copy2(path, target)


_notebooks_beside_the_pages()
