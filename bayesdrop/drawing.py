"""What all pictures share: colours that the colour-blind can tell apart (Okabe & Ito 2008), axes and their frame."""

from __future__ import annotations

from typing import Any

__all__ = ["BLUE", "CHAIN_COLORS", "GREEN", "ORANGE", "VERMILLION", "new_axes", "plain_frame"]

BLUE, VERMILLION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
CHAIN_COLORS = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", VERMILLION, "#000000", "#F0E442")


def new_axes(ax: Any, width: float, height: float) -> Any:
    """The given axes, or new ones of a size in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def plain_frame(ax: Any) -> None:
    """Leave out the lines above and to the right."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
