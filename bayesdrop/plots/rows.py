"""Which rows a fit listens to: the expected precision of each row's pseudo-observation, and the support vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .reading import check_fit
from .style import BLUE, GREY, VERMILLION, legend_above, light_grid, new_axes, plain_frame

if TYPE_CHECKING:
    from ..fitting.results.result import Fit

__all__ = ["row_weights"]

# Above so many, points are drawn as an image.
_MANY_ROWS = 5000


def row_weights(fit: Fit, *, ax: Any = None) -> Any:
    """Draw how much a fit listens to each row: its ``ω`` against the margin ``y m`` or the residual ``y − m``.

    A row is to the M-step a normal observation of precision ``ω``. Under a loss with a kink the support vectors are
    marked, rows whose score lies beyond the kink or within two standard deviations of its noise. Noise lowers the peak
    at the kink, which is infinite without.

    Parameters
    ----------
    fit : Fit
        What ``bd.fit`` returned, by any minimiser.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        If the loss was fitted without auxiliary variables; see :attr:`bayesdrop.Fit.auxiliary`.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> ax = row_weights(bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(0.2)), X, y))
    >>> ax.get_xlabel()
    'Margin y·m: label times mean score'
    """
    check_fit(fit)
    rows = fit.auxiliary
    classes = fit.model.loss.binary
    place = rows.target * rows.mean if classes else rows.target - rows.mean
    omega, n = rows.omega, len(rows.mean)
    ax = new_axes(ax, 6.4, 4.2)
    kinked = rows.loss.kinked
    support = rows.support if kinked else np.ones(n, dtype=bool)
    style: dict[str, Any] = {"linestyle": "none", "markeredgewidth": 0.7, "rasterized": n > _MANY_ROWS}
    if kinked and not np.all(support):
        ax.plot(
            place[~support], omega[~support], "o", color=GREY, markersize=3.2, alpha=0.6, zorder=2,
            label=f"other rows: {n - support.sum():,}", **style,
        )  # fmt: skip
    label = f"support vectors: {support.sum():,} of {n:,}" if kinked else f"rows: {n:,}"
    ax.plot(
        place[support], omega[support], "D" if kinked else "o", color=VERMILLION if kinked else BLUE, markersize=4.0,
        markerfacecolor="none", zorder=3, label=label, **style,
    )  # fmt: skip
    if omega.min() > 0 and omega.max() > 30 * omega.min():
        ax.set_yscale("log")
    ax.set_xlabel("Margin y·m: label times mean score" if classes else "Residual y − m")
    ax.set_ylabel("Weight ω of the row in the M-step")
    legend_above(ax, 2)
    light_grid(ax)
    plain_frame(ax)
    return ax
