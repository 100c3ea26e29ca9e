"""Newton's method on the marginalised energy itself, by inexact conjugate gradients.

The profiled energy is smooth and convex, so Newton's method reaches the point that EM reaches, in a handful of
steps. Forms that are not convex are taken downhill to a stationary point: conjugate gradients stop where the energy
bends downwards. Two things keep the steps cheap and safe:

- early steps lean on the EM matrix ``P + G``, which majorises the Hessian: its share is the *damping*, one at the
  start and gone as soon as full steps succeed;
- the terms of the Hessian in ``φ_mv`` and ``φ_vv`` double the passes over the data and change the step little, so
  they are left out until a step contracts the error by less than a factor of ten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..solve import Preconditioner, choose_preconditioner, conjugate_gradient
from .descent import Point, check_settings
from .energy import Energy

__all__ = ["Newton"]

Array = Any

_SLOW = 0.1
# A step that gains less than this share of its slope (a perfect model gains half) is shortened.
_GAIN = 0.3
# Steps above this length count as full.
_FULL = 0.7
# Steps below it ask for more damping.
_SHORT = 0.2
# Share of the goal that the last step aims at.
_AIM = 0.25
# The estimate of what remains rests on norms in the preconditioner, calibrated on earlier steps; this is its margin.
_SAFETY = 4.0


@dataclass(frozen=True)
class Newton:
    """Inexact Newton's method.

    Parameters
    ----------
    tol : float
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int
        Most Newton steps.
    preconditioner : Preconditioner, optional
        ``Cholesky()``, ``Woodbury()`` or ``Jacobi()`` of :mod:`bayesdrop.solve`; by default chosen by shape.
    max_inner : int
        Most conjugate-gradient steps in one Newton step.

    Examples
    --------
    >>> Newton(tol=1e-10).max_iter
    200
    """

    tol: float = 1e-8
    max_iter: int = 200
    preconditioner: Preconditioner | None = None
    max_inner: int = 500

    def __post_init__(self) -> None:
        check_settings(self)

    def step(self, energy: Energy, point: Point, goal: Array) -> Array:
        """One damped Newton step with Armijo back-tracking; see :class:`bayesdrop.inference.descent.Descent`."""
        slopes, gradient, spread = point.first_order(energy)
        exact = bool(np.any(point.slow))
        curvature = energy.curvature(slopes, spread, point.damping, exact)
        solver = self.preconditioner or choose_preconditioner(energy.moments.design)
        # A form that is not convex may bend downwards; the preconditioner keeps to what bends upwards.
        upward = curvature.mean_mean if energy.convex else np.maximum(curvature.mean_mean, 0.0)
        precondition = solver.prepare(energy.moments, upward, curvature.diagonal)
        size = _square(gradient, precondition)
        if np.all(point.calibration > 0):
            # The rates or the smoothing may have moved by too little to matter.
            point.remaining = _SAFETY * point.calibration * size
            if np.all(point.remaining <= goal):
                return np.ones(size.shape, dtype=bool)
        point.reference = np.where(point.reference > 0, point.reference, np.maximum(size, np.finfo(float).tiny))
        forcing = np.minimum(0.2, (size / point.reference) ** 0.15)
        # No more accuracy than the goal asks for: the suboptimality falls by the square of the relative residual.
        left = np.maximum(_SAFETY * point.calibration * size, 1e-6 * goal + np.finfo(float).tiny)
        forcing = np.where(
            point.calibration > 0, np.maximum(forcing, np.minimum(0.5, np.sqrt(_AIM * goal / left))), forcing
        )
        direction, tangent, _ = conjugate_gradient(
            lambda u: energy.product(point.weights, curvature, u),
            -gradient,
            precondition,
            forcing,
            self.max_inner,
            energy.moments.design.hold,
        )
        if not tangent:  # the gradient is exactly zero
            point.remaining = np.zeros_like(size)
            return np.zeros(size.shape, dtype=bool)
        slope = np.einsum("ij,ij->j", gradient, direction)
        length = _search(energy, point, direction, tangent, slope)
        decrement = -0.5 * slope
        full = length > _FULL
        point.slow |= full & (point.damping == 0) & (decrement > _SLOW * point.previous)
        point.previous = np.where(full, decrement, np.nan)
        relaxed = np.where(point.damping > 0.05, 0.2 * point.damping, 0.0)
        firmer = np.minimum(1.0, np.maximum(0.1, 4 * point.damping))
        point.damping = np.where(full, relaxed, np.where(length < _SHORT, firmer, point.damping))
        point.calibration = np.maximum(point.calibration, decrement / np.where(size > 0, size, np.inf))
        _, gradient, _ = point.first_order(energy)
        point.remaining = _SAFETY * point.calibration * _square(gradient, precondition)
        return length > 0


def _square(gradient: Array, precondition: Any) -> Array:
    return np.einsum("ij,ij->j", gradient, precondition(gradient))


def _search(energy: Energy, point: Point, direction: Array, tangent: tuple[Array, ...], slope: Array) -> Array:
    """Go along the direction and move; returns the lengths, (K,), 0 where nothing decreases.

    The scores are linear and quadratic in the length, so that other lengths cost no pass over the data. A full step
    that gains much less than its model said is shortened by regula falsi on the slope; what still does not decrease is
    halved.
    """
    moments = energy.moments
    slack = 8 * np.finfo(float).eps * np.abs(point.value)
    length = np.ones_like(slope)
    weights = point.weights + direction
    mean, var = moments.design.hold(point.mean + tangent[0], moments.variance(weights))
    value = energy.value(weights, mean, var, point.smoothing)
    good = value <= point.value + _GAIN * slope + slack
    if np.all(good):
        point.move(weights, mean, var, value)
        return length
    bend = var - point.var - tangent[1] if len(tangent) > 1 else moments.variance(direction)
    linear, bend = moments.design.hold(var - point.var - bend, bend)

    def at(length: Array) -> tuple[Array, Array, Array]:
        var = np.maximum(point.var + length * linear + length**2 * bend, 0.0)
        return point.weights + length * direction, *moments.design.hold(point.mean + length * tangent[0], var)

    length = np.where(good, 1.0, _shorten(energy, point, direction, at, tangent[0], linear, bend, slope))
    for _ in range(40):
        weights, mean, var = at(length)
        value = energy.value(weights, mean, var, point.smoothing)
        settled = value <= point.value + 1e-4 * length * slope + slack
        if np.all(settled):
            break
        length = np.where(settled, length, 0.5 * length)
    else:
        length = np.where(settled, length, 0.0)
        weights, mean, var = (
            np.where(settled, new, old) for new, old in ((weights, point.weights), (mean, point.mean), (var, point.var))
        )
        value = np.where(settled, value, point.value)
    point.move(weights, mean, var, value)
    return length


def _shorten(
    energy: Energy,
    point: Point,
    direction: Array,
    at: Callable[[Array], tuple[Array, Array, Array]],
    mean_slope: Array,
    linear: Array,
    bend: Array,
    slope: Array,
) -> Array:
    """Length in (0, 1] where the energy along the direction is flat, by four steps of the Illinois rule."""

    def slope_at(length: Array) -> Array:
        weights, mean, var = at(length)
        parts = energy.derivatives(mean, var, point.smoothing)
        inside = energy.moments.design.total(parts.mean * mean_slope + parts.var * (linear + 2 * length * bend))
        return inside + np.sum(energy.precision * weights * direction, axis=0)

    low, high = np.zeros_like(slope), np.ones_like(slope)
    at_low, at_high = slope.copy(), slope_at(high)
    crossing = at_high > 0
    best = high.copy()
    for _ in range(4):
        safe = np.where(crossing, at_high - at_low, 1.0)
        best = np.where(crossing, high - at_high * (high - low) / safe, high)
        here = slope_at(best)
        up = here > 0
        # The end that stays counts half, so that it moves at the next step.
        at_low, at_high = np.where(up, 0.5 * at_low, here), np.where(up, here, 0.5 * at_high)
        low, high = np.where(up, low, best), np.where(up, best, high)
        if np.all(np.abs(here) <= 0.1 * np.abs(slope)):
            break
    return best
