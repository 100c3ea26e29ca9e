"""The marginalised energy of ``K`` problems (two classes or a regression) that share one matrix.

    U_k(w) = ½ (w − μ)ᵀP(w − μ) + Σ_d λ_d |w_d|
             + Σ_i c_ik φ(y_ik, o_i + m_ik, v_ik + ε²) + Σ_i d_i φ(y_ik, o_i + m_ik, 0)

with ``c = C × row weight``.

Arrays have one column per problem, so that one pass over the data serves all problems. ``ε`` smooths a piecewise-linear
loss where the noise vanishes: ``ε²`` is added to the variance, because ``φ`` depends on it through ``√(ζ² + v)``. The
last sum, without noise, is for rows whose penalty and loss have different weights (:func:`row_weights`; Wager, Wang &
Liang 2013, section 5: rows without labels). The known offset ``o_i`` enters the loss only; everything else, including
the minimisers, uses the linear part ``m_ik`` of the score. The mean ``μ`` of the prior is not an offset, because the
noise acts on ``w`` and not on ``w − μ``: it is the linear term ``Pμ``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from ..._typing import Float, PerRow
from ...losses import Derivatives, Loss
from ...losses.base import Pseudo
from ...losses.protocols import Augmented, Curved, PiecewiseLinear
from ...model import Model
from ...moments import ScoreMoments
from ...priors.intercept import known_place

__all__ = [
    "Curvature",
    "Energy",
    "FeatureBlock",
    "Level",
    "PriorBlock",
    "ProblemVector",
    "WeightBlock",
    "prior_block",
    "row_weights",
]


@dataclass(frozen=True)
class Curvature:
    """Second-order model at one point: the 2 × 2 Hessian of ``c φ`` in ``(m, v)``, and the diagonal ``P + 2q(c φ_v)``;
    the EM matrix has no terms in ``φ_mv`` and ``φ_vv``, which are None.
    """

    mean_mean: PerRow
    diagonal: WeightBlock
    mean_var: PerRow | None = None
    var_var: PerRow | None = None


class Level(NamedTuple):
    """Normal prior ``aᵀw ~ N(m, 1/τ)`` of the intercept at the means of the columns, ``a`` being (p + 1, 1)."""

    row: Float[np.ndarray, "q 1"]
    precision: float
    mean: float

    def cost(self, weights: WeightBlock) -> ProblemVector:
        """``½τ(aᵀw − m)²``, (K,)."""
        return np.asarray(0.5 * self.precision * (self.row[:, 0] @ weights - self.mean) ** 2)

    def pull(self, weights: WeightBlock, mean: float) -> WeightBlock:
        """``τa(aᵀw − m)``, (p + 1, K)."""
        return np.asarray(self.precision * self.row * (self.row[:, 0] @ weights - mean))

    @property
    def hessian(self) -> Float[np.ndarray, "q q"]:
        """``τ a aᵀ``."""
        return np.asarray(self.precision * self.row @ self.row.T)


class PriorBlock(NamedTuple):
    """Prior of a model: ``precision`` (p + 1, 1), ``location``, ``level`` and ``absolute`` as an energy has them."""

    precision: Float[np.ndarray, "q 1"]
    location: Float[np.ndarray, "q 1"] | None
    level: Level | None
    absolute: Float[np.ndarray, "q 1"] | None


@dataclass(frozen=True)
class Energy:
    """Energies of K problems.

    Attributes
    ----------
    moments : ScoreMoments
        Design, noise and rates.
    loss : Loss
        Marginalised loss.
    target : array (n, K)
        Labels as −1 and +1, or numbers.
    weight : array (n, 1) or (n, K)
        ``C`` times the row weight.
    precision : array (p + 1, 1)
        Prior precision, 0 for the intercept.
    plain_weight : array (n, 1) or (n, K), optional
        Weight ``d`` of the loss without noise; it may be negative.
    offset : array (n, 1), optional
        Known part of the score of each row.
    location : array (p + 1, 1), optional
        Mean ``μ`` of the prior, 0 for the intercept; None if all are 0.
    level : Level, optional
        Prior of the intercept at the means of the columns; None if it is flat.
    absolute : array (p + 1, 1), optional
        Penalty ``λ`` of a Laplace prior, 0 for the intercept; gradients and curvatures omit it.
    """

    moments: ScoreMoments
    loss: Loss
    target: PerRow
    weight: PerRow
    precision: Float[np.ndarray, "q 1"]
    plain_weight: PerRow | None = None
    offset: PerRow | None = None
    location: Float[np.ndarray, "q 1"] | None = None
    level: Level | None = None
    absolute: Float[np.ndarray, "q 1"] | None = None

    @property
    def convex(self) -> bool:
        """True if the energy is known to be convex."""
        return self.loss.convex and self.plain_weight is None

    @property
    def has_all_rows(self) -> bool:
        """True if vectors over the rows are arrays with all rows, so that a sum of an array is a sum over all rows."""
        return isinstance(self.target, np.ndarray) and len(self.target) == self.moments.design.shape[0]

    @cached_property
    def kinks(self) -> tuple[Kinks, Kinks, Kinks]:
        """Kinks ``t`` and ends ``l`` and ``u`` of a PiecewiseLinear loss, (kinks, n, K) each, one or two per row."""
        shape = self.target.shape
        weight = np.broadcast_to(self.weight, shape)
        centre, low, high, width = cast(PiecewiseLinear, self.loss).interval(self.target, weight)
        centre = np.broadcast_to(centre if self.offset is None else centre - self.offset, shape)
        if not np.any(width):
            return centre[None], low[None], high[None]
        zero = np.zeros(shape)
        return np.stack([centre - width, centre + width]), np.stack([zero, low]), np.stack([high, zero])

    @cached_property
    def score_unit(self) -> ProblemVector:
        """Unit of the scores, (K,), for a PiecewiseLinear loss: the mean distance of the kinks' centres from 0 for two
        classes, and for numbers from their mean; 1 if there is none.
        """
        centre: PerRow = cast(PiecewiseLinear, self.loss).interval(self.target, self.weight + 0 * self.target).centre
        centre = centre if self.offset is None or self.loss.binary else centre - self.offset
        total, share = self.moments.design.total, np.maximum(self.weight, 0.0)
        rows = np.maximum(total(share), np.finfo(float).tiny)
        if not self.loss.binary and self.moments.fit_intercept:
            centre = centre - total(share * centre) / rows
        unit = total(share * np.abs(centre)) / rows
        return np.where(unit > 0, unit, 1.0)

    def squares(self) -> FeatureBlock:
        """``(X²)ᵀc``, (p, K) or (p, 1): curvature in each weight for a loss of curvature 1."""
        return np.asarray(self.moments.design.sq_rmatvec(self.weight))

    def starting_energy(self) -> Energy | None:
        """Energy whose minimum is the start of the fit; None for a start at any weights.

        For an energy that is not convex this chooses the local minimum: the one reached from the fit without noise,
        which ignores rows without a label. The Gaussian form of a piecewise-linear loss is flat where the noise does
        not reach the kink, such as at zero weights, whereas the augmentation bound is curved everywhere.
        """
        if not self.convex:
            easier = replace(self, moments=self.moments.without_variance(), loss=self.loss.plain)
            return easier if self.plain_weight is None else easier._with_one_weight(self.weight + self.plain_weight)
        return replace(self, loss=self.loss.plain) if self.loss.piecewise_linear and not self.loss.augmented else None

    def _with_one_weight(self, weight: PerRow) -> Energy:
        """Replace both row weights by one, and drop rows without a label, whose weight is then rounding error."""
        cancelled = 1e-12
        mask = np.any(np.abs(weight) > cancelled * np.abs(self.weight), axis=1).astype(float)
        column = np.broadcast_to(0.0 if self.offset is None else self.offset, (len(mask), 1))
        design, _, target, weight, column = self.moments.design.drop_zero_weight(mask, self.target, weight, column)
        offset = None if self.offset is None else column
        moments = self.moments.of(design)
        return replace(self, moments=moments, target=target, weight=weight, plain_weight=None, offset=offset)

    def select(self, columns: Any) -> Energy:
        """Keep the given problems."""

        def part(rows: PerRow) -> PerRow:
            return rows[:, columns] if rows.shape[1] > 1 else rows

        plain, offset = (None if rows is None else part(rows) for rows in (self.plain_weight, self.offset))
        return replace(
            self, moments=self.moments.select(columns), target=self.target[:, columns], weight=part(self.weight),
            plain_weight=plain, offset=offset,
        )  # fmt: skip

    def scores(self, mean: PerRow) -> PerRow:
        """Mean scores (n, K): the linear parts (n, K) plus any offset."""
        return mean if self.offset is None else mean + self.offset

    def pull(self, weights: WeightBlock) -> WeightBlock:
        """Gradient of the prior, ``P(w − μ) + τa(aᵀw − m)``, (p + 1, K)."""
        back = self.precision * (weights if self.location is None else weights - self.location)
        return back if self.level is None else back + self.level.pull(weights, self.level.mean)

    def value(
        self, weights: WeightBlock, mean: PerRow, var: PerRow, smoothing: ProblemVector | Float[np.ndarray, "_ 1"]
    ) -> ProblemVector:
        """Energy of each problem, (K,), given the moments of the scores' linear parts."""
        design, mean = self.moments.design, self.scores(mean)
        cost = self.weight * design.rowwise(self.loss.value, self.target, mean, var + smoothing**2)
        if self.plain_weight is not None:
            cost = cost + self.plain_weight * design.rowwise(self.loss.plain.value, self.target, mean, 0 * var)
        away = weights if self.location is None else weights - self.location
        prior = 0.5 * np.sum(self.precision * away**2, axis=0)
        if self.level is not None:
            prior = prior + self.level.cost(weights)
        if self.absolute is not None:
            prior = prior + np.sum(self.absolute * np.abs(weights), axis=0)
        return np.asarray(prior + design.total(cost))

    def derivatives(
        self, mean: PerRow, var: PerRow, smoothing: ProblemVector | Float[np.ndarray, "_ 1"]
    ) -> Derivatives:
        """Derivatives of ``c φ`` in the moments, (n, K) each; the loss must be Curved."""
        loss = cast(Curved, self.loss)
        design, widths, mean = self.moments.design, mean.shape[1:] * len(Derivatives._fields), self.scores(mean)
        parts = design.rowwise(loss.derivatives, self.target, mean, var + smoothing**2, widths=widths)
        slopes = Derivatives(*(self.weight * part for part in parts))
        if self.plain_weight is not None:
            plain = cast(Curved, self.loss.plain)
            parts = design.rowwise(plain.derivatives, self.target, mean, 0 * var, widths=widths)
            more = Derivatives(*parts)
            slopes = slopes._replace(
                mean=slopes.mean + self.plain_weight * more.mean,
                mean_mean=slopes.mean_mean + self.plain_weight * more.mean_mean,
            )
        return Derivatives(*design.persist(*slopes))

    def pseudo(self, mean: PerRow, var: PerRow) -> Pseudo:
        """Pseudo-observations ``exp(κs − ½ωs²)`` of the linear parts ``s`` of the scores; the loss is Augmented."""
        loss, design = cast(Augmented, self.loss), self.moments.design
        parts = design.rowwise(
            loss.pseudo, self.target, self.scores(mean), var, self.weight, widths=var.shape[1:] * 2
        )  # fmt: skip
        omega, kappa = parts
        return Pseudo(*design.persist(omega, kappa if self.offset is None else kappa - omega * self.offset))

    def gradient(self, weights: WeightBlock, slopes: Derivatives) -> tuple[WeightBlock, FeatureBlock]:
        """Gradient of U, (p + 1, K), and ``q(c φ_v)``, (p, K)."""
        back, spread = self.moments.adjoint(weights, slopes.mean, slopes.var)
        back += self.pull(weights)
        return back, spread

    def curvature(self, slopes: Derivatives, spread: FeatureBlock) -> Curvature:
        """Second-order model: the Hessian."""
        diagonal = np.empty((len(self.precision), spread.shape[1]))
        diagonal[:-1] = self.precision[:-1] + 2 * spread
        diagonal[-1] = self.precision[-1]
        return Curvature(slopes.mean_mean, diagonal, slopes.mean_var, slopes.var_var)

    def product(
        self, weights: WeightBlock, curvature: Curvature, direction: WeightBlock
    ) -> tuple[WeightBlock, tuple[PerRow]]:
        """``H u`` and the tangent of the mean scores along ``u``."""
        mean_mean, mean_var, var_var = curvature.mean_mean, curvature.mean_var, curvature.var_var
        if mean_var is None or var_var is None:
            mean, back = self.moments.mean_normal_product(direction, lambda rows, mean: mean_mean[rows] * mean)
        else:
            mean, _, back = self.moments.normal_product(
                weights, direction,
                lambda rows, mean, var: (
                    mean_mean[rows] * mean + mean_var[rows] * var, mean_var[rows] * mean + var_var[rows] * var,
                ),
            )  # fmt: skip
        back = back + curvature.diagonal * direction
        return back if self.level is None else back + self.level.pull(direction, 0.0), (mean,)


Kinks: TypeAlias = Float[np.ndarray, "kinks n K"]
"""A number for each kink of each row of each problem."""

WeightBlock: TypeAlias = Float[np.ndarray, "q K"]
"""A number for each weight of each problem, the intercepts last: q = p + 1."""

FeatureBlock: TypeAlias = Float[np.ndarray, "p K"]
"""A number for each feature of each problem."""

ProblemVector: TypeAlias = Float[np.ndarray, " K"]
"""A number for each problem."""


def prior_block(model: Model, p: int) -> PriorBlock:
    """Prior of ``p`` weights (normal or Laplace) and of the intercept (normal or flat), which is last.

    Examples
    --------
    >>> from bayesdrop import Normal
    >>> precision, location, *others = prior_block(Model(weight_prior=Normal(0.5, mean=3.0)), 1)
    >>> precision.tolist(), location.tolist(), others
    ([[4.0], [0.0]], [[3.0], [0.0]], [None, None])
    """
    location, level, normal = model.weight_prior.location(p), None, model.intercept_prior
    if normal is not None:
        level = Level(np.append(known_place(normal), 1.0)[:, None], float(normal.scale) ** -2.0, float(normal.mean))
    absolute = model.weight_prior.absolute_penalty(p)
    precision = model.weight_prior.precision(p) if absolute is None else 0 * absolute

    def column(values: Float[np.ndarray, " p"] | None) -> Float[np.ndarray, "q 1"] | None:
        return None if values is None else np.append(values, 0.0)[:, None]

    return PriorBlock(np.append(precision, 0.0)[:, None], column(location), level, column(absolute))


def row_weights(
    model: Model,
    weight: PerRow,
    unlabelled: tuple[int, float] | None,
    strength: ProblemVector | None = None,
) -> tuple[PerRow, PerRow, PerRow | None]:
    """Row weights of the labels, of the noised loss and of the plain loss, (n, 1) or (n, K) each.

    Labelled rows contribute ``loss + ρR`` and rows without label ``ραR``, where ``R`` is the penalty from the noise and
    ``ρ = n/(n + αm)`` (Wager, Wang & Liang 2013, section 5). ``weight`` is (n,), or (n, K) if the problems have
    different row weights; ``strength`` (K,) is the ``C`` of each problem, by default the model's.
    """
    C = model.C if strength is None else strength
    weight = weight[:, None] if weight.ndim == 1 else weight
    if unlabelled is None:
        return weight, C * weight, None
    if not model.loss.separable:
        raise ValueError(
            f"unlabelled: what noise adds to {type(model.loss).__name__} depends on the label, so that rows without "
            "one carry no information; use the logistic loss."
        )
    count, share = unlabelled
    zeros = np.zeros((count, weight.shape[1]))
    label_weight = np.concatenate([weight[:-count], zeros])
    total = label_weight.sum(axis=0)
    ratio = total / (total + share * count)
    unlabelled_weight = np.concatenate([np.zeros((len(weight) - count, weight.shape[1])), zeros + share])
    plain = C * ((1 - ratio) * label_weight - ratio * unlabelled_weight)
    return label_weight, C * ratio * (label_weight + unlabelled_weight), plain
