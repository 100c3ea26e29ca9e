"""Groups of variables whose draws were not kept: their summaries, and a few draws of all variables.

``posterior_summary`` has each of them on ``statistic``: mean, sd, quantiles, R-hat and effective sample size, as
:mod:`bayesdrop.sampling.run.summary` states them. ``posterior_thinned`` has every variable of the posterior at the same
few draws, evenly spaced, from which the quantiles are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import Float, Shaped
from .builder import draws_dataset
from .groups import dataset, group_names

if TYPE_CHECKING:
    import xarray as xr

    from ...sampling.run.runner import Run

__all__ = ["STATISTICS", "SUMMARY", "THINNED", "needs_all_draws", "not_kept", "summary_groups"]

SUMMARY, THINNED = "posterior_summary", "posterior_thinned"
_QUANTILES = {"q5": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
# Numbers whose quantiles are found at once.
_BLOCK = 1 << 20
STATISTICS = ("mean", "sd", *_QUANTILES, "r_hat", "ess")
"""What there is of a number whose draws were not kept, in order."""


def summary_groups(run: Run, posterior: xr.Dataset, coords: Mapping[str, Any]) -> dict[str, xr.Dataset]:
    """Both groups; none if all draws were kept.

    Parameters
    ----------
    run : Run
        With its summaries.
    posterior : xarray.Dataset
        The variables whose draws were kept.
    coords : mapping from dim to labels
        Labels along the dims of variables.
    """
    import xarray as xr

    if not run.summaries:
        return {}
    dims = {name: run.variables[name] for name in run.summaries}
    few = draws_dataset({name: part.draws for name, part in run.summaries.items()}, dims, coords)
    few = few.assign_coords(draw=run.steps)
    stacked = {}
    for name, part in run.summaries.items():
        ends = _quantiles(part.draws)
        stacked[name] = (("statistic", *dims[name]), np.stack([part.mean, part.sd, *ends, part.r_hat, part.ess]))
    labels = {str(dim): few[dim] for dim in few.dims if dim not in ("chain", "draw")}
    summary = xr.Dataset(stacked, coords={"statistic": list(STATISTICS), **labels})
    return {SUMMARY: summary, THINNED: few.assign(posterior.isel(draw=run.steps).data_vars)}


def _quantiles(draws: Shaped[np.ndarray, "C m ..."]) -> Float[np.ndarray, "q ..."]:
    """Quantiles over chains and draws, some numbers at a time."""
    flat = draws.reshape(*draws.shape[:2], -1)
    found = np.empty((len(_QUANTILES), flat.shape[2]))
    step = max(1, _BLOCK // (draws.shape[0] * draws.shape[1]))
    for start in range(0, flat.shape[2], step):
        some = flat[:, :, start : start + step].astype(np.float64)
        found[:, start : start + step] = np.quantile(some, list(_QUANTILES.values()), axis=(0, 1))
    return found.reshape(-1, *draws.shape[2:])


def not_kept(post: Any) -> list[str]:
    """Variables of a posterior whose draws were not kept."""
    names = group_names(post)
    return [str(name) for name in dataset(post, SUMMARY).data_vars] if {SUMMARY, THINNED} <= set(names) else []


def needs_all_draws(names: Sequence[str]) -> str:
    """What to do where draws that were not kept are needed, to be said after what is expected."""
    listed = ", ".join(map(repr, names))
    return (
        f"the draws of {listed} were not kept one by one (`variables` of bd.sample), and this needs them all. Sample "
        f"again without `variables`, or with {listed} in it; bd.predict, bd.elpd and bd.weights_table make do with the "
        f"few draws of the group {THINNED!r}, and {SUMMARY!r} has means, quantiles and diagnostics."
    )
