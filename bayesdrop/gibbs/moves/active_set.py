r"""Move features into and out of the model, with all weights integrated out given the auxiliary variables.

With pseudo-observations ``exp(κ_i s_i − ½ ω_i s_i²)``, columns ``Z`` of the features that are in, and the slab's
precisions ``P``, let ``A = (ZᵀΩZ + P)⁻¹`` and ``β = A Zᵀκ``. A feature ``d`` that is out has

    c = ZᵀΩx_d,     s = P_d + x_dᵀΩx_d − cᵀAc,     e = x_dᵀκ − cᵀβ,
    log odds of entering = prior log odds + ½ log(P_d/s) + ½ e²/s,

and one that is in has ``s = 1/A_dd`` and ``e = β_d/A_dd``, the values for the set without it. A sweep goes through the
features by windows. After each move a rank-one update corrects ``s`` and ``e`` of the columns of the window. So all
proposals up to the next accepted one are evaluated at once, and only an accepted one costs a product with the columns
of the window. The intercept and forced features are columns that never leave; a flat intercept has the precision 0.

Shapes: ``m`` rows, ``q`` columns (features, then the intercept), ``k`` columns that are in, ``b`` columns of a window,
``u`` units (features, or groups of them that enter together).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import blas

from ..._typing import Bool, Float, Int
from ...priors.inclusion_law import InclusionLaw

__all__ = ["ActiveSet", "Neighbours", "Rows", "Units", "lost_to_rounding", "sweep"]

# Number of columns by which the arrays of a set grow.
_ROOM = 32
# Least share of the variance of a weight that a deletion may leave; below it too many digits have cancelled.
_KEPT = 1e-3


class Rows(NamedTuple):
    """A matrix and its pseudo-observations.

    Attributes
    ----------
    transposed, squared : arrays (q, m) or scipy.sparse.csr_array
        The transposed matrix, and the same with every entry squared.
    omega, kappa : arrays (m,)
        Pseudo-observations.
    precision : array (q,)
        Prior precisions.
    """

    transposed: Any
    squared: Any
    omega: Float[np.ndarray, " m"]
    kappa: Float[np.ndarray, " m"]
    precision: Float[np.ndarray, " q"]

    def weighted(self, columns: Int[np.ndarray, " k"]) -> Any:
        """``ZᵀΩ`` of some columns, (k, m)."""
        part = self.transposed[columns]
        if not sparse.issparse(part):
            return part * self.omega
        part.data *= self.omega[part.indices]
        return part

    def products(self, matrix: Any, d: Any) -> Float[np.ndarray, " b"]:
        """``XᵀΩx_d`` of a matrix ``Xᵀ`` and a column."""
        own = self.transposed
        if not sparse.issparse(own):
            return np.asarray(matrix @ (own[d] * self.omega))
        part, column = slice(own.indptr[d], own.indptr[d + 1]), np.zeros(len(self.omega))
        rows = own.indices[part]
        column[rows] = own.data[part] * self.omega[rows]
        return np.asarray(matrix @ column)


class Units(NamedTuple):
    """Columns of each unit and prior of the units.

    Attributes
    ----------
    columns : tuple of int arrays
        Columns of each unit.
    first : int array (u,)
        First column of each unit.
    is_group : bool array (u,)
        Mask of the units of several columns.
    law : InclusionLaw
        Prior of the indicators.
    at_once : int
        Maximum number of units in the window of an active set.
    families : tuple of int arrays
        Free units with parents, each followed by its free ancestors.
    """

    columns: tuple[Int[np.ndarray, " _"], ...]
    first: Int[np.ndarray, " u"]
    is_group: Bool[np.ndarray, " u"]
    law: InclusionLaw
    at_once: int
    families: tuple[Int[np.ndarray, " _"], ...] = ()


Neighbours = tuple[Int[np.ndarray, " _"], ...]
"""For each unit, the units for which it may be swapped: single features only, in symmetric lists."""


class ActiveSet:
    """Columns that are in the model, and the statistics ``s`` and ``e`` of a window of columns.

    Attributes
    ----------
    place : int array (q,)
        Position of each column in the window, -1 outside.
    scale, pull : arrays (b,)
        ``s`` and ``e`` of the columns of the window.
    """

    def __init__(self, rows: Rows, columns: Int[np.ndarray, " k"]) -> None:
        k = len(columns)
        self.rows, self.place = rows, np.full(len(rows.precision), -1)
        # s and e of every column, if no column were in.
        self._alone = rows.precision + rows.squared @ rows.omega, np.asarray(rows.transposed @ rows.kappa)
        # The arrays have room for more columns, filled with zeros, so that products may use whole arrays.
        self._size, self._columns, self._mean = k, np.pad(columns, (0, _ROOM)), np.zeros(k + _ROOM)
        self._inverse = np.zeros((k + _ROOM, k + _ROOM), order="F")
        self._invert()

    @property
    def columns(self) -> Int[np.ndarray, " k"]:
        """The columns that are in, in any order."""
        return self._columns[: self._size]

    @property
    def inverse(self) -> Float[np.ndarray, "k k"]:
        """``A``."""
        return self._inverse[: self._size, : self._size]

    @property
    def mean(self) -> Float[np.ndarray, " k"]:
        """``β``."""
        return self._mean[: self._size]

    def _invert(self) -> None:
        """Compute ``A`` and ``β`` from the columns that are in."""
        rows, columns = self.rows, self.columns
        gram = _dense(rows.weighted(columns) @ rows.transposed[columns].T) + np.diag(rows.precision[columns])
        try:
            inverse = np.linalg.inv(gram)
        except np.linalg.LinAlgError:
            raise lost_to_rounding() from None
        self.inverse[:] = 0.5 * (inverse + inverse.T)
        self.mean[:] = self.inverse @ self._alone[1][columns]

    def watch(self, columns: Int[np.ndarray, " b"]) -> None:
        """Set the window to these columns."""
        rows, k = self.rows, self._size
        self.place[:] = -1
        self.place[columns] = np.arange(len(columns))
        self._matrix, self._precision = rows.transposed[columns], rows.precision[columns]
        gram = _dense(rows.weighted(self.columns) @ self._matrix.T)
        # ZᵀΩX.
        self._gram = np.zeros((len(self._mean), len(columns)))
        self._gram[:k] = gram
        scale, pull = (part[columns] for part in self._alone)
        self.scale, self.pull = scale - np.einsum("kb,kb->b", gram, self.inverse @ gram), pull - self.mean @ gram
        self._refresh()

    def see(self, columns: Int[np.ndarray, " b"]) -> None:
        """Set the window to these columns if it lacks one of them."""
        if np.any(self.place[columns] < 0):
            self.watch(columns)

    def gain(self, columns: Any) -> Any:
        """Log Bayes factors for including columns of the window, with all weights integrated out."""
        place = self.place[columns]
        return _gain(self.scale[place], self.pull[place], self._precision[place])

    def enter(self, d: Any) -> None:
        """Add a column of the window, by bordering."""
        k, place = self._size, self.place[d]
        if k == len(self._mean):
            self._columns, self._mean = np.pad(self._columns, (0, _ROOM)), np.pad(self._mean, (0, _ROOM))
            self._gram = np.pad(self._gram, ((0, _ROOM), (0, 0)))
            self._inverse = np.asfortranarray(np.pad(self._inverse, (0, _ROOM)))
        along = self._inverse @ -self._gram[:, place]
        along[k] = 1
        self._gram[k] = self.rows.products(self._matrix, d)
        self._columns[k], self._size = d, k + 1
        self._change(along, 1 / self.scale[place], self.pull[place] / self.scale[place])
        self._refresh()

    def leave(self, d: Any) -> None:
        """Remove a column, by deletion; the last column moves to its position."""
        j, last, place = self._slot(d), self._size - 1, self.place[d]
        s, step = 1 / self._inverse[j, j], self._mean[j]
        variance = np.diagonal(self.inverse).copy()
        self._change(self._inverse[:, j] * s, -1 / s, -step)
        for part in (self._gram, self._inverse, self._inverse.T, self._mean, self._columns):
            part[j] = part[last]
        self._inverse[last] = self._inverse[:, last] = self._mean[last] = 0
        self._size = last
        variance[j] = variance[last]
        if np.any(np.diagonal(self.inverse) < _KEPT * variance[:last]):
            self._invert()
        if place >= 0:
            self.scale[place], self.pull[place] = s, s * step
        self._refresh()

    def after_swap(self, d: Any, new: Any) -> float:
        """Gain of ``new``, a column of the window that is out, if ``d``, which is in, were out."""
        j, place = self._slot(d), self.place[new]
        s = 1 / self._inverse[j, j]
        shared = (self._inverse[:, j] * s) @ self._gram[:, place]
        scale, pull = self.scale[place] + shared * shared / s, self.pull[place] + shared * self._mean[j]
        return float(_gain(scale, pull, self._precision[place]))

    def _slot(self, d: Any) -> int:
        return int(np.flatnonzero(self.columns == d)[0])

    def _change(self, along: Float[np.ndarray, " _"], factor: float, step: float) -> None:
        """Add multiples of ``along alongᵀ`` to ``A`` and of ``along`` to ``β``; ``s`` and ``e`` follow."""
        shared = along @ self._gram
        self._inverse = blas.dger(factor, along, along, a=self._inverse, overwrite_a=True)
        self._mean += step * along
        self.scale -= factor * shared * shared
        self.pull -= step * shared

    def _refresh(self) -> None:
        """Compute ``s`` and ``e`` of the columns that are in from ``A`` and ``β``."""
        place = self.place[self.columns]
        own = np.flatnonzero(place >= 0)
        place, s = place[own], 1 / self._inverse[own, own]
        self.scale[place], self.pull[place] = s, self._mean[own] * s
        # s is at least the prior's precision, also after rounding.
        np.maximum(self.scale, self._precision, out=self.scale)


def lost_to_rounding() -> ValueError:
    """Error for included columns whose covariance is lost to rounding."""
    return ValueError(
        "X: features that are in the model together are equal or nearly so, and under so wide a slab rounding errors "
        "exceed the variance of their weights. Take a narrower slab in bd.SpikeSlab, or leave out all but one of them."
    )


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def _gain(s: Any, e: Any, precision: Any) -> Any:
    return 0.5 * (np.log(precision / s) + e * e / s)


def sweep(
    rows: Rows,
    units: Units,
    neighbours: Neighbours,
    is_in: Bool[np.ndarray, " u"],
    columns: Int[np.ndarray, " k"],
    order: Int[np.ndarray, " free"],
    log_uniform: Float[np.ndarray, " free"],
    uniform: Float[np.ndarray, "swaps 3"],
    of_families: Float[np.ndarray, "t 3"],
) -> tuple[ActiveSet, Float[np.ndarray, " u"]]:
    """Propose each free unit to enter or to leave, then swaps with correlated neighbours, then moves of families.

    In a family a unit and a random part of its ancestors enter or leave together, if all of them are out or in.

    Parameters
    ----------
    rows, units, neighbours
        Matrix and pseudo-observations, units, and the units for which each may be swapped.
    is_in : bool array (u,)
        Units that are in; changed in place.
    columns : int array (k,)
        Columns of the units that are in, and those that never leave.
    order : int array (free,)
        Free units, in random order.
    log_uniform : array (free,)
        Logarithms of uniform numbers.
    uniform : array (swaps, 3)
        Uniform numbers, three for each swap.
    of_families : array (t, 3)
        The same for each move of a family.

    Returns
    -------
    active : ActiveSet
        The columns that are in, and the last window.
    log_odds : array (u,)
        Log odds of each free unit given the others, as they were at its turn; 0 of those that never leave.
    """
    active, log_odds, law = ActiveSet(rows, columns), np.zeros(len(is_in)), units.law
    for start in range(0, len(order), units.at_once):
        part = slice(start, start + units.at_once)
        groups = [units.columns[unit][1:] for unit in order[part][units.is_group[order[part]]]]
        active.watch(np.concatenate([units.first[order[part]], *groups]))
        _propose(active, units, is_in, order[part], log_uniform[part], log_odds)
    is_single = np.zeros(len(is_in), dtype=bool)
    is_single[order] = ~units.is_group[order]
    for which, where, level in uniform:
        # A swap keeps the size of the model: the feature is chosen with the same probability before and after.
        inside = np.flatnonzero(is_in & is_single)
        unit = inside[int(which * len(inside))] if len(inside) else -1
        near = _free(neighbours[unit], is_in, -1) if len(inside) else inside
        if not len(near):
            continue
        other = near[int(where * len(near))]
        d, new = units.first[unit], units.first[other]
        is_in[unit] = False
        leaving, entering = law.log_odds(is_in, np.array([unit, other]))
        is_in[unit] = True
        if leaving == np.inf:  # a child requires it
            continue
        active.see(np.array([d, new]))
        log_ratio = entering - leaving + active.after_swap(d, new) - active.gain(d)
        log_ratio += np.log(len(near) / len(_free(neighbours[other], is_in, unit)))
        if np.log(level) < log_ratio:
            active.leave(d)
            active.enter(new)
            is_in[unit], is_in[other] = False, True
    for which, part, level in of_families:
        family = units.families[int(which * len(units.families))]
        chosen = int(part * 2.0 ** (len(family) - 1)) * 2 + 1 >> np.arange(len(family)) & 1 > 0
        family, leaves = family[chosen], is_in[family[0]]
        after = is_in.copy()
        after[family] = not leaves
        before_after = law.log_density(np.stack([is_in, after]))
        if np.any(is_in[family] != leaves) or before_after[1] == -np.inf:
            continue
        columns = np.concatenate([units.columns[unit] for unit in family])
        active.see(columns)
        gain = _move(active, columns, leaves)
        if np.log(level) < before_after[1] - before_after[0] + (-gain if leaves else gain):
            is_in[:] = after
        else:
            _move(active, columns, not leaves)
    return active, log_odds


def _propose(
    active: ActiveSet,
    units: Units,
    is_in: Bool[np.ndarray, " u"],
    order: Int[np.ndarray, " b"],
    log_uniform: Float[np.ndarray, " b"],
    log_odds: Float[np.ndarray, " u"],
) -> None:
    """Propose the units of ``order``, all in the window, to enter or to leave, and store their log odds."""
    law, turn = units.law, 0
    while turn < len(order):
        left = order[turn:]
        prior = law.log_odds(is_in, left)
        odds = prior + active.gain(units.first[left])
        is_group = units.is_group[left] & np.isfinite(prior)
        moves = (log_uniform[turn:] < np.where(is_in[left], -odds, odds)) | is_group
        count = int(np.argmax(moves)) if moves.any() else len(left) - 1
        log_odds[left[: count + 1]] = odds[: count + 1]
        unit, turn = left[count], turn + count + 1
        accepted = bool(moves[count])
        if is_group[count]:
            gain = _move(active, units.columns[unit], is_in[unit])
            log_odds[unit] = prior[count] + gain
            accepted = log_uniform[turn - 1] < (-log_odds[unit] if is_in[unit] else log_odds[unit])
            if not accepted:
                _move(active, units.columns[unit], not is_in[unit])
        elif accepted:
            _move(active, units.columns[unit], is_in[unit])
        if accepted:
            is_in[unit] = not is_in[unit]


def _move(active: ActiveSet, columns: Int[np.ndarray, " _"], leaves: Any) -> float:
    """Move columns out or in, one after another; return the gain of all of them together."""
    gain = 0.0
    for d in columns:
        gain += float(active.gain(d))
        if leaves:
            active.leave(d)
        else:
            active.enter(d)
    return gain


def _free(near: Int[np.ndarray, " _"], is_in: Bool[np.ndarray, " u"], without: Any) -> Int[np.ndarray, " free"]:
    """Units of ``near`` that are out, where ``without`` counts as out."""
    return near[~is_in[near] | (near == without)]
