r"""Interface of a rate prior: a law of the log-odds, and its update by counts.

A rate ``η`` is held as its logit ``l = log η − log(1 − η)``, which resolves both ends in any precision. Of ``d``
entries dropped and ``k`` kept, in weighted numbers, the likelihood is ``η^d (1 − η)^k``, so that

    log p(l | d, k) = log p(l) + d log η + k log(1 − η) + constant.

A :class:`RatePrior` is what a user writes. Bound to the number of times that each rate applies it is a
:class:`RateLaw`, and given counts an :class:`UpdatedRateLaw`. Laws are named tuples of arrays, which compiled functions
take as operands: other numbers compile nothing anew. A conjugate prior gives its updates in closed form
(:mod:`.beta_law`); for the others :class:`bayesdrop.priors.counted_law.CountedLaw` integrates over the logit.

Shapes: ``k`` free rates; further axes are problems, chains or features. Importing a prior does not import JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from .._typing import AnyArray, Float, Num

__all__ = ["RateLaw", "RatePrior", "UpdatedRateLaw", "log_rates", "map_arrays", "spread_over_rates"]

Law = TypeVar("Law")


@runtime_checkable
class UpdatedRateLaw(Protocol):
    """Law of free rates given counts, independent across rates: a named tuple of arrays, (k, ...) each."""

    def log_density(self, logit: Float[AnyArray, "*law"]) -> Float[AnyArray, "*law"]:
        """``log p(l)`` up to a constant at logits shaped like the law, elementwise; NumPy or JAX."""

    def width(self) -> Float[AnyArray, "*law"]:
        """Four to six standard deviations of the logit, for a slice sampler's first interval; NumPy or JAX."""

    def mode(self) -> Float[np.ndarray, "*law"]:
        """The learnt rate: the most likely one on the scale of the prior; in the closed [0, 1]."""

    def mean(self) -> Float[np.ndarray, "*law"]:
        """``E η``."""

    def interval(self, probability: float) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
        """Ends of the interval of highest density of that probability, on the scale of the mode, which it holds."""

    def expected_logs(self) -> tuple[Float[np.ndarray, "*law"], Float[np.ndarray, "*law"]]:
        """``E log η`` and ``E log(1 − η)``."""

    def divergence(self, prior: Any) -> Float[np.ndarray, "*law"]:
        """``KL(self ‖ prior)`` in natural logarithms, ``prior`` being the law that the counts were given to."""

    def log_odds(self) -> Float[np.ndarray, "*law"]:
        """A number without bounds that says where the law lies, for an extrapolation of its updates."""

    def with_log_odds(self, log_odds: Float[np.ndarray, "*law"]) -> Any:
        """The law of the same total count whose :meth:`log_odds` are these."""

    def sample(self, generator: np.random.Generator, draws: int) -> Float[np.ndarray, "draws ..."]:
        """Independent draws of the rates."""

    def constants(self) -> dict[str, Float[np.ndarray, "*law"]]:
        """What a result stores of the law, by name."""


@runtime_checkable
class RateLaw(Protocol):
    """Prior law of free rates, independent across rates: a named tuple of arrays, (k,) or (k, K) each.

    ``log p(l)`` is concave in the logit, so that whatever the counts there is one mode, and counts only narrow it.
    """

    def log_density(self, logit: Float[AnyArray, "*law"]) -> Float[AnyArray, "*law"]:
        """As :meth:`UpdatedRateLaw.log_density`."""

    def log_rate_density(
        self, log_rate: Float[AnyArray, "*law"], log_rest: Float[AnyArray, "*law"]
    ) -> Float[AnyArray, "*law"]:
        """Log density ``log p(l) − log η − log(1 − η)`` of the rate itself, from ``log η`` and ``log(1 − η)``."""

    def width(self) -> Float[AnyArray, "*law"]:
        """As :meth:`UpdatedRateLaw.width`."""

    def given(self, dropped: Float[AnyArray, "*law"], occurrences: Float[AnyArray, "*law"]) -> Any:
        """The :class:`UpdatedRateLaw` given so many of the occurrences dropped, shaped like the law; NumPy or JAX."""

    def draw_logit(self, key: Any) -> Any:
        """Logits drawn by a key of JAX, shaped like the law."""

    def quantile(self, probability: Any) -> Float[np.ndarray, "*law"]:
        """Rate below which lies the probability, one number or an array that broadcasts to the law."""

    def sample(self, generator: np.random.Generator, draws: int) -> Float[np.ndarray, "draws ..."]:
        """Independent draws of the rates."""

    def constants(self) -> dict[str, Float[np.ndarray, "*law"]]:
        """What a posterior stores of the prior, by name; :meth:`RatePrior.stored_law` reads it."""


@runtime_checkable
class RatePrior(Protocol):
    """Protocol of a prior of dropout rates."""

    @property
    def relative(self) -> bool:
        """True if the strength of the prior depends on how often a rate applies."""

    def law(self, occurrences: Num[np.ndarray, "*law"]) -> RateLaw:
        """Law of rates that apply so many (weighted) times; raise ValueError if there are others."""

    @staticmethod
    def stored_law(constants: Mapping[str, Num[np.ndarray, "*law"]]) -> RateLaw | None:
        """The law whose :meth:`RateLaw.constants` these are; None if they are those of another prior."""


def log_rates(logit: Float[AnyArray, "*shape"]) -> tuple[Float[AnyArray, "*shape"], Float[AnyArray, "*shape"]]:
    """``log η`` and ``log(1 − η)``, each to full relative precision, elementwise.

    Examples
    --------
    >>> [float(part) for part in log_rates(np.array(-800.0))]
    [-800.0, -0.0]
    """
    xp = logit.__array_namespace__()
    zero = xp.zeros_like(logit)
    return -xp.logaddexp(-logit, zero), -xp.logaddexp(logit, zero)


def map_arrays(function: Callable[[Any], Any], law: Law) -> Law:
    """The law with ``function`` applied to each of its arrays, those of a law within it included.

    Examples
    --------
    >>> from bayesdrop.priors.beta import BetaLaw
    >>> map_arrays(lambda part: part[:1], BetaLaw(np.ones(3), np.ones(3))).a.shape
    (1,)
    """
    fields: tuple[Any, ...] = tuple(law)  # type: ignore[arg-type]  # a law is a named tuple
    parts = (map_arrays(function, part) if isinstance(part, tuple) else function(part) for part in fields)
    return type(law)(*parts)


def spread_over_rates(value: Any, shape: tuple[int, ...], prior: str) -> Float[np.ndarray, "*law"]:
    """A setting, one number or one per rate, brought to axes that broadcast to counts of ``shape`` (k, ...).

    Raises
    ------
    ValueError
        If there is another number of rates; ``prior`` is its name, for the message.
    """
    array = np.asarray(value, dtype=float)
    if not array.ndim:
        return array
    if array.shape[0] != shape[0]:
        raise ValueError(
            f"{prior}: expected one value per rate, {shape[0]} in all, got {array.shape[0]}; "
            "give a single number or one for each feature (or group)."
        )
    return array.reshape(array.shape + (1,) * (len(shape) - array.ndim))
