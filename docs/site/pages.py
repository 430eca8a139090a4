"""Pages of the repository become pages of the site. A check finds what a page would fetch from another host."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

LOGGER = getLogger(__name__)

NAVIGATION = """

```{eval-rst}
.. include:: /docs/site/navigation.rst
```
"""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)\)")
# Addresses that a browser fetches by itself. A link that a reader follows is not among them.
FETCHED = re.compile(r"""<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
FETCHED_BY_STYLE = re.compile(r"""(?:@import|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")


def connect(app: Sphinx) -> None:
    """Connects all below."""
    app.connect("source-read", read_page)
    app.connect("build-finished", warn_of_outside)


def read_page(app: Sphinx, page: str, text: list[str]) -> None:
    """Adds the navigation to the front page; a link to a folder leads to its index, and is plain text without one."""

    def resolved(link: re.Match[str]) -> str:
        folder = (Path(app.srcdir) / page).parent / link[2]
        if not folder.is_dir():
            return link[0]
        indices = [name for name in ("README.md", "index.rst") if (folder / name).exists()]
        return f"[{link[1]}]({link[2].rstrip('/')}/{indices[0]})" if indices else link[1]

    text[0] = LINK.sub(resolved, text[0])
    if page == app.config.root_doc:
        text[0] += NAVIGATION


def warn_of_outside(app: Sphinx, error: Exception | None) -> None:
    """Warns where a page or a style has a browser fetch something from another host."""
    if error is not None:
        return
    for file in sorted(Path(app.outdir).rglob("*")):
        if file.suffix in (".html", ".css"):
            pattern = FETCHED if file.suffix == ".html" else FETCHED_BY_STYLE
            if found := pattern.search(file.read_text("utf-8")):
                LOGGER.warning("%s has a browser fetch %s", file, found[1])
