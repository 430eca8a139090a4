"""Settings of the site that `make docs` builds: the pages of the repository, and the reference from the docstrings.

The source folder is the whole repository, so that a link between two pages is the same in the repository and on the
site. The modules next to this file do what Sphinx has no setting for.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "python"), str(HERE)]
sys.dont_write_bytecode = True

import docstrings  # noqa: E402 - found by the path above
import pages  # noqa: E402
import stubs  # noqa: E402

project = "delaymq"
version = tomllib.loads((ROOT / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "docs/**.rst", "benches/*.md", "packaging/*.md", "tests/*/README.md"]
exclude_patterns = ["docs/site", "dist", "python", "rust", "target", ".*"]
# A name in single backticks is code, and a link where it is a name of ours.
default_role = "py:obj"
myst_heading_anchors = 4

autodoc_default_options = {"members": True, "inherited-members": "object", "member-order": "bysource"}
autodoc_typehints_format = "short"
# The reference is built without these imports of the package.
autodoc_mock_imports = ["hypothesis", "pandas", "pyarrow", "pyspark", "pytest"]
python_maximum_signature_line_length = 88
python_display_short_literal_types = True
add_module_names = False

html_theme = "furo"
html_title = f"delaymq {version}"
html_copy_source = False
html_show_copyright = False
html_domain_indices = False
templates_path = ["templates"]
html_additional_pages = {"index": "redirect.html"}


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    stubs.install(ROOT / "python")
    docstrings.connect(app)
    pages.connect(app)
