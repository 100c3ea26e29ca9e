"""From what samplers record to what a posterior holds: names, scales, and the intercept of ``X`` itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._typing import Float, Shaped
from ..sampling.scales import natural

__all__ = ["Finishing"]

# Recorded beside weights where the noise is centred: wᵀc, without which an intercept cannot be moved later.
_CENTRE_SCORE = "centre_score"
Part = dict[str, Shaped[np.ndarray, "..."]]


@dataclass(frozen=True)
class Finishing:
    """See :class:`bayesdrop.sampling.run.keeping.Finish`.

    Attributes
    ----------
    centre : array (p,) or None
        Where the noise is centred, if there is an intercept to be moved.
    multiclass : bool
        Intercepts are those of many classes, and sum to zero.

    Examples
    --------
    >>> finish = Finishing(np.array([2.0]), False)
    >>> part = {"weight": np.ones((1, 3, 1)), "intercept": np.full((1, 3), 5.0)}
    >>> finish.values(part | finish.more(part))["intercept"].tolist()
    [[3.0, 3.0, 3.0]]
    """

    centre: Float[np.ndarray, " p"] | None
    multiclass: bool

    def more(self, part: Part) -> Part:
        """``wᵀc`` of every draw, in double precision; arrays have two axes, of draws and chains, before their own."""
        if self.centre is None:
            return {}
        weight = part["weight"]
        found = np.empty(weight.shape[:-1])
        for place in np.ndindex(weight.shape[:2]):  # one at a time, for all of them would be as large as the draws
            found[place] = np.sum(weight[place].astype(np.float64) * self.centre, axis=-1)
        return {_CENTRE_SCORE: found}

    def values(self, part: Part) -> Part:
        """Variables as they are stored."""
        found = natural({name: value for name, value in part.items() if name != _CENTRE_SCORE})
        if self.centre is not None and "intercept" in found:  # whose draws may not be kept
            # In double precision, for wᵀc is taken off here and added again wherever scores are computed.
            intercept = found["intercept"].astype(np.float64) - part[_CENTRE_SCORE]
            if self.multiclass:
                intercept = intercept - intercept.mean(axis=-1, keepdims=True)
            found["intercept"] = intercept
        return found
