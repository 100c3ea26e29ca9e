"""Drop compiled programs before a process runs out of memory maps. Used by the runner of the samplers.

A compiled sampler takes up to a thousand of the memory maps that Linux allows a process, usually 65,530, and XLA aborts
the process when none is left: a script that samples dozens of tables would end so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax

__all__ = ["LIMITS", "Limits", "drop_programs_if_maps_run_short", "map_share"]


@dataclass(frozen=True)
class Limits:
    """When compiled programs are dropped.

    Attributes
    ----------
    map_share : float
        Share of the memory maps that a process may have in use before a run; a run adds a few per cent.
    """

    map_share: float = 0.7


LIMITS = Limits()


def drop_programs_if_maps_run_short(limits: Limits = LIMITS) -> None:
    """Make JAX forget what it compiled if few memory maps are left; JAX compiles again what is called again."""
    if map_share() > limits.map_share:
        jax.clear_caches()


def map_share() -> float:
    """Share of the memory maps a process may have that this one has; 0 if the system is not Linux.

    Examples
    --------
    >>> 0 <= map_share() < 1
    True
    """
    maps, limit = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
    if not (maps.exists() and limit.exists()):
        return 0.0
    with maps.open("rb") as lines:
        return sum(1 for _ in lines) / int(limit.read_text())
