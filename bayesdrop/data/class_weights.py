"""Weights of classes, which multiply the weights of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._typing import AnyArray, Float, PerRow, Shaped
from .._validation import check_instance, shown
from ..designs import Design

__all__ = ["class_factors", "weigh_classes"]


def class_factors(
    class_weight: Any, classes: Shaped[AnyArray, " K"], code: PerRow, weight: PerRow, design: Design
) -> Float[np.ndarray, " K"] | None:
    """Weights of the classes of the rows of a design, (K,); None if all are 1.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weight of each label, 1 where it is left out; ``"balanced"``: ``Σs/(K Σs_k)`` with the row weights ``s``, by
        which all classes weigh the same, and all rows together what they did.
    classes : array (K,)
        Labels.
    code : array (n,)
        Number of the class of each row.
    weight : array (n,)
        Row weights.
    design : Design (n, p)
        Whose rows they are.

    Raises
    ------
    TypeError
        If it is none of these.
    ValueError
        If weights are not finite and above 0, or labels are unknown and known ones left out.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> code, rows = np.array([0, 0, 0, 1]), as_design(np.ones((4, 1)))
    >>> class_factors("balanced", np.array(["no", "yes"]), code, np.ones(4), rows).round(3).tolist()
    [0.667, 2.0]
    >>> class_factors({"yse": 2.0}, np.array(["no", "yes"]), code, np.ones(4), rows)
    Traceback (most recent call last):
    ValueError: class_weight: expected the labels ['no', 'yes'], got ['yse'] too; name the classes as y has them.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = design.class_totals(code, weight, len(classes))
        factor = np.asarray(totals.sum() / (len(classes) * totals))
    else:
        expected = 'a dict from class to weight, "balanced" or None'
        given = dict(check_instance(class_weight, "class_weight", Mapping, expected))
        labels = classes.tolist()
        strange = [label for label in given if label not in labels]
        # Some rows may lack a class that a whole table has; a label that takes the place of another is a slip.
        if strange and any(label not in given for label in labels):
            raise ValueError(
                f"class_weight: expected the labels {shown(labels)}, got {shown(strange)} too; name the classes as y "
                "has them."
            )
        numbers = [given.get(label, 1.0) for label in labels]
        real = all(isinstance(one, int | float | np.integer | np.floating) for one in numbers)
        factor = np.array(numbers, dtype=np.float64) if real else np.full(len(labels), np.nan)
        if not (np.all(np.isfinite(factor)) and np.all(factor > 0)):
            raise ValueError(f"class_weight: expected finite numbers above 0, got {shown(class_weight)}.")
    return factor


def weigh_classes(factor: Float[np.ndarray, " K"] | None, code: PerRow, weight: PerRow) -> PerRow:
    """Row weights times those of their classes, (n,).

    Examples
    --------
    >>> weigh_classes(np.array([0.5, 2.0]), np.array([0, 1, 1]), np.ones(3)).tolist()
    [0.5, 2.0, 2.0]
    """
    return weight if factor is None else weight * sum(factor[k] * (code == k) for k in range(len(factor)))
