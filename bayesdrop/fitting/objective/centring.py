"""What a model says of its columns, in numbers: where the noise is centred, and the scale of a relative prior.

Multiplicative noise about a centre, ``x̃ = c + α(x − c)``, has the score

    wᵀx̃ + b = wᵀ(α∘(x − c)) + b',        b' = b + wᵀc

which is that of plain noise on ``x − c`` with another intercept. The intercept has a flat prior and no penalty, so that
nothing else changes: solvers and samplers are given ``X − c`` and noise about 0, and what they find is written in the
user's columns by ``b = b' − wᵀc``; the weights are the same. Sparse rows are not shifted, for that would fill them, nor
are rows that are read when needed or lie elsewhere.

A missing entry (``missing="nan"`` of the model) is a dropped one, so that it becomes ``c`` and has no noise: in
``X − c`` it is 0. Its column is then centred at the mean of the entries that are there unless the noise says otherwise.

Why centre: the learnt rate of a feature is the share of its entries that speak against its weight (Zhuo, Zhu & Zhang
2015, equation 15). A feature that is never zero and of one sign speaks against it in the rows of one class, whatever
it says, so that its rate is the share of that class; and a dropped entry becomes 0, many standard deviations from any
value of the feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..._typing import AnyArray, Bool, Float, PerRow
from ...designs import Design, as_design
from ...model import Model
from ...noise.centre import AUTO, MEAN, centre_of
from ...rates import RateMap
from ...warnings import MissingWarning, UnscaledWarning, warn

__all__ = ["Settled", "moved", "settle", "shifted", "warn_of_counts"]

# Fewer rows are of one sign by chance.
_ROWS = 50
# Standard deviations between 0 and the mean from which on a fixed rate makes values that no row has.
_FAR = 3.0
# Ratio of the standard deviations of two columns beyond which a prior of one scale cannot fit both.
_RATIO = 1e6
_NAMED = 5


@dataclass(frozen=True)
class Settled:
    """A model whose settings are numbers, and the features that solvers and samplers are to see.

    Attributes
    ----------
    stated : Model
        The model in the user's columns: the centre of its noise is None or (p,) numbers, its prior has absolute scales.
    model : Model
        The same for ``X − c``: its noise is about 0.
    design : Design (n, p)
        ``X − c``, or the features as they came if the centre is None.
    centre : array (p,) or None
        ``c``.
    unscaled : list of str
        Columns that are never zero and of one sign, and whose noise is about 0 all the same.
    scale_ratio : float
        Largest ratio of two columns' standard deviations, 1 where the prior follows them or it was not looked at.
    """

    stated: Model
    model: Model
    design: Design
    centre: Float[np.ndarray, " p"] | None
    unscaled: list[str] = field(default_factory=list)
    scale_ratio: float = 1.0

    def at_rates(self, rates: Any) -> Settled:
        """The same at other rates, which are above zero where these are."""
        return replace(self, stated=replace(self.stated, rates=rates), model=replace(self.model, rates=rates))

    def outward(self, weights: Float[AnyArray, "q ..."]) -> Float[AnyArray, "q ..."]:
        """Weights (p + 1, …) for ``X``, whose last row is the intercept, from those for ``X − c``."""
        return moved(weights, self.centre, -1.0)

    def inward(self, weights: Float[AnyArray, "q ..."]) -> Float[AnyArray, "q ..."]:
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


def shifted(X: Any, centre: Float[np.ndarray, " p"] | None) -> Any:
    """``X − c`` of a dense matrix; entries at ``c`` but for rounding become 0, for 0 is what noise leaves alone.

    Raises
    ------
    ValueError
        If ``X`` is sparse, which would become dense.

    Examples
    --------
    >>> shifted(np.array([[1.0, 0.0], [4.0, 2.0]]), np.array([3.0, 0.0])).tolist()
    [[-2.0, 0.0], [1.0, 2.0]]
    """
    return X if centre is None else as_design(X).shifted(centre).matrix()


def settle(
    model: Model,
    design: Design,
    weight: PerRow,
    rate_map: RateMap,
    names: Sequence[str],
    *,
    zeros_to_come: bool = False,
) -> Settled:
    """Find the centre of the noise and the scales of the prior, and shift the features.

    Parameters
    ----------
    model : Model
        As the user states it.
    design : Design (n, p)
        Checked features, rows of some weight.
    weight : array (n,)
        Row weights, where the rows are.
    rate_map : RateMap
        ``model.bind(names)``: without noise nothing is centred.
    names : sequence of p str
        Names of the columns.
    zeros_to_come : bool
        Features of the rows to come go missing as zeros, so that noise about 0 is meant, wherever the columns are.

    Raises
    ------
    ValueError
        If a centre is stated for sparse rows, rows elsewhere, a model without an intercept, or another number of
        columns.

    Warns
    -----
    MissingWarning
        If no entry of a column is there.
    UnscaledWarning
        Once, if columns that are never zero and of one sign keep noise about 0, or if scales differ beyond reason.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> X = np.array([[10.0, 0.0], [12.0, 1.0], [14.0, -1.0]])
    >>> model, names = bd.Model(), ["size", "balance"]
    >>> found = settle(model, as_design(X), np.ones(3), model.bind(names), names)
    >>> found.centre.tolist(), found.design.matrix()[:, 0].tolist()
    ([12.0, 0.0], [-2.0, 0.0, 2.0])
    >>> found.outward(np.array([0.5, 1.0, 7.0])).tolist()
    [0.5, 1.0, 1.0]
    """
    prior = model.weight_prior
    if prior.relative:
        prior = prior.absolute(design.column_spread(weight))
    noisy = rate_map.is_free or bool(np.any(rate_map.initial > 0)) if model.noise.has_rate else True
    # A missing entry takes the centre of its column, also where nothing else is dropped.
    centred = noisy or model.missing is not None
    centre = _centre(model, design, weight) if centred or isinstance(model.noise.centre, tuple) else None
    if not centred or (centre is not None and not np.any(centre)):
        centre = None
    gone = design.missing_share()
    if np.any(gone == 1):
        _warn_empty([names[int(d)] for d in np.flatnonzero(gone == 1)])
    stated = inner = model if prior is model.weight_prior else replace(model, weight_prior=prior)
    noise: Any = model.noise
    if noise.centre is not None:
        inner = replace(stated, noise=replace(noise, centre=None))
        stated = inner if centre is None else replace(stated, noise=replace(noise, centre=centre))
    unscaled: list[str] = []
    ratio = 1.0
    if noisy and model.noise.has_rate:
        if design.shape[0] >= _ROWS and not zeros_to_come:
            unscaled = _dropped_far(design, weight, rate_map, names, centre)
        if unscaled:
            _warn_far(unscaled, design, rate_map.is_free, model.fit_intercept)
        if not model.weight_prior.relative:
            ratio = _compare_scales(design, weight, names, quiet=bool(unscaled))
    return Settled(stated, inner, design if centre is None else design.shifted(centre), centre, unscaled, ratio)


def _centre(model: Model, design: Design, weight: PerRow) -> Float[np.ndarray, " p"] | None:
    """Centre of the noise, (p,), or None."""
    wanted, p = model.noise.centre, design.shape[1]
    fixed = design.fixed_origin
    if wanted is None or (wanted == AUTO and not (fixed is None and model.fit_intercept)):
        return None
    if wanted != AUTO and not model.fit_intercept:
        raise ValueError(
            "centre: noise about a centre other than 0 needs an intercept, which takes up wᵀc; set fit_intercept=True, "
            "or use bd.Dropout(centre=None)."
        )
    if fixed is not None:
        raise ValueError(
            f"centre: expected a dense X in memory, got {fixed}; subtract the centre from the columns before, or use "
            "bd.Dropout(centre=None)."
        )
    if isinstance(wanted, tuple):
        if len(wanted) != p:
            raise ValueError(f"centre: expected {p} numbers (one per feature), got {len(wanted)}.")
        return centre_of(model.noise)
    if wanted == MEAN:
        mean = design.column_means(weight)
        if not np.all(np.isfinite(mean)):
            raise ValueError("centre: the mean of a column overflows; bring the features to a common scale.")
        return mean
    # Where NaN is what is absent, zero is a value as any other.
    chosen = design.usually_one_signed(weight) | (design.missing_share() > 0)
    if not np.any(chosen):
        return None
    mean = design.column_means(weight)
    chosen &= np.isfinite(mean)
    return np.where(chosen, mean, 0.0) if np.any(chosen) else None


def _warn_empty(names: Sequence[str]) -> None:
    """Warn of columns without an entry."""
    warn(
        f"X: every entry of {_named(names)} is missing: weights of 0, rates at their prior, and no say in any "
        "prediction; leave such columns out.",
        MissingWarning,
    )


def _named(names: Sequence[str]) -> str:
    """The first names of some, quoted."""
    return ", ".join(repr(name) for name in names[:_NAMED]) + (" …" if len(names) > _NAMED else "")


def _dropped_far(
    design: Design, weight: PerRow, rate_map: RateMap, names: Sequence[str], centre: Float[np.ndarray, " p"] | None
) -> list[str]:
    """Columns that dropout takes where they never are."""
    left = design.always_one_signed()
    if centre is not None:
        left = left[centre[left] == 0]
    if len(left) and not rate_map.is_free:
        left = left[design.far_from_zero(left, weight, _FAR) & (rate_map.initial[left] > 0)]
    return [names[d] for d in left]


def _compare_scales(design: Design, weight: PerRow, names: Sequence[str], quiet: bool) -> float:
    """Largest ratio of two columns' standard deviations, with a warning beyond reason."""
    ratio, low, high = design.differing_scales(weight)
    if ratio > _RATIO and not quiet:
        warn(
            f"X: the standard deviations of {names[low]!r} and {names[high]!r} differ by a factor of {ratio:.0e}: one "
            "prior cannot fit both weights; use bd.Normal(1.0, relative=True), or scale the columns.",
            UnscaledWarning,
        )
    return ratio


def warn_of_counts(
    design: Design, one_signed: Bool[np.ndarray, " p"] | None, names: Sequence[str], fit_intercept: bool
) -> None:
    """Warn of what the counts of a fit show of columns that could not be looked at before.

    Parameters
    ----------
    design : Design (n, p)
        Features; those that ``scans_columns`` were looked at.
    one_signed : bool array (p,) or None
        Columns that are never zero and of one sign; None if nothing was counted.
    names : sequence of p str
        Names of the columns.
    fit_intercept : bool
        Whether the model has an intercept.
    """
    if one_signed is None or design.scans_columns or design.shape[0] < _ROWS or not np.any(one_signed):
        return
    _warn_far([names[int(d)] for d in np.flatnonzero(one_signed)], design, True, fit_intercept)


def _warn_far(names: Sequence[str], design: Design, learnt: bool, fit_intercept: bool) -> None:
    """Warn of columns that are never zero and of one sign and whose noise is about 0."""
    harm = (
        "their learnt rates are the shares of the classes, whatever the data say"
        if learnt
        else f"a dropped entry is more than {_FAR:g} standard deviations from what the column holds"
    )
    if not fit_intercept:
        remedy = "set fit_intercept=True, so that their noise can be centred, or subtract their means"
    elif design.fixed_origin is None:
        remedy = 'use bd.Dropout(centre="mean"), or subtract their means'
    elif design.scans_columns:
        remedy = "take them out, or pass them with their means subtracted in a dense X"
    else:
        remedy = "subtract their means"
    count = len(names)
    warn(
        f"X: {count} column{'s' * (count != 1)} ({_named(names)}) {'are' if count > 1 else 'is'} never zero and of one "
        f"sign, and dropped to 0: {harm}; {remedy}.",
        UnscaledWarning,
    )
