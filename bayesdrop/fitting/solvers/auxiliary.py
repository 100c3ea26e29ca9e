r"""The E-step at a fit: the expected auxiliary variable of each row, and its influence on the weights.

At the optimum of the augmentation bound the best law of a row's auxiliary variable is its conditional at the moments
``(m, v)`` of the score, whichever minimiser found them (Chen, Zhu, Chen & Chen 2015, eqs 10-16 for the hinge,
24-26 for the ε-insensitive and 31-35 for the logistic loss). With ``c`` the loss weight ``C`` times the row weight:

====================  ==========================================  =====================================
loss                  its auxiliary variable at the fit            ``omega``
====================  ==========================================  =====================================
hinge                 ``λ ~ GIG(½, 1, ¼c²(ζ² + v))``              ``¼c² E 1/λ = c / (2√(ζ² + v))``
ε-insensitive         two such, of ``±(y − m) − ε``               the sum of both
quantile              ``λ ~ GIG(½, 1, ¼c²((y − m)² + v))``        ``¼c² E 1/λ``
logistic              ``λ ~ PG(c, √(m² + v))``                    ``E λ``
squared               none                                        ``c``
====================  ==========================================  =====================================

Each row is then a normal observation ``exp(κ s − ½ ω s²)``, to which the M-step fits the weights: it listens to a row
as its precision ``ω`` says, which for a loss with a kink is largest where the score lies on it and the noise is small.
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

# ½(1 − 2/√5): the pull of a score that is two standard deviations of its noise short of the kink.
_SUPPORT = 0.5 * (1 - 2 / 5**0.5)


@dataclass(frozen=True)
class Auxiliary:
    """Expected auxiliary variables of the rows at a fit; every array is (n,), or (n, K) for K problems.

    Attributes
    ----------
    loss : Loss
        In its augmentation form.
    target : array (n,)
        Labels as −1 and +1, or numbers.
    mean, var : array (n,)
        Moments of the scores under the noise, offset included; the variance with what is left of the smoothing of a
        kink.
    weight : array (n,)
        ``C`` times the row weight.
    row : int array (n,)
        Number of each row among those that were given: rows of weight zero are not data and are left out.
    pull : array (n,), optional
        Dual variables, of a fit that solved the dual.

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
        """Pull ``−c ∂φ/∂m = κ − ωm`` at the score; without noise ``Pw = Xᵀ dual``, as of a support vector machine.

        The score of a row on a kink does not determine its pull; a fit without noise solves the dual, and gives it.
        """
        if self.pull is not None:
            return self.pull
        pseudo = self.loss.pseudo(self.target, self.mean, self.var, self.weight)
        return np.asarray(pseudo.kappa - pseudo.omega * self.mean)

    @property
    def support(self) -> Bool[np.ndarray, "*rows"]:
        """Whether the row's score lies beyond a kink, or within two standard deviations of its noise of one.

        Such a row pulls with a twentieth of ``c`` at least. Without noise these are the support vectors, but for those
        on the kink that hardly pull. Under a quantile every row is one, whose slopes are nowhere zero.

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
        # The steeper of the two sides of a check loss has a slope below one.
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
    """Auxiliary variables of a block of problems at a state of its minimiser.

    None without augmentation, or if the rows are not in this process.
    """
    loss: Any = energy.loss
    is_local = isinstance(state.mean, np.ndarray)
    if not (is_local and isinstance(loss, Augmented) and loss.augmented) or energy.plain_weight is not None:
        return None

    def block(rows: PerRow) -> PerRow:
        return np.broadcast_to(rows, state.mean.shape)

    mean, var = state.mean, block(state.var + state.smoothing**2)
    if loss.piecewise_linear:
        # A row at the tip of a cone has neither a distance nor a variance: it is given so large a standard deviation,
        # and half of its weight is what it may pull.
        var = np.maximum(var, tip**2)
    rows = np.arange(len(mean))
    pull = getattr(state.memory, "pull", None)
    return Auxiliary(loss, block(energy.target), energy.scores(mean), var, block(energy.weight), rows, pull)


def first_problem(auxiliary: Auxiliary | None, weight: PerRow) -> Auxiliary | None:
    """The first of K problems, its rows numbered among all of which some have no ``weight`` (n,)."""
    if auxiliary is None:
        return None
    numbers = np.flatnonzero(weight > 0)
    row = numbers if len(numbers) == len(auxiliary.mean) else auxiliary.row
    names = ("target", "mean", "var", "weight", "pull")
    blocks = {name: getattr(auxiliary, name) for name in names}
    first: dict[str, Any] = {name: None if block is None else block[:, 0] for name, block in blocks.items()}
    return replace(auxiliary, row=row, **first)
