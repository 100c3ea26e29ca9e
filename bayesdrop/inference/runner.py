"""Runs a sampler's kernel in chunks: progress, interruption and time between them, one compilation for all.

A kernel is a hashable object that holds nothing but what is fixed at compilation; the data are operands of the
compiled function:

    kernel.init(operands, key, chains) -> state
    kernel.step(operands, state) -> state             one draw of all chains
    kernel.record(operands, state) -> {name: (C, …)}  what is kept of it

The compiled function belongs to this module and is keyed by the kernel and the shapes, so a second run with the same
ones compiles nothing. The number of draws of a chunk is an operand too: warm-up, draws and the last, shorter chunk
share one executable, and a chunk lasts about half a second whatever the model.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["Kernel", "Run", "as_key", "run"]

Array = Any

# Draws a chunk holds at most, and how long it should last.
_CHUNK = 100
_SECONDS = 0.5


class Kernel(Protocol):
    """Protocol of a kernel; see the module."""

    def init(self, operands: Any, key: Array, chains: int) -> Any:
        """State of all chains."""

    def step(self, operands: Any, state: Any) -> Any:
        """State after one draw."""

    def record(self, operands: Any, state: Any) -> dict[str, Array]:
        """What is kept of a draw, chains first."""


@dataclass(frozen=True)
class Run:
    """Draws and how they came about.

    Attributes
    ----------
    draws : dict of arrays (C, draws, …)
        Recorded draws, in the order of time.
    state : state
        Last state.
    complete : bool
        False if the run was interrupted.
    seconds : float
        Wall time, compilation included.
    """

    draws: dict[str, Array]
    state: Any
    complete: bool
    seconds: float


def as_key(seed: Any) -> Array:
    """Turn an integer or a JAX key, new style or old, into a typed key.

    Examples
    --------
    >>> as_key(0).shape
    ()
    """
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        if not 0 <= int(seed) < 2**32:
            raise ValueError(f"seed: expected a whole number from 0 to 2³² − 1 or a JAX key, got {seed!r}.")
        return jax.random.key(np.uint32(seed))
    if isinstance(seed, jax.Array | np.ndarray):
        if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) and seed.shape == ():
            return seed
        if seed.dtype == np.uint32 and seed.shape == (2,):
            return jax.random.wrap_key_data(jnp.asarray(seed))
    raise ValueError(f"seed: expected a whole number or one JAX key such as jax.random.key(0), got {seed!r}.")


@partial(jax.jit, static_argnames=("kernel", "chains"))
def _init(kernel: Kernel, chains: int, operands: Any, key: Array) -> Any:
    return kernel.init(operands, key, chains)


@partial(jax.jit, static_argnames=("kernel",))
def _chunk(kernel: Kernel, operands: Any, state: Any, count: Array) -> tuple[Any, dict[str, Array]]:
    """Take ``count`` draws; of the ``_CHUNK`` places of the returned buffers, the first ``count`` are filled."""
    shapes = jax.eval_shape(kernel.record, operands, state)
    buffers = {name: jnp.zeros((_CHUNK, *shape.shape), shape.dtype) for name, shape in shapes.items()}

    def body(i: Array, carry: Any) -> Any:
        state, buffers = carry
        state = kernel.step(operands, state)
        record = kernel.record(operands, state)
        return state, {name: buffers[name].at[i].set(value) for name, value in record.items()}

    return jax.lax.fori_loop(0, count, body, (state, buffers))


def run(kernel: Kernel, operands: Any, key: Array, *, tune: int, draws: int, chains: int, progress: bool) -> Run:
    """Run ``chains`` chains: ``tune`` draws that are thrown away, then ``draws`` that are kept.

    An interruption from the keyboard keeps what is finished; if no draw is, it is raised again.
    """
    from tqdm.auto import tqdm

    begin = time.perf_counter()
    parts: list[dict[str, Array]] = []
    done, size, complete, state = 0, 1, True, None
    with tqdm(total=tune + draws, disable=not progress, unit="draw", desc="compiling") as bar:
        try:
            state = _init(kernel, chains, operands, key)
            while done < tune + draws:
                count = min(size, (tune if done < tune else tune + draws) - done)
                clock = time.perf_counter()
                state, buffers = _chunk(kernel, operands, state, jnp.int32(count))
                part = {name: np.asarray(value)[:count] for name, value in buffers.items()}
                elapsed = time.perf_counter() - clock
                if done >= tune:
                    parts.append(part)
                if done:  # the first chunk is one draw and the compilation
                    size = int(np.clip(count * _SECONDS / max(elapsed, 1e-6), 1, min(_CHUNK, 4 * size)))
                else:
                    size = 2
                done += count
                bar.set_description("tuning" if done < tune else "drawing")
                bar.update(count)
        except KeyboardInterrupt:
            if not parts:
                raise
            complete = False
    joined = {name: np.swapaxes(np.concatenate([part[name] for part in parts]), 0, 1) for name in parts[0]}
    return Run(joined, state, complete, time.perf_counter() - begin)
