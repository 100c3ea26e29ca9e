r"""Moves of the features that are in the model, all their weights integrated out given the auxiliary variables.

With pseudo-observations ``exp(κ_i s_i − ½ ω_i s_i²)``, columns ``Z`` of the features that are in, and the slab's
precisions ``P``, let ``A = (ZᵀΩZ + P)⁻¹`` and ``β = A Zᵀκ``. A feature ``d`` that is out has

    c = ZᵀΩx_d,     s = P_d + x_dᵀΩx_d − cᵀAc,     e = x_dᵀκ − cᵀβ,
    log odds of entering = prior log odds + ½ log(P_d/s) + ½ e²/s,

and one that is in has ``s = 1/A_dd`` and ``e = β_d/A_dd``, those without it. ``s`` and ``e`` of all features follow each
move by a rank-one update, so that a proposal that is refused costs nothing; an accepted one costs a product with the
matrix. The intercept and forced features are columns that never leave; a flat one has the precision 0.

Numba compiles the functions if it is installed (the extra ``fast``); else NumPy runs them as they are.

Shapes: ``m`` rows, ``q`` columns (features, then the intercept), ``k`` columns that are in, ``u`` units (features, or
groups of them that enter together).
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..._typing import Bool, Float, Int
from ...designs.kernels import available, compiled

__all__ = ["ActiveSet", "Neighbours", "Sparse", "Units", "compiled_sweep", "sweep"]

F = TypeVar("F", bound=Callable[..., Any])


def _part(function: F) -> F:
    """Let Numba compile a function as a part of :func:`sweep`."""
    if not available():
        return function
    from numba.extending import register_jitable

    plain: F = register_jitable(unwrap(function))
    return plain


class Sparse(NamedTuple):
    """A matrix (m, q) in compressed columns."""

    pointers: Int[np.ndarray, " pointers"]
    rows: Int[np.ndarray, " entries"]
    values: Float[np.ndarray, " entries"]


class Units(NamedTuple):
    """Columns of each unit, in compressed rows, and their prior.

    Attributes
    ----------
    pointers, columns : int arrays
        Columns ``columns[pointers[g]:pointers[g + 1]]`` of unit ``g``.
    log_odds : array (u,)
        Known prior log odds; 0 if one inclusion probability is learnt.
    by_size : array (u + 1,)
        Prior log odds given the number of other units that are in, a learnt probability integrated out; 0 if known.
    """

    pointers: Int[np.ndarray, " pointers"]
    columns: Int[np.ndarray, " p"]
    log_odds: Float[np.ndarray, " u"]
    by_size: Float[np.ndarray, " sizes"]


class Neighbours(NamedTuple):
    """Units that may take the place of each other: symmetric lists of single features, in compressed rows."""

    pointers: Int[np.ndarray, " pointers"]
    units: Int[np.ndarray, " entries"]


class ActiveSet(NamedTuple):
    """Columns that are in the model, and what the rows say of the others.

    Attributes
    ----------
    columns : int array (k,)
        The columns that are in, in any order.
    slot : int array (q,)
        Place of each column among them, -1 if it is out.
    gram : array (capacity, q)
        ``ZᵀΩX`` in the first ``k`` rows.
    inverse, mean : arrays (k, k) and (k,)
        ``A`` and ``β``.
    scale, pull : arrays (q,)
        ``s`` and ``e`` of the columns that are out.
    """

    columns: Int[np.ndarray, " k"]
    slot: Int[np.ndarray, " q"]
    gram: Float[np.ndarray, "capacity q"]
    inverse: Float[np.ndarray, "k k"]
    mean: Float[np.ndarray, " k"]
    scale: Float[np.ndarray, " q"]
    pull: Float[np.ndarray, " q"]


if available():

    @_part
    def _products(matrix: Sparse, rowwise: Float[np.ndarray, " m"], square: bool) -> Float[np.ndarray, " q"]:
        """``Xᵀr``, or with every entry squared."""
        total = np.empty(len(matrix.pointers) - 1)
        for d in range(len(total)):
            sum_of_column = 0.0
            for j in range(matrix.pointers[d], matrix.pointers[d + 1]):
                x = matrix.values[j]
                sum_of_column += (x * x if square else x) * rowwise[matrix.rows[j]]
            total[d] = sum_of_column
        return total

else:

    def _products(matrix: Sparse, rowwise: Float[np.ndarray, " m"], square: bool) -> Float[np.ndarray, " q"]:
        """``Xᵀr``, or with every entry squared."""
        values = matrix.values * matrix.values if square else matrix.values
        column = np.repeat(np.arange(len(matrix.pointers) - 1), np.diff(matrix.pointers))
        return np.bincount(column, values * rowwise[matrix.rows], len(matrix.pointers) - 1)


@_part
def _gram_row(matrix: Sparse, omega: Float[np.ndarray, " m"], d: int) -> Float[np.ndarray, " q"]:
    """``XᵀΩx_d``."""
    part = slice(matrix.pointers[d], matrix.pointers[d + 1])
    scaled = np.zeros(len(omega))
    scaled[matrix.rows[part]] = matrix.values[part] * omega[matrix.rows[part]]
    return _products(matrix, scaled, False)


@_part
def _start(
    matrix: Sparse,
    omega: Float[np.ndarray, " m"],
    kappa: Float[np.ndarray, " m"],
    precision: Float[np.ndarray, " q"],
    columns: Int[np.ndarray, " k"],
) -> ActiveSet:
    """The set of given columns."""
    k, q = len(columns), len(precision)
    slot = np.full(q, -1)
    slot[columns] = np.arange(k)
    gram = np.empty((2 * k + 16, q))
    for j in range(k):
        gram[j] = _gram_row(matrix, omega, columns[j])
    scale = precision + _products(matrix, omega, True)
    pull = _products(matrix, kappa, False)
    inverse, mean = np.zeros((k, k)), np.zeros(k)
    if k:
        inverse = np.linalg.inv(gram[:k][:, columns] + np.diag(precision[columns]))
        inverse = 0.5 * (inverse + inverse.T)
        mean = inverse @ pull[columns]
        scale -= np.sum(gram[:k] * (inverse @ gram[:k]), axis=0)
        pull -= mean @ gram[:k]
    return ActiveSet(columns, slot, gram, inverse, mean, np.maximum(scale, precision), pull)


@_part
def _enter(active: ActiveSet, matrix: Sparse, omega: Float[np.ndarray, " m"], d: int) -> ActiveSet:
    """The set with column ``d``, by bordering."""
    k, s, e = len(active.columns), active.scale[d], active.pull[d]
    gram = active.gram
    if k == len(gram):
        gram = np.empty((2 * k, gram.shape[1]))
        gram[:k] = active.gram
    gram[k] = _gram_row(matrix, omega, d)
    inverse, mean, columns = np.empty((k + 1, k + 1)), np.empty(k + 1), np.empty(k + 1, np.int64)
    along = np.empty(k + 1)
    along[:k] = -(active.inverse @ np.ascontiguousarray(gram[:k, d]))
    along[k] = 1.0
    inverse[:k, :k], inverse[k, :], inverse[:, k] = active.inverse, 0.0, 0.0
    inverse += np.outer(along, along) / s
    mean[:k], mean[k] = active.mean, 0.0
    mean += along * (e / s)
    columns[:k], columns[k] = active.columns, d
    active.slot[d] = k
    # What the rows say of the other columns that this one does not explain.
    shared = along @ gram[: k + 1]
    scale, pull = active.scale - shared * shared / s, active.pull - shared * (e / s)
    return ActiveSet(columns, active.slot, gram, inverse, mean, scale, pull)


@_part
def _without(active: ActiveSet, d: int) -> tuple[float, float]:
    """``s`` and ``e`` of a column that is in, for the set without it."""
    j = active.slot[d]
    s = 1.0 / active.inverse[j, j]
    return s, active.mean[j] * s


@_part
def _leave(active: ActiveSet, d: int) -> ActiveSet:
    """The set without column ``d``, by deletion; the last column takes its place."""
    k, j = len(active.columns) - 1, active.slot[d]
    s, e = _without(active, d)
    along = active.inverse[j] * s
    shared = along @ active.gram[: k + 1]
    scale, pull = active.scale + shared * shared / s, active.pull + shared * (e / s)
    scale[d], pull[d] = s, e
    kept = np.arange(k)
    if j < k:
        kept[j] = k
        active.gram[j] = active.gram[k]
    inverse = (active.inverse - np.outer(along, along) / s)[kept][:, kept]
    mean, columns = (active.mean - along * (e / s))[kept], active.columns[kept]
    active.slot[d] = -1
    active.slot[columns] = np.arange(k)
    return ActiveSet(columns, active.slot, active.gram, np.ascontiguousarray(inverse), mean, scale, pull)


@_part
def _gain(s: float, e: float, precision: float) -> float:
    """What the rows add to the log odds of a column, its weight integrated out."""
    s = max(s, precision)
    return 0.5 * (np.log(precision / s) + e * e / s)


@_part
def _free_neighbours(
    neighbours: Neighbours, is_in: Bool[np.ndarray, " u"], unit: int, without: int
) -> Int[np.ndarray, " free"]:
    """Neighbours of a unit that are out, if also ``without`` is."""
    near = neighbours.units[neighbours.pointers[unit] : neighbours.pointers[unit + 1]]
    return near[~is_in[near] | (near == without)]


def sweep(
    matrix: Sparse,
    omega: Float[np.ndarray, " m"],
    kappa: Float[np.ndarray, " m"],
    precision: Float[np.ndarray, " q"],
    units: Units,
    neighbours: Neighbours,
    is_in: Bool[np.ndarray, " u"],
    columns: Int[np.ndarray, " k"],
    order: Int[np.ndarray, " free"],
    log_uniform: Float[np.ndarray, " free"],
    uniform: Float[np.ndarray, "swaps 3"],
) -> tuple[ActiveSet, Float[np.ndarray, " u"]]:
    """One proposal for each free unit to enter or to leave, then swaps with correlated neighbours.

    Parameters
    ----------
    matrix, omega, kappa, precision
        Columns, pseudo-observations of the rows, and prior precisions.
    units, neighbours
        What enters together, and what may be swapped.
    is_in : bool array (u,)
        Units that are in; changed in place.
    columns : int array (k,)
        Their columns, with those that never leave.
    order : int array (free,)
        The units that may leave, in random order.
    log_uniform : array (free,)
        Logarithms of uniform numbers.
    uniform : array (swaps, 3)
        Uniform numbers, three for each swap.

    Returns
    -------
    active : ActiveSet
        The columns that are in.
    log_odds : array (u,)
        Log odds of each free unit given the others, as they were at its turn; 0 of those that never leave.
    """
    active = _start(matrix, omega, kappa, precision, columns)
    log_odds, size = np.zeros(len(is_in)), int(np.sum(is_in[order]))
    for turn in range(len(order)):
        unit = order[turn]
        members = units.columns[units.pointers[unit] : units.pointers[unit + 1]]
        was_in, gain = is_in[unit], 0.0
        if len(members) == 1:
            d = members[0]
            s, e = _without(active, d) if was_in else (active.scale[d], active.pull[d])
            gain = _gain(s, e, precision[d])
        else:
            for d in members:
                if was_in:
                    s, e = _without(active, d)
                    active = _leave(active, d)
                else:
                    s, e = active.scale[d], active.pull[d]
                    active = _enter(active, matrix, omega, d)
                gain += _gain(s, e, precision[d])
        log_odds[unit] = units.log_odds[unit] + units.by_size[size - int(was_in)] + gain
        accepted = log_uniform[turn] < (-log_odds[unit] if was_in else log_odds[unit])
        # A group has moved already.
        if accepted == (len(members) == 1):
            for d in members:
                active = _leave(active, d) if active.slot[d] >= 0 else _enter(active, matrix, omega, d)
        if accepted:
            is_in[unit] = not was_in
            size += 1 - 2 * int(was_in)
    if len(neighbours.units) == 0:
        return active, log_odds
    for turn in range(len(uniform)):
        inside = order[is_in[order]]
        if len(inside) == 0:
            break
        # The size stays, so that each is as likely to be chosen before as after.
        unit = inside[int(uniform[turn, 0] * len(inside))]
        near = _free_neighbours(neighbours, is_in, unit, -1)
        if len(near) == 0:
            continue
        other = near[int(uniform[turn, 1] * len(near))]
        d, new = units.columns[units.pointers[unit]], units.columns[units.pointers[other]]
        s, e = _without(active, d)
        shared = active.inverse[active.slot[d]] @ np.ascontiguousarray(active.gram[: len(active.columns), new])
        log_ratio = units.log_odds[other] + _gain(
            active.scale[new] + shared * shared * s, active.pull[new] + shared * e, precision[new]
        )
        log_ratio -= units.log_odds[unit] + _gain(s, e, precision[d])
        log_ratio += np.log(len(near) / len(_free_neighbours(neighbours, is_in, other, unit)))
        if np.log(uniform[turn, 2]) < log_ratio:
            active = _enter(_leave(active, d), matrix, omega, new)
            is_in[unit], is_in[other] = False, True
    return active, log_odds


def compiled_sweep() -> Callable[..., tuple[ActiveSet, Float[np.ndarray, " u"]]]:
    """:func:`sweep`, compiled if Numba is installed."""
    return compiled(sweep, "reassoc", "contract") if available() else sweep
