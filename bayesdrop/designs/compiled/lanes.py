"""Two vectors, or eight, side by side in the registers of a processor: sums over the entries of a row, and what it
gives back.

Numba takes the numbers of a place one at a time. These loops over the entries of a row are written in the terms of
LLVM, where they are one vector. Tables are (p, 2), (p, 8) or (p, 16), or for sums any that hold their rows so many
numbers apart, ``step``; rows are compressed: columns unsigned, values in single or double precision. Of the numbers of
a place the left half meet X² if ``left``, and the right half if ``right``; the others X. Imported only where Numba is
(the extra ``fast``).

Numba's cache on disk looks at the file of a loop alone: who changes an intrinsic removes what is cached of the loops
that have it in them (``*.nbi``, here, beside :mod:`.lines` and :mod:`bayesdrop.fitting.kinked._coordinate_kernels`).
"""

from __future__ import annotations

from importlib import import_module
from inspect import unwrap
from typing import Any

__all__ = [
    "LANES",
    "add_to_eight",
    "add_to_eight_ones",
    "eight_sums",
    "eight_sums_of_ones",
    "four_sums",
    "four_sums_of_ones",
    "scatter_to_eight",
    "scatter_to_eight_ones",
    "scatter_to_two",
    "scatter_to_two_ones",
    "two_sums",
    "two_sums_of_ones",
]

# Not all that they have is declared to be exported.
numba: Any = import_module("numba")
ir: Any = import_module("llvmlite.ir")
types: Any = import_module("numba").types
intrinsic: Any = import_module("numba.extending").intrinsic

LANES = 8
_LONG, _SHORT, _BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
_DOUBLE = ir.DoubleType()
# Sums of a row that are made side by side: an addition has to wait for the one before it.
_SUMS = 4
# A product and a sum may be one operation.
_FUSED = ("contract",)


class _Row:
    """Code for the entries of one row, from arguments (table, columns, values, first, last, …) of an intrinsic."""

    def __init__(self, context: Any, builder: Any, signature: Any, given: Any, ones: bool, lanes: int = LANES) -> None:
        self.builder, self.ones, self.lanes = builder, ones, lanes
        self.numbers, self.places, self.flags = (ir.VectorType(kind, lanes) for kind in (_DOUBLE, _SHORT, _BIT))
        self.arrays = [
            context.make_array(kind)(context, builder, array).data if isinstance(kind, types.Array) else array
            for kind, array in zip(signature.args, given, strict=True)
        ]
        self.first, self.last = given[3], given[4]

    def address(self, numbers: Any, place: Any, step: Any = None) -> Any:
        """Where the numbers of a place begin: ``step`` numbers are to each, by default a vector."""
        step = ir.Constant(_LONG, self.lanes) if step is None else step
        first = self.builder.gep(numbers, [self.builder.mul(place, step)])
        return self.builder.bitcast(first, self.numbers.as_pointer())

    def read(self, address: Any) -> Any:
        """The numbers of a place, which need not lie at a multiple of their size."""
        found = self.builder.load(address)
        found.align = 8
        return found

    def write(self, vector: Any, address: Any) -> None:
        """The same the other way."""
        self.builder.store(vector, address).align = 8

    def spread(self, number: Any, kind: Any, other: Any = None) -> Any:
        """A number in all lanes; or in the left half of them, and another one in the right half."""
        nothing = ir.Constant(kind, ir.Undefined)
        some = self.builder.insert_element(nothing, number, ir.Constant(_SHORT, 0))
        if other is not None:
            some = self.builder.insert_element(some, other, ir.Constant(_SHORT, 1))
        half = self.lanes // 2
        places = ir.Constant(self.places, [0] * half + [0 if other is None else 1] * half)
        return self.builder.shuffle_vector(some, nothing, places)

    def powers(self, place: Any, squared: Any) -> Any:
        """An entry in the lanes that meet X, and its square in the others."""
        x = self.value(place)
        square, itself = (self.spread(number, self.numbers) for number in (self.builder.fmul(x, x), x))
        return self.builder.select(squared, square, itself)

    def column(self, place: Any) -> Any:
        """Column of an entry."""
        found = self.builder.load(self.builder.gep(self.arrays[1], [place]))
        return found if found.type == _LONG else self.builder.zext(found, _LONG)

    def value(self, place: Any) -> Any:
        """An entry, in double precision."""
        found = self.builder.load(self.builder.gep(self.arrays[2], [place]))
        return found if found.type == _DOUBLE else self.builder.fpext(found, _DOUBLE)

    def total(self, body: Any) -> Any:
        """Sum of vectors over the entries, ``body(place, carried)`` adding one; four sums side by side wait less."""
        zero = ir.Constant(self.numbers, [0.0] * self.lanes)
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
        place, sums = builder.phi(_LONG), [builder.phi(self.numbers) for _ in carried]
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


def _sums(ones: bool, lanes: int) -> Any:
    def declare(
        typing: Any,
        table: Any,
        columns: Any,
        values: Any,
        first: Any,
        last: Any,
        step: Any,
        left: Any,
        right: Any,
        sums: Any,
    ) -> Any:
        def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            row = _Row(context, builder, signature, given, ones, lanes)
            squared = row.spread(given[6], row.flags, given[7])

            def body(place: Any, carried: Any) -> Any:
                weights = row.read(row.address(row.arrays[0], row.column(place), given[5]))
                if not ones:
                    weights = builder.fmul(row.powers(place, squared), weights, flags=_FUSED)
                return builder.fadd(carried, weights, flags=_FUSED)

            row.write(row.total(body), row.address(row.arrays[8], ir.Constant(_LONG, 0)))
            return context.get_dummy_value()

        long, flag = types.uint64, types.boolean
        return types.void(table, columns, values, long, long, long, flag, flag, sums), make

    return declare


def _scattered(ones: bool, lanes: int) -> Any:
    def declare(
        typing: Any, table: Any, columns: Any, values: Any, first: Any, last: Any, left: Any, right: Any, slopes: Any
    ) -> Any:
        def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            row = _Row(context, builder, signature, given, ones, lanes)
            squared = row.spread(given[5], row.flags, given[6])
            slope = row.read(row.address(row.arrays[7], ir.Constant(_LONG, 0)))

            def body(place: Any, carried: Any) -> Any:
                here = row.address(row.arrays[0], row.column(place))
                more = slope if ones else builder.fmul(row.powers(place, squared), slope, flags=_FUSED)
                row.write(builder.fadd(row.read(here), more, flags=_FUSED), here)
                return carried

            row.over_entries([slope], body)
            return context.get_dummy_value()

        long, flag = types.uint64, types.boolean
        return types.void(table, columns, values, long, long, flag, flag, slopes), make

    return declare


def _additions(ones: bool) -> Any:
    def declare(typing: Any, table: Any, columns: Any, values: Any, first: Any, last: Any, change: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            row = _Row(context, builder, signature, given, ones)
            moves = row.read(row.address(row.arrays[5], ir.Constant(_LONG, 0)))

            def body(place: Any, carried: Any) -> Any:
                here = builder.mul(row.column(place), ir.Constant(_LONG, 2))
                weights, gains = (
                    row.address(row.arrays[0], eights) for eights in (here, builder.add(here, ir.Constant(_LONG, 1)))
                )
                move = moves if ones else builder.fmul(moves, row.spread(row.value(place), row.numbers))
                more = builder.fmul(move, row.read(gains), flags=_FUSED)
                row.write(builder.fadd(row.read(weights), more, flags=_FUSED), weights)
                return carried

            row.over_entries([moves], body)
            return context.get_dummy_value()

        return types.void(table, columns, values, types.uint64, types.uint64, change), make

    return declare


eight_sums, eight_sums_of_ones = (intrinsic(unwrap(_sums(ones, LANES))) for ones in (False, True))
four_sums, four_sums_of_ones = (intrinsic(unwrap(_sums(ones, 4))) for ones in (False, True))
two_sums, two_sums_of_ones = (intrinsic(unwrap(_sums(ones, 2))) for ones in (False, True))
scatter_to_eight, scatter_to_eight_ones = (intrinsic(unwrap(_scattered(ones, LANES))) for ones in (False, True))
scatter_to_two, scatter_to_two_ones = (intrinsic(unwrap(_scattered(ones, 2))) for ones in (False, True))
add_to_eight, add_to_eight_ones = (intrinsic(unwrap(_additions(ones))) for ones in (False, True))
