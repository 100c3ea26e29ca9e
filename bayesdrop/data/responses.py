"""Check and code the responses of a loss, for fits, samplers and scores, and weigh their classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .._typing import AnyArray, Float, PerRow, Shaped
from .._validation import check_instance, check_numbers, one_per_row, shown
from ..designs import Design
from ..losses import Loss

__all__ = [
    "check_responses",
    "class_factors",
    "code_response",
    "read_pairs",
    "refuse_response",
    "response_sd",
    "single_trials",
    "weigh_classes",
]

_LARGEST_COUNT = 1e15
# Minimum number of rows in which a column does not equal the response by chance.
_TELLING_ROWS = 20


def class_factors(
    class_weight: Any, classes: Shaped[AnyArray, " K"], code: PerRow, weight: PerRow, design: Design
) -> Float[np.ndarray, " K"] | None:
    """Weights of the classes, (K,), for the rows of a design; None if all are 1.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weight of each label, 1 by default; ``"balanced"``: ``Σs/(K Σs_k)`` with the row weights ``s``, which gives all
        classes the same weight and does not change the total weight.
    classes : array (K,)
        Labels.
    code : array (n,)
        Number of the class of each row.
    weight : array (n,)
        Row weights.
    design : Design (n, p)
        Design with these rows.

    Raises
    ------
    TypeError
        If ``class_weight`` has another type.
    ValueError
        If weights are not finite and above 0, or an unknown label is given while a known one is missing.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> code, rows = np.array([0, 0, 0, 1]), as_design(np.ones((4, 1)))
    >>> class_factors("balanced", np.array(["no", "yes"]), code, np.ones(4), rows).round(3).tolist()
    [0.667, 2.0]
    >>> class_factors({"yse": 2.0}, np.array(["no", "yes"]), code, np.ones(4), rows)
    Traceback (most recent call last):
    ValueError: class_weight: expected the labels ['no', 'yes'], got ['yse'] too; name the classes as y has them.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = design.class_totals(code, weight, len(classes))
        factor = np.asarray(totals.sum() / (len(classes) * totals))
    else:
        expected = 'a dict from class to weight, "balanced" or None'
        weights = dict(check_instance(class_weight, "class_weight", Mapping, expected))
        labels = classes.tolist()
        unknown = [label for label in weights if label not in labels]
        # Some rows may lack a class of the whole table; an unknown label in place of a known one is an error.
        if unknown and any(label not in weights for label in labels):
            raise ValueError(
                f"class_weight: expected the labels {shown(labels)}, got {shown(unknown)} too; name the classes as y "
                "has them."
            )
        numbers = [weights.get(label, 1.0) for label in labels]
        real = all(isinstance(one, int | float | np.integer | np.floating) for one in numbers)
        factor = np.array(numbers, dtype=np.float64) if real else np.full(len(labels), np.nan)
        if not (np.all(np.isfinite(factor)) and np.all(factor > 0)):
            raise ValueError(f"class_weight: expected finite numbers above 0, got {shown(class_weight)}.")
    return factor


def weigh_classes(factor: Float[np.ndarray, " K"] | None, code: PerRow, weight: PerRow) -> PerRow:
    """Row weights times the weights of their classes, (n,).

    Examples
    --------
    >>> weigh_classes(np.array([0.5, 2.0]), np.array([0, 1, 1]), np.ones(3)).tolist()
    [0.5, 2.0, 2.0]
    """
    return weight if factor is None else weight * sum(factor[k] * (code == k) for k in range(len(factor)))


def read_pairs(loss: Loss, y: Any) -> Float[np.ndarray, "n 2"] | None:
    """Successes and failures of each row, (n, 2); None if ``y`` is not two columns for ``bd.Binomial()``.

    Raises
    ------
    ValueError
        If two columns are not counts.

    Examples
    --------
    >>> from bayesdrop.losses import Binomial, Logistic
    >>> read_pairs(Binomial(), [[1, 3], [0, 2]]).tolist(), read_pairs(Logistic(), [0, 1])
    ([[1.0, 3.0], [0.0, 2.0]], None)
    """
    if not loss.pairs or len(np.shape(y)) != 2 or np.shape(y)[1] != 2:
        return None
    expected = "numbers of successes and of failures, two whole numbers of at least 0 in each row"
    counts = check_numbers(y, "y", expected)
    wrong = ~np.isfinite(counts) | (counts < 0) | (counts % 1 != 0)
    if np.any(wrong):
        raise ValueError(f"y: expected {expected}, got {counts[wrong][0]:g} ({int(wrong.sum())} of {counts.size}).")
    return counts


def single_trials(matrix: Any, counts: PerRow, weight: PerRow, offset: PerRow | None) -> tuple[Any, ...]:
    """Split rows into trials, as two weighted rows each: all successes (1) first, then all failures (0).

    The trials of a row have their own masks, so that a likelihood over masks is a product over the trials.

    Parameters
    ----------
    matrix : design, array or scipy sparse (n, p)
        Features.
    counts : array (n, 2)
        Successes and failures.
    weight : array (n,)
        Row weights.
    offset : array (n,), optional
        Known part of the scores.

    Returns
    -------
    matrix, target, weight, offset
        Features, targets, weights and offsets of 2n rows.

    Examples
    --------
    >>> _, target, weight, _ = single_trials(np.eye(2), np.array([[1.0, 3.0], [0.0, 2.0]]), np.array([1.0, 10.0]), None)
    >>> target.tolist(), weight.tolist()
    ([1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 3.0, 20.0])
    """
    n = len(counts)
    rows = np.tile(np.arange(n), 2)
    target, weight = np.repeat([1.0, 0.0], n), (weight[:, None] * counts).T.ravel()
    return matrix[rows], target, weight, None if offset is None else offset[rows]


def code_response(loss: Loss, classes: Shaped[np.ndarray, " K"] | None, design: Design, y: Any) -> PerRow:
    """Code responses of rows for a loss with known classes: signs, class numbers, numbers, or pairs (n, 2).

    Every function of a result reads its responses by this function, in each form that ``bd.fit`` and ``bd.sample``
    accept.

    Raises
    ------
    ValueError
        If there is not one response per row, or labels are not among the classes.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> from bayesdrop.losses import Logistic
    >>> code_response(Logistic(), np.array(["no", "yes"]), as_design(np.ones((2, 1))), ["yes", "no"]).tolist()
    [1.0, -1.0]
    """
    counts, n = read_pairs(loss, y), design.shape[0]
    if counts is not None:
        if len(counts) != n:
            raise ValueError(
                f"y: expected {n} rows of successes and failures, one for each row of X, got {len(counts)}."
            )
        return counts
    if not (loss.binary or loss.multiclass):
        target = design.targets(y)
        check_responses(loss, design, target, fit_intercept=False)
        return target
    came = one_per_row(y, n)
    if classes is None:
        return came.astype(np.float64)
    same = came[:, None] == classes
    if not np.all(np.any(same, axis=1)):
        raise ValueError(f"y: expected the labels {classes.tolist()}, got others too.")
    code = np.argmax(same, axis=1).astype(np.float64)
    return 2 * code - 1 if loss.binary else code


def check_responses(loss: Loss, design: Design, target: PerRow, *, fit_intercept: bool, whole: bool = True) -> None:
    """Raise ValueError unless the responses (n,) are counts that the loss accepts; other losses accept any numbers.

    Parameters
    ----------
    loss : Loss
        Loss of the responses.
    design : Design
        Design with these rows, without rows of weight 0.
    target : array (n,)
        Finite numbers.
    fit_intercept : bool
        Whether there is a flat intercept, which has no optimum if every count is 0, or the maximum.
    whole : bool
        Whether fractions raise an error. They give a quasi-likelihood, of events per unit of exposure.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> from bayesdrop.losses import Poisson
    >>> check_responses(Poisson(), as_design(np.ones((2, 1))), np.array([0.0, -2.0]), fit_intercept=True)
    Traceback (most recent call last):
    ValueError: y: expected counts of at least 0 for Poisson, got -2 (1 of 2 rows); a negative number is no count. Look
    for a code of missing values, or use bd.Squared() or bd.EpsilonInsensitive() for numbers of either sign.
    """
    largest, name = loss.largest_count, type(loss).__name__
    if largest is None:
        return
    upper = "" if np.isinf(largest) else f" and at most {largest:g} (trials)"
    cases = [
        (
            lambda y: y < 0,
            f"counts of at least 0{upper} for {name}",
            "a negative number is no count. Look for a code of missing values, or use bd.Squared() or "
            "bd.EpsilonInsensitive() for numbers of either sign",
        ),
        (
            lambda y: y > largest,
            f"counts of at most {largest:g} for {loss!r}",
            "there are more successes than trials. Give the right trials, as in bd.Binomial(trials), or two columns, "
            "successes and failures, where trials differ; or use bd.Poisson() or bd.NegativeBinomial(dispersion) for "
            "counts without a limit",
        ),
    ]
    if np.isinf(largest):
        cases.append(
            (
                lambda y: y > _LARGEST_COUNT,
                f"counts of at most {_LARGEST_COUNT:g} for {name}",
                "beyond that double precision does not hold every whole number. Count in thousands or millions",
            )
        )
    if whole:
        cases.append(
            (
                lambda y: y % 1 != 0,
                f"whole numbers for {name}",
                "give the counts themselves, with offset=np.log(exposure) where exposures differ. For events per unit "
                "of exposure DropoutPoissonRegressor takes fractions, with the exposure as sample_weight",
            )
        )
    for is_wrong, expected, advice in cases:
        wrong = 1.0 * design.rowwise(is_wrong, target[:, None])
        count = float(design.total(wrong)[0])
        if count:
            came = float(design.total(wrong * target[:, None])[0]) / count
            came_word = f"{came:.6g}" if count == 1 else f"{came:.6g} on average"
            raise ValueError(
                f"y: expected {expected}, got {came_word} ({count:,.0f} of {design.shape[0]:,} rows); {advice}."
            )
    if fit_intercept:
        total = float(design.total(target[:, None])[0])
        for edge, word in ((0.0, "0"), (largest * design.shape[0], f"{largest:g}, the number of trials")):
            if total == edge:
                raise ValueError(
                    f"y: expected counts that differ from {word} in some row, got none; the intercept would be "
                    "infinite. Use more rows, or fit_intercept=False."
                )


def response_sd(y: PerRow, weight: PerRow, offset: PerRow | None) -> float:
    """Weighted standard deviation of responses minus offsets; 0 if they are equal up to rounding.

    Examples
    --------
    >>> response_sd(np.array([1.0, 3.0]), np.ones(2), None)
    1.0
    """
    residual = np.asarray(y if offset is None else y - offset, dtype=np.float64)
    share = np.asarray(weight) / float(np.sum(weight))
    centred = residual - float(share @ residual)
    # Divide by the largest response, so that squares neither overflow nor underflow.
    largest = float(np.max(np.abs(centred)))
    if largest <= 8 * np.finfo(float).eps * float(np.max(np.abs(residual))):
        return 0.0
    if not np.isfinite(largest):
        return np.inf
    return largest * float(np.sqrt(share @ np.square(centred / largest)))


def refuse_response(design: Design, response: PerRow, names: Iterable[str] | None, y: Any, classes: Any = None) -> None:
    """Raise ValueError if a column equals the response in every row, since a model would predict y by y.

    For fewer than 20 rows only a column with the name of ``y`` is compared. Rows outside this process are not compared.

    Parameters
    ----------
    design : Design (n, p)
        Features.
    response : array (n,)
        Numbers, or the codes of ``classes``.
    names : sequence of p str or None
        Names of the columns.
    y : response
        The response passed.
    classes : array (K,), optional
        Labels; numbers are compared as numbers, other labels by their codes.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> X = np.eye(30)
    >>> refuse_response(as_design(X), X[:, 4], None, X[:, 4])
    Traceback (most recent call last):
    ValueError: X: column 'x4' equals the response in every row, so that the model would predict y by y; leave it out.
    """
    n = design.shape[0]
    if not isinstance(design.zeros(1), np.ndarray) or len(response) != n:
        return
    name, name_list = getattr(y, "name", None), [] if names is None else list(names)
    candidates = np.array([name_list.index(name)]) if isinstance(name, str) and name in name_list else None
    if n < _TELLING_ROWS and candidates is None:
        return
    values = np.asarray(response, dtype=np.float64)
    if classes is not None and np.asarray(classes).dtype.kind in "biuf":
        values = np.asarray(classes, dtype=np.float64)[np.asarray(response, dtype=np.intp)]
    if np.ptp(values) == 0:
        return
    for rows, part in design.parts():
        if part.shape[0]:
            candidates = _equal_columns(part.matrix(), values[rows], candidates)
            if candidates is not None and not len(candidates):
                return
    if candidates is not None:
        column = name_list[candidates[0]] if name_list else f"x{candidates[0]}"
        raise ValueError(
            f"X: column {column!r} equals the response in every row, so that the model would predict y by y; leave it "
            "out."
        )


def _equal_columns(matrix: Any, values: PerRow, candidates: Any) -> Any:
    """Candidates among the columns, all if None, that equal ``values`` in some rows; None if all values are zero."""
    if candidates is None:
        rows = np.flatnonzero(values)[:_TELLING_ROWS]
        for row in rows:
            if isinstance(matrix, np.ndarray):
                equal = np.flatnonzero(matrix[row] == values[row])
            else:
                entries = slice(*matrix.indptr[row : row + 2])
                equal = matrix.indices[entries][matrix.data[entries] == values[row]]
            candidates = equal if candidates is None else np.intersect1d(candidates, equal)
            if not len(candidates):
                return candidates
    if candidates is None:
        return None
    chosen = matrix[:, candidates]
    chosen = chosen if isinstance(chosen, np.ndarray) else chosen.toarray()
    return candidates[np.all(chosen == values[:, None], axis=0)]
