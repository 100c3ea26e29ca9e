r"""Simulated responses: of the posterior, and of the prior.

    y ~ p(y | s) ∝ exp(−C loss(y, s)),      s = Σ_d w_d x̃_d + b,      x̃ noised afresh for each draw and row

A loss says how to draw from its own ``p(y | s)``, in ``sample_response``. The hinge is no likelihood: its
pseudo-likelihood is normalised over the two classes (see :class:`bayesdrop.losses.Hinge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from .._typing import ArvizData, Float, PerRow, Shaped
from .._validation import check_flag, check_names, check_number, check_seed, shown, takes_seed
from ..data.column_facts import ColumnFacts, complete_rows
from ..data.dataset import Dataset, default_names
from ..data.formulas.formula import encode_formula
from ..data.frames import as_frame
from ..description import attributes
from ..designs import column_names, in_memory
from ..fitting.by_formula import of_effects, of_terms, one_offset, takes_response_scale
from ..fitting.objective.centring import centre_problem
from ..losses.protocols import Simulated, require
from ..model import Model, check_model
from ..rates import RateMap
from .arviz_groups.builder import draws_dataset, provenance
from .arviz_groups.constants import class_names, model_coords, parted
from .arviz_groups.groups import assemble, extend
from .draws.draws import Draws, blocks, read_draws, stored_constants, stored_offset
from .draws.new_rows import NewRows, check_rows, for_rows, match_design, match_offset, match_rows, with_unseen
from .noise_average.expectation import expected_response
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
    """Simulate responses from each draw of a posterior, the noise of the features drawn afresh.

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
        What becomes of a level that the formula has not seen, as in :func:`bayesdrop.predict`.

    Returns
    -------
    InferenceData or DataTree
        ``post`` with the group added: ``y`` (chain, draw, obs_id), classes as 0 and 1 (int8), counts as int64, numbers
        as float64. Rows that were sampled with successes and failures have successes in as many trials; new rows of
        that model have one trial. Row weights, which are powers of likelihoods, do not matter. Numbers under an
        ε-insensitive loss are drawn from its density ``exp(−C max(0, |y − s| − ε))/(2ε + 2/C)``; classes under a hinge
        from its pseudo-likelihood, normalised over the two, which is not the model that was fitted (see
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
    known = match_offset(posterior, offset, n, X if new else None)
    trials = None if new or "trials" not in stored_constants(post) else stored_constants(post)["trials"].values
    simulated = _of_rows(posterior, rows, generator, corrupted_inputs, known, trials)
    return extend(post, {"predictions" if new else "posterior_predictive": simulated})


def _of_rows(
    draws: Draws,
    rows: NewRows,
    generator: np.random.Generator,
    corrupted_inputs: bool,
    offset: PerRow | None,
    trials: PerRow | None,
) -> xr.Dataset:
    """Responses of rows, wherever they lie; raise ValueError if those of streamed rows would fill memory."""
    import xarray as xr

    n = rows.design.shape[0]
    if rows.matrix is None and draws.size * n > MOST:
        raise ValueError(
            f"draws: expected at most {MOST:,} responses, one for each draw and row, of rows that are not in "
            f"memory, got {draws.size:,} draws of {n:,} rows; give `draws`, fewer of each chain, or fewer rows."
        )
    parts = []
    for place, matrix in rows.parts():
        known, count = (None if part is None else part[place] for part in (offset, trials))
        parts.append(_responses(draws, matrix, generator, corrupted_inputs, known, count))
    return xr.concat(parts, "obs_id").assign_coords(obs_id=np.arange(n))


def _responses(
    draws: Draws,
    X: Any,
    generator: np.random.Generator,
    corrupted_inputs: bool,
    offset: Float[np.ndarray, " n"] | None = None,
    trials: PerRow | None = None,
) -> xr.Dataset:
    """One response of each row and draw, as a group of ArviZ: of so many ``trials`` the number of successes."""
    import xarray as xr

    n = X.shape[0]
    loss = require(draws.model.loss, Simulated, "bd.posterior_predictive", "write how y is drawn given the score")
    named = loss.binary or loss.multiclass
    whole = loss.multiclass or loss.largest_count is not None
    values = np.empty((draws.size, n), dtype=np.int8 if loss.binary else np.int64 if whole else np.float64)
    if trials is not None:
        # Each trial has masks of its own, so that the number of successes is binomial.
        chance = np.clip(expected_response(draws, X, corrupted_inputs, offset), 0.0, 1.0)
        values[:] = generator.binomial(trials[:, None], chance).T
    for part in blocks(0 if trials is not None else draws.size, n * (draws.weight.shape[1] if loss.multiclass else 1)):
        score = draws.noised_scores(X, part, generator, corrupted_inputs)
        score = score if offset is None else score + offset[:, None]
        drawn = loss.sample_response(generator, score, draws.C[part]).T
        values[part] = drawn > 0 if loss.binary else drawn
    coords = {**draws.steps, "obs_id": np.arange(n), **class_names(draws.classes if named else None)}
    return xr.Dataset({"y": (("chain", "draw", "obs_id"), values.reshape(*draws.shape, n))}, coords=coords)


@takes_seed
def prior_draws(
    model: Model,
    X: Any,
    data: Any = None,
    *,
    draws: int = 500,
    seed: Any = 0,
    intercept_scale: float | int | None = None,
    feature_names: Any = None,
    classes: Any = None,
    offset: Any = None,
    random_scale: Any = None,
) -> ArvizData:
    """Draw weights, rates and responses from the prior, to see what a model expects before any data.

    Parameters
    ----------
    model : Model
        The model.
    X : array, data frame or scipy sparse (n, p)
        Rows to simulate responses for; priors of relative strength also take the number of occurrences of each feature
        from them. Or a formula, ``"~ a + C(b) + (1 | site)"``, whose response is ignored, unless it is numeric and its
        standard deviation is the default scale of random terms.
    data : data frame or dict of columns, optional
        The columns of a formula.
    draws : int, default=500
        Number of draws.
    seed : int, numpy.random.Generator or RandomState, default=0
        Same seed, same result.
    intercept_scale : float, optional
        Standard deviation of a normal prior that replaces the flat prior of the intercept, which cannot be drawn from;
        needed unless ``model.fit_intercept`` is false. A value of 2 or 3 units of the score is weakly informative.
        Where the noise is centred at ``c`` it is the prior of the score of ``c``, and ``intercept`` is that less
        ``wᵀc``.
    feature_names : sequence of p str, optional
        Names of the columns; taken from a data frame.
    classes : sequence of K labels, optional
        Class labels for ``bd.Softmax()``, at least two and all different, in the order of the numbers in ``y``; needed
        only there.
    offset : array (n,) or float, optional
        Known part of every row's score, as in :func:`bayesdrop.sample`; stored in ``constant_data``.
    random_scale : HalfNormal, HalfCauchy, float, or mapping from term to one of them, optional
        Prior of the standard deviation of the effects of random terms, or its value, as in :func:`bayesdrop.sample`.

    Returns
    -------
    InferenceData or DataTree
        Groups ``prior`` (``weight``, ``rate``, ``group_rate``, ``group_strength``, ``intercept``, ``sigma``,
        ``global_scale``, ``weight_scale`` as far as there are any, and for random terms the effects ``1|site`` and
        their scale ``1|site|scale``) and ``prior_predictive`` (``y``), one chain. With ``bd.Softmax()`` weights and
        intercepts sum to zero over the classes, as in a posterior.

    Raises
    ------
    ValueError
        If the intercept has a flat prior and ``intercept_scale`` is not given, classes are missing, a count, name, row
        or offset is invalid, or an offset is given for ``bd.Softmax()``.

    See Also
    --------
    posterior_predictive, log_prior

    Examples
    --------
    >>> import bayesdrop as bd
    >>> tree = prior_draws(bd.Model(fit_intercept=False), [[1.0, 2.0], [0.5, -1.0]], draws=10)
    >>> bd.groups.dataset(tree, "prior")["rate"].shape
    (1, 10, 2)
    """
    import xarray as xr

    check_model(model)
    facts = None
    if isinstance(X, str):
        if feature_names is not None:
            raise ValueError("feature_names: a formula names its columns; leave them out.")
        terms = X.partition("~")[2] if "~" in X else X
        table = as_frame(data, "data", "for X is a formula")
        encoded = encode_formula(f"~ {terms.strip()}", table, missing=model.missing)
        if encoded.random_terms and takes_response_scale(model.loss) and X.partition("~")[0].strip():
            encoded = encode_formula(X, table, missing=model.missing)
        model = of_effects(of_terms(model, encoded), encoded, random_scale)
        X, feature_names, offset = encoded.X, encoded.feature_names, one_offset(encoded, offset)
        facts = ColumnFacts(formula=encoded.encoder)
    elif data is not None:
        raise ValueError("data: it is the table of a formula, and X is none; leave it out.")
    elif random_scale is not None:
        raise ValueError("random_scale: it is of the random terms of a formula, and X is none; leave it out.")
    labels = _labels(model, classes)
    check_counts(draws, None, 1)
    seed = check_seed(seed)
    if model.fit_intercept and intercept_scale is None:
        raise ValueError(
            "intercept_scale: the prior of the intercept is flat, so there is nothing to draw from; give "
            "intercept_scale=2.5, say, for a normal stand-in, or use bd.Model(..., fit_intercept=False)."
        )
    if intercept_scale is not None:
        check_number(intercept_scale, "intercept_scale", above=0)
    columns, X = column_names(X) if feature_names is None else feature_names, in_memory(X)
    if len(np.shape(X)) != 2:
        raise ValueError(f"X: expected a matrix (n, p), got shape {np.shape(X)}; give a single row as X[None, :].")
    names = default_names(np.shape(X)[1]) if columns is None else check_names(columns, np.shape(X)[1])
    design = match_design(X if issparse(X) else np.asarray(X), names, model)
    generator = np.random.default_rng(seed)
    rate_map = model.bind(names)
    n, p = design.shape
    centring = centre_problem(model, design, np.ones(n), rate_map, names)
    matrix, inner = centring.design.matrix(), centring.model
    size = (draws,) if labels is None else (draws, len(labels))
    learnt = inner.weight_prior.learnt_scale(p)
    weight, scales = _prior_weights(inner.weight_prior, generator, size, p)
    intercept = np.zeros(size)
    if model.fit_intercept and intercept_scale is not None:
        intercept = intercept_scale * generator.normal(size=size)
    if labels is not None:
        intercept -= intercept.mean(axis=1, keepdims=True)
        if inner.weight_prior.gaussian or learnt is not None:
            weight -= weight.mean(axis=1, keepdims=True)
    data = Dataset(centring.design, np.zeros(n), np.ones(n), names, None)
    free, groups = _prior_rates(rate_map, data, draws, generator)
    C = np.full(draws, float(model.C))
    variance = model.loss.variance_prior
    if variance is not None:
        C = generator.gamma(variance.shape, size=draws) / variance.scale
    steps = {"chain": np.arange(1), "draw": np.arange(draws)}
    sampled = Draws(
        inner, names, weight, intercept, free, rate_map.index, None if rate_map.is_free else rate_map.initial,
        C, 1.0, False, labels, steps,
    )  # fmt: skip
    known = match_offset(sampled, offset, n)
    drawn = {"weight": weight, "rate": free, **scales, **groups}
    if model.fit_intercept:
        block = np.vstack([weight.reshape(-1, p).T, intercept.reshape(1, -1)])
        drawn["intercept"] = centring.to_original(block)[-1].reshape(size)
        if labels is not None:
            drawn["intercept"] -= drawn["intercept"].mean(axis=1, keepdims=True)
    if variance is not None:
        drawn["sigma"] = 1 / np.sqrt(C)
    many = () if labels is None else ("class",)
    dims: dict[str, tuple[str, ...]] = {name: many for name in drawn}
    dims |= {"weight": (*many, "feature"), "rate": (rate_map.dim,)} | {name: ("group",) for name in groups}
    if not rate_map.is_free:
        del dims["rate"]
    coords = model_coords(rate_map, names) | class_names(labels)
    if learnt is not None:
        dims["weight_scale"] = learnt.dims
        coords["weight_group"] = np.array(learnt.names)
    prior = draws_dataset({name: value[None] for name, value in drawn.items()}, dims, coords)
    prior = parted(prior, inner.weight_prior)
    attrs = provenance(
        inference_method="prior", method="independent draws", target="noising", model=repr(model), seed=seed
    )
    attrs |= attributes(centring.original_model, labels, facts or ColumnFacts(columns is not None), names)
    responses = _responses(sampled, matrix, generator, False, known)
    made = {"prior": prior, "prior_predictive": responses}
    if known is not None:
        made["constant_data"] = xr.Dataset({"offset": ("obs_id", known)}, {"obs_id": np.arange(n)})
    for group in made.values():
        group.attrs.update(attrs)
    return assemble(made, attrs)


def _prior_weights(
    prior: Any, generator: np.random.Generator, size: tuple[int, ...], p: int
) -> tuple[Float[np.ndarray, "*size p"], dict[str, Any]]:
    """Weights, and scales by name: each class has those of its weights, and all share a scale that is learnt."""
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
    """Labels of the classes of a model that has a score for each, or None; raise ValueError if they do not fit."""
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
    """Free rates, (draws, k), and what they were drawn from, (draws, g), under the names of the posterior."""
    hierarchy = rate_map.hierarchy
    if hierarchy is None:
        law = rate_map.prior.law(data.occurrences(rate_map.index, rate_map.size))
        return law.sample(generator, draws), {}
    size = (draws, len(hierarchy.names))
    mean = hierarchy.mean_prior.law(np.zeros(size[1])).sample(generator, draws)
    strength = hierarchy.strength_prior.scale * generator.gamma(hierarchy.strength_prior.shape, size=size)
    # A shape that underflows to 0 is no Beta distribution.
    up, down = (np.maximum(part * strength, 1e-12)[:, hierarchy.index] for part in (mean, 1 - mean))
    found = {"group_rate": mean, "group_strength": strength}
    return generator.beta(up, down), found
