"""Regulariser from dropout for the logistic loss, ``R(w; x) = E log(1 + e^{−s}) − log(1 + e^{−E s})``."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..._typing import Float
from ..._validation import check_choice, check_number, check_numbers, shown
from ..._validation.numeric import check_matrix
from ...designs import as_local_design
from ...losses import Logistic
from ...rates.base import check_rate
from .enumeration import all_masks
from .quadrature import RULES

__all__ = ["regularizer"]


def regularizer(
    X: Any, weights: Any, rate: Any = 0.5, *, intercept: float = 0.0, expectation: str = "exact"
) -> Float[np.ndarray, " n"]:
    r"""Compute the regulariser that dropout adds to the logistic loss of each row, exactly or as approximated in fits.

    Dropout deletes entries and divides the others by :math:`1 - \eta`, so that the mean of a noised row is the row. The
    mean of the loss over all deletions is the loss of the row and a regulariser that does not depend on the label,

    .. math:: R(w; x) = E \log(1 + e^{-\tilde x^T w - b}) - \log(1 + e^{-x^T w - b}).

    Parameters
    ----------
    X : array-like, data frame or scipy sparse of shape (n, p)
        Rows.
    weights : array-like of shape (p,)
        Weights of the features.
    rate : float or array-like of shape (p,), default=0.5
        Probability that an entry is deleted, in [0, 1), for all features or for each.
    intercept : float, default=0.0
        Intercept, which has no noise.
    expectation : str, default="exact"
        ``"exact"`` sums over all deletions of a row. ``"gaussian"`` assumes a normal score, ``"taylor"`` is the
        quadratic penalty :math:`\frac12 \sigma(m)(1 - \sigma(m)) v` of Wager et al. in the mean and the variance of the
        score, and ``"augmentation"`` the bound of Chen et al., the default of fits.

    Returns
    -------
    array of shape (n,)
        Regulariser of each row. A fit adds their sum, multiplied by ``C``, to its loss.

    Raises
    ------
    ValueError
        If shapes do not match, or for ``"exact"`` if a row has more than 18 entries that may be deleted.

    See Also
    --------
    Logistic, fit

    References
    ----------
    - Wager, Wang & Liang (2013), Dropout training as adaptive regularization, NeurIPS, equations 4-6.
    - Chen, Zhu, Chen & Chen (2015), Dropout training for SVMs with data augmentation.

    Examples
    --------
    With larger weights the quadratic penalty is ever further from the exact regulariser:

    >>> import bayesdrop as bd
    >>> row, ways = [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]], ("exact", "gaussian", "taylor")
    >>> for weight in (0.1, 0.5, 1.0):
    ...     exact, normal, quadratic = (bd.regularizer(row, [weight] * 6, expectation=way)[0] for way in ways)
    ...     print(f"{exact:.4f} {normal / exact:.3f} {quadratic / exact:.3f}")
    0.0068 0.999 1.005
    0.0415 1.015 0.817
    0.0254 1.122 0.292
    """
    choices = ("exact", "gaussian", "taylor", "augmentation")
    check_choice(expectation, "expectation", choices)
    X = csr_array(as_local_design(X, check_matrix).matrix(), dtype=np.float64)
    weights, chance = check_numbers(weights, "weights", least=-np.inf), check_rate(rate, "rate")
    check_number(intercept, "intercept")
    p = X.shape[1]
    if weights.shape != (p,) or chance.shape not in ((), (p,)):
        raise ValueError(
            f"weights, rate: expected one weight for each of {p} features of X, and one rate for all or for each; "
            f"got shapes {weights.shape} and {chance.shape}."
        )
    chance = np.broadcast_to(chance, (p,))
    mean = X @ weights + intercept
    one = np.ones_like(mean)
    if expectation != "exact":
        loss = Logistic(expectation)
        variance = X.power(2) @ (weights**2 * chance / (1 - chance))
        return np.asarray(loss.value(one, mean, variance) - loss.value(one, mean, 0 * variance))
    return np.array([_exact(X[[row]], weights, chance, m, row) for row, m in enumerate(mean)])


def _exact(X: Any, weights: Any, rate: Any, mean: float, row: int) -> float:
    """Return the sum over all deletions of one row."""
    step, chance = X.data * weights[X.indices], rate[X.indices]
    noised = (step != 0) & (chance > 0)
    step, chance = step[noised], chance[noised]
    if len(step) > RULES.max_enumerated:
        raise ValueError(
            f"X: row {row} has {len(step)} entries that may be deleted, and {shown('exact')} sums over at most "
            f'2^{RULES.max_enumerated} deletions; take expectation="gaussian".'
        )
    # Sum scores relative to their mean, because small differences do not cancel.
    away, log_chance = all_masks((step / (1 - chance))[None], chance[None])
    score = mean + (away - step.sum())
    return float(np.exp(log_chance[0]) @ (np.logaddexp(0, -score[0]) - np.logaddexp(0, -mean)))
