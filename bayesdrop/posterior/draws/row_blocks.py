"""New rows that are streamed: matched with the columns that were sampled, and gone through a block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..._typing import PerRow
from ...data.frames import column_order, read_alike
from ...designs import Design, as_streamed_design
from ...model import Model
from .draws import Draws
from .new_rows import centred_matrix, check_width, match_design

__all__ = ["RowBlocks", "row_blocks"]


@dataclass(frozen=True)
class RowBlocks:
    """Rows that are read when needed or lie on a cluster.

    Attributes
    ----------
    design : Design (n, p)
        The rows, their columns in the order in which they came.
    names : list of p str
        Columns that were sampled.
    order : list of int or None
        Where these stand in the design; None if it has them in order.
    model : Model
        With the domain and the centre of the noise.
    """

    design: Design
    names: list[str]
    order: list[int] | None
    model: Model

    def each(self, function: Callable[..., Any], *rows: PerRow) -> list[Any]:
        """What ``function(matrix, *parts)`` makes of each block, the rows as :func:`.match_columns` has them."""
        return self.design.each_block(partial(_matched, function, self.names, self.order, self.model), *rows)

    def parts(self) -> Iterator[tuple[slice, Any]]:
        """One pass over the rows as :func:`.match_columns` has them, parts without rows left out."""
        for here, block in self.design.parts():
            if block.shape[0]:
                yield here, _matched(lambda matrix: matrix, self.names, self.order, self.model, block.matrix())


def row_blocks(X: Any, draws: Draws) -> RowBlocks | None:
    """Rows that are streamed; None if they are in memory.

    Raises
    ------
    ValueError
        If their columns are not those that were sampled.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesdrop as bd
    >>> from bayesdrop.posterior.draws.fitted_draws import draws_of_fit
    >>> X, y = np.array([[-1.0], [-2.0], [1.0], [3.0]]), ["no", "no", "yes", "yes"]
    >>> draws = draws_of_fit(bd.fit(bd.Model(rates=bd.Fixed(0.2)), X, y))
    >>> row_blocks(X, draws) is None
    True
    >>> row_blocks(bd.Blocks([X[:1], X[1:]]), draws).each(lambda matrix: len(matrix))
    [1, 3]
    """
    design, names = as_streamed_design(X), draws.feature_names
    if design is None:
        return None
    design = read_alike(design, names, draws.facts)
    order = column_order(design, names, draws.facts)
    check_width(design, names)
    return RowBlocks(design, names, order, draws.model)


def _matched(
    function: Callable[..., Any], names: list[str], order: list[int] | None, model: Model, matrix: Any, *rows: PerRow
) -> Any:
    design = match_design(matrix if order is None else matrix[:, order], names, model)
    return function(centred_matrix(design, model), *rows)
