"""The site: Markdown pages of this folder, built by `make docs` into build/site."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import sfumato

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

# The notebooks are examples; the site shows copies of them.
NOTEBOOKS = HERE / "notebooks"
NOTEBOOKS.mkdir(exist_ok=True)
for notebook in sorted((HERE.parent / "examples" / "notebooks").glob("*.ipynb")):
    copy = NOTEBOOKS / notebook.name
    if not copy.is_file() or copy.read_bytes() != notebook.read_bytes():
        shutil.copyfile(notebook, copy)

project = "sfumato"
author = "the authors of sfumato"
copyright = author
release = sfumato.__version__
version = "dev" if "dev" in release else release

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "api",
    "outside",
    "railroad_grammar",
    "schema",
]
exclude_patterns = ["_ext", "_build", "reference/notes"]  # notes: see api.py

# Pages are plain Markdown, which GitHub shows as well; headings have its anchors.
myst_enable_extensions = ["colon_fence", "deflist", "substitution"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks carry their outputs; a test runs them
suppress_warnings = [
    "toc.not_included",  # tests/docs has the pages that no list names
]

highlight_language = "none"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "pydata_sphinx_theme"
html_title = "sfumato"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": "sfumato"},
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "navbar_end": ["version-switcher", "theme-switcher"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "search_as_you_type": True,
    # A site of several versions has this file once, above them all; see _static/versions.json.
    "switcher": {"json_url": "_static/versions.json", "version_match": version},
    "check_switcher": False,
}
