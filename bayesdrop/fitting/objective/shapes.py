"""Shapes of what a point fit works on: blocks with one column per problem."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ..._typing import Float

__all__ = ["FeatureBlock", "ProblemVector", "WeightBlock"]

WeightBlock: TypeAlias = Float[np.ndarray, "q K"]
"""A number for each weight of each problem, the intercepts last: q = p + 1."""

FeatureBlock: TypeAlias = Float[np.ndarray, "p K"]
"""A number for each feature of each problem."""

ProblemVector: TypeAlias = Float[np.ndarray, " K"]
"""A number for each problem."""
