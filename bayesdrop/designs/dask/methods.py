"""Predictions of Dask collections: a lazy Dask array, made by the estimator's own method a block at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from .rows import is_dask, is_frame

__all__ = ["by_blocks"]

Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Let a method of a fitted estimator, rows to numbers or labels, take Dask collections and return Dask arrays."""

    @wraps(method)
    def taking_both(self: Any, X: Any) -> Any:
        return _mapped(self, method.__name__, X) if is_dask(X) else method(self, X)

    return cast(Method, taking_both)


def _mapped(estimator: Any, name: str, X: Any) -> Any:
    import dask
    import dask.array as da

    example = getattr(estimator, name)(_example(X))
    if is_frame(X):
        parts, sizes = X.to_delayed(), [np.nan] * X.npartitions
    else:
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        parts, sizes = X.to_delayed().ravel(), X.chunks[0]
    # The estimator is sent once, not with every block.
    sent, apply = dask.delayed(estimator, traverse=False), dask.delayed(_apply)
    return da.concatenate(
        [
            da.from_delayed(apply(sent, name, part, example[:0]), (size, *example.shape[1:]), dtype=example.dtype)
            for part, size in zip(parts, sizes, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def _apply(estimator: Any, name: str, rows: Any, nothing: Any) -> Any:
    return getattr(estimator, name)(rows) if rows.shape[0] else nothing


def _example(X: Any) -> Any:
    """One row of zeros like those of ``X``, from which shape and type of the result are known."""
    zeros = np.zeros((1, X.shape[1]))
    if not is_frame(X):
        return zeros
    import pandas as pd

    return pd.DataFrame(zeros, columns=list(X.columns))
