"""Formulas as MathML, which browsers draw themselves: a page fetches no script and no font for them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

__all__ = ["setup"]


def _inline(visitor: Any, node: nodes.math) -> None:
    visitor.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def _block(visitor: Any, node: nodes.math_block) -> None:
    label = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    visitor.body.append(f'<div class="math-block"{label}>{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer; ``html_math_renderer = "mathml"`` chooses it."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
