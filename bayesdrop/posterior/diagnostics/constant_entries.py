"""Find entries of stored draws that never move in some chains, for ``bd.diagnose``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["constant_entries"]


def constant_entries(posterior: xr.Dataset, all_drawn: bool) -> dict[tuple[str, tuple[int, ...]], list[str]]:
    """Entries that never move in some moving chains, by variable and chains, as ``{("weight", (0, 1)): ["age"]}``.

    Parameters
    ----------
    posterior : xarray.Dataset
        Variables on ``chain`` and ``draw``.
    all_drawn : bool
        Every entry was drawn. Else a variable may be held fixed, and entries of another may be 0 or 1 throughout, as
        in a correlation matrix.
    """
    entries: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, part in posterior.items():
        array = part.transpose("chain", "draw", ...)
        if array.dtype.kind != "f":
            continue
        values = array.values.reshape(*array.shape[:2], -1)
        still = np.all(values == values[:, :1], axis=1)  # (C, k)
        same = np.all(still & (values[:, 0] == values[0, 0]), axis=0)
        if not all_drawn:
            still[:, same & (np.all(same) | np.isin(values[0, 0], (0.0, 1.0)))] = False
        for entry in np.flatnonzero(still.any(axis=0)):
            place = np.unravel_index(entry, array.shape[2:]) if array.ndim > 2 else ()
            label = ", ".join(str(array[dim].values[j]) for dim, j in zip(array.dims[2:], place, strict=True))
            entries.setdefault((str(name), tuple(np.flatnonzero(still[:, entry]).tolist())), []).append(label)
    return entries
