"""Newton's method on the marginalised energy itself, by inexact conjugate gradients.

The profiled energy (MATH of :mod:`bayesdrop.losses.base`) is smooth and convex, so Newton's method reaches the point
that EM reaches, with quadratic convergence. Early steps lean on the EM matrix ``P + G``, which majorises the Hessian:
the share of it is the *damping*, one at the start and gone as soon as full steps succeed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..solve import Preconditioner, choose_preconditioner, conjugate_gradient
from .descent import Point
from .energy import Energy

__all__ = ["Newton"]


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

    def step(self, energy: Energy, point: Point) -> np.ndarray:
        """One damped Newton step with Armijo back-tracking; see :class:`bayesdrop.inference.descent.Descent`."""
        slopes = energy.derivatives(point.mean, point.var, point.smoothing)
        gradient, spread = energy.gradient(point.weights, slopes)
        curvature = energy.curvature(slopes, spread, point.damping)
        solver = self.preconditioner or choose_preconditioner(energy.moments.design)
        precondition = solver.prepare(energy.moments, curvature.mean_mean, curvature.diagonal)
        size = np.einsum("ij,ij->j", gradient, precondition(gradient))
        point.reference = np.where(point.reference > 0, point.reference, np.maximum(size, np.finfo(float).tiny))
        forcing = np.minimum(0.1, (size / point.reference) ** 0.25)
        direction, tangent, inner = conjugate_gradient(
            lambda u: energy.product(point.weights, curvature, u), -gradient, precondition, forcing, self.max_inner
        )
        if not tangent:
            tangent = energy.moments.tangent(point.weights, direction)
        point.passes += inner
        slope = np.einsum("ij,ij->j", gradient, direction)
        bend = energy.moments.variance(direction)
        length = self._search(energy, point, direction, tangent, bend, slope)
        point.remaining = np.where(length == 1, -0.5 * slope, np.maximum(-0.5 * slope, np.abs(point.value)))
        point.remaining = np.where(length > 0, point.remaining, -0.5 * slope)
        return length > 0

    @staticmethod
    def _search(energy: Energy, point: Point, direction, tangent, bend, slope):
        """Back-track; the scores are linear and quadratic in the step, so no length costs a pass over the data."""
        K = point.weights.shape[1]
        length = np.ones(K)
        settled = np.zeros(K, dtype=bool)
        slack = 8 * np.finfo(float).eps * np.abs(point.value)
        for _ in range(40):
            weights = point.weights + length * direction
            mean = point.mean + length * tangent[0]
            var = np.maximum(point.var + length * tangent[1] + length**2 * bend, 0.0)
            value = energy.value(weights, mean, var, point.smoothing)
            settled = value <= point.value + 1e-4 * length * slope + slack
            if np.all(settled):
                break
            length = np.where(settled, length, 0.5 * length)
        accepted = np.where(settled, length, 0.0)
        point.damping = np.where(accepted == 1, np.where(point.damping > 0.05, 0.1 * point.damping, 0.0), point.damping)
        point.damping = np.where(accepted < 1, np.minimum(1.0, np.maximum(0.1, 4 * point.damping)), point.damping)
        point.weights += accepted * direction
        point.mean = point.mean + accepted * tangent[0]
        point.var = np.maximum(point.var + accepted * tangent[1] + accepted**2 * bend, 0.0)
        point.value = energy.value(point.weights, point.mean, point.var, point.smoothing)
        return accepted
