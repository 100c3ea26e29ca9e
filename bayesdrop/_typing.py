"""Shapes in the types, by jaxtyping: ``Float[np.ndarray, "p K"]`` reads "p features by K problems".

Letters: n rows, p features, K problems or classes, k free rates, g groups, C chains, S draws, D coordinates. Those of a
function agree with each other in one call, which the tests check.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from jaxtyping import Bool, Float, Int, Num, Shaped

__all__ = ["AnyArray", "Bool", "Float", "Int", "MatrixLike", "Num", "PerRow", "Shaped"]

AnyArray: TypeAlias = Any
"""An array in whichever namespace its caller works, NumPy's or JAX's, as in ``Float[AnyArray, "n K"]``."""

PerRow: TypeAlias = Any
"""A vector over the rows of a design, (n,) or (n, K), wherever the rows lie; see :mod:`bayesdrop.designs.rows`."""

MatrixLike: TypeAlias = Any
"""What a user gives as a matrix (n, p): an array, a data frame, scipy sparse, blocks, a collection on a cluster."""
