"""Energy of softmax regression under feature noise, all ``K`` classes jointly (Wager, Wang & Liang 2013).

``R`` is the penalty from the noise in the loss of a row (:mod:`bayesdrop.losses.softmax`). It does not depend on the
label, so that rows without a label have it too, as they propose:

    U = ½ Σ_k w_kᵀPw_k + Σ_i c_i (log Σ exp(m_ik) − m_{i,y_i}) + Σ_i d_i R_i.

The second-order model of :mod:`.solvers.softmax` is ``Mᵀ c A'' M`` plus a nonnegative diagonal for the noise. With the
quadratic penalty ``R_i = ½ tr((diag π_i − π_iπ_iᵀ) V_i)`` and the variances ``v_ij`` of the noised entries the second
derivative along ``u`` for given ``π`` is ``Σ_j u_jᵀ H_j u_j``, ``H_j = Σ_i d_i v_ij (diag π_i − π_iπ_iᵀ)``. The model
has the diagonal of ``H_j`` times ``K/(K − 1)`` instead, which for weights that sum to zero has the same trace, and
equals ``H_j`` if all classes are equally probable.

The penalty is computed by pairs of classes, with K(K + 1)/2 products with the data, or by entries: because
``tr((diag π − ππᵀ) V) = Σ_j v_j (Σ_k π_k w_jk² − ⟨π, w_j⟩²)``, with one inner product over the classes for each
non-zero entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar, TypeAlias

import numpy as np

from ..._typing import Float, Int, PerRow
from ...losses.base import choose_form
from ...losses.softmax import FORMS, log_sum_exp
from ...moments import ScoreMoments

__all__ = ["SoftmaxEnergy", "centred"]


def _square(flat: Float[np.ndarray, "n pairs"], K: int) -> Float[np.ndarray, "n K K"]:
    """Symmetric matrices (n, K, K) from their upper triangles (n, K(K + 1)/2)."""
    first, second = np.triu_indices(K)
    place = np.empty((K, K), dtype=int)
    place[first, second] = place[second, first] = np.arange(len(first))
    return np.take(flat, place.ravel(), axis=1).reshape(-1, K, K)  # six times as fast as two assignments


def _row_terms(
    form: str,
    mean: Float[np.ndarray, "n K"],
    code: Int[np.ndarray, "n 1"],
    loss_weight: Float[np.ndarray, "n 1"],
    noise_weight: Float[np.ndarray, "n 1"] | None = None,
    cov: Float[np.ndarray, "n pairs"] | None = None,
) -> tuple[Float[np.ndarray, "n _"], ...]:
    """Terms of the rows in the energy (n, 1), its slopes in the means (n, K), the softmax (n, K), and with noise the
    slopes in the covariances of the pairs of classes (n, pairs) and the curvatures in the variances (n, K).
    """
    level, probability = log_sum_exp(mean)
    is_own_class = np.arange(mean.shape[1]) == code
    cost = loss_weight * (level[:, None] - np.sum(np.where(is_own_class, mean, 0.0), axis=1, keepdims=True))
    for_mean = loss_weight * (probability - is_own_class)
    if noise_weight is None or cov is None:
        return cost, for_mean, probability
    extra, slope, to_cov, curve = FORMS[form](mean, _square(cov, mean.shape[1]))
    first, second = np.triu_indices(mean.shape[1])
    factor = np.where(first == second, 1.0, 2.0) * noise_weight
    return (
        cost + noise_weight * extra[:, None],
        for_mean + noise_weight * slope,
        probability,
        factor * to_cov[:, first, second],
        2 * noise_weight * np.einsum("nkk->nk", curve),
    )


def _plain_terms(
    mean: Float[np.ndarray, "n K"],
    code: Int[np.ndarray, "n 1"],
    loss_weight: Float[np.ndarray, "n 1"],
    noise_weight: Float[np.ndarray, "n 1"],
) -> tuple[Float[np.ndarray, "n _"], ...]:
    """The first three results of :func:`_row_terms`, and ``√d π`` (n, K)."""
    terms = _row_terms("taylor", mean, code, loss_weight)
    return *terms, np.sqrt(noise_weight) * terms[2]


def _penalty_terms(
    probability: Float[np.ndarray, "n K"],
    noise_weight: Float[np.ndarray, "n 1"],
    var: Float[np.ndarray, "n K"],
    tilted: Float[np.ndarray, "n K"],
) -> tuple[Float[np.ndarray, "n 1"], Float[np.ndarray, "n K"]]:
    """The quadratic penalty of rows (n, 1) and its slopes in the means (n, K), for ``tilted = √d V π``."""
    tilted = np.sqrt(noise_weight) * tilted
    along = 0.5 * noise_weight * var - tilted
    across = np.sum(probability * along, axis=1, keepdims=True)
    penalty = across + 0.5 * np.sum(probability * tilted, axis=1, keepdims=True)
    return penalty, probability * (along - across)


@dataclass(frozen=True)
class SoftmaxEnergy:
    """Energy of the joint problem.

    Attributes
    ----------
    moments : ScoreMoments
        Design, noise and rates (p, 1), which all classes share.
    form : str
        ``"taylor"`` or ``"gaussian"``.
    n_classes : int
        ``K``.
    code : int array (n,)
        Class of each row; rows without a label have any class and ``loss_weight`` 0.
    loss_weight, noise_weight : array (n,)
        The weights ``c`` and ``d``.
    precision : array (p + 1, 1)
        Prior precision, 0 for the intercepts.
    by_entries : bool, optional
        Whether to compute the penalty by entries rather than by pairs of classes; by default if the form and the noise
        permit it and there are at least ``many`` classes, so that it costs less.
    """

    moments: ScoreMoments
    form: str
    n_classes: int
    code: PerRow
    loss_weight: PerRow
    noise_weight: PerRow
    precision: Float[np.ndarray, "q 1"]
    by_entries: bool | None = None
    noisy: bool = field(init=False)
    many: ClassVar[int] = 6

    def __post_init__(self) -> None:
        choose_form(FORMS, self.form, "softmax")
        # Whether any row, in any process, has a weight.
        size = self.moments.design.total(np.abs(self.noise_weight)[:, None])[0]
        object.__setattr__(self, "noisy", bool(size > 0) and self.moments.has_variance)
        able = self.form == "taylor" and self.moments.leaves_zeros
        if self.by_entries is None:
            object.__setattr__(self, "by_entries", able and self.n_classes >= self.many)
        elif self.by_entries and not able:
            raise ValueError("by_entries: expected the Taylor form and noise that leaves zeros alone.")

    @cached_property
    def _pairs(self) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        # Computed only if needed, as the penalty by entries needs no K² numbers.
        return np.triu_indices(self.n_classes)

    def covariance(self, weights: Float[np.ndarray, "q K"]) -> PerRow:
        """Covariances of the scores, (n, K, K)."""
        return _square(self._covariances(weights), self.n_classes)

    def _covariances(self, weights: Float[np.ndarray, "q K"]) -> PerRow:
        """Covariances of the pairs of classes, (n, pairs)."""
        first, second = self._pairs
        return self.moments.covariance(np.take(weights[:-1], first, axis=1) * np.take(weights[:-1], second, axis=1))

    def without_noise(self) -> SoftmaxEnergy:
        """The energy without noise, which omits held-out rows and rows without a label."""
        moments, code, weight = self.moments, self.code, self.loss_weight
        if isinstance(weight, np.ndarray) and not moments.design.is_streamed:
            design, weight, code = moments.design.drop_zero_weight(weight, code)
            moments = moments.of(design)
        return replace(self, moments=moments, code=code, loss_weight=weight, noise_weight=0 * weight)

    def squares(self) -> Float[np.ndarray, "p 1"]:
        """``(X²)ᵀc``, as in :meth:`.energy.Energy.squares`."""
        return np.asarray(self.moments.design.sq_rmatvec(self.loss_weight[:, None]))

    def value(self, weights: Float[np.ndarray, "q K"]) -> float:
        """Energy at the weights (p + 1, K)."""
        return self.evaluate(weights)[0]

    def evaluate(
        self, weights: Float[np.ndarray, "q K"]
    ) -> tuple[float, Float[np.ndarray, "q K"], PerRow, Float[np.ndarray, "q K"]]:
        """Energy, gradient (p + 1, K), softmax (n, K), and the diagonal of prior and noise in the model."""
        value, derivatives = self.begin(weights)
        return value, *derivatives()

    def begin(self, weights: Float[np.ndarray, "q K"]) -> tuple[float, Callable[[], Derivatives]]:
        """Energy, and a function for the other results of :meth:`evaluate`, which takes as long again."""
        cost, derivatives = (self._by_entries if self.noisy and self.by_entries else self._by_pairs)(weights)
        prior = 0.5 * np.sum(self.precision * weights**2)
        return float(prior + self.moments.design.total(cost)[0]), derivatives

    def _by_pairs(self, weights: Float[np.ndarray, "q K"]) -> tuple[PerRow, Callable[[], Derivatives]]:
        """Energy of the rows (n, 1) and the derivatives, from the covariance of every pair of classes."""
        K, design = self.n_classes, self.moments.design
        operands = [self.moments.mean(weights), self.code[:, None], self.loss_weight[:, None]]
        widths = [1, K, K]
        if self.noisy:
            operands += [self.noise_weight[:, None], self._covariances(weights)]
            widths += [len(self._pairs[0]), K]
        cost, for_mean, probability, *noised = design.persist(
            *design.rowwise(partial(_row_terms, self.form), *operands, widths=widths)
        )

        def rest() -> Derivatives:
            gradient = self.moments.mean_adjoint(for_mean)
            gradient += self.precision * weights
            if noised:
                gradient[:-1] += self._noise_slope(noised[0], weights[:-1])
            return gradient, probability, self._diagonal(*noised[1:])

        return cost, rest

    def _by_entries(self, weights: Float[np.ndarray, "q K"]) -> tuple[PerRow, Callable[[], Derivatives]]:
        """Energy of the rows (n, 1) and the derivatives, with the quadratic penalty by entries."""
        K, design, noise_weight = self.n_classes, self.moments.design, self.noise_weight[:, None]
        mean, var = self.moments.scores(weights)
        rows = [mean, self.code[:, None], self.loss_weight[:, None], noise_weight]
        cost, for_mean, probability, left = design.persist(*design.rowwise(_plain_terms, *rows, widths=[1, K, K, K]))
        tilted, back = self.moments.sampled_products(left, weights[:-1])
        penalty, slope = design.rowwise(_penalty_terms, probability, noise_weight, var, tilted, widths=[1, K])
        cost, slope = design.persist(cost + penalty, for_mean + slope)

        def rest() -> Derivatives:
            gradient, _ = self.moments.adjoint(weights, slope, 0.5 * noise_weight * probability)
            gradient[:-1] -= back
            gradient += self.precision * weights
            return gradient, probability, self._diagonal(noise_weight * probability * (1 - probability))

        return cost, rest

    def _noise_slope(self, to_cov: PerRow, weights: Float[np.ndarray, "p K"]) -> Float[np.ndarray, "p K"]:
        """Derivatives of ``Σ_i Σ_{k<=l} r_ikl V_ikl`` in the weights (p, K)."""
        # Whole matrices instead of triangles permit matrix products, which are forty times as fast.
        matrices = _square(self.moments.spread(to_cov), self.n_classes)
        k = np.arange(self.n_classes)
        matrices[:, k, k] *= 2
        return np.matmul(matrices, weights[:, :, None])[:, :, 0]

    def _diagonal(self, curve: PerRow | None = None) -> Float[np.ndarray, "q K"]:
        """Diagonal (p + 1, K) of prior and noise, from the curvatures of the rows in the variances (n, K)."""
        K = self.n_classes
        result = np.repeat(self.precision, K, axis=1)
        if curve is not None:
            result[:-1] += K / (K - 1) * self.moments.spread(curve)
        return result

    def product(
        self,
        probability: PerRow,
        diagonal: Float[np.ndarray, "q K"],
        direction: Float[np.ndarray, "q K"],
    ) -> Float[np.ndarray, "q K"]:
        """Hessian of the model times ``u``: ``Mᵀ c A'' M u`` plus the diagonal of prior and noise times ``u``."""

        def curved(rows: slice, mean: PerRow) -> PerRow:
            part = probability[rows]
            return self.loss_weight[rows, None] * part * (mean - np.sum(part * mean, axis=1, keepdims=True))

        return self.moments.mean_normal_product(direction, curved)[1] + diagonal * direction

    def class_weight(self, probability: PerRow) -> PerRow:
        """Row weights ``c π(1 − π)`` (n, K) of the blocks of single classes."""
        return self.loss_weight[:, None] * probability * (1 - probability)

    def diagonal(self, probability: PerRow, diagonal: Float[np.ndarray, "q K"]) -> Float[np.ndarray, "q K"]:
        """Diagonal of the Hessian of the model (p + 1, K), given the ``diagonal`` of prior and noise."""
        return np.maximum(self.moments.diagonal(self.class_weight(probability)) + diagonal, np.finfo(float).tiny)


def centred(weights: Float[np.ndarray, "q K"]) -> Float[np.ndarray, "q K"]:
    """Weights and intercepts that sum to zero over the classes; the scores of a row change by a common number."""
    return weights - weights.mean(axis=1, keepdims=True)


Derivatives: TypeAlias = tuple[Float[np.ndarray, "q K"], PerRow, Float[np.ndarray, "q K"]]
"""Gradient (p + 1, K), softmax (n, K), and the diagonal of prior and noise in the model (p + 1, K)."""
