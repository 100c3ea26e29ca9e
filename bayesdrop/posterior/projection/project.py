r"""Find submodels without noise that predict like a posterior, and score them: ``bd.project``.

Expected log predictive densities of a submodel come from leave-one-out cross-validation: each row is scored by the
projected draws with the Pareto-smoothed weights of the posterior without the row,

    elpd_i = log Σ_s w_is p(y_i | projection of draw s),      w_is ∝ 1 / p(y_i | draw s), smoothed.

With folds, the search and the projections that score a row do not use the row: they are repeated without its fold.
Scored on the rows of the search, a path looks better than it is (Piironen, Paasiniemi & Vehtari 2020;
McLatchie, Rögnvaldsson, Weber & Vehtari 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..._progress import step, waiting
from ..._typing import ArvizData, Int
from ..._validation import check_count, check_flag, check_folds, check_seed, listed, shown, takes_seed
from ...data.column_facts import complete_rows
from ...description import attributes
from ..arviz_groups.builder import build_groups, provenance
from ..arviz_groups.groups import assemble, dataset
from ..draws.draws import Draws, read_draws, stored_constants, stored_offset
from ..draws.new_rows import check_rows, match_design
from ..held_out import row_folds
from ..leave_one_out import held_out_of, left_out_log_weights
from ..scores.pointwise import pseudo_likelihood, stored_response
from .path import Projection
from .reference import Reference
from .search import forward

__all__ = ["project"]


@takes_seed
def project(
    post: Any,
    X: Any,
    *,
    sizes: int | Sequence[int] = 20,
    cv: Any = 5,
    terms: Mapping[str, Sequence[str]] | None = None,
    include: Sequence[str] | str = (),
    clusters: int = 10,
    draws: int = 400,
    refit: bool = False,
    seed: Any = 0,
) -> Projection:
    """Find submodels of few terms, without noise, that predict like a posterior, and score them.

    Starting from the intercept, each step adds the term whose submodel is nearest, in Kullback–Leibler divergence, to
    the predictions of the posterior (averaged over noise). Submodels are fits to these predictions, not to the
    responses, so that terms do not enter by chance correlation with the responses.

    Parameters
    ----------
    post : InferenceData or DataTree
        A posterior from ``bd.sample``, with a smooth loss that is a likelihood: logistic, squared, or of counts, at a
        known dispersion.
    X : array, data frame or scipy sparse (n, p)
        The rows that were sampled, in their order; with a formula, its table.
    sizes : int or sequence of int, default=20
        Largest number of terms, or the numbers of terms to score; at most as many as there are terms.
    cv : int, splitter, iterable of pairs or None, default=5
        Folds, as in :func:`bayesdrop.kfold`; the search is repeated without the rows of each fold. None scores the path
        on the rows of the search, which is optimistic.
    terms : mapping from name to feature names, optional
        Features that enter together; each feature is in one term. By default the terms of the formula, or each feature.
    include : str or sequence of str, optional
        Names of terms that every submodel has.
    clusters : int, default=10
        Number of clusters of draws that the search fits.
    draws : int, default=400
        Approximate number of draws to project and to score with, spread over the chains; all if there are fewer.
    refit : bool, default=False
        Whether to sample the model again without the rows of each fold, as :func:`bayesdrop.kfold` does, with the same
        settings and numbers of draws. Otherwise the search of a fold uses draws that depend on its rows: scores of
        sizes with unneeded terms are then slightly too high.
    seed : int, numpy.random.Generator or RandomState, default=0
        Seed of the folds and of the clusters.

    Returns
    -------
    Projection
        The path of terms, the scores of each size and of the posterior, rules for a size, and the projected
        draws of a size as a posterior.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample``, the rows differ from those of ``post`` or are not in memory, the loss is
        not a smooth likelihood of one score per row, or names in ``terms`` or ``include`` are unknown.

    Warns
    -----
    InfluenceWarning
        If some rows have a Pareto k above what the number of draws allows, so that their scores are unreliable.

    See Also
    --------
    Projection, loo, kfold, weights_table

    Notes
    -----
    The search fits clusters of draws; scores and results use projections of single draws. A ridge of 1e-6 per row on
    standardised weights keeps projections finite. Random terms of a formula enter like others, with the effects
    of all their levels.

    References
    ----------
    Piironen, Paasiniemi & Vehtari (2020), Projective inference in high-dimensional problems: prediction and feature
    selection, Electronic Journal of Statistics 14, https://doi.org/10.1214/20-EJS1711.
    McLatchie, Rögnvaldsson, Weber & Vehtari (2023), Robust and efficient projection predictive inference,
    https://arxiv.org/abs/2306.15581.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> generator = np.random.default_rng(0)
    >>> X = generator.normal(size=(80, 4))
    >>> y = (2 * X[:, 1] + generator.logistic(size=80) > 0).astype(int)
    >>> post = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, y, draws=500, progress=False)
    >>> path = bd.project(post, X, sizes=2, cv=None)
    >>> path.terms[0]
    'x1'
    """
    seed = check_seed(seed)
    check_count(clusters, "clusters")
    check_flag(refit, "refit")
    if refit and cv is None:
        raise ValueError("refit: without folds there is nothing to sample again; give cv=5, say.")
    if cv is not None:
        check_folds(cv)
    chains, each = read_draws(post).shape
    thin = min(each, -(-check_count(draws, "draws") // chains))
    chosen = read_draws(post, thin=thin)
    (X,) = complete_rows(X, chosen.feature_names, chosen.facts)
    _check_model(chosen, "row_weight" in stored_constants(post))
    design: Any = match_design(X, chosen.feature_names, chosen.model, chosen.facts)
    n = design.shape[0]
    check_rows(post, n)
    target, offset = stored_response(post, chosen), stored_offset(post)
    if target.ndim == 2:
        raise ValueError(
            "post: bd.project takes one count a row, and these are counts of successes and failures; sample the "
            "trials as rows of bd.Logistic(), or give bd.Binomial its number of trials if it is the same in all."
        )
    named = _terms(chosen, terms)
    names, columns = list(named), list(named.values())
    first = [names.index(name) for name in _included(include, names)]
    scored = _sizes(sizes, len(first), len(names))
    classes = chosen.model.loss.binary
    pairs = [] if cv is None else row_folds(cv, target, None, seed, classes=classes)
    search = partial(forward, terms=columns, first=first, n_terms=int(scored[-1]), clusters=int(clusters), seed=seed)
    whole = Reference.of(chosen, design, target, offset)
    every, equal = np.arange(n), np.full((n, chosen.size), -np.log(chosen.size))
    advice = (
        "the scores of all sizes, and of the model, are unreliable. Use more draws=, or refit=True, which samples "
        "again for each fold."
    )
    log_weight = equal if refit else left_out_log_weights(whole.logs, advice)
    reference, pointwise = logsumexp(log_weight + whole.logs, axis=1), np.empty((len(scored), n))

    def score(source: Reference, path: list[int], train: Int[np.ndarray, " m"], test: Int[np.ndarray, " k"]) -> None:
        for place, size in enumerate(scored):
            of_terms = [j for number in path[:size] for j in columns[number]]
            pointwise[place, test] = source.scores(of_terms, train, test, log_weight[test])

    held_out, shared = held_out_of(post, chosen, design, target) if refit else None, np.zeros(len(scored))
    with waiting("searches", "fold"):
        path = search(whole.submodel)
        step()
        if not pairs:
            score(whole, path, every, every)
        for train, test in pairs:
            source = whole
            if held_out is not None:
                source = Reference.of(read_draws(held_out.posterior(train), thin=thin), design, target, offset)
                reference[test] = logsumexp(equal[test] + source.logs[test], axis=1)
            fold_path = search(source.rows(train))
            score(source, fold_path, train, test)
            shared += [size == 0 or path[size - 1] in fold_path[:size] for size in scored]
            step()
    share = shared / len(pairs) if pairs else None
    drawn = partial(_projected_groups, post, whole, named, seed)
    return Projection([names[number] for number in path], scored, pointwise, reference, share, len(pairs) or None,
                      refit, len(first), drawn)  # fmt: skip


def _included(include: Any, names: list[str]) -> list[str]:
    """Names of terms that every submodel has."""
    terms = [include] if isinstance(include, str) else include
    if not isinstance(terms, Sequence) or isinstance(terms, bytes) or not all(isinstance(name, str) for name in terms):
        raise TypeError(f"include: expected the name of a term or a list of names, got {shown(include)}.")
    terms = list(dict.fromkeys(terms))
    unknown_terms = [name for name in terms if name not in names]
    if unknown_terms:
        raise ValueError(f"include: expected terms among {listed(names)}, got {listed(unknown_terms)}.")
    return terms


def _sizes(sizes: Any, minimum: int, maximum: int) -> Int[np.ndarray, " m"]:
    """Numbers of terms in increasing order, at least those of every submodel."""
    if not isinstance(sizes, Sequence | np.ndarray):
        return np.arange(minimum, max(min(check_count(sizes, "sizes"), maximum), minimum) + 1)
    counts = np.unique([check_count(size, "sizes", minimum, maximum) for size in sizes]).astype(int)
    if not len(counts):
        raise ValueError("sizes: expected at least one number of terms, got none.")
    return counts


def _terms(draws: Draws, terms: Any) -> dict[str, list[int]]:
    """Columns of each term, by name."""
    place = {name: j for j, name in enumerate(draws.feature_names)}
    if terms is None:
        formula: Any = draws.facts.formula
        groups = draws.feature_names if formula is None else formula.encoder.groups
        columns_of: dict[str, list[int]] = {}
        for j, name in enumerate(groups):
            columns_of.setdefault(str(name), []).append(j)
        return columns_of
    if not isinstance(terms, Mapping):
        raise TypeError(f"terms: expected a mapping from names to features, got {type(terms).__name__}.")
    named = [name for columns in terms.values() for name in columns]
    unknown_features = [name for name in named if name not in place]
    if unknown_features:
        raise ValueError(
            f"terms: expected features among {listed(draws.feature_names)}, got {listed(unknown_features)}."
        )
    twice = sorted({name for name in named if named.count(name) > 1})
    left_out = [name for name in draws.feature_names if name not in set(named)]
    if twice or left_out:
        raise ValueError(
            f"terms: expected every feature in one term, got {listed(twice or left_out)} in "
            f"{'several' if twice else 'none'}."
        )
    return {str(name): [place[column] for column in columns] for name, columns in terms.items()}


def _check_model(draws: Draws, weighted: bool) -> None:
    """Raise ValueError if the divergence between predictions is undefined for the model."""
    model = draws.model
    reason = pseudo_likelihood(draws, weighted)
    if reason:
        raise ValueError(
            f"post: bd.project compares predictive distributions, and there are none: {reason}. Sample a likelihood, "
            "such as bd.Logistic() with C = 1, without row weights."
        )
    if model.loss.multiclass or model.loss.piecewise_linear:
        raise ValueError(
            f"post: bd.project takes a smooth loss of one score a row, got {model.loss!r}; take one class against the "
            "rest by bd.Logistic(), or a smooth loss."
        )
    for one in model.loss.parameters:
        if not one.degree:
            name = f"bd.{type(model.loss).__name__}"
            raise ValueError(
                f"post: bd.project takes {name} at a known {one.field}, got one that is learnt; sample {name}"
                f"({np.median(np.asarray(draws.parameter)):.3g}), say, the median of its draws."
            )
    if model.missing is not None:
        raise ValueError(
            "post: the model has missing entries in place of noise, and a submodel without noise has nothing in their "
            "place; impute them, and sample with missing=None."
        )


def _projected_groups(
    post: Any, source: Reference, columns: dict[str, list[int]], seed: int, terms: list[str]
) -> ArvizData:
    """Groups of the draws of a posterior, projected on the columns of some terms by their predictions of all rows."""
    drawn = source.projected([j for name in terms for j in columns[name]], np.arange(len(source.target)))
    values = {"weight": drawn.weight}
    variables: dict[str, tuple[str, ...]] = {"weight": ("feature",)}
    if drawn.model.fit_intercept:
        values["intercept"], variables["intercept"] = drawn.intercept, ()
    if source.variance is not None:
        values["sigma"], variables["sigma"] = 1 / np.sqrt(drawn.C), ()
    constants: dict[str, Any] = {"fixed_rate": ("feature", drawn.fixed_rate)}
    if (offset := stored_offset(post)) is not None:
        constants["offset"] = ("obs_id", offset)
    groups = build_groups(
        {name: value.reshape(*drawn.shape, *value.shape[1:]) for name, value in values.items()},
        variables=variables, coords={"feature": np.array(drawn.feature_names), **drawn.steps},
        observed=dataset(post, "observed_data").copy(), constants=constants,
    )  # fmt: skip
    attrs = provenance(
        inference_method="projection", method=f"projection on {', '.join(terms) or 'no term'}", target="noising",
        model=repr(drawn.model), seed=seed,
    )  # fmt: skip
    attrs |= attributes(drawn.model, drawn.classes, drawn.facts, drawn.feature_names)
    for group in groups.values():
        group.attrs.update(attrs)
    return assemble(groups, attrs)
