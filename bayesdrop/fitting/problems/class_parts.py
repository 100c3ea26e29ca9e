"""One class against the rest, some classes at a time.

Problems that share a matrix share its passes, and a pass for eight of them reads an entry once. Beyond some tens there
is nothing more to share, while Newton's method holds a dozen numbers for each class and row and for each class and
feature: in parts it holds those of one part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._progress import waiting
from ..._typing import Float, PerRow
from ...designs import Design
from ...model import Model
from ...rates import RateMap
from ..objective.energy import Energy
from ..objective.shapes import WeightBlock
from ..solvers.driver import Status
from ..solvers.protocols import FitMethod
from ..solvers.state import SolverState
from .block import ProblemFit, fit_block

__all__ = ["fit_in_parts"]

# Classes that are fitted at once.
_TOGETHER = 24
# What is said of all of them: the first of these that is true of some.
_FIRST = (Status.MAX_ITERATIONS, Status.RATES_UNSETTLED, Status.ALL_ZERO, Status.ROUND_OFF, Status.CONVERGED)


@waiting("fit", "step")
def fit_in_parts(
    model: Model,
    design: Design,
    rate_map: RateMap,
    target: PerRow,
    weight: PerRow,
    method: FitMethod[Energy, SolverState],
    start: tuple[WeightBlock, Float[np.ndarray, "p _"]] | None = None,
    unlabelled: tuple[int, float] | None = None,
) -> ProblemFit:
    """Fit ``K`` problems with weights of the rows that they share; :func:`.block.fit_block` has the parameters."""
    K = target.shape[1]
    if K <= _TOGETHER:
        return fit_block(model, design, rate_map, target, weight, method, start, unlabelled)
    parts = []
    for some in np.array_split(np.arange(K), -(-K // _TOGETHER)):
        columns = slice(int(some[0]), int(some[-1]) + 1)
        begin = None
        if start is not None:
            weights, rates = start
            begin = weights[:, columns], rates if rates.shape[1] == 1 else rates[:, columns]
        found = fit_block(model, design, rate_map, target[:, columns], weight, method, begin, unlabelled, many=True)
        # Without its rows, which would take the room of all classes.
        parts.append(ProblemFit(**{name: getattr(found, name) for name in ProblemFit.__dataclass_fields__}))
    return _joined(parts)


def _joined(parts: list[ProblemFit]) -> ProblemFit:
    """One fit of the problems of all parts; the trace of a part that ended early stays where it ended."""
    longest = max(len(part.trace) for part in parts)
    counts = [part.counts for part in parts if part.counts is not None]
    laws = [part.posterior for part in parts if part.posterior is not None]
    known = [part.occurrences for part in parts if part.occurrences is not None]
    return ProblemFit(
        weights=np.concatenate([part.weights for part in parts], axis=1),
        rates=np.concatenate([part.rates for part in parts], axis=1),
        posterior=_joined_laws(laws) if laws else None,
        counts=counts[0].joined(counts[1:]) if counts else None,
        occurrences=np.concatenate(known, axis=1) if known else None,
        trace=np.concatenate(
            [np.pad(part.trace, ((0, longest - len(part.trace)), (0, 0)), mode="edge") for part in parts], axis=1
        ),
        status=next(status for status in _FIRST if any(part.status is status for part in parts)),
        iterations=max(part.iterations for part in parts),
        solver=parts[0].solver,
    )


def _joined_laws(laws: list[Any]) -> Any:
    """A law (k, K) of all problems; what does not depend on the problem, such as (k, 1), is that of the first."""

    def joined(parts: tuple[Any, ...]) -> Any:
        if isinstance(parts[0], tuple):
            return type(parts[0])(*map(joined, zip(*parts, strict=True)))
        each = np.ndim(parts[0]) == 2 and np.shape(parts[0])[1] > 1
        return np.concatenate(parts, axis=1) if each else parts[0]

    return joined(tuple(laws))
