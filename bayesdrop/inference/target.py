"""Which posterior is sampled and by what, and which of the recorded numbers are not its variables."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from .._validation import check_choice, check_instance
from ..model import Model
from ..rates import RateMap

__all__ = ["STATISTICS", "Sampler", "check_sampler", "default_method", "is_marginalised"]

STATISTICS = ("lp", "acceptance_rate", "step_size", "n_steps", "diverging", "energy")
"""What a sampler may record of a draw that is no posterior variable."""


def is_marginalised(model: Model, rate_map: RateMap, target: str | None) -> bool:
    """True if the pseudo-posterior ``exp(−U)`` is wanted."""
    check_choice(target, "target", ("noising", "marginalised", None))
    has_masks = model.noise.has_rate and (rate_map.is_free or bool(np.any(rate_map.initial > 0)))
    if target == "noising" and not model.noise.has_rate:
        raise ValueError(
            f"target: {model.noise!r} has no masks that could be part of the model; it is sampled as "
            'target="marginalised", the noise averaged inside the loss.'
        )
    if target == "marginalised" and rate_map.is_free:
        raise ValueError(
            "target: the pseudo-posterior exp(−U) says nothing about rates, for U is lowest where they are 0; give "
            'fixed rates, as in bd.Fixed(0.3), or take target="noising".'
        )
    return target == "marginalised" or not has_masks


def default_method(model: Model, marginalised: bool) -> Any:
    """The sampler that is exact, and among those the fastest."""
    if marginalised and model.weight_prior.gaussian and model.loss.variance_prior is None:
        from .hmc import HMC

        return HMC()
    from .gibbs import Gibbs

    return Gibbs()


@runtime_checkable
class Sampler(Protocol):
    """Protocol of what ``bd.sample`` takes as its method."""

    dtype: str
    """Precision, ``"float32"`` or ``"float64"``."""

    integrates_masks: bool
    """True if masks are integrated approximately rather than drawn."""

    def bind(self, model: Model, data: Any, rate_map: RateMap, tune: int, marginalised: bool = False) -> Any:
        """Build the kernel and its operands."""


def check_sampler(method: Any) -> Any:
    """Return a sampler, or raise TypeError; a minimiser is none.

    Examples
    --------
    >>> check_sampler("nuts")
    Traceback (most recent call last):
    TypeError: method: expected a sampler such as bd.Gibbs(), bd.HMC() or bd.NUTS(), got 'nuts'; bd.fit takes the
    others.
    """
    expected = "a sampler such as bd.Gibbs(), bd.HMC() or bd.NUTS()"
    return check_instance(method, "method", Sampler, expected, advice="bd.fit takes the others")
