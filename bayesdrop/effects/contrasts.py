r"""Compute differences between the levels of factors, from a weight for each level.

A formula gives each level of a factor a column, and a penalty or a prior treats them equally. The data inform the
differences between levels; their common part is confounded with the term of lower order (for a main effect, with the
intercept), and only the prior limits it. For each factor ``F`` of a term ``T`` whose rest ``T∖F`` is a term too, take

    w_T[…, level] − w_T[…, reference],      and      w_{T∖F} + w_T[…, reference]

for the term of lower order, from the highest order to the lowest; the mean over the levels may replace the reference.
What the levels of a term share of which no rest is a term is confounded with the intercept. Without an intercept the
levels of the first such term take its place.
This is the linear change of coordinates from all levels to the contrasts of R; intervals are those of the differences.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._typing import Int
from .._validation import check_choice
from ..data.formulas.encoder import FormulaEncoder

__all__ = ["Contrasts", "check_levels", "contrasts_of"]


class Contrasts(NamedTuple):
    """Linear combinations of weights.

    Attributes
    ----------
    names : list of r str
        Name of each combination: ``site[south] vs site[north]``.
    matrix : scipy.sparse.csr_array (r, p)
        Coefficients of each combination.
    feature : int array (r,)
        Column whose weight the combination replaces.
    shared : sequence of pairs
        Columns of all levels of a factor in a term, and the columns with which their common part is confounded, none
        for the intercept: to add a number to all weights of the former and subtract it from those of the latter changes
        no score without noise.
    """

    names: list[str]
    matrix: Any
    feature: Int[np.ndarray, " r"]
    shared: Sequence[tuple[list[int], list[int]]] = ()


def contrasts_of(formula: Any, kind: str | None, reference: Mapping[str, Any] | None = None) -> Contrasts | None:
    """Differences of the levels of a formula's factors; None if it has none, or there is no formula.

    Parameters
    ----------
    formula : FormulaEncoder, StoredFormula or None
        Formula that encoded the features.
    kind : "reference", "mean" or None
        Differences to one level of each factor, to the mean over its levels, or none.
    reference : mapping from column to level, optional
        Reference level of a column; by default the first level.

    Raises
    ------
    ValueError
        If a reference is not a level of a factor, or ``kind`` is unknown.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> data = {"age": [3.0, 5.0, 4.0], "site": ["n", "s", "w"], "ill": [0, 1, 1]}
    >>> design = bd.from_formula("ill ~ age * site", data)
    >>> found = contrasts_of(design, "reference")
    >>> found.names
    ['age at site[n]', 'site[s] vs site[n]', 'site[w] vs site[n]', 'age:site[s] vs site[n]', 'age:site[w] vs site[n]']
    >>> found.matrix.toarray()[0].tolist(), design.feature_names[4]
    ([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], 'age:site[n]')
    """
    from scipy.sparse import coo_array, csr_array, eye_array

    check_choice(kind, "contrasts", ("reference", "mean", None))
    encoder: Any = None if formula is None else formula.encoder
    contrasts = _of_factors(encoder, kind, reference)
    p = 0 if encoder is None else encoder.n_effects
    if not p:
        return contrasts
    names = encoder.feature_names[: len(encoder.feature_names) - p]
    if contrasts is None:
        contrasts = Contrasts(names, eye_array(len(names), format="csr"), np.arange(len(names)))
    # Effects of random terms have no row, and coefficient 0 in the other rows.
    entries = coo_array(contrasts.matrix)
    wider = csr_array((entries.data, entries.coords), shape=(len(contrasts.names), len(names) + p))
    return contrasts._replace(matrix=wider)


def _of_factors(encoder: Any, kind: str | None, reference: Mapping[str, Any] | None) -> Contrasts | None:
    """Contrasts of the fixed effects alone."""
    from scipy.sparse import csr_array, eye_array

    if not isinstance(encoder, FormulaEncoder) or kind is None or encoder.full_rank:
        if reference:
            raise ValueError(
                "reference: levels are compared where a formula made a column for each of them, and contrasts is not "
                "None; leave it out."
            )
        return None
    base = _references(encoder, kind, reference or {})
    if not base:
        return None
    columns = _columns(encoder)
    names = encoder.feature_names[: len(columns)]
    places = {frozenset(column.items()): j for j, column in enumerate(columns)}
    rows: Any = eye_array(len(names), format="lil")
    compared: list[list[str]] = [[] for _ in names]
    at: list[list[str]] = [[] for _ in names]
    dropped_rows: set[int] = set()
    common: list[tuple[list[int], list[int]]] = []
    by_term: dict[frozenset[str], list[int]] = {}
    for j, column in enumerate(columns):
        by_term.setdefault(frozenset(column), []).append(j)
    # Terms of levels alone, of which no rest is a term: what their levels share is in the intercept too.
    rests = {term: [factor for factor in base if factor in term and term - {factor} in by_term] for term in by_term}
    whole = [term for term in by_term if term <= set(encoder.levels) and not rests[term]]
    intercept = [] if encoder.has_intercept or not whole else by_term[whole[0]]
    for term in sorted(by_term, key=len, reverse=True):
        compared_factors = [[factor] for factor in rests[term]]
        if term in whole and by_term[term] != intercept:  # else the data inform what the levels share
            compared_factors = [[name for name in base if name in term]]
        for factors in filter(None, compared_factors):
            of_rest: dict[Any, list[int]] = {}
            for j in by_term[term]:
                other_parts = frozenset(part for part in columns[j].items() if part[0] not in factors)
                of_rest.setdefault(other_parts, []).append(j)
            before = csr_array(rows)
            for other_parts, group in of_rest.items():
                lower = intercept if term in whole else [places[other_parts]]
                picked = [j for j in group if kind == "mean" or all(columns[j][name] == base[name] for name in factors)]
                shared = csr_array(before[picked].sum(axis=0).reshape(1, -1) / len(picked))
                what = [base[name] if kind == "reference" else f"the mean of {name}" for name in factors]
                for j in group:
                    rows[[j]] = before[[j]] - shared
                    compared[j] += what
                common.append((group, lower))
                if term in whole and intercept:
                    common.append((intercept, group))
                for place in lower:
                    rows[[place]] = csr_array(rows)[[place]] + shared
                    at[place] += what
                dropped_rows |= set(picked) if kind == "reference" else set()
    kept_rows = [j for j in range(len(names)) if j not in dropped_rows]
    shown = [_name(names[j], compared[j], at[j]) for j in kept_rows]
    return Contrasts(shown, csr_array(csr_array(rows)[kept_rows]), np.array(kept_rows, dtype=np.int64), common)


def check_levels(wanted: Iterable[Any], levels: Collection[Any], name: str, argument: str) -> None:
    """Raise ValueError, naming an argument, if a wanted level is not a level of the factor.

    Examples
    --------
    >>> check_levels(["x"], ["n", "s"], "site", "variables")
    Traceback (most recent call last):
    ValueError: variables: 'x' is not a level of 'site'; the levels are 'n', 's'.
    """
    for level in wanted:
        if level not in levels:
            level_texts = ", ".join(map(repr, levels))
            raise ValueError(f"{argument}: {level!r} is not a level of {name!r}; the levels are {level_texts}.")


def _name(name: str, compared: list[str], at: list[str]) -> str:
    if compared:
        return f"{name} vs {', '.join(dict.fromkeys(compared))}"
    return f"{name} at {', '.join(dict.fromkeys(at))}" if at else name


def _references(encoder: FormulaEncoder, kind: str, reference: Mapping[str, Any]) -> dict[str, str]:
    """Label of the reference level of each factor with two levels or more, by its expression."""
    references, factor_levels = {}, {}
    for label, (column, of_factor) in encoder.levels.items():
        levels = {str(level): f"{label}[{level}]" for level in of_factor}
        factor_levels[column] = levels
        name = column if column in reference else label
        level = str(reference.get(name, next(iter(levels), "")))
        if name in reference:
            check_levels([level], levels, name, "reference")
        if len(levels) > 1:
            references[label] = levels[level]
    unknown_names = [name for name in reference if name not in factor_levels and name not in references]
    if unknown_names:
        raise ValueError(
            f"reference: {unknown_names[0]!r} is not a factor of the formula; the factors are "
            f"{', '.join(map(repr, factor_levels)) or 'none'}."
        )
    if reference and kind != "reference":
        raise ValueError("reference: contrasts to the mean have no reference; leave it out.")
    return references


def _columns(encoder: FormulaEncoder) -> list[dict[str, Any]]:
    """For each column, its factors with the level of each, or the number of the column for a numeric factor.

    In a term the first factor runs fastest.
    """
    levels = {label: of_factor for label, (_, of_factor) in encoder.levels.items()}
    columns: list[dict[str, Any]] = []
    for term in encoder.terms:
        # Without full rank a term is one product of its factors.
        factors = term.products[0].factors
        for k in range(len(term.columns)):
            place = np.unravel_index(k, [factor.width for factor in factors], order="F")
            columns.append(
                {
                    factor.label: f"{factor.label}[{levels[factor.label][i]}]" if factor.label in levels else int(i)
                    for factor, i in zip(factors, place, strict=True)
                }
            )
    return columns
