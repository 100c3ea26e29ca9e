"""Take the draws of a chunk: by one compiled program, or one by one if Python reads the data in between.

The compiled functions belong to this module and are keyed by the kernel and the shapes, so that a second run with the
same ones compiles nothing. The number of draws of a chunk is an operand: warm-up, draws and the last, shorter chunk
share one executable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._typing import Int, Shaped
from ..protocols import HostKernel, Kernel

if TYPE_CHECKING:
    from ..protocols import Kernel

__all__ = ["Driver", "driver_of", "joined", "room", "step_shapes", "take_step", "CHUNK"]

CHUNK = 100
"""Maximum number of draws in a chunk."""

# Maximum size of a chunk in bytes, unless one draw takes more.
_BYTES = 1 << 25

Part = dict[str, Shaped[np.ndarray, "draws C ..."]]


@runtime_checkable
class Driver(Protocol):
    """Protocol of a kernel with its data, as the runner uses it."""

    def shapes(self, key: PRNGKeyArray, chains: int) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
        """Shapes and dtypes of the state, and of the record of a step."""

    def init(self, key: PRNGKeyArray, chains: int) -> Any:
        """State before the first draw."""

    def chunk(self, state: Any, count: int) -> tuple[Any, Part]:
        """Take ``count`` draws, at most :func:`room`; return the last state, and the record, time first."""


def room(recorded: Mapping[str, jax.ShapeDtypeStruct]) -> int:
    """Maximum number of draws in a chunk, given the record of a step.

    Examples
    --------
    >>> room({"lp": jax.ShapeDtypeStruct((4,), np.float32)})
    100
    """
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in recorded.values())
    return min(max(_BYTES // max(size, 1), 1), CHUNK)


def driver_of(kernel: Kernel, operands: Any) -> Driver:
    """Driver of a kernel: Python for a host kernel, one compiled program for any other."""
    if isinstance(kernel, HostKernel):
        return _ByHost(kernel, operands)
    return _Compiled(kernel, operands)


@partial(jax.jit, static_argnums=(0, 1))
def _init(kernel: Kernel, chains: int, operands: Any, key: PRNGKeyArray) -> Any:
    return kernel.init(operands, key, chains)


@partial(jax.jit, static_argnames=("kernel",), inline=True)
def take_step(kernel: Kernel, operands: Any, state: Any) -> tuple[Any, dict[str, jax.Array]]:
    """``kernel.step``, traced once for all callers that need its shapes or compile it."""
    return kernel.step(operands, state)


def step_shapes(kernel: Kernel, operands: Any, state: Any) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes and dtypes of the record of a step."""
    shapes: dict[str, jax.ShapeDtypeStruct] = jax.eval_shape(partial(take_step, kernel), operands, state)[1]
    return shapes


@partial(jax.jit, static_argnums=0)
def run_chunk(kernel: Kernel, operands: Any, state: Any, count: Int[jax.Array, ""]) -> tuple[Any, dict[str, jax.Array]]:
    """Take ``count`` draws; they fill the first ``count`` entries of the returned buffers."""
    shapes = step_shapes(kernel, operands, state)
    buffers = {name: jnp.zeros((room(shapes), *shape.shape), shape.dtype) for name, shape in shapes.items()}

    def body(i: Int[jax.Array, ""], carry: Any) -> Any:
        state, buffers = carry
        state, record = take_step(kernel, operands, state)
        return state, {name: buffers[name].at[i].set(value) for name, value in record.items()}

    state, buffers = jax.lax.fori_loop(0, count, body, (state, buffers))
    return state, buffers


@dataclass(frozen=True)
class _Compiled:
    """Driver of a kernel that is compiled."""

    kernel: Kernel
    operands: Any

    def shapes(self, key: PRNGKeyArray, chains: int) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
        state = jax.eval_shape(partial(_init, self.kernel, chains), self.operands, key)
        return state, step_shapes(self.kernel, self.operands, state)

    def init(self, key: PRNGKeyArray, chains: int) -> Any:
        return _init(self.kernel, chains, self.operands, key)

    def chunk(self, state: Any, count: int) -> tuple[Any, Part]:
        state, buffers = run_chunk(self.kernel, self.operands, state, np.int32(count))
        return state, {name: np.asarray(value)[:count] for name, value in buffers.items()}


@dataclass(frozen=True)
class _ByHost:
    """Driver of a kernel that Python calls, draw by draw."""

    kernel: HostKernel
    operands: Any

    def shapes(self, key: PRNGKeyArray, chains: int) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
        return self.kernel.shapes(self.operands, key, chains)

    def init(self, key: PRNGKeyArray, chains: int) -> Any:
        return self.kernel.init(self.operands, key, chains)

    def chunk(self, state: Any, count: int) -> tuple[Any, Part]:
        records = []
        for _ in range(count):
            state, record = self.kernel.step(self.operands, state)
            records.append(record)
        return state, {name: np.stack([np.asarray(record[name]) for record in records]) for name in records[0]}


def joined(parts: list[tuple[int, Part]]) -> dict[str, Shaped[np.ndarray, "total C ..."]]:
    """Join all parts; each is removed from the list as it is copied, so that draws are not in memory twice.

    Examples
    --------
    >>> joined([(2, {"weight": np.zeros((2, 1))}), (1, {"weight": np.ones((1, 1))})])["weight"].ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    length = sum(len(next(iter(part.values()))) for _, part in parts)
    whole = {name: np.empty((length, *value.shape[1:]), value.dtype) for name, value in parts[0][1].items()}
    at = 0
    while parts:
        _, part = parts.pop(0)
        count = len(next(iter(part.values())))
        for name, value in whole.items():
            value[at : at + count] = part.pop(name)
        at += count
    return whole
