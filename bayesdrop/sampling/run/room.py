"""Whether the draws of a run fit into memory: told before the first of them, with how much they need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..._memory import check_memory

__all__ = ["check_draws"]


def check_draws(kept: Mapping[str, Any], held: int, draws: int | None, chains: int) -> None:
    """Raise ValueError if draws would take more memory than there is.

    Parameters
    ----------
    kept : mapping of str to jax.ShapeDtypeStruct
        What is kept of a draw of all chains.
    held : int
        Bytes of the summaries of what is not kept.
    draws : int or None
        Draws of each chain; None if fewer may do.
    chains : int
        Number of chains.

    Examples
    --------
    >>> import jax, numpy as np
    >>> check_draws({"weight": jax.ShapeDtypeStruct((4, 10**6), np.float32)}, 0, 10**8, 4)
    Traceback (most recent call last):
    ...
    ValueError: draws: 100,000,000 draws of 4 chains take 1,600,000 GB, and this process may have ...
    """
    one = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in kept.values())
    # One draw is there as it is made, as it is recorded, and where it is kept.
    for count, copies in ((1, 3), *(() if draws is None else ((draws, 1),))):
        what = "one draw" if count == 1 else f"{count:,} draws"
        check_memory(
            f"draws: {what} of {chains} chains take",
            copies * count * one + held,
            'keep fewer variables one by one, as in variables=["intercept"], or take fewer draws, chains or features.',
        )
