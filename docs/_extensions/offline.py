"""The built pages load nothing from elsewhere: no script, style, font or picture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.errors import SphinxError

__all__ = ["loaded_from_elsewhere", "setup"]

_LOADED = re.compile(
    r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"((?:https?:)?//[^\"]+)\"|url\(\"?(https?://[^)\"]+)"
)


def loaded_from_elsewhere(text: str) -> list[str]:
    """Addresses on other hosts that a page or a style sheet would fetch when it is looked at; links are no such."""
    return ["".join(found) for found in _LOADED.findall(text)]


def _check(app: Any, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        files = [path for kind in ("*.html", "*.css") for path in Path(app.outdir).rglob(kind)]
        found = {path.name: got for path in files if (got := loaded_from_elsewhere(path.read_text(encoding="utf-8")))}
        if found:
            raise SphinxError(f"pages that load something from elsewhere: {found}")


def setup(app: Any) -> dict[str, bool]:
    """Look when all is written."""
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
