r"""Parts of a factor by rows.

In the notation of :mod:`bayesdrop.hmc.kernels.factors`: Cholesky factors of matrices of the rows, what free rates do,
and the factor that they make.

Shapes: ``C`` chains, ``n`` rows, ``p`` features, ``k`` rates, ``D`` coordinates: weights, intercept if there is one,
rates.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ..._typing import Float, Int
from ...data.dataset import Dataset
from ...designs import Design
from ...sampling.matrix import Matrix
from ...sampling.placing import placed
from ..kernels.factors import RowFactor

__all__ = ["RateLoading", "RowRoots", "centred_gram", "row_cholesky", "row_factor",
           "row_gram", "row_roots"]  # fmt: skip


def centred_gram(
    gram: Float[np.ndarray, "n n"], curvature: Float[np.ndarray, " n"], intercept: bool
) -> Float[np.ndarray, "n n"]:
    """``A₀P⁻¹A₀ᵀ`` from ``Xdiag(g²)P⁻¹Xᵀ``, both (n, n)."""
    if not intercept:
        return gram
    share = curvature / curvature.sum()
    mean = gram @ share
    return gram - mean[:, None] - mean + share @ mean


class RowRoots(NamedTuple):
    """What the factor is made of, in matrices of the rows.

    Attributes
    ----------
    lower, inner, outer : array (n, n)
        ``L``, ``N`` and ``(1 + Lᵀ)⁻¹``.
    """

    lower: Float[np.ndarray, "n n"]
    inner: Float[np.ndarray, "n n"]
    outer: Float[np.ndarray, "n n"]


def row_cholesky(gram: Float[np.ndarray, "n n"], curvature: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n n"]:
    """``L`` for a :func:`centred_gram` (n, n) and curvatures (n,)."""
    from scipy.linalg import cholesky

    root = np.sqrt(curvature)
    lower: Float[np.ndarray, "n n"] = cholesky(
        np.eye(len(root)) + root[:, None] * gram * root, lower=True, check_finite=False
    )
    return lower


def row_roots(gram: Float[np.ndarray, "n n"], curvature: Float[np.ndarray, " n"]) -> RowRoots:
    """Roots for a :func:`centred_gram` (n, n) and curvatures (n,).

    Examples
    --------
    >>> lower, inner, outer = row_roots(np.array([[15.0]]), np.array([1.0]))
    >>> [round(float(part[0, 0]), 6) for part in (lower, inner, outer)]  # (1 − 15 · 0.05)² = 1/16
    [4.0, 0.05, 0.2]
    """
    from scipy.linalg import solve_triangular

    lower, eye = row_cholesky(gram, curvature), np.eye(len(curvature))
    beside = solve_triangular(lower + eye, eye, lower=True, check_finite=False)
    return RowRoots(lower, solve_triangular(lower, beside, lower=True, trans="T", check_finite=False), beside.T)


class RateLoading(NamedTuple):
    """How free rates move the coefficients of the features.

    Attributes
    ----------
    slope : array (p,)
        Change of each feature's coefficient with its rate.
    index : int array (p,)
        Free rate of each feature.
    precision : array (k,)
        ``P`` of the rates.
    """

    slope: Float[np.ndarray, " p"]
    index: Int[np.ndarray, " p"]  # type: ignore[assignment]  # tuples have a method of this name
    precision: Float[np.ndarray, " k"]

    def gram(self, design: Design) -> Float[np.ndarray, "n n"]:
        """What they add to ``Xdiag(g²)P⁻¹Xᵀ``."""
        k = len(self.precision)
        if k == len(self.index):  # each feature has its own
            return design.outer_gram(self.slope**2 / self.precision[self.index])
        from scipy.sparse import csr_array

        place = (np.arange(len(self.index)), self.index)
        spread = csr_array((self.slope, place), shape=(len(self.index), k)).toarray()
        moved = design.matvec(spread / np.sqrt(self.precision))
        return moved @ moved.T


def row_gram(
    design: Design,
    precision: Float[np.ndarray, " p"],
    gain: Float[np.ndarray, " p"],
    curvature: Float[np.ndarray, " n"],
    intercept: bool,
    rates: RateLoading | None = None,
) -> Float[np.ndarray, "n n"]:
    """``A₀P⁻¹A₀ᵀ`` of weights and free rates."""
    gram = design.outer_gram(gain**2 / precision)
    return centred_gram(gram if rates is None else gram + rates.gram(design), curvature, intercept)


def row_factor(
    data: Dataset,
    matrix: Matrix,
    precision: Float[np.ndarray, " p"],
    gain: Float[np.ndarray, " p"],
    curvature: Float[np.ndarray, " n"],
    roots: RowRoots,
    intercept: bool,
    dtype: str,
    rates: RateLoading | None = None,
) -> RowFactor:
    """Factor for prior precisions (p,), gains (p,) and curvatures of the rows (n,); call it under its precision."""
    real = partial(placed, dtype=dtype)
    scale, total = precision**-0.5, curvature.sum()
    mean = data.design.rmatvec(curvature) / total if intercept else np.zeros(len(scale))
    offset, rate_loading, index = gain * mean * scale, None, None
    if rates is not None:
        own = rates.precision**-0.5
        rate_loading, index = real(rates.slope * own[rates.index]), placed(rates.index, np.int32)
        offset = np.append(offset, np.bincount(rates.index, rates.slope * mean, len(own)) * own)
        loading, scale = gain * scale, np.append(scale, own)
    else:
        loading = gain * scale
    level = np.full(int(intercept), total**-0.5)
    root, ones = np.sqrt(curvature), np.ones(len(scale) + len(level))
    return RowFactor(
        matrix, real(scale), real(loading), rate_loading, index, real(offset), real(root), real(roots.inner),
        real(roots.inner.T), real(roots.outer), real(level), real(ones),
    )  # fmt: skip
