"""Rows encoded by formulaic, in this package's words where that fails."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np

from ..frames import listed, no_column, refuse_kinds, refuse_missing, to_pandas

__all__ = ["encode", "levels_of", "with_columns", "without_intercept", "words"]


def with_columns(data: Any, spec: Any) -> Any:
    """Rows as a data frame; raise ValueError if it lacks a column that a formula needs."""
    frame = to_pandas(data)
    absent = sorted({str(name) for name in spec.required_variables} - set(frame.columns))
    if absent:
        raise ValueError(f"data: {no_column(absent[0], frame.columns)} The formula needs {listed(absent)}.")
    return frame


def words(text: str) -> set[str]:
    """What may be names of columns in a formula: no texts, no functions that are called, no keywords."""
    text = re.sub("'[^']*'|\"[^\"]*\"", " ", text)
    return {quoted or word for quoted, word in re.findall(r"`([^`]+)`|\b([^\W\d]\w*)\b(?!\s*\(|\s*=(?!=))", text)}


def encode(
    source: Any,
    frame: Any,
    context: dict[str, Any],
    missing: str | None = None,
    output: str = "sparse",
    **options: Any,
) -> Any:
    """Model matrix of a formula or of what a formula has learnt, in this module's words if it fails."""
    from formulaic.errors import DataMismatchWarning, FactorEvaluationError, FormulaicError

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("error", DataMismatchWarning)
        if missing is not None:
            warnings.filterwarnings("ignore", r".*: \{(np\.float64\()?(nan|None|<NA>)\)?\}\.", DataMismatchWarning)
        try:
            na_action = "raise" if missing is None else "ignore"
            return source.get_model_matrix(frame, context=context, output=output, na_action=na_action, **options)
        except FactorEvaluationError as error:
            if isinstance(error.__cause__, NameError):
                name = re.findall(r"[`']([^`']+)[`']", str(error.__cause__))[0]
                raise ValueError(
                    f"formula: {no_column(name, frame.columns)} Functions and values of your own go into "
                    f"context={{{name!r}: ...}}."
                ) from None
            raise ValueError(f"formula: {error}") from error
        except DataMismatchWarning as error:
            raise ValueError(f"data: levels that the formula does not know. {error}") from None
        except (FormulaicError, TypeError) as error:
            raise ValueError(f"data: the formula cannot be worked out on these columns. {error}") from error
        except ValueError as error:
            formula = getattr(source, "formula", source)
            used = {word for term in formula for factor in term.factors for word in words(f"`{factor.expr}`")}
            used |= {word for term in formula for factor in term.factors for word in words(factor.expr)}
            refuse_missing([name for name in frame.columns if name in used], frame, ', or take missing="nan"')
            refuse_kinds([name for name in frame.columns if name in used], frame)
            null = re.match("Error encountered while checking for nulls in `(.*?)`: ", str(error))
            if null is None:
                raise ValueError(f"data: the formula cannot be worked out on these columns. {error}") from error
            raise ValueError(
                f"data: {null.group(1)!r} is not a number in some rows, though its columns are complete; leave those "
                "rows out, or take another function."
            ) from None


def without_intercept(matrix: Any, spec: Any) -> Any:
    """Columns of a model matrix but the intercept, compressed rows of doubles."""
    from scipy import sparse

    kept = [j for term, indices in spec.term_indices.items() if term.degree for j in indices]
    return sparse.csr_array(matrix.__wrapped__[:, kept], dtype=np.float64)


def levels_of(spec: Any, frame: Any) -> dict[str, tuple[str, list[Any]]]:
    """Column and levels of each factor that is a column as it stands, by its expression."""
    found: dict[str, tuple[str, list[Any]]] = {}
    for factor, state in spec.factor_contrasts.items():
        inner = re.fullmatch(r"C\(\s*`?([^`,()]+?)`?\s*(,.*)?\)", factor.expr)
        column = factor.expr if factor.expr in frame else inner.group(1) if inner else None
        if column is not None and column in frame:
            found[factor.expr] = (column, list(state.levels))
    return found
