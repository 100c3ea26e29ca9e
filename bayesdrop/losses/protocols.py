"""Optional abilities of a loss, beyond :class:`bayesdrop.losses.base.Loss`, that some methods need.

=========================  ==========================================================================================
:class:`Curved`            Newton's method, online fits, HMC on ``exp(−U)``
:class:`Sloped`            hidden layers, HMC without noise
:class:`Augmented`         EM, Gibbs sampling, variational Bayes
:class:`Scored`            masks integrated as if scores were normal: HMC on the noising model, log-likelihoods
:class:`Simulated`         posterior predictive draws, log-likelihoods
:class:`Classifying`       class probabilities
:class:`DirectLikelihood`  optional; Gibbs sampling is faster with it
:class:`PiecewiseLinear`   optional; it gives point fits a dual problem, with a bound of the suboptimality
=========================  ==========================================================================================

A method that needs an ability checks for it once, by :func:`require`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from .._typing import AnyArray, Float
from .base import Derivatives, Loss, Pseudo, Responses, ScoreCost, Scores
from .positive_part import Form

__all__ = [
    "Augmented",
    "Classifying",
    "Curved",
    "DirectLikelihood",
    "Interval",
    "PiecewiseLinear",
    "Scored",
    "Simulated",
    "Sloped",
    "likelihood_of",
    "one_score",
    "require",
]

Ability = TypeVar("Ability")


@runtime_checkable
class Curved(Loss, Protocol):
    """A loss with derivatives of its marginalised form."""

    @abstractmethod
    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        """First and second derivatives of ``φ``, finite, also at ``v = 0`` unless the loss is piecewise linear."""


class Interval(NamedTuple):
    """``c φ = max { β(t − s) − e|β| : l <= β <= u }``: centre ``t``, ends ``l`` and ``u``, width ``e``, (n,) each."""

    centre: Float[AnyArray, ...]
    low: Float[AnyArray, ...]
    high: Float[AnyArray, ...]
    width: Float[AnyArray, ...]


@runtime_checkable
class PiecewiseLinear(Loss, Protocol):
    """A loss whose plain form is the maximum over an interval of functions linear in the score."""

    @property
    @abstractmethod
    def form(self) -> Form:
        """Expectation of the positive parts whose sum is the loss."""

    @abstractmethod
    def interval(self, y: Responses, weight: Float[AnyArray, ...]) -> Interval:
        """Interval of the plain loss times ``c``, for responses and ``c`` of one shape."""


@runtime_checkable
class Sloped(Loss, Protocol):
    """A loss whose plain form is cheap to evaluate."""

    @abstractmethod
    def plain_value_and_slope(self, y: Responses, score: Scores) -> tuple[Scores, Scores]:
        """Plain loss of each score and its derivative, with shared intermediate results: samplers use it most."""


@runtime_checkable
class Augmented(Sloped, Protocol):
    """A loss with auxiliary variables, which make it a Gaussian pseudo-observation ``exp(κ s − ½ ω s²)``.

    Both methods belong to the form whose ``augmented`` is True.
    """

    @property
    def plain(self) -> Augmented:
        """The loss itself in the form of the augmentation bound."""
        return self

    @abstractmethod
    def pseudo(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """Expected pseudo-observation (E-step); ``weight`` is ``C`` times the sample weight."""

    @abstractmethod
    def sample_pseudo(self, key: Any, y: Responses, mean: Scores, var: Scores, weight: Any) -> Pseudo:
        """Draw of the pseudo-observation ``exp{κ m − ½ ω (m² + v)}`` given the moments of the score (Gibbs step, JAX).

        Its mixture is ``exp(−C φ)`` of the augmentation bound, at ``v = 0`` the plain ``exp(−C loss)``.
        """


@runtime_checkable
class Scored(Sloped, Protocol):
    """A loss whose likelihood has an expectation under normal scores."""

    @abstractmethod
    def score_cost(self, y: Responses, mean: Scores, var: Scores, weight: Any) -> ScoreCost:
        """``−log E exp{−C loss(y, s)}`` of a normal score, and its slopes: the cost of a row with masks integrated out.

        It uses the plain loss, whatever the ``expectation``, and ``C`` for ``weight``. A smooth loss may call
        :func:`bayesdrop.losses.normal_score.by_quadrature`.
        """


@runtime_checkable
class Simulated(Loss, Protocol):
    """A loss with a distribution of ``y`` given the score: ``exp(−C loss(y, s))``, normalised."""

    @abstractmethod
    def sample_response(self, generator: Any, score: Scores, weight: Any) -> Scores:
        """Draw ``y`` given the score with a :class:`numpy.random.Generator`; float, shaped like ``score``.

        The density is ``exp(−C loss(y, s))`` over its sum (two classes) or integral (numbers); ``weight`` is ``C``, a
        number or an array that broadcasts against the score. The logistic loss is a likelihood at ``C = 1``: its
        ``C`` tempers the posterior only, and a new label has the probability ``σ(s)`` for every ``C``.
        """

    @abstractmethod
    def log_constant(self, weight: Any) -> Float[AnyArray, ...]:
        """``log`` of the constant that makes ``exp(−C loss)`` a density of a number ``y``; 0 for classes and counts."""


@runtime_checkable
class Classifying(Simulated, Protocol):
    """A loss of two classes with a probability of each."""

    @abstractmethod
    def probability(self, score: Scores, weight: Any) -> Scores:
        """Probability of ``y = +1`` given the score, as ``sample_response`` draws it.

        ``weight`` is ``C``, a number or an array that broadcasts against the score.
        """

    @abstractmethod
    def expected_probability(self, mean: Scores, var: Scores, weight: float) -> Scores:
        """Expectation of :meth:`probability` for a normal score of the given moments."""


@runtime_checkable
class DirectLikelihood(Sloped, Protocol):
    """A loss whose likelihood has a cheaper formula than ``exp(−loss)``, with a finite logarithm at any score."""

    @abstractmethod
    def plain_likelihood(self, y: Responses, score: Scores) -> Scores:
        """``exp(−loss)`` of the plain loss; samplers use it if every weight is 1."""


def require(loss: Loss, ability: type[Ability], user: str, advice: str) -> Ability:
    """Return the loss, or raise ValueError if it lacks an ability that ``user`` needs; the message ends in ``advice``.

    Examples
    --------
    >>> from bayesdrop.losses import Hinge, Squared
    >>> require(Hinge(), Classifying, "predict_proba", "use predict")
    Hinge(margin=1.0, expectation='augmentation')
    >>> require(Squared(), Classifying, "predict_proba", "use predict")
    Traceback (most recent call last):
    ValueError: loss: predict_proba needs a loss that is Classifying (bayesdrop.losses.protocols), and Squared has no
    probability, expected_probability; use predict.
    """
    if isinstance(loss, ability):
        return cast(Ability, loss)
    asked = [name for kind in ability.__mro__ for name in vars(kind) if not name.startswith("_")]
    missing = ", ".join(dict.fromkeys(name for name in asked if not hasattr(loss, name)))
    raise ValueError(
        f"loss: {user} needs a loss that is {ability.__name__} ({ability.__module__}), and {type(loss).__name__} has "
        f"no {missing}; {advice}."
    )


def one_score(loss: Loss, user: str, advice: str) -> None:
    """Raise ValueError if a row has one score per class; the message ends in ``advice``.

    Examples
    --------
    >>> from bayesdrop.losses import Softmax
    >>> one_score(Softmax(), "bd.variational", "bd.sample draws from the posterior")
    Traceback (most recent call last):
    ValueError: loss: bd.variational takes one score a row, and Softmax(expectation='taylor') has one for every class;
    bd.sample draws from the posterior.
    """
    if loss.multiclass:
        raise ValueError(f"loss: {user} takes one score a row, and {loss!r} has one for every class; {advice}.")


def likelihood_of(loss: Loss) -> Callable[[Any, Any], Any] | None:
    """``plain_likelihood`` of a loss that has it; None for other losses."""
    return loss.plain_likelihood if isinstance(loss, DirectLikelihood) else None
