"""Which draws of a run are kept: those of some variables one by one, of the others summaries and a few draws."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from ..._typing import Shaped
from ..scales import natural_name
from .summary import Summarised, Summary

__all__ = ["Finish", "Keeping", "joined"]

Part = dict[str, Shaped[np.ndarray, "draws C ..."]]


@runtime_checkable
class Finish(Protocol):
    """Makes what users read of what samplers record; arrays may have any axes before those of a variable."""

    def more(self, part: Part) -> Part:
        """What is kept beside, for what is made of some variables may need others that are not kept."""

    def values(self, part: Part) -> Part:
        """Variables by their names and on the scales of a posterior."""


class Keeping:
    """What becomes of the parts of a run.

    Parameters
    ----------
    kept : collection of str
        Variables, by their names in the posterior, that are kept draw by draw; statistics are kept always.
    variables : collection of str
        All variables that the kernel declares.
    recorded : mapping of str to jax.ShapeDtypeStruct
        What a step records, chains first.
    finish : Finish
        How summaries see what is recorded.

    Attributes
    ----------
    summary : Summary
        Of the variables that are not kept.
    shapes : dict of jax.ShapeDtypeStruct
        What is kept of a step, chains first.
    """

    def __init__(
        self, kept: Collection[str], variables: Collection[str], recorded: Mapping[str, Any], finish: Finish
    ) -> None:
        self._finish = finish
        self._left_out = {name for name in recorded if natural_name(name) in set(variables) - set(kept)}
        example = self._whole({name: np.zeros((1, *leaf.shape), leaf.dtype) for name, leaf in recorded.items()})
        self.shapes = {
            name: jax.ShapeDtypeStruct(value.shape[1:], value.dtype)
            for name, value in example.items()
            if name not in self._left_out
        }
        self.summary = Summary(
            {name: (value.shape[1:], value.dtype) for name, value in self._summarised(example).items()}
        )

    def take(self, part: Part) -> Part:
        """Add draws to the summaries, and return what is kept of them."""
        whole = self._whole(part)
        values = self._summarised(whole)
        for step in range(len(next(iter(part.values())))):
            self.summary.add({name: value[step] for name, value in values.items()})
        return {name: value for name, value in whole.items() if name not in self._left_out}

    def result(self) -> dict[str, Summarised]:
        """Summaries of the draws so far."""
        return self.summary.result()

    def _whole(self, part: Part) -> Part:
        return part | self._finish.more(part)

    def _summarised(self, whole: Part) -> Part:
        names = {natural_name(name) for name in self._left_out}
        return {name: value for name, value in self._finish.values(whole).items() if name in names}


def joined(
    parts: list[tuple[int, dict[str, Shaped[np.ndarray, "_ C ..."]]]],
) -> dict[str, Shaped[np.ndarray, "_ C ..."]]:
    """All parts as one; each is taken out of the list as it is copied, so that draws are not held twice.

    Examples
    --------
    >>> joined([(2, {"weight": np.zeros((2, 1))}), (1, {"weight": np.ones((1, 1))})])["weight"].ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    length = sum(len(next(iter(part.values()))) for _, part in parts)
    whole = {name: np.empty((length, *value.shape[1:]), value.dtype) for name, value in parts[0][1].items()}
    at = 0
    while parts:
        _, part = parts.pop(0)
        count = len(next(iter(part.values())))
        for name, value in whole.items():
            value[at : at + count] = part.pop(name)
        at += count
    return whole
