"""Interface of a marginalised loss.

A loss sees a label ``y`` and the two moments ``(m, v)`` of the score under the noise. Its marginalised form
``φ(y, m, v)`` equals the plain loss at ``v = 0``. There are up to three of them, chosen by ``expectation``:

``"augmentation"``
    Auxiliary variables, for the losses that have them, make the loss a Gaussian pseudo-observation
    ``exp(κ s − ½ ω s²)``, and Jensen's inequality with the variables profiled out bounds ``E loss`` from above (Chen,
    Zhu, Chen & Chen 2015; Polson & Scott 2011; Polson, Scott & Windle 2013). Convex in the weights.
``"gaussian"``
    ``E loss(s)`` for a normal score with moments ``(m, v)``: exact up to the central limit theorem (Wager, Wang &
    Liang 2013). Convex in the weights.
``"taylor"``
    ``loss(m) + ½ loss''(m) v``, the quadratic penalty of Wager, Wang & Liang (2013). Not convex in general: a fit
    starts from the fit without noise and descends to a local minimum.

The pseudo-observation of the augmentation is

    ω = 2 C ∂φ/∂v,      κ = ω m − C ∂φ/∂m,

in expectation for EM, and as a draw for Gibbs sampling. Methods use the namespace of the arrays, so that most accept
NumPy and JAX arrays.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from .._typing import AnyArray, Float, Num, Shaped
from .._validation import check_number, shown
from ..priors import HalfNormal, ScalePrior

__all__ = [
    "RULES",
    "Derivatives",
    "Loss",
    "LossOfForms",
    "NoisedScores",
    "Parameter",
    "Pseudo",
    "Responses",
    "ScoreCost",
    "Scores",
    "at_shape",
    "check_scale_setting",
    "choose_form",
    "learnt_scale",
    "special",
]

Scores: TypeAlias = Float[AnyArray, "*rows"]
"""One number per score, as a NumPy or JAX array; arrays of one call have one shape."""

Responses: TypeAlias = Num[AnyArray, "*rows"]
"""One response per score: a class, coded −1 or +1, or a number."""

Form = TypeVar("Form")


@dataclass(frozen=True)
class Rules:
    """Settings of expectations over normal scores, mainly their accuracy.

    Attributes
    ----------
    nodes, function_nodes : int
        Gauss-Hermite nodes of the cost of a row, and of a loss that is a user's function.
    reach, bisections, newton, step : float, int, int, float
        Maximum distance of the mode of a row from its mean score if scores are logarithms, numbers of steps of two
        methods that find it, and the difference, in standard deviations, from which a curvature is computed.
    fewest, batch : int
        Minimum and maximum number of rows in a call of a compiled function; rows are padded to a power of two.
    intervals : int
        Maximum subdivisions of the integral that normalises a user's function.
    tail, fraction : float, int
        Argument above which Mills' ratio is a continued fraction, which has all digits there, and its levels. Below,
        the cancellation of squares loses only a few digits.
    mixture : (int, float, float)
        Number of nodes of the mixture over Kolmogorov's distribution, smallest and largest node.
    series_below, terms : float, int
        Root ``√(m² + v)`` below which slopes of the logistic bound are series, and number of their terms.
    lowest : float
        Logit below which the likelihood of a class is constant.
    points, chunk : int
        Quasi-random points of a softmax, at least, and number of probabilities computed at a time: 2 MB.
    share : float
        Minimum mean share or count assumed for the start of a fit.
    """

    nodes: int = 15
    function_nodes: int = 32
    reach: float = 1000.0
    bisections: int = 10
    newton: int = 2
    step: float = 0.1
    fewest: int = 256
    batch: int = 1 << 15
    intervals: int = 200
    tail: float = 8.0
    fraction: int = 6
    mixture: tuple[int, float, float] = (20, 0.18, 4.0)
    series_below: float = 0.1
    terms: int = 6
    lowest: float = -80.0
    points: int = 128
    chunk: int = 1 << 18
    share: float = 1e-6


RULES = Rules()


class Derivatives(NamedTuple):
    """First and second derivatives of ``φ`` in the mean and the variance of the score, each shaped like the mean."""

    mean: Scores
    var: Scores
    mean_mean: Scores
    mean_var: Scores
    var_var: Scores


class ScoreCost(NamedTuple):
    """Cost of each row and its derivatives in the mean and the variance of the score, all of one shape."""

    value: Scores
    mean: Scores
    var: Scores


class Pseudo(NamedTuple):
    """Gaussian pseudo-observation ``exp(κ s − ½ ω s²)``; both shaped like the score, ``omega >= 0``."""

    omega: Scores
    kappa: Scores


class Parameter(NamedTuple):
    """Positive parameter of the likelihood besides the scores, learnt with the weights; ``t`` is its logarithm.

    Attributes
    ----------
    name : str
        Name of the variable in a posterior.
    field : str
        Name of the field of the loss that holds the number or its prior.
    prior : ScalePrior
        Prior of the parameter to the power of ``power``.
    degree : int
        Above 0 for a scale ``σ`` in units of the response: at the scale ``σ`` the loss is ``σ^{−degree}`` times that of
        scale 1, ``φ(σy, σm, σ²v) = σ^degree φ(y, m, v)``, and the density of a row has the factor ``1/σ``. 0 for a
        shape of ``φ``, whose mean response is a function of ``s + t``.
    power : float
        See ``prior``.
    relative : bool
        Whether the prior is in units of the standard deviation of the response.
    """

    name: str
    field: str
    prior: Any
    degree: int
    power: float = 1.0
    relative: bool = False


@runtime_checkable
class NoisedScores(Protocol):
    """Distributions of the noised scores of rows, by the expectations that expected responses need."""

    def mean(self) -> Float[AnyArray, ...]:
        """``E s``."""

    def log_exponential(self) -> Float[AnyArray, ...]:
        """``log E e^s``."""

    def sigmoid(self) -> Float[AnyArray, ...]:
        """``E σ(s)``."""


@runtime_checkable
class Loss(Protocol):
    """Protocol of a loss; a class that inherits it defines only what differs from the defaults.

    Arguments come in the order ``(y, mean, var)`` and share one shape. :mod:`bayesdrop.losses.protocols` has what only
    some methods need: derivatives for Newton's method, auxiliary variables for EM and Gibbs sampling.
    """

    binary: ClassVar[bool]
    """True if ``y`` is a class, coded −1 and +1; False if it is a number."""

    multiclass: ClassVar[bool] = False
    """True if ``y`` is one of ``K`` classes, coded 0 to K − 1, with a score for each: means are (n, K), and ``var``
    holds covariances (n, K, K). ``binary`` is False then."""

    piecewise_linear: ClassVar[bool] = False
    """True if the plain loss is not differentiable, so that solvers must smooth where the variance is zero."""

    quadratic: ClassVar[bool] = False
    """True if ``φ`` is quadratic in the mean and linear in the variance; the energy is then quadratic."""

    normalised: ClassVar[bool] = False
    """True if ``exp(−loss)`` is, up to a factor without the score, a density (or probability) of ``y``."""

    ratio: ClassVar[str] = ""
    """Name of ``exp(weight)``: ``"odds_ratio"`` if the score is the logarithm of odds, ``"rate_ratio"`` if it is that
    of an expected count up to a constant, and else empty."""

    @property
    def convex(self) -> bool:
        """True (default) if ``φ`` makes the energy convex in the weights."""
        return True

    @property
    def augmented(self) -> bool:
        """True if ``φ`` is the augmentation bound of :class:`bayesdrop.losses.protocols.Augmented`."""
        return False

    @property
    def separable(self) -> bool:
        """True if ``φ(y, m, v) − φ(y, m, 0)`` does not depend on ``y``, so that unlabelled rows have this term."""
        return False

    @property
    def score_is(self) -> str:
        """Name of the quantity that the score of a row represents, if ``y`` is a number."""
        return "expected response"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters of the likelihood that are learnt: one scale or shape at most; none by default."""
        return ()

    @property
    def plain(self) -> Loss:
        """Cheapest form of this loss for scores without noise; a learnt scale becomes 1."""
        return self

    @property
    def largest_count(self) -> float | None:
        """Largest count that ``y`` may be, possibly infinite; None if ``y`` is not a count."""
        return None

    @property
    def pairs(self) -> bool:
        """True if a response may be two counts, of successes and of failures, whose sum differs from row to row."""
        return False

    @property
    def exponential(self) -> bool:
        """True if ``φ`` is exactly ``E loss`` for ``v = 2 log E e^{s − m}``, which fits then use as the variance."""
        return False

    @abstractmethod
    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        """Marginalised loss ``φ(y, m, v)``."""

    def first_score(self, mean_response: Float[AnyArray, " K"]) -> Float[AnyArray, " K"]:
        """Score that a fit with an intercept starts from, given the mean response (K,); 0 by default."""
        return 0.0 * mean_response

    def votes(self, y: Responses) -> tuple[Shaped[AnyArray, "*rows"], Shaped[AnyArray, "*rows"]] | None:
        """Support of each response for a higher and for a lower score, from which the sign rule learns rates.

        A class supports one of the two. None for a response that supports a number: it has no sign rule.
        """
        return (y > 0, y < 0) if self.binary else None

    def exposure(self, offset: Scores) -> Scores:
        """Number of rows without an offset whose responses sum to that of a row with the offset; 1 by default.

        The support of the row for a lower score is multiplied by it.
        """
        return 0.0 * offset + 1.0

    def log_base_measure(self, y: Responses) -> Scores:
        """Term of ``log p(y | s) + loss`` that depends on ``y`` alone; 0 by default."""
        return 0.0 * y

    def expected_response(self, law: NoisedScores) -> Float[AnyArray, ...]:
        """Expected response of rows, given the distributions of their scores; the mean score by default."""
        return law.mean()


class LossOfForms(Loss):
    """A loss whose ``expectation`` names one of several forms: ``"augmentation"``, the augmentation bound, or others.

    The E-step of the bound follows from its derivatives, ``ω = 2C ∂φ/∂v`` and ``κ = ωm − C ∂φ/∂m``.
    """

    expectation: str

    @property
    def convex(self) -> bool:
        """See :class:`Loss`."""
        return self.expectation != "taylor"

    @property
    def augmented(self) -> bool:
        """See :class:`Loss`."""
        return self.expectation == "augmentation"

    @property
    def plain(self) -> Any:
        """See :class:`Loss`."""
        return self if self.augmented else replace(self, expectation="augmentation")  # type: ignore[type-var]  # its subclasses are dataclasses

    @abstractmethod
    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """Derivatives in ``(m, v)``; see :class:`bayesdrop.losses.protocols.Curved`."""

    def pseudo(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """E-step; see :class:`bayesdrop.losses.protocols.Augmented`."""
        slopes = self.derivatives(y, mean, var)
        omega = 2 * weight * slopes.var
        return Pseudo(omega, omega * mean - weight * slopes.mean)

    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """Zero, as for all classes and counts; see :class:`bayesdrop.losses.protocols.Simulated`."""
        return np.zeros(np.shape(weight))


def learnt_scale(setting: Any, field: str, degree: int) -> tuple[Parameter, ...]:
    """Parameter ``sigma`` of a loss whose setting is None or a prior; none if the setting is a number."""
    if isinstance(setting, float):
        return ()
    prior = HalfNormal(1.0) if setting is None else setting
    return (Parameter("sigma", field, prior, degree, relative=setting is None),)


def check_scale_setting(loss: Any, field: str, *kinds: type) -> None:
    """Raise an error unless the setting is None, a scale prior, an object of ``kinds``, or a number above 0.

    A number becomes a float. The annotation is not ``Loss``, because a check of this type would evaluate properties of
    the loss before it is complete.
    """
    setting = getattr(loss, field)
    if setting is None or isinstance(setting, (ScalePrior, *kinds)):
        return
    advice = "leave it out and bd.sample learns it, or give a prior of it"
    object.__setattr__(loss, field, float(check_number(setting, field, above=0, advice=advice)))


def at_shape(loss: Any, values: Mapping[str, Any]) -> Any:
    """Copy of the loss with arrays, which broadcast against scores, for the fields in ``values``."""
    changed = copy(loss)
    for field, value in values.items():
        object.__setattr__(changed, field, value)
    return changed


def special(name: str, *arrays: Any) -> Scores:
    """Apply a function of ``scipy.special``, or of ``jax.scipy.special`` if an array is not NumPy's."""
    is_numpy = all(isinstance(array, np.ndarray | np.generic | float) for array in arrays)
    return getattr(import_module("scipy.special" if is_numpy else "jax.scipy.special"), name)(*arrays)


def choose_form(forms: Mapping[str, Form], expectation: str, loss: str, advice: str = "") -> Form:
    """Return the form named ``expectation``, or raise ValueError that lists the forms."""
    if not isinstance(expectation, str) or expectation not in forms:
        raise ValueError(f"expectation: expected one of {sorted(forms)} for {loss}, got {shown(expectation)}.{advice}")
    return forms[expectation]
