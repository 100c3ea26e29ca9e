r"""``reweight``: draws of the approximation with masks integrated, resampled to be draws of the model with masks.

    weight of a draw  ∝  exp(E − G),      E = Σ_i log Σ_α p(α | η) p(y_i | s_i(α)),    G = the same under normal scores

The ratios are Pareto-smoothed (:mod:`bayesdrop.pareto`). Where a row's masks are drawn and not summed, its likelihood
is estimated without bias and from masks of its own, and so is the product over rows: draws weighted by estimates have
the right posterior, as with a pseudo-marginal chain (Beaumont 2003; Andrieu & Roberts 2009), and the noise of the
estimates costs effective draws and nothing else. It is measured, from two independent halves, and stated.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..draws import Draws, check_count, match_columns, read_draws, read_group
from ..groups import assemble, dataset, group_names
from ..pareto import smoothed_log_weights
from ..pointwise import _targets
from ..predictive import check_rows
from ..problems import approximation_problem
from .approximation import ApproximationWarning, part_of, row_log_likelihoods

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["reweight"]

Array = Any

# Standard deviation of the noise of log weights that the number of masks is chosen for: it costs a fifth of the draws.
_NOISE = 0.4
# Masks, and draws, by which that number is found, and the entries that may be looked at then: about a minute.
_PILOT_MASKS, _PILOT_DRAWS, _WORK = 32, 64, 4e9
_LEAST_MASKS, _MOST_MASKS = 32, 1 << 14
# Shape of the tail from which on weights have no mean.
_NO_MEAN = 1.0


def reweight(post: Any, X: Any, y: Any, *, draws: int | None = None, masks: int | None = None, seed: int = 0) -> Any:
    """Correct draws of ``bd.HMC()`` or ``bd.NUTS()`` on a model with masks by importance resampling.

    These samplers integrate the masks as if scores were normal. Each draw is given the weight of the exact likelihood
    over the approximate one, and draws are then repeated in proportion to their weights.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` returned, or :func:`bayesdrop.groups.load` read.
    X, y
        The rows and the labels or numbers that were sampled, without rows of weight 0.
    draws : int, optional
        Draws of each chain to use, spread evenly; all by default. A quarter of them takes a quarter of the time.
    masks : int, optional
        Masks drawn per draw and row, in two halves, at least 2; a row with no more masks than a half has them all
        summed, which is exact. By default as many as make the noise of a log weight about 0.4, as far as a minute
        allows.
    seed : int
        Of masks and resampling. Same seed, same result.

    Returns
    -------
    InferenceData or DataTree
        ``post`` with every group on ``chain`` and ``draw`` resampled, all draws of equal weight again, so that
        everything that takes a posterior takes this one. Draws keep their order and repeated ones stand side by side,
        so that R-hat and effective sample sizes count a repeated draw once. ``sample_stats`` has the exact log density
        ``lp`` and where each draw stood, ``source_chain`` and ``source_draw``. Attributes: ``reweighted`` (1),
        ``reweight_pareto_k``, ``reweight_effective_draws`` (``1/Σ weight²``) and ``reweight_noise``, the standard
        deviation of a log weight that is due to drawn masks.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample``, or is exact already; if ``X`` or ``y`` is not what was sampled, or
        ``draws`` or ``masks`` is out of range; if the Pareto k is above 1, for the weights then have no mean.

    Warns
    -----
    ApproximationWarning
        If the Pareto k is above what the number of draws allows (0.7 with 2,000 or more), so that a few draws decide,
        or if the noise of the log weights is above 1. :func:`bayesdrop.diagnose` says so too.

    Examples
    --------
    >>> import warnings
    >>> import bayesdrop as bd
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # a few draws, for show
    ...     post = bd.sample(bd.Model(), X, y, method=bd.HMC(), draws=50, tune=50, chains=2, progress=False)
    ...     exact = bd.reweight(post, X, y)
    >>> bd.groups.dataset(exact, "posterior")["rate"].sizes == bd.groups.dataset(post, "posterior")["rate"].sizes
    True
    >>> exact.attrs["reweight_noise"]
    0.0
    """
    found = read_draws(post, draws)
    posterior = read_group(post, "posterior")
    attrs = {**getattr(post, "attrs", {}), **posterior.attrs}
    if "approximation" not in attrs:
        raise ValueError(
            "post: expected draws whose masks were integrated, of bd.HMC() or bd.NUTS() on a model with masks; these "
            "need no weights" + (", they have been reweighted." if attrs.get("reweighted") else ", they are exact.")
        )
    if masks is not None:
        check_count(masks, "masks", 2)
    matrix = match_columns(X, found.feature_names, found.model)
    check_rows(post, matrix.shape[0])
    target = _targets(post, found, y)
    constant = read_group(post, "constant_data") if "constant_data" in group_names(post) else {}
    weight = constant["row_weight"].values if "row_weight" in constant else np.ones(len(target))
    generator = np.random.default_rng(seed)
    rows = matrix, target, weight
    if masks is None:
        masks = _enough_masks(found, rows, generator)
    ratios = _log_ratios(found, rows, masks, generator)
    log_weights, k = smoothed_log_weights(ratios.value)
    if k > _NO_MEAN:
        raise ValueError(
            f"post: the importance weights of these draws have a Pareto k of {k:.2f}, so that no number of draws "
            "brings their average to rest: the approximation is too far from the posterior. Sample with bd.Gibbs(), "
            "which draws the masks."
        )
    shares = np.exp(log_weights)
    # Systematic resampling: one uniform number, and each draw as often as its share says, rounded up or down.
    places = (np.arange(found.size) + generator.random()) / found.size
    chosen = np.minimum(np.searchsorted(np.cumsum(shares), places), found.size - 1)
    attrs = {name: value for name, value in attrs.items() if not name.startswith("approximation")}
    attrs |= {
        "reweighted": 1,
        "reweight_pareto_k": k,
        "reweight_effective_draws": float(1 / np.sum(shares**2)),
        "reweight_noise": ratios.noise,
    }
    groups = {name: _resampled(dataset(post, name), found, chosen) for name in group_names(post)}
    stats = groups.get("sample_stats")
    if stats is not None:
        groups["sample_stats"] = _statistics(stats, found, chosen, ratios.value)
    for group in groups.values():
        group.attrs = {**group.attrs, **attrs}
        for name in [name for name in group.attrs if str(name).startswith("approximation")]:
            del group.attrs[name]
    problem = approximation_problem(attrs, found.size)
    if problem is not None:
        warnings.warn(f"{problem.text}. {problem.advice}", ApproximationWarning, stacklevel=2)
    return assemble(groups, attrs)


def _resampled(group: xr.Dataset, draws: Draws, chosen: Array) -> xr.Dataset:
    """Chosen draws of every variable that has any; those that belong to chains as a whole are left out."""
    kept = {name: part for name, part in group.items() if ("chain" in part.dims) == ("draw" in part.dims)}
    drawn = [name for name, part in kept.items() if "draw" in part.dims]
    if not drawn:
        return group.copy()
    thinned = group[list(kept)].sel(draw=draws.steps["draw"])
    chain, draw = (part.reshape(draws.shape) for part in np.divmod(chosen, draws.shape[1]))
    for name in drawn:
        part = thinned[name].transpose("chain", "draw", ...)
        thinned[name] = part.copy(data=part.values[chain, draw])
    return thinned


def _statistics(stats: xr.Dataset, draws: Draws, chosen: Array, ratio: Array) -> xr.Dataset:
    """Log density of the model with masks, divergences, and where a draw stood; no course of trajectories."""
    chain, draw = np.divmod(chosen, draws.shape[1])
    found = stats[[name for name in ("lp", "diverging") if name in stats]]
    if "lp" in found:
        found["lp"] = found["lp"] + ratio[chosen].reshape(draws.shape)
    sources = {"source_chain": draws.steps["chain"][chain], "source_draw": draws.steps["draw"][draw]}
    return found.assign({name: (("chain", "draw"), part.reshape(draws.shape)) for name, part in sources.items()})


@dataclass(frozen=True)
class _Ratios:
    """Log importance ratios.

    Attributes
    ----------
    value : array (S,)
        ``E − G`` of each draw, summed over rows.
    noise : float
        Standard deviation of a value that is due to drawn masks.
    """

    value: Array
    noise: float


def _log_ratios(draws: Draws, rows: tuple[Any, Array, Array], masks: int, generator: Any) -> _Ratios:
    value, differences = np.empty(draws.size), np.empty(draws.size)
    # No jackknife here: the estimates of the likelihoods, not of their logarithms, must be without bias.
    for part, over_masks, normal in row_log_likelihoods(draws, *rows, (masks + 1) // 2, 2, generator):
        value[part] = np.sum(np.logaddexp(*over_masks) - np.log(2) - normal, axis=1)
        differences[part] = np.sum(over_masks[0] - over_masks[1], axis=1)
    return _Ratios(value, float(0.5 * np.sqrt(np.mean(differences**2))))


def _enough_masks(draws: Draws, rows: tuple[Any, Array, Array], generator: Any) -> int:
    """Masks that bring the noise down to where it costs little, found at a few draws."""
    some = np.linspace(0, draws.size - 1, min(_PILOT_DRAWS, draws.size)).round().astype(int)
    noise = _log_ratios(part_of(draws, some), rows, _PILOT_MASKS, generator).noise
    X = rows[0]
    affordable = _WORK / (draws.size * max(X.nnz if hasattr(X, "nnz") else X.size, 1))
    wanted = min(_PILOT_MASKS * (noise / _NOISE) ** 2, affordable)
    return int(np.clip(wanted, _LEAST_MASKS, _MOST_MASKS))
