"""Warnings of the package, which point to the line of the user's code."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path

__all__ = [
    "AccuracyWarning",
    "ApproximationWarning",
    "DefaultModelWarning",
    "FormulaWarning",
    "IncompleteWarning",
    "InfluenceWarning",
    "MissingWarning",
    "MixingWarning",
    "NarrowIntervalsWarning",
    "PseudoLikelihoodWarning",
    "SelectionWarning",
    "UnscaledWarning",
    "warn",
]

_PACKAGE = str(Path(__file__).parent)
# Standard decorators and context managers lie between a public method and its caller.
_BETWEEN = ("contextlib.py", "functools.py")


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the first frame outside the package.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("slow", UserWarning)
    >>> str(caught[0].message)
    'slow'
    """
    frame, level = inspect.currentframe(), 0
    while frame is not None and (
        frame.f_code.co_filename.startswith(_PACKAGE) or Path(frame.f_code.co_filename).name in _BETWEEN
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)


class AccuracyWarning(UserWarning):
    """Some average over the noise could not be computed to the required accuracy.

    See Also
    --------
    predict, log_likelihood
    """


class ApproximationWarning(UserWarning):
    """The posterior is inaccurate: masks were integrated under normal scores, or importance weights are unreliable.

    See Also
    --------
    reweight, diagnose, HMC
    """


class DefaultModelWarning(UserWarning):
    """A default model was chosen from the response; the message names it.

    See Also
    --------
    fit, Model
    """


class FormulaWarning(UserWarning):
    """Python code in a formula: its values depend on other rows of a table, or a file cannot encode tables by it.

    See Also
    --------
    from_formula, fit
    """


class IncompleteWarning(UserWarning):
    """The run ended early, or its checkpoint could not be written; the draws made so far are returned.

    See Also
    --------
    sample, Stop
    """


class InfluenceWarning(UserWarning):
    """Some rows are so influential that their leave-one-out scores cannot be computed from the full posterior.

    See Also
    --------
    loo, kfold
    """


class MissingWarning(UserWarning):
    """Some columns have no entry at all, or new rows lack entries that were never missing in the rows of the fit.

    See Also
    --------
    Model, DropoutLogisticRegression
    """


class MixingWarning(UserWarning):
    """The chains are too short, or disagree.

    See Also
    --------
    diagnose, sample
    """


class NarrowIntervalsWarning(UserWarning):
    """Mean-field intervals are too narrow and weights shrunk, since weights, masks and rates count as independent.

    Measured on the standardised breast-cancer data (569 × 30, logistic loss, one rate per feature under a flat prior),
    standard deviations relative to those of ``bd.sample``: weights 0.45 (median; 0.29 to 0.67), rates 0.05 (0.02 to
    0.07). Nominal 90 % intervals contain 52 % of the posterior of a weight and 7 % of that of a rate. Means move too:
    the rates are ordered as in the posterior (correlation 0.92) but are pushed apart, by 0.23 on average. The width of
    a rate is that of as many known masks as the feature has entries, ``Beta(A + Σ(1 − ρ), B + Σρ)``, and no mask is
    known.

    Weights of features that may be dropped are shrunk towards 0. On simulated logistic data (100 and 1,000 rows, 1 to
    30 columns, rates of 0.3 or learnt) their means were 0.36 to 0.93 times those of ``bd.sample``; in posterior
    standard deviations of a weight they were off by up to 1.2 with 100 rows and up to 6.4 with 1,000. Without dropout
    they were off by up to 0.5.

    Report intervals and effects from ``bd.sample``. If only the order of the features matters, silence the warning by
    ``warnings.simplefilter("ignore", bd.NarrowIntervalsWarning)``.

    See Also
    --------
    variational, sample
    """


class PseudoLikelihoodWarning(UserWarning):
    """The scores are those of a pseudo-likelihood, comparable only with scores of the same loss and C.

    See Also
    --------
    loo, elpd
    """


class SelectionWarning(UserWarning):
    """A choice by cross-validation could not be made as requested; the message says what was done instead.

    See Also
    --------
    Tuned, DropoutLogisticRegressionCV
    """


class UnscaledWarning(UserWarning):
    """Some columns are so far from zero, or their scales differ so much, that noise or prior do not suit them.

    See Also
    --------
    Dropout, Normal
    """
