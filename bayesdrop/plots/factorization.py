"""Pictures of a factorisation: singular values before and after shrinkage, and how many columns are active.

Both draw on given axes or on a new figure and return the axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..posterior.draws.draws import read_group
from .style import BLUE, GREY, VERMILLION, new_axes, plain_frame

__all__ = ["active_columns", "singular_values"]


def singular_values(model: Any, *, ax: Any = None) -> Any:
    """Draw the singular values of the data, the threshold and what the fit leaves (Cavazza et al. 2018, figure 3).

    Parameters
    ----------
    model : DropoutMatrixFactorization
        Fitted. Those of the data are known from ``solver="closed_form"`` only.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        If ``model`` is not fitted.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> ax = singular_values(bd.DropoutMatrixFactorization().fit(np.diag([3.0, 2.0, 0.1])))
    >>> ax.get_xlabel()
    'Component'
    """
    if isinstance(model, type) or not hasattr(model, "singular_values_"):
        raise ValueError("model: expected a fitted bd.DropoutMatrixFactorization; call fit first.")
    ax = new_axes(ax, 5.0, 3.5)
    plain_frame(ax)
    before, after = model.data_singular_values_, model.singular_values_
    if before is not None:
        ax.plot(np.arange(1, len(before) + 1), before, "o-", color=BLUE, label="of the data")
    ax.plot(np.arange(1, len(after) + 1), after, "s-", color=VERMILLION, label="of the fit")
    if np.isfinite(model.shrinkage_):
        ax.axhline(model.shrinkage_, color=GREY, linestyle="--", label="taken off each")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="Component", ylabel="Singular value", ylim=(0, None))
    ax.legend(frameon=False)
    return ax


def active_columns(post: Any, *, ax: Any = None) -> Any:
    """Draw the posterior of the number of active columns, a bar for each number.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample_factorization`` returned.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes

    Raises
    ------
    ValueError
        If the posterior has no variable ``n_active``.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> import xarray as xr
    >>> draws = xr.Dataset({"n_active": (("chain", "draw"), np.array([[2, 2, 3, 2]]))})
    >>> ax = active_columns(bd.groups.assemble({"posterior": draws}))
    >>> [float(bar.get_height()) for bar in ax.patches]
    [0.75, 0.25]
    """
    posterior = read_group(post, "posterior")
    if "n_active" not in posterior:
        raise ValueError(f"post: expected a variable n_active in the posterior, got {sorted(map(str, posterior))}.")
    values, counts = np.unique(posterior["n_active"].values, return_counts=True)
    ax = new_axes(ax, 5.0, 3.5)
    plain_frame(ax)
    ax.bar(values, counts / counts.sum(), color=BLUE, width=0.8)
    # Room for a few numbers on either side, or a certain one would fill the picture.
    ax.set(xlabel="Active columns", ylabel="Posterior probability", ylim=(0, 1))
    ax.set_xlim(max(values.min() - 2.5, -0.5), values.max() + 2.5)
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax
