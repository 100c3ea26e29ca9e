r"""Coordinate descent on the dual of a kinked loss, with noise in the form of the augmentation bound, and without.

A plain hinge, ε-insensitive or quantile loss is a sum of maxima over intervals, and with noise of variance ``v`` its
bound is that of the same intervals,

    c φ(y, s, v) = Σ max { β(t − s) + √v √((β − l)(u − β)) : l <= β <= u },

for ``½(ζ + √(ζ² + v)) = max { αζ + √v √(α(1 − α)) : 0 <= α <= 1 }``; an offset of the scores is taken off ``t``. So
the energy is the maximum over ``β`` of what is convex in ``w``: a quadratic, linear terms, and norms ``√v``. As
``√v <= ½(v/r + r)``, with equality at ``r = √v``, the weights that belong to ``β`` are

    w = D⁻¹Mᵀβ,     D = P + q(σ/r),     σ = √((β − l)(u − β)),     q(s) = a∘(X²)ᵀs.

A round makes passes over the coordinates at fixed ``D`` and ``r``, each of which has a closed form or nearly
(:mod:`.coordinate_loop`; Hsieh, Chang, Lin, Keerthi & Sundararajan 2008 without noise), and then brings these up to
date. Without noise they stand. The intercept ``b`` is the multiplier of ``Σβ = 0``: by the method of multipliers
``(Σβ)²/2ρ`` is added, and ``b`` follows ``Σβ``.

As ``√v >= aᵀz`` for any ``z`` with ``‖z‖ <= 1``, any ``β`` that meets the constraint and any ``w`` with ``r = √v(w)``
bound the energy from below,

    U >= Σtβ − ½ρᵀP⁻¹ρ,     ρ = Mᵀβ − q(σ/r)∘w,

and the difference to the energy at ``w`` bounds its suboptimality, however sharp the kinks. Where it does not close
soon Newton's method goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from ..._typing import Bool, PerRow
from ..._validation import offers
from ...losses.protocols import PiecewiseLinear
from ..objective.energy import Energy
from ..shapes import ProblemVector, WeightBlock
from .coordinate_loop import CompressedRows
from .dual_rounds import Follow, descend
from .interior import has_steps, solve_interior
from .problem import LEAST, Dual, KinkedProblem

if TYPE_CHECKING:
    from ..learning import Learning

__all__ = ["on_their_kinks", "solve_dual"]

# Passes before Newton's method takes over, and those over few entries, which are as quick as one of its steps.
_MOST = 300
_ENTRIES = 3e8
_MOST_OF_FEW = 30_000
# With noise the loop is worth loading from so many entries on, and Newton's method is quicker where the variance of an
# entry is a larger share of its squared mean than this, in rows of one kink and of two: kinks are round then.
_WORTHWHILE = 100_000
_HEAVY = (0.5, 0.01)
# The same where its products are too small to go in threads, and its own arithmetic counts.
_FEW, _HEAVY_OF_FEW = 1 << 18, (2.5, 1.2)
# A pass of several problems of one kink costs each of them less than a product does in Newton's method; and rates that
# follow the weights cost its rounds nothing, and that method a step or two.
_HEAVIER, _SEVERAL = 1.2, 4
# So is it where more than this share of the entries is stored and there are more than so many rows for each column.
_FULL = 0.5
_TALL = 1.5
# Of so many rows for each column, few enough for a factor, a pass costs as much as several of Newton's products, which
# go in threads.
_TALLER = 20
# Without noise the interior-point method needs a dozen or two of steps where rows are so many more than columns, and
# passes may need thousands: few are tried before where there are not very many rows, and none where there are.
_TRIED = 30
# Multiplications of a step's Gram matrix up to which that holds.
_AFFORDABLE = 2e10
# Half-width of a kink within which a slope says where the score is, and the share of a slope that counts as an end.
_KINK = 1e-9
_FAR = 1e-6
# Coordinates of problems that are held at once, with a dozen numbers each.
_ROOM = 1 << 21


def solve_dual(energy: Energy, weights: WeightBlock, tol: float, learning: Learning | None = None) -> Dual | None:
    """Minimise the energy of kinked losses by their dual.

    Parameters
    ----------
    energy : Energy
        Of K problems.
    weights : array (p + 1, K)
        Where to start, of which interior points and problems without noise take the intercepts alone.
    tol : float
        Relative suboptimality to reach. What does not come so near soon is left where it is, and its gap tells.
    learning : Learning, optional
        What the weights do to the rates on the way; the solution is one at the rates that it ends with.

    Returns
    -------
    Dual or None
        None where it does not apply (other losses or forms of them, noise that does not leave zeros alone, columns
        without a prior, rows elsewhere, noised ones without zeros, no compiler) or does not pay.
    """
    if not _applies(energy):
        return None
    design = energy.moments.design
    n, p = design.shape
    affordable = n * p**2 <= _AFFORDABLE
    taller = n > _TALLER * p and design.prefers_gram and weights.shape[1] < _SEVERAL
    if taller and (energy.moments.has_variance or not (affordable or design.compressed() is None)):
        return None
    if learning is not None:
        return _by_coordinates(energy, weights, tol, learning=learning) if energy.moments.has_variance else None
    if not design.is_sparse and n > _TALL * p and design.compressed() is None:
        return solve_interior(energy, weights, tol) or _by_coordinates(energy, weights, tol)
    if has_steps(energy) and n > _TALL * p and affordable:
        tried = None if n > _TALLER * p else _by_coordinates(energy, weights, tol, _TRIED)
        if tried is not None and _is_closed(energy, tried, tol):
            return tried
        if (found := solve_interior(energy, weights, tol)) is not None:
            return found
    tried = _by_coordinates(energy, weights, tol)
    if tried is not None and (_is_closed(energy, tried, tol) or not affordable):
        return tried
    # Where few passes do, they are quicker; where many do not, interior points do, and smoothed kinks do not.
    found = solve_interior(energy, weights, tol)
    return tried if found is None or (tried is not None and np.any(tried.gap < found.gap)) else found


def _is_closed(energy: Energy, found: Dual, tol: float) -> bool:
    return bool(np.all(found.gap <= tol * np.abs(_value(energy, found.weights))))


def _value(energy: Energy, weights: WeightBlock) -> ProblemVector:
    mean, var = energy.moments.scores(weights)
    return energy.value(weights, mean, var, np.zeros(weights.shape[1]))


def _by_coordinates(
    energy: Energy,
    weights: WeightBlock,
    tol: float,
    most_passes: int | None = None,
    learning: Learning | None = None,
) -> Dual | None:
    rows = _rows_of(energy)
    if rows is None:
        return None
    gain, _, quadratic, _, _ = energy.moments.coefficients
    (n, p), K = energy.moments.design.shape, weights.shape[1]
    kinks = KinkedProblem.of(energy, slice(0, 1)).centre.shape[1]
    limits = _HEAVY_OF_FEW if len(rows.values) < _FEW else _HEAVY
    cheaper = kinks == 1 and (K >= _SEVERAL or learning is not None)
    most = max(limits[kinks - 1], _HEAVIER if cheaper else 0.0)
    # As shares of all that an entry says, of which few of learnt ones may be large.
    if np.max(np.mean(quadratic / (gain**2 + quadratic), axis=0)) > most / (1 + most):
        return None
    if len(rows.values) > _FULL * n * p and (n > _TALL * p or kinks > 1):
        return None
    passes = most_passes or max(_MOST, min(_MOST_OF_FEW, int(_ENTRIES / max(len(rows.values), 1))))
    together, found = max(1, _ROOM // max(kinks * n, 1)), []
    if learning is not None and K > together:
        return None
    for start in range(0, K, together):
        some = slice(start, min(start + together, K))
        task = KinkedProblem.of(energy, some)
        follow = None if learning is None else _follow(task, learning)
        dual = descend(task, rows, weights[:, some], tol, passes, follow)
        if dual is None:
            return None
        found.append(dual)
    if len(found) == 1:
        return found[0]
    return Dual(
        np.concatenate([part.weights for part in found], axis=1),
        np.concatenate([part.gap for part in found]),
        np.concatenate([part.pull for part in found], axis=1),
    )


def _follow(task: KinkedProblem, learning: Learning) -> Follow:
    """What rates that follow the weights do to the problems of a descent."""

    def follow(
        weights: WeightBlock, near: Bool[np.ndarray, " K"], value: ProblemVector
    ) -> tuple[Bool[np.ndarray, " K"], KinkedProblem] | None:
        moved = learning.follow(weights, near, value)
        return (moved, task.at(learning.energy)) if np.any(moved) else None

    return follow


def on_their_kinks(energy: Energy, mean: PerRow, pull: PerRow) -> tuple[PerRow, float]:
    """Scores (n, K) whose slopes are ``−β`` at the variance that is returned with them.

    A score on a kink is known to the root of the gap, and its slope depends on where in the kink it lies.
    """
    weight = np.broadcast_to(energy.weight, mean.shape)
    centre, low, high, width = cast(PiecewiseLinear, energy.loss).interval(energy.target, weight)
    centre = centre if energy.offset is None else centre - energy.offset
    # With a width there are two kinks, and β is between zero and one of the ends.
    above = (width > 0) & ((pull > 0) | ((pull == 0) & (mean < centre)))
    below = (width > 0) & ~above
    low, high = np.where(above, 0.0, low), np.where(below, 0.0, high)
    kink = centre - np.where(above, width, 0.0) + np.where(below, width, 0.0)
    share = np.clip((pull - low) / np.maximum(high - low, LEAST), _FAR, 1 - _FAR)
    place = _KINK * (2 * share - 1) / (2 * np.sqrt(share * (1 - share)))
    distance = kink - mean
    end = np.where(share == _FAR, np.minimum(distance, place), np.maximum(distance, place))
    return kink - np.where((share > _FAR) & (share < 1 - _FAR), place, end), _KINK**2


def _applies(energy: Energy) -> bool:
    """Whether the energy is the maximum that is stated above, in weights that are a multiple of those."""
    moments, loss = energy.moments, cast(PiecewiseLinear, energy.loss)
    gain, shift, _, linear, constant = moments.coefficients
    # Smooth losses first: to look for the methods of a protocol where they are not takes as long as a step.
    if not (loss.kinked and offers(loss, PiecewiseLinear)) or energy.plain_weight is not None:
        return False
    if moments.has_variance and not loss.augmented:
        return False
    if any(np.any(part) for part in (shift, linear, constant)) or not np.all(gain > 0):
        return False
    return bool(np.all(energy.precision[:-1] > 0))


def _rows_of(energy: Energy) -> CompressedRows | None:
    from ...designs.compiled.jit import available

    if not available():
        return None
    moments, design = energy.moments, energy.moments.design
    matrix = design.compressed(full=not moments.has_variance)
    if matrix is None or (moments.has_variance and matrix.nnz < _WORTHWHILE):
        return None
    # Unsigned indices spare Numba the check for negative ones.
    columns = matrix.indices.view(np.uint32 if matrix.indices.dtype.itemsize == 4 else np.uint64)
    return CompressedRows(matrix.indptr.astype(np.uint64), columns, matrix.data, bool(np.all(matrix.data == 1)))
