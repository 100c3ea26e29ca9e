"""Expectation-maximisation for ``bd.fit``, as published.

E-step: expected ``(ω, κ)`` at the current weights. M-step: ``(P + G) w = Mᵀκ + Pμ`` with
``G = MᵀΩM + diag(a∘(X²)ᵀω + b∘Xᵀω + c0 Σω)`` (Chen, Zhu, Chen & Chen 2015, eqs 10-16, 24-26 and 31-35; Zhuo, Zhu &
Zhang 2015, eq. 20). The energy never rises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._typing import Bool
from ...linalg.systems import conjugate_gradient
from ...losses.protocols import Augmented, require
from ..objective.energy import Curvature, Energy, ProblemVector
from .choices import case_of, choose, solve_dual
from .preconditioners import Preconditioner, check_settings, choose_preconditioner
from .state import PerProblem, SolverState

__all__ = ["EM"]


@dataclass(frozen=True)
class EMMemory(PerProblem):
    """Memory of EM between steps, (K,) each.

    Attributes
    ----------
    decrement
        ``gᵀA⁻¹g`` before the last step, for the gradient ``g`` and the matrix ``A`` of its M-step; NaN if it does not
        predict the next one.
    smoothing
        Smoothing in the last step.
    """

    decrement: ProblemVector
    smoothing: ProblemVector


@dataclass(frozen=True)
class EM:
    """Expectation-maximisation.

    Parameters
    ----------
    tol : float, default=1e-08
        Estimated suboptimality, relative to the energy, at which to stop, as in :class:`bayesdrop.Newton`.
    max_iter : int, default=1000
        Maximum number of iterations; EM converges linearly and may need hundreds at small rates.
    preconditioner : Preconditioner, optional
        How the M-step is solved: ``Cholesky()``, ``Woodbury()`` or ``Jacobi()`` (conjugate gradients) of
        :mod:`bayesdrop.fitting.solvers.preconditioners`; by default chosen by shape.
    max_inner : int, default=2000
        Maximum number of conjugate-gradient steps in an M-step.

    See Also
    --------
    Newton, fit

    References
    ----------
    Chen, Zhu, Chen & Chen (2015), Dropout training for SVMs with data augmentation, eqs 10-16.

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
        check_settings(self.tol, self.max_iter, self.max_inner, self.preconditioner)

    def init(self, energy: Energy, weights: Any, earlier: SolverState | None = None) -> SolverState:
        """See :class:`bayesdrop.fitting.solvers.driver.Minimiser`; raise ValueError without the bound."""
        require(energy.loss, Augmented, "EM", "use bd.Newton(), which needs derivatives only")
        if not energy.loss.augmented or energy.plain_weight is not None:
            raise ValueError(
                f"method: EM needs the augmentation bound and labelled rows, got {energy.loss!r}; use bd.Newton(), "
                "which minimises every form."
            )
        # Without noise EM converges slowly near the kinks; solve the dual first.
        dual = solve_dual(energy, weights, self.tol, choose(case_of(energy)).name == "interior points")
        if dual is None:
            state = SolverState.at(energy, weights, None, earlier)
        else:
            state = SolverState.at(energy, dual.weights, None).unsmoothed(energy, dual.gap, self.tol)
        return replace(state, memory=EMMemory(np.full(len(state.value), np.nan), state.smoothing))

    def step(self, energy: Energy, state: SolverState, goal: Any) -> tuple[SolverState, Bool[np.ndarray, " K"]]:
        """One E-step and one M-step; see :class:`bayesdrop.fitting.solvers.driver.Minimiser`."""
        moments = energy.moments
        omega, kappa = energy.pseudo(state.mean, state.var + state.smoothing**2)
        right = moments.mean_adjoint(kappa)
        right = right - energy.pull(np.zeros_like(right))
        diagonal = np.broadcast_to(energy.precision, right.shape).copy()
        diagonal[:-1] += moments.spread(omega)
        curvature = Curvature(omega, diagonal)
        solver = self.preconditioner or choose_preconditioner(moments.design)
        precondition = solver.prepare(moments, omega, diagonal)
        # Solve for the change of w, so that the tolerance is relative to the step even near the optimum.
        current, _ = energy.product(state.weights, curvature, state.weights)
        change, _, _ = conjugate_gradient(
            lambda u: energy.product(state.weights, curvature, u),
            right - current,
            precondition,
            np.full(right.shape[1], 1e-6),
            self.max_inner,
        )
        weights = state.weights + change
        mean, var = moments.scores(weights)
        value = energy.value(weights, mean, var, state.smoothing)
        # The residual of the M-step is minus the gradient, accurate even where differences of energies are rounding.
        decrement = np.einsum("ij,ij->j", right - current, change)
        # After a large change of the smoothing the last decrement does not give the rate of convergence.
        before = np.where(state.smoothing >= 0.5 * state.memory.smoothing, state.memory.decrement, np.nan)
        slack = 8 * np.finfo(float).eps * np.abs(state.value)
        spent = (decrement <= slack) & (decrement > 0.999 * before)
        better = (value <= state.value + slack) & (decrement > 0) & ~spent
        # Linear convergence: a step multiplies errors by ρ and decrements by ρ². With ``H = (1 − ρ)A`` in the slowest
        # direction the suboptimality after the step is ``ρ² gᵀA⁻¹g / 2(1 − ρ)``.
        has_rate = better & (before > 0)
        ratio = np.clip(decrement / np.where(has_rate, before, np.inf), 0.0, 0.999)
        left = 0.5 * ratio * decrement / (1 - np.sqrt(ratio))
        remaining = np.where(better, np.where(has_rate, left, np.inf), np.where(decrement > 0, state.remaining, 0.0))
        ended = state.moved(better, weights=weights, mean=mean, var=var, value=value)
        memory = EMMemory(np.where(better, decrement, np.nan), state.smoothing)
        ended = ended.changed(remaining=remaining, memory=memory)
        return ended, better
