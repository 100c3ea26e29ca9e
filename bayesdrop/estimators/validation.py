"""Validate the data of estimators and store their parameters.

Checks cover types and columns of the features, missing entries, and rows without labels. Parameters are stored as
given, and a failed fit leaves an estimator unchanged (:func:`intact`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .._typing import AnyArray, Shaped
from .._validation import as_numbers, check_choice, check_number, plain_column
from ..data.column_facts import ColumnFacts, column_order, read_alike
from ..designs import FOR_MISSING, Design, as_design, checking, in_memory
from ..fitting.solvers.newton import Newton
from ..rates import Fixed
from ..rates.base import check_rate
from ..warnings import MissingWarning, warn

__all__ = [
    "FLOATS",
    "LinearParameters",
    "NoiseParameters",
    "check_features",
    "check_here",
    "check_new_matrix",
    "check_training",
    "check_unlabelled",
    "default_names",
    "deletion_of",
    "facts_of",
    "intact",
    "match_rows",
    "missing_of",
    "set_parameters",
    "takes_missing",
]

FLOATS = (np.float64, np.float32)
"""Types that a design stores unchanged."""


def default_names(estimator: Any) -> list[str]:
    """Feature names of a fitted estimator, ``x0, x1, …`` if the data had none."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{d}" for d in range(estimator.n_features_in_)] if names is None else [str(name) for name in names]


def missing_of(estimator: Any) -> str | None:
    """Check and return the setting ``missing``, None if there is none; "nan" with ``expected_deletion``."""
    setting: str | None = check_choice(getattr(estimator, "missing", None), "missing", (None, "nan"))
    return setting if getattr(estimator, "expected_deletion", None) is None else "nan"


def takes_missing(estimator: Any) -> bool:
    """Whether an estimator, whose settings need not be valid, accepts NaN as a missing entry."""
    setting = getattr(estimator, "missing", None)
    return (isinstance(setting, str) and setting == "nan") or getattr(estimator, "expected_deletion", None) is not None


def deletion_of(estimator: Any) -> Fixed:
    """Rates at which the rows to predict will lose entries, from ``expected_deletion``; checked."""
    deletion = estimator.expected_deletion
    check_rate(list(deletion.values()) if isinstance(deletion, Mapping) else deletion, "expected_deletion")
    return Fixed(deletion)


@dataclass(frozen=True)
class MissingRules:
    """Limit for missing entries of new rows, beyond which there is a warning.

    Attributes
    ----------
    share : float
        Maximum share of missing entries of new rows without a warning, if the rows of the fit were complete.
    """

    share: float = 0.03


RULES = MissingRules()


def _warn_of_deletion(estimator: Any, design: Design) -> None:
    """Warn if entries of new rows are missing, but the rows of the fit were complete and no deletion was expected."""
    if not getattr(estimator, "_is_complete", False) or estimator.arrives_noised or not design.is_local:
        return
    share = float(design.missing_share().mean())
    if share > RULES.share:
        settings = (
            f"expected_deletion={share:.2g}"
            if "expected_deletion" in estimator.get_params(deep=False)
            else (f'rates={share:.2g}, noise=bd.Dropout(centre="mean"), corrupted_inputs=True')
        )
        warn(
            f"X: {100 * share:.0f} % of the entries are missing, and the rows of the fit were complete: its weights "
            f"rely on entries that are lost here. Fit with {settings}, which prepares for rows that lose entries.",
            MissingWarning,
        )


def _advice(estimator: Any, *, is_new: bool = False) -> str:
    """Advice about NaN, for the error message; ``is_new`` for rows to predict."""
    if is_new and "expected_deletion" in estimator.get_params(deep=False):
        return (
            'If new rows lose entries, fit with expected_deletion=, the share that they lose, or with missing="nan", '
            "which accepts them and does not prepare for them; or fill them in before, as sklearn.impute.SimpleImputer "
            "does."
        )
    if hasattr(estimator, "missing"):
        return FOR_MISSING
    return (
        f"{type(estimator).__name__} takes no missing entries; fill them in before, as sklearn.impute.SimpleImputer "
        'does, or use a linear estimator, such as DropoutSVC, with missing="nan".'
    )


def facts_of(estimator: Any) -> ColumnFacts:
    """Properties of the columns of a fitted estimator other than their names."""
    return ColumnFacts(hasattr(estimator, "feature_names_in_"), getattr(estimator, "zero_based_in_", None))


def match_rows(estimator: Any, X: Any) -> Any:
    """Return new rows for a fitted estimator; raise ValueError if columns have other names or another order."""
    facts, names = facts_of(estimator), default_names(estimator)
    X = read_alike(X, names, facts)
    column_order(X, names, facts, any_order=False)
    return X


def check_new_matrix(estimator: Any, X: Any, **options: Any) -> Any:
    """Check new rows (m, p) in memory for a fitted estimator; ``options`` go to ``validate_data``."""
    X = match_rows(estimator, in_memory(X))
    return validate_data(estimator, X, accept_sparse="csr", dtype=FLOATS, reset=False, **options)


def check_training(estimator: Any, X: Any) -> Design:
    """Check the features of a fit where they are stored, and set number and names of features of the estimator."""
    for name in ("feature_names_in_", "zero_based_in_"):
        if hasattr(estimator, name):
            delattr(estimator, name)
    check = partial(validate_data, estimator, accept_sparse="csr", dtype=FLOATS)
    design: Design = as_design(X, checking(check, missing_of(estimator), advice=_advice(estimator)))
    estimator.n_features_in_ = design.shape[1]
    if takes_missing(estimator):
        estimator._is_complete = not np.any(design.missing_share())
    if design.columns is not None:
        estimator.feature_names_in_ = np.array(design.columns, dtype=object)
    if design.zero_based is not None:
        estimator.zero_based_in_ = design.zero_based
    return design


def check_here(
    estimator: Any, X: Any, y: Any, *, missing: str | None = None, **options: Any
) -> tuple[Any, Shaped[AnyArray, "n ..."]]:
    """Check features and labels that must be in memory; ``options`` go to ``validate_data``.

    NaN is accepted as a missing entry if ``missing``, or the setting of the estimator, is "nan".
    """
    y = plain_column(y)
    if options.get("y_numeric") and isinstance(y, np.ndarray):
        y = as_numbers(y, "y", " among the responses")
    X = in_memory(X) if options.get("reset", True) else match_rows(estimator, in_memory(X))
    if missing == "nan" or missing_of(estimator) == "nan":
        options["ensure_all_finite"] = "allow-nan"

    def check(X: Any) -> Any:
        return validate_data(estimator, X, y, accept_sparse="csr", dtype=FLOATS, **options)

    rows: tuple[Any, Shaped[AnyArray, "n ..."]] = checking(check, None, advice=_advice(estimator))(X)
    return rows


def check_features(estimator: Any, X: Any) -> Design:
    """Check new rows of a fitted estimator; raise ValueError if their columns are not those of the fit."""
    check = partial(validate_data, estimator, accept_sparse="csr", dtype=FLOATS, reset=False)
    X = match_rows(estimator, X)
    design = as_design(X, checking(check, missing_of(estimator), advice=_advice(estimator, is_new=True)))
    if design.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X: {type(estimator).__name__} was fitted to {estimator.n_features_in_} features, and these rows have "
            f"{design.shape[1]}; pass the same columns."
        )
    _warn_of_deletion(estimator, design)
    return design


@dataclass(eq=False, repr=False, kw_only=True)
class NoiseParameters:
    """Constructor arguments of all linear estimators, stored as given, because scikit-learn compares identities."""

    rates: Any = field(default=None, kw_only=False)
    noise: Any = None
    weight_prior: Any = None
    method: Any = None
    fit_intercept: bool = True
    corrupted_inputs: bool = False
    missing: str | None = None
    tol: float = Newton.tol
    max_iter: int = Newton.max_iter


@dataclass(eq=False, repr=False, kw_only=True)
class LinearParameters(NoiseParameters):
    """Constructor arguments of the linear estimators other than those with a search (``...CV``)."""

    warm_start: bool = False


def set_parameters(estimator: Any, parameters: Mapping[str, Any]) -> None:
    """Store the arguments of a constructor, its ``locals()``, as given, because scikit-learn compares identities.

    Examples
    --------
    >>> class Scaled:
    ...     def __init__(self, factor=2):
    ...         set_parameters(self, locals())
    >>> Scaled(3).factor
    3
    """
    for name, value in parameters.items():
        if name != "self":
            setattr(estimator, name, value)


Method = TypeVar("Method", bound=Callable[..., Any])


def intact(method: Method) -> Method:
    """Let a method that fits set all attributes or none: after an error the earlier attributes are restored.

    Otherwise an estimator with ``n_features_in_`` or ``classes_`` of data that it was not fitted to would count as
    fitted, and reject the next data. Attributes are restored, not copied: a method must copy what it changes in place.

    Examples
    --------
    >>> class Half:
    ...     @intact
    ...     def fit(self, X):
    ...         self.n_features_in_ = len(X[0])
    ...         self.coef_ = [1 / value for value in X[0]]
    >>> half = Half()
    >>> half.fit([[1.0, 0.0]])
    Traceback (most recent call last):
    ZeroDivisionError: float division by zero
    >>> vars(half)
    {}
    """

    @wraps(method)
    def fitting(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return method(self, *args, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(Method, fitting)


def check_unlabelled(rows: Any, weight: Any, labelled: Design, missing: str | None = None) -> Design:
    """Return unlabelled rows as a design, or raise an error if they do not match ``labelled`` or ``weight`` is < 0.

    Examples
    --------
    >>> check_unlabelled([[1.0, 2.0]], 0.5, as_design([[0.0, 0.0]])).shape
    (1, 2)
    """
    check_number(weight, "unlabelled_weight", least=0, advice="it is that of each unlabelled row")
    check = partial(check_array, accept_sparse="csr", dtype=FLOATS, input_name="unlabelled")
    design, columns = as_design(rows, checking(check, missing), "unlabelled"), labelled.shape[1]
    if not (labelled.is_local and design.is_local):
        raise TypeError(
            "unlabelled: rows without labels join rows in memory only; for both of them pass an array or a scipy "
            "sparse matrix."
        )
    if design.shape[1] != columns:
        raise ValueError(
            f"unlabelled: expected {columns} columns as in X, got {design.shape[1]}; transform both with the same "
            "vocabulary or encoder."
        )
    return design
