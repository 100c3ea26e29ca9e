"""What all pictures share: colours that the colour-blind can tell apart (Okabe & Ito 2008), axes and their frame."""

from __future__ import annotations

from typing import Any

from ._validation import check_axes

__all__ = ["BLUE", "CHAIN_COLORS", "GREEN", "ORANGE", "VERMILLION", "literal", "new_axes", "plain_frame"]

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


def plain_frame(ax: Any) -> None:
    """Leave out the lines above and to the right."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
