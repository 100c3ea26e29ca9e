"""Parameters of the estimators, kept as they are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["set_parameters"]


def set_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Keep the arguments of a constructor, its ``locals()``, as they came: scikit-learn clones them by identity.

    Examples
    --------
    >>> class Scaled:
    ...     def __init__(self, factor=2):
    ...         set_parameters(self, locals())
    >>> Scaled(3).factor
    3
    """
    for name, value in given.items():
        if name != "self":
            setattr(estimator, name, value)
