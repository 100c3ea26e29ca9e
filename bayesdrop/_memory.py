"""Memory limit of this process, a check before a large allocation, and the memory maps of compiled programs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "BLOCK", "LIMITS", "Limits", "check_memory", "drop_programs_if_maps_run_short", "map_share", "memory_limit",
    "size_in_words",
]  # fmt: skip

BLOCK = 1 << 20
"""Maximum number of entries of an intermediate array, 8 MB; an eighth of them fits into the cache of a core."""

# Memory controllers of Linux, versions 1 and 2, and the file with the limit of each.
_CONTROLLERS = {"sys/fs/cgroup": "memory.max", "sys/fs/cgroup/memory": "memory.limit_in_bytes"}


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes of memory that this process may use; None if unknown.

    The minimum of the memory of the machine, the limits of the containers of the process (Linux control groups), and
    the rest of its address space (``ulimit -v``).

    Parameters
    ----------
    root : pathlib.Path
        Folder with ``proc`` and ``sys``; another one for tests.

    Examples
    --------
    >>> memory_limit() > 10**6
    True
    """
    limits = [*_machine(), *_containers(root), *_address_space(root)]
    return min(limits, default=None)


def check_memory(what: str, needed: int, advice: str) -> None:
    """Raise ValueError if ``needed`` bytes are more than this process may use.

    Examples
    --------
    >>> check_memory("X: it takes", 10**18, "use fewer rows.")
    Traceback (most recent call last):
    ...
    ValueError: X: it takes 1,000,000,000 GB, and this process may have ...; use fewer rows.
    """
    limit = memory_limit()
    if limit is not None and needed > limit:
        raise ValueError(f"{what} {size_in_words(needed)}, and this process may have {size_in_words(limit)}; {advice}")


def _machine() -> Iterator[int]:
    try:
        yield int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # no such call on Windows
        return


def _containers(root: Path) -> Iterator[int]:
    """Limits of the control group of this process and of those around it, in either version."""
    # Of version 2 "0::/path"; of version 1 "7:cpu,memory:/path".
    for line in _lines(root / "proc/self/cgroup"):
        _, _, tail = line.partition(":")
        controllers, _, path = tail.partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        for mount, name in _CONTROLLERS.items():
            # Inside a container the path may be that of the host, with the limit at the mount.
            inner = Path(path.lstrip("/"))
            for folder in {inner, *inner.parents}:
                yield from (int(text) for text in _lines(root / mount / folder / name) if text.isdecimal())


def _address_space(root: Path) -> Iterator[int]:
    """Limit of the address space minus the mapped size of the process."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    sizes = (re.fullmatch(r"VmSize:\s*(\d+) kB", line) for line in _lines(root / "proc/self/status"))
    mapped = next((1024 * int(match[1]) for match in sizes if match), 0)
    yield max(limit - mapped, 0)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []


def size_in_words(count: int) -> str:
    """Bytes as text.

    Examples
    --------
    >>> size_in_words(2_500_000), size_in_words(83_800_000_000)
    ('2.5 MB', '84 GB')
    """
    return f"{count / 1e9:,.0f} GB" if count >= 1e10 else f"{count / 1e6:,.3g} MB"


@dataclass(frozen=True)
class Limits:
    """Limit above which compiled programs are dropped.

    Attributes
    ----------
    map_share : float
        Maximum share of memory maps in use before a run, which adds a few per cent.
    """

    map_share: float = 0.7


LIMITS = Limits()


def drop_programs_if_maps_run_short(limits: Limits = LIMITS) -> None:
    """Clear the compiled programs of JAX if few memory maps are left; JAX compiles them again when called.

    A compiled sampler takes up to a thousand of the memory maps that Linux allows a process, usually 65,530, and XLA
    aborts the process when none is left, as in a script that samples dozens of tables.
    """
    if map_share() > limits.map_share:
        import jax

        jax.clear_caches()


def map_share() -> float:
    """Share of the allowed memory maps that this process uses; 0 if the system is not Linux.

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
