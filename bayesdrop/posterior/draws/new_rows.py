"""Match new rows, in memory or streamed, with the columns of a posterior or a fit.

A point fit counts as a posterior of one draw, so that functions of draws apply to it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..._typing import Float, PerRow
from ..._validation import check_choice, check_matrix
from ...data.column_facts import ColumnFacts, column_order, in_order, offset_in, read_alike
from ...data.dataset import check_offset
from ...data.formulas.random_terms import level_name
from ...data.levels import NO_DRAWS, UNSEEN
from ...designs import Design, as_design, as_local_design, as_streamed_design, checking
from ...fitting.results.result import Fit
from ...model import Model
from ...noise.base import centre_of
from ...priors import RandomEffects
from .draws import Draws, read_draws, read_group

__all__ = [
    "NewRows",
    "centred_matrix",
    "check_rows",
    "check_width",
    "draws_of_fit",
    "for_rows",
    "match_columns",
    "match_design",
    "match_offset",
    "match_rows",
    "read_result",
    "rows_of_design",
    "with_unseen",
]


def match_offset(draws: Draws, offset: Any, n: int, X: Any = None) -> Float[np.ndarray, " n"] | None:
    """Offsets of ``n`` rows, (n,), or None.

    If ``X`` is a table of the columns that the formula of the draws names, its offset is read from there.

    Raises
    ------
    ValueError
        If offsets are needed and missing, are not allowed, or are not numbers.
    """
    offset = offset_in(X, draws.feature_names, draws.facts, offset)
    if offset is None and draws.has_offset:
        raise ValueError(
            "offset: expected a number for each row, got none, and the rows that were fitted had an offset, a known "
            "part of their scores; give that of these rows, as in offset=np.log(exposure), or offset=0.0 for an "
            "exposure of one unit."
        )
    if offset is not None and draws.model.loss.multiclass:
        raise ValueError(f"offset: {draws.model.loss!r} has a score for each class, and takes none; leave it out.")
    return None if offset is None else check_offset(offset, n)


def match_columns(X: Any, draws: Draws) -> Any:
    """Check new rows against the columns of draws, as :func:`match_design`, and centre them.

    Returns
    -------
    array or csr (n, p)
        The rows minus the centre of the noise; missing entries are 0.
    """
    return centred_matrix(match_design(X, draws.feature_names, draws.model, draws.facts), draws.model)


def centred_matrix(design: Design, model: Model) -> Any:
    """Rows (n, p) minus the centre of the noise of a model."""
    centre = centre_of(model.noise)
    return (design if centre is None else design.shifted(centre)).matrix()


def match_design(X: Any, names: list[str], model: Model, facts: ColumnFacts | None = None, **advice: str) -> Design:
    """Check new rows against the columns of a fit or of draws; reorder the columns of a table.

    ``advice`` is the advice on NaN for a model that does not accept missing entries.

    Raises
    ------
    ValueError
        On another number of columns, other names, infinite or text entries, NaN unless the model accepts missing
        entries, or entries outside the domain of the noise.
    """
    X = in_order(X, names, ColumnFacts() if facts is None else facts)
    check = partial(check_matrix, ensure_min_features=min(1, len(names)))
    design = as_local_design(X, checking(check, model.missing, **advice))
    check_width(design, names)
    model.noise.check(design.minimum())
    return design


def check_width(design: Design, names: list[str]) -> None:
    """Raise ValueError unless new rows have as many columns as a fit."""
    if design.shape[1] != len(names):
        raise ValueError(
            f"X: expected {len(names)} columns, as were fitted ({names[:3]} …), got {design.shape[1]}; give the same "
            "columns."
        )


def check_rows(post: Any, n: int) -> None:
    """Raise ValueError unless ``post`` was sampled with ``n`` rows."""
    observed = read_group(post, "observed_data").sizes.get("obs_id")
    if observed != n:
        raise ValueError(
            f"X: expected the {observed} rows that were sampled (those of weight 0 were left out), got {n}; for new "
            "rows use bd.predict, or bd.posterior_predictive(..., new=True)."
        )


def with_unseen(draws: Draws, unseen: str | None, *, has_draws: bool = True) -> Draws:
    """Draws whose formula treats unseen levels as ``unseen`` says; None for the setting of the formula.

    Raises
    ------
    ValueError
        If there is no formula, or effects would be drawn for a point fit (``has_draws`` is False).
    """
    if unseen is None:
        return draws
    check_choice(unseen, "unseen", UNSEEN)
    formula: Any = draws.facts.formula
    if formula is None:
        raise ValueError("unseen: it says how a formula treats levels that are new, and there is none; leave it out.")
    if unseen == "draw" and not has_draws:
        raise ValueError(f"unseen: {NO_DRAWS}")
    encoder = formula.encoder
    return replace(draws, facts=replace(draws.facts, formula=replace(encoder, unseen=unseen)))


def for_rows(draws: Draws, X: Any, seed: int = 0) -> Draws:
    """Draws with an effect for each unseen level of a random term, if the formula has ``unseen="draw"``.

    The effect is drawn from the scale of the term, one number for each draw and level. It depends on the level and the
    ``seed`` only, not on the other rows. Other draws are unchanged.

    Raises
    ------
    ValueError
        If the draws are projections, which have no scales of terms.
    """
    prior: Any = draws.model.weight_prior
    formula: Any = draws.facts.encoder_of(X, draws.feature_names)
    if formula is None:
        return draws
    encoder = formula.encoder
    new = encoder.new_levels(X) if encoder.unseen == "draw" else []
    if not new:
        return draws
    if not isinstance(draws.model.weight_prior, RandomEffects):
        number, level = new[0]
        raise ValueError(
            f"unseen: expected levels of the fit in ({encoder.random_terms[number].name}), got {level_name(level)!r}, "
            'whose effect projected draws have no scale to draw from; take unseen="population", for no effect, or the '
            "posterior that was projected."
        )
    p = draws.weight.shape[-1]
    learnt, first = prior.learnt_scale(p), p - prior.size
    sd = prior.known_scales(p)[None] if learnt is None else learnt.scale(draws.weight_scale)
    begin = first + np.cumsum([0, *map(len, prior.levels)])
    matrices = [] if draws.correlation is None else prior.correlations(draws.correlation)
    roots = {
        term: (terms, root[:, k])
        for terms, root in zip(prior.correlated, map(np.linalg.cholesky, matrices), strict=True)
        for k, term in enumerate(terms)
    }
    more = []

    def standard(number: int, level: tuple[Any, ...]) -> Float[np.ndarray, "S ..."]:
        generator = np.random.default_rng([seed, number, *level_name(level).encode()])
        return generator.standard_normal(draws.weight.shape[:-1])

    for number, level in new:
        terms, row = roots.get(prior.terms[number], ([prior.terms[number]], np.ones((1, 1))))
        each = [standard(prior.terms.index(term), level) for term in terms]
        normal = sum(row[:, j].reshape(-1, *[1] * (one.ndim - 1)) * one for j, one in enumerate(each))
        if normal.ndim > 1:  # effects of classes sum to zero
            normal = normal - normal.mean(axis=1, keepdims=True)
        more.append(normal * sd[:, begin[number]].reshape(-1, *[1] * (normal.ndim - 1)))
    noise: Any = draws.model.noise
    if centre_of(noise) is not None:
        noise = replace(noise, centre=(*noise.centre, *[0.0] * len(new)))
    longer = encoder.with_levels(new)
    fixed = draws.fixed_rate
    return replace(
        draws,
        model=replace(draws.model, noise=noise),
        feature_names=longer.feature_names,
        weight=np.concatenate([draws.weight, np.stack(more, axis=-1).astype(draws.weight.dtype)], axis=-1),
        index=np.append(draws.index, np.full(len(new), draws.free_rate.shape[-1])),
        fixed_rate=None if fixed is None else np.append(fixed, np.zeros((*fixed.shape[:-1], len(new))), axis=-1),
        facts=replace(draws.facts, formula=longer),
    )


@dataclass(frozen=True)
class NewRows:
    """Rows in memory, rows that are read when needed, or rows on a cluster.

    Attributes
    ----------
    design : Design (n, p)
        The rows, with columns in the order passed.
    matrix : array or scipy sparse (n, p), optional
        Rows in memory, as :func:`match_columns` returns them; None if they are streamed.
    read : function from matrix to matrix, optional
        Match and centre a block of streamed rows, as :func:`match_columns` does.
    """

    design: Design
    matrix: Any = None
    read: Any = None

    def each(self, function: Callable[..., Any], *rows: PerRow) -> list[Any]:
        """Results of ``function(matrix, *parts)`` for each block, whose rows :func:`match_columns` returns."""
        if self.matrix is not None:
            return [function(self.matrix, *rows)]
        return self.design.each_block(partial(_of_block, function, self.read), *rows)

    def parts(self) -> Iterator[tuple[slice, Any]]:
        """One pass over the rows as :func:`match_columns` returns them, without empty parts."""
        if self.matrix is not None:
            yield slice(0, self.matrix.shape[0]), self.matrix
            return
        for place, block in self.design.parts():
            if block.shape[0]:
                yield place, self.read(block.matrix())


def _of_block(function: Callable[..., Any], read: Callable[[Any], Any], matrix: Any, *rows: PerRow) -> Any:
    return function(read(matrix), *rows)


def match_rows(X: Any, draws: Draws) -> NewRows:
    """Match rows, in memory or not, with the columns of draws.

    Raises
    ------
    ValueError
        If the columns differ from those of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesdrop as bd
    >>> from bayesdrop.posterior.draws.new_rows import draws_of_fit
    >>> X, y = np.array([[-1.0], [-2.0], [1.0], [3.0]]), ["no", "no", "yes", "yes"]
    >>> draws = draws_of_fit(bd.fit(bd.Model(rates=bd.Fixed(0.2)), X, y))
    >>> match_rows(X, draws).each(lambda matrix: len(matrix))
    [4]
    >>> match_rows(bd.Blocks([X[:1], X[1:]]), draws).each(lambda matrix: len(matrix))
    [1, 3]
    """
    design, names = as_streamed_design(X), draws.feature_names
    if design is None:
        matrix = match_columns(X, draws)
        return NewRows(as_design(matrix), matrix)
    design = read_alike(design, names, draws.facts)
    check_width(design, names)
    return rows_of_design(design, names, draws.model, column_order(design, names, draws.facts))


def rows_of_design(design: Design, names: list[str], model: Model, order: list[int] | None = None) -> NewRows:
    """Rows of a design with the columns ``names``, reordered by ``order`` if it is given."""
    if design.is_streamed:
        return NewRows(design, read=partial(_read_block, names, order, model))
    return NewRows(design, centred_matrix(design, model))


def _read_block(names: list[str], order: list[int] | None, model: Model, matrix: Any) -> Any:
    return centred_matrix(match_design(matrix if order is None else matrix[:, order], names, model), model)


def draws_of_fit(fit: Fit) -> Draws:
    """A fit as one draw of weights and rates.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> fit = bd.fit(bd.Model(rates=bd.Fixed(0.2)), [[-1.0], [-2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> draws_of_fit(fit).weight.shape
    (1, 1)
    """
    model, noise = fit.model, fit.model.noise
    if noise.centre is not None:
        dropout: Any = noise
        model = replace(model, noise=replace(dropout, centre=fit.centre))
    weight = np.asarray(fit.weight, dtype=np.float64)[None]
    intercept = np.asarray(fit.intercept, dtype=np.float64)[None]
    centre = centre_of(model.noise)
    return Draws(
        model=model,
        feature_names=fit.feature_names,
        weight=weight,
        intercept=intercept if centre is None else intercept + weight @ centre,
        free_rate=np.zeros((1, 0)),
        index=np.arange(weight.shape[-1]),
        fixed_rate=np.asarray(fit.rates, dtype=np.float64),
        C=np.array([float(model.C) if fit.sigma is None else fit.sigma ** -model.loss.parameters[0].degree]),
        parameter=None if fit.sigma is None else np.array([fit.sigma]),
        marginalised=False,
        classes=None if fit.classes is None else np.asarray(fit.classes),
        steps={"chain": np.array([0]), "draw": np.array([0])},
        has_offset=fit.offset is not None,
        facts=fit.facts,
    )


def read_result(result: Any) -> Draws:
    """Draws of what ``bd.fit``, ``bd.sample`` or ``bd.groups.load`` returned.

    Raises
    ------
    TypeError, ValueError
        If it is something else; see :func:`.draws.read_draws`.
    """
    return draws_of_fit(result) if isinstance(result, Fit) else read_draws(result)
