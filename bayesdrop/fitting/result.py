"""What a fit returns: plain arrays with names, a table, and files that load again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._atomic_files import write_netcdf
from .._typing import Float, Num
from .._validation import check_number
from ..priors.rate_prior import map_arrays

if TYPE_CHECKING:
    import xarray as xr

    from ..model import Model
    from .auxiliary import Auxiliary
    from .driver import Status
    from .tuning.selection import Selection

__all__ = ["PLUG_IN_CAVEAT", "Fit", "RatePosterior", "centred_columns"]

PLUG_IN_CAVEAT = (
    "The plug-in interval ignores the uncertainty of weights and masks and may be narrower or wider than the "
    "posterior's; bd.sample gives the posterior."
)


def centred_columns(centre: Float[np.ndarray, " p"]) -> str:
    """In how many columns a dropped entry does not become 0, in words.

    Examples
    --------
    >>> centred_columns(np.array([3.0, 0.0]))
    'noise about a centre in 1 of 2 columns, about 0 in the others'
    """
    moved, p = int(np.sum(centre != 0)), len(centre)
    rest = "" if moved == p else ", about 0 in the others"
    return f"noise about a centre in {'all ' if moved == p else f'{moved} of '}{p} columns{rest}"


@dataclass(frozen=True)
class RatePosterior:
    """Plug-in posterior of the dropout rates, the law of each given its counts of signs.

    It ignores the uncertainty of weights and masks, which it takes to be the fitted ones and their signs: it may be
    narrower or wider than the posterior that ``bd.sample`` draws from, and lie elsewhere.

    Attributes
    ----------
    law : UpdatedRateLaw of shape (k,) or (k, K)
        ``law.a`` and ``law.b`` are the shape parameters under a Beta prior.
    occurrences : array (k,) or (k, K)
        Weighted number of non-zero entries behind each rate; 0 means that the rate is the prior's.
    names : list of k str
        Features or groups.
    dim : str
        ``"feature"`` or ``"group"``.

    Examples
    --------
    >>> from bayesdrop.priors.beta_law import BetaLaw
    >>> RatePosterior(BetaLaw(np.array([3.0]), np.array([1.0])), np.array([2.0]), ["x0"], "feature").mean
    array([0.75])
    """

    law: Any
    occurrences: Num[np.ndarray, "*rates"]
    names: list[str]
    dim: str

    @property
    def mean(self) -> Float[np.ndarray, "*rates"]:
        """Posterior mean, (k,) or (k, K)."""
        return np.asarray(self.law.mean())

    @property
    def mode(self) -> Float[np.ndarray, "*rates"]:
        """Posterior mode, the learnt rate."""
        return np.asarray(self.law.mode())

    def interval(self, probability: float = 0.9) -> tuple[Float[np.ndarray, "*rates"], Float[np.ndarray, "*rates"]]:
        """Highest-density interval of the given probability: the shortest, which holds the learnt rate always.

        The rates are often learnt as 0 or 1 exactly, which an equal-tailed interval leaves out.

        Raises
        ------
        ValueError
            If ``probability`` is not in (0, 1).
        """
        check_number(probability, "probability", above=0, below=1)
        low, high = self.law.interval(probability)
        return low, high

    def take(self, chosen: Any) -> RatePosterior:
        """The rates of the given numbers, in their order.

        Examples
        --------
        >>> from bayesdrop.priors.beta_law import BetaLaw
        >>> law = BetaLaw(np.array([3.0, 1.0]), np.array([1.0, 2.0]))
        >>> both = RatePosterior(law, law.a + law.b - 2, ["a", "b"], "feature")
        >>> both.take([1]).names
        ['b']
        """
        return replace(
            self,
            law=map_arrays(lambda part: part[chosen], self.law),
            occurrences=self.occurrences[chosen],
            names=[self.names[j] for j in chosen],
        )

    def flat(self, classes: list[str]) -> RatePosterior:
        """The rates of all classes one after another, (K k,), each named with its class.

        Examples
        --------
        >>> from bayesdrop.priors.beta_law import BetaLaw
        >>> law = BetaLaw(np.array([[3.0, 1.0]]), np.array([[1.0, 2.0]]))
        >>> RatePosterior(law, law.a + law.b - 2, ["a"], "feature").flat(["red", "blue"]).names
        ['a (red)', 'a (blue)']
        """
        return replace(
            self,
            law=map_arrays(lambda part: part.T.ravel(), self.law),
            occurrences=self.occurrences.T.ravel(),
            names=[f"{name} ({label})" for label in classes for name in self.names],
        )

    @property
    def never_seen(self) -> list[str]:
        """Names whose features are all zero: their rate is the prior's."""
        empty = np.atleast_2d(np.asarray(self.occurrences).T).T.max(axis=1) == 0
        return [name for name, unseen in zip(self.names, empty, strict=True) if unseen]


@dataclass(frozen=True)
class Fit:
    """Fitted weights and rates.

    Attributes
    ----------
    weight : array (p,) or (K, p)
        Weights of the features, un-noised; of many classes, (K, p), which sum to zero over them where they share rates.
    intercept : float or array (K,)
        Intercept.
    rates : array (p,) or (K, p)
        Dropout rate of each feature, or of each class and feature under ``bd.Softmax(class_rates=True)``.
    rate_posterior : RatePosterior or None
        Plug-in posterior of the free rates; None if they are fixed.
    objective_trace : array (iterations,)
        Energy after each iteration. It may rise where the rates moved, never at fixed rates.
    status : Status
        How the fit ended; ``status.value`` says what to do.
    n_iter : int
        Iterations.
    feature_names, classes, model
        What was fitted.
    centre : array (p,) or None
        Where the noise is centred, the value that a dropped entry takes; None if it is 0 for all columns.
    selection : Selection or None
        What ``rates=bd.Tuned()`` chose and what it is worth; ``model`` has the choice.
    """

    weight: Float[np.ndarray, "*classes p"]
    intercept: float | Float[np.ndarray, " K"]
    rates: Float[np.ndarray, "*rates p"]
    rate_posterior: RatePosterior | None
    objective_trace: Float[np.ndarray, " iterations"]
    status: Status
    n_iter: int
    feature_names: list[str]
    classes: Any
    model: Model
    centre: Float[np.ndarray, " p"] | None = None
    selection: Selection | None = None
    _auxiliary: Auxiliary | None = field(default=None, repr=False, compare=False)

    @property
    def auxiliary(self) -> Auxiliary:
        """Expected auxiliary variable of each row at the optimum, found by EM or not; its ``omega`` is (n,).

        See :class:`bayesdrop.fitting.auxiliary.Auxiliary`; ``bd.plots.row_weights`` draws it.

        Raises
        ------
        ValueError
            If the loss was fitted in a form without auxiliary variables, or the rows lie on a cluster or on several
            devices.
        """
        if self._auxiliary is not None:
            return self._auxiliary
        loss = self.model.loss
        if loss.augmented:
            raise ValueError(
                "auxiliary: it is kept where the rows lie in this process, and these lie on a cluster or on devices; "
                "fit a part of the rows that fits into memory."
            )
        raise ValueError(
            f"auxiliary: {loss!r} was fitted without auxiliary variables, as its derivatives are all that the fit "
            'needed; take expectation="augmentation" of a loss that has it, such as bd.Logistic() or bd.Hinge().'
        )

    def to_dataset(self) -> xr.Dataset:
        """All but the model as an :class:`xarray.Dataset`, on ``feature``, ``group``, ``class`` and ``iteration``."""
        import xarray as xr

        classes = ("class",) * (self.weight.ndim - 1)
        data: dict[str, Any] = {
            "weight": ((*classes, "feature"), self.weight),
            "intercept": (classes, self.intercept),
            "rate": ((*classes[: self.rates.ndim - 1], "feature"), self.rates),
            "objective": ("iteration", self.objective_trace),
        }
        coords: dict[str, Any] = {"feature": self.feature_names}
        coords |= {dim: [str(label) for label in self.classes] for dim in classes}
        if self.centre is not None:
            data["centre"] = ("feature", self.centre)
        posterior = self.rate_posterior
        if posterior is not None:
            coords[posterior.dim] = posterior.names
            dims = (posterior.dim, *classes)[: posterior.occurrences.ndim]
            data |= {f"rate_{name}": (dims, value) for name, value in posterior.law.constants().items()}
            data["rate_occurrences"] = (dims, posterior.occurrences)
        attrs: dict[str, Any] = {
            "status": self.status.name,
            "advice": self.status.value,
            "n_iter": self.n_iter,
            "model": repr(self.model),
        }
        if self.classes is not None:
            attrs["classes"] = [str(label) for label in self.classes]
        return xr.Dataset(data, coords=coords, attrs=attrs)

    def save(self, path: Any) -> None:
        """Write :meth:`to_dataset` to a netCDF file, whole or not at all; read it with :func:`xarray.load_dataset`.

        Raises
        ------
        FileNotFoundError
            If the folder of ``path`` does not exist.
        IsADirectoryError
            If ``path`` is a folder.
        """
        write_netcdf(self.to_dataset(), path)

    def __str__(self) -> str:
        lines = [
            f"{type(self.model.loss).__name__} loss, {len(self.feature_names)} features, C = {self.model.C:g}",
            f"{self.status.value} ({self.n_iter} iterations, energy {self.objective_trace[-1]:.6g})",
        ]
        if self.centre is not None:
            lines.append(centred_columns(self.centre))
        posterior = self.rate_posterior
        if posterior is not None:
            if posterior.occurrences.ndim > 1:
                posterior = posterior.flat([str(label) for label in self.classes])
            order = np.argsort(posterior.mode, kind="stable")
            shown = order if len(order) <= 12 else np.concatenate([order[:6], order[-6:]])
            part = posterior.take(shown)
            width = max(len("rate of"), *(len(name) for name in part.names))
            lines.append(f"{'rate of':<{width}}  learnt  90 % plug-in interval")
            ends = zip(part.names, part.mode, *part.interval(0.9), strict=True)
            rows = [f"{name:<{width}}  {mode:6.3f}  [{low:.3f}, {high:.3f}]" for name, mode, low, high in ends]
            if len(shown) < len(order):
                rows.insert(6, f"… {len(order) - len(shown)} more …")
            lines += [*rows, PLUG_IN_CAVEAT]
            if posterior.never_seen:
                lines.append(f"never seen, at their prior: {', '.join(posterior.never_seen[:10])}")
        return "\n".join(lines)
