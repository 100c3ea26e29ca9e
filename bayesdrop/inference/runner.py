"""Runs a sampler's kernel in chunks: progress, interruption and time between them, one compilation for all.

A kernel is a hashable object that holds nothing but what is fixed at compilation; the data are operands of the
compiled function:

    kernel.init(operands, key, chains) -> state
    kernel.step(operands, state) -> state             one draw of all chains
    kernel.record(operands, state) -> {name: (C, …)}  what is kept of it

The compiled function belongs to this module and is keyed by the kernel and the shapes, so a second run with the same
ones compiles nothing. The number of draws of a chunk is an operand too: warm-up, draws and the last, shorter chunk
share one executable, and a chunk lasts about half a second whatever the model.

The state carries the key, so draws do not depend on how they are cut into chunks. Everything that can happen to a long
run happens between two chunks: a checkpoint, a check of the stop rule (at fixed numbers of draws, so that a run's end
does not depend on its speed), the end of the time budget. An interruption may come anywhere and leaves whole chunks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .layout import Layout, layout_of
from .scales import natural

if TYPE_CHECKING:
    from .checkpoint import Checkpoint
    from .stopping import Stop

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
    stopped : str
        Why it ended: ``"draws"`` (all are there), ``"target"`` (the stop rule was satisfied), ``"budget"`` (the time
        was used up) or ``"interrupted"``.
    seconds : float
        Wall time, compilation and earlier calls on the same checkpoint included.
    """

    draws: dict[str, Array]
    state: Any
    stopped: str
    seconds: float

    @property
    def complete(self) -> bool:
        """False if the run ended before it had what was asked for."""
        return self.stopped in ("draws", "target")


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
def _init(kernel: Kernel, chains: int, operands: Any, key: Array) -> tuple[Any, dict[str, Array]]:
    state = kernel.init(operands, key, chains)
    return state, kernel.record(operands, state)


@partial(jax.jit, static_argnames=("kernel", "layout"))
def _chunk(
    kernel: Kernel, operands: Any, state: Any, count: Array, layout: Layout | None = None
) -> tuple[Any, dict[str, Array]]:
    """Take ``count`` draws; of the ``_CHUNK`` places of the returned buffers, the first ``count`` are filled."""
    shapes = jax.eval_shape(kernel.record, operands, state)
    buffers = {name: jnp.zeros((_CHUNK, *shape.shape), shape.dtype) for name, shape in shapes.items()}

    def body(i: Array, carry: Any) -> Any:
        state, buffers = carry
        state = kernel.step(operands, state)
        if layout is not None:
            state = layout.constrain(state)
        record = kernel.record(operands, state)
        return state, {name: buffers[name].at[i].set(value) for name, value in record.items()}

    return jax.lax.fori_loop(0, count, body, (state, buffers))


def run(
    kernel: Kernel,
    operands: Any,
    key: Array,
    *,
    tune: int,
    draws: int,
    chains: int,
    progress: bool,
    checkpoint: Checkpoint | None = None,
    stop: Stop | None = None,
    statistics: Sequence[str] = ("lp",),
    required: Sequence[str] = (),
    max_seconds: float | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Run:
    """Run ``chains`` chains: ``tune`` draws that are thrown away, then ``draws`` that are kept.

    An interruption from the keyboard keeps what is finished; if no draw is, it is raised again.

    Parameters
    ----------
    kernel, operands, key
        See the module; ``key`` is typed.
    tune, draws, chains : int
        Counts, of each chain.
    progress : bool
        Show a progress bar.
    checkpoint : Checkpoint, optional
        Folder to go on from and to write to.
    stop : Stop, optional
        Rule that ends the run before ``draws``.
    statistics : sequence of str
        What is recorded and is no posterior variable; the rule does not look at it.
    required : sequence of str
        What the kernel must record, by the names of :func:`bayesdrop.inference.scales.natural`, on axes that begin with
        the chains.
    max_seconds : float, optional
        Wall time of this call. At least one chunk is drawn, so that repeated calls on a checkpoint get somewhere.
    meanwhile : callable, optional
        Called once, when the program is traced and Python has nothing to do: to begin what a thread can do beside the
        compilation and the draws.

    Raises
    ------
    TypeError
        If the kernel does not record what is required; before the first draw.
    ValueError
        If the log density ``lp`` is not finite, at the start or after a draw, or the checkpoint is damaged.
    TimeoutError
        If the time is used up before a draw is kept.
    """
    runner = _Runner(
        kernel, operands, tune, tune + draws, checkpoint, stop, tuple(statistics), tuple(required), max_seconds,
        meanwhile,
    )  # fmt: skip
    return runner.run(key, chains, progress)


def _check_record(record: dict[str, Array], chains: int, required: Sequence[str]) -> None:
    """Raise TypeError unless what is ``required`` is recorded, chains first."""
    record = natural(record)
    wrong = [name for name in required if name not in record or np.shape(record[name])[:1] != (chains,)]
    if wrong:
        came = {name: np.shape(value) for name, value in record.items()}
        raise TypeError(
            f"method: expected a kernel that records {list(required)} of each of {chains} chains, got {came}; see "
            "bayesdrop.inference.runner."
        )


@dataclass
class _Runner:
    """One call of ``run``.

    Attributes
    ----------
    position : (state, int)
        Last state and the draws behind it, in one place, so that no interruption comes between them.
    layout : Layout or None
        How the state lies on the devices, if the data lie on several.
    parts : list of (int, dict of arrays (draws, C, …))
        Kept draws, each part with the number of draws before it. Those beyond the position are not finished.
    """

    kernel: Kernel
    operands: Any
    tune: int
    total: int
    checkpoint: Checkpoint | None
    stop: Stop | None
    statistics: tuple[str, ...]
    required: tuple[str, ...]
    max_seconds: float | None
    meanwhile: Callable[[], None] | None
    position: tuple[Any, int] = (None, 0)
    parts: list[tuple[int, dict[str, Array]]] = field(default_factory=list)
    layout: Layout | None = None
    seconds_before: float = 0.0
    begin: float = field(default_factory=time.perf_counter)

    @property
    def done(self) -> int:
        """Draws of each chain so far, tuning included."""
        return self.position[1]

    def run(self, key: Array, chains: int, progress: bool) -> Run:
        """See the function of this name."""
        from tqdm.auto import tqdm

        self.layout = layout_of(self.kernel, self.operands, key, chains)
        self._restore(key, chains)
        start = min(self.done, self.total)
        with tqdm(total=self.total, initial=start, disable=not progress, unit="draw") as bar:
            try:
                stopped = self._loop(key, chains, bar)
            except KeyboardInterrupt:
                # It may have come between two lines of a chunk: what goes beyond ``done`` is not finished.
                self.parts = [(first, part) for first, part in self.parts if first < self.done]
                stopped = "interrupted"
                self._save()
                if not self.parts:
                    raise
        self._save()
        if not self.parts:
            raise TimeoutError(self._no_draw())
        joined = {name: np.concatenate([part[name] for _, part in self.parts]) for name in self.parts[0][1]}
        kept = self.total - self.tune  # a checkpoint may hold more
        draws = {name: np.swapaxes(value[:kept], 0, 1) for name, value in joined.items()}
        return Run(draws, self.position[0], stopped, self._seconds())

    def _loop(self, key: Array, chains: int, bar: Any) -> str:
        """Draw until there is a reason to stop, and return it."""
        if self.done > self.total or (self.done == self.total and self.stop is None):
            return "draws"
        if self._at_check() and self._is_reached(bar):
            return "target"
        if self.done == self.total:
            return "draws"
        bar.set_description("compiling (once)")
        if self.position[0] is None:
            state, record = _init(self.kernel, chains, self.operands, key)
            _check_record(record, chains, self.required)
            self._check_finite(record, state, "at the start")
            self.position = (state, 0)
        if self.layout is not None:
            self.position = (self.layout.place(self.position[0]), self.done)
        if self.meanwhile is not None:
            # Both steps are kept by JAX, so that the first chunk does not take them again.
            _chunk.lower(self.kernel, self.operands, self.position[0], jnp.int32(1), self.layout)
            self.meanwhile()
        size, first = 1, True
        while True:
            count = min(size, self._next_stage() - self.done)
            clock = time.perf_counter()
            self._chunk(count)
            # The first chunk is one draw and the compilation.
            rate = 2 if first else count * _SECONDS / max(time.perf_counter() - clock, 1e-6)
            size, first = int(np.clip(rate, 1, min(_CHUNK, 4 * size))), False
            bar.set_description("tuning" if self.done < self.tune else "drawing")
            bar.update(count)
            if self._at_check() and self._is_reached(bar):
                return "target"
            if self.done == self.total:
                return "draws"
            if self.max_seconds is not None and time.perf_counter() - self.begin >= self.max_seconds:
                return "budget"
            if self.checkpoint is not None and self.checkpoint.due():
                self._save()

    def _chunk(self, count: int) -> None:
        state, buffers = _chunk(self.kernel, self.operands, self.position[0], jnp.int32(count), self.layout)
        part = {name: np.asarray(value)[:count] for name, value in buffers.items()}
        self._check_finite(part, state, f"after draw {self.done + count} of each chain")
        if self.done >= self.tune:
            self.parts.append((self.done, part))
        self.position = (state, self.done + count)

    def _next_stage(self) -> int:
        """Number of draws that the next chunk may not exceed."""
        if self.done < self.tune:
            return self.tune
        if self.stop is None:
            return self.total
        return min(self.tune + self.stop.next_check(self.done - self.tune), self.total)

    def _at_check(self) -> bool:
        """True where the stop rule is due: at its numbers of draws, and at the end."""
        kept = self.done - self.tune
        return (
            self.stop is not None and kept > 0 and (self.done == self.total or self.stop.next_check(kept - 1) == kept)
        )

    def _is_reached(self, bar: Any) -> bool:
        assert self.stop is not None
        names = [name for name in self.parts[0][1] if name not in self.statistics]
        found = self.stop.assess(
            {name: np.swapaxes(np.concatenate([part[name] for _, part in self.parts]), 0, 1) for name in names}
        )
        text = f"smallest ESS {found.ess:.0f} of {self.stop.ess:g}"
        bar.set_postfix_str(text if np.isnan(found.rhat) else f"{text}, largest R-hat {found.rhat:.3f}")
        return found.reached

    def _restore(self, key: Array, chains: int) -> None:
        if self.checkpoint is None:
            return
        state = jax.eval_shape(lambda operands, key: self.kernel.init(operands, key, chains), self.operands, key)
        record = jax.eval_shape(self.kernel.record, self.operands, state)
        saved = self.checkpoint.restore(state, record, key, self.tune)
        if saved is not None:
            self.position = (saved.state, saved.done)
            self.seconds_before = saved.seconds
            self.parts = [] if saved.draws is None else [(self.tune, saved.draws)]

    def _save(self) -> None:
        """Write what has been drawn since the last time."""
        if self.checkpoint is None or self.done == self.checkpoint.done:
            return
        new = [part for first, part in self.parts if first >= self.checkpoint.done]
        draws = {name: np.concatenate([part[name] for part in new]) for name in new[0]} if new else None
        self.checkpoint.save(self.position[0], draws, self.done, self._seconds())

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.begin

    def _no_draw(self) -> str:
        advice = (
            "raise max_seconds, lower tune, or give checkpoint=PATH, so that a second call goes on where this one ended"
            if self.checkpoint is None
            else f"the tuning so far is in {self.checkpoint.path}: call again with the same arguments to go on"
        )
        return (
            f"max_seconds: {self.max_seconds:g} s were used up after {self.done} of {self.tune} tuning draws, before a "
            f"draw was kept; {advice}."
        )

    def _check_finite(self, record: dict[str, Array], state: Any, when: str) -> None:
        """Raise ValueError if the log density is not finite; no later draw could be."""
        lp = np.asarray(record.get("lp", 0.0))
        if np.all(np.isfinite(lp)):
            return
        parts = {"data": self.operands, "state": state}
        broken = [f"{name}{path}" for name, tree in parts.items() for path in _not_finite(tree)]
        chains = np.flatnonzero(~np.all(np.isfinite(lp.reshape(-1, lp.shape[-1])), axis=0)).tolist()
        raise ValueError(
            f"X: the log density is not finite {when} (chains {chains}, {lp.dtype}); not finite are "
            f"{', '.join(broken[:6]) or 'neither data nor state, but the density itself'}. Bring the features to a "
            'common scale, lower C, or sample in double precision, as with method=bd.Gibbs(dtype="float64").'
        )


def _not_finite(tree: Any) -> list[str]:
    """Paths of the leaves that hold NaN or infinity."""
    return [
        jax.tree_util.keystr(path)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not np.all(np.isfinite(np.asarray(leaf)))
    ]
