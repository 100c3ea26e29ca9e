"""The group ``log_likelihood`` in a file, where a number for each draw and row would fill memory.

The file is netCDF, as ArviZ writes groups, and is written some rows at a time under another name, so that there is a
whole one or none. What is read from it is read when it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._netcdf import check_file, new_netcdf, reading
from ..._progress import uninterrupted
from ..._typing import Float
from ..draws.draws import Draws

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["GROUP", "STEP", "open_group", "write_group"]

GROUP = "log_likelihood"
STEP = 1 << 23
"""Numbers that are computed, written or read at once: 64 MB."""

# Numbers of a piece of the file, which is read as a whole.
_PIECE = 1 << 17
_MARK = "bayesdrop_log_likelihood"
_DIMS = ("chain", "draw", "obs_id")


def write_group(path: Any, draws: Draws, parts: Iterator[tuple[slice, Float[np.ndarray, "C S rows"]]], n: int) -> None:
    """Write the values of all rows, block after block, whole or not at all.

    Parameters
    ----------
    path : path
        File, which is replaced.
    draws : Draws
        What they are the log likelihoods of.
    parts : iterator of (slice, array (C, S, rows))
        Which rows, and their values.
    n : int
        Number of rows.
    """
    chains, steps = draws.shape
    with new_netcdf(path) as file:
        with uninterrupted():
            group = file.create_group(GROUP)
            group.dimensions = {"chain": chains, "draw": steps, "obs_id": n}
            for name, values in (*draws.steps.items(), ("obs_id", np.arange(n))):
                group.create_variable(name, (name,), data=np.asarray(values))
            rows = min(max(_PIECE // (chains * steps), 1), n)
            held = group.create_variable("y", _DIMS, dtype=np.float64, chunks=(chains, steps, rows))
            group.attrs[_MARK] = _sum(draws)
        for here, values in parts:
            with uninterrupted():
                held[:, :, here] = values


def open_group(path: Any, draws: Draws, n: int) -> xr.Dataset:
    """The group of a file of :func:`write_group`; its values are read when they are needed.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is cut short, something else, or of other draws or rows.
    """
    import xarray as xr

    writer = "bd.log_likelihood(post, X, y, path=…)"
    with reading(path, "log likelihoods", writer, f"write it again by {writer}") as file:
        check_file(file)
        found = xr.open_dataset(file, group=GROUP, engine="h5netcdf", cache=False)
    came = {name: int(size) for name, size in found.sizes.items()}
    expected = dict(zip(_DIMS, (*draws.shape, n), strict=True))
    if came != expected or found.attrs.get(_MARK) != _sum(draws):
        found.close()
        raise ValueError(
            f"path: expected the log likelihoods of this posterior, {expected}, got {came}"
            f"{' of other draws' * (came == expected)} in {str(file)!r}; write them by "
            "bd.log_likelihood(post, X, y, path=…)."
        )
    return found


def _sum(draws: Draws) -> float:
    """A number by which draws are known again."""
    return float(draws.weight.sum(dtype=np.float64) + draws.intercept.sum(dtype=np.float64))
