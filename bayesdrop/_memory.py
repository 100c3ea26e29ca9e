"""Memory of this machine, and sizes in words: what asks for more than there is should say how much before it begins."""

from __future__ import annotations

import os

__all__ = ["machine_memory", "size_in_words"]


def machine_memory() -> int | None:
    """Bytes of memory of this machine; None where it does not tell."""
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return None


def size_in_words(count: int) -> str:
    """Bytes as text.

    Examples
    --------
    >>> size_in_words(2_500_000), size_in_words(83_800_000_000)
    ('2.5 MB', '84 GB')
    """
    return f"{count / 1e9:,.0f} GB" if count >= 1e10 else f"{count / 1e6:,.3g} MB"
