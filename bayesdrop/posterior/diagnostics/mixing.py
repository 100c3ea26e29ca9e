r"""R-hat and effective sample sizes of all numbers of a posterior, and Pareto-smoothed importance weights.

The first two are ArviZ's (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021). The largest of some importance weights
are replaced by the order statistics of a Pareto law fitted to them, the Pareto-smoothed importance sampling of Vehtari,
Simpson, Gelman, Yao & Gabry (2024), with the generalised Pareto law fitted as by Zhang & Stephens (2009) and its shape
drawn a little towards 1/2. The shape ``k`` says how far the weights can be trusted: an average has a variance below
1/2, a mean below 1, and the number of draws that it takes grows beyond reach from 0.7 on.

The limit for the largest of many R-hats grows with the number of quantities. Chains are split into ``M`` halves of
``n`` draws. R-hat is (Gelman & Rubin 1992; split and ranked as by Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021)

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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import chdtri

from ..._arviz import arviz
from ..._typing import Float
from ..._validation import check_count, check_number, check_numbers, shown

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "Extreme",
    "Limits",
    "extreme_of",
    "largest_k",
    "largest_r_hat",
    "mixing",
    "r_hat_limits",
    "smoothed_log_weights",
    "LIMITS",
]


@dataclass(frozen=True)
class Limits:
    """Limits that :func:`bayesdrop.diagnose` compares draws with.

    Attributes
    ----------
    r_hat, ess, energy : float
        R-hat and effective sample size of every number (Vehtari et al. 2021), and E-BFMI of every chain.
    draws, many : int
        Minimum draws of a chain, which R-hat splits in two; and minimum count of numbers whose largest R-hat is an
        extreme value. For fewer numbers 1.01 stays: if chains agree it asks for more draws, and those are available.
    acceptance, other_acceptance : float
        Smallest acceptance rate of trajectories, and of other moves.
    listed : int
        Names that a message lists.
    false_alarm : float
        Probability that some R-hat of chains that agree is above its limit, at most.
    probability, narrower : float
        A posterior interval of this probability says nothing of a rate if it is at least so wide, relative to the
        prior's.
    nats, error_k : float
        What the error of a log-likelihood may be (standard deviation): 0.1 moves a probability by 0.04. And the Pareto
        k of its exponential, above which the error has tails that these draws do not show.
    wide : float
        Ratio of the bound of that error to the error above which messages name both.
    same : float
        Log weights that differ by less are equal: sums of log-likelihoods are not more accurate.
    tail, least_tail : float, int
        Largest part of the weights that a Pareto law is fitted to, and the fewest.
    exponential : float
        A Pareto law of a smaller shape is exponential.
    prior_weights, prior_shape, grid : int, float, int
        Weight of the prior of the shape, in weights, and its place; fewest points of the grid of the fit.
    pareto_k, mean_k : float
        Above the first no practical number of draws makes importance weights reliable; from the second on they have no
        mean.
    scale_ratio : float
        Ratio of the standard deviations of two columns above which a prior of one scale makes chains slow.
    """

    r_hat: float = 1.01
    ess: int = 400
    energy: float = 0.3
    draws: int = 4
    many: int = 500
    acceptance: float = 0.5
    other_acceptance: float = 0.1
    listed: int = 5
    false_alarm: float = 0.01
    probability: float = 0.9
    narrower: float = 0.9
    nats: float = 0.1
    error_k: float = 0.5
    wide: float = 1.2
    same: float = 1e-9
    tail: float = 0.2
    least_tail: int = 5
    exponential: float = 1e-12
    prior_weights: int = 10
    prior_shape: float = 0.5
    grid: int = 30
    pareto_k: float = 0.7
    mean_k: float = 1.0
    scale_ratio: float = 100.0


LIMITS = Limits()


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
    statistics = {}
    for kind, table in tables.items():
        plain = table.to_dataset() if hasattr(table, "to_dataset") else table
        # What varies and has no number is stuck in each chain at a place of its own: as bad as can be.
        worst = np.inf if kind == "r_hat" else 0.0
        statistics[kind] = plain.assign(
            {name: plain[name].fillna(worst).where(varies[name]) for name in plain.data_vars}
        )
    return statistics


def extreme_of(table: xr.Dataset, arg: Any) -> Extreme | None:
    """Extreme entry of all variables; None if nothing varies."""
    extremes = []
    for name, part in table.data_vars.items():
        values = np.atleast_1d(np.asarray(part.values, dtype=float))
        if np.all(np.isnan(values)):
            continue
        place = np.unravel_index(int(arg(values)), values.shape)
        labels = [str(part[dim].values[j]) for dim, j in zip(part.dims, place, strict=False)]
        extremes.append(Extreme(float(values[place]), f"{name} of {', '.join(labels)}" if labels else str(name)))
    if not extremes:
        return None
    return extremes[int(arg([extreme.value for extreme in extremes]))]


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
        grow. :mod:`bayesdrop.posterior.diagnostics.mixing` has the formula.

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


def largest_k(draws: int) -> float:
    """Shape up to which weights of ``draws`` draws are reliable, ``min(1 − 1/log₁₀ S, 0.7)``.

    Examples
    --------
    >>> largest_k(4000), round(largest_k(100), 2)
    (0.7, 0.5)
    """
    return float(min(1 - 1 / np.log10(max(draws, 2)), LIMITS.pareto_k))


def smoothed_log_weights(log_ratios: Float[np.ndarray, " S"]) -> tuple[Float[np.ndarray, " S"], float]:
    """Smooth the largest of some importance ratios.

    Parameters
    ----------
    log_ratios : array (S,)
        Log density wanted minus log density drawn from, up to a constant; finite.

    Returns
    -------
    log_weights : array (S,)
        Logarithms of weights that add up to 1.
    k : float
        Shape of the Pareto law of the tail; infinite if the tail has fewer than five weights, 0 if all are equal.

    Examples
    --------
    >>> weights, k = smoothed_log_weights(np.zeros(100))
    >>> bool(np.allclose(np.exp(weights), 0.01)), k
    (True, 0.0)
    """
    values = np.asarray(log_ratios, dtype=np.float64)
    values = values - values.max()
    if np.ptp(values) < LIMITS.same:
        return np.full(len(values), -np.log(len(values))), 0.0
    count = int(np.ceil(min(LIMITS.tail * len(values), 3 * np.sqrt(len(values)))))
    threshold = max(np.sort(values)[-count - 1], np.log(np.finfo(float).tiny))
    tail = np.flatnonzero(values > threshold)
    k = np.inf
    if len(tail) >= LIMITS.least_tail:
        tail = tail[np.argsort(values[tail])]
        k, scale = _fit(np.exp(values[tail]) - np.exp(threshold))
        chance = (np.arange(len(tail)) + 0.5) / len(tail)
        beyond = -np.log1p(-chance) if abs(k) < LIMITS.exponential else np.expm1(-k * np.log1p(-chance)) / k
        values[tail] = np.minimum(np.log(np.exp(threshold) + scale * beyond), 0.0)
    return values - np.logaddexp.reduce(values), float(k)


def _fit(excess: Float[np.ndarray, " tail"]) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto law with the given excesses, in increasing order (Zhang & Stephens)."""
    n = len(excess)
    grid = LIMITS.grid + int(np.sqrt(n))
    # The likelihood's profile in θ = −k/σ is averaged over a grid that the first quartile scales.
    theta = 1 - np.sqrt(grid / (np.arange(grid) + 0.5))
    theta = theta / (3 * excess[int(n / 4 + 0.5) - 1]) + 1 / excess[-1]
    shape = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = n * (np.log(-theta / shape) - shape - 1)
    share = np.exp(profile - np.logaddexp.reduce(profile))
    mean = float(np.sum(share * theta))
    k = float(np.log1p(-mean * excess).mean())
    shrunk = (n * k + LIMITS.prior_weights * LIMITS.prior_shape) / (n + LIMITS.prior_weights)
    return shrunk, -k / mean
