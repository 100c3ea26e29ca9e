"""Rows of whole-number weights as so many rows: each copy has masks of its own, as a power of its likelihood asks.

    [Σ_α p(α | η) exp{−C loss(y, s(α))}]^s  =  Σ_{α¹…αˢ} Π_k p(αᵏ | η) exp{−C loss(y, s(αᵏ))}

A power that is no whole number has no such form, unless the row has no entry that may be dropped: then there is nothing
to sum, and its weight multiplies the loss.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._memory import check_memory
from .._typing import Float
from ..data.dataset import Dataset
from ..rates import RateMap

__all__ = ["first_broken_weight", "with_copies"]


def first_broken_weight(data: Dataset, rate_map: RateMap) -> float | None:
    """The first weight that is no whole number, of the rows that may lose an entry; None if there is none."""
    weight = np.asarray(data.weight)
    broken = ~np.isclose(np.rint(weight), weight, rtol=1e-9, atol=0)
    if np.any(broken):
        broken &= _entries(data, rate_map) > 0
    return float(weight[np.argmax(broken)]) if np.any(broken) else None


def _entries(data: Dataset, rate_map: RateMap) -> Float[np.ndarray, " n"]:
    """Number of entries of each row that may be dropped."""
    noised, X = np.ones(data.design.shape[1]) if rate_map.is_free else (rate_map.initial > 0) * 1.0, data.X
    return np.asarray((X != 0).astype(np.float64) @ noised).ravel()


def with_copies(data: Dataset, rate_map: RateMap) -> Dataset:
    """The data with every row that may lose an entry as often as its weight says, at weight 1.

    Parameters
    ----------
    data : Dataset
        Rows with their weights.
    rate_map : RateMap
        Which features may be dropped.

    Raises
    ------
    ValueError
        If such a row has a weight that is no whole number, or the copies do not fit into memory.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from bayesdrop.data.dataset import as_dataset
    >>> data = as_dataset([[1.0], [0.0], [2.0]], [0.5, 1.0, 1.5], [3.0, 0.5, 1.0], None, False)
    >>> found = with_copies(data, bd.Model(bd.Squared()).bind(["x0"]))
    >>> found.target.tolist(), found.weight.tolist()
    ([0.5, 0.5, 0.5, 1.0, 1.5], [1.0, 1.0, 1.0, 0.5, 1.0])
    """
    weight = np.asarray(data.weight)
    if np.all(weight == 1):
        return data
    broken = first_broken_weight(data, rate_map)
    if broken is not None:
        raise ValueError(
            "sample_weight: a weight is a power of the likelihood of a row, its masks summed out, and bd.Gibbs() takes "
            "whole numbers, as so many copies of the row with masks of their own; got among the weights, class weights "
            f"included, {broken:g}. Take whole numbers, or method=bd.HMC(), where it takes the model, and bd.reweight, "
            "which take any."
        )
    entries = _entries(data, rate_map)
    masked = entries > 0
    times = np.where(masked, np.rint(weight), 1.0)
    if not np.any(times > 1):
        return replace(data, weight=np.where(masked, 1.0, weight))
    check_memory(
        f"sample_weight: bd.Gibbs() draws the masks of a row of weight 2 twice, and {times.sum():,.0f} rows take",
        int(8 * (times @ (entries + 1))),
        "take method=bd.HMC() and correct it by bd.reweight, which take any weights, or give smaller ones.",
    )
    design: Any = data.design
    if not hasattr(design, "__getitem__"):
        raise ValueError(
            "sample_weight: bd.Gibbs() draws the masks of a row of weight 2 twice, and rows on devices cannot be "
            "repeated there; repeat them in X and y, or take method=bd.HMC() and correct it by bd.reweight."
        )
    rows = np.repeat(np.arange(len(weight)), times.astype(np.int64))
    return replace(
        data,
        design=design[rows],
        target=data.target[rows],
        weight=np.where(masked, 1.0, weight)[rows],
        offset=None if data.offset is None else data.offset[rows],
    )
