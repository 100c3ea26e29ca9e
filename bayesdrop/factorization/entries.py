r"""Compute products with the observed entries of ``X`` and the expected loss, for the solvers of a factorisation.

With ``Ω`` the observed entries, all of them or fewer, and one mask ``r`` on the columns of the factors,

    E Σ_Ω (x_ij − θ⁻¹ Σ_k r_k u_ik v_jk)² = Σ_Ω (x_ij − u_iᵀv_j)² + λ Σ_k Σ_Ω u_ik² v_jk²,   λ = (1 − θ)/θ:

the penalty of Cavazza et al. (2018) at the observed entries only. The expectation is taken entry by entry, so it is
the same whether the rows share a mask or not. Given ``V`` a row of ``U`` solves

    (G_i with its diagonal divided by θ) u_i = Σ_{j ∈ Ω_i} v_j x_ij,   G_i = Σ_{j ∈ Ω_i} v_j v_jᵀ,

because ``λ diag G_i`` is its penalty and ``1 + λ = 1/θ``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from .._typing import Float

__all__ = ["Complete", "Entries", "Left", "Observed", "Right", "ridge"]

Left: TypeAlias = Float[np.ndarray, "n d"]
Right: TypeAlias = Float[np.ndarray, "p d"]

# Maximum size of the arrays of a batch of normal equations or of gathered rows.
_BLOCK = 1 << 22


def ridge(gram: Float[np.ndarray, "... d d"], theta: float) -> Float[np.ndarray, "... d d"]:
    """Gram matrices (…, d, d) with the diagonal divided by ``θ``, safe to solve where a column is zero.

    Examples
    --------
    >>> ridge(np.array([[1.0, 0.5], [0.5, 1.0]]), 0.5)
    array([[2. , 0.5],
           [0.5, 2. ]])
    """
    matrix = np.array(gram, dtype=np.float64)
    diagonal = np.einsum("...kk->...k", matrix)  # a view: writing to it changes the matrix
    floor = np.finfo(np.float64).eps * diagonal.max(axis=-1, keepdims=True) + np.finfo(np.float64).tiny
    diagonal[...] = diagonal / theta + floor
    return matrix


class Complete:
    """Matrix with all entries observed, dense or scipy sparse, used through products only.

    Parameters
    ----------
    X : array or scipy sparse (n, p)
        Floats, finite.
    mean : array (p,), optional
        Mean that is subtracted from every row, without a copy of ``X``.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 5.0]])
    >>> entries = Complete(X, X.mean(axis=0))
    >>> entries.times(np.eye(2))
    array([[-1. , -1.5],
           [ 1. ,  1.5]])
    >>> entries.square_norm
    6.5
    """

    def __init__(self, X: Any, mean: Float[np.ndarray, " p"] | None = None) -> None:
        self.X = X
        self.mean = mean
        self.shape: tuple[int, int] = X.shape
        self.dtype = X.dtype
        self.count = X.shape[0] * X.shape[1]
        self.square_norm = _square_norm(X)
        if mean is not None:
            sums = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel()
            self.square_norm += float(mean @ (self.shape[0] * mean.astype(np.float64) - 2 * sums))

    def times(self, right: Right) -> Left:
        """``X V``, (n, k)."""
        product = self.X @ right
        return np.asarray(product if self.mean is None else product - self.mean @ right)

    def transposed_times(self, left: Left) -> Right:
        """``Xᵀ U``, (p, k)."""
        product = self.X.T @ left
        return np.asarray(product if self.mean is None else product - np.outer(self.mean, left.sum(axis=0)))

    def objective(self, left: Left, right: Right, theta: float) -> float:
        """Expected loss; see the module."""
        grams = (left.T @ left).astype(np.float64), (right.T @ right).astype(np.float64)
        return self._loss(left, self.times(right), *(ridge(grams[0], theta), grams[1]))

    def _loss(
        self, left: Left, product: Left, left_gram: Float[np.ndarray, "d d"], right_gram: Float[np.ndarray, "d d"]
    ) -> float:
        return self.square_norm - 2 * _dot(left, product) + float(np.vdot(left_gram, right_gram))

    def sampled(self, left: Left, right: Right, theta: float) -> tuple[float, Left, Right]:
        """Loss under one mask and its gradients (n, k) and (p, k), from the ``k`` retained columns of the factors.

        The residual is ``X − θ⁻¹U diag(r)Vᵀ`` (Cavazza et al. 2018, equation 7, corrected).
        """
        product = self.times(right)
        left_gram, right_gram = left.T @ left, right.T @ right
        value = self._loss(left / theta, product, left_gram / theta, right_gram / theta)
        left_slope = (left @ (right_gram / theta) - product) * (2 / theta)
        right_slope = (right @ (left_gram / theta) - self.transposed_times(left)) * (2 / theta)
        return value, left_slope, right_slope

    def solve_left(self, right: Right, theta: float) -> Left:
        """Minimiser (n, d) of the expected loss given ``right``."""
        return self._solve(self.times(right), right, theta)

    def solve_right(self, left: Left, theta: float) -> Right:
        """Minimiser (p, d) of the expected loss given ``left``."""
        return self._solve(self.transposed_times(left), left, theta)

    def _solve(
        self, product: Float[np.ndarray, "rows d"], other: Float[np.ndarray, "columns d"], theta: float
    ) -> Float[np.ndarray, "rows d"]:
        gram = ridge(other.T @ other, theta)
        return np.ascontiguousarray(np.linalg.solve(gram, product.T.astype(np.float64)).T.astype(self.dtype))


class Observed:
    """Matrix with missing entries.

    Parameters
    ----------
    values : array or scipy sparse (n, p)
        Values, zero at missing entries. In a sparse matrix the stored entries are the observed ones.
    pattern : array (n, p), optional
        Indicator of the observed entries of a dense ``values``, 1 or 0, in its dtype.

    Examples
    --------
    >>> X = sparse.csr_array(np.array([[1.0, 0.0], [2.0, 4.0]]))
    >>> entries = Observed(X)
    >>> U, V = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])
    >>> entries.objective(U, V, 0.5)  # residuals 0, 0, −2; penalty 1 + 4 + 36
    45.0
    """

    def __init__(self, values: Any, pattern: Any = None) -> None:
        self.shape: tuple[int, int] = values.shape
        self.dtype = values.dtype
        self.values: Any = values
        self.pattern: Any = pattern
        if sparse.issparse(values):
            self.values = sparse.csr_array(values)
            ones = np.ones(self.values.nnz, values.dtype)
            self.pattern = sparse.csr_array((ones, self.values.indices, self.values.indptr), shape=values.shape)
            self._rows = np.repeat(np.arange(values.shape[0]), np.diff(self.values.indptr))
            self._values_transposed = sparse.csr_array(self.values.T)
            self._pattern_transposed = sparse.csr_array(self.pattern.T)
        else:
            self._values_transposed, self._pattern_transposed = values.T, self.pattern.T
        self.count = int(self.pattern.sum(dtype=np.float64))
        self.square_norm = _square_norm(self.values)

    def _residual(self, left: Left, right: Right) -> Any:
        """``X − UVᵀ`` at the observed entries, stored as ``values`` is."""
        if not sparse.issparse(self.values):
            return self.values - self.pattern * (left @ right.T)
        data = self.values.data.copy()
        step = max(1, _BLOCK // max(left.shape[1], 1))
        for begin in range(0, len(data), step):
            part = slice(begin, begin + step)
            data[part] -= np.einsum("ek,ek->e", left[self._rows[part]], right[self.values.indices[part]])
        return sparse.csr_array((data, self.values.indices, self.values.indptr), shape=self.shape)

    def objective(self, left: Left, right: Right, theta: float) -> float:
        """See :class:`Complete`."""
        penalty = _dot(left**2, self.pattern @ right**2)
        return _square_norm(self._residual(left, right)) + (1 - theta) / theta * penalty

    def sampled(self, left: Left, right: Right, theta: float) -> tuple[float, Left, Right]:
        """See :class:`Complete`."""
        residual = self._residual(left / theta, right)
        return _square_norm(residual), (residual @ right) * (-2 / theta), (residual.T @ left) * (-2 / theta)

    def solve_left(self, right: Right, theta: float) -> Left:
        """See :class:`Complete`; a row without an observed entry is zero."""
        return _solve_rows(self.values, self.pattern, right, theta)

    def solve_right(self, left: Left, theta: float) -> Right:
        """See :class:`Complete`."""
        return _solve_rows(self._values_transposed, self._pattern_transposed, left, theta)


Entries: TypeAlias = Complete | Observed
"""The observed entries; factors are (n, d) and (p, d) in their dtype."""


def _square_norm(residual: Any) -> float:
    data = residual.data if sparse.issparse(residual) else residual.ravel(order="K")
    return _dot(data, data)


def _dot(first: Float[np.ndarray, " ..."], second: Float[np.ndarray, " ..."]) -> float:
    """Inner product, summed in double precision."""
    if first.dtype == np.float64:
        return float(np.vdot(first, second))
    return float(np.einsum("i,i->", first.ravel(), second.ravel(), dtype=np.float64))


def _solve_rows(
    values: Any, pattern: Any, other: Float[np.ndarray, "columns d"], theta: float
) -> Float[np.ndarray, "rows d"]:
    """Solve the normal equations of all rows, a batch at a time."""
    width = other.shape[1]
    solution = np.empty((values.shape[0], width), values.dtype)
    step = max(1, _BLOCK // (width * width))
    for begin in range(0, values.shape[0], step):
        rows = slice(begin, min(begin + step, values.shape[0]))
        grams = np.empty((rows.stop - begin, width, width))
        for k in range(width):  # one column of all Gram matrices at a time: no p × d² array
            grams[:, k:, k] = pattern[rows] @ (other[:, k:] * other[:, k : k + 1])
            grams[:, k, k:] = grams[:, k:, k]
        target = (values[rows] @ other).astype(np.float64)
        solution[rows] = np.linalg.solve(ridge(grams, theta), target[:, :, None])[:, :, 0]
    return solution
