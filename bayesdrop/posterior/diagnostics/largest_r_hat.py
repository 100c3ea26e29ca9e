r"""Limit for the largest of many R-hats: a threshold that grows with the number of quantities.

Chains are split into ``M`` halves of ``n`` draws. R-hat is (Gelman & Rubin 1992; split and ranked as by Vehtari,
Gelman, Simpson, Carpenter & Bürkner 2021)

    R̂² = (n − 1)/n + B/(nW),    B = n Var z̄_m,  W the mean variance within halves.

If all halves have one law and all draws together are worth ``S`` independent ones, ``(M − 1)(S/M) B/(nW)`` is nearly χ²
with ``M − 1`` degrees of freedom. What is reported is the larger of two R-hats, of ranks and of distances from the
median. Of ``p`` quantities none exceeds

    R̂² = 1 − 1/n + (M/S) q/(M − 1),    q the χ² quantile at 1 − α/(2p),

with probability ``1 − α`` at least, by the union bound.

The effective sample size of all chains is small where chains disagree, and would excuse them. ``S`` is therefore the
sum of the chains' own.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import chdtri

from ..._arviz import arviz
from ..._typing import Float
from ..._validation import check_count, check_number, check_numbers, shown
from .mixing import LIMITS

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["largest_r_hat", "r_hat_limits"]


def largest_r_hat(ess: object, *, chains: int, draws: int, probability: float = 0.99) -> float:
    """Compute a bound that the largest R-hat of many quantities keeps to if all chains agree.

    Parameters
    ----------
    ess : float or array (p,)
        Bulk effective sample size of each quantity, of all chains; the smallest one decides.
    chains, draws : int
        Chains, at least 2, and draws of each, at least 4.
    probability : float, default=0.99
        Probability, between 0 and 1, with which all R-hats are below the bound, at least.

    Returns
    -------
    float
        The bound. It grows with the number of quantities and with the probability, and falls as effective sample sizes
        grow. :mod:`bayesdrop.posterior.diagnostics.largest_r_hat` has the formula.

    Raises
    ------
    ValueError
        If an argument is out of range; effective sample sizes are above 2 for each half of a chain.

    See Also
    --------
    diagnose

    References
    ----------
    Gelman & Rubin (1992), Inference from iterative simulation using multiple sequences, Statistical Science 7.

    Examples
    --------
    Five thousand weights, each of which is worth 1,000 independent draws:

    >>> round(largest_r_hat(np.full(5000, 1000.0), chains=4, draws=1000), 3)
    1.022
    >>> round(largest_r_hat(1000.0, chains=4, draws=1000), 3)
    1.011
    """
    chains, draws = check_count(chains, "chains", 2), check_count(draws, "draws", 4)
    probability = check_number(probability, "probability", above=0, below=1)
    advice = "the law is one of draws that are worth some independent ones in each half of a chain."
    sizes = np.ravel(check_numbers(ess, "ess", above=4 * chains, advice=advice))
    if not sizes.size:
        raise ValueError(f"ess: expected at least one effective sample size, got {shown(ess)}.")
    return float(_limit(sizes, sizes.size, chains, draws, 1 - probability).max())


def r_hat_limits(posterior: xr.Dataset, statistics: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """R-hat that each quantity of a posterior may have: 1.01, or more where chains that agree have more.

    The second is for posteriors of 500 quantities and more, and needs an effective sample size that can be told from
    the draws: 400, and 50 of each half of a chain (Vehtari et al. 2021), of bulk and tail. Quantities that have fewer
    keep to 1.01. Chains that agree exceed a limit in one posterior of a hundred at most.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables on ``chain`` and ``draw``.
    statistics : mapping
        Datasets ``r_hat``, ``ess_bulk`` and ``ess_tail``.
    """
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    count = sum(int(part.notnull().sum()) for part in statistics["r_hat"].values())
    limits = {}
    for name, part in statistics["r_hat"].items():
        size = np.minimum(*(statistics[kind][name].values for kind in ("ess_bulk", "ess_tail")))
        can_exceed = (part.values > LIMITS.r_hat) & (size >= max(LIMITS.ess, 100 * chains)) & (count >= LIMITS.many)
        limit = np.full(part.shape, LIMITS.r_hat)
        if can_exceed.any():
            values = posterior[name].transpose("chain", "draw", *part.dims).values
            size = _ess_of_chains(values[:, :, can_exceed])
            limit[can_exceed] = np.fmax(LIMITS.r_hat, _limit(size, count, chains, draws, LIMITS.false_alarm))
        limits[name] = part.copy(data=limit)
    return statistics["r_hat"].assign(limits)


def _limit(ess: Float[np.ndarray, "*shape"], count: int, chains: int, draws: int, alpha: float) -> np.ndarray:
    """R-hat that one of ``count`` quantities exceeds with probability ``alpha`` at most, if chains agree."""
    halves = 2 * chains
    quantile = chdtri(halves - 1, alpha / (2 * count))
    return np.sqrt(1 - 1 / (draws // 2) + halves / ess * quantile / (halves - 1))


def _ess_of_chains(draws: Float[np.ndarray, "C S p"]) -> Float[np.ndarray, " p"]:
    """Sum of the chains' own effective sample sizes, of values or of distances from the median if these are fewer."""
    import xarray as xr

    totals, az = [], arviz()
    for values in (draws, np.abs(draws - np.median(draws, axis=(0, 1)))):
        single = xr.Dataset({"x": (("chain", "draw", "k"), values)})
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a chain that never moves divides zero by zero
            sizes = [az.ess(single.isel(chain=[c]), method="bulk")["x"].values for c in range(len(draws))]
        totals.append(np.nansum(sizes, axis=0))
    return np.maximum(np.minimum(*totals), 1)
