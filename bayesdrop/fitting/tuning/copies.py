r"""Duplicate rows: a choice on held-out rows is the same for a row twice and for a row of weight 2.

Weights that are all whole numbers count rows: weight 3 is the row three times. Leaving one out then takes one *copy*
away, a share ``1/s`` of a row of weight ``s``. Other weights say how much a row matters, and rows that are equal leave
together, with all of their weight. Weights of classes are no counts and no part of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..._typing import Bool, Float, Int, Num, PerRow, Shaped
from ..._validation import one_per_row, shown
from ...designs import Design

__all__ = ["Copies", "Origins", "origins_of"]


@dataclass(frozen=True)
class Copies:
    """Which rows are equal, and how much of each may be left out.

    Attributes
    ----------
    group : int array (n,)
        Number of the group of equal rows that each row is in. The numbers do not depend on the order of the rows, nor
        on the columns' origins and units.
    weight : array (n,)
        Row weights, without those of classes.
    counts : bool
        Whether the weights count rows.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> found = Copies.of(as_design(np.array([[2.0], [1.0], [2.0]])), np.zeros((3, 1)), np.array([1.0, 2.0, 1.0]))
    >>> found.group.tolist(), found.share.tolist(), found.units(np.zeros(3, dtype=int)).tolist()
    ([1, 0, 1], [1.0, 0.5, 1.0], [4.0])
    """

    group: Int[np.ndarray, " n"]
    weight: Float[np.ndarray, " n"]
    counts: bool

    @classmethod
    def of(cls, design: Design, known: Num[np.ndarray, "n m"], weight: Float[np.ndarray, " n"]) -> Copies:
        """Those of the first rows of a design; equal ones have the same features and what else is ``known`` of them."""
        n = len(weight)
        # In units of the columns' spreads, so that neither units nor the order of the rows change the numbers.
        columns = design.column_summary(np.append(weight, np.zeros(design.shape[0] - n)))
        spread = np.where(columns.scatter > 0, np.sqrt(columns.scatter), 1.0)
        key = np.asarray(design.matvec(np.random.default_rng(0).normal(size=len(spread)) / spread))[:n]
        order = np.lexsort((key, *known.T))
        # Of equal rows the keys are equal but for round-off, which depends on where a row lies.
        near = np.abs(np.diff(key[order])) <= 1e-9 * np.max(np.abs(key), initial=1e-300)
        near &= np.all(known[order[1:]] == known[order[:-1]], axis=1)
        leader = np.arange(n)
        if np.any(near):
            some = np.zeros(n, dtype=bool)
            some[order[1:][near]] = some[order[:-1][near]] = True
            first: dict[bytes, int] = {}
            for row, text in _contents(design, some):
                leader[row] = first.setdefault(text + known[row].tobytes(), row)
        _, place, number = np.unique(leader[order], return_index=True, return_inverse=True)
        numbers = np.empty(n, dtype=int)
        numbers[order] = np.argsort(np.argsort(place))[number]
        return cls(numbers, weight, bool(np.all(weight == np.round(weight))))

    @property
    def plain(self) -> bool:
        """True if every row is there once, with the same weight as all others."""
        return len(np.unique(self.group)) == len(self.group) and bool(np.all(self.weight == 1))

    def merged(self) -> tuple[Int[np.ndarray, " g"], Float[np.ndarray, " g"]]:
        """One row of each group and the weight of the group, in an order that does not depend on that of the rows.

        A fit that ends elsewhere if its sums are taken in another order then ends where that of a row twice does.
        """
        return np.unique(self.group, return_index=True)[1], np.bincount(self.group, self.weight)

    @property
    def unit(self) -> Float[np.ndarray, " n"]:
        """Weight of what leaves together with a row, (n,): a copy of it, or all rows that are equal to it."""
        return np.ones(len(self.weight)) if self.counts else np.bincount(self.group, self.weight)[self.group]

    @property
    def share(self) -> Float[np.ndarray, " n"]:
        """The same as a part of the weight of the row, (n,)."""
        return self.unit / self.weight

    def units(self, code: Int[np.ndarray, " n"]) -> Float[np.ndarray, " K"]:
        """How many may be left out of each class, (K,)."""
        return np.round(np.bincount(code, 1 / self.share), 6)


@dataclass(frozen=True)
class Origins:
    """Where the rows of a fit come from, as far as rows that are held out ask.

    Attributes
    ----------
    weight : array (n,)
        Their weights, above 0, without those of classes.
    given : int
        How many rows were given, those of weight 0 included.
    number : int array (n,), optional
        Place of each row among them; None if all are here.
    groups : array (n,), optional
        Labels of the rows that belong together.
    """

    weight: PerRow
    given: int
    number: Int[np.ndarray, " n"] | None = None
    groups: Shaped[np.ndarray, " n"] | None = None


def origins_of(weight: PerRow, groups: Any = None) -> Origins:
    """Those of the rows of some weight, and their ``groups`` checked: labels of all rows, one for each.

    Raises
    ------
    ValueError
        If there are not as many labels as rows, or rows lie where none are held out.

    Examples
    --------
    >>> origins_of(np.array([1.0, 0.0, 2.0]), ["a", "a", "b"]).groups.tolist()
    ['a', 'b']
    """
    here = isinstance(weight, np.ndarray)
    if groups is not None:
        if not here:
            raise ValueError(f"groups: expected rows in memory, got {shown(groups)} with rows elsewhere.")
        groups = one_per_row(groups, len(weight), "groups")
        try:
            np.unique(groups)
        except TypeError:
            raise ValueError(f"groups: expected labels of one kind, got {shown(groups)}; make them text.") from None
    if not here:
        return Origins(weight, -1)
    number = np.flatnonzero(weight > 0)
    if len(number) == len(weight):
        return Origins(weight, len(weight), None, groups)
    return Origins(weight[number], len(weight), number, None if groups is None else groups[number])


def _contents(design: Design, some: Bool[np.ndarray, " n"]) -> Iterator[tuple[int, bytes]]:
    """Numbers of some rows with what they hold, which is the same text for equal rows alone."""
    for rows, part in design.parts():
        numbers = np.flatnonzero(some[rows])
        held = part.matrix()[numbers]
        if not part.is_sparse:
            texts = (row.tobytes() for row in np.asarray(held, dtype=np.float64) + 0.0)
        else:
            held = csr_array(held, dtype=np.float64)
            held.sum_duplicates()
            held.eliminate_zeros()
            ends = zip(held.indptr[:-1], held.indptr[1:], strict=True)
            columns = held.indices.astype(np.int64)
            texts = (columns[a:b].tobytes() + held.data[a:b].tobytes() for a, b in ends)
        yield from zip((rows.start + numbers).tolist(), texts, strict=True)
