"""Checks before the first draw: records of the kernel, memory and process.

A process that was forked after sampling lacks JAX's threads, and would wait for them for ever.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from ..._memory import check_memory
from ..protocols import Kernel, natural_name

__all__ = ["check_declarations", "check_draws", "check_process"]


def check_declarations(
    kernel: Kernel,
    recorded: Mapping[str, jax.ShapeDtypeStruct],
    chains: int,
    required: Sequence[str],
    sizes: Mapping[str, int],
) -> None:
    """Compare the declarations of a kernel with the record of a step, required names and the lengths of known dims.

    Raises
    ------
    TypeError
        If they do not agree; the message lists all differences.
    """
    shapes = {natural_name(name): tuple(value.shape) for name, value in recorded.items()}
    variables, statistics = dict(kernel.variables), tuple(kernel.statistics)
    wrong = [f"{name!r} is required and not declared" for name in required if name not in {*variables, *statistics}]
    wrong += [f"{name!r} is declared twice" for name in statistics if name in variables]
    wrong += [f"{name!r} is recorded and not declared" for name in shapes if name not in {*variables, *statistics}]
    dim_sizes: dict[str, int] = {"chain": -1, "draw": -1, **sizes}  # the first two are reserved
    for name, dims in {**variables, **dict.fromkeys(statistics, ())}.items():
        if name not in shapes:
            wrong.append(f"{name!r} is declared and not recorded")
            continue
        shape = shapes[name]
        lengths = [dim_sizes.get(dim, size) for dim, size in zip(dims, shape[1:], strict=False)]
        if shape != (chains, *lengths) or len(dims) != len(shape) - 1 or len(set(dims)) < len(dims):
            wrong.append(f"{name!r} has shape {shape} on (chain, {', '.join(dims)}), of {chains} chains")
        else:
            dim_sizes |= dict(zip(dims, lengths, strict=True))
    wrong += [f"{name!r} is the name of a dim as well" for name in (*variables, *statistics) if name in dim_sizes]
    if wrong:
        raise TypeError(
            f"method: expected a kernel that records {list(required)} and all that it declares, got {shapes}: "
            f"{'; '.join(wrong)}; see bayesdrop.sampling.protocols.Kernel."
        )


_first: int | None = None


def check_process() -> None:
    """Remember the first process that samples; raise RuntimeError in one that was forked from it.

    Examples
    --------
    >>> check_process()
    """
    global _first
    if _first is None:
        _first = os.getpid()
    if _first != os.getpid():
        raise RuntimeError(
            f"this process was forked (os.fork) from process {_first}, which had sampled: the threads of JAX are not "
            'here, and sampling would never end. Start workers by multiprocessing.get_context("spawn"), '
            "joblib or dask.distributed, or fork before the first sample is drawn."
        )


def check_draws(recorded: Mapping[str, Any], draws: int | None, chains: int) -> None:
    """Raise ValueError if draws would need more memory than available.

    Parameters
    ----------
    recorded : mapping of str to jax.ShapeDtypeStruct
        Arrays of one draw of all chains.
    draws : int or None
        Kept draws of each chain; None if the run may end earlier.
    chains : int
        Number of chains.

    Examples
    --------
    >>> import jax, numpy as np
    >>> check_draws({"weight": jax.ShapeDtypeStruct((4, 10**6), np.float32)}, 10**8, 4)
    Traceback (most recent call last):
    ...
    ValueError: draws: 100,000,000 draws of 4 chains take 1,600,000 GB, and this process may have ...
    """
    one = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in recorded.values())
    # One draw is in memory three times: as it is made, in the record, and among the kept draws.
    for count, copies in ((1, 3), *(() if draws is None else ((draws, 1),))):
        what = "one draw" if count == 1 else f"{count:,} draws"
        check_memory(
            f"draws: {what} of {chains} chains take",
            copies * count * one,
            "use fewer draws, chains or features. bd.sample(..., draws=400, thin=10) keeps every tenth of 4,000 draws.",
        )
