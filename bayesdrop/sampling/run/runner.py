"""Run a sampler's kernel in chunks, with one compilation; progress, interruption and time between chunks.

A kernel (:class:`bayesdrop.sampling.protocols.Kernel`) is a hashable object that holds only the settings fixed at
compilation; the data are operands of the compiled function:

    kernel.init(operands, key, chains) -> state
    kernel.step(operands, state) -> state, {name: (C, …)}    one draw of all chains, and its record

:mod:`.driving` draws a chunk, which lasts at most about half a second, or one draw if that takes longer.

The state includes the key, so draws do not depend on how they are cut into chunks. Between two chunks come a
checkpoint, a check of the stop rule (at fixed numbers of draws, so that a run's end does not depend on its speed) and
the end of the time budget. An interruption may come anywhere and leaves whole chunks.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from ..._memory import drop_programs_if_maps_run_short
from ..._progress import heard, is_watched, say
from ..._typing import Shaped
from ..._validation import shown
from ...warnings import IncompleteWarning, warn
from ..matrix import placed
from ..protocols import Kernel, natural_name
from .checks import check_declarations, check_draws
from .driving import Driver, driver_of, joined, room
from .late import LateInterruption

if TYPE_CHECKING:
    from .checkpoint import Checkpoint
    from .stopping import Stop

__all__ = ["Run", "as_key", "run"]

_log = logging.getLogger("bayesdrop")


@dataclass(frozen=True)
class Run:
    """Draws, and how the run ended.

    Attributes
    ----------
    draws : dict of arrays (C, draws, …)
        Kept draws, in the order of time.
    state : state
        Last state.
    stopped : str
        Why it ended: ``"draws"`` (all were taken), ``"target"`` (the stop rule was satisfied), ``"budget"`` (the time
        was used up) or ``"interrupted"``.
    seconds : float
        Wall time, compilation and earlier calls on the same checkpoint included.
    variables, statistics
        Declarations of the kernel.
    """

    draws: dict[str, Shaped[np.ndarray, "C draws ..."]]
    state: Any
    stopped: str
    seconds: float
    variables: Mapping[str, tuple[str, ...]]
    statistics: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """True unless the run ended early, by time or interruption."""
        return self.stopped in ("draws", "target")


def as_key(seed: Any) -> PRNGKeyArray:
    """Convert an integer or a JAX key, new style or old, to a typed key.

    Examples
    --------
    >>> as_key(0).shape
    ()
    """
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool) and 0 <= int(seed) < 2**32:
        if jax.config.jax_default_prng_impl == "threefry2x32":  # type: ignore[attr-defined]  # made by its name
            # The same key, which JAX would compile two programs to make.
            return jax.random.wrap_key_data(placed([0, int(seed)], np.uint32), impl="threefry2x32")
        return jax.random.key(np.uint32(seed))
    if isinstance(seed, jax.Array | np.ndarray):
        if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key) and seed.shape == ():
            return seed  # type: ignore[return-value]  # no NumPy array has a dtype of keys
        if seed.dtype == np.uint32 and seed.shape == (2,):
            return jax.random.wrap_key_data(jnp.asarray(seed))
    raise ValueError(
        "seed: expected a whole number from 0 to 2³² − 1, a generator of NumPy or one JAX key such as "
        f"jax.random.key(0), got {shown(seed)}."
    )


def run(
    kernel: Kernel,
    operands: Any,
    key: PRNGKeyArray,
    *,
    tune: int,
    draws: int,
    chains: int,
    progress: bool,
    thin: int = 1,
    **options: Any,
) -> Run:
    """Run ``chains`` chains: ``tune`` draws that are discarded, then ``draws`` that are kept, every ``thin``-th one.

    An interruption from the keyboard keeps the finished draws; if there are none, it is raised again.

    Parameters
    ----------
    kernel, operands, key
        See the module; ``key`` is typed.
    tune, draws, chains : int
        Counts, of each chain.
    progress : bool
        Show a progress bar in a terminal or notebook; elsewhere one line at the end.
    thin : int, default 1
        Draws of each chain per kept draw.
    **options
        Options of :class:`Runner`: ``checkpoint``, ``stop``, ``required``, ``sizes``, ``max_seconds`` and ``late``.

    Raises
    ------
    TypeError
        If the kernel does not record what it declares, or does not declare what is required; before the first draw.
    ValueError
        If draws need more memory than available, the log density ``lp`` is not finite after a draw, or the checkpoint
        is damaged.
    TimeoutError
        If the time is used up before a draw is kept.
    """
    drop_programs_if_maps_run_short()
    with heard():
        return Runner(kernel, operands, tune, tune + thin * draws, thin, **options).run(key, chains, progress)


@dataclass
class Runner:
    """One call of ``run``.

    Attributes
    ----------
    total : int
        Draws of each chain, discarded ones included.
    thin : int
        After ``tune`` every ``thin``-th draw is kept.
    checkpoint : Checkpoint, optional
        Folder to resume from and to write to.
    stop : Stop, optional
        Rule that ends the run before ``total``.
    required : sequence of str
        Variables and statistics that the kernel must declare.
    sizes : mapping of str to int
        Lengths of the dims that the caller knows.
    max_seconds : float, optional
        Wall time of this call. At least one chunk is drawn, so that repeated calls on a checkpoint make progress.
    late : LateInterruption
        Interruptions after the last draw.
    position : (state, int)
        Last state and the number of draws up to it, in one tuple, so that an interruption cannot separate them.
    driver : Driver
        Takes the draws.
    room, chunk_seconds : int, float
        Maximum number of draws in a chunk, and the seconds that it should take.
    parts : list of (int, dict of arrays (draws, C, …))
        Kept draws, each part with the number of draws before it; parts beyond the position are incomplete.
    """

    kernel: Kernel
    operands: Any
    tune: int
    total: int
    thin: int
    checkpoint: Checkpoint | None = None
    stop: Stop | None = None
    required: Sequence[str] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    max_seconds: float | None = None
    late: LateInterruption = field(default_factory=LateInterruption)
    position: tuple[Any, int] = (None, 0)
    parts: list[tuple[int, dict[str, Shaped[np.ndarray, "_ C ..."]]]] = field(default_factory=list)
    driver: Driver = field(init=False)
    room: int = 1
    chunk_seconds: ClassVar[float] = 0.5
    seconds_before: float = 0.0
    begin: float = field(default_factory=time.perf_counter)

    @property
    def done(self) -> int:
        """Draws of each chain so far, tuning included."""
        return self.position[1]

    @property
    def kept(self) -> int:
        """Kept draws of each chain so far."""
        return max(self.done - self.tune, 0) // self.thin

    def run(self, key: PRNGKeyArray, chains: int, progress: bool) -> Run:
        """See the function ``run``."""
        from tqdm import tqdm

        self.driver = driver_of(self.kernel, self.operands)
        state, recorded = self.driver.shapes(key, chains)
        self.room = room(recorded)
        check_declarations(self.kernel, recorded, chains, self.required, self.sizes)
        max_draws = (self.total - self.tune) // self.thin if self.stop is None and self.max_seconds is None else None
        check_draws(recorded, max_draws, chains)
        self._restore(state, recorded, key)
        shown = progress and is_watched(sys.stderr)
        with tqdm(total=self.total, initial=min(self.done, self.total), disable=not shown, unit="draw") as bar:
            try:
                stopped = self._loop(key, chains, bar)
            except KeyboardInterrupt:
                # It may have come within a chunk: parts beyond ``done`` are incomplete.
                self.parts = [(first, part) for first, part in self.parts if first < self.done]
                stopped = "interrupted"
                self._save()
                if not self.parts:
                    raise
        with self.late.whole():
            return self._finished(chains, stopped, progress and not shown)

    def _finished(self, chains: int, stopped: str, says: bool) -> Run:
        self._save()
        line = f"{chains} chains, draw {self.done} of {self.total} in {self._seconds():.1f} s: {stopped}"
        _log.info(line)
        if not self.parts:
            raise TimeoutError(self._no_draw())
        if says:
            say(line)
        count = (self.total - self.tune) // self.thin  # a checkpoint may hold more
        draws = {name: np.swapaxes(value[:count], 0, 1) for name, value in joined(self.parts).items()}
        declared = dict(self.kernel.variables), tuple(self.kernel.statistics)
        return Run(draws, self.position[0], stopped, self._seconds(), *declared)

    def _loop(self, key: PRNGKeyArray, chains: int, bar: Any) -> str:
        """Draw until there is a reason to stop, and return it."""
        if self.done > self.total or (self.done == self.total and self.stop is None):
            return "draws"
        if self._at_check() and self._is_reached(bar):
            return "target"
        if self.done == self.total:
            return "draws"
        bar.set_description("compiling (once)")
        if self.position[0] is None:
            self.position = (self.driver.init(key, chains), 0)
        size, first = 1, True  # the first chunk is one draw, and the compilation
        while True:
            count = min(size, self._next_stage() - self.done)
            clock = time.perf_counter()
            self.advance(count)
            took = time.perf_counter() - clock
            if first:
                _log.debug("compiled, and the first draw taken, in %.1f s", took)
                bar.unpause()  # estimate the remaining time from draws only
            rate = 2 if first else count * self.chunk_seconds / max(took, 1e-6)
            size, first = int(np.clip(rate, 1, min(self.room, 4 * size))), False
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

    def advance(self, count: int) -> None:
        """Take ``count`` draws."""
        state, part = self.driver.chunk(self.position[0], count)
        self._check_finite(part, state, f"after draw {self.done + count} of each chain")
        first = (self.tune - self.done - 1) % self.thin
        if self.done >= self.tune and first < count:
            # A copy, because a view would keep the whole buffer, which is as large for one draw as for a hundred.
            part = {name: np.array(value[first :: self.thin]) for name, value in part.items()}
            self.parts.append((self.done, part))
        self.position = (state, self.done + count)

    def _next_stage(self) -> int:
        """Total number of draws that the next chunk may not exceed."""
        if self.done < self.tune:
            return self.tune
        if self.stop is None:
            return self.total
        return min(self.tune + self.thin * self.stop.next_check(self.kept), self.total)

    def _at_check(self) -> bool:
        """True if the stop rule is due: at its numbers of draws, and at the end."""
        if self.stop is None or self.kept == 0 or (self.done - self.tune) % self.thin:
            return False
        return self.done == self.total or self.stop.next_check(self.kept - 1) == self.kept

    def _is_reached(self, bar: Any) -> bool:
        assert self.stop is not None
        names = [name for name in self.parts[0][1] if natural_name(name) in self.kernel.variables]
        assessment = self.stop.assess(
            {name: np.swapaxes(np.concatenate([part[name] for _, part in self.parts]), 0, 1) for name in names}
        )
        r_hat = "" if np.isnan(assessment.r_hat) else f", largest R-hat {assessment.r_hat:.3f}"
        bar.set_postfix_str(f"smallest ESS {assessment.ess:.0f} of {self.stop.ess:g}{r_hat}")
        return assessment.reached

    def _restore(self, state: Any, recorded: Mapping[str, jax.ShapeDtypeStruct], key: PRNGKeyArray) -> None:
        """Resume from the checkpoint, if there is one, given the shapes of the state and of the record of a step."""
        if self.checkpoint is None:
            return
        saved = self.checkpoint.restore(state, recorded, key, self.tune, self.thin)
        if saved is not None:
            self.position = (saved.state, saved.done)
            self.seconds_before = saved.seconds
            self.parts = [] if saved.draws is None else [(self.tune, saved.draws)]

    def _save(self) -> None:
        """Write the draws since the last checkpoint."""
        if self.checkpoint is None or self.done == self.checkpoint.done:
            return
        new = [part for first, part in self.parts if first >= self.checkpoint.done]
        draws = {name: np.concatenate([part[name] for part in new]) for name in new[0]} if new else None
        try:
            self.checkpoint.save(self.position[0], draws, self.done, self._seconds())
        except OSError as error:  # the draws are still in memory, and the folder is unchanged
            warn(f"{error} The checkpoint stays at draw {self.checkpoint.done}; the run continues.", IncompleteWarning)

    def _seconds(self) -> float:
        return self.seconds_before + time.perf_counter() - self.begin

    def _no_draw(self) -> str:
        advice = (
            "raise max_seconds, lower tune or thin, or give checkpoint=PATH, so that a second call goes on where this "
            "one ended"
            if self.checkpoint is None
            else f"the tuning so far is in {self.checkpoint.path}: call again with the same arguments to go on"
        )
        tuned = min(self.done, self.tune)
        return (
            f"max_seconds: {self.max_seconds:g} s were used up after {tuned} of {self.tune} tuning draws, before a "
            f"draw was kept; {advice}."
        )

    def _check_finite(self, record: dict[str, Shaped[np.ndarray, "_ C ..."]], state: Any, when: str) -> None:
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
        if jnp.issubdtype(getattr(leaf, "dtype", bool), jnp.inexact) and not np.all(np.isfinite(np.asarray(leaf)))
    ]
