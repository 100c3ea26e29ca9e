"""A conditional update of a value inside a compiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

__all__ = ["where_needed"]

Value = TypeVar("Value")


def where_needed(condition: Any, update: Callable[..., Value], value: Value, key: PRNGKeyArray | None = None) -> Value:
    """``update(value)`` if the condition () holds, else ``value``, both of one structure; the other is not computed.

    With a ``key`` it is ``update(value, key)``: a key that the function held would be used once for every passage of a
    loop, by the rules of JAX's check of keys (``jax_debug_key_reuse``), which do not know that there is one.

    It is a loop of one passage or none: on CPUs XLA compiles the branches of ``jax.lax.cond`` to code that took two to
    three times as long as the same operations outside, and the body of a loop to the ordinary code.

    Examples
    --------
    >>> [float(where_needed(jnp.asarray(condition), jnp.sqrt, jnp.asarray(4.0))) for condition in (True, False)]
    [2.0, 4.0]
    """
    keys = () if key is None else (jax.random.key_data(key), jax.random.key_impl(key))

    def passage(_: Any, v: Value) -> Value:
        return update(v, jax.random.wrap_key_data(keys[0], impl=keys[1])) if keys else update(v)

    result: Value = jax.lax.fori_loop(0, jnp.asarray(condition).astype(jnp.int32), passage, value)
    return result
