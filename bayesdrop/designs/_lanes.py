"""Eight vectors side by side in the registers of a processor: sums over the entries of a row, and what it gives back.

Numba takes the eight numbers of a place one at a time. These loops over the entries of a row are written in the terms
of LLVM, where they are one vector. Tables of weights are (p, 8), or (p, 16), and rows compressed: columns unsigned,
values in single or double precision. Imported only where Numba is (the extra ``fast``).

Numba's cache on disk looks at the file of a loop alone: who changes an intrinsic removes what is cached of the loops
that have it in them (``*.nbi``, here and beside :mod:`bayesdrop.fitting._coordinate_kernels`).
"""

from __future__ import annotations

from importlib import import_module
from inspect import unwrap
from typing import Any

import numpy as np

from .._typing import Float, Int

__all__ = ["LANES", "add_to_eight", "add_to_eight_ones", "eight_sums", "eight_sums_of_ones", "gather_eight"]

# Not all that they have is declared to be exported.
numba: Any = import_module("numba")
ir: Any = import_module("llvmlite.ir")
types: Any = import_module("numba").types
intrinsic: Any = import_module("numba.extending").intrinsic

LANES = 8
_LONG, _SHORT, _BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
_DOUBLE = ir.DoubleType()
_EIGHT, _PLACES, _FLAGS = (ir.VectorType(kind, LANES) for kind in (_DOUBLE, _SHORT, _BIT))
# Sums of a row that are made side by side: an addition takes as long as the four loads and products beside it.
_SUMS = 4
# A product and a sum may be one operation.
_FUSED = ("contract",)


class _Row:
    """Code for the entries of one row, from arguments (table, columns, values, first, last, …) of an intrinsic."""

    def __init__(self, context: Any, builder: Any, signature: Any, given: Any, ones: bool) -> None:
        self.builder, self.ones = builder, ones
        self.arrays = [
            context.make_array(kind)(context, builder, array).data if isinstance(kind, types.Array) else array
            for kind, array in zip(signature.args, given, strict=True)
        ]
        # A place of a table has one eight or two.
        self.first, self.last = given[3], given[4]

    def eight(self, numbers: Any, place: Any) -> Any:
        """Address of the eight numbers that begin ``place`` eights after the first."""
        address = self.builder.gep(numbers, [self.builder.mul(place, ir.Constant(_LONG, LANES))])
        return self.builder.bitcast(address, _EIGHT.as_pointer())

    def read(self, address: Any) -> Any:
        """Eight numbers, which need not lie at a multiple of their size."""
        found = self.builder.load(address)
        found.align = 8
        return found

    def write(self, vector: Any, address: Any) -> None:
        """The same the other way."""
        self.builder.store(vector, address).align = 8

    def spread(self, number: Any, kind: Any, flags: Any = None) -> Any:
        """Eight times a number; or four times each of two."""
        nothing = ir.Constant(kind, ir.Undefined)
        some = self.builder.insert_element(nothing, number, ir.Constant(_SHORT, 0))
        if flags is not None:
            some = self.builder.insert_element(some, flags, ir.Constant(_SHORT, 1))
        half = LANES // 2
        places = ir.Constant(_PLACES, [0] * half + [0 if flags is None else 1] * half)
        return self.builder.shuffle_vector(some, nothing, places)

    def column(self, place: Any) -> Any:
        """Column of an entry."""
        found = self.builder.load(self.builder.gep(self.arrays[1], [place]))
        return found if found.type == _LONG else self.builder.zext(found, _LONG)

    def value(self, place: Any) -> Any:
        """An entry, in double precision."""
        found = self.builder.load(self.builder.gep(self.arrays[2], [place]))
        return found if found.type == _DOUBLE else self.builder.fpext(found, _DOUBLE)

    def total(self, body: Any) -> Any:
        """Sum of eights over the entries, ``body(place, carried)`` adding one; four sums side by side wait less."""
        zero = ir.Constant(_EIGHT, [0.0] * LANES)
        parts, rest = self.over_entries([zero] * _SUMS, body)
        while len(parts) > 1:
            parts = [self.builder.fadd(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return self.over_entries(parts, body, rest)[0][0]

    def over_entries(self, carried: list[Any], body: Any, first: Any = None) -> tuple[list[Any], Any]:
        """``body(place, carried)`` for as many entries at a time as there are carried; what is left, and from where.

        It begins at ``first``, by default with the row, and stops where fewer entries are left than it takes.
        """
        builder = self.builder
        before = builder.block
        head, inside, after = (builder.append_basic_block(name) for name in ("entries", "entry", "done"))
        builder.branch(head)
        builder.position_at_end(head)
        place, sums = builder.phi(_LONG), [builder.phi(_EIGHT) for _ in carried]
        following = builder.add(place, ir.Constant(_LONG, len(carried)))
        builder.cbranch(builder.icmp_unsigned("<=", following, self.last), inside, after)
        builder.position_at_end(inside)
        found = [body(builder.add(place, ir.Constant(_LONG, k)), part) for k, part in enumerate(sums)]
        begins = (self.first if first is None else first, *carried)
        for phi, begin, again in zip((place, *sums), begins, (following, *found), strict=True):
            phi.add_incoming(begin, before)
            phi.add_incoming(again, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return sums, place


def _sums(ones: bool) -> Any:
    def declare(
        typing: Any,
        table: Any,
        columns: Any,
        values: Any,
        first: Any,
        last: Any,
        eights: Any,
        left: Any,
        right: Any,
        sums: Any,
    ) -> Any:
        def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            row = _Row(context, builder, signature, given, ones)
            squared = row.spread(given[6], _FLAGS, given[7])

            def body(place: Any, carried: Any) -> Any:
                weights = row.read(row.eight(row.arrays[0], builder.mul(row.column(place), given[5])))
                if not ones:
                    x = row.value(place)
                    powers = (row.spread(number, _EIGHT) for number in (builder.fmul(x, x), x))
                    weights = builder.fmul(builder.select(squared, *powers), weights, flags=_FUSED)
                return builder.fadd(carried, weights, flags=_FUSED)

            row.write(row.total(body), row.eight(row.arrays[8], ir.Constant(_LONG, 0)))
            return context.get_dummy_value()

        long, flag = types.uint64, types.boolean
        return types.void(table, columns, values, long, long, long, flag, flag, sums), make

    return declare


def _additions(ones: bool) -> Any:
    def declare(typing: Any, table: Any, columns: Any, values: Any, first: Any, last: Any, change: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            row = _Row(context, builder, signature, given, ones)
            moves = row.read(row.eight(row.arrays[5], ir.Constant(_LONG, 0)))

            def body(place: Any, carried: Any) -> Any:
                here = builder.mul(row.column(place), ir.Constant(_LONG, 2))
                weights, gains = (
                    row.eight(row.arrays[0], eights) for eights in (here, builder.add(here, ir.Constant(_LONG, 1)))
                )
                move = moves if ones else builder.fmul(moves, row.spread(row.value(place), _EIGHT))
                more = builder.fmul(move, row.read(gains), flags=_FUSED)
                row.write(builder.fadd(row.read(weights), more, flags=_FUSED), weights)
                return carried

            row.over_entries([moves], body)
            return context.get_dummy_value()

        return types.void(table, columns, values, types.uint64, types.uint64, change), make

    return declare


eight_sums, eight_sums_of_ones = (intrinsic(unwrap(_sums(ones))) for ones in (False, True))
add_to_eight, add_to_eight_ones = (intrinsic(unwrap(_additions(ones))) for ones in (False, True))


def _gather_eight(
    pointers: Int[np.ndarray, " pointers"],
    indices: Int[np.ndarray, " m"],
    data: Float[np.ndarray, " m"],
    binary: bool,
    square_left: bool,
    square_right: bool,
    block: Float[np.ndarray, "groups inside 8"],
    result: Float[np.ndarray, "groups outside 8"],
    start: int,
    stop: int,
) -> None:
    """Write the products of some lines; the left four of each eight columns meet X², or X, and so do the right four."""
    for g in range(block.shape[0]):
        columns, sums = block[g], result[g]
        for i in range(start, stop):
            if binary:
                eight_sums_of_ones(columns, indices, data, pointers[i], pointers[i + 1], 1, False, False, sums[i])
            else:
                a, b = pointers[i], pointers[i + 1]
                eight_sums(columns, indices, data, a, b, 1, square_left, square_right, sums[i])


gather_eight = numba.njit(cache=True, nogil=True, boundscheck=False)(unwrap(_gather_eight))
