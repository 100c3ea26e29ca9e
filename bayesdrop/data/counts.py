"""The door for counts: a response that is no count of the loss is refused here, wherever its rows lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import PerRow
from .._validation import check_numbers
from ..designs import Design
from ..designs.rows import check_sample_weight
from ..losses import Loss

__all__ = ["check_responses", "paired_counts"]


def paired_counts(loss: Loss, y: Any, sample_weight: Any) -> tuple[Any, Any, bool]:
    """Successes and failures of each row, (n, 2), as the share of successes and so many times the weight.

    Parameters
    ----------
    loss : Loss
        What ``y`` is the response of; pairs are responses of ``bd.Binomial()``.
    y : response
        Anything else than two columns stays as it is.
    sample_weight : array (n,), optional
        Row weights.

    Returns
    -------
    y, sample_weight, paired : array, array or None, bool

    Raises
    ------
    ValueError
        If they are no counts.

    Examples
    --------
    >>> from bayesdrop.losses import Binomial
    >>> y, weight, _ = paired_counts(Binomial(), [[1, 3], [0, 2]], None)
    >>> y.tolist(), weight.tolist()
    ([0.25, 0.0], [4.0, 2.0])
    """
    if not loss.pairs or len(np.shape(y)) != 2 or np.shape(y)[1] != 2:
        return y, sample_weight, False
    expected = "numbers of successes and of failures, two whole numbers of at least 0 in each row"
    counts = check_numbers(y, "y", expected)
    wrong = ~np.isfinite(counts) | (counts < 0) | (counts % 1 != 0)
    if np.any(wrong):
        raise ValueError(f"y: expected {expected}, got {counts[wrong][0]:g} ({int(wrong.sum())} of {counts.size}).")
    trials = counts.sum(axis=1)
    weight = check_sample_weight(sample_weight, len(counts), all_zero=True) * trials
    return counts[:, 0] / np.maximum(trials, 1), weight, True


def check_responses(loss: Loss, design: Design, target: PerRow, *, fit_intercept: bool, whole: bool = True) -> None:
    """Raise ValueError unless the responses (n,) are counts as the loss takes them; others than of counts pass.

    Parameters
    ----------
    loss : Loss
        What ``y`` is the response of.
    design : Design
        Whose rows they are, those of weight 0 left out.
    target : array (n,)
        Finite numbers.
    fit_intercept : bool
        A flat intercept has no best value where every count is 0, or the largest there is.
    whole : bool
        Refuse fractions. They make no likelihood, but a quasi-likelihood: events per unit of exposure.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> from bayesdrop.losses import Poisson
    >>> check_responses(Poisson(), as_design(np.ones((2, 1))), np.array([0.0, -2.0]), fit_intercept=True)
    Traceback (most recent call last):
    ValueError: y: expected counts of at least 0 for Poisson, got -2 (1 of 2 rows); a negative number is no count. Look
    for a code of missing values, or take bd.Squared() or bd.EpsilonInsensitive() for numbers of either sign.
    """
    most, name = loss.largest_count, type(loss).__name__
    if most is None:
        return
    upper = "" if np.isinf(most) else f" and at most {most:g} (trials)"
    cases = [
        (
            lambda y: y < 0,
            f"counts of at least 0{upper} for {name}",
            "a negative number is no count. Look for a code of missing values, or take bd.Squared() or "
            "bd.EpsilonInsensitive() for numbers of either sign",
        ),
        (
            lambda y: y > most,
            f"counts of at most {most:g} for {loss!r}",
            "there are more successes than trials. Give the right trials, as in bd.Binomial(trials), or two columns, "
            "successes and failures, where trials differ; or take bd.Poisson() or bd.NegativeBinomial(dispersion) for "
            "counts without a limit",
        ),
    ]
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
        for edge, word in ((0.0, "0"), (most * design.shape[0], f"{most:g}, the number of trials")):
            if total == edge:
                raise ValueError(
                    f"y: expected counts that differ from {word} in some row, got none; the intercept would be "
                    "infinite. Take more rows, or fit_intercept=False."
                )
