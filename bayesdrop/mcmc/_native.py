"""Loops over rows that compiled programs call: Numba's machine code behind the C interface of XLA's FFI.

Imported only where Numba is (the extra ``fast``). XLA calls a handler with the address of a frame, whose 64-bit words
are, as ``xla/ffi/api/c_api.h`` has them, [1] a chain of extensions, [4] the stage, [9] the addresses of the argument
buffers and [14] those of the results; of a buffer, [3] is the address of its numbers and [5] that of its lengths. When
it is registered, an extension asks a handler for the version of the interface that it was written for; XLA refuses
one whose frames it no longer makes.

Sums are in the precision of the operands, and each is made by one loop in one order.
"""

from __future__ import annotations

from importlib import import_module
from inspect import unwrap
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from ..designs.compiled.jit import compiled

__all__ = ["HANDLERS"]

# Not all that it has is declared to be exported.
numba: Any = import_module("numba")

# Words of a frame, an extension, what it asks about, and a buffer; the stage at which a handler works, and the version.
_FRAME, _EXTENSION, _ASKED, _BUFFER, _EXECUTE, _MINOR = 22, 4, 6, 6, 3, 1
_HALF = 0xFFFFFFFF
# Columns of a tile.
_TILE = 1024


def _compiled(loop: Any) -> Any:
    """A loop whose sums may be ordered as the processor likes, and several taken at once."""
    return compiled(loop, "reassoc", "contract", like_numpy=True)


def _pointer(context: Any, address: Any) -> Any:
    """A pointer to an address."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.voidptr(types.int64), unwrap(make)


pointer = intrinsic(unwrap(_pointer))


def _words(address: Any, count: Any) -> Any:
    return numba.carray(pointer(address), (count,), np.int64)


words = _compiled(_words)


def _answers(frame: Any) -> Any:
    """Whether there is nothing to compute, after a question about the version is answered."""
    if frame[1] != 0:
        extension = words(frame[1], _EXTENSION)
        if extension[1] & _HALF == 1:
            words(extension[3], _ASKED)[3] = _MINOR << 32  # two numbers of 32 bits, the major one 0
            return True
    return frame[4] & _HALF != _EXECUTE


answers = _compiled(_answers)


def _vector(buffer: Any, dtype: Any) -> Any:
    """A buffer of one axis, given its address."""
    found = words(buffer, _BUFFER)
    return numba.carray(pointer(found[3]), (words(found[5], 1)[0],), dtype)


def _table(buffer: Any, dtype: Any) -> Any:
    """A buffer of two axes, given its address."""
    found = words(buffer, _BUFFER)
    lengths = words(found[5], 2)
    return numba.carray(pointer(found[3]), (lengths[0], lengths[1]), dtype)


vector, table = _compiled(_vector), _compiled(_table)


def _gather(pointers: Any, places: Any, block: Any, result: Any) -> None:
    """Sums of those rows of a block that the entries of each line name; their values are 1."""
    columns, zero = result.shape[1], block.dtype.type(0)
    fours, k = columns // 4 * 4, 0
    while k < fours:
        for i in range(result.shape[0]):
            a, b, c, d = zero, zero, zero, zero
            for j in range(pointers[i], pointers[i + 1]):
                row = block[places[j]]
                a += row[k]
                b += row[k + 1]
                c += row[k + 2]
                d += row[k + 3]
            sums = result[i]
            sums[k], sums[k + 1], sums[k + 2], sums[k + 3] = a, b, c, d
        k += 4
    if columns - k >= 2:
        for i in range(result.shape[0]):
            a, b = zero, zero
            for j in range(pointers[i], pointers[i + 1]):
                row = block[places[j]]
                a += row[k]
                b += row[k + 1]
            result[i, k], result[i, k + 1] = a, b
        k += 2
    if columns > k:
        for i in range(result.shape[0]):
            a = zero
            for j in range(pointers[i], pointers[i + 1]):
                a += block[places[j], k]
            result[i, k] = a


def _gather_real(pointers: Any, places: Any, values: Any, block: Any, linear: Any, result: Any) -> None:
    """The same of entries with values; the first ``linear`` columns of the block meet them, the others their squares.

    ``linear`` is none, half or all of the columns.
    """
    columns, zero = result.shape[1], block.dtype.type(0)
    twos = columns // 2 if 0 < linear < columns else columns // 2 * 2
    # Columns two by two, of which the second stands beside the first or, where there are squares too, half-way on.
    step, apart = (1, twos) if 0 < linear < columns else (2, 1)
    for k in range(0, twos, step):
        first, second = k, k + apart
        for i in range(result.shape[0]):
            a, b = zero, zero
            for j in range(pointers[i], pointers[i + 1]):
                x, row = values[j], block[places[j]]
                a += (x if first < linear else x * x) * row[first]
                b += (x if second < linear else x * x) * row[second]
            result[i, first], result[i, second] = a, b
    if step == 2 and columns > twos:
        for i in range(result.shape[0]):
            a = zero
            for j in range(pointers[i], pointers[i + 1]):
                x = values[j]
                a += (x if linear else x * x) * block[places[j], twos]
            result[i, twos] = a


def _multiply(matrix: Any, rows: Any, result: Any) -> None:
    """``Mr`` for every row ``r`` of a block, four or two at a time, so that the matrix is read once for them."""
    chains, lines, zero = rows.shape[0], matrix.shape[0], rows.dtype.type(0)
    fours, c = chains // 4 * 4, 0
    while c < fours:
        r0, r1, r2, r3 = rows[c], rows[c + 1], rows[c + 2], rows[c + 3]
        for i in range(lines):
            one, p, q, r, s = matrix[i], zero, zero, zero, zero
            for j in range(matrix.shape[1]):
                p += one[j] * r0[j]
                q += one[j] * r1[j]
                r += one[j] * r2[j]
                s += one[j] * r3[j]
            result[c, i], result[c + 1, i], result[c + 2, i], result[c + 3, i] = p, q, r, s
        c += 4
    if chains - c >= 2:
        left, right, twos = rows[c], rows[c + 1], lines // 2 * 2
        for i in range(0, twos, 2):
            one, two = matrix[i], matrix[i + 1]
            p, q, r, s = zero, zero, zero, zero
            for j in range(matrix.shape[1]):
                p += one[j] * left[j]
                q += one[j] * right[j]
                r += two[j] * left[j]
                s += two[j] * right[j]
            result[c, i], result[c + 1, i], result[c, i + 1], result[c + 1, i + 1] = p, q, r, s
        for i in range(twos, lines):
            p, q = zero, zero
            for j in range(matrix.shape[1]):
                p += matrix[i, j] * left[j]
                q += matrix[i, j] * right[j]
            result[c, i], result[c + 1, i] = p, q
        c += 2
    if chains > c:
        alone = rows[c]
        for i in range(lines):
            p = zero
            for j in range(matrix.shape[1]):
                p += matrix[i, j] * alone[j]
            result[c, i] = p


def _combine(factors: Any, matrix: Any, result: Any) -> None:
    """``fM`` for every row ``f`` of a block, a tile of the columns after another, which stays in the nearest cache."""
    result[:] = factors.dtype.type(0)
    fours, width = matrix.shape[0] // 4 * 4, matrix.shape[1]
    for start in range(0, width, _TILE):
        stop = min(start + _TILE, width)
        for k in range(0, fours, 4):
            one, two, three, four = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
            a, b, c, d = one[start:stop], two[start:stop], three[start:stop], four[start:stop]
            for i in range(factors.shape[0]):
                p, q, r, s = factors[i, k], factors[i, k + 1], factors[i, k + 2], factors[i, k + 3]
                sums = result[i, start:stop]
                for j in range(stop - start):
                    sums[j] += (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])
        for k in range(fours, matrix.shape[0]):
            for i in range(factors.shape[0]):
                p = factors[i, k]
                for j in range(start, stop):
                    result[i, j] += p * matrix[k, j]


gather, gather_real = _compiled(_gather), _compiled(_gather_real)
multiply, combine = _compiled(_multiply), _compiled(_combine)


def _ones_in(dtype: Any) -> Any:
    """Body of the handlers of lines whose entries are 1."""

    def body(address: Any) -> Any:
        frame = words(address, _FRAME)
        if not answers(frame):
            given, made = words(frame[9], 3), words(frame[14], 1)
            pointers, places = vector(given[0], np.uint32), vector(given[1], np.uint32)
            gather(pointers, places, table(given[2], dtype), table(made[0], dtype))
        return 0

    return body


def _values_in(dtype: Any, share: float) -> Any:
    """Body of the handlers of other lines; such a share of the columns meets the values, the others their squares."""

    def body(address: Any) -> Any:
        frame = words(address, _FRAME)
        if not answers(frame):
            given, made = words(frame[9], 4), words(frame[14], 1)
            pointers, places = vector(given[0], np.uint32), vector(given[1], np.uint32)
            block = table(given[3], dtype)
            linear = int(share * block.shape[1])
            gather_real(pointers, places, vector(given[2], dtype), block, linear, table(made[0], dtype))
        return 0

    return body


def _rows_in(dtype: Any) -> Any:
    """Body of the handlers of products with a matrix."""

    def body(address: Any) -> Any:
        frame = words(address, _FRAME)
        if not answers(frame):
            given, made = words(frame[9], 2), words(frame[14], 1)
            multiply(table(given[0], dtype), table(given[1], dtype), table(made[0], dtype))
        return 0

    return body


def _combinations_in(dtype: Any) -> Any:
    """Body of the handlers of combinations of the rows of a matrix."""

    def body(address: Any) -> Any:
        frame = words(address, _FRAME)
        if not answers(frame):
            given, made = words(frame[9], 2), words(frame[14], 1)
            combine(table(given[0], dtype), table(given[1], dtype), table(made[0], dtype))
        return 0

    return body


def _handler(body: Any) -> Any:
    return numba.cfunc(types.int64(types.int64))(unwrap(body))


HANDLERS = {
    f"{name}_{np.dtype(real).name}": lambda body=body, real=real: _handler(body(real))
    for real in (np.float32, np.float64)
    for name, body in {
        "ones": _ones_in,
        "values": lambda real: _values_in(real, 1.0),
        "squares": lambda real: _values_in(real, 0.0),
        "pairs": lambda real: _values_in(real, 0.5),
        "rows": _rows_in,
        "combinations": _combinations_in,
    }.items()
}
"""What makes each handler, by name: kind and precision."""
