"""Shrink singular values to the optimum of dropout on the columns of a factorisation, for :mod:`.estimator`.

Also check the settings and the observed entries.

``θ`` is the probability that a column is **retained**, ``r`` its mask. Cavazza et al. (2018) have

    E‖X − θ⁻¹U diag(r)Vᵀ‖² = ‖X − UVᵀ‖² + λ Σ_k ‖u_k‖²‖v_k‖²,   λ = (1 − θ)/θ.

For ``d`` columns the penalty of a product ``A`` is smallest if all ``‖u_k‖‖v_k‖`` are equal, and is then
``(λ/d)‖A‖*²`` (Cauchy-Schwarz; a rotation that makes them equal always exists for ``d ≥ rank A``: Mianjy, Arora & Vidal
2018, and the function ``equalise``). At any width the problem is

    min_A ‖X − A‖² + γ‖A‖*²  over rank A ≤ d,   γ = λ/d,

so a fixed ``θ`` penalises less as ``d`` grows, while ``θ(d) = p/(d − (d−1)p)`` gives ``γ = (1 − p)/p`` at
every width (Cavazza et al. 2018, theorem 4). The minimum subtracts ``μ = γ‖A‖*`` from every singular value of ``X`` and
drops those below ``μ``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._typing import Float, Num
from .._validation import check_choice, check_count, check_flag, check_number, listed
from ..estimators.validation import default_names

__all__ = [
    "Shrunk",
    "adaptive_retain",
    "check_observed",
    "check_settings",
    "count_kept",
    "equalise",
    "minimum",
    "nuclear_weight",
    "shrink",
    "widest",
]


class Shrunk(NamedTuple):
    """Singular values of the optimum, (d̄,), and the threshold that was subtracted from each."""

    values: Float[np.ndarray, " kept"]
    threshold: float


def adaptive_retain(retain: float, width: int) -> float:
    """Retain probability ``θ(d) = p/(d − (d−1)p)`` of a factorisation with ``d`` columns.

    Parameters
    ----------
    retain : float
        ``p`` in (0, 1), the retain probability of one column alone.
    width : int
        Number of columns ``d``, at least 1.

    Returns
    -------
    float
        Between 0 and ``p``, falling with ``d`` (Cavazza et al. 2018).

    Examples
    --------
    >>> adaptive_retain(0.9, 1)
    0.9
    >>> round(adaptive_retain(0.9, 10), 4)
    0.4737
    """
    return retain / (width - (width - 1) * retain)


def nuclear_weight(theta: float, width: int) -> float:
    """Weight ``γ = (1 − θ)/(θ d)`` of the squared nuclear norm; see the module.

    Examples
    --------
    >>> round(nuclear_weight(adaptive_retain(0.8, 7), 7), 12)
    0.25
    """
    return (1 - theta) / (theta * width)


def count_kept(values: Float[np.ndarray, " k"], weight: float) -> int:
    """Largest ``d̄`` with ``σ_d̄ > μ(d̄) = γ/(1 + d̄γ) Σ_{i≤d̄} σ_i`` among descending singular values.

    ``μ(d+1)`` is a weighted mean of ``μ(d)`` and ``σ_{d+1}``, so once the condition fails, it fails for all further
    values: more values are needed only if the last one passed is kept.

    Parameters
    ----------
    values : array (k,)
        The largest singular values of ``X``, descending.
    weight : float
        ``γ``, above 0.

    Examples
    --------
    >>> count_kept(np.array([3.0, 2.0, 0.1]), 0.2)
    2
    """
    values = np.asarray(values, dtype=np.float64)
    thresholds = weight * np.cumsum(values) / (1 + weight * np.arange(1, len(values) + 1))
    return int(np.sum(np.logical_and.accumulate(values > thresholds)))


def shrink(values: Float[np.ndarray, " k"], weight: float, most: int | None = None) -> Shrunk:
    """Singular values of ``argmin_A ‖X − A‖² + γ‖A‖*²`` over ``rank A ≤ most``.

    Parameters
    ----------
    values : array (k,)
        Singular values of ``X``, descending; all of them, or as many as :func:`count_kept` needs.
    weight : float
        ``γ``, above 0.
    most : int, optional
        Largest rank allowed.

    Returns
    -------
    Shrunk
        The optimum of Cavazza et al. (2018, theorem 4). If ``most`` binds, the best subspace is still the leading one
        (von Neumann's trace inequality), and the rule is the same with ``d̄ = most``.

    Examples
    --------
    >>> shrink(np.array([3.0, 2.0, 0.1]), 0.2)
    Shrunk(values=array([2.28..., 1.28...]), threshold=0.71...)
    """
    values = np.asarray(values, dtype=np.float64)[:most]
    rank = count_kept(values, weight)
    threshold = float(weight * values[:rank].sum() / (1 + weight * rank))
    return Shrunk(values[:rank] - threshold, threshold)


def minimum(square_norm: float, values: Float[np.ndarray, " k"], weight: float, most: int | None = None) -> float:
    """Minimum of ``‖X − A‖² + γ‖A‖*²``, from ``‖X‖²`` and the leading singular values.

    Examples
    --------
    >>> round(minimum(1.0, np.array([1.0]), 1.0), 12)
    0.5
    """
    shrunk = shrink(values, weight, most)
    leading = np.asarray(values, dtype=np.float64)[: len(shrunk.values)]
    left = float(square_norm) - float(np.sum(leading**2))
    return left + len(shrunk.values) * shrunk.threshold**2 + weight * float(shrunk.values.sum()) ** 2


def equalise(values: Float[np.ndarray, " k"], width: int) -> Float[np.ndarray, "k d"]:
    r"""Rotation that gives the columns of balanced factors the same norm.

    With ``A = P diag(a) Qᵀ`` the factors ``U = P diag(√a) R`` and ``V = Q diag(√a) R`` have ``UVᵀ = A`` and
    ``‖u_k‖ = ‖v_k‖ = (Σ a / d)^{1/2}`` for every ``k``. Plane rotations set one diagonal entry of ``Rᵀ diag(a) R``
    after another to the mean (Mianjy, Arora & Vidal 2018).

    Parameters
    ----------
    values : array (k,)
        ``a``, at least 0.
    width : int
        ``d``, at least ``k``.

    Returns
    -------
    array (k, d)
        ``R``, with orthonormal rows.

    Raises
    ------
    ValueError
        If ``width`` is below ``k``.

    Examples
    --------
    >>> R = equalise(np.array([3.0, 1.0]), 4)
    >>> np.diag(R.T @ np.diag([3.0, 1.0]) @ R)
    array([1., 1., 1., 1.])
    """
    values = np.asarray(values, dtype=np.float64)
    if width < len(values):
        raise ValueError(f"width: expected at least the rank, {len(values)}, got {width}.")
    rotation = np.eye(len(values), width)
    diagonal = np.zeros(width)
    diagonal[: len(values)] = values
    mean = diagonal.sum() / width
    open_columns = list(range(width))
    # Open columns stay orthogonal in the inner product diag(a), so the rotation needs only the diagonal.
    while len(open_columns) > 1:
        low = min(open_columns, key=lambda k: diagonal[k])
        high = max(open_columns, key=lambda k: diagonal[k])
        spread = diagonal[high] - diagonal[low]
        if spread <= 4 * np.finfo(float).eps * mean:
            break
        sine = np.sqrt((mean - diagonal[low]) / spread)
        cosine = np.sqrt((diagonal[high] - mean) / spread)
        first, second = rotation[:, low].copy(), rotation[:, high].copy()
        rotation[:, low] = cosine * first + sine * second
        rotation[:, high] = cosine * second - sine * first
        diagonal[low], diagonal[high] = mean, diagonal[high] + diagonal[low] - mean
        open_columns.remove(low)
    return rotation


_SOLVERS = ("closed_form", "deterministic", "stochastic")
_MISSING = (None, "nan", "zeros")
# Default number of columns of an iterative solver's factors.
_WIDTH = 50
# Maximum number of rows or columns that a message lists.
_LISTED = 10


def check_settings(model: Any) -> None:
    """Raise ValueError unless every setting of a ``DropoutMatrixFactorization`` is in its range.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> check_settings(bd.DropoutMatrixFactorization(retain=1.5))
    Traceback (most recent call last):
    ValueError: retain: expected a finite number in (0, 1), got 1.5; at 1 nothing is dropped, which is a plain singular
    value decomposition.
    """
    check_choice(model.solver, "solver", _SOLVERS)
    check_choice(model.missing, "missing", _MISSING)
    advice = "at 1 nothing is dropped, which is a plain singular value decomposition"
    check_number(model.retain, "retain", above=0, below=1, advice=advice)
    for name in ("n_components", "max_iter"):
        if getattr(model, name) is not None:
            check_count(getattr(model, name), name, none="")
    for name in ("tol", "learning_rate"):
        check_number(getattr(model, name), name, above=0)
    for name in ("adaptive", "centre"):
        check_flag(getattr(model, name), name)


def widest(model: Any, shape: tuple[int, int]) -> int:
    """Number of columns of the factors; for the adaptive closed form the maximum rank.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> widest(bd.DropoutMatrixFactorization(), (100, 70))
    70
    >>> widest(bd.DropoutMatrixFactorization(solver="deterministic"), (100, 70))
    50
    """
    side = min(shape)
    if not model.adaptive:
        if model.n_components is None:
            raise ValueError(
                "n_components: expected a number, got None; at a fixed retain probability the penalty depends on the "
                "width of the factors. Give it, or use adaptive=True, which learns it."
            )
        return int(model.n_components)
    if model.n_components is None:
        return side if model.solver == "closed_form" else min(side, _WIDTH)
    if model.n_components > side:
        raise ValueError(
            f"n_components: expected at most min(n, p) = {side}, got {model.n_components} with n_samples={shape[0]}, "
            f"n_features={shape[1]}; lower it, or leave it out to have it learnt."
        )
    return int(model.n_components)


def check_observed(model: Any, rows: Num[np.ndarray, " n"], columns: Num[np.ndarray, " p"]) -> None:
    """Raise ValueError if a row or a column has no observed entry, or the solver needs them all.

    Parameters
    ----------
    model : DropoutMatrixFactorization
        The estimator, which has the names of the columns.
    rows, columns : array (n,) and (p,)
        Numbers of observed entries.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model = bd.DropoutMatrixFactorization(solver="deterministic").fit(np.eye(3))
    >>> check_observed(model, np.array([2, 0, 1]), np.array([1, 1, 1]))
    Traceback (most recent call last):
    ValueError: X: expected an observed entry in every row and column, got none in 1 row (1); leave out what was never
    observed.
    """
    names = default_names(model)
    empty = {
        "row": [str(i) for i in np.flatnonzero(rows == 0)],
        "column": [names[j] for j in np.flatnonzero(columns == 0)],
    }
    for kind, labels in empty.items():
        if labels:
            raise ValueError(
                f"X: expected an observed entry in every row and column, got none in {len(labels)} {kind}"
                f"{'s' * (len(labels) > 1)} ({listed(labels, _LISTED, str)}); leave out what was never observed."
            )
    if model.solver == "closed_form":
        raise ValueError(
            'solver: "closed_form" needs every entry, and some of X are missing; use solver="deterministic" (or '
            '"stochastic"), which minimise the expected loss of the observed ones.'
        )
