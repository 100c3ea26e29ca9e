"""Define the interface of a feature noise: five coefficients per feature.

Independent noise on each feature has ``E[x̃ | x] = g x + h`` and ``Var[x̃ | x] = a x² + b x + c``: a quadratic
variance function. A noise never sees the matrix, and a matrix never sees the noise.

A multiplicative noise may be centred, ``x̃ = c + α(x − c)``, so that a dropped entry takes the value ``c``. All methods
then apply to ``x − c``, which is their argument. With ``c = 0`` it is the published noise. Zero is the natural value of
an absent word or a dark pixel; but the mean radius of a cell nucleus is never near zero, and a noise that sets it to
zero makes a value that no row has. A noise never sees the columns; :mod:`bayesdrop.fitting.objective.centring` finds
``c``, and the design computes ``X − c``.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from .._typing import AnyArray, Float
from .._validation import check_numbers, shown

__all__ = [
    "Coefficients",
    "Expansion",
    "MaskNoise",
    "Noise",
    "RateArray",
    "centre_of",
    "check_centre",
    "require_zero_centre",
    "AUTO",
    "MEAN",
]

RateArray: TypeAlias = Float[AnyArray, "..."]
"""Dropout rates of features (p,), or of features and problems (p, K), of any array library."""


class Coefficients(NamedTuple):
    """``E[x̃|x] = gain·x + shift``, ``Var[x̃|x] = quadratic·x² + linear·x + constant``; shaped like the rate."""

    gain: Any
    shift: Any
    quadratic: Any
    linear: Any
    constant: Any


class Expansion(NamedTuple):
    """Terms after the variance in the logarithm of the characteristic function, and a bound on the tails.

    For a noised entry and real ``u``, with ``i² = −1`` and ``(a, b, c) = powers``,

        log E exp{iu(x̃ − E x̃)} = −½ Var u² − (i/6) third x^a u³ + (1/24) fourth x^b u⁴ + r,
        |exp(r) − 1| <= exp(remainder |x|^c |u|⁵) − 1,

    and a sum of independent ``w_d (x̃_d − E x̃_d)`` is beyond ``√(2VL) + tail_scale max|w_d| L`` on either side with a
    probability of at most ``e^{−L}``, where ``V`` is the sum of ``proxy x² w²``, or the variance if ``proxy`` is None.

    Attributes
    ----------
    third, fourth, remainder : array
        Coefficients, shaped like the rate.
    powers : tuple of three int
        Powers of ``x`` of these terms.
    proxy : array or None
        Variance, at ``x = 1``, of a normal distribution whose moment-generating function bounds that of the noise.
    tail_scale : float
        Scale of exponential tails; 0 if the tails fall like a normal distribution's.
    """

    third: Any
    fourth: Any
    remainder: Any
    powers: tuple[int, int, int]
    proxy: Any
    tail_scale: float


@runtime_checkable
class Noise(Protocol):
    """Protocol of a noise. ``rate`` is the dropout rate per feature, ignored if ``has_rate`` is false."""

    has_rate: ClassVar[bool]
    """True if the noise depends on dropout rates, which may then be learnt."""

    @property
    def centre(self) -> Any:
        """Centre of the noise, or None; see :mod:`bayesdrop.noise.base`. A class attribute None is enough."""

    def coefficients(self, rate: RateArray) -> Coefficients:
        """Coefficients of the quadratic variance function, each shaped like ``rate``."""

    def expansion(self, rate: RateArray) -> Expansion:
        """Third and fourth cumulants and a bound of the remainder, shaped like ``rate``; see :class:`Expansion`."""

    def check(self, minimum: float) -> None:
        """Raise ValueError if data whose smallest entry is ``minimum`` lie outside the domain of the noise."""

    def sample(self, generator: Any, x: Any, rate: RateArray) -> Any:
        """Corrupt ``x`` once with a :class:`numpy.random.Generator`; same shape as ``x``."""

    def log_mgf(self, t: Any, x: Any, rate: RateArray) -> Any:
        """Log-moment-generating function ``log E[exp(t x̃) | x]``, elementwise, for ``|t|`` below :meth:`mgf_limit`.

        A noise without rates also accepts imaginary ``t``, for the logarithm of the characteristic function.
        """

    def log_mgf_slope(self, t: Any, x: Any, rate: RateArray) -> Any:
        """Derivative of :meth:`log_mgf` in ``t``, elementwise: mean of ``x̃`` under the law tilted by ``exp(tx̃)``."""

    def mgf_limit(self) -> float:
        """Bound that ``|t|`` must stay below for :meth:`log_mgf` to be finite; infinite if there is none."""


@runtime_checkable
class MaskNoise(Noise, Protocol):
    """Protocol of a noise with dropout rates, also for rates so near 1 that ``1 − η`` loses all digits."""

    def coefficients(self, rate: RateArray, keep: RateArray | None = None) -> Coefficients:
        """Coefficients of the quadratic variance function; ``keep`` is a more accurate ``1 − η``, if known."""

    def log_multiplier(self, logit: Any) -> Any:
        """Logarithm of the factor on a kept entry, ``log k(η)``, from ``log η − log(1 − η)``, elementwise."""


AUTO, MEAN = "auto", "mean"


def check_centre(centre: Any) -> None | str | tuple[float, ...]:
    """Return None, "mean", "auto" or a tuple of finite numbers; raise ValueError on anything else.

    Examples
    --------
    >>> import numpy as np
    >>> check_centre(np.array([1.0, 0.0])), check_centre("mean")
    ((1.0, 0.0), 'mean')
    """
    if centre is None or (isinstance(centre, str) and centre in (AUTO, MEAN)):
        return centre
    expected = 'None, "mean", "auto" or one finite number for each feature, shape (p,)'
    value = check_numbers(centre, "centre", expected)
    if value.ndim != 1 or value.size == 0 or not np.all(np.isfinite(value)):
        raise ValueError(f"centre: expected {expected}, got {shown(centre)}.")
    return tuple(value.tolist())


def centre_of(noise: Any) -> Any:
    """Centre (p,) of a noise as numbers; None if it is zero, or not yet computed.

    Examples
    --------
    >>> from bayesdrop.noise import Dropout
    >>> centre_of(Dropout(centre=[1.0, 0.0])), centre_of(Dropout())
    (array([1., 0.]), None)
    """
    return np.array(noise.centre) if isinstance(noise.centre, tuple) else None


def require_zero_centre(noise: Any, what: str) -> None:
    """Raise ValueError if the user chose a centre other than 0, which ``what`` does not support.

    Examples
    --------
    >>> from bayesdrop.noise import Dropout
    >>> require_zero_centre(Dropout(), "the hidden layer")
    >>> require_zero_centre(Dropout(centre="mean"), "the hidden layer")
    Traceback (most recent call last):
    ...
    ValueError: centre: the hidden layer has noise about 0 only, ...
    """
    if noise.centre is not None and noise.centre != AUTO:
        raise ValueError(
            f"centre: {what} has noise about 0 only, got {noise!r}; subtract the centre from the columns of X before, "
            "which is the same with an intercept, and leave centre out."
        )
