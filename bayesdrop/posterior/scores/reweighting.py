r"""``reweight``: draws of the approximation with masks integrated, resampled to be draws of the model with masks.

    weight of a draw  ∝  p(θ) exp E / q(θ),      E = Σ_i s_i log Σ_α p(α | η) p(y_i | x_i∘α)

for draws of the approximation and two more sets that go beyond them, whose common density is ``q``
(:mod:`.widened`): so that what the approximation missed has a weight as well. The weights are Pareto-smoothed
(:mod:`bayesdrop.posterior.diagnostics.pareto`). The sum over masks is had without drawing any
(:mod:`bayesdrop.posterior.noise_average.expectation`), so that the weights have no noise of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import Float, PerRow
from ..._validation import check_seed, takes_seed
from ...priors.rate_prior import RateLaw
from ...warnings import ApproximationWarning, warn
from ..arviz_groups.groups import assemble, dataset, group_names
from ..arviz_groups.stored_rate_prior import read_rate_prior
from ..diagnostics.problems import NO_MEAN, approximation_problem
from ..draws.draws import Draws, draws_of, read_draws, stored_offset
from ..draws.new_rows import check_rows, match_columns
from ..draws.row_blocks import row_blocks
from ..noise_average.expectation import MASKS
from .approximation_error import likelihoods_of
from .correction import count_beyond, resampled
from .pointwise import log_likelihood_group, observed_response, streamed_group
from .widened import Widened, widen

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["reweight"]


@takes_seed
def reweight(post: Any, X: Any, y: Any, *, draws: int | None = None, seed: Any = 0) -> Any:
    """Correct draws of ``bd.HMC()`` or ``bd.NUTS()`` on a model with masks by importance resampling.

    These samplers integrate the masks as if scores were normal. Their draws are joined by a copy that is stretched
    about their mean and by draws of the prior, which go where the approximation did not; each is given the weight of
    the exact density over that which they come from, and draws are then repeated in proportion to their weights.
    :func:`bayesdrop.sample` does so by itself where rows are few.

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
        Of the draws of the prior and the resampling. Same seed, same result.

    Returns
    -------
    InferenceData or DataTree
        The groups of ``post`` with as many draws as it had, resampled, all of equal weight again, so that everything
        that takes a posterior takes this one. Draws keep their order and repeated ones stand side by side, so that
        R-hat and effective sample sizes count a repeated draw once. ``sample_stats`` has the exact log density ``lp``
        and where each draw stood, ``source_chain`` and ``source_draw``, -1 for draws that are not the sampler's. The
        group ``log_likelihood`` is computed anew; others that were made of the draws, such as predictions, are left
        out. Attributes: ``reweighted`` (1), ``reweight_pareto_k``, ``reweight_effective_draws`` (``1/Σ weight²``) of
        ``reweight_draws`` weighted ones, and ``reweight_beyond``, the weight of those that are not the sampler's.

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
    ...     method = bd.HMC(correct=False)  # which else would do so itself
    ...     post = bd.sample(bd.Model(), X, y, method=method, draws=50, tune=50, chains=2, progress=False)
    ...     exact = bd.reweight(post, X, y)
    >>> bd.groups.dataset(exact, "posterior")["rate"].sizes == bd.groups.dataset(post, "posterior")["rate"].sizes
    True
    """
    seed = check_seed(seed)
    sampled = read_draws(post, draws)
    groups = {name: dataset(post, name) for name in group_names(post)}
    attrs = {**getattr(post, "attrs", {}), **groups["posterior"].attrs}
    if "approximation" not in attrs:
        raise ValueError(
            "post: expected draws whose masks were integrated, of bd.HMC() or bd.NUTS() on a model with masks; these "
            "need no weights" + (", they have been reweighted." if attrs.get("reweighted") else ", they are exact.")
        )
    streamed = row_blocks(X, sampled)
    matrix = match_columns(X, sampled) if streamed is None else streamed.design
    check_rows(post, matrix.shape[0])
    target = observed_response(post, sampled, y)
    constant: Any = groups.get("constant_data", {})
    weight = constant["row_weight"].values if "row_weight" in constant else np.ones(len(target))
    offset = stored_offset(post)
    vectors = (target, weight) if offset is None else (target, weight, offset)
    found = widen(sampled, _rate_law(sampled, groups), count_beyond(sampled.size, matrix), [seed])
    with np.errstate(over="ignore", invalid="ignore"):
        if streamed is None:
            likelihood = likelihoods_of(found, matrix, *vectors)
        else:
            likelihood = np.sum(streamed.each(partial(_of_block, found), *vectors), axis=0)
    if not np.all(np.isfinite(likelihood[:2, : sampled.size])):
        raise ValueError(
            "X: the log-likelihood of these rows leaves double precision at some draws; give the rows that were "
            "sampled, with features on the scale that they had there."
        )
    k = found.weights(likelihood)[1]
    if k > NO_MEAN:
        raise ValueError(
            f"post: the importance weights of these draws have a Pareto k of {k:.2f}, so that no number of draws "
            "brings their average to rest: the approximation is too far from the posterior. Sample with "
            "bd.Gibbs(), which draws the masks."
        )
    result, attrs = resampled(groups, attrs, found, likelihood, [seed])
    if "log_likelihood" in groups:
        after = draws_of(result["posterior"], sampled.model, marginalised=False, has_offset=offset is not None)
        if streamed is None:
            group = log_likelihood_group(after, matrix, target, weight, offset=offset)
        else:
            group = streamed_group(after, streamed, target, weight, MASKS, offset)
        result["log_likelihood"] = group.assign_attrs(result["posterior"].attrs)
    problem = approximation_problem(attrs, sampled.size)
    if problem is not None:
        warn(f"{problem.text}. {problem.advice}", ApproximationWarning)
    return assemble(result, attrs)


def _rate_law(draws: Draws, groups: Mapping[str, xr.Dataset]) -> RateLaw | None:
    """Prior of the free rates: the stored one, or the model's where it does not depend on the rows."""
    rate_map = draws.model.bind(draws.feature_names)
    if not rate_map.is_free:
        return None
    stored = read_rate_prior(groups["constant_data"]) if "constant_data" in groups else None
    return rate_map.prior.law(np.zeros(rate_map.size)) if stored is None else stored


def _of_block(
    found: Widened, matrix: Any, target: PerRow, weight: PerRow, offset: PerRow | None = None
) -> Float[np.ndarray, "4 N"]:
    """Log-likelihoods of a block of rows."""
    return likelihoods_of(found, matrix, target, weight, offset)
