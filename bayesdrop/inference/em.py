"""Expectation-maximisation, as in the papers.

E-step: ``(ω, κ)`` in expectation at the current weights. M-step: ``(P + G) w = Mᵀκ`` with
``G = MᵀΩM + diag(a∘(X²)ᵀω + b∘Xᵀω + c0 Σω)`` (Chen, Zhu, Chen & Chen 2015, eqs 9-11 and 25-27; Zhuo, Zhu & Zhang
2015, eq. 20). The energy never rises.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..solve import Preconditioner, choose_preconditioner, conjugate_gradient
from .descent import Point, check_settings
from .energy import Curvature, Energy

__all__ = ["EM"]


@dataclass(frozen=True)
class EM:
    """Expectation-maximisation.

    Parameters
    ----------
    tol : float
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int
        Most iterations; EM converges linearly and may need hundreds at small rates.
    preconditioner : Preconditioner, optional
        How the M-step is solved: ``Cholesky()``, ``Woodbury()`` or ``Jacobi()`` (conjugate gradients) of
        :mod:`bayesdrop.solve`; by default chosen by shape.
    max_inner : int
        Most conjugate-gradient steps in one M-step.

    Examples
    --------
    >>> EM(max_iter=50).tol
    1e-08
    """

    tol: float = 1e-8
    max_iter: int = 1000
    preconditioner: Preconditioner | None = None
    max_inner: int = 2000

    def __post_init__(self) -> None:
        check_settings(self)

    def step(self, energy: Energy, point: Point, goal: np.ndarray) -> np.ndarray:
        """One E-step and one M-step; see :class:`bayesdrop.inference.descent.Descent`."""
        if not energy.loss.augmented or energy.plain_weight is not None:
            raise ValueError(
                f"method: EM needs the augmentation bound and labelled rows, got {energy.loss!r}; use bd.Newton(), "
                "which minimises every form."
            )
        moments = energy.moments
        design, var = moments.design, point.var + point.smoothing**2
        pseudo = design.rowwise(
            energy.loss.pseudo, energy.target, point.mean, var, energy.weight, widths=var.shape[1:] * 2
        )
        omega, kappa = design.hold(*pseudo)
        right = moments.mean_adjoint(kappa)
        diagonal = np.broadcast_to(energy.precision, right.shape).copy()
        diagonal[:-1] += moments.spread(omega)
        curvature = Curvature(omega, diagonal)
        solver = self.preconditioner or choose_preconditioner(moments.design)
        precondition = solver.prepare(moments, omega, diagonal)
        # Solve for the change of w: the tolerance is then relative to the step and not lost near the optimum.
        current, _ = energy.product(point.weights, curvature, point.weights)
        change, _, _ = conjugate_gradient(
            lambda u: energy.product(point.weights, curvature, u),
            right - current,
            precondition,
            np.full(right.shape[1], 1e-6),
            self.max_inner,
        )
        weights = point.weights + change
        mean, var = moments.scores(weights)
        value = energy.value(weights, mean, var, point.smoothing)
        gain = point.value - value
        better = gain > 0
        # Linear convergence: what remains is the last gain times ρ/(1 − ρ), with ρ the ratio of successive gains.
        known = better & (point.previous > 0)
        ratio = np.clip(gain / np.where(known, point.previous, np.inf), 0.0, 0.999)
        point.remaining = np.where(better, np.where(known, gain * ratio / (1 - ratio), np.inf), 0.0)
        point.move(
            np.where(better, weights, point.weights),
            np.where(better, mean, point.mean),
            np.where(better, var, point.var),
            np.where(better, value, point.value),
        )
        point.previous = np.where(better, gain, np.nan)
        return better
