"""What formulaic lets pass or does not know: levels, names and terms to refuse, labels, and entries without numbers.

``offset(...)`` in a formula: a known part of the score, which is no term and has no weight.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from ..._typing import Bool, Float, Shaped
from ..frames import listed, refuse_complex, refuse_kinds
from .language.encoding import levels_listed
from .random_terms import closing

__all__ = [
    "check_columns",
    "check_finite",
    "check_offset_values",
    "is_label",
    "with_label",
    "without_offsets",
]


def check_columns(names: list[str], spec: Any, frame: Any, full_rank: bool) -> None:
    """Refuse what formulaic lets pass: values that are no levels, contrasts without effect, names that repeat."""
    from formulaic.transforms.contrasts import TreatmentContrasts

    refuse_kinds([factor.expr for factor in spec.factor_contrasts if factor.expr in frame], frame)
    for factor, state in spec.factor_contrasts.items():
        default = type(state.contrasts) is TreatmentContrasts and state.contrasts == TreatmentContrasts()
        if not (full_rank or default):
            raise ValueError(
                f"formula: the contrasts of {factor.expr!r} have no effect when every level has a column; pass "
                "full_rank=True, or leave them out."
            )
    for factor, state in spec.factor_contrasts.items():
        if len(state.levels) == 1 and not full_rank:
            raise ValueError(
                f"formula: {factor.expr!r} has one level, {levels_listed(state.levels, 1)}, in all rows, so that its "
                "effect is unknown; leave it out, or declare all levels, as in pandas.Categorical(values, "
                "categories=[...])."
            )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"formula: two features would both be called {listed(repeated)}; rename a column.")
    if not names:
        raise ValueError("data: no features, for every factor has one level only; give rows that differ.")


def check_finite(X: Any, groups: list[str], missing: str | None, new: bool = False) -> None:
    """Raise ValueError on infinite entries of features, and on NaN unless it is missing.

    Unless the rows are ``new``, also on columns of NaN alone, of compressed rows.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> check_finite(csr_array([[np.nan], [1.0]]), ["age"], "nan")
    >>> check_finite(csr_array([[np.nan], [np.nan]]), ["age"], "nan")
    Traceback (most recent call last):
    ValueError: data: every entry of the terms 'age' is missing; leave it out, or take the column itself where a ...
    """

    def counted(wrong: Bool[np.ndarray, ...]) -> Counter[str]:
        columns = X.indices[wrong] if hasattr(X, "nnz") else np.nonzero(wrong)[1]
        return Counter(groups[j] for j in columns)

    entries = X.data if hasattr(X, "nnz") else X
    if bad := counted(~np.isfinite(entries) if missing is None else np.isinf(entries)):
        counts = ", ".join(f"{term!r} ({count})" for term, count in bad.items())
        raise ValueError(f"data: values that are infinite or not numeric in the terms {counts}; replace them.")
    if missing is None or new:
        return
    empty = np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1]) == X.shape[0]
    if np.any(empty):
        raise ValueError(
            f"data: every entry of the terms {listed(dict.fromkeys(groups[j] for j in np.flatnonzero(empty)))} is "
            "missing; leave it out, or take the column itself where a function of the whole column makes all of it NaN."
        )


def with_label(formula: Any) -> tuple[Any, str | float | None]:
    """The formula without the label of ``response['label'] ~ …``, and the label.

    Examples
    --------
    >>> with_label("ill['yes'] ~ age"), with_label("code[2] ~ age")
    (('ill ~ age', 'yes'), ('code ~ age', 2.0))
    """
    if not isinstance(formula, str):
        return formula, None
    found = re.match(r"\s*(`[^`]+`|[^\W\d]\w*)\[(?:(['\"])(.*?)\2|([-+]?\d+\.?\d*))\]\s*~", formula)
    if found is None:
        return formula, None
    return f"{found[1]} ~{formula[found.end() :]}", found[3] if found[4] is None else float(found[4])


def is_label(y: Shaped[np.ndarray, " n"], label: str | float) -> Bool[np.ndarray, " n"]:
    """True where the response is a label, which some rows have to have: a number, or the text of one or of a text.

    Examples
    --------
    >>> is_label(np.array([1.0, 2.0]), "1").tolist(), is_label(np.array([1, 2]), 1.0).tolist()
    ([True, False], [True, False])
    >>> is_label(np.array(["1", "2"]), 1.0)
    Traceback (most recent call last):
    ValueError: formula: no row has the label 1; the labels are '1', '2'.
    """
    if isinstance(label, str):
        chosen = np.array([str(value) == label or (y.dtype.kind == "f" and f"{value:g}" == label) for value in y])
    else:
        chosen = (y == label) if y.dtype.kind in "iuf" else np.zeros(len(y), dtype=bool)
    if not chosen.any():
        shown = repr(label) if isinstance(label, str) else f"{label:g}"
        raise ValueError(f"formula: no row has the label {shown}; the labels are {levels_listed(np.unique(y), 12)}.")
    return chosen


def without_offsets(formula: Any) -> tuple[Any, str | None]:
    """The formula without its offsets, and the sum of those as one Python expression, None if there are none.

    Raises
    ------
    ValueError
        If an offset is within another term, taken off, or on the left side.

    Examples
    --------
    >>> without_offsets("events ~ offset(np.log(days)) + age + offset(known)")
    ('events ~ age', '(np.log(days)) + (known)')
    >>> without_offsets("events ~ age:offset(days)")
    Traceback (most recent call last):
    ValueError: formula: offset(...) cannot be combined with other terms, got 'age:offset(days)'; add ...
    """
    offsets = []
    while isinstance(formula, str) and (start := re.search(r"\boffset\s*\(", formula)) is not None:
        end = closing(formula, start.end())
        before, after = formula[: start.start()].rstrip(), formula[end + 1 :].lstrip()
        misplaced = "~" in after or (before and before[-1] not in "+~") or (after and after[0] not in "+-")
        if end == len(formula) or misplaced:
            term = formula.rpartition("~")[2].strip()
            raise ValueError(
                f"formula: offset(...) cannot be combined with other terms, got {term!r}; add it by itself, as in "
                "'events ~ age + offset(np.log(days))'."
            )
        offsets.append(f"({formula[start.end() : end].strip()})")
        if before.endswith("+"):
            before = before[:-1].rstrip()
        elif after.startswith("+"):
            after = after[1:].lstrip()
        # Nothing but an intercept is left of a lone offset.
        formula = f"{before} {after}".strip() if after or not before.endswith("~") else f"{before} 1"
    return formula, " + ".join(offsets) or None


def check_offset_values(matrix: Any, expression: str) -> Float[np.ndarray, " n"]:
    """The one column of an encoded offset; raise ValueError unless it is one of finite numbers.

    Examples
    --------
    >>> check_offset_values(np.array([[1.0], [2.0]]), "(days)").tolist()
    [1.0, 2.0]
    """
    values = np.asarray(matrix)
    refuse_complex(values, [f"offset{expression}"] * values.shape[1])
    values = values.astype(np.float64)
    if values.shape[1] != 1:
        raise ValueError(
            f"formula: offset{expression} is not a number: it gives {values.shape[1]} columns; expected a column of "
            "numbers, or a function of one."
        )
    wrong = int(np.sum(~np.isfinite(values)))
    if wrong:
        raise ValueError(
            f"data: offset{expression} is infinite or not a number in {wrong} of {len(values)} rows; a count without "
            "exposure carries no information: leave those rows out."
        )
    return values[:, 0]
