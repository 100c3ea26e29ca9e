"""Resample draws that assume normal scores, so that they are draws of the model with masks: ``bd.reweight``.

    weight of a draw  ∝  p(θ) exp E / q(θ),      E = Σ_i s_i log Σ_α p(α | η) p(y_i | x_i∘α)

for draws of the approximation and of the prior, whose common density is ``q`` (:mod:`.widened`), so that modes that
the approximation missed have a weight too. The weights are Pareto-smoothed
(:mod:`bayesdrop.posterior.diagnostics.mixing`). The sum over masks is computed without random masks
(:mod:`bayesdrop.posterior.noise_average.expectation`), so that the weights have no Monte Carlo error.

After a run of such a sampler the error of the draws is computed and, for few rows, corrected in this way. Resampled
draws have equal weight and the order of the chains, with copies adjacent. So functions of draws need no weights, and
effective sample sizes count a repeated draw once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import ArvizData, Float, Int, Shaped
from ..._validation import check_seed, takes_seed
from ...data.dataset import Dataset
from ...losses.protocols import Augmented, Simulated
from ...model import Model
from ...noise.base import centre_of
from ...priors.rate_prior import BetaLaw
from ...warnings import ApproximationWarning, warn
from ..arviz_groups.builder import Attributes
from ..arviz_groups.constants import in_model_order, parted, read_rate_prior
from ..arviz_groups.groups import assemble, dataset, group_names, read_attributes
from ..diagnostics.mixing import LIMITS
from ..diagnostics.problems import approximation_problem, draw_the_masks
from ..draws.draws import Draws, draws_of, read_draws
from .approximation_error import EFFORT, ApproximationError, approximation_error, entries_of, error_over, likelihoods_of
from .pointwise import rows_group, sampled_rows
from .widened import Widened, widen

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["count_beyond", "judged", "resampled", "reweight", "stated_approximation"]


@takes_seed
def reweight(post: Any, X: Any, y: Any = None, *, draws: int | None = None, seed: Any = 0) -> ArvizData:
    """Correct draws of ``bd.HMC()`` or ``bd.NUTS()`` on a model with masks by importance resampling.

    These samplers integrate the masks as if scores were normal. Draws of the prior join theirs, to cover modes that the
    approximation misses. The weight of each draw is the exact density divided by the density of this mixture, and draws
    are resampled in proportion to their weights.
    :func:`bayesdrop.sample` does this automatically if there are few rows.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` returned, or :func:`bayesdrop.groups.load` read.
    X : array, data frame or scipy sparse (n, p)
        The rows that were sampled, without those of weight 0; with a formula, its table. ``bd.Blocks`` and Dask
        collections are read once, a block at a time.
    y : sequence of n labels or numbers, optional
        The responses of these rows; None with a formula.
    draws : int, optional
        Number of draws of each chain to use, evenly spaced; all by default. The time is proportional to it.
    seed : int, numpy.random.Generator or RandomState, default=0
        Seed of the draws of the prior and of the resampling. Same seed, same result.

    Returns
    -------
    InferenceData or DataTree
        The groups of ``post`` with as many draws as before, resampled and of equal weight, so that every function for
        posteriors accepts them. Draws keep their order, and copies of a draw are adjacent, so that R-hat and effective
        sample sizes count a repeated draw once. ``sample_stats`` has the exact log density ``lp`` and the origin of
        each draw, ``source_chain`` and ``source_draw``, -1 for draws that are not from the sampler; ``energy``,
        ``acceptance_rate``, ``step_size`` and ``n_steps`` are those of the sampler's trajectories in their order, and
        are omitted if ``draws`` thins them. The group ``log_likelihood`` is computed again; other groups that depend
        on the draws, such as predictions, are omitted. Attributes: ``reweighted`` (1), ``reweight_pareto_k``,
        ``reweight_effective_draws`` (``1/Σ weight²``) of ``reweight_draws`` weighted ones, and ``reweight_beyond``,
        the total weight of those that are not from the sampler.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample``, or is exact already; if ``X`` or ``y`` differ from the data of ``post``,
        or ``draws`` is out of range; if the Pareto k is above 1, as the weights then have no mean.

    Warns
    -----
    ApproximationWarning
        If the Pareto k is above what the number of draws allows (0.7 with 2,000 or more), so that a few draws dominate.
        :func:`bayesdrop.diagnose` reports it too.

    See Also
    --------
    HMC, diagnose

    References
    ----------
    Vehtari, Simpson, Gelman, Yao & Gabry (2024), Pareto smoothed importance sampling, JMLR 25.

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
    attrs = read_attributes(post)
    groups["posterior"] = in_model_order(groups["posterior"], sampled.model, sampled.feature_names, sampled.classes)
    if "approximation" not in attrs:
        raise ValueError(
            "post: expected draws whose masks were integrated, of bd.HMC() or bd.NUTS() on a model with masks; these "
            "need no weights" + (", they have been reweighted." if attrs.get("reweighted") else ", they are exact.")
        )
    rows, vectors = sampled_rows(post, sampled, X, y)
    widened = widen(
        sampled,
        _rate_law(sampled, groups),
        count_beyond(sampled.size, rows.design if rows.matrix is None else rows.matrix),
        [seed],
    )
    with np.errstate(over="ignore", invalid="ignore"):
        likelihood = np.sum(rows.each(partial(likelihoods_of, widened), *vectors), axis=0)
    if not np.all(np.isfinite(likelihood[:2, : sampled.size])):
        raise ValueError(
            "X: the log-likelihood of these rows overflows double precision at some draws; give the rows that were "
            "sampled, with features on the scale that they had there."
        )
    k = widened.weights(likelihood)[1]
    if k > LIMITS.mean_k:
        raise ValueError(
            f"post: the importance weights of these draws have a Pareto k of {k:.2f}, so that their average does not "
            "converge with any number of draws: the approximation is too far from the posterior; "
            f"{draw_the_masks(attrs)}"
        )
    result, attrs = resampled(groups, attrs, widened, likelihood, [seed])
    if "log_likelihood" in groups:
        after = draws_of(result["posterior"], sampled.model, marginalised=False, has_offset=sampled.has_offset)
        group = rows_group(after, rows, *vectors)
        result["log_likelihood"] = group.assign_attrs(result["posterior"].attrs)
    result["posterior"] = parted(result["posterior"], sampled.model.weight_prior)
    problem = approximation_problem(attrs, sampled.size)
    if problem is not None:
        warn(f"{problem.text}. {problem.advice}", ApproximationWarning)
    return assemble(result, attrs)


def _rate_law(draws: Draws, groups: Mapping[str, xr.Dataset]) -> BetaLaw | None:
    """Prior of the free rates: the stored one, or the model's if it does not depend on the rows."""
    rate_map = draws.model.bind(draws.feature_names)
    if not rate_map.is_free:
        return None
    stored = read_rate_prior(groups.get("constant_data", {}), rate_map.names)
    return rate_map.prior.law(np.zeros(rate_map.size)) if stored is None else stored


Groups = dict[str, "xr.Dataset"]


def stated_approximation(model: Model) -> Attributes:
    """Attribute of draws that assume normal scores."""
    mend = "bd.Gibbs() draws them" if isinstance(model.loss, Augmented) else "bd.reweight corrects it"
    return {"approximation": f"masks are integrated as if scores were normal; {mend}"}


def judged(
    groups: Groups, attrs: Attributes, model: Model, data: Dataset, law: BetaLaw | None, correct: bool, seed: Any
) -> tuple[Groups, Attributes]:
    """Groups and attributes with the error of the approximation, or with corrected draws.

    Parameters
    ----------
    groups, attrs
        Groups and attributes of a run that integrated masks under normal scores, with :func:`stated_approximation`.
    model, data, law
        The sampled model, its data, and the prior of any free rates.
    correct : bool
        Whether to correct draws with too large an error if rows are few and in memory.
    seed : int or JAX key
        Seed of the run, from which new random numbers are derived.
    """
    import jax

    from ...sampling.run.runner import as_key

    seed = [int(part) for part in np.asarray(jax.random.key_data(as_key(seed)))]
    posterior = groups["posterior"]
    size, chains = posterior.sizes["chain"] * posterior.sizes["draw"], posterior.sizes["chain"]
    if not (isinstance(model.loss, Simulated) and _has_density(model.weight_prior, posterior.sizes["feature"])):
        return groups, attrs  # without normalised densities there is no exact posterior to compare with
    affordable = not data.design.is_streamed and entries_of(data.X) * size <= EFFORT.correction
    if not (correct and affordable):
        count = min(-(-EFFORT.draws // chains), posterior.sizes["draw"])
        return groups, attrs | _stated(
            approximation_error(draws_of(posterior, model, count, marginalised=False), data, law, seed)
        )
    draws = draws_of(posterior, model, marginalised=False)
    widened = widen(draws, law, count_beyond(size, data.X), seed)
    likelihood = likelihoods_of(widened, data.X, data.target, data.weight, data.offset)
    attrs |= _stated(error_over(widened, likelihood, len(data.target)))
    if approximation_problem(attrs, size) is None or widened.weights(likelihood)[1] > LIMITS.mean_k:
        return groups, attrs
    return resampled(groups, attrs, widened, likelihood, seed)


def _has_density(prior: Any, n_features: int) -> bool:
    """Whether the density of the weights, given shared learnt scales, has a closed form for reweighting."""
    if prior.learnt_scale(n_features) is not None:
        return True
    try:
        prior.log_density(np.zeros((1, n_features)))
    except TypeError:
        return False
    return True


def _stated(error: ApproximationError) -> Attributes:
    """Attributes that describe an error."""
    attrs: Attributes = {
        "approximation_error": error.per_row,
        "approximation_total": error.total,
        "approximation_bound": error.bound,
        "approximation_draws": error.draws,
        "approximation_rows": error.rows,
    }
    return attrs if np.isnan(error.pareto_k) else attrs | {"approximation_pareto_k": error.pareto_k}


def count_beyond(size: int, X: Any) -> int:
    """Number of draws of the prior to add to ``size`` draws of a sampler: as many for few rows, else fewer."""
    entries = float(np.prod(X.shape)) if getattr(X, "is_streamed", False) else entries_of(X)
    return int(np.clip(EFFORT.correction / entries - size, EFFORT.beyond, size))


def resampled(
    groups: Mapping[str, xr.Dataset],
    attrs: Attributes,
    widened: Widened,
    likelihood: Float[np.ndarray, "3 N"],
    seed: list[int],
) -> tuple[Groups, Attributes]:
    """Groups of resampled draws, and their attributes.

    Groups derived from the draws are left out, except the posterior and its statistics.
    """
    (share, k), sampled, order = widened.weights(likelihood), widened.sets[0], widened.order
    # Systematic resampling: with one uniform number, each draw occurs its share of times, rounded up or down.
    places = (np.arange(sampled.size) + np.random.default_rng([*seed, 1]).random()) / sampled.size
    chosen = order[np.minimum(np.searchsorted(np.cumsum(share[order]), places), len(order) - 1)]
    attrs = {name: value for name, value in attrs.items() if not name.startswith("approximation")}
    attrs |= {
        "reweighted": 1,
        "reweight_pareto_k": k,
        "reweight_effective_draws": float(1 / np.sum(share**2)),
        "reweight_draws": len(share),
        "reweight_beyond": float(share[sampled.size :].sum()),
    }
    made_groups = {"posterior": _variables(groups["posterior"], widened, chosen)}
    if "sample_stats" in groups:
        made_groups["sample_stats"] = _statistics(groups["sample_stats"], widened, chosen, likelihood)
    of_draws = [name for name in groups if "draw" in groups[name].dims and not name.startswith("prior")]
    left = {name: group.copy() for name, group in groups.items() if name not in of_draws}
    result = {name: (made_groups | left)[name] for name in groups if name in made_groups | left}
    for group in result.values():
        group_attrs = {name: value for name, value in group.attrs.items() if not str(name).startswith("approximation")}
        group.attrs = group_attrs | attrs
    return result, attrs


def _variables(group: xr.Dataset, widened: Widened, chosen: Int[np.ndarray, " S"]) -> xr.Dataset:
    """Chosen draws of the variables of the model."""
    (sampled, added), centre = widened.sets, centre_of(widened.sets[0].model.noise)
    beyond: dict[str, Shaped[np.ndarray, "_ ..."]] = {
        name: getattr(added, attribute).astype(group["weight"].dtype)
        for name, attribute in (("weight", "weight"), ("intercept", "intercept"), ("rate", "free_rate"))
    }
    if added.weight_scale is not None:
        beyond["weight_scale"] = added.weight_scale
    for one in sampled.model.loss.parameters:
        beyond[one.name] = np.asarray(added.parameter)
    if centre is not None:
        # Use the stored weights, because for columns far from 0 their rounding changes the scores.
        beyond["intercept"] = beyond["intercept"].astype(np.float64) - beyond["weight"].astype(np.float64) @ centre
    thinned = group[[name for name, part in group.items() if name in beyond and "draw" in part.dims]]
    thinned = thinned.sel(draw=sampled.steps["draw"])
    for name in list(thinned):
        part = thinned[name].transpose("chain", "draw", ...)
        values = part.values.reshape(sampled.size, *part.shape[2:])
        more = beyond[str(name)].reshape(-1, *part.shape[2:]).astype(values.dtype)
        thinned[name] = part.copy(data=np.concatenate([values, more])[chosen].reshape(part.shape))
    return thinned


def _statistics(
    stats: xr.Dataset, widened: Widened, chosen: Int[np.ndarray, " S"], likelihood: Float[np.ndarray, "3 N"]
) -> xr.Dataset:
    """Log density of the model with masks, divergences and origin of each draw, and statistics of the trajectories.

    Energies, acceptance rates and steps describe the run and are not resampled, because E-BFMI compares each
    trajectory with the one before. They are left out if the run was thinned.
    """
    sampled = widened.sets[0]
    is_sampled, number = chosen < sampled.size, np.minimum(chosen, sampled.size - 1)
    chain, draw = np.divmod(number, sampled.shape[1])
    trajectories = ("acceptance_rate", "energy", "step_size", "n_steps")
    whole = len(sampled.steps["draw"]) == stats.sizes["draw"]
    names = ("lp", *(trajectories if whole else ()), "diverging")
    thinned = stats[[name for name in names if name in stats]].sel(draw=sampled.steps["draw"])
    if "lp" in thinned:
        values = (widened.log_prior + likelihood[0])[chosen]
        thinned["lp"] = thinned["lp"].copy(data=values.reshape(sampled.shape).astype(thinned["lp"].dtype))
    if "diverging" in thinned:
        values = np.where(is_sampled, thinned["diverging"].values.ravel()[number], 0)
        thinned["diverging"] = thinned["diverging"].copy(data=values.reshape(sampled.shape))
    sources = {
        "source_chain": np.where(is_sampled, sampled.steps["chain"][chain], -1),
        "source_draw": np.where(is_sampled, sampled.steps["draw"][draw], -1),
    }
    return thinned.assign({name: (("chain", "draw"), part.reshape(sampled.shape)) for name, part in sources.items()})
