r"""The average of the logistic function over the masks of a row, for each draw, in a few products with the matrix.

With ``s = b + Σ_d α_d t_d``, each ``α_d`` one with probability ``1 − η_d`` and else zero, and ``K(z) = log E e^{zs}``,

    E σ(s) = ∫₀^∞ Re e^{K(½ + iu)} / cosh(πu) du,

for ``e^{−s/2} σ(s) = 1/(2 cosh(s/2))`` is its own Fourier transform but for scales; where ``E s > 0`` it is ``1 − E
σ(−s)``. The factor ``e^{s/2}`` makes errors small where the probability is. The sum over ``u = 0, h, 2h, …`` with ``h =
2π/P`` has the images ``e^{−P/2} E σ(s + P)`` and ``e^{−P/2} E e^s σ(P − s)`` too, which are nearly ``e^{−P/2} σ(E s
+ P)`` and ``e^{−P/2} E e^s`` and are taken off. Far below 0 the probability is ``E e^s``, less ``E e^{2s}`` at most.

``K`` is a sum over the entries. A large one has ``log(η + (1 − η) e^{zt})``, exactly; of the small ones, which are
most, four cumulants are summed by products with powers of the matrix, and what follows them is about ``Σ |t|⁵ η(1 −
η)|z|⁵/80`` at most (:class:`bayesdrop.noise.Expansion`, where ``z`` is imaginary and it is a bound). What is large
depends on the row: on how many entries there are, and on how far from 0 the score is. What is left out is summed into
an estimate of the error; a row whose estimate is above :data:`TOLERANCE` is for ways that cost more
(:mod:`.expectation`).

Shapes: ``n`` rows, ``p`` columns, ``S`` draws, ``s`` of them at a time, ``N`` pairs of a row and a draw, ``M`` values
of ``z``, ``L`` large entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Complex
from scipy.sparse import csr_array, issparse

from ..._typing import Float, Int
from ..draws.draws import blocks

__all__ = ["TOLERANCE", "average_logistic"]

TOLERANCE = 1e-4
"""Estimated error of a probability up to which it is taken."""


@dataclass(frozen=True)
class _Sizes:
    """Sizes of the sum.

    Attributes
    ----------
    period, count : float, int
        Period of the function that is summed, and nodes.
    remainder : float
        Factor of the bound of what follows the fourth cumulant.
    parts : int
        Such a part of what may be left out is large, unless more entries are just below; then what would be too much if
        all were as large.
    most_scale : float
        Logarithm of how much more may be left out where scores are far from 0, at most.
    tail : float
        ``E e^{2s}/E e^s``, the relative error of ``E e^s`` as the probability, up to which it is taken.
    narrow : int
        Columns up to which blocks of sparse rows are made dense, so that every storage has the same values.
    """

    period: float = 20.0
    count: int = 14
    remainder: float = 1 / 80
    parts: int = 4
    most_scale: float = 4.0
    tail: float = 1e-4
    narrow: int = 200


_SIZES = _Sizes()
_STEP = 2 * np.pi / _SIZES.period
_U = _STEP * np.arange(_SIZES.count)
_Z = 0.5 + 1j * _U
_SHARE = _STEP / np.cosh(np.pi * _U) * np.where(_U == 0, 0.5, 1.0)
_FIFTH = _SHARE * np.abs(_Z) ** 5
_SHARE32, _FIFTH32 = _SHARE.astype(np.float32), _FIFTH.astype(np.float32)
_POWERS = np.stack([_Z, _Z**2 / 2, _Z**3 / 6, _Z**4 / 24])
_REAL, _IMAGINARY = np.ascontiguousarray(_POWERS.real), np.ascontiguousarray(_POWERS.imag)
# The same of z = 1 and 2.
_WHOLE = np.array([[1.0, 2.0], [0.5, 2.0], [1 / 6, 8 / 6], [1 / 24, 16 / 24]])
_IMAGE, _BEYOND = float(np.exp(-_SIZES.period / 2)), float(2 / np.pi * np.exp(-np.pi * (_U[-1] + _STEP / 2)))
# What entries that are left out may come to, as a sum of fifth powers: four fifths of the tolerance.
_ALLOWED = 0.8 * TOLERANCE / (_SIZES.remainder * float(_FIFTH.sum()))


@dataclass
class _Entries:
    """Entries ``t`` of N pairs of a row and a draw, those of a draw after another's.

    Attributes
    ----------
    values : array (N, p) or (m,)
        Entries, dense or the stored ones.
    draws : int
        Draws ``s``: each has N/s pairs.
    stored : csr (N, s p) or None
        Structure of sparse entries, in which each draw has columns of its own.
    """

    values: Float[np.ndarray, ...]
    draws: int
    stored: Any = None

    @classmethod
    def all_pairs(cls, X: Any, weight: Float[np.ndarray, "s p"]) -> _Entries:
        """Every row with every draw."""
        s, (n, p) = len(weight), X.shape
        if not issparse(X):
            return cls((X * weight[:, None]).reshape(s * n, p), s)
        row_ends = np.cumsum(np.tile(np.diff(X.indptr), s))
        return cls._sparse(np.tile(X.data, s), np.tile(X.indices, s), np.repeat(np.arange(s), X.nnz), row_ends, weight)

    @classmethod
    def single_pairs(cls, X: Any, weight: Float[np.ndarray, "s p"]) -> _Entries:
        """Each row with the draw of its number."""
        if not issparse(X):
            return cls(X * weight, len(weight))
        owner = np.repeat(np.arange(len(weight)), np.diff(X.indptr))
        return cls._sparse(X.data, X.indices, owner, X.indptr[1:], weight)

    @classmethod
    def _sparse(cls, data: Any, indices: Any, owner: Any, row_ends: Any, weight: Float[np.ndarray, "s p"]) -> _Entries:
        s, p = weight.shape
        columns = indices.astype(np.int64) + p * owner
        structure = csr_array((data, columns, np.append(0, row_ends)), shape=(len(row_ends), s * p))
        return cls(data * weight.ravel()[columns], s, structure)

    def sums(self, values: Float[np.ndarray, ...], factor: Float[np.ndarray, "s p"]) -> Float[np.ndarray, " N"]:
        """Sum over each pair of values like the entries times a factor of their column."""
        if self.stored is None:
            return np.matmul(values.reshape(self.draws, -1, values.shape[1]), factor[:, :, None]).ravel()
        parts = (values, self.stored.indices, self.stored.indptr)
        return np.asarray(csr_array(parts, shape=self.stored.shape) @ factor.ravel())

    def largest(
        self,
        size: Float[np.ndarray, ...],
        factor: Float[np.ndarray, "s p"],
        some: Int[np.ndarray, " r"],
        allowed: Float[np.ndarray, " r"],
    ) -> tuple[Any, Int[np.ndarray, " L"], Int[np.ndarray, " L"]]:
        """Entries of some pairs without which the sum of sizes is what is allowed: places, pairs and flat columns."""
        if self.stored is None:
            p, draw = size.shape[1], some // (len(size) // self.draws)
            own = size[some] * factor[draw]
            bar = allowed[:, None] / _SIZES.parts
            few = (own * (own <= bar)) @ np.ones(p) <= allowed
            place = np.flatnonzero(~(own <= np.where(few[:, None], bar, allowed[:, None] / p)))
            row = place // p
            columns = place - row * p
            return (some[row], columns), some[row], draw[row] * p + columns
        start, count = self.stored.indptr[some], np.diff(self.stored.indptr)[some]
        row = np.repeat(np.arange(len(some)), count)
        place = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + start[row]
        columns = self.stored.indices[place]
        large = ~(size[place] * factor.ravel()[columns] <= (allowed / count)[row])
        return place[large], some[row[large]], columns[large]


def average_logistic(
    X: Any, weight: Float[np.ndarray, "S p"], rate: Float[np.ndarray, "S p"], level: Float[np.ndarray, "n S"]
) -> tuple[Float[np.ndarray, "n S"], Float[np.ndarray, "n S"]]:
    """``E σ(s)`` of each row and draw, and an estimate of its error.

    Parameters
    ----------
    X : array or scipy sparse in compressed rows (n, p)
        Rows; sparse ones of more than 200 columns are not made dense.
    weight : array (S, p)
        What a kept entry is multiplied by.
    rate : array (S, p)
        Probability that it is not kept.
    level : array (n, S)
        ``b``: what no mask moves.

    Returns
    -------
    value, error : array (n, S)
        A value whose error is not below :data:`TOLERANCE`, or NaN, is of no use.

    Examples
    --------
    >>> one = np.array([[1.0]])
    >>> value, error = average_logistic(one, 2 * one, 0.5 * one, -one)
    >>> bool(abs(value[0, 0] - 0.5) < error[0, 0] < TOLERANCE)
    True
    """
    is_dense = not issparse(X) or X.shape[1] <= _SIZES.narrow
    n, size = X.shape[0], int(X.shape[1] if is_dense else X.nnz / max(X.shape[0], 1))
    value, error = np.empty(level.shape), np.empty(level.shape)
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        for rows in blocks(n, 8 * (size + len(_Z))):
            here = _rows_of(X, rows, is_dense)
            for part in blocks(len(weight), 8 * max((size + len(_Z)) * here.shape[0], X.shape[1])):
                entries, shape = _Entries.all_pairs(here, weight[part]), level[rows, part].T.shape
                found = _average(entries, rate[part], level[rows, part].T.ravel(), 1.0)
                value[rows, part], error[rows, part] = (values.reshape(shape).T for values in found)
        # Of the few whose estimate was too large every entry is taken for a large one.
        again = np.nonzero(~(error <= TOLERANCE))
        for some in blocks(len(again[0]), 8 * (size + 1) * len(_Z)):
            i, j = (places[some] for places in again)
            value[i, j], error[i, j] = _average(
                _Entries.single_pairs(_rows_of(X, i, is_dense), weight[j]), rate[j], level[i, j], 0.0
            )
    return value, error


def _rows_of(X: Any, rows: Any, is_dense: bool) -> Any:
    return X[rows].toarray() if is_dense and issparse(X) else X[rows]


def _average(
    entries: _Entries, rate: Float[np.ndarray, "s p"], level: Float[np.ndarray, " N"], share: float
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    t, keep = entries.values, 1 - rate
    spread = rate * keep
    square = t * t
    mean, var = entries.sums(t, keep) + level, entries.sums(square, spread)
    fourth = square * square
    fifth = fourth * np.abs(t)
    left_out = entries.sums(fifth, spread)
    # About |e^{K(z)}|: its size at ½, and by how much less it is where |z|⁵ is large.
    scale = np.exp(np.minimum(0.5 * np.abs(mean) - var / 8, _SIZES.most_scale))
    fall = 1 + 0.75 * np.minimum(var, 4.0)
    allowed = share * scale * fall * np.sqrt(fall) * _ALLOWED
    side = np.where(mean > 0, -1.0, 1.0)
    rest_mean, rest_var, several = mean, var, np.flatnonzero(~(left_out <= allowed))
    if len(several):
        large, rows, columns = entries.largest(fifth, spread, several, allowed[several])
        removed, n = t[large], len(mean)
        left_out = left_out - np.bincount(rows, fifth[large] * spread.ravel()[columns], n)
        for part in (t, square, fourth):
            part[large] = 0.0
        rest_mean = mean - np.bincount(rows, removed * keep.ravel()[columns], n)
        rest_var = var - np.bincount(rows, removed * removed * spread.ravel()[columns], n)
    cumulants = (
        side * rest_mean,
        rest_var,
        side * entries.sums(square * t, spread * (2 * rate - 1)),
        entries.sums(fourth, spread * (1 - 6 * spread)),
    )
    table = np.stack(cumulants, axis=1)
    whole = np.exp(table @ _WHOLE)
    # Single precision takes a fifth of the time; where the angle is large the height is small.
    height, phase = np.exp((table @ _REAL).astype(np.float32)), (table @ _IMAGINARY).astype(np.float32)
    real = height * np.cos(phase)
    if len(several):
        first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        mine = rows[first]
        factor, power = _products(side[rows] * removed, rate.ravel()[columns], first)
        real[mine] = real[mine] * factor.real - height[mine] * np.sin(phase[mine]) * factor.imag
        height[mine] *= np.abs(factor)
        whole[mine] *= power
    once, twice = whole[:, 0], whole[:, 1]
    apart = _SIZES.period - np.abs(mean)
    lower = 1 / (1 + np.exp(-apart))
    images = _IMAGE * (lower + once)
    value = np.where(twice <= _SIZES.tail * once, once, np.maximum(real @ _SHARE32 - images, 0.0))
    # By how much the lower image may be off, by Chebyshev's inequality.
    blurred = np.minimum(1 - lower + var / (apart * apart), 1.0)
    error = (
        _SIZES.remainder * left_out * (height @ _FIFTH32)
        + _BEYOND * height[:, 0]
        + _IMAGE * blurred
        + _IMAGE**3 * twice
    )
    return np.where(side > 0, value, 1 - value), error


def _products(
    t: Float[np.ndarray, " L"], rate: Float[np.ndarray, " L"], first: Int[np.ndarray, " r"]
) -> tuple[Complex[np.ndarray, "r M"], Float[np.ndarray, "r 2"]]:
    """``Π {η + (1 − η) e^{zt}}`` over the large entries of each row, which begin at ``first``; and at ``z`` = 1, 2."""
    turn = np.exp(1j * _STEP * t).astype(np.complex64)
    powers, size = np.ones((_SIZES.count, len(t)), dtype=np.complex64), 1
    while size < _SIZES.count:  # e^{iuₖt} by products of two before, which takes a quarter of the time of cosines
        more = min(size, _SIZES.count - size)
        np.multiply(powers[:more], turn, out=powers[size : size + more])
        turn, size = turn * turn, 2 * size
    keep, root = 1 - rate, np.exp(0.5 * t)
    powers *= (keep * root).astype(np.float32)
    powers += rate.astype(np.float32)
    once = root * root
    power = np.stack([rate + keep * once, rate + keep * once * once])
    return np.multiply.reduceat(powers, first, axis=1).T, np.multiply.reduceat(power, first, axis=1).T
