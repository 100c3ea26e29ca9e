"""Which posterior is sampled and by what, what a sampler must have, and which recorded numbers are no variables."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any, Protocol

import numpy as np

from ..model import Model
from ..rates import RateMap

__all__ = [
    "STATISTICS",
    "Sampler",
    "check_sampler",
    "default_method",
    "is_marginalised",
    "sampler_settings",
    "with_dtype",
]

STATISTICS = ("lp", "acceptance_rate", "step_size", "n_steps", "diverging", "energy")
"""What a sampler may record of a draw that is no posterior variable."""


class Sampler(Protocol):
    """Protocol of what a user chooses as ``method``: settings, and a kernel made from them for a model and data.

    Attributes
    ----------
    dtype : str
        ``"float32"`` or ``"float64"``: precision of the draws.
    warm_up : int
        Draws that are thrown away by default, at least 1.
    integrates_masks : bool
        True if the masks of a model are integrated approximately, which the posterior then says.
    """

    dtype: str
    warm_up: int
    integrates_masks: bool

    def bind(self, model: Model, data: Any, rate_map: RateMap, tune: int, marginalised: bool = False) -> tuple:
        """Kernel of :mod:`bayesdrop.inference.runner` and its operands; it records ``weight`` and ``lp``."""


def check_sampler(method: Any) -> None:
    """Raise TypeError or ValueError unless ``method`` has what a run and its description need, before either begins.

    Examples
    --------
    >>> check_sampler("gibbs")
    Traceback (most recent call last):
    ...
    TypeError: method: expected a sampler such as bd.Gibbs(), got 'gibbs'; bd.fit takes the minimisers.
    """
    if isinstance(method, type) or not hasattr(method, "bind"):
        raise TypeError(f"method: expected a sampler such as bd.Gibbs(), got {method!r}; bd.fit takes the minimisers.")
    missing = [name for name in ("dtype", "warm_up", "integrates_masks") if not hasattr(method, name)]
    if missing:
        raise TypeError(
            f"method: expected a sampler such as bd.Gibbs(), got {method!r}, which lacks {', '.join(missing)}; see "
            "bayesdrop.inference.target.Sampler."
        )
    if method.dtype not in ("float32", "float64"):
        raise ValueError(f'method: expected dtype "float32" or "float64", got {method.dtype!r}.')
    count = method.warm_up
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise ValueError(f"method: expected warm_up, a whole number of at least 1, got {count!r}.")


def sampler_settings(method: Any) -> dict[str, str]:
    """Settings of a sampler as text: the fields of a dataclass, the public attributes of anything else.

    Examples
    --------
    >>> class Sampler:
    ...     def __init__(self): self.steps, self._cache = 3, None
    >>> sampler_settings(Sampler())
    {'steps': '3'}
    """
    if dataclasses.is_dataclass(method):
        return {field.name: str(getattr(method, field.name)) for field in dataclasses.fields(method)}
    held = getattr(method, "__dict__", {})
    return {name: str(value) for name, value in held.items() if not name.startswith("_")}


def with_dtype(method: Any, dtype: str) -> Any:
    """The same sampler in another precision; the given one stays as it is."""
    if dataclasses.is_dataclass(method) and not isinstance(method, type):
        return dataclasses.replace(method, dtype=dtype)
    other = copy.copy(method)
    other.dtype = dtype
    return other


def is_marginalised(model: Model, rate_map: RateMap, target: str | None) -> bool:
    """True if the pseudo-posterior ``exp(−U)`` is wanted."""
    if target not in (None, "noising", "marginalised"):
        raise ValueError(f'target: expected "noising" or "marginalised", got {target!r}.')
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
