"""Plot of the inclusion probabilities of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import check_count, shown
from .style import BLUE, GREY, new_axes, plain_frame, shortened

__all__ = ["inclusion"]

_MOST_ROWS = 40


def inclusion(table: Any, *, top: int | None = None, ax: Any = None) -> Any:
    """Draw the inclusion probabilities of features, the largest first.

    Parameters
    ----------
    table : pandas.DataFrame
        Result of :func:`bayesdrop.weights_table` for a posterior under ``bd.SpikeSlab``.
    top : int, optional
        Maximum number of features shown; 40 by default.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    TypeError
        If ``table`` has no inclusion probabilities.

    See Also
    --------
    bayesdrop.weights_table, bayesdrop.credible_sets

    Examples
    --------
    >>> import pandas as pd
    >>> ax = inclusion(pd.DataFrame({"inclusion_probability": [0.1, 0.9]}, index=["age", "size"]))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['size', 'age']
    """
    if "inclusion_probability" not in getattr(table, "columns", ()):
        raise TypeError(
            "table: expected what bd.weights_table returned of a posterior under bd.SpikeSlab, a data frame with a "
            f"column 'inclusion_probability', got {shown(table)}."
        )
    chance = np.asarray(table["inclusion_probability"], dtype=float)
    chosen = np.argsort(-chance, kind="stable")[: _MOST_ROWS if top is None else check_count(top, "top")]
    rows, left_out = np.arange(len(chosen), dtype=float), len(chance) - len(chosen)
    names = [": ".join(row) if table.index.nlevels > 1 else str(row) for row in table.index]
    labels = [shortened(names[j]) for j in chosen]
    ax = new_axes(ax, 7.2, 1.4 + 0.25 * (len(rows) + bool(left_out)))
    ax.hlines(rows, 0, chance[chosen], color=GREY, linewidth=0.8)
    ax.plot(chance[chosen], rows, "o", color=BLUE, markersize=4.6)
    if left_out:
        rows, labels = np.append(rows, len(rows)), [*labels, f"⋮ {left_out} more, smaller"]
    ax.set_yticks(rows, labels, fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, 1.02)
    ax.set_ylim(len(rows) - 0.2, -0.8)
    ax.set_xlabel("Inclusion probability")
    plain_frame(ax)
    return ax
