r"""``reweight``: draws of the approximation with masks integrated, resampled to be draws of the model with masks.

    weight of a draw  ∝  exp(E − G),   E = Σ_i s_i log Σ_α p(α | η) p(y_i | x_i∘α),   G = the same under normal scores

The ratios are Pareto-smoothed (:mod:`bayesdrop.posterior.diagnostics.pareto`). The sum over masks is had without
drawing any (:mod:`bayesdrop.posterior.masks.expectation`), so that the weights have no noise of their own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import Float, Int, PerRow
from ..._validation import check_seed, takes_seed
from ...warnings import ApproximationWarning, warn
from ..arviz_groups.groups import assemble, dataset, group_names
from ..arviz_groups.summaries import SUMMARY, THINNED
from ..diagnostics.pareto import smoothed_log_weights
from ..diagnostics.problems import approximation_problem
from ..draws import Draws, read_draws, read_group, stored_offset
from ..new_rows import match_columns
from ..row_blocks import row_blocks
from ..simulation import check_rows
from .approximation_error import errors_of
from .pointwise import observed_response

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["reweight"]

# Shape of the tail from which on weights have no mean.
_NO_MEAN = 1.0


@takes_seed
def reweight(post: Any, X: Any, y: Any, *, draws: int | None = None, seed: Any = 0) -> Any:
    """Correct draws of ``bd.HMC()`` or ``bd.NUTS()`` on a model with masks by importance resampling.

    These samplers integrate the masks as if scores were normal. Each draw is given the weight of the exact likelihood
    over the approximate one, and draws are then repeated in proportion to their weights.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` returned, or :func:`bayesdrop.groups.load` read.
    X, y
        The rows and the labels or numbers that were sampled, without rows of weight 0. ``bd.Blocks`` and Dask
        collections are gone through once, a block at a time.
    draws : int, optional
        Draws of each chain to use, spread evenly; all by default. A quarter of them takes a quarter of the time.
    seed : int, numpy.random.Generator or RandomState
        Of the resampling. Same seed, same result.

    Returns
    -------
    InferenceData or DataTree
        ``post`` with every group on ``chain`` and ``draw`` resampled, all draws of equal weight again, so that
        everything that takes a posterior takes this one. Draws keep their order and repeated ones stand side by side,
        so that R-hat and effective sample sizes count a repeated draw once. ``sample_stats`` has the exact log density
        ``lp`` and where each draw stood, ``source_chain`` and ``source_draw``. Attributes: ``reweighted`` (1),
        ``reweight_pareto_k`` and ``reweight_effective_draws`` (``1/Σ weight²``).

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample``, or is exact already; if ``X`` or ``y`` is not what was sampled, or
        ``draws`` is out of range; if the Pareto k is above 1, for the weights then have no mean.

    Warns
    -----
    ApproximationWarning
        If the Pareto k is above what the number of draws allows (0.7 with 2,000 or more), so that a few draws decide.
        :func:`bayesdrop.diagnose` says so too.

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
    """
    seed = check_seed(seed)
    found = read_draws(post, draws)
    posterior = read_group(post, "posterior")
    attrs = {**getattr(post, "attrs", {}), **posterior.attrs}
    if "approximation" not in attrs:
        raise ValueError(
            "post: expected draws whose masks were integrated, of bd.HMC() or bd.NUTS() on a model with masks; these "
            "need no weights" + (", they have been reweighted." if attrs.get("reweighted") else ", they are exact.")
        )
    streamed = row_blocks(X, found)
    matrix = match_columns(X, found) if streamed is None else streamed.design
    check_rows(post, matrix.shape[0])
    target = observed_response(post, found, y)
    constant = read_group(post, "constant_data") if "constant_data" in group_names(post) else {}
    weight = constant["row_weight"].values if "row_weight" in constant else np.ones(len(target))
    offset = stored_offset(post)
    vectors = (target, weight) if offset is None else (target, weight, offset)
    with np.errstate(over="ignore", invalid="ignore"):
        if streamed is None:
            ratios = _ratios(found, matrix, *vectors)
        else:
            ratios = np.sum(streamed.each(partial(_ratios, found), *vectors), axis=0)
    if not np.all(np.isfinite(ratios)):
        raise ValueError(
            "X: the log-likelihood of these rows leaves double precision at some draws; give the rows that were "
            "sampled, with features on the scale that they had there."
        )
    log_weights, k = smoothed_log_weights(ratios)
    if k > _NO_MEAN:
        raise ValueError(
            f"post: the importance weights of these draws have a Pareto k of {k:.2f}, so that no number of draws "
            "brings their average to rest: the approximation is too far from the posterior. Sample with "
            'bd.HMC(masks="summed"), where it takes the model, or bd.Gibbs(), which draws the masks.'
        )
    shares = np.exp(log_weights)
    # Systematic resampling: one uniform number, and each draw as often as its share says, rounded up or down.
    places = (np.arange(found.size) + np.random.default_rng(seed).random()) / found.size
    chosen = np.minimum(np.searchsorted(np.cumsum(shares), places), found.size - 1)
    attrs = {name: value for name, value in attrs.items() if not name.startswith("approximation")}
    attrs |= {
        "reweighted": 1,
        "reweight_pareto_k": k,
        "reweight_effective_draws": float(1 / np.sum(shares**2)),
    }
    whole = [name for name in group_names(post) if name not in (SUMMARY, THINNED)]
    groups = {name: _resampled(dataset(post, name), found, chosen) for name in whole}
    stats = groups.get("sample_stats")
    if stats is not None:
        groups["sample_stats"] = _statistics(stats, found, chosen, ratios)
    for group in groups.values():
        group.attrs = {**group.attrs, **attrs}
        for name in [name for name in group.attrs if str(name).startswith("approximation")]:
            del group.attrs[name]
    problem = approximation_problem(attrs, found.size)
    if problem is not None:
        warn(f"{problem.text}. {problem.advice}", ApproximationWarning)
    return assemble(groups, attrs)


def _ratios(
    draws: Draws, matrix: Any, target: PerRow, weight: PerRow, offset: PerRow | None = None
) -> Float[np.ndarray, " S"]:
    """Log weight of every draw from some rows."""
    return np.asarray(errors_of(draws, matrix, target, weight, offset).sum(axis=1))


def _resampled(group: xr.Dataset, draws: Draws, chosen: Int[np.ndarray, " S"]) -> xr.Dataset:
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


def _statistics(
    stats: xr.Dataset, draws: Draws, chosen: Int[np.ndarray, " S"], ratio: Float[np.ndarray, " S"]
) -> xr.Dataset:
    """Log density of the model with masks, divergences, and where a draw stood; no course of trajectories."""
    chain, draw = np.divmod(chosen, draws.shape[1])
    found = stats[[name for name in ("lp", "diverging") if name in stats]]
    if "lp" in found:
        found["lp"] = found["lp"] + ratio[chosen].reshape(draws.shape)
    sources = {"source_chain": draws.steps["chain"][chain], "source_draw": draws.steps["draw"][draw]}
    return found.assign({name: (("chain", "draw"), part.reshape(draws.shape)) for name, part in sources.items()})
