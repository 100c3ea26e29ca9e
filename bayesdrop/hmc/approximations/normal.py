r"""Normal approximation of the posterior at fixed rates: where a gradient sampler starts and how it measures distance.

For a smooth loss it is Laplace's: the point fit ``ŵ`` and the inverse Hessian ``H⁻¹`` of the energy there. A
piecewise-linear loss has no Hessian to speak of: noise rounds its kinks off, but not in rows that it leaves alone, nor
where the fit sets the weights to zero, and the fit likes to lie on just these kinks. They are smoothed by the posterior
spread of the scores itself: the mean and the covariance solve

    ∇U_Σ(ŵ) = 0,    Σ⁻¹ = ∇²U_Σ(ŵ),

where ``U_Σ`` adds to the variance that the noise gives to a score that of its mean, ``x̄_iᵀΣx̄_i`` with the mean ``x̄_i``
of the noised features. Without noise, and the loss in its Gaussian form, that is ``E ∇U(w) = 0`` and ``Σ⁻¹ = E ∇²U(w)``
under ``w ~ N(ŵ, Σ)``, the stationary point of the Gaussian variational bound (Opper & Archambeau 2009). Nothing about a
sampler's correctness rests on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
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

__all__ = ["Factor", "normal_approximation", "root_inverse", "score_spread"]

Factor = Float[np.ndarray, "D D"] | Float[np.ndarray, " D"]

_BLOCK = 128


def normal_approximation(
    model: Model,
    data: Dataset,
    rate: Float[np.ndarray, " p"],
    averaged: bool = False,
    dense: bool = True,
    tol: float = 1e-9,
    steps: int = 30,
    tolerance: float = 1e-3,
) -> tuple[Float[np.ndarray, " D"], Factor]:
    """Mean (D,) and a factor ``T`` with ``Σ = TTᵀ``, (D, D) or, of a diagonal one, (D,), of weights and intercept.

    ``rate`` (p,) are the dropout rates to take as known; ``D`` counts the intercept if there is one. ``averaged`` takes
    the second approximation for smooth losses as well: where classes are nearly separated the loss at the mode is flat,
    and almost nowhere else. Point fits are to ``tol``; the second approximation takes at most so many ``steps``, until
    its squared distance from the fixed point is below the ``tolerance``.
    """
    # Fits stop within a share of their objective: a millionth, of a million rows, is 0.3 posterior standard deviations.
    design = data.design
    p = design.shape[1]
    moments = ScoreMoments(design, model.noise, np.asarray(rate, dtype=np.float64)[:, None], model.fit_intercept)
    loss = model.loss if moments.has_variance else model.loss.plain
    precision, location, level, _ = prior_block(model, p)
    weight = model.C * data.weight[:, None]
    piecewise_linear = loss.piecewise_linear
    # A loss of the user's own may have no Gaussian form.
    averaged &= dense and not moments.has_variance and hasattr(loss, "expectation")
    if (piecewise_linear or averaged) and not moments.has_variance:
        smooth: Any = loss
        loss = replace(smooth, expectation="gaussian")
    known = None if data.offset is None else data.offset[:, None]
    energy = Energy(
        moments, loss, data.target[:, None], weight, precision, offset=known, location=location, level=level
    )
    keep = slice(None) if model.fit_intercept else slice(p)
    if averaged or (piecewise_linear and dense):
        weights, factor = _smoothed(energy, keep, steps, tolerance)
    else:
        fixed = replace(model, rates=Fixed(rate) if model.noise.has_rate else None)
        start = fit_block(
            fixed, design, fixed.bind(data.feature_names), data.target[:, None], data.weight, Newton(tol=tol),
            offset=data.offset,
        )  # fmt: skip
        weights, smoothing = start.weights, np.zeros((1, 1))
        if piecewise_linear:
            # A rough spread of the scores under the prior keeps the curvature finite.
            smoothing = np.sqrt(design.sq_matvec(1 / (precision[:-1] + 1)))
        factor = _factor(energy, weights, smoothing, keep, dense)
    return weights[keep, 0], factor


def score_spread(data: Dataset, factor: Factor) -> PerRow:
    """Standard deviation of every row's score (n,) under the approximation with factor (D, D) or (D,), without noise.

    At least a thousandth of the largest, so that it is positive.
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
    return np.maximum(spread, 1e-3 * (float(spread.max()) or 1.0))


def _columns(n: int, D: int, held: int = 1 << 26, few: int = 8) -> Iterator[slice]:
    """Cut ``D`` columns so that the scores of ``n`` rows under some of them fit into memory."""
    # Numbers for each row that are held at once: columns of the scores of so many vectors, but a few in any case.
    size = max(few, min(_BLOCK, held // max(n, 1)))
    return (slice(start, start + size) for start in range(0, D, size))


def _hessian(
    energy: Energy, weights: Float[np.ndarray, "size 1"], smoothing: PerRow, keep: slice
) -> Float[np.ndarray, "D D"]:
    """Hessian of the energy, (D, D), by products with blocks of unit vectors.

    Of rows that are streamed, where such products would keep a block of numbers for each row, it is one Gram matrix,
    without the terms through which weights move the slope of the variance.
    """
    curvature, size = _curvature(energy, weights, smoothing), weights.shape[0]
    if energy.moments.design.is_streamed:
        gram = energy.moments.grams(np.maximum(curvature.mean_mean, 0.0))[0]
        own = np.diag(curvature.diagonal[:, 0])
        return (gram + (own if energy.level is None else own + energy.level.hessian))[keep, keep]
    columns = []
    for start in range(0, size, _BLOCK):
        direction = np.eye(size)[:, start : start + _BLOCK]
        repeated = np.repeat(weights, direction.shape[1], axis=1)
        columns.append(energy.product(repeated, curvature, direction)[0])
    hessian = np.concatenate(columns, axis=1)[keep, keep]
    return 0.5 * (hessian + hessian.T)


def _curvature(energy: Energy, weights: Float[np.ndarray, "size 1"], smoothing: PerRow) -> Any:
    mean, var = energy.moments.scores(weights)
    slopes = energy.derivatives(mean, var, smoothing)
    _, spread = energy.gradient(weights, slopes)
    found = energy.curvature(slopes, spread, np.zeros(1))
    exact = energy.moments.has_variance and not energy.moments.design.is_streamed
    return found if exact else replace(found, mean_var=None, var_var=None)


def root_inverse(hessian: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """``T`` with ``H⁻¹ = TTᵀ``; a direction without curvature is given unit length."""
    from scipy.linalg import cholesky, eigh, solve_triangular

    try:
        # H = RᵀR with R upper-triangular, and T = R⁻¹ is so too.
        root = cholesky(hessian, lower=False)
        return solve_triangular(root, np.eye(len(root)), lower=False)
    except np.linalg.LinAlgError:
        value, vector = eigh(hessian)
        return vector / np.sqrt(np.where(value > 1e-10 * value[-1], value, 1.0))


def _factor(
    energy: Energy, weights: Float[np.ndarray, "size 1"], smoothing: PerRow, keep: slice, dense: bool
) -> Factor:
    if dense:
        return root_inverse(_hessian(energy, weights, smoothing, keep))
    curvature = _curvature(energy, weights, smoothing)
    diagonal = energy.moments.diagonal(np.maximum(curvature.mean_mean, 0)) + curvature.diagonal
    if energy.level is not None:
        diagonal = diagonal + energy.level.precision * energy.level.row**2
    return 1 / np.sqrt(np.maximum(diagonal[keep, 0], 1e-10))


def _smoothed(
    energy: Energy, keep: slice, steps: int, tolerance: float
) -> tuple[Float[np.ndarray, "size 1"], Float[np.ndarray, "D D"]]:
    """Newton's method on the expected energy, its covariance following."""
    size, design = energy.precision.shape[0], energy.moments.design
    weights = np.zeros((size, 1))
    (spread,) = design.persist(np.sqrt(design.sq_matvec(1 / (energy.precision[:-1] + 1)) + 1.0))
    factor: Any = None
    for _ in range(steps):
        mean, var = energy.moments.scores(weights)
        value = energy.value(weights, mean, var, spread)
        gradient, _ = energy.gradient(weights, energy.derivatives(mean, var, spread))
        factor = root_inverse(_hessian(energy, weights, spread, keep))
        whitened = factor.T @ gradient[keep]
        step = np.zeros_like(weights)
        step[keep] = -factor @ whitened
        length = 1.0
        for _ in range(20):
            trial = weights + length * step
            if energy.value(trial, *energy.moments.scores(trial), spread)[0] <= value[0]:
                weights = trial
                break
            length /= 2
        block = np.zeros((size, factor.shape[1]))
        block[keep] = factor
        fitted = 1e-12
        for part in _columns(design.shape[0], block.shape[1]):
            (fitted,) = design.persist(fitted + (energy.moments.mean(block[:, part]) ** 2).sum(axis=1, keepdims=True))
        (new,) = design.persist(np.sqrt(fitted))
        still = bool(np.max(np.abs(new - spread)) < 0.05 * np.max(new))
        spread = new
        if still and float(np.sum(whitened**2)) < tolerance:
            break
    return weights, factor
