"""R-hat and effective sample sizes of all numbers of a posterior, and the worst of them.

Both are ArviZ's (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._arviz import arviz

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Extreme", "extreme_of", "mixing"]


class Extreme(NamedTuple):
    """The worst value of a diagnostic, and what it belongs to, such as ``"rate of age"``."""

    value: float
    name: str


def mixing(group: xr.Dataset) -> dict[str, xr.Dataset]:
    """R-hat and effective sample sizes of every entry of the variables of a posterior, NaN where it does not vary.

    Parameters
    ----------
    group : xarray.Dataset
        Variables on ``chain``, ``draw`` and one more dim at most.

    Returns
    -------
    dict
        Datasets ``r_hat``, ``ess_bulk`` and ``ess_tail``.

    Examples
    --------
    >>> import xarray as xr
    >>> draws = np.random.default_rng(0).normal(size=(4, 500))
    >>> sorted(mixing(xr.Dataset({"rate": (("chain", "draw"), draws)})))
    ['ess_bulk', 'ess_tail', 'r_hat']
    """
    az = arviz()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # constant variables divide zero by zero
        tables = {
            "r_hat": az.rhat(group),
            "ess_bulk": az.ess(group, method="bulk"),
            "ess_tail": az.ess(group, method="tail"),
        }
    varies = {name: np.ptp(group[name].transpose("chain", "draw", ...).values, axis=(0, 1)) > 0 for name in group}
    found = {}
    for kind, table in tables.items():
        plain = table.to_dataset() if hasattr(table, "to_dataset") else table
        # What varies and has no number is stuck in each chain at a place of its own: as bad as can be.
        worst = np.inf if kind == "r_hat" else 0.0
        found[kind] = plain.assign({name: plain[name].fillna(worst).where(varies[name]) for name in plain.data_vars})
    return found


def extreme_of(table: xr.Dataset, arg: Any) -> Extreme | None:
    """Extreme entry of all variables; None if nothing varies."""
    found = []
    for name, part in table.data_vars.items():
        values = np.atleast_1d(np.asarray(part.values, dtype=float))
        if np.all(np.isnan(values)):
            continue
        place = np.unravel_index(int(arg(values)), values.shape)
        labels = [str(part[dim].values[j]) for dim, j in zip(part.dims, place, strict=False)]
        found.append(Extreme(float(values[place]), f"{name} of {', '.join(labels)}" if labels else str(name)))
    if not found:
        return None
    return found[int(arg([extreme.value for extreme in found]))]
