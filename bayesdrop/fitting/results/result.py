"""Hold the result of a fit: arrays with names, a table, and files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._display import Shown
from ..._netcdf import write_netcdf
from ..._typing import DataFrame, Float, Num
from ..._validation import check_number
from ...data.column_facts import ColumnFacts
from ...description import warn_of_formula
from ...model import check_model
from ...priors.rate_prior import BetaLaw
from .saved import fit_dataset, fit_fields, load_dataset

if TYPE_CHECKING:
    import xarray as xr

    import bayesdrop

    from ...data.formulas.encoder import FormulaEncoder
    from ...model import Model
    from ..solvers.auxiliary import Auxiliary
    from ..solvers.driver import Status
    from ..tuning.selection import Selection

__all__ = ["PLUG_IN_CAVEAT", "Fit", "RatePosterior", "centred_columns"]

PLUG_IN_CAVEAT = (
    "The plug-in interval takes the weights, and which entries were deleted, as known, and can lie far from the "
    "posterior's; bd.sample gives the posterior."
)


_SIGMA = {True: "residual standard deviation", False: "scale of the residuals"}


def centred_columns(centre: Float[np.ndarray, " p"]) -> str:
    """Text with the number of columns in which a dropped entry does not become 0.

    Examples
    --------
    >>> centred_columns(np.array([3.0, 0.0]))
    'noise about a centre in 1 of 2 columns, about 0 in the others'
    """
    moved, p = int(np.sum(centre != 0)), len(centre)
    others = "" if moved == p else ", about 0 in the others"
    return f"noise about a centre in {'all ' if moved == p else f'{moved} of '}{p} columns{others}"


@dataclass(frozen=True)
class RatePosterior:
    """Plug-in posterior of the dropout rates: the distribution of each rate given its counts of signs.

    It treats the weights as known, and may differ from the posterior of ``bd.sample`` in width and location.

    Attributes
    ----------
    law : BetaLaw of shape (k,) or (k, K)
        ``law.a`` and ``law.b`` are the shape parameters.
    occurrences : array (k,) or (k, K)
        Weighted number of non-zero entries for each rate; with 0 the rate has its prior.
    names : list of k str
        Features or groups.
    dim : str
        ``"feature"`` or ``"group"``.

    Examples
    --------
    >>> from bayesdrop.priors.rate_prior import BetaLaw
    >>> RatePosterior(BetaLaw(np.array([3.0]), np.array([1.0])), np.array([2.0]), ["x0"], "feature").mean
    array([0.75])
    """

    law: BetaLaw
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
        """Return the highest-density interval, which contains the learnt rate even if that is 0 or 1.

        Raises
        ------
        ValueError
            If ``probability`` is not in (0, 1).
        """
        probability = check_number(probability, "probability", above=0, below=1)
        low, high = self.law.interval(probability)
        return low, high

    def take(self, chosen: Any) -> RatePosterior:
        """Return the rates at some positions, in their order."""
        return replace(
            self,
            law=self.law.map(lambda part: part[chosen]),
            occurrences=self.occurrences[chosen],
            names=[self.names[j] for j in chosen],
        )

    @property
    def never_seen(self) -> list[str]:
        """Names whose features are all zero, so that their rate has its prior."""
        empty = np.atleast_2d(np.asarray(self.occurrences).T).T.max(axis=1) == 0
        return [name for name, unseen in zip(self.names, empty, strict=True) if unseen]


@dataclass(frozen=True, repr=False)
class Fit(Shown):
    """Fitted weights and rates.

    Attributes
    ----------
    weight : array (p,) or (K, p)
        Weights of the features, without noise; with ``bd.Softmax()`` (K, p), with a sum of zero over the classes.
    intercept : float or array (K,)
        Intercept.
    rates : array (p,)
        Dropout rate of each feature.
    rate_posterior : RatePosterior or None
        Plug-in posterior of the free rates; None if they are fixed.
    objective_trace : array (iterations,)
        Energy after each iteration. It never rises at fixed rates; it may rise when the rates are updated.
    status : Status
        How the fit ended; ``status.value`` says what to do.
    n_iter : int
        Iterations.
    feature_names, classes, model
        Names of the columns, class labels, and model of the fit.
    centre : array (p,) or None
        Value that a dropped entry takes; None if it is 0 for all columns.
    selection : Selection or None
        The choice of ``rates=bd.Tuned()`` and its score; ``model`` has the chosen rates.
    offset : array (n,) or None
        Known part of the score of each row of the fit; if it is not None, new rows need offsets.
    facts : ColumnFacts
        Naming of the columns, first index of svmlight files and formula, for reading new rows.
    class_weight : dict or None
        Weight of each class; None if none were given.
    covariance : array (D, D) or None
        Covariance of the at most 1,000 weights of a fit without noise, by Laplace's approximation: for each class its
        features, and last its intercept.
    sigma : float or None
        For ``bd.Squared()`` the standard deviation of a response about its noised score, from the residuals and ``n``
        minus the effective degrees of freedom; for ``bd.Quantile(tau)`` the scale of the asymmetric Laplace
        distribution, the mean check loss. None if the loss has a known scale, or none, or there are more than 1,000
        weights. Intervals of new responses use it. A fitted dispersion is in ``model.loss``.
    solver : str
        Row of :data:`bayesdrop.fitting.solvers.choices.CHOICES` that was used, or the name of the method passed.

    See Also
    --------
    fit, weights_table

    Examples
    --------
    >>> import bayesdrop as bd
    >>> fit = bd.fit(bd.Model(), [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [0, 1, 1, 0])
    >>> fit.feature_names, fit.weight.shape, fit.status.name
    (['x0', 'x1'], (2,), 'CONVERGED')
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
    offset: Float[np.ndarray, " n"] | None = field(default=None, repr=False, compare=False)
    facts: ColumnFacts = field(default_factory=ColumnFacts, repr=False)
    class_weight: dict[Any, float] | None = None
    covariance: Float[np.ndarray, "D D"] | None = field(default=None, repr=False, compare=False)
    sigma: float | None = field(default=None, compare=False)
    solver: str = field(default="", compare=False)
    _auxiliary: Auxiliary | None = field(default=None, repr=False, compare=False)

    @property
    def formula(self) -> FormulaEncoder | None:
        """Encoder of tables by the formula of the fit, None without one; raise ValueError if it cannot be read."""
        return None if self.facts.formula is None else self.facts.formula.encoder

    @property
    def auxiliary(self) -> Auxiliary:
        """Expected auxiliary variable of each row at the optimum, for any minimiser; its ``omega`` is (n,).

        See :class:`bayesdrop.fitting.solvers.auxiliary.Auxiliary`; ``bd.plots.row_weights`` plots it.

        Raises
        ------
        ValueError
            If the form of the loss has no auxiliary variables, or the rows are on a cluster.
        """
        if self._auxiliary is not None:
            return self._auxiliary
        loss = self.model.loss
        if loss.augmented:
            raise ValueError(
                "auxiliary: it is kept where the rows lie in this process, and these lie on a cluster, or "
                "the fit was read from a file; fit a part of the rows that fits into memory."
            )
        raise ValueError(
            f"auxiliary: {loss!r} was fitted without auxiliary variables, as its derivatives are all that the fit "
            'needed; use expectation="augmentation" of a loss that has it, such as bd.Logistic() or bd.Hinge().'
        )

    def predict(
        self, X: Any, *, corrupted_inputs: bool = False, offset: Any = None, unseen: str | None = None
    ) -> bayesdrop.Prediction:
        """Predict new rows, averaged over their noise: ``bd.predict(fit, X)``.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            New rows; the columns of a data frame are matched by name, or encoded by the formula of the fit.
        corrupted_inputs : bool
            Whether the rows are corrupted already, so that the score is ``wᵀx + b``.
        offset : array (n,) or float, optional
            Known part of the score of each row, needed if the fit had one; with a formula it is read from the data
            frame.
        unseen : "error" or "population", optional
            Treatment of a level absent from the fit, as in :func:`bayesdrop.fit`; by default as chosen there.

        Returns
        -------
        Prediction
            Probabilities as in ``predict_proba`` of the estimators, means or expected counts; ``sd``, ``low`` and
            ``high`` are None, because a fit has no uncertainty of the weights.

        Examples
        --------
        >>> import bayesdrop as bd
        >>> fit = bd.fit(bd.Model(rates=bd.Fixed(0.2)), [[-1.0], [-2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> fit.predict([[-4.0], [5.0]]).label.tolist()
        ['no', 'yes']
        """
        # Predictions depend on draws, and draws on fits: import the public function when called.
        import bayesdrop

        return bayesdrop.predict(self, X, corrupted_inputs=corrupted_inputs, offset=offset, unseen=unseen)

    def summary(self, *, probability: float = 0.9) -> DataFrame:
        """Weights and rates as a table, one row per fitted column, and per class if there are many.

        Each level of a factor has a row; ``bd.weights_table(fit)`` has their differences.

        Parameters
        ----------
        probability : float
            Probability content of the highest-density plug-in intervals of learnt rates, in (0, 1).

        Returns
        -------
        pandas.DataFrame
            ``weight``; ``scaled_weight``, the coefficient of the feature in the mean score, ``(1 − rate) · weight``
            under biased dropout; ``rate``; and, for learnt rates, ``rate_low`` and ``rate_high``.

        Raises
        ------
        ValueError
            If ``probability`` is not in (0, 1).

        Examples
        --------
        >>> import bayesdrop as bd
        >>> table = bd.fit(bd.Model(rates=bd.Fixed(0.5)), [[-1.0], [-2.0], [1.0], [3.0]], [0, 0, 1, 1]).summary()
        >>> bool(table.loc["x0", "scaled_weight"] == table.loc["x0", "weight"] / 2)
        True
        """
        from .saved import summary_frame

        return summary_frame(self, probability)

    def to_dataset(self) -> xr.Dataset:
        """The fit as an :class:`xarray.Dataset`, on ``feature``, ``group``, ``class`` and ``iteration``."""
        return fit_dataset(self)

    @classmethod
    def from_dataset(cls, data: xr.Dataset, *, model: Model | None = None) -> Fit:
        """The fit that :meth:`to_dataset` made; without the rows' ``auxiliary`` and the ``selection``.

        Parameters
        ----------
        data : xarray.Dataset
            The dataset.
        model : Model, optional
            As in :meth:`load`, for a dataset of a file.

        Raises
        ------
        ValueError
            If it is another dataset, or names a user-defined component that ``model`` lacks.
        """
        fields = fit_fields(data, None if model is None else check_model(model))
        rates = fields.pop("rate_posterior")
        return cls(**fields, rate_posterior=None if rates is None else RatePosterior(**rates))

    def save(self, path: Any) -> None:
        """Write :meth:`to_dataset` to a netCDF file, whole or not at all; read it with :meth:`load`.

        Raises
        ------
        FileNotFoundError
            If the folder of ``path`` does not exist.
        IsADirectoryError
            If ``path`` is a folder.

        Warns
        -----
        FormulaWarning
            If the formula of the fit has Python code, which no file stores.
        """
        data = self.to_dataset()
        warn_of_formula(data.attrs)
        write_netcdf({"/": data}, path)

    @classmethod
    def load(cls, path: Any, *, model: Model | None = None) -> Fit:
        """Read what :meth:`save` wrote; nothing in the file is run, now or by ``predict``.

        Parameters
        ----------
        path : path
            The file.
        model : Model, optional
            A model with the user-defined components of the fit, which no file stores; all settings and other components
            are read from the file. By default a file that names such a component raises an error.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file has no fit, or names a user-defined component that ``model`` lacks.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import bayesdrop as bd
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fit.nc"
        >>> bd.fit(bd.Model(C=0.5), [[-1.0], [-2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"]).save(path)
        >>> bd.Fit.load(path)
        <Fit: Logistic loss, 1 feature, C = 0.5, CONVERGED>
        """
        return cls.from_dataset(load_dataset(path), model=model)

    def __dir__(self) -> list[str]:
        """Return the names that a user needs, for completion."""
        hidden = {"facts", "from_dataset", "_auxiliary"}
        return [name for name in super().__dir__() if name not in hidden]

    def __repr__(self) -> str:
        count = len(self.feature_names)
        features = f"{count} feature{'s' * (count != 1)}"
        return f"<Fit: {type(self.model.loss).__name__} loss, {features}, C = {self.model.C:g}, {self.status.name}>"

    def __str__(self) -> str:
        lines = [
            f"{type(self.model.loss).__name__} loss, {len(self.feature_names)} features, C = {self.model.C:g}",
            f"{self.status.value} ({self.n_iter} iterations, energy {self.objective_trace[-1]:.6g})",
        ]
        lines += [] if self.centre is None else [centred_columns(self.centre)]
        lines += [] if self.sigma is None else [f"{_SIGMA[self.model.loss.quadratic]} {self.sigma:.4g}"]
        if isinstance(dispersion := getattr(self.model.loss, "dispersion", None), float):
            lines.append(f"dispersion {dispersion:.4g}")
        if (posterior := self.rate_posterior) is not None:
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
