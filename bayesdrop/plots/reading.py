"""What pictures are drawn from: a fit, or the draws of one variable of a posterior."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Float
from .._validation import check_instance, shown

__all__ = ["check_fit", "draws_of_variable"]


def check_fit(fit: Any, none: bool = False) -> None:
    """Raise an error unless ``fit`` is what ``bd.fit`` returned."""
    from ..fitting.results.result import Fit

    check_instance(fit, "fit", Fit, "what bd.fit returned", none=none, text=True)


def draws_of_variable(post: Any, var: str) -> tuple[Float[np.ndarray, "C S k"], list[str], str]:
    """Draws (chain, draw, k), the k names and their dim, from an ArviZ object or a posterior dataset.

    A variable that has a value for each of several classes is laid out class after class.
    """
    import xarray as xr

    from ..posterior.arviz_groups.summaries import THINNED, not_kept
    from ..posterior.draws.draws import read_group

    group = post if isinstance(post, xr.Dataset) else read_group(post, "posterior")
    if isinstance(var, str) and not isinstance(post, xr.Dataset) and var in not_kept(post):
        raise ValueError(
            f"var: the draws of {var!r} were not kept one by one (`variables` of bd.sample); draw the few that were by "
            f'giving bd.groups.dataset(post, "{THINNED}"), or sample again with {var!r} in `variables`.'
        )
    if not isinstance(var, str) or var not in group:
        raise ValueError(f"var: no variable {shown(var)} in the posterior; expected one of {sorted(map(str, group))}.")
    array = group[var]
    dims = [str(dim) for dim in array.dims if dim not in ("chain", "draw")]
    if len(dims) == 2 and "class" in dims:
        (other,) = (dim for dim in dims if dim != "class")
        values = np.asarray(array.transpose("chain", "draw", "class", other).values, dtype=float)
        names = [f"{name} ({label})" for label in array["class"].values for name in array[other].values]
        return values.reshape(*values.shape[:2], -1), names, other
    if len(dims) > 1:
        raise ValueError(f"var: expected a scalar or one dim beside chain and draw, got {var!r} on {dims}.")
    values = np.asarray(array.transpose("chain", "draw", *dims).values, dtype=float)
    if not dims:
        return values[..., None], [var], var
    return values, [str(name) for name in array[dims[0]].values], dims[0]
