"""Rows that are no data below the others, so that data of nearly as many rows share a compiled sampler.

It takes a sampler of masks some ten seconds to compile, for the shapes of its operands. Dense data get the lengths that
:mod:`bayesdrop.mcmc.hmc.row_padding` has, and ``present`` says which rows are data. A row that only fills up is zero:
kept or dropped its entries give the same score, they have no masks, and what it gains by a mask is 0 exactly. What its
score, the intercept, would add is left out of every sum over the rows: of costs, of the weights of rows, and of
``ω`` and ``κ`` of the auxiliary variables. So the law of all other variables is that of the data; random numbers depend
on shapes, and the draws of one seed on the length.
"""

from __future__ import annotations

import numpy as np

from ..hmc.row_padding import lengthened, missing_rows
from ..placing import placed
from .state import Operands

__all__ = ["filled_up"]


def filled_up(operands: Operands) -> Operands:
    """Operands with as many rows as their length has; as they are where rows are sparse, many or on several devices."""
    columns = operands.columns
    more = missing_rows(columns.blocks[0].values) if columns.is_dense else None
    if more is None:
        return operands
    (block,), n = columns.blocks, operands.target.shape[0]
    block = block._replace(values=lengthened(block.values, more), occurs=lengthened(block.occurs, more))
    return operands._replace(
        columns=columns._replace(blocks=(block,)),
        target=lengthened(operands.target, more, "edge"),
        # Auxiliary variables of weight 0 have no law.
        row_weight=lengthened(operands.row_weight, more, constant_values=1.0),
        offset=lengthened(operands.offset, more),
        present=placed(np.arange(n + more) < n),
    )
