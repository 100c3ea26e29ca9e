r"""Normal approximation of the posterior of many classes, by the scores of its rows.

As for one score (:mod:`.approximations.drawn`), weights enter by the scores alone: ``J`` contrasts for each row, whose
mean slope ``g_i`` (J,) and curvature ``C_i`` (J, J) under the approximation itself make the next one,

    g_i = E ∂cost_i(s_i),    C_i = E ∂²cost_i(s_i),    s_i ~ N(m_i, S_i),

over quasi-random normal points (:mod:`.classes.slopes`). One matrix for all rows keeps the classes apart,
``C_i ≈ d_iM`` with ``d_i = tr(C_i)/J`` and ``M = ΣC_i/Σd_i``: in the eigenvectors of ``M`` the contrasts are
independent, and those of ``D^½A₀P⁻¹A₀ᵀD^½``, or of ``P^{−½}A₀ᵀDA₀P^{−½}`` where there are fewer features than rows,
serve them all (notation of :mod:`.classes.factor`). The mean is where the mean slope vanishes, whatever ``M`` is; the
covariance is as good as it.

Noise gives the scores of a row the covariance ``V_i = Σ_d v_id θ_dθ_dᵀ``, ``v_id`` the variance of an entry and ``θ_d``
(J,) the contrasts of a feature's weights. Its mean under the approximation goes into the cost, whose slope in it adds
to the gradient, and to the precision of a feature's weights,

    E_dθ_d,    E_d = Σ_i v_idΛ_i    with    Λ_i = 2 E ∂cost_i/∂V_i;

of ``E_d`` (J, J) the covariance takes ``tr(E_d)/J``. What noise lets go together, the scores and their covariances
under the approximation, is left out.

Nothing about a sampler's correctness rests on any of it.

Shapes: ``n`` rows, ``p`` features, ``K`` classes, ``J = K − 1`` contrasts, ``m`` the shorter of the two sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float
from ...data.dataset import Dataset
from ...model import Model
from ...noise import Coefficients
from ...rates import RateMap
from .density import contrasts
from .slopes import class_slopes
from .space import ClassSpace

__all__ = ["ClassScores", "class_scores"]

# Noise moves the precision of the weights beside the curvatures, and more steps are needed.
_STEPS, _NOISY_STEPS, _CLOSE, _SHARE = 8, 12, 0.1, 0.5
# Conjugate gradients for a step, and how far they go.
_INNER, _SOLVED = 30, 0.1
# How often a step is halved: where scores are wide a row's curvature may be that of a few points alone.
_HALVES = 10
# Curvature of a row, as a share of the largest, below which it is not followed.
_FLAT = 1e-6

Weights = Float[np.ndarray, "q J"]
Curves = Float[np.ndarray, "_ J J"]


class ClassScores(NamedTuple):
    """What the approximation is made of.

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
        ``e``, what noise adds to the precision of the weights; zero without noise.
    space : ClassSpace
        Eigenvectors for them all.
    """

    centre: Float[np.ndarray, " D"]
    curvature: Float[np.ndarray, " n"]
    rotation: Float[np.ndarray, "J J"]
    rotated: Float[np.ndarray, " J"]
    extra: Float[np.ndarray, " p"]
    space: ClassSpace


class _Noise:
    """Covariances of the scores that independent noise of the entries makes, and their adjoint."""

    def __init__(self, design: Any, coefficients: Coefficients) -> None:
        p = design.shape[1]
        of_weights = (np.broadcast_to(part, p)[:, None] for part in coefficients[2:])
        self.design, (self.quadratic, self.linear, self.constant) = design, of_weights

    def rows(self, square: Float[np.ndarray, "p k"]) -> Float[np.ndarray, "n k"]:
        """``Σ_d v_id q_d`` for every column."""
        found = self.design.sq_matvec(self.quadratic * square)
        if np.any(self.linear):
            found = found + self.design.matvec(self.linear * square)
        result: Float[np.ndarray, "n k"] = found + np.sum(self.constant * square, axis=0)
        return result

    def columns(self, rows: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "p k"]:
        """``Σ_i v_id r_i``."""
        found = self.quadratic * self.design.sq_rmatvec(rows) + self.constant * rows.sum(axis=0)
        if np.any(self.linear):
            found = found + self.linear * self.design.rmatvec(rows)
        result: Float[np.ndarray, "p k"] = found
        return result

    def covariance(self, weight: Float[np.ndarray, "p J"]) -> Curves:
        """``V_i`` at weights, (n, J, J)."""
        J = weight.shape[1]
        first, second = np.triu_indices(J)
        pairs = self.rows(weight[:, first] * weight[:, second])
        result = np.empty((len(pairs), J, J))
        result[:, first, second] = result[:, second, first] = pairs
        return result

    def precision(self, curve: Curves) -> Curves:
        """``E_d``, (p, J, J), of ``Λ`` (n, J, J)."""
        n, J = curve.shape[:2]
        found: Curves = self.columns(curve.reshape(n, -1)).reshape(-1, J, J)
        return found


def _step(
    gradient: Weights,
    hessian: Callable[[Weights], Weights],
    inverse: Callable[[Weights], Weights],
) -> Weights:
    """Newton's step by conjugate gradients, which the approximation at hand preconditions."""
    step, residual = np.zeros_like(gradient), -gradient
    guided = inverse(residual)
    direction, energy = guided, float(np.sum(residual * guided))
    aim = _SOLVED**2 * energy  # 0 where there is no gradient, and nothing to solve
    for _ in range(_INNER):
        if energy <= aim:
            break
        image = hessian(direction)
        length = energy / float(np.sum(direction * image))
        step, residual = step + length * direction, residual - length * image
        guided = inverse(residual)
        before, energy = energy, float(np.sum(residual * guided))
        direction = guided + energy / before * direction
    return step


def class_scores(model: Model, data: Dataset, rate_map: RateMap) -> ClassScores:
    """Approximate the posterior of a softmax regression at known rates, of normal weights."""
    design, intercept = data.design, model.fit_intercept
    n, p = design.shape
    coefficients = model.noise.coefficients(rate_map.initial)
    noise = _Noise(design, coefficients) if any(np.any(part) for part in coefficients[2:]) else None
    gain = np.broadcast_to(coefficients.gain, p).astype(float)
    basis = contrasts(len(data.classes))  # type: ignore[arg-type]  # labels
    J = basis.shape[1]
    prior, weight, code = model.weight_prior.precision(p), model.C * data.weight, data.target.astype(int)
    full, mean, rotation = np.zeros((p + 1, J)), np.zeros((n, J)), np.eye(J)
    spread = np.sqrt(np.repeat(np.maximum(design.sq_matvec(gain**2 / prior), 1e-12)[:, None], J, axis=1))
    own = np.repeat(1 / prior[:, None], J, axis=1)
    bend, shared, extra, share = np.zeros(n), np.zeros((J, J)), np.zeros(p), 1.0
    by_rows, beside = n < p, np.zeros((p, J, J))
    outer = design.outer_gram(gain**2 / prior) if by_rows else None

    def scores(moved: Weights) -> Float[np.ndarray, "n J"]:
        found: Float[np.ndarray, "n J"] = design.matvec(gain[:, None] * moved[:-1]) + moved[-1]
        return found

    def back(push: Float[np.ndarray, "n J"], moved: Weights, precision: Curves) -> Weights:
        """Of weights, what rows push and what prior and noise hold against."""
        level = push.sum(axis=0, keepdims=True) if intercept else np.zeros((1, J))
        held = prior[:, None] * moved[:-1] + np.einsum("dab,db->da", precision, moved[:-1])
        return np.vstack([held + gain[:, None] * design.rmatvec(push), level])

    for _ in range(_STEPS if noise is None else _NOISY_STEPS):
        around = None if noise is None else (rotation * noise.rows(own)[:, None]) @ rotation.T

        def cost(at: Weights, mean: Any, spread: Any = spread, rotation: Any = rotation, around: Any = around) -> Any:
            variance = None if noise is None else noise.covariance(at[:-1]) + around
            return class_slopes(mean, spread, rotation, basis, code, weight, variance, model.loss.convex)

        value, slope, curve, by_variance = cost(full, mean)
        new = np.einsum("iaa->i", curve) / J
        new = np.maximum(new, _FLAT * (new.max() or 1.0))
        # Where scores are wide, a smaller curvature makes them wider, and whole steps overshoot.
        bend = bend + share * (new - bend)
        shared = shared + share * (curve.sum(axis=0) / new.sum() - shared)
        if noise is not None:
            beside = noise.precision(by_variance)
            extra = extra + share * (np.einsum("daa->d", beside) / J - extra)
            outer = design.outer_gram(gain**2 / (prior + extra)) if by_rows else None
        share = _SHARE
        rotated, rotation = np.linalg.eigh(0.5 * (shared + shared.T))
        rotated = np.maximum(rotated, 1e-6 * rotated[-1])
        space = ClassSpace(design, gain, prior, extra, outer, bend, intercept)

        def hessian(moved: Weights, curve: Any = curve, beside: Any = beside) -> Weights:
            return back(np.einsum("iab,ib->ia", curve, scores(moved)), moved, beside)

        def inverse(right: Weights, space: Any = space, rotation: Any = rotation, rotated: Any = rotated) -> Weights:
            found: Weights = space.inverse(right @ rotation, rotated) @ rotation.T
            return found

        step = _step(back(slope, full, beside), hessian, inverse)
        along, half = scores(step), prior[:, None] / 2
        value += float(np.sum(half * full[:-1] ** 2))
        length = 1.0
        for _halving in range(_HALVES):
            trial = full + length * step
            if cost(trial, mean + length * along).value + float(np.sum(half * trial[:-1] ** 2)) <= value:
                full, mean = trial, mean + length * along
                break
            length /= 2
        new_spread = np.sqrt(space.variances(rotated))
        own = space.weight_variances(rotated) if noise is not None else own
        change = np.sqrt(max(np.mean(along**2), np.mean((new_spread - spread) ** 2)))
        spread = new_spread
        if change < _CLOSE * np.sqrt(np.mean(spread**2)):
            break
    parts = [full[:-1].T.ravel(), full[-1] if intercept else np.zeros(0)]
    return ClassScores(np.concatenate(parts), bend, rotation, rotated, extra, space)
