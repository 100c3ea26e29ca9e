r"""Hidden units in one order and with one sign, draw by draw.

Permuting the units changes nothing, and with free intercepts neither does turning a unit's signs: ``σ(−u) = 1 − σ(u)``,
so ``(α_k, a_k, w_k, b)`` and ``(−α_k, −a_k, −w_k, b + w_k)`` have the same scores and, under symmetric priors, the same
density. A chain visits some of the ``2^K K!`` equal modes. Each draw is brought to the one that is nearest to a
reference (Stephens 2000, with squared distance as loss): an assignment problem of the units, after each has taken its
better sign. What is left of multimodality after that is real, and shows as a large R-hat.
"""

from __future__ import annotations

import numpy as np

from ..._typing import Float

__all__ = ["align_units"]

_ROUNDS = 5


def align_units(
    hidden: Float[np.ndarray, "S K p"],
    shift: Float[np.ndarray, "S K"],
    output: Float[np.ndarray, "S K"],
    intercept: Float[np.ndarray, " S"],
    reference: int = 0,
    turn: bool = True,
) -> tuple[Float[np.ndarray, "S K p"], Float[np.ndarray, "S K"], Float[np.ndarray, "S K"], Float[np.ndarray, " S"]]:
    """Permute and turn the units of each draw towards a common reference.

    Parameters
    ----------
    hidden : array (S, K, p)
        Hidden weights of ``S`` draws.
    shift, output : array (S, K)
        Hidden intercepts and output weights.
    intercept : array (S,)
        Output intercepts.
    reference : int
        Draw that begins as the reference; then it is the mean of the aligned draws, a few times.
    turn : bool
        Units may be turned too, which needs an output intercept that makes up for it.

    Returns
    -------
    hidden, shift, output, intercept : arrays
        The same functions of the features, in aligned units.

    Examples
    --------
    >>> one = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> hidden = np.stack([one, -one[::-1]])
    >>> found = align_units(hidden, np.zeros((2, 2)), np.array([[1.0, 2.0], [-2.0, -1.0]]), np.zeros(2))
    >>> bool(np.all(found[0][0] == found[0][1])), found[3].tolist()
    (True, [0.0, -3.0])
    """
    from scipy.optimize import linear_sum_assignment

    whole = np.concatenate([hidden, shift[:, :, None], output[:, :, None]], axis=2).astype(np.float64)
    intercept = np.array(intercept, dtype=np.float64)
    centre = whole[reference]
    for _ in range(_ROUNDS):
        before = whole.copy()
        # ‖±u − r‖² = ‖u‖² + ‖r‖² ∓ 2uᵀr: the better sign is that of uᵀr, and its gain the size.
        product = np.einsum("ska,ra->skr", whole, centre)
        for s in range(len(whole)):
            gain = np.abs(product[s]) if turn else product[s]
            rows, columns = linear_sum_assignment(gain, maximize=True)
            order = rows[np.argsort(columns)]
            against = product[s][order, np.arange(len(order))] < 0
            sign = np.where(against & turn, -1.0, 1.0)
            intercept[s] += whole[s, order[sign < 0], -1].sum()
            whole[s] = sign[:, None] * whole[s, order]
        centre = whole.mean(axis=0)
        if np.array_equal(whole, before):
            break
    return whole[:, :, :-2], whole[:, :, -2], whole[:, :, -1], intercept
