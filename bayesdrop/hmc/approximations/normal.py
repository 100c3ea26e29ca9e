r"""Approximate the posterior at fixed rates by a normal distribution, from which gradient samplers start and scale.

For a smooth loss it is Laplace's approximation: the point fit ``ŵ`` and the inverse Hessian ``H⁻¹`` of the energy
there. A piecewise-linear loss has no useful Hessian: noise smooths its kinks, but not in rows without noise and not at
weights of zero, and the optimum often lies on these kinks. The posterior spread of the scores smooths them: the mean
and the covariance solve

    ∇U_Σ(ŵ) = 0,    Σ⁻¹ = ∇²U_Σ(ŵ),

where ``U_Σ`` adds ``x̄_iᵀΣx̄_i``, with the mean ``x̄_i`` of the noised features, to the variance of each score under
the noise. Without noise, and with the loss in its Gaussian form, these are ``E ∇U(w) = 0`` and ``Σ⁻¹ = E ∇²U(w)`` under
``w ~ N(ŵ, Σ)``, the stationary point of the Gaussian variational bound (Opper & Archambeau 2009). The approximation
affects efficiency only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._typing import Float, PerRow
from ...data.dataset import Dataset
from ...fitting.objective.energy import Energy, prior_block
from ...fitting.problems.block import fit_block
from ...fitting.solvers.newton import Newton
from ...model import Model
from ...moments import ScoreMoments
from ...rates import Fixed

__all__ = [
    "Factor",
    "Rules",
    "bounded_spread",
    "normal_approximation",
    "point_fit",
    "positive_spread",
    "root_inverse",
    "score_spread",
]

Factor = Float[np.ndarray, "D D"] | Float[np.ndarray, " D"]


@dataclass(frozen=True)
class Rules:
    """Sizes and tolerances of the approximation.

    Attributes
    ----------
    tol : float
        Tolerance of the point fit, a share of its objective: 1e-6 of a million rows is 0.3 posterior standard
        deviations.
    block : int
        Maximum number of columns in a block of products.
    entries, few : int
        Maximum number of scores held for a block of columns, and minimum number of columns in a block.
    steps, tolerance, still : int, float, float
        Maximum number of steps of the smoothed approximation; steps end below this squared whitened gradient and this
        change of the spread, as a share of the largest.
    halvings, spreads : int, int
        Maximum number of trial lengths of a step, and of trial spreads of a score.
    spread : float
        Smallest standard deviation of a score, as a share of the largest.
    negligible : float
        Eigenvalues, as a share of the largest, of directions without curvature; also the smallest diagonal entry.
    variance : float
        Added to the variances of the scores, so that none is 0.
    """

    tol: float = 1e-9
    block: int = 128
    entries: int = 1 << 26
    few: int = 8
    steps: int = 30
    tolerance: float = 1e-3
    still: float = 0.05
    halvings: int = 20
    spreads: int = 30
    spread: float = 1e-3
    negligible: float = 1e-10
    variance: float = 1e-12


RULES = Rules()


def normal_approximation(
    model: Model,
    data: Dataset,
    rate: Float[np.ndarray, " p"],
    averaged: bool = False,
    dense: bool = True,
    rules: Rules = RULES,
) -> tuple[Float[np.ndarray, " D"], Factor]:
    """Return the mean (D,) of weights and intercept and a factor ``T`` of their covariance ``Σ = TTᵀ``.

    ``rate`` (p,) are the dropout rates; ``D`` includes the intercept if the model has one. ``T`` is a matrix (D, D), or
    the standard deviations (D,) if not ``dense``. ``averaged`` uses the smoothed approximation for smooth losses too:
    if classes are nearly separable, the loss is flat at the mode and almost nowhere else.
    """
    design = data.design
    p = design.shape[1]
    moments = ScoreMoments(design, model.noise, np.asarray(rate, dtype=np.float64)[:, None], model.fit_intercept)
    loss = model.loss if moments.has_variance else model.loss.plain
    precision, location, level, _ = prior_block(model, p)
    weight = model.C * data.weight[:, None]
    piecewise_linear = loss.piecewise_linear
    # A user's loss may lack the Gaussian form.
    averaged &= dense and not moments.has_variance and hasattr(loss, "expectation")
    if (piecewise_linear or averaged) and not moments.has_variance:
        smooth: Any = loss
        loss = replace(smooth, expectation="gaussian")
    offset = None if data.offset is None else data.offset[:, None]
    energy = Energy(
        moments, loss, data.target[:, None], weight, precision, offset=offset, location=location, level=level
    )
    keep = slice(None) if model.fit_intercept else slice(p)
    weights, smoothing = point_fit(model, data, rate, rules.tol), np.zeros((1, 1))
    if piecewise_linear:
        # A rough spread of the scores under the prior keeps the curvature finite.
        smoothing = np.sqrt(design.sq_matvec(1 / (precision[:-1] + 1)))
    factor = _factor(energy, weights, smoothing, keep, dense)
    if averaged or (piecewise_linear and dense):
        weights, factor = _smoothed(energy, weights, factor, keep, rules)
    return weights[keep, 0], factor


def point_fit(model: Model, data: Dataset, rate: Float[np.ndarray, " p"], tol: float) -> Float[np.ndarray, "p_and_1 1"]:
    """Weights and intercept (p + 1, 1) of the point fit at known rates (p,), the intercept last."""
    fixed = replace(model, rates=Fixed(rate) if model.noise.has_rate else None)
    rate_map, target = fixed.bind(data.feature_names), data.target[:, None]
    fit = fit_block(fixed, data.design, rate_map, target, data.weight, Newton(tol=tol), offset=data.offset)
    return fit.weights


def positive_spread(spread: PerRow) -> PerRow:
    """Standard deviations of scores, at least a share of the largest."""
    return np.maximum(spread, RULES.spread * (float(spread.max()) or 1.0))


def bounded_spread(energy: Energy, mean: PerRow, var: PerRow, spread: PerRow) -> PerRow:
    """Halve standard deviations of scores until the curvature averaged over them allows them.

    A row of curvature ``D`` bounds the variance of its score by ``1/D``. If curvature grows with the variance, as for
    ``e^s``, it would overflow beyond this bound.
    """
    for _ in range(RULES.spreads):
        with np.errstate(over="ignore", invalid="ignore"):
            is_wide = energy.derivatives(mean, var, spread).mean_mean * spread**2 > 1
        if not np.any(is_wide):
            break
        spread = np.where(is_wide, spread / 2, spread)
    return spread


def score_spread(data: Dataset, factor: Factor) -> PerRow:
    """Standard deviation of every row's score (n,) under the approximation with factor (D, D) or (D,), without noise.

    It is bounded below by a share of the largest, so that it is positive.
    """
    design = data.design
    p = design.shape[1]
    if factor.ndim == 1:
        square = design.sq_matvec(factor[:p, None] ** 2)[:, 0] + np.sum(factor[p:] ** 2)
    else:
        square = 0.0
        for part in _columns(design.shape[0], factor.shape[1]):
            block = factor[:, part]
            (square,) = design.persist(square + ((design.matvec(block[:p]) + block[p:].sum(axis=0)) ** 2).sum(axis=1))
    (spread,) = design.persist(np.sqrt(square))
    return positive_spread(spread)


def _columns(n: int, D: int) -> Iterator[slice]:
    """Cut ``D`` columns into blocks for which the scores of ``n`` rows fit into memory."""
    size = max(RULES.few, min(RULES.block, RULES.entries // max(n, 1)))
    return (slice(start, start + size) for start in range(0, D, size))


def _hessian(
    energy: Energy, weights: Float[np.ndarray, "size 1"], smoothing: PerRow, keep: slice
) -> Float[np.ndarray, "D D"]:
    """Hessian of the energy, (D, D), by products with blocks of unit vectors.

    For streamed rows, where such products would hold a block of numbers per row, it is one Gram matrix instead, without
    the derivatives of the variance's slope in the weights.
    """
    curvature, size = _curvature(energy, weights, smoothing), weights.shape[0]
    if energy.moments.design.is_streamed:
        gram = energy.moments.grams(np.maximum(curvature.mean_mean, 0.0))[0]
        diagonal = np.diag(curvature.diagonal[:, 0])
        return (gram + (diagonal if energy.level is None else diagonal + energy.level.hessian))[keep, keep]
    columns = []
    for start in range(0, size, RULES.block):
        direction = np.eye(size)[:, start : start + RULES.block]
        repeated = np.repeat(weights, direction.shape[1], axis=1)
        columns.append(energy.product(repeated, curvature, direction)[0])
    hessian = np.concatenate(columns, axis=1)[keep, keep]
    return 0.5 * (hessian + hessian.T)


def _curvature(energy: Energy, weights: Float[np.ndarray, "size 1"], smoothing: PerRow) -> Any:
    mean, var = energy.moments.scores(weights)
    slopes = energy.derivatives(mean, var, smoothing)
    _, spread = energy.gradient(weights, slopes)
    curvature = energy.curvature(slopes, spread)
    exact = energy.moments.has_variance and not energy.moments.design.is_streamed
    return curvature if exact else replace(curvature, mean_var=None, var_var=None)


def root_inverse(hessian: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """Return ``T`` with ``H⁻¹ = TTᵀ``; a direction without curvature gets unit length."""
    from scipy.linalg import cholesky, eigh, solve_triangular

    try:
        # H = RᵀR with R upper-triangular, and so is T = R⁻¹.
        root = cholesky(hessian, lower=False)
        return solve_triangular(root, np.eye(len(root)), lower=False)
    except np.linalg.LinAlgError:
        value, vector = eigh(hessian)
        return vector / np.sqrt(np.where(value > RULES.negligible * value[-1], value, 1.0))


def _factor(
    energy: Energy, weights: Float[np.ndarray, "size 1"], smoothing: PerRow, keep: slice, dense: bool
) -> Factor:
    if dense:
        return root_inverse(_hessian(energy, weights, smoothing, keep))
    curvature = _curvature(energy, weights, smoothing)
    diagonal = energy.moments.diagonal(np.maximum(curvature.mean_mean, 0)) + curvature.diagonal
    if energy.level is not None:
        diagonal = diagonal + energy.level.precision * energy.level.row**2
    return 1 / np.sqrt(np.maximum(diagonal[keep, 0], RULES.negligible))


def _smoothed(
    energy: Energy, weights: Float[np.ndarray, "size 1"], factor: Float[np.ndarray, "D D"], keep: slice, rules: Rules
) -> tuple[Float[np.ndarray, "size 1"], Float[np.ndarray, "D D"]]:
    """Minimise the expected energy by Newton's method, from a point fit, with the covariance updated at every step.

    Start at the fit: far from it a loss can be flat, and a covariance computed there would end the search.
    """
    spread = _fitted_spread(energy, factor, keep)
    for _ in range(rules.steps):
        mean, var = energy.moments.scores(weights)
        if not energy.loss.piecewise_linear:
            spread = bounded_spread(energy, mean, var, spread)
        value = energy.value(weights, mean, var, spread)
        gradient, _ = energy.gradient(weights, energy.derivatives(mean, var, spread))
        factor = root_inverse(_hessian(energy, weights, spread, keep))
        whitened = factor.T @ gradient[keep]
        step = np.zeros_like(weights)
        step[keep] = -factor @ whitened
        length = 1.0
        for _ in range(rules.halvings):
            trial = weights + length * step
            if energy.value(trial, *energy.moments.scores(trial), spread)[0] <= value[0]:
                weights = trial
                break
            length /= 2
        new = _fitted_spread(energy, factor, keep)
        still = bool(np.max(np.abs(new - spread)) < rules.still * np.max(new))
        # Half of the way in logarithms: if curvature grows with the spread, as for e^s, whole steps would oscillate.
        (spread,) = energy.moments.design.persist(np.sqrt(spread * new))
        if still and float(np.sum(whitened**2)) < rules.tolerance:
            break
    return weights, factor


def _fitted_spread(energy: Energy, factor: Float[np.ndarray, "D D"], keep: slice) -> Float[np.ndarray, "n 1"]:
    """Standard deviations of the scores under a covariance."""
    design = energy.moments.design
    block = np.zeros((energy.precision.shape[0], factor.shape[1]))
    block[keep] = factor
    fitted: Any = RULES.variance
    for part in _columns(design.shape[0], block.shape[1]):
        (fitted,) = design.persist(fitted + (energy.moments.mean(block[:, part]) ** 2).sum(axis=1, keepdims=True))
    (spread,) = design.persist(np.sqrt(fitted))
    return spread
