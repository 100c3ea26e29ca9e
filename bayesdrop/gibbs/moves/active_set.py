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

    def products(self, d: Any) -> Float[np.ndarray, " q"]:
        """``XᵀΩx_d``."""
        matrix = self.transposed
        part = slice(matrix.indptr[d], matrix.indptr[d + 1])
        rows, column = matrix.indices[part], np.zeros(len(self.omega))
        column[rows] = matrix.data[part] * self.omega[rows]
        return np.asarray(matrix @ column)


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
    families : tuple of int arrays
        Units with parents, each followed by these and by theirs.
    """

    columns: tuple[Int[np.ndarray, " _"], ...]
    first: Int[np.ndarray, " u"]
    is_group: Bool[np.ndarray, " u"]
    law: InclusionLaw
    families: tuple[Int[np.ndarray, " _"], ...] = ()


Neighbours = tuple[Int[np.ndarray, " _"], ...]
"""Units that may take the place of each unit: symmetric lists of single features."""


class ActiveSet:
    """Columns that are in the model, and what the rows say of every column.

    Attributes
    ----------
    columns : int array (k,)
        The columns that are in, in any order.
    slot : int array (q,)
        Place of each column among them, -1 if it is out.
    inverse, mean : arrays (k, k) and (k,)
        ``A`` and ``β``.
    scale, pull : arrays (q,)
        ``s`` and ``e``.
    """

    def __init__(self, rows: Rows, columns: Int[np.ndarray, " k"]) -> None:
        k, q = len(columns), len(rows.precision)
        self.rows, self.columns, self.slot = rows, columns, np.full(q, -1)
        self.slot[columns] = np.arange(k)
        weighted = rows.transposed[columns].toarray() * rows.omega
        # The first k rows are ZᵀΩX.
        self._gram = np.empty((2 * k + 16, q))
        self._gram[:k] = (rows.transposed @ weighted.T).T
        gram = self._gram[:k]
        inverse = np.linalg.inv(gram[:, columns] + np.diag(rows.precision[columns]))
        self.inverse = 0.5 * (inverse + inverse.T)
        pull = np.asarray(rows.transposed @ rows.kappa)
        self.mean = self.inverse @ pull[columns]
        scale = rows.precision + rows.squared @ rows.omega - np.sum(gram * (self.inverse @ gram), axis=0)
        self._refresh(scale, pull - self.mean @ gram)

    def gain(self, columns: Any) -> Any:
        """What the rows add to the log odds of columns, their weights integrated out."""
        return _gain(self.scale[columns], self.pull[columns], self.rows.precision[columns])

    def enter(self, d: Any) -> None:
        """Add a column, by bordering."""
        k, s, e = len(self.columns), self.scale[d], self.pull[d]
        if k == len(self._gram):
            self._gram = np.concatenate([self._gram, np.empty_like(self._gram)])
        self._gram[k] = self.rows.products(d)
        along = np.append(-(self.inverse @ self._gram[:k, d]), 1.0)
        inverse = along[:, None] * (along / s)
        inverse[:k, :k] += self.inverse
        self.inverse, self.mean = inverse, np.append(self.mean, 0.0) + along * (e / s)
        self.columns = np.append(self.columns, d)
        self.slot[d] = k
        # What the column shares with the others, beyond the columns that were in.
        shared = along @ self._gram[: k + 1]
        self._refresh(self.scale - shared * shared / s, self.pull - shared * (e / s))

    def leave(self, d: Any) -> None:
        """Remove a column, by deletion; the last column takes its place."""
        j, k, s, e = self.slot[d], len(self.columns) - 1, self.scale[d], self.pull[d]
        along = self.inverse[j] * s
        shared = along @ self._gram[: k + 1]
        kept = np.arange(k)
        if j < k:
            kept[j] = k
            self._gram[j] = self._gram[k]
        self.inverse = (self.inverse - along[:, None] * (along / s))[np.ix_(kept, kept)]
        self.mean, self.columns = (self.mean - along * (e / s))[kept], self.columns[kept]
        self.slot[d] = -1
        self.slot[self.columns] = np.arange(k)
        scale, pull = self.scale + shared * shared / s, self.pull + shared * (e / s)
        scale[d], pull[d] = s, e
        self._refresh(scale, pull)

    def after_swap(self, d: Any, new: Any) -> float:
        """Gain of a column that is out if ``d``, which is in, were not."""
        k, s = len(self.columns), self.scale[d]
        shared = (self.inverse[self.slot[d]] * s) @ self._gram[:k, new]
        return float(
            _gain(
                self.scale[new] + shared * shared / s,
                self.pull[new] + shared * self.pull[d] / s,
                self.rows.precision[new],
            )
        )

    def _refresh(self, scale: Float[np.ndarray, " q"], pull: Float[np.ndarray, " q"]) -> None:
        """Take ``s`` and ``e`` of the columns that are out; those of the others follow from ``A`` and ``β``."""
        scale[self.columns] = 1 / np.diagonal(self.inverse)
        pull[self.columns] = self.mean * scale[self.columns]
        # Rounding must not take a scale below the prior's precision.
        self.scale, self.pull = np.maximum(scale, self.rows.precision), pull


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
    active, log_odds, law, turn = ActiveSet(rows, columns), np.zeros(len(is_in)), units.law, 0
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
    for which, where, level in uniform:
        # The size stays, so that each feature is as likely to be chosen before as after.
        inside = order[is_in[order] & ~units.is_group[order]]
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
        gain = _move(active, columns, leaves)
        if np.log(level) < before_after[1] - before_after[0] + (-gain if leaves else gain):
            is_in[:] = after
        else:
            _move(active, columns, not leaves)
    return active, log_odds


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
