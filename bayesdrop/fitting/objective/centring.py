"""Compute the centre of the noise and the scales of a relative prior from the columns; used by every fit.

Multiplicative noise about a centre, ``x̃ = c + α(x − c)``, has the score

    wᵀx̃ + b = wᵀ(α∘(x − c)) + b',        b' = b + wᵀc

which is the score of plain noise on ``x − c`` with another intercept. The intercept has no prior, or one at the means
of the columns (``intercept_prior``), so that nothing else changes: solvers and samplers use ``X − c`` and noise about
0, and the intercept for the user's columns is ``b = b' − wᵀc``; the weights are the same. The design forms ``X − c``:
it shifts dense rows, and subtracts ``c`` in products with sparse rows, without more memory. The centre depends on the
values of the columns only, not on their storage.

A missing entry (``missing="nan"`` of the model) counts as dropped: it becomes ``c`` and has no noise, so that it is 0
in ``X − c``. By default its column is centred at the mean of the observed entries.

Why centre: the learnt rate of a feature is the share of its entries that contradict the sign of its weight (Zhuo, Zhu &
Zhang 2015, equation 15). A feature that is never zero and of one sign contradicts it in all rows of one class, for any
values, so that its rate is the share of this class. A dropped entry would become 0, many standard deviations from any
value of the feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np

from ..._typing import AnyArray, Float, PerRow
from ...designs import Design
from ...designs.columns import ColumnSummary
from ...model import Model, refuse_stated_priors
from ...noise.base import AUTO, MEAN, centre_of
from ...priors import CentredIntercept, Normal
from ...rates import RateMap
from ...warnings import MissingWarning, UnscaledWarning, warn

__all__ = ["CentredProblem", "moved", "centre_problem"]


_OF_CLASSES = (
    "bd.Softmax(), whose weights and intercepts sum to zero over the classes,",
    "leave it out, or fit one class against the rest with bd.Logistic()",
)


@dataclass(frozen=True)
class CentringRules:
    """Conditions of warnings about columns.

    Attributes
    ----------
    rows : int
        Minimum number of rows: in fewer rows columns may have one sign by chance.
    deviations : float
        Minimum distance of 0 from the mean of a column, in standard deviations, at which dropping to 0 is wrong.
    ratio : float
        Maximum ratio of the standard deviations of two columns for a prior of one scale.
    columns : int
        Minimum number of columns for advice about ``C``.
    square : float
        Largest mean square of the entries of small columns.
    """

    rows: int = 50
    deviations: float = 3.0
    ratio: float = 1e6
    columns: int = 50
    square: float = 0.03


RULES = CentringRules()


@dataclass(frozen=True)
class CentredProblem:
    """A model whose settings are numbers, and the centred features for solvers and samplers.

    Attributes
    ----------
    original_model : Model
        Model for the user's columns: the centre of the noise is None or (p,) numbers, and the prior has absolute
        scales.
    model : Model
        Model for ``X − c``, with noise about 0.
    design : Design (n, p)
        ``X − c``, or ``X`` if the centre is None.
    centre : array (p,) or None
        ``c``.
    unscaled : list of str
        Columns that are never zero and of one sign, but have noise about 0.
    scale_ratio : float
        Largest ratio of the standard deviations of two columns; 1 for a relative prior, or if not computed.
    usual_square : float
        Mean square of the entries of the median column; see :meth:`.ColumnSummary.usual_square`.
    """

    original_model: Model
    model: Model
    design: Design
    centre: Float[np.ndarray, " p"] | None
    unscaled: list[str] = field(default_factory=list)
    scale_ratio: float = 1.0
    usual_square: float = 1.0

    @property
    def usual_C(self) -> float:
        """``C`` for which weights of unit scale suit the columns: the power of ten nearest to ``1 / usual_square``.

        The fit to ``X/u`` with ``C = 1`` equals the fit to ``X`` with ``C = 1/u²``, so that the unit of the columns
        does not matter. A power of ten is 1 for all columns of about unit size, and easy to type.
        """
        return float(10.0 ** -np.round(np.log10(np.clip(self.usual_square, 1e-100, 1e100))))

    def advise_C(self) -> None:
        """Warn if a prior of scale 1 shrinks the weights of many small columns too much."""
        prior: Any = self.original_model.weight_prior
        unit = isinstance(prior, Normal) and not prior.relative and isinstance(prior.scale, Real) and prior.scale == 1
        has_small_columns = self.design.shape[1] >= RULES.columns and self.usual_square <= RULES.square
        if unit and self.original_model.C == 1 and has_small_columns:
            warn(
                f"X: entries are of size {self.usual_square**0.5:.2g}, as where rows have norm 1, and a prior of scale "
                f"1 leaves their weights little room; use C={self.usual_C:g}, or an estimator such as "
                "bd.DropoutLogisticRegression(), whose default C follows the columns.",
                UnscaledWarning,
            )

    def with_C(self, C: float) -> CentredProblem:
        """Replace the weight of the loss."""
        return replace(self, original_model=replace(self.original_model, C=C), model=replace(self.model, C=C))

    def to_original(self, weights: Float[AnyArray, "q ..."]) -> Float[AnyArray, "q ..."]:
        """Weights (p + 1, …) for ``X``, whose last row is the intercept, from those for ``X − c``."""
        return moved(weights, self.centre, -1.0)

    def to_centred(self, weights: Float[AnyArray, "q ..."]) -> Float[AnyArray, "q ..."]:
        """Weights (p + 1, …) for ``X − c`` from those for ``X``."""
        return moved(weights, self.centre, 1.0)


def moved(
    weights: Float[AnyArray, "q ..."], centre: Float[np.ndarray, " p"] | None, sign: float
) -> Float[AnyArray, "q ..."]:
    """Weights (p + 1, …) with ``± wᵀc`` added to the intercept, their last row.

    Examples
    --------
    >>> moved(np.array([2.0, 1.0]), np.array([3.0]), -1.0).tolist()
    [2.0, -5.0]
    """
    if centre is None:
        return weights
    result = np.array(weights, dtype=np.float64)
    result[-1] += sign * np.tensordot(centre, result[:-1], axes=1)
    return result


def centre_problem(
    model: Model,
    design: Design,
    weight: PerRow,
    rate_map: RateMap,
    names: Sequence[str],
    *,
    zeros_to_come: bool = False,
    units: bool = False,
) -> CentredProblem:
    """Find the centre of the noise and the scales of the prior, and shift the features.

    Parameters
    ----------
    model : Model
        As the user states it.
    design : Design (n, p)
        Checked features, rows of some weight.
    weight : array (n,)
        Row weights.
    rate_map : RateMap
        ``model.bind(names)``; without noise nothing is centred.
    names : sequence of p str
        Names of the columns.
    zeros_to_come : bool
        Whether features of new rows go missing as zeros, so that noise about 0 is intended for all columns.
    units : bool
        Whether to compute ``usual_square`` even without noise.

    Raises
    ------
    ValueError
        If a centre is given for a model without an intercept, or for another number of columns; or if squares of the
        entries overflow or underflow.

    Warns
    -----
    MissingWarning
        If all entries of a column are missing.
    UnscaledWarning
        If columns that are never zero and of one sign have noise about 0, or if scales differ too much.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.designs import as_design
    >>> X = np.array([[10.0, 0.0], [12.0, 1.0], [14.0, -1.0]])
    >>> model, names = bd.Model(), ["size", "balance"]
    >>> found = centre_problem(model, as_design(X), np.ones(3), model.bind(names), names)
    >>> found.centre.tolist(), found.design.matrix()[:, 0].tolist()
    ([12.0, 0.0], [-2.0, 0.0, 2.0])
    >>> found.to_original(np.array([0.5, 1.0, 7.0])).tolist()
    [0.5, 1.0, 1.0]
    """
    model = replace(model, weight_prior=model.weight_prior.of_columns(names))
    if model.loss.multiclass:
        refuse_stated_priors(model, len(names), *_OF_CLASSES)
    prior = model.weight_prior
    noisy = rate_map.is_free or bool(np.any(rate_map.initial > 0)) if model.noise.has_rate else True
    # A missing entry becomes the centre of its column, even without noise.
    centred = noisy or model.missing is not None
    needs_summary = (
        units
        or prior.relative
        or model.intercept_prior is not None
        or (centred and model.noise.centre is not None)
        or (noisy and model.noise.has_rate)
    )
    summary = design.column_summary(weight) if needs_summary else ColumnSummary.empty(design.shape[1])
    _check_sizes(summary, prior.relative, names)
    if prior.relative:
        prior = prior.absolute(summary.spread)
    missing_share = design.missing_share()
    centre = _centre(model, summary, missing_share) if centred or isinstance(model.noise.centre, tuple) else None
    if not centred or (centre is not None and not np.any(centre)):
        centre = None
    level = _intercept_prior(model, summary, names)
    if np.any(missing_share == 1):
        _warn_empty([names[int(d)] for d in np.flatnonzero(missing_share == 1)])
    original = inner = replace(model, weight_prior=prior, intercept_prior=level)
    if level is not None:
        inner = replace(inner, intercept_prior=level.moved(centre))
    noise: Any = model.noise
    if noise.centre is not None:
        inner = replace(inner, noise=replace(noise, centre=None))
        original = replace(original, noise=replace(noise, centre=centre))
    unscaled: list[str] = []
    ratio = 1.0
    if noisy and model.noise.has_rate:
        if summary.rows >= RULES.rows and not zeros_to_come:
            unscaled = _dropped_far(summary, rate_map, names, centre)
        if unscaled:
            _warn_far(unscaled, rate_map.is_free, model.fit_intercept)
        if not model.weight_prior.relative:
            ratio = _compare_scales(summary, names, quiet=bool(unscaled))
    return CentredProblem(
        original, inner, design if centre is None else design.shifted(centre), centre, unscaled, ratio,
        summary.usual_square,
    )  # fmt: skip


def _centre(
    model: Model, summary: ColumnSummary, missing_share: Float[np.ndarray, " p"]
) -> Float[np.ndarray, " p"] | None:
    """Centre of the noise, (p,), or None."""
    wanted, p = model.noise.centre, len(missing_share)
    if wanted is None or (wanted == AUTO and not model.fit_intercept):
        return None
    if not model.fit_intercept:
        raise ValueError(
            "centre: noise about a centre other than 0 needs an intercept, which takes up wᵀc; set fit_intercept=True, "
            "or use bd.Dropout(centre=None)."
        )
    if isinstance(wanted, tuple):
        if len(wanted) != p:
            raise ValueError(f"centre: expected {p} numbers (one per feature), got {len(wanted)}.")
        return centre_of(model.noise)
    if wanted == MEAN:
        if not np.all(np.isfinite(summary.mean)):
            raise ValueError("centre: the mean of a column overflows; bring the features to a common scale.")
        return summary.mean
    # In a column with missing entries as NaN, zero is an ordinary value.
    chosen = (summary.usually_one_signed | (missing_share > 0)) & np.isfinite(summary.mean)
    return np.where(chosen, summary.mean, 0.0) if np.any(chosen) else None


def _intercept_prior(model: Model, summary: ColumnSummary, names: Sequence[str]) -> CentredIntercept | None:
    """Prior of the intercept at the means of the columns; columns of random terms count with the mean 0."""
    prior: Any = model.intercept_prior
    if prior is None:
        return None
    if isinstance(prior, CentredIntercept):
        if len(prior.place) != len(names):
            raise ValueError(f"intercept_prior: expected {len(names)} means of columns, got {len(prior.place)}.")
        return prior
    mean = np.where(np.isfinite(summary.mean), summary.mean, 0.0)
    mean[len(names) - getattr(model.weight_prior, "size", 0) :] = 0.0
    return CentredIntercept(float(prior.scale), float(prior.mean), tuple(mean.tolist()))


def _check_sizes(summary: ColumnSummary, relative: bool, names: Sequence[str]) -> None:
    """Raise ValueError if squares of entries overflow or, with a relative prior, underflow."""
    largest, smallest_size = 1e152, 1e-140
    size = np.where(summary.nonzero > 0, np.maximum(summary.high, -summary.low), 1.0)
    wrong = np.flatnonzero((size > largest) | (relative & (size < smallest_size)))
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"X: expected columns whose squares double precision holds, got entries of size {size[first]:.2g} at most "
            f"in {_named([names[int(d)] for d in wrong])}; divide the column by {size[first]:.0e}, or leave it out."
        )


def _warn_empty(names: Sequence[str]) -> None:
    """Warn about columns whose entries are all missing."""
    warn(
        f"X: every entry of {_named(names)} is missing: weights of 0, rates at their prior, and no effect on "
        "predictions; leave such columns out.",
        MissingWarning,
    )


def _named(names: Sequence[str]) -> str:
    """The first five of some names, quoted, for a message."""
    limit = 5
    return ", ".join(repr(name) for name in names[:limit]) + (" …" if len(names) > limit else "")


def _dropped_far(
    summary: ColumnSummary,
    rate_map: RateMap,
    names: Sequence[str],
    centre: Float[np.ndarray, " p"] | None,
) -> list[str]:
    """Columns for which 0, the value of a dropped entry, is far from all their values."""
    left = summary.always_one_signed
    if centre is not None:
        left &= centre == 0
    if not rate_map.is_free:
        left &= summary.far_from_zero(RULES.deviations) & (rate_map.initial > 0)
    return [names[int(d)] for d in np.flatnonzero(left)]


def _compare_scales(summary: ColumnSummary, names: Sequence[str], quiet: bool) -> float:
    """Largest ratio of the standard deviations of two columns; warn if it is too large."""
    ratio, low, high = summary.extreme_spreads()
    if ratio > RULES.ratio and not quiet:
        warn(
            f"X: the standard deviations of {names[low]!r} and {names[high]!r} differ by a factor of {ratio:.0e}: one "
            "prior cannot fit both weights; use bd.Normal(1.0, relative=True), or scale the columns.",
            UnscaledWarning,
        )
    return ratio


def _warn_far(names: Sequence[str], learnt: bool, fit_intercept: bool) -> None:
    """Warn about columns that are never zero and of one sign, but have noise about 0."""
    harm = (
        "their learnt rates are the shares of the classes, whatever the data say"
        if learnt
        else f"a dropped entry is more than {RULES.deviations:g} standard deviations from what the column holds"
    )
    remedy = (
        'use bd.Dropout(centre="mean"), or subtract their means'
        if fit_intercept
        else "set fit_intercept=True, so that their noise can be centred, or subtract their means"
    )
    count = len(names)
    warn(
        f"X: {count} column{'s' * (count != 1)} ({_named(names)}) {'are' if count > 1 else 'is'} never zero and of one "
        f"sign, and dropped to 0: {harm}; {remedy}.",
        UnscaledWarning,
    )
