"""Formulas as MathML, which browsers draw themselves: a page fetches no script and no font for them."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util.logging import getLogger

__all__ = ["setup"]


def _mathml(node: nodes.Element, display: str) -> str:
    found: str = convert(node.astext(), display=display)
    # The converter leaves a brace or a norm of a given size as it is written.
    found = re.sub(r">\\([{}|])<", lambda part: ">‖<" if part[1] == "|" else f">{part[1]}<", found)
    if "\\" in found or "&#x0005C;" in found:
        getLogger(__name__).warning("a command in %r is not understood", node.astext(), location=node)
    return found


def _inline(visitor: Any, node: nodes.math) -> None:
    visitor.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _block(visitor: Any, node: nodes.math_block) -> None:
    label = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    visitor.body.append(f'<div class="math-block"{label}>{_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer; ``html_math_renderer = "mathml"`` chooses it."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
