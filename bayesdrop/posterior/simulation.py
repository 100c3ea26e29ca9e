r"""Simulate responses from a posterior and from a prior.

    y ~ p(y | s) ∝ exp(−C loss(y, s)),      s = Σ_d w_d x̃_d + b,      x̃ noised afresh for each draw and row

A loss draws from its ``p(y | s)`` by ``sample_response``. The hinge is not a likelihood: its
pseudo-likelihood is normalised over the two classes (see :class:`bayesdrop.losses.Hinge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from .._typing import ArvizData, Float, PerRow, Shaped
from .._validation import check_flag, check_number, check_seed, shown, takes_seed
from ..data.column_facts import complete_rows
from ..data.dataset import Dataset
from ..description import attributes
from ..fitting.by_formula import FormulaOptions
from ..fitting.objective.centring import centre_problem
from ..losses.protocols import Simulated, require
from ..model import Model
from ..priors import RandomEffects
from ..priors.base import selecting
from ..rates import RateMap
from .arviz_groups.builder import draws_dataset, provenance
from .arviz_groups.constants import PAIR, class_names, correlation_coords, model_coords, parted
from .arviz_groups.groups import assemble, extend
from .draws.draws import Draws, blocks, read_draws, stored_constants, stored_offset
from .draws.new_rows import check_rows, for_rows, match_design, match_offset, match_rows, with_unseen
from .noise_average.expectation import expected_response
from .priors_table import read_prior_rows
from .response_units import with_spread
from .sampling import check_counts
from .scores.pointwise import MOST

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["posterior_predictive", "prior_draws"]


@takes_seed
def posterior_predictive(
    post: Any,
    X: Any,
    *,
    seed: Any = 0,
    draws: int | None = None,
    new: bool = False,
    corrupted_inputs: bool = False,
    offset: Any = None,
    unseen: str | None = None,
) -> ArvizData:
    """Simulate responses from each draw of a posterior, with fresh noise of the features.

    Parameters
    ----------
    post : InferenceData or DataTree
        What ``bd.sample`` returned, or :func:`bayesdrop.groups.load` read.
    X : array, data frame, scipy sparse or Blocks (n, p)
        The rows that were sampled (without those of weight 0), or new ones with ``new=True``. ``bd.Blocks`` are read
        once, a block at a time; the responses depend on the division into blocks as they do on the seed.
    seed : int, numpy.random.Generator or RandomState, default=0
        Same seed, same result.
    draws : int, optional
        Number of draws of each chain to use, evenly spaced; all by default.
    new : bool, default=False
        Whether ``X`` has new rows: the group is then called ``predictions`` instead of ``posterior_predictive``,
        following ArviZ, and is not compared with ``observed_data``.
    corrupted_inputs : bool, default=False
        Whether the rows are corrupted already, so that no noise is drawn.
    offset : array (n,) or float, optional
        Known part of the score of each new row, needed if the rows that were sampled had one; for these it is stored.
    unseen : "error", "population" or "draw", optional
        Treatment of a level absent from the fit, as in :func:`bayesdrop.predict`.

    Returns
    -------
    InferenceData or DataTree
        ``post`` with the group added: ``y`` (chain, draw, obs_id), classes as 0 and 1 (int8), counts as int64, numbers
        as float64. For responses of successes and failures, the rows of the fit have successes in their number of
        trials, and new rows have one trial. Row weights, which are powers of likelihoods, have no effect. Numbers under
        an ε-insensitive loss are drawn from its density ``exp(−C max(0, |y − s| − ε))/(2ε + 2/C)``; classes under a
        hinge from its pseudo-likelihood, normalised over the two, which is not the fitted model (see
        :class:`bayesdrop.losses.Hinge`).

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample``, ``draws`` is out of range, or ``X`` has other columns or, unless ``new``,
        another number of rows.

    See Also
    --------
    predict, prior_draws

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> from bayesdrop.description import attributes
    >>> weight = xr.Dataset({"weight": (("chain", "draw", "feature"), [[[2.0], [1.0]]])}, coords={"feature": ["x0"]})
    >>> model = bd.Model(rates=bd.Fixed(0.5), fit_intercept=False)
    >>> post = bd.groups.assemble({"posterior": weight}, attributes(model))
    >>> more = posterior_predictive(post, [[0.0], [10.0], [20.0]], new=True)
    >>> bd.groups.dataset(more, "predictions")["y"].shape
    (1, 2, 3)
    """
    import xarray as xr

    posterior = with_unseen(read_draws(post, draws), unseen)
    seed = check_seed(seed)
    new = check_flag(new, "new")
    X, offset = complete_rows(X, posterior.feature_names, posterior.facts, offset, with_response=not new)
    posterior = for_rows(posterior, X, seed) if new else posterior
    rows = match_rows(X, posterior)
    n = rows.design.shape[0]
    if not new:
        check_rows(post, n)
        if offset is not None:
            raise ValueError("offset: that of the rows that were sampled is known; give one with new=True alone.")
        offset = stored_offset(post)
    check_flag(corrupted_inputs, "corrupted_inputs")
    generator = np.random.default_rng(seed)
    known_offsets = match_offset(posterior, offset, n, X if new else None)
    trials = None if new or "trials" not in stored_constants(post) else stored_constants(post)["trials"].values
    if rows.matrix is None and posterior.size * n > MOST:
        raise ValueError(
            f"draws: expected at most {MOST:,} responses, one for each draw and row, of rows that are not in "
            f"memory, got {posterior.size:,} draws of {n:,} rows; give `draws`, fewer of each chain, or fewer rows."
        )
    parts = []
    for place, matrix in rows.parts():
        offsets, counts = (None if part is None else part[place] for part in (known_offsets, trials))
        parts.append(_responses(posterior, matrix, generator, corrupted_inputs, offsets, counts))
    simulated = xr.concat(parts, "obs_id").assign_coords(obs_id=np.arange(n))
    return extend(post, {"predictions" if new else "posterior_predictive": simulated})


def _responses(
    draws: Draws,
    X: Any,
    generator: np.random.Generator,
    corrupted_inputs: bool,
    offset: Float[np.ndarray, " n"] | None = None,
    trials: PerRow | None = None,
) -> xr.Dataset:
    """One response of each row and draw, as a group of ArviZ; with ``trials`` the number of successes."""
    import xarray as xr

    n = X.shape[0]
    loss = require(draws.model.loss, Simulated, "bd.posterior_predictive", "write how y is drawn given the score")
    whole = loss.multiclass or loss.largest_count is not None
    values = np.empty((draws.size, n), dtype=np.int8 if loss.binary else np.int64 if whole else np.float64)
    if trials is not None:
        # Each trial has separate masks, so that the number of successes is binomial.
        chance = np.clip(expected_response(draws, X, corrupted_inputs, offset), 0.0, 1.0)
        values[:] = generator.binomial(trials[:, None], chance).T
    for part in blocks(0 if trials is not None else draws.size, n * (draws.weight.shape[1] if loss.multiclass else 1)):
        score = draws.noised_scores(X, part, generator, corrupted_inputs)
        score = score if offset is None else score + offset[:, None]
        # With classes the scores have one more axis, and the loss has no shape parameter.
        drawn = draws.loss_of(part).sample_response(generator, score, draws.C[part]).T
        values[part] = drawn > 0 if loss.binary else drawn
    coords = {**draws.steps, "obs_id": np.arange(n), **class_names(draws.classes)}
    return xr.Dataset({"y": (("chain", "draw", "obs_id"), values.reshape(*draws.shape, n))}, coords=coords)


@takes_seed
def prior_draws(
    model: Model | str,
    X: Any,
    y: Any = None,
    *,
    draws: int = 500,
    seed: Any = 0,
    intercept_scale: float | int | None = None,
    sample_weight: Any = None,
    offset: Any = None,
    feature_names: Any = None,
    classes: Any = None,
    full_rank: bool = False,
    unseen: str = "error",
    dropna: bool = False,
    random_scale: Any = None,
    correlation_shape: float | int = RandomEffects.eta,
) -> ArvizData:
    """Draw weights, rates and responses from the prior, to see what a model expects before any data.

    Parameters
    ----------
    model : Model or str
        The model; or a formula with the data frame as ``X``, as in :func:`bayesdrop.sample`.
    X : array, data frame or scipy sparse (n, p)
        Rows to simulate responses for; priors with relative strength also use the number of occurrences of each feature
        in them. Or a formula, ``"~ a + C(b) + (1 | site)"``, whose response is used as ``y``.
    y : sequence of n labels or numbers, or data frame where X is a formula, optional
        Responses, of which only those parts are used on which priors depend: the labels for ``bd.Softmax()``; the
        numbers of trials (successes plus failures) for ``bd.Binomial()``, which multiply the row weights; the standard
        deviation of numbers minus their offsets, if a scale is learnt (1 without ``y``) or there are random terms.
    draws : int, default=500
        Number of draws.
    seed : int, numpy.random.Generator or RandomState, default=0
        Same seed, same result.
    intercept_scale : float, optional
        Standard deviation of a normal prior that replaces the flat prior of the intercept, which cannot be drawn from;
        needed unless the model has an ``intercept_prior`` or no intercept. A value of 2 or 3 units of the score is
        weakly informative. If the noise is centred at ``c``, it is the prior of the score at ``c``, and ``intercept``
        is this score minus ``wᵀc``.
    sample_weight : array (n,), optional
        Row weights, >= 0, of the occurrences of features and the means and scales of columns and responses, on which
        priors depend. For the priors of a posterior with ``class_weight``, multiply them by the weights of the classes.
    offset : array (n,) or float, optional
        Known part of every row's score, as in :func:`bayesdrop.sample`; stored in ``constant_data``.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    classes : sequence of K labels, optional
        Class labels for ``bd.Softmax()``, at least two and all different, in the order of the numbers in ``y``; needed
        unless ``y`` is given.
    full_rank, dropna : bool, default=False
        For a formula, as in :func:`bayesdrop.fit`.
    unseen : "error", "population" or "draw", default="error"
        For a formula, as in :func:`bayesdrop.sample`.
    random_scale : HalfNormal, HalfCauchy, float, or mapping from term to one of them, optional
        Prior of the standard deviation of the effects of random terms, or its value, as in :func:`bayesdrop.sample`.
    correlation_shape : float, default=2.0
        Shape of the LKJ prior of their correlations, as in :func:`bayesdrop.sample`.

    Returns
    -------
    InferenceData or DataTree
        Groups ``prior`` (``weight``, ``rate``, ``group_rate``, ``group_strength``, ``intercept``, ``sigma``,
        ``dispersion``, ``global_scale``, ``weight_scale``, if the model has them, and for random terms the effects
        ``1|site`` and their scale ``1|site|scale``) and ``prior_predictive`` (``y``), one chain. With ``bd.Softmax()``
        intercepts sum to zero over the classes, and so do weights unless their prior is ``bd.Laplace``,
        ``bd.Horseshoe`` or ``bd.SpikeSlab``, as in a posterior.

    Raises
    ------
    ValueError
        If the intercept has a flat prior and ``intercept_scale`` is not given, classes are missing, a count, name, row,
        weight or offset is invalid, or an offset is given for ``bd.Softmax()``.

    See Also
    --------
    posterior_predictive, log_prior

    Examples
    --------
    >>> import bayesdrop as bd
    >>> tree = prior_draws(bd.Model(fit_intercept=False), [[1.0, 2.0], [0.5, -1.0]], draws=10)
    >>> bd.groups.dataset(tree, "prior")["rate"].shape
    (1, 10, 2)
    >>> model = bd.Model(weight_prior=bd.Normal({"age": 0.5}, mean=1.0), intercept_prior=bd.Normal(2.5))
    >>> tree = prior_draws(model, "ill ~ age", {"age": [3.0, 5.0], "ill": ["no", "yes"]}, draws=10)
    >>> bd.groups.dataset(tree, "prior")["weight"].feature.values.tolist()
    ['age']
    """
    import xarray as xr

    options = FormulaOptions(full_rank, unseen, dropna, random_scale, correlation_shape)
    rows = read_prior_rows(
        model, X, y, options, feature_names=feature_names, sample_weight=sample_weight, offset=offset, classes=classes
    )
    model, names = rows.model, rows.names
    labels = _labels(model, rows.classes)
    check_counts(draws, None, 1)
    seed = check_seed(seed)
    if model.fit_intercept and intercept_scale is None and model.intercept_prior is None:
        raise ValueError(
            "intercept_scale: the prior of the intercept is flat, so there is nothing to draw from; give the model a "
            "prior of it, intercept_prior=bd.Normal(2.5), or here intercept_scale=2.5, say, for a normal stand-in, or "
            "use bd.Model(..., fit_intercept=False)."
        )
    if intercept_scale is not None:
        check_number(intercept_scale, "intercept_scale", above=0)
        if model.intercept_prior is not None:
            raise ValueError(
                f"intercept_scale: it stands in for a flat prior, and the intercept has {model.intercept_prior!r}; "
                "leave it out."
            )
    design = match_design(rows.X if issparse(rows.X) else np.asarray(rows.X), names, model)
    generator = np.random.default_rng(seed)
    rate_map = model.bind(names)
    n, p = design.shape
    centring = with_spread(centre_problem(model, design, rows.weight, rate_map, names), rows.spread)
    matrix, inner = centring.design.matrix(), centring.model
    size = (draws,) if labels is None else (draws, len(labels))
    learnt = inner.weight_prior.learnt_scale(p)
    weight, scales = _prior_weights(inner.weight_prior, generator, size, p)
    level: Any = inner.intercept_prior
    intercept = np.zeros(size) if level is None else level.sample(generator, weight)
    if model.fit_intercept and intercept_scale is not None:
        intercept = intercept_scale * generator.normal(size=size)
    if labels is not None:
        intercept -= intercept.mean(axis=1, keepdims=True)
        if inner.weight_prior.gaussian or learnt is not None:
            weight -= weight.mean(axis=1, keepdims=True)
    data = Dataset(centring.design, np.zeros(n), rows.weight, names, None)
    free, groups = _prior_rates(rate_map, data, draws, generator)
    C, parameter, learnt_values = np.full(draws, float(model.C)), None, {}
    for one in inner.loss.parameters:
        parameter = one.prior.sample(generator, draws, 1)[:, 0] ** (1 / one.power)
        C, learnt_values = parameter**-one.degree, {one.name: parameter}
    steps = {"chain": np.arange(1), "draw": np.arange(draws)}
    sampled = Draws(
        inner, names, weight, intercept, free, rate_map.index, None if rate_map.is_free else rate_map.initial,
        C, False, labels, steps, parameter=parameter, correlation=scales.get("correlation"),
    )  # fmt: skip
    offsets = match_offset(sampled, rows.offset, n)
    drawn = {"weight": weight, **({"rate": free} if rate_map.is_free else {}), **scales, **groups, **learnt_values}
    if model.fit_intercept:
        block = np.vstack([weight.reshape(intercept.size, p).T, intercept.reshape(1, -1)])
        drawn["intercept"] = centring.to_original(block)[-1].reshape(size)
        if labels is not None:
            drawn["intercept"] -= drawn["intercept"].mean(axis=1, keepdims=True)
    many = () if labels is None else ("class",)
    dims: dict[str, tuple[str, ...]] = {name: many for name in drawn}
    dims |= {name: (*many, "feature") for name in drawn if name == "included"}
    if selecting(inner.weight_prior) is not None:  # one number for all classes
        dims |= {name: () for name in drawn if name in ("inclusion_prior", "weight_scale")}
    dims |= {"weight": (*many, "feature")} | {name: ("group",) for name in groups}
    dims |= {"rate": (rate_map.dim,)} if rate_map.is_free else {}
    coords = model_coords(rate_map, names) | class_names(labels)
    if learnt is not None:
        dims["weight_scale"] = learnt.dims
        coords["weight_group"] = np.array(learnt.names)
    if "correlation" in drawn:
        dims["correlation"] = (PAIR,)
        coords |= correlation_coords(inner.weight_prior)
    prior = draws_dataset({name: value[None] for name, value in drawn.items()}, dims, coords)
    prior = parted(prior, inner.weight_prior)
    attrs = provenance(
        inference_method="prior", method="independent draws", target="noising", model=repr(model), seed=seed
    )
    attrs |= attributes(centring.original_model, labels, rows.facts, names)
    responses = _responses(sampled, matrix, generator, False, offsets, rows.trials)
    groups_made = {"prior": prior, "prior_predictive": responses}
    if offsets is not None:
        groups_made["constant_data"] = xr.Dataset({"offset": ("obs_id", offsets)}, {"obs_id": np.arange(n)})
    for group in groups_made.values():
        group.attrs.update(attrs)
    return assemble(groups_made, attrs)


def _prior_weights(
    prior: Any, generator: np.random.Generator, size: tuple[int, ...], p: int
) -> tuple[Float[np.ndarray, "*size p"], dict[str, Any]]:
    """Weights, and scales by name; classes have separate scales of single weights, but share learnt scales."""
    features = selecting(prior)
    if features is not None and len(size) > 1:
        if features is not prior:
            raise ValueError("weight_prior: bd.SpikeSlab takes random terms where rows have one score; leave them out.")
        weight, scales = _prior_weights(features.slab, generator, size, p)
        found = features.sample_indicators(generator, size, p)
        return weight * found["included"], found | scales
    learnt = prior.learnt_scale(p)
    if learnt is not None and len(size) > 1:
        scale = prior.sample_weight(generator, size[0], p)[1]["weight_scale"].reshape(size[0], -1)
        weight = generator.normal(size=(*size, p)) * learnt.scale(scale)[:, None]
        return weight, {"weight_scale": scale if learnt.names else scale[:, 0]}
    weight, scales = prior.sample_weight(generator, int(np.prod(size)), p)
    return weight.reshape(*size, p), {
        name: np.reshape(value, (*size, *value.shape[1:])) for name, value in scales.items()
    }


def _labels(model: Model, classes: Any) -> Shaped[np.ndarray, " K"] | None:
    """Labels of the classes of a softmax model, or None for others; raise ValueError for invalid labels."""
    if not model.loss.multiclass:
        if classes is not None:
            raise ValueError(f"classes: {model.loss!r} has no classes to name, got {shown(classes)}; leave them out.")
        return None
    labels = np.empty(0) if classes is None else np.asarray(classes)
    if labels.ndim != 1 or len(labels) < 2 or len(set(labels.tolist())) < len(labels):
        raise ValueError(
            f"classes: expected two labels or more, all different, for {model.loss!r}, which has as many as y; got "
            f'{shown(classes)}. Give classes=["red", "green", "blue"], say.'
        )
    return labels


def _prior_rates(
    rate_map: RateMap, data: Dataset, draws: int, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "draws k"], dict[str, Float[np.ndarray, "draws g"]]]:
    """Free rates, (draws, k), and the parameters of their prior, (draws, g), by the names of a posterior."""
    hierarchy = rate_map.hierarchy
    if hierarchy is None:
        law = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
        return law.sample(generator, draws), {}
    size = (draws, len(hierarchy.names))
    mean = hierarchy.mean_prior.law(np.zeros(size[1])).sample(generator, draws)
    strength = hierarchy.strength_prior.scale * generator.gamma(hierarchy.strength_prior.shape, size=size)
    # A shape that underflows to 0 is invalid for a Beta distribution.
    up, down = (np.maximum(part * strength, 1e-12)[:, hierarchy.index] for part in (mean, 1 - mean))
    hyperparameters = {"group_rate": mean, "group_strength": strength}
    return generator.beta(up, down), hyperparameters
