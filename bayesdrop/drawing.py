"""What all pictures share: colours that the colour-blind can tell apart (Okabe & Ito 2008), axes and their frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._validation import check_axes

__all__ = [
    "BLUE",
    "CHAIN_COLORS",
    "GREEN",
    "ORANGE",
    "VERMILLION",
    "label_points",
    "literal",
    "new_axes",
    "plain_frame",
    "shortened",
]

BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
CHAIN_COLORS = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", VERMILLION, "#000000", "#F0E442")


def new_axes(ax: Any, width: float, height: float) -> Any:
    """The given axes, or new ones of a size in inches; raise TypeError on what is neither axes nor None."""
    if check_axes(ax) is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def literal(text: Any) -> str:
    r"""Text from data as matplotlib draws it letter by letter: no formula between dollar signs, no half letters.

    A label that begins with an underscore would be left out of a legend, so that it gets a space of no width before it.

    Examples
    --------
    >>> print(literal("a $_$"))
    a \$_\$
    """
    plain = str(text).encode("utf-8", "replace").decode()
    plain = "".join(letter if letter.isprintable() else "\ufffd" for letter in plain).replace("$", r"\$")
    return f"\u200b{plain}" if plain.startswith("_") else plain


def shortened(name: str, limit: int = 32) -> str:
    """Text from data of at most so many letters, as :func:`literal` draws it."""
    return literal(name if len(name) <= limit else f"{name[: limit - 1]}…")


def label_points(ax: Any, x: Any, y: Any, names: Sequence[str], chosen: Any) -> None:
    """Name points, each at the first of four places where it covers neither a point nor another name."""
    ax.figure.canvas.draw()
    renderer = ax.figure.canvas.get_renderer() if hasattr(ax.figure.canvas, "get_renderer") else None
    points = ax.transData.transform(np.column_stack([x, y]))
    frame = ax.get_window_extent(renderer)
    taken: list[Any] = []
    for d in chosen:
        outward = ((7, 0, "left"), (-7, 0, "right")) if x[d] >= 0 else ((-7, 0, "right"), (7, 0, "left"))
        for dx, dy, side in (*outward, (0, 9, "center"), (0, -9, "center")):
            text = ax.annotate(
                shortened(names[d], 28), (x[d], y[d]), xytext=(dx, dy), textcoords="offset points", ha=side,
                va="center", fontsize=8,
            )  # fmt: skip
            box = text.get_window_extent(renderer)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 + 4 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            covered = np.any(
                (points[:, 0] > box.x0 - 3) & (points[:, 0] < box.x1 + 3)
                & (points[:, 1] > box.y0 - 3) & (points[:, 1] < box.y1 + 3)
            )  # fmt: skip
            if inside and not covered and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def plain_frame(ax: Any) -> None:
    """Leave out the lines above and to the right."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
