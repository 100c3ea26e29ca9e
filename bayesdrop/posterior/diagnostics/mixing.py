r"""Compute R-hat and effective sample sizes of all quantities of a posterior, and smooth importance weights.

R-hat and effective sample sizes are ArviZ's (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021). Pareto-smoothed
importance sampling (Vehtari, Simpson, Gelman, Yao & Gabry 2024) replaces the largest weights by order statistics of a
generalised Pareto distribution fitted to them (Zhang & Stephens 2009), with its shape shrunk slightly towards 1/2. The
shape ``k`` measures how reliable the weights are: a weighted average has a finite variance for ``k`` below 1/2, a
finite mean below 1, and needs impracticably many draws above 0.7.

The limit for the largest of many R-hats grows with the number of quantities. Chains are split into ``M`` halves of
``n`` draws. R-hat is (Gelman & Rubin 1992; split and ranked as by Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021)

    R̂² = (n − 1)/n + B/(nW),    B = n Var z̄_m,  W the mean variance within halves.

If all halves have the same distribution and the effective sample size is ``S``, ``(M − 1)(S/M) B/(nW)`` is nearly χ²
with ``M − 1`` degrees of freedom. The reported R-hat is the larger of two, of ranks and of distances from the median.
None of ``p`` quantities exceeds

    R̂² = 1 − 1/n + (M/S) q/(M − 1),    q the χ² quantile at 1 − α/(2p),

with probability ``1 − α`` at least, by the union bound. The joint effective sample size of chains that disagree is
small and would raise the limit, so ``S`` is the sum of the effective sample sizes of the single chains.
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
        Limits of R-hat and effective sample size of every quantity (Vehtari et al. 2021), and of E-BFMI of every chain.
    draws, many : int
        Minimum draws of a chain, which R-hat splits in two; and minimum number of quantities for a limit that depends
        on this number. For fewer the limit is 1.01, which more draws of chains that agree will satisfy.
    acceptance, other_acceptance : float
        Smallest acceptance rate of trajectories, and of other moves.
    listed : int
        Maximum number of names in a message.
    false_alarm : float
        Maximum probability that some R-hat is above its limit if the chains agree.
    probability, narrower : float
        The data do not determine a rate if the posterior interval of this probability is at least this wide, relative
        to the prior interval.
    nats, error_k : float
        Maximum standard deviation of the error of a log-likelihood: 0.1 changes a probability by 0.04. And maximum
        Pareto k of its exponential, above which the error has tails that the draws do not show.
    wide : float
        Ratio of the bound of that error to the error above which messages name both.
    same : float
        Smallest difference of log weights; sums of log-likelihoods are not more accurate.
    tail, least_tail : float, int
        Maximum share of the weights for the fit of a Pareto distribution, and minimum number.
    exponential : float
        Shape below which a Pareto distribution counts as exponential.
    prior_weights, prior_shape, grid : int, float, int
        Weight of the prior of the shape, as a number of weights, and its value; minimum number of grid points.
    pareto_k, mean_k : float
        Above the first, no practical number of draws makes importance weights reliable; above the second they have no
        finite mean.
    scale_ratio : float
        Ratio of the standard deviations of two columns above which a prior of one scale slows chains.
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
    """The worst value of a diagnostic, and its quantity, such as ``"rate of age"``."""

    value: float
    name: str


def mixing(group: xr.Dataset) -> dict[str, xr.Dataset]:
    """R-hat and effective sample sizes of every entry of the variables of a posterior; NaN for constant entries.

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
        # An entry that varies but has no R-hat is constant within each chain: count it as the worst.
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
    """Compute an upper bound on the largest R-hat of many quantities, for chains that agree.

    Parameters
    ----------
    ess : float or array (p,)
        Bulk effective sample size of each quantity, of all chains; the smallest one decides.
    chains, draws : int
        Chains, at least 2, and draws of each, at least 4.
    probability : float, default=0.99
        Minimum probability, between 0 and 1, that all R-hats are below the bound.

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
    """Maximum R-hat of each quantity of a posterior: 1.01, or the bound of :func:`largest_r_hat` if that is larger.

    The bound applies to posteriors of at least 500 quantities, and to quantities whose effective sample sizes (bulk and
    tail) can be estimated: 400, and 50 for each half of a chain (Vehtari et al. 2021). For others the limit is 1.01. If
    chains agree, a limit is exceeded in at most one posterior of a hundred.

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
    """R-hat that any of ``count`` quantities exceeds with probability ``alpha`` at most, if chains agree."""
    halves = 2 * chains
    quantile = chdtri(halves - 1, alpha / (2 * count))
    return np.sqrt(1 - 1 / (draws // 2) + halves / ess * quantile / (halves - 1))


def _ess_of_chains(draws: Float[np.ndarray, "C S p"]) -> Float[np.ndarray, " p"]:
    """Sum of the effective sample sizes of single chains, for values or, if smaller, distances from the median."""
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
    """Maximum shape for reliable weights of ``draws`` draws, ``min(1 − 1/log₁₀ S, 0.7)``.

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
        Log target density minus log proposal density, up to a constant; finite.

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
    """Shape and scale of a generalised Pareto distribution, from sorted excesses (Zhang & Stephens 2009)."""
    n = len(excess)
    grid = LIMITS.grid + int(np.sqrt(n))
    # Average over the profile likelihood of θ = −k/σ on a grid, which is scaled by the first quartile.
    theta = 1 - np.sqrt(grid / (np.arange(grid) + 0.5))
    theta = theta / (3 * excess[int(n / 4 + 0.5) - 1]) + 1 / excess[-1]
    shape = np.log1p(-theta[:, None] * excess).mean(axis=1)
    profile = n * (np.log(-theta / shape) - shape - 1)
    share = np.exp(profile - np.logaddexp.reduce(profile))
    mean = float(np.sum(share * theta))
    k = float(np.log1p(-mean * excess).mean())
    shrunk = (n * k + LIMITS.prior_weights * LIMITS.prior_shape) / (n + LIMITS.prior_weights)
    return shrunk, -k / mean
