r"""Factor the covariance of the weights of many classes by eigenvectors that all classes share, for gradient samplers.

Coordinates are those of :mod:`.class_density`: contrasts ``Θ`` (J, p) of the weights, and intercepts (J,). The
curvature of a row's cost in its ``J`` scores is approximated by one matrix for all rows, ``C_i = d_iM``, so that the
precision is

    1 ⊗ P + M ⊗ A₀ᵀDA₀,      M = V diag(λ) Vᵀ,      D = diag(d),

and the precision of each rotated contrast, ``VᵀΘ``, is ``P + λ_jA₀ᵀDA₀``. ``A₀`` are the rows minus their mean ``x̄``
under ``D`` if there are intercepts: these are then ``b' − x̄ᵀw`` with ``b'`` of variance ``1/(λ_jΣD)``, independent of
the weights. With ``B = D^½A₀P^{−½}`` either

    BBᵀ = Q diag(γ) Qᵀ,    T_j = P^{−½}(1 − BᵀQ f_j QᵀB),    f_j = (1 − (1 + λ_jγ)^{−½})/γ,

for fewer rows than features, or ``BᵀB = R diag(γ) Rᵀ`` and ``T_j = P^{−½}R(1 + λ_jγ)^{−½}``. One matrix of
the shorter side serves all classes, and nothing of size (Jp, Jp) is formed.

Noise multiplies the features by gains ``g`` (p,), and ``A₀`` is made of ``Xdiag(g)``. To the precision of every
contrast's weights it adds ``e`` (p,): with ``Q`` it is part of ``P``, and with ``R`` of ``A₀ᵀDA₀``, whose eigenvectors
are shared for any diagonal.

``C_i``, ``d_i``, ``M`` and ``e`` are computed at the point fit: with the softmax ``π_i``, row weights ``c_i`` and the
basis ``W`` (K, J) of the contrasts,

    C_i = c_i Wᵀ(diag π_i − π_iπ_iᵀ)W,    d_i = tr(C_i)/J = c_i (1 − |π_i|²)/J,    M = ΣC_i/Σd_i,

and ``e = tr(E_d)/J`` with ``E_d`` the contribution of noise to the curvature of the fit. Pilots of the sampler correct
the errors of this approximation (:mod:`bayesdrop.hmc.kernels.kernel`).

Shapes: ``C`` chains, ``K`` classes, ``J`` contrasts, ``n`` rows, ``p`` features, ``m`` the shorter side,
``D = J(p + 1)`` coordinates.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np

from ..._typing import Float, PerRow
from ...data.dataset import Dataset
from ...model import Model
from ...rates import RateMap
from ...sampling.matrix import Matrix, placed
from ..kernels.factors import Frame, StructuredFactor, WeightedRows, row_product
from .class_density import class_fit, contrasts
from .precision import centred_gram

__all__ = [
    "ClassRowRoot",
    "ClassScores",
    "ClassSpace",
    "EigenvectorRoot",
    "class_factor",
    "class_scores",
]

Point = Float[jax.Array, "C D"]
Parts = Float[jax.Array, "C J p"]
Levels = Float[jax.Array, "C levels"]
Feature: TypeAlias = Float[np.ndarray, " p"]


class ClassSpace:
    """Shared eigenvectors of the factor, for curvatures of the rows (n,).

    Parameters
    ----------
    design : Design (n, p)
        ``X``.
    gain, prior, extra : array (p,)
        ``g``, precisions of the weights, and ``e``.
    curvature : array (n,)
        ``d``.
    intercept : bool
        Whether there are intercepts.
    """

    def __init__(
        self, design: Any, gain: Feature, prior: Feature, extra: Feature, curvature: PerRow, intercept: bool
    ) -> None:
        n, p = design.shape
        outer = None if design.is_streamed or n >= p else design.outer_gram(gain**2 / (prior + extra))
        self.design, self.gain, self.curvature, self.intercept = design, gain, curvature, intercept
        self.by_rows, self.total = outer is not None, float(curvature.sum())
        self.mean_row = gain * design.rmatvec(curvature) / self.total if intercept else np.zeros(len(gain))
        if outer is not None:
            self.precision = prior + extra
            root, gram = np.sqrt(curvature), centred_gram(outer, curvature, intercept)
        else:
            self.precision = prior
            root = prior**-0.5
            gram = gain[:, None] * design.gram(curvature) * gain
            gram += np.diag(extra) - self.total * np.outer(self.mean_row, self.mean_row)
        square = root[:, None] * gram * root
        value, self.basis = np.linalg.eigh(0.5 * (square + square.T))
        self.value, self.root = np.maximum(value, 0), root


class ClassScores(NamedTuple):
    """Mean, curvatures and eigenvectors of the approximation.

    Attributes
    ----------
    centre : array (D,)
        Mean of the contrasts of the weights, one after another, and of the intercepts.
    curvature : array (n,)
        ``d``, above 0.
    rotation : array (J, J)
        ``V``.
    rotated : array (J,)
        ``λ``, above 0.
    extra : array (p,)
        ``e``, the contribution of noise to the precision of the weights; zero without noise.
    space : ClassSpace
        Eigenvectors for all contrasts.
    """

    centre: Float[np.ndarray, " D"]
    curvature: Float[np.ndarray, " n"]
    rotation: Float[np.ndarray, "J J"]
    rotated: Float[np.ndarray, " J"]
    extra: Float[np.ndarray, " p"]
    space: ClassSpace


def class_scores(model: Model, data: Dataset, rate_map: RateMap) -> ClassScores:
    """Approximate the posterior of softmax regression with normal weights at known rates."""
    labels: Any = data.classes
    design, K, basis = data.design, len(labels), contrasts(len(labels))
    p = design.shape[1]
    coefficients = model.noise.coefficients(rate_map.initial)
    result = class_fit(model, data, rate_map)
    weight = result.energy.loss_weight[:, None]
    (curvature,) = design.persist(*design.rowwise(_shares, weight, result.chance, widths=[1]))
    # One class at a time: all pairs would need more numbers per row than the fit holds.
    square = [design.total(*design.rowwise(partial(_products, k), weight, result.chance, widths=[K])) for k in range(K)]
    shared = basis.T @ (np.diag(np.sum(square, axis=0)) - np.stack(square)) @ basis
    rotated, rotation = np.linalg.eigh(0.5 * (shared + shared.T) / float(design.total(curvature)[0]))
    gain, prior = np.broadcast_to(coefficients.gain, p).astype(float), model.weight_prior.precision(p)
    extra = result.diagonal[:-1].mean(axis=1) - prior
    space = ClassSpace(design, gain, prior, extra, curvature[:, 0], model.fit_intercept)
    centre = (result.weights @ basis).T
    parts = [centre[:, :-1].ravel(), centre[:, -1] if model.fit_intercept else np.zeros(0)]
    rotated = np.maximum(rotated, 1e-6 * rotated[-1])
    return ClassScores(np.concatenate(parts), curvature[:, 0], rotation, rotated, extra, space)


def _shares(weight: Float[np.ndarray, "n 1"], chance: Float[np.ndarray, "n K"]) -> tuple[PerRow]:
    """``d`` (n, 1)."""
    return (weight * (1 - np.sum(chance**2, axis=1, keepdims=True)) / (chance.shape[1] - 1),)


def _products(k: int, weight: Float[np.ndarray, "n 1"], chance: Float[np.ndarray, "n K"]) -> tuple[PerRow]:
    """``cπ_kπ`` (n, K)."""
    return (weight * chance[:, k : k + 1] * chance,)


class ClassRowRoot(NamedTuple):
    """``1 − BᵀQ f_j QᵀB``, for fewer rows than features.

    Attributes
    ----------
    rows : WeightedRows
        ``B``, with ``S = P``.
    basis, turned : array (n, n)
        ``Q`` and its transpose.
    width, inverse_width : array (J, n)
        ``f_j`` and its counterpart in the inverse.
    """

    rows: WeightedRows
    basis: Float[jax.Array, "n n"]
    turned: Float[jax.Array, "n n"]
    width: Float[jax.Array, "J n"]
    inverse_width: Float[jax.Array, "J n"]

    def _through(self, parts: Parts, widths: Float[jax.Array, "J n"]) -> Parts:
        """``BᵀQ diag(widths_j) QᵀB`` times the weights of each contrast."""
        (chains, J, p), rows, root = parts.shape, self.rows, self.rows.root[None]
        scores = root * rows.scores(parts.reshape(chains * J, p))
        inside = row_product(self.turned, scores).reshape(chains, J, -1) * widths[None]
        turned = root * row_product(self.basis, inside.reshape(chains * J, -1))
        return rows.columns(turned).reshape(parts.shape)

    def times(self, parts: Parts) -> Parts:
        """Product with the root."""
        return parts - self._through(parts, self.width)

    def solve(self, parts: Parts) -> Parts:
        """Product with the inverse of the root."""
        return parts + self._through(parts, self.inverse_width)

    def transposed_times(self, parts: Parts) -> Parts:
        """Product with the transpose of the root, which is symmetric."""
        return self.times(parts)


class EigenvectorRoot(NamedTuple):
    """``R(1 + λ_jγ)^{−½}``, for no more features than rows.

    Attributes
    ----------
    basis, turned : array (p, p)
        ``R`` and its transpose.
    width : array (J, p)
        ``(1 + λ_jγ)^{−½}``.
    """

    basis: Float[jax.Array, "p p"]
    turned: Float[jax.Array, "p p"]
    width: Float[jax.Array, "J p"]

    def times(self, parts: Parts) -> Parts:
        """Product with the root."""
        return _turn(self.basis, self.width[None] * parts)

    def solve(self, parts: Parts) -> Parts:
        """Product with the inverse of the root."""
        return _turn(self.turned, parts) / self.width[None]

    def transposed_times(self, parts: Parts) -> Parts:
        """Product with the transpose of the root."""
        return self.width[None] * _turn(self.turned, parts)


def _turn(matrix: Float[jax.Array, "p p"], parts: Parts) -> Parts:
    return row_product(matrix, parts.reshape(-1, parts.shape[2])).reshape(parts.shape)


def class_factor(scores: ClassScores, matrix: Matrix, dtype: str) -> StructuredFactor:
    """Factor of an approximation; call this within the precision of its arrays."""
    real, space = partial(placed, dtype=dtype), scores.space
    scale, offset = space.precision**-0.5, real(space.mean_row * space.precision**-0.5)
    spread = np.sqrt(1 + scores.rotated[:, None] * space.value)
    basis, turned = real(space.basis), real(space.basis.T)
    root: ClassRowRoot | EigenvectorRoot = EigenvectorRoot(basis, turned, real(1 / spread))
    if space.by_rows:
        # At γ = 0 both quotients are λ/2.
        value = np.maximum(space.value, 1e-300)
        small = scores.rotated[:, None] * space.value < 1e-8
        half = np.broadcast_to(scores.rotated[:, None] / 2, spread.shape)
        widths = [real(np.where(small, half, part / value)) for part in (1 - 1 / spread, spread - 1)]
        rows = WeightedRows(matrix, real(space.gain * scale), None, None, offset, real(np.sqrt(scores.curvature)))
        root = ClassRowRoot(rows, basis, turned, *widths)
    level = (scores.rotated * scores.curvature.sum()) ** -0.5 if space.intercept else np.zeros(0)
    frame = Frame(real(scale), real(np.zeros(0)), offset, real(level), real(scores.rotation))
    return StructuredFactor(frame, root, real(np.ones(len(scores.centre))))
