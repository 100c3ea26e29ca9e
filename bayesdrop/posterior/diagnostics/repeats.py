"""Find faults of stored draws exactly, for ``bd.diagnose``: chains that never move, and draws that are stored twice.

Draws of a continuous posterior never coincide, unless a sampler rejects a move and stores the draw again. Copies look
like good mixing to R-hat and effective sample sizes. Compared are all variables of a draw at once.

A run is a sequence of equal draws, one after another. If a sampler rejects, the lengths of twenty runs have a common
divisor above 1 with a probability below 2⁻¹⁸. Twenty draws that come again in the same order are no coincidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..._typing import Bool, Int, Shaped
from .mixing import LIMITS

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["common_multiple", "constant_entries", "draw_hashes", "shifted_copies"]


def draw_hashes(values: Sequence[Shaped[np.ndarray, "C S ..."]]) -> Int[np.ndarray, "C S"]:
    """One number for each draw, the same for equal draws alone."""
    chains, draws = values[0].shape[:2]
    rows = [np.ascontiguousarray(part) for part in values]
    found = [hash(b"".join(part[c, s].tobytes() for part in rows)) for c in range(chains) for s in range(draws)]
    return np.array(found, dtype=np.int64).reshape(chains, draws)


def _run_starts(hashes: Int[np.ndarray, "C S"]) -> Bool[np.ndarray, "C S"]:
    """Draws that differ from the draw before."""
    starts = np.ones(hashes.shape, dtype=bool)
    starts[:, 1:] = hashes[:, 1:] != hashes[:, :-1]
    return starts


def common_multiple(hashes: Int[np.ndarray, " S"]) -> int:
    """How many times each draw of a chain is stored in a row, 1 if that is as it should be.

    Examples
    --------
    >>> common_multiple(np.arange(60)), common_multiple(np.repeat(np.arange(60), 3))
    (1, 3)
    """
    places = np.flatnonzero(_run_starts(hashes[None])[0])[1:]
    return int(np.gcd.reduce(np.diff(places))) if len(places) > LIMITS.copies else 1


def shifted_copies(hashes: Int[np.ndarray, "C S"]) -> list[tuple[int, int, int]]:
    """Chains that repeat draws of a chain: (chain, copy, draws by which the copy is later).

    Most draws of the copy that have a counterpart are equal to it.

    Examples
    --------
    >>> chain = np.arange(100)
    >>> shifted_copies(np.array([chain, chain + 30])), shifted_copies(np.array([chain, chain + 200]))
    ([(0, 1, -30)], [])
    """
    starts = _run_starts(hashes)
    chain, place = np.nonzero(starts)
    order = np.argsort(hashes[starts], kind="stable")
    same = np.diff(hashes[starts][order]) == 0
    first, second = order[:-1][same], order[1:][same]
    pairs = np.column_stack([chain[first], chain[second], place[second] - place[first]])
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    copies = []
    for (one, other, shift), count in zip(found.tolist(), counts.tolist(), strict=True):
        comparable = starts[other, max(shift, 0) : hashes.shape[1] + min(shift, 0)].sum()
        if count >= LIMITS.copies and 2 * count > comparable:
            copies.append((one, other, shift))
    return copies


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
