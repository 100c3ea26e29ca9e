"""Minimise the expected loss of a factorisation whose columns are dropped, for :mod:`.estimator`.

``alternate`` is alternating least squares. Each half of a sweep minimises the expected loss of
:mod:`bayesdrop.factorization.entries` in one factor exactly, so the loss never rises. The loss is not convex in both
factors. With all entries observed the closed form confirms the global minimum from every start that the tests use;
with missing entries a fit may end in a local minimum, and several starts help.

``descend`` runs dropout itself: at each step a mask on the columns, and a gradient step on the retained columns, by
algorithm 1 of Cavazza et al. (2018). With ``R = X − θ⁻¹U diag(r)Vᵀ`` (their equation 7 misprints this residual) a
step is

    U ← U + (2ε/θ) R V diag(r),   V ← V + (2ε/θ) Rᵀ U diag(r),

whose mean is a gradient step on the expected loss. Dropped columns do not change, so the cost of a step is proportional
to the number of retained columns. The rate ``ε_t = ε_0/(1 + t/τ)`` decreases because a constant rate leaves noise of
its own size. The factors returned are the mean over the second half of the steps (Polyak & Juditsky 1992).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._typing import Float
from .entries import Entries, Left, Right

__all__ = ["Factors", "alternate", "descend", "first_rate", "start"]


@dataclass(frozen=True)
class Rules:
    """Rules of convergence and of the gradient steps.

    Attributes
    ----------
    relative : float
        Lower bound of the loss in the test of convergence, as a share of the data's squared norm, for exact fits.
    every : int
        Steps between two records of the expected loss, which needs all columns.
    halved : float
        Share of the steps after which the rate has halved.
    powers, tilt : int, float
        Power iterations for the spectral norm, and the size of the change of its constant starting vector.
    """

    relative: float = 1e-6
    every: int = 10
    halved: float = 0.03
    powers: int = 10
    tilt: float = 0.1


RULES = Rules()


class Factors(NamedTuple):
    """Factors (n, d) and (p, d), a trace of the expected loss, and the number of steps.

    ``alternate`` adds whether it converged, ``descend`` the loss under the mask of each step.
    """

    left: Left
    right: Right
    trace: Float[np.ndarray, " records"]
    n_iter: int
    converged: bool = True
    sampled_trace: Float[np.ndarray, " steps"] | None = None


def start(entries: Entries, width: int, generator: np.random.RandomState) -> tuple[Left, Right]:
    """Random factors whose product has about the size of the data.

    Examples
    --------
    >>> from bayesdrop.factorization.entries import Complete
    >>> left, right = start(Complete(np.ones((4, 3))), 2, np.random.RandomState(0))
    >>> left.shape, right.shape
    ((4, 2), (3, 2))
    """
    n, p = entries.shape
    size = np.sqrt(entries.square_norm / max(entries.count, 1) / width) ** 0.5
    left, right = generator.normal(scale=size, size=(n, width)), generator.normal(scale=size, size=(p, width))
    return left.astype(entries.dtype), right.astype(entries.dtype)


def alternate(
    entries: Entries, width: int, theta: float, *, tol: float, max_iter: int, generator: np.random.RandomState
) -> Factors:
    """Minimise the expected loss over factors of the given width.

    Parameters
    ----------
    entries : Entries
        The data.
    width : int
        Number of columns ``d``.
    theta : float
        Retain probability of a column, in (0, 1).
    tol : float
        Stop when a sweep lowers the loss by less than this share of the loss; at least four units of round-off.
    max_iter : int
        Maximum number of sweeps.
    generator : numpy.random.RandomState
        Source of the starting factors.

    Returns
    -------
    Factors
        ``trace`` (n_iter,) is the expected loss after each sweep.

    Examples
    --------
    >>> from bayesdrop.factorization.entries import Complete
    >>> X = np.outer([1.0, 2.0], [3.0, 4.0])
    >>> found = alternate(Complete(X), 1, 0.5, tol=1e-9, max_iter=500, generator=np.random.RandomState(0))
    >>> np.round(found.left @ found.right.T, 4)  # γ = 1 halves the singular value
    array([[1.5, 2. ],
           [3. , 4. ]])
    """
    left, right = start(entries, width, generator)
    min_gain = max(tol, 4 * float(np.finfo(entries.dtype).eps))
    trace: list[float] = []
    converged = False
    while len(trace) < max_iter and not converged:
        left = entries.solve_left(right, theta)
        right = entries.solve_right(left, theta)
        trace.append(entries.objective(left, right, theta))
        converged = len(trace) > 1 and trace[-2] - trace[-1] <= min_gain * max(
            abs(trace[-1]), RULES.relative * entries.square_norm, np.finfo(float).tiny
        )
    return Factors(left, right, np.array(trace), len(trace), converged)


def first_rate(entries: Entries, left: Left, right: Right, theta: float) -> float:
    r"""Rate ``ε_0`` small enough that a step with the columns of one mask lowers the loss.

    The curvature in ``U`` of the loss under one mask is ``2θ⁻²`` times the largest eigenvalue of the retained columns'
    Gram matrix, about ``θ‖V‖² + max_k ‖v_k‖²``; the norm of a factor is at most about ``√‖X‖``.

    Examples
    --------
    >>> from bayesdrop.factorization.entries import Complete
    >>> X = np.eye(2)
    >>> bool(first_rate(Complete(X), X, X, 0.5) < first_rate(Complete(X), X, X, 0.9))
    True
    """
    size = _spectral_norm(entries)
    columns = max(float(np.max(np.sum(part.astype(np.float64) ** 2, axis=0))) for part in (left, right))
    return float(theta**2 / (4 * (theta * size + max(columns, size / left.shape[1]))))


def _spectral_norm(entries: Entries) -> float:
    """``‖X‖`` to a few per cent, by power iteration: the gradient at zero factors is ``−2XV``."""
    n, p = entries.shape
    vector = np.full((p, 1), p**-0.5, entries.dtype)
    vector += RULES.tilt * np.cos(np.arange(p, dtype=entries.dtype))[:, None] * vector
    size = 0.0
    for _ in range(RULES.powers):
        image = entries.sampled(np.zeros((n, 1), entries.dtype), vector, 1.0)[1] / -2
        vector = entries.sampled(image, np.zeros((p, 1), entries.dtype), 1.0)[2] / -2
        norm = float(np.linalg.norm(vector))
        if norm == 0:
            break
        vector /= norm
        size = norm**0.5
    return size if size > 0 else max(entries.square_norm, float(np.finfo(entries.dtype).tiny)) ** 0.5


def descend(
    entries: Entries,
    width: int,
    theta: float,
    *,
    learning_rate: float = 1.0,
    max_iter: int,
    generator: np.random.RandomState,
) -> Factors:
    """Run dropout for a number of steps.

    Parameters
    ----------
    entries : Entries
        The data.
    width : int
        Number of columns ``d``.
    theta : float
        Retain probability of a column, in (0, 1).
    learning_rate : float
        Factor on :func:`first_rate`.
    max_iter : int
        Number of steps.
    generator : numpy.random.RandomState
        Source of the starting factors and of the masks.

    Returns
    -------
    Factors
        ``trace[t]`` is the expected loss before step ``10 t`` and, at the end, of the result; ``sampled_trace`` has
        one value for each step.

    Raises
    ------
    ValueError
        If the factors diverge: lower ``learning_rate``.

    Examples
    --------
    >>> from bayesdrop.factorization.entries import Complete
    >>> X = np.outer([1.0, 2.0], [3.0, 4.0])
    >>> found = descend(Complete(X), 1, 0.9, max_iter=2000, generator=np.random.RandomState(0))
    >>> size = np.linalg.norm(found.left @ found.right.T) / np.linalg.norm(X)
    >>> bool(abs(size - 0.9) < 0.02)  # γ = 1/9 leaves 1/(1 + γ) of the singular value
    True
    """
    left, right = start(entries, width, generator)
    rate = learning_rate * first_rate(entries, left, right, theta)
    left_sum, right_sum = np.zeros_like(left), np.zeros_like(right)
    half = max_iter // 2
    sampled_trace = np.empty(max_iter)
    trace = []
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(max_iter):
            if step % RULES.every == 0:
                trace.append(entries.objective(left, right, theta))
                _check_finite(trace[-1], learning_rate)
            columns = np.flatnonzero(generator.random_sample(width) < theta)
            value, left_slope, right_slope = entries.sampled(left[:, columns], right[:, columns], theta)
            size = left.dtype.type(rate / (1 + step / (RULES.halved * max_iter)))
            left[:, columns] -= size * left_slope
            right[:, columns] -= size * right_slope
            sampled_trace[step] = value
            if step >= half:
                left_sum += left
                right_sum += right
        left, right = left_sum / (max_iter - half), right_sum / (max_iter - half)
        trace.append(entries.objective(left, right, theta))
    _check_finite(trace[-1], learning_rate)
    return Factors(left, right, np.array(trace), max_iter, sampled_trace=sampled_trace)


def _check_finite(value: float, learning_rate: float) -> None:
    if not np.isfinite(value):
        raise ValueError(
            f"learning_rate: the factors diverged at {learning_rate:g}; try {learning_rate / 4:g}, or a larger retain."
        )
