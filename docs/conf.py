"""How Sphinx makes the site of these pages: `make docs` writes it to build/docs.

Nothing is fetched and nothing is executed while it is built; notebooks show the outputs they hold.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
FOLDERS = ("howto/index", "coming-from/index", "reference/README")

project = "trtbench"
release = version = __version__
copyright = "trtbench, Apache-2.0"
extensions = ["myst_nb"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nb_execution_mode = "off"
nitpicky = True
exclude_patterns = ["examples/**"]
templates_path: list[str] = []
highlight_language = "none"
smartquotes = False  # flags and quotes are shown as they are typed
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"trtbench {__version__}"
html_show_sphinx = False
html_copy_source = False


def list_pages(_app: Sphinx, name: str, content: list[str]) -> None:
    """Let every page have its place: beside the index under ``{rest}``, in folders below theirs."""
    if name == "index":
        named = {line.strip() for line in content[0].splitlines()}
        pages = sorted({each.stem for each in HERE.glob("*.md")} - named - {"index"})
        content[0] = content[0].replace("{rest}", "\n".join(pages))
    elif name in FOLDERS:
        content[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def setup(app: Sphinx) -> None:
    """Write the reference, and hear of every page before it is read."""
    from reference import write_pages

    write_pages(HERE / "reference")
    app.connect("source-read", list_pages)
