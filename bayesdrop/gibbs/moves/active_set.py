r"""Moves of the features that are in the model, all their weights integrated out given the auxiliary variables.

With pseudo-observations ``exp(κ_i s_i − ½ ω_i s_i²)``, columns ``Z`` of the features that are in, and the slab's
precisions ``P``, let ``A = (ZᵀΩZ + P)⁻¹`` and ``β = A Zᵀκ``. A feature ``d`` that is out has

    c = ZᵀΩx_d,     s = P_d + x_dᵀΩx_d − cᵀAc,     e = x_dᵀκ − cᵀβ,
    log odds of entering = prior log odds + ½ log(P_d/s) + ½ e²/s,

and one that is in has ``s = 1/A_dd`` and ``e = β_d/A_dd``, those of the set without it. ``s`` and ``e`` of all columns
follow each move by a rank-one update. So all proposals up to the next accepted one are evaluated at once, and only an
accepted one costs a product with the matrix. The intercept and forced features are columns that never leave; a flat
intercept has the precision 0.

Shapes: ``m`` rows, ``q`` columns (features, then the intercept), ``k`` columns that are in, ``u`` units (features, or
groups of them that enter together).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..._typing import Bool, Float, Int
from ...priors.inclusion_law import InclusionLaw

__all__ = ["ActiveSet", "Neighbours", "Rows", "Units", "correlated", "sweep"]


class Rows(NamedTuple):
    """A matrix and its pseudo-observations.

    Attributes
    ----------
    transposed, squared : scipy.sparse.csr_array (q, m)
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


class Units(NamedTuple):
    """Columns of each unit and prior of the units.

    Attributes
    ----------
    columns : tuple of int arrays
        Columns of each unit.
    first : int array (u,)
        First column of each.
    is_group : bool array (u,)
        Units of several columns.
    law : InclusionLaw
        Prior of their indicators.
    at_once : int
        Units whose columns are in the window of an active set at once.
    families : tuple of int arrays
        Units with parents, each followed by these and by theirs.
    """

    columns: tuple[Int[np.ndarray, " _"], ...]
    first: Int[np.ndarray, " u"]
    is_group: Bool[np.ndarray, " u"]
    law: InclusionLaw
    at_once: int
    families: tuple[Int[np.ndarray, " _"], ...] = ()


Neighbours = tuple[Int[np.ndarray, " _"], ...]
"""Units that may take the place of each unit: symmetric lists of single features."""


class ActiveSet:
    """Columns that are in the model, and what the rows say of a window of columns.

    Attributes
    ----------
    columns : int array (k,)
        The columns that are in, in any order.
    mean : array (k,)
        ``β``.
    place : int array (q,)
        Place of each column in the window, -1 outside.
    scale, pull : arrays (b,)
        ``s`` and ``e`` of the columns of the window.
    """

    def __init__(self, rows: Rows, columns: Int[np.ndarray, " k"]) -> None:
        k, matrix = len(columns), rows.transposed[columns]
        self.rows, self.columns = rows, columns.copy()
        # With room for more columns: ZᵀΩ, and A.
        self._weighted, self._inverse = np.empty((2 * k + 16, len(rows.omega))), np.empty((2 * k + 16, 2 * k + 16))
        self._weighted[:k] = matrix.toarray() * rows.omega
        inverse = np.linalg.inv(matrix @ self._weighted[:k].T + np.diag(rows.precision[columns]))
        self._inverse[:k, :k] = 0.5 * (inverse + inverse.T)
        # s and e of every column, if no column were in.
        self._alone = rows.precision + rows.squared @ rows.omega, np.asarray(rows.transposed @ rows.kappa)
        self.mean = self.inverse @ self._alone[1][columns]
        self.watch(columns[:0])

    @property
    def inverse(self) -> Float[np.ndarray, "k k"]:
        """``A``."""
        k = len(self.columns)
        return self._inverse[:k, :k]

    def watch(self, columns: Int[np.ndarray, " b"]) -> None:
        """Let the window be of these columns, and of no others."""
        k = len(self.columns)
        self.place = np.full(len(self.rows.precision), -1)
        self.place[columns] = np.arange(len(columns))
        self._matrix, self._precision = self.rows.transposed[columns], self.rows.precision[columns]
        # The first k rows are ZᵀΩX.
        self._gram = np.empty((len(self._weighted), len(columns)))
        gram = self._gram[:k]
        gram[:] = (self._matrix @ self._weighted[:k].T).T
        self.scale, self.pull = (part[columns] for part in self._alone)
        self._shift(-np.einsum("kb,kb->b", gram, self.inverse @ gram), -(self.mean @ gram))

    def see(self, columns: Int[np.ndarray, " b"]) -> None:
        """Watch these columns if the window lacks one of them."""
        if np.any(self.place[columns] < 0):
            self.watch(columns)

    def gain(self, columns: Any) -> Any:
        """What the rows add to the log odds of columns of the window, their weights integrated out."""
        place = self.place[columns]
        return _gain(self.scale[place], self.pull[place], self._precision[place])

    def enter(self, d: Any) -> None:
        """Add a column of the window, by bordering."""
        k, place, matrix = len(self.columns), self.place[d], self.rows.transposed
        s, e = self.scale[place], self.pull[place]
        if k == len(self._weighted):
            self._weighted, self._gram = (
                np.concatenate([part, np.empty_like(part)]) for part in (self._weighted, self._gram)
            )
            self._inverse = np.pad(self._inverse, (0, k))
        part = slice(matrix.indptr[d], matrix.indptr[d + 1])
        entries = matrix.indices[part]
        self._weighted[k] = 0
        self._weighted[k, entries] = matrix.data[part] * self.rows.omega[entries]
        self._gram[k] = self._matrix @ self._weighted[k]
        along = np.ones(k + 1)
        along[:k] = -(self.inverse @ self._gram[:k, place])
        self.columns, self.mean = np.append(self.columns, d), np.append(self.mean, 0.0) + along * (e / s)
        inverse = self.inverse
        inverse[k] = inverse[:, k] = 0
        inverse += along[:, None] * (along / s)
        # What the column shares with the window, beyond the columns that were in.
        shared = along @ self._gram[: k + 1]
        self._shift(shared * shared / -s, shared * (e / -s))

    def leave(self, d: Any) -> None:
        """Remove a column, by deletion; the last column takes its place."""
        j, last, inverse = self._slot(d), len(self.columns) - 1, self.inverse
        s = 1 / inverse[j, j]
        along, step = inverse[j] * s, self.mean[j]
        shared = along @ self._gram[: last + 1]
        inverse -= along[:, None] * (along / s)
        self.mean = self.mean - along * step
        for part in (self._weighted, self._gram, inverse, inverse.T, self.mean, self.columns):
            part[j] = part[last]
        self.mean, self.columns = self.mean[:last], self.columns[:last]
        self._shift(shared * shared / s, shared * step)
        place = self.place[d]
        if place >= 0:
            self.scale[place], self.pull[place] = max(s, self._precision[place]), step * s

    def after_swap(self, d: Any, new: Any) -> float:
        """Gain of a column of the window that is out if ``d``, which is in, were not."""
        j, place, inverse = self._slot(d), self.place[new], self.inverse
        s = 1 / inverse[j, j]
        shared = (inverse[j] * s) @ self._gram[: len(inverse), place]
        return float(
            _gain(
                self.scale[place] + shared * shared / s,
                self.pull[place] + shared * self.mean[j],
                self._precision[place],
            )
        )

    def _slot(self, d: Any) -> int:
        return int(np.flatnonzero(self.columns == d)[0])

    def _shift(self, scale: Float[np.ndarray, " b"], pull: Float[np.ndarray, " b"]) -> None:
        """Change ``s`` and ``e`` of the columns that are out; those of the others follow from ``A`` and ``β``."""
        self.scale += scale
        self.pull += pull
        place = self.place[self.columns]
        own, place = place >= 0, place[place >= 0]
        self.scale[place] = 1 / np.diagonal(self.inverse)[own]
        self.pull[place] = self.mean[own] * self.scale[place]
        # Rounding must not take a scale below the prior's precision.
        np.maximum(self.scale, self._precision, out=self.scale)


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
    """One proposal for each free unit to enter or to leave, then swaps with correlated neighbours, then families.

    In a family a unit and a random part of its ancestors enter or leave together, if all of them are out or in.

    Parameters
    ----------
    rows, units, neighbours
        Matrix and pseudo-observations, what enters together, and what may be swapped.
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
    of_families : array (t, 3)
        The same for each move of a family.

    Returns
    -------
    active : ActiveSet
        The columns that are in.
    log_odds : array (u,)
        Log odds of each free unit given the others, as they were at its turn; 0 of those that never leave.
    """
    active, log_odds, law = ActiveSet(rows, columns), np.zeros(len(is_in)), units.law
    for start in range(0, len(order), units.at_once):
        part = slice(start, start + units.at_once)
        active.watch(np.concatenate([units.columns[unit] for unit in order[part]]))
        _propose(active, units, is_in, order[part], log_uniform[part], log_odds)
    free = order[~units.is_group[order]]
    for which, where, level in uniform:
        # The size stays, so that each feature is as likely to be chosen before as after.
        inside = free[is_in[free]]
        unit = inside[int(which * len(inside))] if len(inside) else -1
        near = _free(neighbours[unit], is_in, -1) if len(inside) else inside
        if not len(near):
            continue
        other = near[int(where * len(near))]
        d, new = units.first[unit], units.first[other]
        is_in[unit] = False
        leaving, entering = law.log_odds(is_in, np.array([unit, other]))
        is_in[unit] = True
        if leaving == np.inf:  # a child needs it
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
    """Propose each of some units of the window to enter or to leave, and note its log odds."""
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
    """Those of some units that are out, if also ``without`` is."""
    return near[~is_in[near] | (near == without)]


def correlated(matrix: Any, law: InclusionLaw, most: int, least: float, at_once: int = 256) -> Neighbours:
    """Free single features with a correlation of at least ``least``, of each at most ``most``, and the reverse.

    Examples
    --------
    >>> law = InclusionLaw(np.arange(3), np.zeros(3, dtype=bool), None, 1.0, 1.0)
    >>> X = sparse.csc_array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [2.0, 3.0, 1.0], [1.0, 1.0, 0.0]])
    >>> correlated(X, law, 8, 0.5)
    (array([1]), array([0]), array([], dtype=int...))
    """
    n, count = matrix.shape[0], len(law.is_forced)
    single = np.flatnonzero((np.bincount(law.unit)[law.unit] == 1) & ~law.is_forced[law.unit])
    X = matrix[:, single]
    mean = np.asarray(X.mean(axis=0))
    spread = np.sqrt(np.maximum(np.asarray(X.multiply(X).mean(axis=0)) - mean * mean, np.finfo(float).tiny))
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    for start in range(0, len(single), at_once):
        part = slice(start, start + at_once)
        size = abs((X[:, part].T @ X).toarray() / n - np.outer(mean[part], mean)) / np.outer(spread[part], spread)
        own = np.arange(len(size))
        size[own, start + own] = 0
        last = np.argsort(-size, axis=1)[:, :most]
        one, near = np.nonzero(np.take_along_axis(size, last, axis=1) >= least)
        pairs.append(law.unit[single[np.stack([start + one, last[one, near]])]])
    one, other = np.concatenate(pairs, axis=1)
    both = sparse.csr_array((np.ones(2 * len(one)), (np.append(one, other), np.append(other, one))), (count, count))
    return tuple(both.indices[start:end].astype(np.intp) for start, end in pairwise(both.indptr))
