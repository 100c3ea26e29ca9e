"""Responses as ArviZ has them: numbers, or classes as 0 and 1 with their names beside them.

Inside the package a class is a sign, −1 or +1. Functions for binary data, ArviZ's among them (accuracies, separation
plots, calibration curves), take the mean of ``y`` for a probability and need 0 and 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import AnyArray, Float, Num, Shaped

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["class_names", "observed_group", "read_response"]


def class_names(classes: Any) -> dict[str, Shaped[np.ndarray, " classes"]]:
    """Coordinate ``class``: the labels as text, that of ``y = 0`` first; nothing for numbers or unknown labels.

    Examples
    --------
    >>> class_names([False, True])["class"].tolist()
    ['False', 'True']
    """
    return {} if classes is None else {"class": np.array([str(label) for label in classes])}


def observed_group(
    y: Num[AnyArray, " n"], classes: Any, *, binary: bool, counts: bool = False, multiclass: bool = False
) -> xr.Dataset:
    """Group ``observed_data``: ``y`` (obs_id), signs as 0 and 1 (int8), counts and classes int64, numbers as they are.

    Parameters
    ----------
    y : array (n,)
        Labels as −1 and +1, numbers of classes, or numbers.
    classes : sequence of K labels, optional
        Labels of −1 and of +1, or by number.
    binary : bool
        True if ``y`` holds signs.
    counts : bool
        True if it holds counts.
    multiclass : bool
        True if ``y`` holds numbers of classes.

    Examples
    --------
    >>> group = observed_group(np.array([1.0, -1.0]), ["no", "yes"], binary=True)
    >>> group["class"].values[group["y"].values].tolist()
    ['yes', 'no']
    """
    import xarray as xr

    y = np.asarray(y)
    y = (y > 0).astype(np.int8) if binary else y.astype(np.int64) if counts or multiclass else y
    coords = {"obs_id": np.arange(len(y)), **(class_names(classes) if binary or multiclass else {})}
    return xr.Dataset({"y": ("obs_id", y)}, coords=coords)


def read_response(observed: xr.Dataset, *, binary: bool) -> Float[np.ndarray, " n"]:
    """Inverse of :func:`observed_group`: signs or numbers, float64 (n,).

    Raises
    ------
    ValueError
        If classes are not coded 0 and 1, as in files of releases that stored signs.

    Examples
    --------
    >>> read_response(observed_group(np.array([1.0, -1.0]), None, binary=True), binary=True).tolist()
    [1.0, -1.0]
    """
    y = np.asarray(observed["y"].values, dtype=np.float64)
    if not binary:
        return y
    if not np.all((y == 0) | (y == 1)):
        raise ValueError(
            f"post: expected classes coded 0 and 1 in observed_data, got {np.unique(y)[:5].tolist()}; the posterior "
            "was saved by an earlier release or changed since. Sample again with bd.sample."
        )
    return 2 * y - 1
