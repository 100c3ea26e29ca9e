r"""Normal approximation of the posterior of many classes without noise, by the scores of its rows.

As for one score (:mod:`.score_approximation`), weights enter by the scores alone: ``J`` contrasts for each row, whose
mean slope ``g_i`` (J,) and curvature ``C_i`` (J, J) under the approximation itself make the next one,

    g_i = E ∂cost_i(s_i),    C_i = E ∂²cost_i(s_i),    s_i ~ N(m_i, S_i),

over quasi-random normal points. One matrix for all rows keeps the classes apart, ``C_i ≈ d_iM`` with
``d_i = tr(C_i)/J`` and ``M = ΣC_i/Σd_i``: in the eigenvectors of ``M`` the contrasts are independent, and those of
``D^½A₀P⁻¹A₀ᵀD^½``, or of ``P^{−½}A₀ᵀDA₀P^{−½}`` where there are fewer features than rows, serve them all (notation of
:mod:`.class_factor`). The mean is where the mean slope vanishes, whatever ``M`` is; the covariance is as good as it.
Nothing about a sampler's correctness rests on either.

Shapes: ``n`` rows, ``p`` features, ``K`` classes, ``J = K − 1`` contrasts, ``m`` the shorter of the two sides.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..._typing import Float
from ...data.dataset import Dataset
from ...losses.softmax_forms import log_sum_exp, normal_points
from ...model import Model
from ...rates import RateMap
from .class_density import DENSE, ClassDensity, contrasts
from .row_factor import centred_gram

__all__ = ["ClassScores", "class_scores", "of_class_scores"]

# Rows or features, whichever are fewer, up to which eigenvectors are found: they take half a minute a time there.
_LONGEST = 4000

_STEPS, _CLOSE, _SHARE = 8, 0.1, 0.5
# Conjugate gradients for a step, and how far they go.
_INNER, _SOLVED = 30, 0.1
# How often a step is halved: where scores are wide a row's curvature may be that of a few points alone.
_HALVES = 10
# Curvature of a row, as a share of the largest, below which it is not followed.
_FLAT = 1e-6
# Numbers that are held at a time where rows go in parts, and of the curvatures of all rows.
_VALUES, _HELD = 1 << 20, 1 << 27

Coefficients = Float[np.ndarray, "q J"]


def of_class_scores(model: Model, data: Dataset, rate_map: RateMap, density: ClassDensity) -> bool:
    """True if there are too many coordinates for a dense factor, and few enough rows or features for this one."""
    n, p = data.design.shape
    plain = not (density.has_variance or density.shift) and model.weight_prior.gaussian
    held = n * density.n_classes**2 <= _HELD
    whole = bool(np.all(np.asarray(model.noise.coefficients(rate_map.initial).gain) == 1))
    many = (density.n_classes - 1) * (p + 1) > DENSE
    return plain and whole and many and held and min(n, p) <= _LONGEST and data.design.scans_columns


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
    basis : array (m, m)
        ``Q`` or ``R``.
    value : array (m,)
        ``γ``.
    mean_row : array (p,)
        ``x̄``, zero without intercepts.
    by_rows : bool
        ``basis`` is ``Q``.
    """

    centre: Float[np.ndarray, " D"]
    curvature: Float[np.ndarray, " n"]
    rotation: Float[np.ndarray, "J J"]
    rotated: Float[np.ndarray, " J"]
    basis: Float[np.ndarray, "m m"]
    value: Float[np.ndarray, " m"]
    mean_row: Float[np.ndarray, " p"]
    by_rows: bool


class _Space:
    """Eigenvectors for curvatures of the rows (n,), and what follows from them; ``outer`` is ``XP⁻¹Xᵀ``, by rows."""

    def __init__(
        self,
        design: Any,
        precision: Float[np.ndarray, " p"],
        outer: Float[np.ndarray, "n n"] | None,
        curvature: Float[np.ndarray, " n"],
        intercept: bool,
    ) -> None:
        self.design, self.precision, self.curvature = design, precision, curvature
        self.by_rows, self.total = outer is not None, float(curvature.sum())
        self.mean_row = design.rmatvec(curvature) / self.total if intercept else np.zeros(design.shape[1])
        if outer is not None:
            root, gram = np.sqrt(curvature), centred_gram(outer, curvature, intercept)
        else:
            root = precision**-0.5
            gram = design.gram(curvature) - self.total * np.outer(self.mean_row, self.mean_row)
        square = root[:, None] * gram * root
        value, self.basis = np.linalg.eigh(0.5 * (square + square.T))
        self.value, self.root = np.maximum(value, 0), root

    def centred(self, weight: Float[np.ndarray, "p J"]) -> Float[np.ndarray, "n J"]:
        """``A₀w``."""
        scores: Float[np.ndarray, "n J"] = self.design.matvec(weight) - self.mean_row @ weight
        return scores

    def inverse(self, right: Coefficients, rotated: Float[np.ndarray, " J"], intercept: bool) -> Coefficients:
        """The covariance times a gradient, each contrast of rotated ones its own."""
        shrink = 1 / (1 + rotated[None] * self.value[:, None])
        slope, level = right[:-1] - np.outer(self.mean_row, right[-1]), right[-1] / (rotated * self.total)
        if self.by_rows:
            prior = slope / self.precision[:, None]
            inside = self.root[:, None] * self.centred(prior)
            inside = self.root[:, None] * (self.basis @ (rotated[None] * shrink * (self.basis.T @ inside)))
            back = self.design.rmatvec(inside) - np.outer(self.mean_row, inside.sum(axis=0))
            weight = prior - back / self.precision[:, None]
        else:
            weight = self.root[:, None] * (self.basis @ (shrink * (self.basis.T @ (self.root[:, None] * slope))))
        return np.vstack([weight, level - self.mean_row @ weight if intercept else np.zeros((1, len(rotated)))])

    def variances(self, rotated: Float[np.ndarray, " J"], intercept: bool) -> Float[np.ndarray, "n J"]:
        """Variances of the rows' scores."""
        shrink = 1 / (1 + rotated[None] * self.value[:, None])
        if self.by_rows:
            found = (self.basis**2 @ (self.value[:, None] * shrink)) / self.curvature[:, None]
        else:
            found = np.zeros((len(self.curvature), len(rotated)))
            step = max(1, _VALUES // max(self.design.shape[0], 1))
            for start in range(0, len(self.value), step):
                part = slice(start, start + step)
                found += self.centred(self.root[:, None] * self.basis[:, part]) ** 2 @ shrink[part]
        return np.maximum(found + (1 / (rotated * self.total) if intercept else 0.0), 1e-12)


def _expected(
    mean: Float[np.ndarray, "n J"],
    spread: Float[np.ndarray, "n J"],
    rotation: Float[np.ndarray, "J J"],
    basis: Float[np.ndarray, "K J"],
    code: Any,
    weight: Float[np.ndarray, " n"],
) -> tuple[float, Float[np.ndarray, "n J"], Float[np.ndarray, "n J J"]]:
    """Mean cost of all rows, mean slopes (n, J) and curvatures (n, J, J) at scores of these moments."""
    J, K = rotation.shape[0], basis.shape[0]
    points = normal_points(J)
    value, slope, curve = 0.0, np.empty_like(mean), np.empty((len(mean), J, J))
    step = max(1, _VALUES // (K * len(points)))
    for start in range(0, len(mean), step):
        rows = slice(start, start + step)
        draws = mean[rows, None] + (spread[rows, None] * points[None]) @ rotation.T
        level, chance = log_sum_exp(draws @ basis.T)
        value += float(weight[rows] @ (level.mean(axis=1) - np.sum(mean[rows] * basis[code[rows]], axis=1)))
        along, own = chance @ basis, chance.mean(axis=1)
        square = np.swapaxes(along, 1, 2) @ along / len(points)
        curve[rows] = weight[rows, None, None] * (np.einsum("ka,ik,kb->iab", basis, own, basis) - square)
        own[np.arange(len(own)), code[rows]] -= 1
        slope[rows] = weight[rows, None] * (own @ basis)
    return value, slope, curve


def _step(
    space: _Space,
    gradient: Coefficients,
    curve: Float[np.ndarray, "n J J"],
    rotation: Float[np.ndarray, "J J"],
    rotated: Float[np.ndarray, " J"],
    intercept: bool,
) -> Coefficients:
    """Newton's step by conjugate gradients, which the approximation at hand preconditions."""
    design, precision = space.design, np.append(space.precision, 0.0)[:, None]

    def hessian(moved: Coefficients) -> Coefficients:
        push = np.einsum("iab,ib->ia", curve, design.matvec(moved[:-1]) + moved[-1])
        level = push.sum(axis=0, keepdims=True) if intercept else np.zeros((1, push.shape[1]))
        return precision * moved + np.vstack([design.rmatvec(push), level])

    def inverse(right: Coefficients) -> Coefficients:
        return space.inverse(right @ rotation, rotated, intercept) @ rotation.T

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


def class_scores(model: Model, data: Dataset) -> ClassScores:
    """Approximate the posterior of a softmax regression without noise, of normal weights."""
    design, intercept = data.design, model.fit_intercept
    n, p = design.shape
    K = len(data.classes)  # type: ignore[arg-type]  # labels
    basis, J = contrasts(K), K - 1
    precision, weight, code = model.weight_prior.precision(p), model.C * data.weight, data.target.astype(int)
    full, mean, rotation = np.zeros((p + 1, J)), np.zeros((n, J)), np.eye(J)
    spread = np.sqrt(np.repeat(np.maximum(design.sq_matvec(1 / precision), 1e-12)[:, None], J, axis=1))
    bend, shared, share = np.zeros(n), np.zeros((J, J)), 1.0
    outer = design.outer_gram(1 / precision) if n < p else None
    for _ in range(_STEPS):
        value, slope, curve = _expected(mean, spread, rotation, basis, code, weight)
        known = rotation
        new = np.einsum("iaa->i", curve) / J
        new = np.maximum(new, _FLAT * (new.max() or 1.0))
        # Where scores are wide, a smaller curvature makes them wider, and whole steps overshoot.
        bend = bend + share * (new - bend)
        shared = shared + share * (curve.sum(axis=0) / new.sum() - shared)
        share = _SHARE
        rotated, rotation = np.linalg.eigh(0.5 * (shared + shared.T))
        rotated = np.maximum(rotated, 1e-6 * rotated[-1])
        space = _Space(design, precision, outer, bend, intercept)
        level = slope.sum(axis=0, keepdims=True) if intercept else np.zeros((1, J))
        gradient = np.vstack([precision[:, None] * full[:-1] + design.rmatvec(slope), level])
        step = _step(space, gradient, curve, rotation, rotated, intercept)
        along, prior = design.matvec(step[:-1]) + step[-1], precision[:, None] / 2
        value += float(np.sum(prior * full[:-1] ** 2))
        length = 1.0
        for _ in range(_HALVES):
            trial = full + length * step
            found, _, _ = _expected(mean + length * along, spread, known, basis, code, weight)
            if found + float(np.sum(prior * trial[:-1] ** 2)) <= value:
                full, mean = trial, mean + length * along
                break
            length /= 2
        new_spread = np.sqrt(space.variances(rotated, intercept))
        change = np.sqrt(max(np.mean(along**2), np.mean((new_spread - spread) ** 2)))
        spread = new_spread
        if change < _CLOSE * np.sqrt(np.mean(spread**2)):
            break
    parts = [full[:-1].T.ravel(), full[-1] if intercept else np.zeros(0)]
    return ClassScores(
        np.concatenate(parts), bend, rotation, rotated, space.basis, space.value, space.mean_row, space.by_rows
    )
