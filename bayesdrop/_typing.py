"""Shapes in the types, by jaxtyping: ``Float[np.ndarray, "p K"]`` reads "p features by K problems".

Letters: n rows, p features, K problems or classes, k free rates, g groups, C chains, S draws, D coordinates. Those of a
function agree with each other in one call, which the tests check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from jaxtyping import Bool, Float, Int, Num, Shaped

if TYPE_CHECKING:
    from arviz import InferenceData as ArvizData
    from pandas import DataFrame
else:
    # What editors complete: InferenceData, of ArviZ 1 DataTree, and a data frame. Neither library is imported for it.
    ArvizData: TypeAlias = Any
    DataFrame: TypeAlias = Any

__all__ = ["AnyArray", "ArvizData", "Bool", "DataFrame", "Float", "Int", "MatrixLike", "Num", "PerRow", "Shaped"]

AnyArray: TypeAlias = Any
"""An array in whichever namespace its caller works, NumPy's or JAX's, as in ``Float[AnyArray, "n K"]``."""

PerRow: TypeAlias = Any
"""A vector over the rows of a design, (n,) or (n, K), wherever the rows lie; see :mod:`bayesdrop.designs.rows`."""

MatrixLike: TypeAlias = Any
"""What a user gives as a matrix (n, p): an array, a data frame, scipy sparse, blocks, a collection on a cluster."""
