r"""Average the logistic function over the masks of rows of a dense table.

With ``s = b + Σ_d α_d t_d``, each ``α_d`` one with probability ``1 − η_d`` and else zero, and ``K(z) = log E e^{zs}``,

    E σ(s) = ∫₀^∞ Re e^{K(½ + iu)} / cosh(πu) du,

because ``e^{−s/2} σ(s) = 1/(2 cosh(s/2))`` is its own Fourier transform up to scales; if ``E s > 0`` it is ``1 − E
σ(−s)``. The factor ``e^{s/2}`` makes errors small for small probabilities. The sum over ``u = 0, h, 2h, …`` with ``h =
2π/P`` has the images ``e^{−P/2} E σ(s + P)`` and ``e^{−P/2} E e^s σ(P − s)`` too, which are nearly ``e^{−P/2} σ(E s +
P)`` and ``e^{−P/2} E e^s`` and are subtracted. Far below 0 the probability is ``E e^s``, minus at most ``E e^{2s}``.

``K`` is a sum over the entries. A large one has ``log(η + (1 − η) e^{zt})``, exactly; of the small ones, which are
most, four cumulants are summed by products with powers of the matrix, and what follows them is about ``Σ |t|⁵ η(1 −
η)|z|⁵/80`` at most (:class:`bayesdrop.noise.Expansion`, where ``z`` is imaginary and it is a bound). The size of
a large entry depends on the number of entries of the row, and on the distance of the score from 0. The omitted terms
are summed into an estimate of the error; a row whose estimate is above :data:`TOLERANCE` is left to the quadrature for
any distribution (:mod:`.quadrature`), which takes ten times as long.

Shapes: ``n`` rows, ``p`` columns, ``S`` draws, ``M`` values of ``z``, ``L`` large entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex
from scipy.special import factorial

from ..._typing import Float, Int
from ..draws.draws import blocks

__all__ = ["TOLERANCE", "average_logistic"]

TOLERANCE = 1e-4
"""Maximum estimated error of a probability."""


@dataclass(frozen=True)
class Limits:
    """Sizes and limits of the sum.

    Attributes
    ----------
    period, count : float, int
        Period of the summed function, and number of nodes.
    remainder : float
        Factor of the bound on the terms after the fourth cumulant.
    parts : int
        An entry is large if its omitted terms exceed the total allowed divided by this number.
    most_scale : float
        Maximum logarithm of the factor on the total allowed, for scores far from 0.
    tail : float
        Maximum of ``E e^{2s}/E e^s``, the relative error of ``E e^s`` as the probability.
    cache : int
        Share of the maximum array size for a block of rows.
    """

    period: float = 20.0
    count: int = 14
    remainder: float = 1 / 80
    parts: int = 4
    most_scale: float = 4.0
    tail: float = 1e-4
    cache: int = 16


LIMITS = Limits()
_STEP = 2 * np.pi / LIMITS.period
_U = _STEP * np.arange(LIMITS.count)
_Z = 0.5 + 1j * _U
_SHARE = _STEP / np.cosh(np.pi * _U) * np.where(_U == 0, 0.5, 1.0)
_FIFTH = _SHARE * np.abs(_Z) ** 5
_FIFTH32 = _FIFTH.astype(np.float32)
# Factors of the cumulants in K(z), for the nodes and for z = 1 and 2.
_ORDERS = np.arange(1, 5)[:, None]
_POWERS, _WHOLE = (z**_ORDERS / factorial(_ORDERS) for z in (_Z, np.array([1.0, 2.0])))
_REAL, _IMAGINARY = np.ascontiguousarray(_POWERS.real), np.ascontiguousarray(_POWERS.imag)
_IMAGE, _BEYOND = float(np.exp(-LIMITS.period / 2)), float(2 / np.pi * np.exp(-np.pi * (_U[-1] + _STEP / 2)))
# Total allowed for omitted terms, as a sum of fifth powers: four fifths of the tolerance.
_ALLOWED = 0.8 * TOLERANCE / (LIMITS.remainder * float(_FIFTH.sum()))


def average_logistic(
    X: Float[np.ndarray, "n p"],
    weight: Float[np.ndarray, "S p"],
    rate: Float[np.ndarray, "S p"],
    level: Float[np.ndarray, "n S"],
) -> tuple[Float[np.ndarray, "n S"], Float[np.ndarray, "n S"]]:
    """Average ``σ(s)`` of each row and draw, and estimate the error.

    Parameters
    ----------
    X : array (n, p)
        Rows.
    weight : array (S, p)
        Factor on a kept entry.
    rate : array (S, p)
        Probability that an entry is dropped.
    level : array (n, S)
        ``b``, the part of the score without masks.

    Returns
    -------
    value, error : array (n, S)
        Discard a value whose error is not below :data:`TOLERANCE`, or NaN.

    Examples
    --------
    >>> one = np.array([[1.0]])
    >>> value, error = average_logistic(one, 2 * one, 0.5 * one, -one)
    >>> bool(abs(value[0, 0] - 0.5) < error[0, 0] < TOLERANCE)
    True
    """
    value, error = np.empty((2, *level.shape))
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        for rows in blocks(len(X), LIMITS.cache * X.shape[1]):
            for j in range(len(weight)):
                t, b = X[rows] * weight[j], level[rows, j]
                means, errors = _average(t.copy(), rate[j], b, 1.0)
                poor = np.flatnonzero(~(errors <= TOLERANCE))
                if len(poor):  # treat every entry of these rows as large
                    means[poor], errors[poor] = _average(t[poor], rate[j], b[poor], 0.0)
                value[rows, j], error[rows, j] = means, errors
    return value, error


def _average(
    t: Float[np.ndarray, "n p"], rate: Float[np.ndarray, " p"], level: Float[np.ndarray, " n"], share: float
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    keep = 1 - rate
    spread = rate * keep
    square = t * t
    mean, var = t @ keep + level, square @ spread
    fourth = square * square
    fifth = fourth * np.abs(t)
    left_out = fifth @ spread
    # Approximate |e^{K(z)}| by its size at ½ and its decrease for large |z|⁵.
    scale = np.exp(np.minimum(0.5 * np.abs(mean) - var / 8, LIMITS.most_scale))
    fall = 1 + 0.75 * np.minimum(var, 4.0)
    allowed = share * scale * fall * np.sqrt(fall) * _ALLOWED
    side = np.where(mean > 0, -1.0, 1.0)
    rest_mean, rest_var, several = mean, var, np.flatnonzero(~(left_out <= allowed))
    if len(several):
        row, columns = np.nonzero(~(fifth[several] * spread <= allowed[several, None] / LIMITS.parts))
        large = rows, columns = several[row], columns
        removed, n = t[large], len(mean)
        left_out = left_out - np.bincount(rows, fifth[large] * spread[columns], n)
        for part in (t, square, fourth):
            part[large] = 0.0
        rest_mean = mean - np.bincount(rows, removed * keep[columns], n)
        rest_var = var - np.bincount(rows, removed * removed * spread[columns], n)
    cumulants = (
        side * rest_mean,
        rest_var,
        side * ((square * t) @ (spread * (2 * rate - 1))),
        fourth @ (spread * (1 - 6 * spread)),
    )
    table = np.stack(cumulants, axis=1)
    whole = np.exp(table @ _WHOLE)
    # Single precision takes a fifth of the time; terms with a large angle are small.
    height, phase = np.exp((table @ _REAL).astype(np.float32)), (table @ _IMAGINARY).astype(np.float32)
    real = height * np.cos(phase)
    if len(several):
        first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
        row_numbers = rows[first]
        factor, power = _products(side[rows] * removed, rate[columns], first)
        real[row_numbers] = (
            real[row_numbers] * factor.real - height[row_numbers] * np.sin(phase[row_numbers]) * factor.imag
        )
        height[row_numbers] *= np.abs(factor)
        whole[row_numbers] *= power
    once, twice = whole[:, 0], whole[:, 1]
    apart = LIMITS.period - np.abs(mean)
    lower = 1 / (1 + np.exp(-apart))
    images = _IMAGE * (lower + once)
    value = np.where(twice <= LIMITS.tail * once, once, np.maximum(real.astype(np.float64) @ _SHARE - images, 0.0))
    # Bound the error of the lower image by Chebyshev's inequality.
    blurred = np.minimum(1 - lower + var / (apart * apart), 1.0)
    error = (
        LIMITS.remainder * left_out * (height @ _FIFTH32)
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
    powers, size = np.ones((LIMITS.count, len(t)), dtype=np.complex64), 1
    while size < LIMITS.count:  # e^{iuₖt} by products of two before, which takes a quarter of the time of cosines
        more = min(size, LIMITS.count - size)
        np.multiply(powers[:more], turn, out=powers[size : size + more])
        turn, size = turn * turn, 2 * size
    keep, root = 1 - rate, np.exp(0.5 * t)
    powers *= (keep * root).astype(np.float32)
    powers += rate.astype(np.float32)
    once = root * root
    power = np.stack([rate + keep * once, rate + keep * once * once])
    return np.multiply.reduceat(powers, first, axis=1).T, np.multiply.reduceat(power, first, axis=1).T
