"""Stop rule: the effective sample size is large enough and the chains agree.

Both are ArviZ's rank-normalised diagnostics (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arviz import arviz
from ..._typing import Shaped
from ..._validation import check_count, check_instance, check_number

__all__ = ["Assessment", "Stop", "check_ending"]

# Ratio of the numbers of draws at successive checks.
_GROWTH = 1.25


@dataclass(frozen=True)
class Assessment:
    """Result of a check.

    Attributes
    ----------
    ess : float
        Smallest bulk effective sample size; NaN if nothing varies.
    r_hat : float
        Largest R-hat; NaN if it was not needed, the effective sample size being too small.
    reached : bool
        True if the run may stop.
    """

    ess: float
    r_hat: float
    reached: bool


@dataclass(frozen=True)
class Stop:
    """Stop a run when every variable has enough draws; ``draws`` of ``bd.sample`` is then the maximum.

    The rule reads and counts kept draws (every ``thin``-th one of ``bd.sample``). It is checked at numbers of draws
    that grow by a quarter (``min_draws`` first), so that all checks together cost about five times the last one: a few
    milliseconds for each recorded number at 4 chains of 1000 draws, which matters with thousands of features. When a
    run stops does not depend on its speed: same seed, same draws.

    Stopping on an estimate gives a slight bias: at the first check that is passed the effective sample size is
    overestimated, by 2 to 4 per cent for one quantity and ``ess=400`` in simulated autoregressive chains; with many
    quantities the smallest of the estimates decides, which is too low. Posterior means are hardly affected, as the rule
    depends on how fast the chains mix and not on where they are, and the effect vanishes as ``ess`` grows (Glynn &
    Whitt 1992, on fixed-width stopping). A large ``min_draws`` prevents stopping on too few draws.

    Parameters
    ----------
    ess : float, default=400
        Minimum bulk effective sample size, over all chains, of every posterior variable; above 0. With 400 the Monte
        Carlo error of a posterior mean is a twentieth of the posterior standard deviation.
    r_hat : float, default=1.01
        Largest R-hat allowed; above 1.
    min_draws : int, default=100
        Kept draws of each chain before the first check, at least 4.

    See Also
    --------
    sample

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), Rank-normalization, folding, and localization: an improved
    R-hat, Bayesian Analysis 16.

    Examples
    --------
    >>> Stop(ess=1000)
    Stop(ess=1000, r_hat=1.01, min_draws=100)
    """

    ess: float = 400
    r_hat: float = 1.01
    min_draws: int = 100

    def __post_init__(self) -> None:
        for name, minimum in (("ess", 0), ("r_hat", 1)):
            check_number(getattr(self, name), name, above=minimum)
        check_count(self.min_draws, "min_draws", 4)

    def next_check(self, drawn: int) -> int:
        """Smallest number of kept draws above ``drawn`` at which the rule is checked.

        Examples
        --------
        >>> Stop().next_check(0), Stop().next_check(100), Stop().next_check(101)
        (100, 125, 125)
        """
        point = int(self.min_draws)
        while point <= drawn:
            point = math.ceil(point * _GROWTH)
        return point

    def assess(self, draws: Mapping[str, Shaped[np.ndarray, "C draws ..."]]) -> Assessment:
        """Check kept draws.

        Parameters
        ----------
        draws : dict of arrays (C, draws, …)
            Posterior variables. Entries that never change are left out: neither diagnostic is defined for them.

        Examples
        --------
        >>> chains = np.random.default_rng(0).normal(size=(4, 200, 3))
        >>> found = Stop().assess({"weight": chains, "constant": np.zeros((4, 200))})
        >>> found.ess > 400, found.r_hat < 1.01, found.reached
        (True, True, True)
        """
        import xarray as xr

        varying = {}
        for name, value in draws.items():
            table = np.asarray(value).reshape(*np.shape(value)[:2], -1)
            table = table[:, :, np.any(table != table[:1, :1], axis=(0, 1))]
            if table.shape[2]:
                varying[name] = (("chain", "draw", f"{name}_entry"), table)
        if not varying:
            return Assessment(float("nan"), float("nan"), False)
        dataset, az = xr.Dataset(varying), arviz()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)
            # An entry that is constant in each chain, at different values, may give NaN, which fails the check.
            ess = _extreme(az.ess(dataset, method="bulk"), np.min, 0.0)
            if ess < self.ess:
                return Assessment(ess, float("nan"), False)
            r_hat = _extreme(az.rhat(dataset), np.max, float("inf"))
        return Assessment(ess, r_hat, r_hat <= self.r_hat)


def _extreme(result: Any, reduce: Any, otherwise: float) -> float:
    """Extreme of a diagnostic over all entries, NaN counting as ``otherwise``."""
    table = result.to_dataset() if hasattr(result, "to_dataset") else result
    values = np.concatenate([np.ravel(np.asarray(table[name].values, dtype=float)) for name in table.data_vars])
    return float(reduce(np.where(np.isnan(values), otherwise, values)))


def check_ending(stop: Any, max_seconds: Any, chains: int) -> None:
    """Raise an error unless the rules for an early end are valid."""
    check_instance(stop, "stop", Stop, "a rule such as bd.Stop(ess=400)", none=True)
    if stop is not None and chains < 2:
        raise ValueError("stop: one chain cannot show whether it has converged (R-hat); run at least 2, better 4.")
    if max_seconds is not None:
        check_number(max_seconds, "max_seconds", above=0)
