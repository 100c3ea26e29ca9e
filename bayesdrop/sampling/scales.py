"""The scales on which samplers record variables whose ends matter, and the scales on which users read them.

A rate near 1 has no digits left in single precision, and one near 0 may underflow. Samplers record logits and
logarithms, in their own precision; what is stored is the variable itself, in double precision.
"""

from __future__ import annotations

import numpy as np

from .._typing import AnyArray, Shaped

__all__ = ["natural", "natural_name"]

Draws = dict[str, Shaped[AnyArray, "..."]]

_LOGITS = {"logit_rate": "rate", "logit_group_rate": "group_rate"}
_LOGARITHMS = {"log_group_strength": "group_strength", "log_weight_scale": "weight_scale"}


def natural_name(name: str) -> str:
    """Name in the posterior of what a sampler records under a name.

    Examples
    --------
    >>> natural_name("logit_rate"), natural_name("weight")
    ('rate', 'weight')
    """
    return _LOGITS.get(name) or _LOGARITHMS.get(name) or name


def natural(draws: Draws) -> Draws:
    """Recorded draws by the names and on the scales of a posterior; NumPy arrays that change are double then.

    Examples
    --------
    >>> natural({"weight": np.ones(1), "logit_rate": np.array([0.0, -50.0], np.float32)})["rate"].tolist()
    [0.5, 1.9287498479639178e-22]
    """
    found = {}
    for name, value in draws.items():
        new = natural_name(name)
        if new == name:
            found[name] = value
            continue
        wide = value.astype(np.float64) if isinstance(value, np.ndarray) else value
        xp = wide.__array_namespace__()
        found[new] = xp.exp(-xp.logaddexp(xp.zeros_like(wide), -wide) if name in _LOGITS else wide)
    return found
