"""Compute the log density of the weights of many classes without masks, for gradient samplers, and its approximation.

    exp(−U),    U = ½ Σ_k w_kᵀPw_k + C Σ s_i φ(y_i, m_i, V_i),      m_i, V_i the moments of the scores of row i

with ``φ`` of :mod:`bayesdrop.losses.softmax`; without noise it is the posterior of softmax regression. A part that is
common to all classes affects the prior only, and is left out: the coordinates are contrasts ``Θ`` of the weights,
``W = BΘ`` with the orthonormal columns ``B`` (K, K − 1) of Helmert, so that weights sum to zero over the classes. The
prior of ``Θ`` is then again ``N(0, P⁻¹)`` for every contrast, and the likelihood depends on every direction.

The Hessian of the energy at the point fit takes one pass over the rows. The curvature of a row's loss in its
scores is a sum over the pairs of classes,

    diag(π) − ππᵀ = Σ_{k<l} π_kπ_l (e_k − e_l)(e_k − e_l)ᵀ,

so that, with ``d_kl = Bᵀ(e_k − e_l)``, row weights ``c`` and the means ``M`` of the noised features, the Hessian is, in
contrasts,

    Σ_{k<l} d_kl d_klᵀ ⊗ Mᵀ diag(cπ_kπ_l) M:

``K(K − 1)/2`` Gram matrices with non-negative weights, all from one pass over the rows. Prior and noise are added to
the blocks of single features.

Shapes: ``C`` chains, ``K`` classes, ``J = K − 1`` contrasts, ``n`` rows, ``p`` features, ``q = p + 1``,
``D = J(p + 1)`` coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float, Int, PerRow
from ...data.dataset import Dataset
from ...fitting.objective.softmax_energy import SoftmaxEnergy
from ...fitting.problems.many_classes import fit_classes, softmax_energy
from ...losses.softmax import JITTER, normal_points
from ...model import Model
from ...rates import RateMap
from ..kernels.density import DensityOperands, Evaluation, Loadings, Point, score_moments
from .normal import root_inverse

__all__ = ["ClassDensity", "ClassFitted", "class_approximation", "class_fit", "contrasts", "hessian_in_a_pass"]

PerContrast = Float[jax.Array, "C J n"]


def contrasts(n_classes: int) -> Float[np.ndarray, "K J"]:
    """Orthonormal columns that sum to zero (Helmert).

    Examples
    --------
    >>> basis = contrasts(3)
    >>> np.allclose(basis.T @ basis, np.eye(2)), np.allclose(basis.sum(axis=0), 0)
    (True, True)
    """
    basis = np.tril(np.ones((n_classes - 1, n_classes)))
    number = np.arange(1, n_classes)
    basis[number - 1, number] = -number
    return np.ascontiguousarray((basis / np.sqrt(number * (number + 1.0))[:, None]).T)


@dataclass(frozen=True)
class ClassDensity:
    """The density; see :class:`bayesdrop.hmc.kernels.density.LogDensity`.

    The operands are :class:`bayesdrop.hmc.kernels.density.DensityOperands`; ``target`` holds indices of classes.

    Attributes
    ----------
    loss, noise : Softmax, Noise
        Components of the model.
    n_classes : int
        ``K``.
    fit_intercept : bool
        Whether there are intercepts.
    quadratic, linear, constant, shift : bool
        Whether the noise has each of these coefficients.
    """

    loss: Any
    noise: Any
    n_classes: int
    fit_intercept: bool
    quadratic: bool
    linear: bool
    constant: bool
    shift: bool

    @property
    def variables(self) -> dict[str, tuple[str, ...]]:
        """Dims of the variables that ``record`` returns."""
        names: dict[str, tuple[str, ...]] = {"weight": ("class", "feature")}
        return names | ({"intercept": ("class",)} if self.fit_intercept else {})

    @property
    def of_rows(self) -> ClassDensity:
        """Density of a row given its scores, without the prior: this object."""
        return self

    @property
    def has_variance(self) -> bool:
        """True if the noise gives the scores a variance."""
        return self.quadratic or self.linear or self.constant

    @property
    def is_normal(self) -> bool:
        """False: minus the log density is not quadratic."""
        return False

    def _split(self, theta: Point, p: int) -> tuple[Float[jax.Array, "C J p"], Float[jax.Array, "C J"]]:
        """Contrasts of the weights and of the intercepts."""
        J = self.n_classes - 1
        weight, intercept = theta[:, : J * p].reshape(len(theta), J, p), theta[:, J * p :]
        return weight, intercept if self.fit_intercept else jnp.zeros(weight.shape[:2], theta.dtype)

    def record(self, operands: DensityOperands, theta: Point) -> dict[str, jax.Array]:
        """Variables of points θ (C, D) in a posterior: weight (C, K, p) and intercept (C, K), centred over classes."""
        weight, intercept = self._split(theta, operands.precision.shape[0])
        basis = jnp.asarray(contrasts(self.n_classes), theta.dtype)
        draw = {"weight": jnp.einsum("kj,cjp->ckp", basis, weight)}
        return draw | ({"intercept": intercept @ basis.T} if self.fit_intercept else {})

    def moments(self, operands: DensityOperands, theta: Point) -> tuple[jax.Array, ...]:
        """Means of the contrasts of the scores (C, J, n), and with noise their covariances (C, pairs, n)."""
        parts = score_moments(self, operands.matrix, self.loadings(operands, theta))
        return tuple(part.reshape(theta.shape[0], -1, part.shape[1]) for part in parts)

    def loadings(self, operands: DensityOperands, theta: Point) -> Loadings:
        """Coefficients of the moments of the scores, of every contrast of every chain in this order, and with noise of
        every pair of contrasts; see :mod:`bayesdrop.hmc.streamed`.
        """
        weight, intercept = self._split(theta, operands.precision.shape[0])
        gain, shift, quadratic, linear, constant = (
            part[None] for part in self.noise.coefficients(operands.fixed_rate)
        )  # fmt: skip
        flat, level = weight.reshape(intercept.size, weight.shape[2]), intercept.reshape(-1)
        level = level + jnp.sum(shift * flat, axis=1) if self.shift else level
        first, second = np.triu_indices(self.n_classes - 1 if self.has_variance else 0)
        square = (weight[:, first] * weight[:, second]).reshape(len(theta) * len(first), weight.shape[2])
        return Loadings(
            mean=gain * flat,
            level=level,
            quadratic=quadratic * square,
            linear=linear * square,
            constant=jnp.sum(constant * square, axis=1),
        )

    def cost(
        self, operands: DensityOperands, mean: PerContrast, pairs: Float[jax.Array, "C pairs n"] | None = None
    ) -> Float[jax.Array, "C n"]:
        """Contribution of each row to minus the log density."""
        basis = jnp.asarray(contrasts(self.n_classes), mean.dtype)
        score = jnp.einsum("kj,cjn->ckn", basis, mean)
        is_own_class = operands.target[None] == jnp.arange(self.n_classes, dtype=operands.target.dtype)[:, None]
        label_score = jnp.sum(jnp.where(is_own_class[None], score, 0), axis=1)
        level = jax.nn.logsumexp(score, axis=1)
        if pairs is not None:
            level = level + self._noise_cost(basis, score, level, pairs)
        return operands.row_weight[None] * (level - label_score)

    def _noise_cost(
        self,
        basis: Float[jax.Array, "K J"],
        score: Float[jax.Array, "C K n"],
        level: Float[jax.Array, "C n"],
        pairs: Float[jax.Array, "C pairs n"],
    ) -> Float[jax.Array, "C n"]:
        """Contribution of the noise to the loss; see :mod:`bayesdrop.losses.softmax`."""
        J = basis.shape[1]
        first, second = np.triu_indices(J)
        place = np.empty((J, J), dtype=int)
        place[first, second] = place[second, first] = np.arange(len(first))
        cov = jnp.moveaxis(pairs, 1, 2)[:, :, place]
        if self.loss.convex:
            # As in the point fit: contrasts with the last class, whose score is at its mean.
            last = basis[:-1] - basis[-1:]
            cov = jnp.einsum("aj,cnjl,bl->cnab", last, cov, last)
            points = jnp.asarray(normal_points(J), score.dtype)
            scale = jnp.trace(cov, axis1=2, axis2=3) / J
            ridge = (max(JITTER, float(jnp.finfo(score.dtype).eps)) * scale + 1e-14)[:, :, None, None]
            root = jnp.linalg.cholesky(cov + ridge * jnp.eye(J, dtype=score.dtype)[None, None])
            spread = jnp.einsum("cnab,sb->casn", root, points)
            spread = jnp.concatenate([spread, jnp.zeros_like(spread[:, :1])], axis=1)
            return jnp.mean(jax.nn.logsumexp(score[:, :, None, :] + spread, axis=1), axis=1) - level
        chance = jax.nn.softmax(score, axis=1)
        every = jnp.einsum("kj,cnjl,ml->ckmn", basis, cov, basis)
        variances = jnp.einsum("ckkn->ckn", every)
        return 0.5 * (jnp.sum(chance * variances, axis=1) - jnp.einsum("ckn,ckmn,cmn->cn", chance, every, chance))

    def log_prior(self, operands: DensityOperands, theta: Point) -> Float[jax.Array, " C"]:
        """Log prior density of θ up to a constant."""
        weight, _ = self._split(theta, operands.precision.shape[0])
        return -0.5 * jnp.sum(operands.precision[None, None] * weight * weight, axis=(1, 2))

    def evaluate(self, operands: DensityOperands, theta: Point) -> Evaluation:
        """Minus the log density and its gradient at θ (C, D)."""

        def cost(theta: Point) -> Float[jax.Array, "C n"]:
            return self.cost(operands, *self.moments(operands, theta))

        row_costs, pull_back = jax.vjp(cost, theta)
        prior, prior_slope = jax.vjp(lambda t: self.log_prior(operands, t), theta)
        gradient = pull_back(jnp.ones_like(row_costs))[0] - prior_slope(jnp.ones_like(prior))[0]
        return Evaluation(row_costs, prior, gradient)


class ClassFitted(NamedTuple):
    """Point fit: weights (p + 1, K), energy, and at these weights the softmax of the rows (n, K) and the diagonal
    (p + 1, K) that prior and noise add to the Hessian.
    """

    weights: Float[np.ndarray, "q K"]
    energy: SoftmaxEnergy
    chance: PerRow
    diagonal: Float[np.ndarray, "q K"]


def class_fit(model: Model, data: Dataset, rate_map: RateMap) -> ClassFitted:
    """Compute the point fit at which approximations begin."""
    labels: Any = data.classes
    K = len(labels)
    fit = fit_classes(model, data.design, rate_map, data.target, data.weight, K, tol=1e-6, max_iter=200)
    (weight,) = data.design.persist(model.C * data.weight)
    energy = softmax_energy(model, data.design, rate_map.initial, data.target, K, weight, weight)
    _, _, chance, diagonal = energy.evaluate(fit.weights)
    return ClassFitted(fit.weights, energy, chance, diagonal)


def class_approximation(
    model: Model, data: Dataset, rate_map: RateMap, dense: bool = True
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, "D D"] | Float[np.ndarray, " D"]]:
    """Laplace's approximation of the density: the point fit, and a factor ``T`` of the covariance there, ``TTᵀ``."""
    weights, energy, chance, added = class_fit(model, data, rate_map)
    K, basis = weights.shape[1], contrasts(weights.shape[1])
    keep = len(weights) if model.fit_intercept else len(weights) - 1
    # One contrast after another, features within it; the intercepts come last.
    p, size = len(weights) - 1, keep * (K - 1)
    place = [(d, j) for j in range(K - 1) for d in range(p)] + [(p, j) for j in range(K - 1)]
    row = tuple(np.array(place[:size]).T)
    centre = (weights @ basis)[row]
    if not dense:
        diagonal = energy.diagonal(chance, added) @ basis**2
        return centre, 1 / np.sqrt(np.maximum(diagonal[row], 1e-10))
    return centre, root_inverse(hessian_in_a_pass(energy, chance, added, basis, model.fit_intercept))


def hessian_in_a_pass(
    energy: SoftmaxEnergy,
    chance: PerRow,
    diagonal: Float[np.ndarray, "q K"],
    basis: Float[np.ndarray, "K J"],
    intercept: bool,
    pairs: float = 8.0,
) -> Float[np.ndarray, "D D"]:
    """Hessian of the second-order model at softmax values ``chance`` (n, K), contrast by contrast, intercepts last.

    Prior and noise add a ``diagonal`` (p + 1, K) in the weights. A pass takes at most ``pairs`` times K pairs of
    classes, as many numbers per row as a fit holds: more than 17 classes need a few passes.
    """
    K, J = basis.shape
    q, design = len(energy.precision), energy.moments.design
    result = np.zeros((J, q, J, q))
    one, other = np.triu_indices(K, 1)
    pairs_per_pass = int(pairs * K)
    for start in range(0, len(one), pairs_per_pass):
        k, m = one[start : start + pairs_per_pass], other[start : start + pairs_per_pass]
        weight = design.rowwise(partial(_pair_weights, k, m), chance, energy.loss_weight[:, None], widths=[len(k)])
        between = basis[k] - basis[m]
        for apart, gram in zip(between, energy.moments.grams(*design.persist(*weight)), strict=True):
            result += np.einsum("a,b,de->adbe", apart, apart, gram)
    j, d = np.arange(J), np.arange(q)
    for column in j:
        result[:, d, column, d] += basis.T @ (diagonal * basis[:, column]).T
    place = (q * j[:, None] + d[:-1]).ravel()
    place = np.append(place, q * j + q - 1) if intercept else place
    return result.reshape(J * q, J * q)[np.ix_(place, place)]


def _pair_weights(
    k: Int[np.ndarray, " G"],
    m: Int[np.ndarray, " G"],
    chance: Float[np.ndarray, "n K"],
    weight: Float[np.ndarray, "n 1"],
) -> tuple[Float[np.ndarray, "n G"]]:
    """``cπ_kπ_l`` of every pair."""
    return (weight * np.take(chance, k, axis=1) * np.take(chance, m, axis=1),)
