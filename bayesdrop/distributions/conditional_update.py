"""A conditional update of a value inside a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

__all__ = ["where_needed"]

Value = TypeVar("Value")


def where_needed(condition: Any, update: Callable[[Value], Value], value: Value) -> Value:
    """``update(value)`` if the condition () holds, else ``value``, both of one structure; the other is not computed.

    It is a loop of one passage or none: on CPUs XLA compiles the branches of ``jax.lax.cond`` to code that took two to
    three times as long as the same operations outside, and the body of a loop to the ordinary code.

    Examples
    --------
    >>> [float(where_needed(jnp.asarray(condition), jnp.sqrt, jnp.asarray(4.0))) for condition in (True, False)]
    [2.0, 4.0]
    """
    result: Value = jax.lax.fori_loop(0, jnp.asarray(condition).astype(jnp.int32), lambda _, v: update(v), value)
    return result
