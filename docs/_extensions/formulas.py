"""Formulas in docstrings: an indented block among their opening paragraphs keeps its lines and is taken literally."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["literal_formulas", "setup"]


def literal_formulas(lines: list[str]) -> list[str]:
    """Put ``::`` before what stands indented between paragraphs; sections such as Parameters stay as they are."""
    end = next((k - 1 for k, line in enumerate(lines) if re.fullmatch(r"-{3,}", line.strip())), len(lines))
    found: list[str] = []
    inside = False
    for before, line in zip(["", *lines], lines[:end], strict=False):
        if line.strip() and not line.startswith(" "):
            inside = False
        elif line.startswith("    ") and not before.strip() and not inside:
            found += ["::", ""]
            inside = True
        found.append(line)
    return found + lines[end:]


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = literal_formulas(lines)


def setup(app: Any) -> dict[str, bool]:
    """Come before numpydoc, which reads the sections."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
