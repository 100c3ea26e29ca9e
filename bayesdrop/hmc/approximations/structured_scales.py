r"""Find the most likely scales of the weights, and approximate the posterior there, for :mod:`bayesdrop.hmc.binding`.

With the mean ``c`` and covariance ``Σ`` of the weights at scales ``e^{τ+δ}``, Laplace's approximation of the marginal
likelihood has the slope ``‖P_j^½c_j‖² − tr(1 − P_jΣ)`` in ``δ_j`` (MacKay 1992), to which the prior of the scale adds
its own slope. :class:`.scale_map.ScaleMap` gives both terms at any scales nearby, for unchanged curvatures of the rows,
so that a few approximations are enough. If the classes are separable, the scale found is too small, which affects
efficiency only.

Shapes: ``p`` features, ``q`` weights and free rates, ``J`` contrasts, ``m`` directions, ``g`` scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._typing import Float
from ...data.dataset import Dataset
from ...model import Model
from ...priors.base import LearntScale
from ...priors.normal import with_scale
from ...sampling.matrix import placed
from ..kernels.density import DensityOperands, Point
from .class_factor import ClassScores, class_factor
from .drawn import DrawnApproximation
from .learnt_scales import Scales, scale_step
from .precision import direction_factor, row_cholesky, row_frame, row_gram
from .scale_map import Eigenvectors, LeadingDirections, RowDirections, ScaleMap

__all__ = ["class_scale_map", "drawn_scale_map", "likely_scales", "row_scale_map"]

# Compiled as a whole, because each product with sparse rows would otherwise be compiled again at every step.
_prior_terms = jax.jit(ScaleMap.prior_terms)


@dataclass(frozen=True)
class Rules:
    """Tolerances of the search for the most likely scales.

    Attributes
    ----------
    fits, close : int, float
        Maximum number of approximations, and the change of a log scale below which no further one is made.
    steps, longest, still : int, float, float
        Maximum number of steps with one approximation, the largest total change of a log scale by them, and the change
        of a step below which they end.
    apart : float
        Difference of the log scales of the two approximations that measure how the curvature falls.
    spreading, rays : float, pair of float
        Exponent ``a`` of scores that spread with the scale, and ``(a, b)`` of separable classes, to which the exponents
        converge.
    tiny : float
        Floor of norms in a logarithm, and of the number of directions in a ratio.
    negligible : float
        Eigenvalues, as a share of the largest, of directions about which the rows carry no information.
    numbers : int
        Numbers held at a time for the shares of the groups.
    """

    fits: int = 4
    close: float = 0.2
    steps: int = 60
    longest: float = 1.5
    still: float = 1e-3
    apart: float = 0.5
    spreading: float = 1.0
    rays: tuple[float, float] = (2.0, 1.0)
    tiny: float = 1e-6
    negligible: float = 1e-10
    numbers: int = 1 << 23


RULES = Rules()


def likely_scales(
    model: Model, learnt: LearntScale, fit: Callable[[Model], tuple[Any, ScaleMap]], noisy: bool
) -> tuple[Any, ScaleMap, Scales, Scales, Scales]:
    """Approximate the posterior near the most likely scales.

    Returns the approximation, its scale map, ``τ``, the likely ``δ``, and the number of directions of each group that
    the data determine. ``fit`` approximates the posterior of a model of known scales; ``noisy`` says whether the model
    has noise.
    """
    log_scale = np.log(learnt.law.median())
    for number in range(RULES.fits):
        approximation, there = fit(
            replace(model, weight_prior=with_scale(model.weight_prior, learnt.scale(np.exp(log_scale))))
        )
        delta, decided = _likely(there, learnt, log_scale)
        if number + 1 == RULES.fits or np.max(np.abs(delta)) < RULES.close:
            break
        log_scale = log_scale + delta
    moved = replace(model, weight_prior=with_scale(model.weight_prior, learnt.scale(np.exp(log_scale + RULES.apart))))
    weight = decided / max(float(decided.sum()), RULES.tiny)
    part = partial(placed, dtype=there.prior_share.dtype)
    size = len(there.rest) * len(learnt.index)
    fall, pull_fall = (part(value * weight) for value in _falls(approximation, fit(moved)[0], size, noisy))
    there = there._replace(fall=fall, pull_fall=pull_fall)
    return approximation, there, log_scale, delta, decided


def _falls(first: Any, second: Any, size: int, noisy: bool) -> tuple[float, float]:
    """Exponents ``a`` and ``b``, common to all scales, from two approximations at different scales.

    The first ``size`` coordinates are weights. If the scores only spread with the scale, their mean curvature falls
    with ``a = 1``. A faster fall means separable classes, whose scale a normal approximation cannot bound; the limits
    of the exponents are then used at once. With noise they are not, because the noise grows with the weights and bounds
    the scale.
    """
    curvature = [_curvature(found) for found in (first, second)]
    fall = float(np.clip(-np.log(curvature[1] / curvature[0]) / RULES.apart, 0, 2))
    if fall > RULES.spreading and not noisy:
        return RULES.rays
    norm = [float(np.linalg.norm(found.centre[:size])) for found in (first, second)]
    growth = np.log(max(norm[1], RULES.tiny**2) / max(norm[0], RULES.tiny**2)) / RULES.apart
    return fall, fall - float(np.clip(growth, 0, 1))


def _curvature(found: Any) -> float:
    """Sum of the curvatures of all rows."""
    if isinstance(found, DrawnApproximation):
        return float(found.precision.curvature.sum())
    return float(found.curvature.sum() * (found.rotated.mean() if isinstance(found, ClassScores) else 1.0))


def _likely(there: ScaleMap, learnt: LearntScale, log_scale: Scales) -> tuple[Scales, Scales]:
    """``δ`` where the slope vanishes, and the number of directions that the data determine there, (g,) each."""
    delta, decided = np.zeros_like(log_scale), np.zeros_like(log_scale)
    size = there.rest.shape[0] * learnt.sums(np.ones(len(learnt.index)))
    for _ in range(RULES.steps):
        terms = _prior_terms(there, placed(delta, there.prior_share.dtype))
        fitted, spread = (np.asarray(part, float) for part in terms)
        decided = np.maximum(size - spread, 0)
        step = scale_step(learnt, log_scale + delta, fitted, decided)
        delta = np.clip(delta + step, -RULES.longest, RULES.longest)
        if np.max(np.abs(step)) < RULES.still:
            break
    return delta, decided


def class_scale_map(
    scores: ClassScores, operands: DensityOperands, prior: Float[np.ndarray, " p"], learnt: LearntScale, dtype: str
) -> ScaleMap:
    """Scale map of many classes, at a prior precision (p,)."""
    space, factor = scores.space, class_factor(scores, operands.matrix, dtype)
    (value, unit), root = _units(space.value), factor.root
    directions: RowDirections | Eigenvectors
    prior_share = prior / space.precision
    if space.by_rows:
        scale = space.precision[:, None] ** -0.5
        columns = lambda rows: scale * space.back(space.root[:, None] * rows)  # noqa: E731
        share = _shares(columns, space.basis, unit, learnt, prior_share)
        directions = RowDirections(root.rows, root.basis, root.turned, placed(unit, dtype))
    else:
        share = _by_group(learnt, prior_share) @ space.basis**2
        directions = Eigenvectors(root.basis, root.turned)
    shares = np.repeat(share[:, None], len(scores.rotated), axis=1)
    value = 1 + scores.rotated[:, None] * value[None]
    return _scale_map(factor.frame, directions, prior_share, shares, value, scores.centre, learnt, dtype)


def row_scale_map(
    normal: DrawnApproximation, data: Dataset, operands: DensityOperands, model: Model, learnt: LearntScale, dtype: str
) -> ScaleMap:
    """Scale map of a single score and few rows, for a model of known scales."""
    design, curvature, precision = data.design, normal.precision.curvature, normal.precision.prior[: len(normal.gain)]
    gram = row_gram(design, precision, normal.gain, curvature, model.fit_intercept, normal.rates)
    lower = row_cholesky(gram, curvature)
    value, basis = np.linalg.eigh(lower @ lower.T - np.eye(len(lower)))
    value, unit = _units(np.maximum(value, 0))
    frame, rows = row_frame(
        data, operands.matrix, precision, normal.gain, curvature, model.fit_intercept, dtype, normal.rates
    )
    prior_share, root = model.weight_prior.precision(len(precision)) / precision, np.sqrt(curvature)[:, None]
    loading = (normal.gain * precision**-0.5)[:, None]
    mean = design.rmatvec(curvature)[:, None] / curvature.sum() if model.fit_intercept else 0.0

    def columns(rows: Float[np.ndarray, "n b"]) -> Float[np.ndarray, "p b"]:
        back: Float[np.ndarray, "p b"] = loading * (design.rmatvec(root * rows) - mean * (root * rows).sum(axis=0))
        return back

    share = _shares(columns, basis, unit, learnt, prior_share)
    directions = RowDirections(rows, *(placed(part, dtype) for part in (basis, basis.T, unit)))
    prior_share = np.append(prior_share, np.zeros(len(frame.rate_scale)))
    return _scale_map(frame, directions, prior_share, share[:, None], 1 + value[None], normal.centre, learnt, dtype)


def drawn_scale_map(
    found: DrawnApproximation, prior: Float[np.ndarray, " p"], intercept: bool, learnt: LearntScale, dtype: str
) -> ScaleMap:
    """Scale map of many rows and features, at a prior precision (p,)."""
    factor, p = direction_factor(found.precision, intercept, dtype), len(prior)
    frame, root = factor.frame, factor.root
    vector, length = np.asarray(root.directions, float), np.asarray(root.length, float)
    prior_share = np.append(prior * np.asarray(frame.scale, float) ** 2, np.zeros(len(frame.rate_scale)))
    share = _by_group(learnt, prior_share[:p]) @ vector[:, :p].T ** 2
    directions = LeadingDirections(root.directions)
    return _scale_map(frame, directions, prior_share, share[:, None], length[None] ** -2, found.centre, learnt, dtype)


def _units(value: Float[np.ndarray, " m"]) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Eigenvalues ``γ`` and ``γ^{−½}``, both 0 where the first is negligible compared with the largest."""
    kept = value > RULES.negligible * max(float(value.max()), 1.0)
    return np.where(kept, value, 0.0), np.where(kept, np.where(kept, value, 1.0) ** -0.5, 0.0)


def _by_group(learnt: LearntScale, prior_share: Float[np.ndarray, " p"]) -> Any:
    """``m_jd``, sparse (g, p)."""
    from scipy.sparse import csr_array

    # The last row, of weights whose scale is known, is dropped.
    return csr_array(
        (prior_share, (learnt.index, np.arange(len(prior_share)))), shape=(learnt.groups + 1, len(prior_share))
    )[: learnt.groups]


def _shares(
    columns: Callable[[Float[np.ndarray, "n b"]], Float[np.ndarray, "p b"]],
    basis: Float[np.ndarray, "n m"],
    unit: Float[np.ndarray, " m"],
    learnt: LearntScale,
    prior_share: Float[np.ndarray, " p"],
) -> Float[np.ndarray, "g m"]:
    """``m_jk`` of ``V = BᵀQγ^{−½}``, where ``columns`` multiplies by ``Bᵀ``."""
    groups, found = _by_group(learnt, prior_share), np.zeros((learnt.groups, len(unit)))
    step = max(1, RULES.numbers // len(prior_share))
    for part in (slice(start, start + step) for start in range(0, len(unit), step)):
        found[:, part] = groups @ columns(basis[:, part] * unit[part]) ** 2
    # By rounding the prior's share may exceed 1; it is 1 in directions about which the rows carry no information.
    shares: Float[np.ndarray, "g m"] = np.where(unit > 0, found / np.maximum(found.sum(axis=0), 1.0), 1 / len(found))
    return shares


@jax.jit
def _whitened(
    frame: Any, directions: Any, theta: Point
) -> tuple[Float[jax.Array, "J m"], Float[jax.Array, "J q"], Float[jax.Array, " level"]]:
    """Coordinates of a point (1, D) along the directions, its remainder, and its levels."""
    parts, level = frame.whiten(theta)
    along = directions.along(parts)
    rest = jnp.zeros_like(parts[0]) if directions.complete else (parts - directions.back(along))[0]
    return along[0], rest, level[0]


def _scale_map(
    frame: Any,
    directions: Any,
    prior_share: Float[np.ndarray, " q"],
    share: Float[np.ndarray, "g J m"],
    value: Float[np.ndarray, "J m"],
    centre: Float[np.ndarray, " D"],
    learnt: LearntScale,
    dtype: str,
) -> ScaleMap:
    real = partial(placed, dtype=dtype)
    index = np.concatenate([learnt.index, np.zeros(len(prior_share) - len(learnt.index), int)])
    priors, values = real(np.minimum(prior_share, 1.0) * (index < learnt.groups)), real(value)
    along, rest, level = _whitened(frame, directions, real(centre)[None])
    total_share = np.asarray(share.sum(axis=0))
    none = jnp.zeros(learnt.groups, priors.dtype)
    return ScaleMap(
        frame, directions, priors, placed(index, np.int32), real(share), values - real(total_share), values * along,
        rest, level, none, none,
    )  # fmt: skip
