r"""The E-step at a fit: the expected auxiliary variable of each row, and its influence on the weights.

At the optimum of the augmentation bound the best distribution of a row's auxiliary variable is its conditional at the
moments ``(m, v)`` of the score, for any minimiser (Chen, Zhu, Chen & Chen 2015, eqs 10-16 for the hinge,
24-26 for the ε-insensitive and 31-35 for the logistic loss). With ``c`` the loss weight ``C`` times the row weight:

====================  ==========================================  =====================================
loss                  auxiliary variable at the fit                ``omega``
====================  ==========================================  =====================================
hinge                 ``λ ~ GIG(½, 1, ¼c²(ζ² + v))``              ``¼c² E 1/λ = c / (2√(ζ² + v))``
ε-insensitive         two, with ``ζ = ±(y − m) − ε``              the sum of both
quantile              ``λ ~ GIG(½, 1, ¼c²((y − m)² + v))``        ``¼c² E 1/λ``
logistic              ``λ ~ PG(c, √(m² + v))``                    ``E λ``
squared               none                                        ``c``
====================  ==========================================  =====================================

Each row is then a normal observation ``exp(κ s − ½ ω s²)`` of precision ``ω``, to which the M-step fits the weights.
For a loss with a kink the precision is largest for scores on the kink with little noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._typing import Bool, Float, Int, Num, PerRow
from ...losses.protocols import Augmented
from ..objective.energy import Energy
from .state import SolverState

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Auxiliary", "auxiliary_at", "first_problem"]

# ½(1 − 2/√5): pull of a row whose score is two standard deviations of the noise from the kink, as a share of ``c``.
_SUPPORT = 0.5 * (1 - 2 / 5**0.5)


@dataclass(frozen=True)
class Auxiliary:
    """Expected auxiliary variables of the rows at a fit; every array is (n,), or (n, K) for K problems.

    Attributes
    ----------
    loss : Loss
        Loss in its augmentation form.
    target : array (n,)
        Labels as −1 and +1, or numbers.
    mean, var : array (n,)
        Moments of the scores under the noise, offset included; the variance includes any remaining smoothing of a
        kink.
    weight : array (n,)
        ``C`` times the row weight.
    row : int array (n,)
        Number of each row in the data; rows of weight zero are left out.
    pull : array (n,), optional
        Dual variables, if the fit solved the dual.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> found = bd.fit(bd.Model(bd.Hinge()), [[2.0], [1.0], [-1.0]], [1, 1, 0]).auxiliary
    >>> bool(np.allclose(found.omega, 0.5 / np.sqrt((1 - found.target * found.mean) ** 2 + found.var)))
    True
    """

    loss: Augmented
    target: Num[np.ndarray, "*rows"]
    mean: Float[np.ndarray, "*rows"]
    var: Float[np.ndarray, "*rows"]
    weight: Float[np.ndarray, "*rows"]
    row: Int[np.ndarray, " n"]
    pull: Float[np.ndarray, "*rows"] | None = None

    @property
    def omega(self) -> Float[np.ndarray, "*rows"]:
        """Expected precision ``ω`` of the pseudo-observation."""
        return np.asarray(self.loss.pseudo(self.target, self.mean, self.var, self.weight).omega)

    @property
    def kappa(self) -> Float[np.ndarray, "*rows"]:
        """Expected ``κ``; the pseudo-observation is ``κ/ω``."""
        return np.asarray(self.loss.pseudo(self.target, self.mean, self.var, self.weight).kappa)

    @property
    def dual(self) -> Float[np.ndarray, "*rows"]:
        """Pull ``−c ∂φ/∂m = κ − ωm`` at the score; without noise ``Pw = Xᵀ dual``, as in a support vector machine.

        The score of a row on a kink does not determine its pull; without noise the solution of the dual does.
        """
        if self.pull is not None:
            return self.pull
        pseudo = self.loss.pseudo(self.target, self.mean, self.var, self.weight)
        return np.asarray(pseudo.kappa - pseudo.omega * self.mean)

    @property
    def support(self) -> Bool[np.ndarray, "*rows"]:
        """Whether the row's score is beyond a kink, or less than two standard deviations of the noise from it.

        Such a row has a pull of at least a twentieth of ``c``. Without noise these are the support vectors, except rows
        on the kink with a smaller pull. For a quantile loss, whose slopes are nowhere zero, all rows count.

        Raises
        ------
        ValueError
            If the loss has no kink, so that every row pulls.
        """
        if not self.loss.piecewise_linear:
            raise ValueError(
                f"support: every row pulls under {self.loss!r}, which has no kink; support vectors are those of "
                "bd.Hinge() and bd.EpsilonInsensitive(). Look at omega and dual."
            )
        pull = np.abs(self.dual)
        # Compare with the slope of the steeper side, which for a check loss is below one.
        slopes = [
            np.abs(self.loss.plain_value_and_slope(self.target, self.mean + distance)[1])
            for distance in (-1e300, 1e300)
        ]
        return np.asarray(pull > _SUPPORT * self.weight * np.maximum(*slopes))

    def to_dataset(self) -> xr.Dataset:
        """``omega``, ``kappa``, ``dual``, ``mean`` and ``variance`` on the dim ``obs_id`` (and ``problem``)."""
        import xarray as xr

        dims = ("obs_id", "problem")[: self.mean.ndim]
        parts = {"omega": self.omega, "kappa": self.kappa, "dual": self.dual, "mean": self.mean, "variance": self.var}
        if self.loss.piecewise_linear:
            parts["support"] = self.support
        return xr.Dataset({name: (dims, part) for name, part in parts.items()}, coords={"obs_id": self.row})


def auxiliary_at(energy: Energy, state: SolverState, tip: float = 1e-9) -> Auxiliary | None:
    """Auxiliary variables of K problems at a state of a minimiser.

    None for a loss without augmentation, and if the rows are outside this process.
    """
    loss: Any = energy.loss
    is_local = isinstance(state.mean, np.ndarray)
    if not (is_local and isinstance(loss, Augmented) and loss.augmented) or energy.plain_weight is not None:
        return None

    def block(rows: PerRow) -> PerRow:
        return np.broadcast_to(rows, state.mean.shape)

    mean, var = state.mean, block(state.var + state.smoothing**2)
    if loss.piecewise_linear:
        # A score on the kink without noise would have an infinite ω: set a minimum standard deviation, ``tip`` units of
        # the scores, at which the pull of such a row is half of its weight.
        var = np.maximum(var, (tip * energy.score_unit) ** 2)
    rows = np.arange(len(mean))
    pull = getattr(state.memory, "pull", None)
    return Auxiliary(loss, block(energy.target), energy.scores(mean), var, block(energy.weight), rows, pull)


def first_problem(auxiliary: Auxiliary | None, weight: PerRow) -> Auxiliary | None:
    """Auxiliary variables of the first of K problems; ``row`` counts all rows, also those of ``weight`` (n,) zero."""
    if auxiliary is None:
        return None
    numbers = np.flatnonzero(weight > 0)
    row = numbers if len(numbers) == len(auxiliary.mean) else auxiliary.row
    names = ("target", "mean", "var", "weight", "pull")
    blocks = {name: getattr(auxiliary, name) for name in names}
    first: dict[str, Any] = {name: None if block is None else block[:, 0] for name, block in blocks.items()}
    return replace(auxiliary, row=row, **first)
