"""What a marginalised loss must offer.

A loss sees a label ``y`` and the two moments ``(m, v)`` of the score under the noise. Its marginalised form
``φ(y, m, v)`` equals the plain loss at ``v = 0``. There are up to three of them, chosen by ``bound``:

``"augmentation"``
    The bound of the papers: auxiliary variables make every loss a Gaussian pseudo-observation
    ``exp(κ s − ½ ω s²)``, and Jensen's inequality with the variables profiled out bounds ``E loss`` from above (Chen,
    Zhu, Chen & Chen 2015; Polson & Scott 2011; Polson, Scott & Windle 2013). Convex in the weights.
``"gaussian"``
    ``E loss(s)`` for a normal score with moments ``(m, v)``: exact up to the central limit theorem (Wager, Wang &
    Liang 2013, section 4). Convex in the weights.
``"taylor"``
    ``loss(m) + ½ loss''(m) v``, the quadratic penalty of Wager, Wang & Liang (2013, eq. 7). Not convex: a fit starts
    from the one without noise and goes downhill from there.

The pseudo-observation of the augmentation is

    ω = 2 C ∂φ/∂v,      κ = ω m − C ∂φ/∂m,

taken in expectation by EM and drawn by Gibbs. All methods are written against the array's own namespace, so NumPy and
JAX arrays both work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

__all__ = ["Derivatives", "Loss", "Pseudo", "ScoreCost", "choose", "is_finite_number", "misplaced_bound", "pseudo_from"]

Array = Any
Form = TypeVar("Form")


class Derivatives(NamedTuple):
    """First and second derivatives of ``φ`` in the mean and the variance of the score, each shaped like the mean."""

    mean: Array
    var: Array
    mean_mean: Array
    mean_var: Array
    var_var: Array


class ScoreCost(NamedTuple):
    """Cost of each row and its derivatives in the mean and the variance of the score; one shape."""

    value: Array
    mean: Array
    var: Array


class Pseudo(NamedTuple):
    """Gaussian pseudo-observation ``exp(κ s − ½ ω s²)``; both shaped like the score, ``omega >= 0``."""

    omega: Array
    kappa: Array


@runtime_checkable
class Loss(Protocol):
    """Protocol of a loss; arguments come in the order ``(y, mean, var)`` and share one shape."""

    kinked: ClassVar[bool]
    """True if the plain loss is not differentiable, so that solvers must smooth where the variance is zero."""

    quadratic: ClassVar[bool]
    """True if ``φ`` is quadratic in the mean and linear in the variance; the energy is then quadratic."""

    binary: ClassVar[bool]
    """True if ``y`` is a class, coded −1 and +1; False if it is a number."""

    normalised: ClassVar[bool]
    """True if ``exp(−loss)`` is, up to a constant, a density (or probability) of ``y`` whatever the score."""

    @property
    def convex(self) -> bool:
        """True if ``φ`` makes the energy convex in the weights."""

    @property
    def augmented(self) -> bool:
        """True if ``φ`` is the augmentation bound, which EM needs."""

    @property
    def separable(self) -> bool:
        """True if ``φ(y, m, v) − φ(y, m, 0)`` does not depend on ``y``, so that rows without labels have it too."""

    @property
    def variance_prior(self) -> Any:
        """Prior of an unknown noise variance ``1/C``, or None."""

    @property
    def plain(self) -> Loss:
        """The same loss in the form that costs least, for scores without noise."""

    def value(self, y: Array, mean: Array, var: Array) -> Array:
        """Marginalised loss ``φ(y, m, v)``."""

    def derivatives(self, y: Array, mean: Array, var: Array) -> Derivatives:
        """Closed-form first and second derivatives of ``φ``."""

    def plain_value_and_slope(self, y: Array, score: Array) -> tuple[Array, Array]:
        """Plain loss of each score and its derivative, sharing what they can: what samplers evaluate most.

        A loss may also have ``plain_likelihood(y, score)``, the exponential of minus it, where that is cheaper than by
        way of the loss and has a finite logarithm at any score; samplers then take it where every weight is 1.
        """

    def score_cost(self, y: Array, mean: Array, var: Array, weight: Array) -> ScoreCost:
        """``−log E exp{−C loss(y, s)}`` of a normal score and its slopes: a row whose masks are integrated.

        The plain loss, whatever the ``bound``; a smooth loss may leave it to
        :func:`bayesdrop.losses.normal_score.by_quadrature`.
        """

    def pseudo(self, y: Array, mean: Array, var: Array, weight: Array) -> Pseudo:
        """Expected pseudo-observation (E-step); ``weight`` is ``C`` times the sample weight."""

    def sample_pseudo(self, key: Array, y: Array, mean: Array, var: Array, weight: Array) -> Pseudo:
        """Draw of the pseudo-observation ``exp{κ m − ½ ω (m² + v)}`` given the moments of the score (Gibbs step, JAX).

        Its mixture is ``exp(−C φ)`` of the augmentation bound, at ``v = 0`` the plain ``exp(−C loss)``.
        """

    def sample_response(self, generator: Any, score: Array, weight: Any) -> Array:
        """Draw ``y`` given the score with a :class:`numpy.random.Generator`; float, shaped like ``score``.

        The density is ``exp(−C loss(y, s))`` over its sum (two classes) or integral (numbers); ``weight`` is ``C``, a
        number or an array that broadcasts against the score. The logistic loss is a likelihood at ``C = 1``: its
        ``C`` tempers the posterior, and a new label has the probability ``σ(s)`` whatever it is.
        """

    def log_constant(self, weight: Any) -> Array:
        """``log`` of the constant that makes ``exp(−C loss)`` a density of a number ``y``; 0 for classes."""

    def probability(self, score: Array, weight: Any) -> Array:
        """Probability of ``y = +1`` given the score, that of :meth:`sample_response`; binary losses only.

        ``weight`` is ``C``, a number or an array that broadcasts against the score.
        """

    def expected_probability(self, mean: Array, var: Array, weight: float) -> Array:
        """Expectation of :meth:`probability` for a normal score of the given moments; binary losses only."""


def is_finite_number(value: Any) -> bool:
    """True for a finite real number; booleans and text are none.

    Examples
    --------
    >>> is_finite_number(0.5), is_finite_number("0.5"), is_finite_number(True)
    (True, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def misplaced_bound(value: Any, forms: Mapping[str, Any]) -> str:
    """Advice where the name of a form came as the first setting, which is another; empty otherwise.

    Examples
    --------
    >>> misplaced_bound("gaussian", {"gaussian": None})
    ' The bound goes by its name: bound="gaussian".'
    """
    return f' The bound goes by its name: bound="{value}".' if isinstance(value, str) and value in forms else ""


def choose(forms: Mapping[str, Form], bound: str, loss: str, advice: str = "") -> Form:
    """Return the form of the given name, or raise ValueError that lists the forms there are."""
    if bound not in forms:
        raise ValueError(f"bound: expected one of {sorted(forms)} for {loss}, got {bound!r}.{advice}")
    return forms[bound]


def pseudo_from(slopes: Derivatives, mean: Array, weight: Array) -> Pseudo:
    """``(ω, κ)`` by the generic identity."""
    omega = 2 * weight * slopes.var
    return Pseudo(omega, omega * mean - weight * slopes.mean)
