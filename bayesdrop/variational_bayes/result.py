"""Hold the result of variational Bayes: means, intervals (too narrow), and draws for ArviZ."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from .._display import Shown
from .._typing import ArvizData, Float, PerRow, Shaped
from .._validation import check_count, check_seed, takes_seed
from ..data.column_facts import ColumnFacts
from ..description import attributes
from ..fitting.objective.centring import moved
from ..fitting.results.result import RatePosterior, centred_columns
from ..noise.base import centre_of
from ..posterior.arviz_groups.builder import build_groups, provenance
from ..posterior.arviz_groups.constants import model_constants, model_coords, observed_group
from ..posterior.arviz_groups.groups import assemble

if TYPE_CHECKING:
    from ..model import Model
    from ..rates import RateMap

__all__ = ["AscentStatus", "Variational", "caveat"]


def caveat(has_masks: bool) -> str:
    """How a mean field differs from the posterior, for a warning."""
    shrunk = (
        " Weights of features that may be dropped are shrunk towards 0, to 0.4 to 0.9 of their posterior means: by "
        "more posterior standard deviations the more rows there are and the higher the rates, up to six."
    )
    return (
        "intervals of weights and rates from a mean field are too narrow: on the breast-cancer data the standard "
        "deviations of weights are about half, and those of rates a twentieth, of the posterior's."
        f"{shrunk * has_masks} Take bd.sample for intervals and effects; silence this by "
        'warnings.simplefilter("ignore", bayesdrop.NarrowIntervalsWarning).'
    )


class AscentStatus(Enum):
    """How the ascent ended; the value says what to do."""

    CONVERGED = "Converged: the relative rise of the evidence lower bound is below tol."
    MAX_ITERATIONS = (
        "Stopped at max_iter before the tolerance was met: raise max_iter, loosen tol, or standardise the features."
    )


@dataclass(frozen=True)
class Variational(Shown):
    """Mean-field approximation of the posterior of weights and dropout rates.

    Attributes
    ----------
    weight_mean, weight_sd : array (p,)
        Mean and standard deviation of the weights. Standard deviations are too small, and means of features that may
        be dropped are shrunk towards 0: :class:`bayesdrop.NarrowIntervalsWarning`.
    intercept_mean, intercept_sd : float
        Mean and standard deviation of the intercept; 0 without one.
    covariance : array (p + 1, p + 1) or None
        Covariance of the weights and, last, the intercept; None if it was taken as diagonal.
    rate_posterior : RatePosterior or None
        Distribution of each free rate, averaged over weights and masks (``bd.fit`` conditions on the weights); None if
        the rates are fixed.
    rates : array (p,)
        Mean dropout rate of each feature.
    elbo_trace : array
        Evidence lower bound along the best start, in natural logarithms; it never falls.
    elbos : array (n_init,)
        Evidence lower bound at the end of each start. All but the best stopped at 100 times the tolerance.
    status : AscentStatus
        How the ascent ended; ``status.value`` says what to do.
    n_iter : int
        Rounds of updates of the best start.
    feature_names, classes, model
        Names, labels and model of the fit.
    y : array (n,) or (n, 2)
        Labels as −1 and +1, numbers, or successes and failures, of the rows of weight above 0.
    row_weight : array (n,)
        Weights of these rows.
    rate_map : RateMap
        Features mapped to free rates.
    original_model : Model
        The model in the original columns, with the centre of its noise and the scales of its prior as numbers.
    inner_intercept_sd : float
        Standard deviation of the intercept for ``X − c``, where ``c`` is the centre.
    offset : array (n,) or None
        Known parts of the scores of the rows of weight above 0.
    facts : ColumnFacts
        Formula and naming of the columns, for reading new rows.

    See Also
    --------
    variational

    Examples
    --------
    >>> import warnings
    >>> import bayesdrop as bd
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", bd.NarrowIntervalsWarning)
    ...     found = bd.variational(bd.Model(), [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [0, 1, 1, 0])
    >>> found.weight_mean.shape
    (2,)
    """

    weight_mean: Float[np.ndarray, " p"]
    weight_sd: Float[np.ndarray, " p"]
    intercept_mean: float
    intercept_sd: float
    covariance: Float[np.ndarray, "p_and_1 p_and_1"] | None
    rate_posterior: RatePosterior | None
    rates: Float[np.ndarray, " p"]
    elbo_trace: Float[np.ndarray, " n_iter"]
    elbos: Float[np.ndarray, " n_init"]
    status: AscentStatus
    n_iter: int
    feature_names: list[str]
    classes: Shaped[np.ndarray, " 2"] | None
    model: Model
    y: PerRow
    row_weight: PerRow
    rate_map: RateMap
    original_model: Model
    inner_intercept_sd: float
    offset: Float[np.ndarray, " n"] | None = None
    facts: ColumnFacts = field(default_factory=ColumnFacts)

    @property
    def centre(self) -> Float[np.ndarray, " p"] | None:
        """Centre of the noise, (p,); None if it is 0 for all columns."""
        return centre_of(self.original_model.noise)

    @property
    def elbo(self) -> float:
        """Evidence lower bound, the largest found."""
        return float(self.elbo_trace[-1])

    @takes_seed
    def to_arviz(self, draws: int = 1000, seed: Any = 0) -> ArvizData:
        """Independent draws from the approximation, as ArviZ groups like those of ``bd.sample``.

        There is one chain of independent draws. Its R-hat and effective sample sizes are meaningless: they measure
        mixing, not the distance between the approximation and the posterior. :func:`bayesdrop.groups.save` writes
        the groups to a netCDF file, without pickle, and :func:`bayesdrop.groups.load` reads them. Functions
        of a posterior of ``bd.sample``, such as ``bd.predict``, accept these draws too.

        Parameters
        ----------
        draws : int
            Number of draws.
        seed : int, numpy.random.Generator or RandomState
            Same seed, same draws.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            ``posterior`` with ``weight`` (chain, draw, feature), ``intercept`` (chain, draw) if the model has one and
            ``rate`` (chain, draw, feature or group) unless the rates are fixed; ``observed_data`` and
            ``constant_data`` as ``bd.sample`` has them. The attribute ``inference_method`` is ``"variational"``.

        Raises
        ------
        ValueError
            If ``draws`` is not a whole number of at least 1, or ``seed`` not one of at least 0.

        Examples
        --------
        >>> import warnings
        >>> import bayesdrop as bd
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", bd.NarrowIntervalsWarning)
        ...     result = bd.variational(bd.Model(), [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], feature_names=["age"])
        >>> tree = result.to_arviz(draws=100)
        >>> bd.groups.dataset(tree, "posterior")["rate"].shape
        (1, 100, 1)
        """
        draws, seed = check_count(draws, "draws", most=10**8), check_seed(seed)
        generator = np.random.default_rng(seed)
        weights = self._draw_weights(generator, draws)[None]
        values = {"weight": weights[..., :-1]}
        variables: dict[str, tuple[str, ...]] = {"weight": ("feature",)}
        if self.model.fit_intercept:
            values["intercept"], variables["intercept"] = weights[..., -1], ()
        rate = self.rate_posterior
        if rate is not None:
            values["rate"] = rate.law.sample(generator, draws)[None]
            variables["rate"] = (rate.dim,)
        groups = build_groups(
            values,
            variables=variables,
            coords=model_coords(self.rate_map, self.feature_names),
            observed=observed_group(self.y, self.classes, self.model.loss),
            constants=model_constants(
                self.original_model,
                self.rate_map,
                self.row_weight,
                lambda: None if rate is None else rate.occurrences,
                self.offset,
                self.y,
            ),
        )
        form = "diagonal" if self.covariance is None else "full"
        attrs = provenance(
            inference_method="variational",
            method=f"mean field, {form} covariance of the weights",
            target="noising",
            model=repr(self.model),
            seed=seed,
        )
        attrs |= attributes(self.original_model, self.classes, self.facts, self.feature_names)
        attrs |= {"covariance": form, "elbo": self.elbo, "status": self.status.name}
        if self.centre is not None:
            attrs["centred"] = centred_columns(self.centre)
        for group in groups.values():
            group.attrs.update(attrs)
        return assemble(groups, attrs)

    def _draw_weights(self, generator: np.random.Generator, draws: int) -> Float[np.ndarray, "draws p_and_1"]:
        """Weights and intercept, (draws, p + 1)."""
        mean = np.append(self.weight_mean, self.intercept_mean)
        if self.covariance is None:
            # Weights and intercept are independent for X − c, but not for X.
            deviation = np.append(self.weight_sd, self.inner_intercept_sd)
            drawn = moved(mean, self.centre, 1.0) + generator.standard_normal((draws, len(mean))) * deviation
            return np.asarray(moved(drawn.T, self.centre, -1.0).T)
        deviation = np.append(self.weight_sd, self.intercept_sd)
        normal = generator.standard_normal((draws, len(deviation)))
        root = np.where(deviation > 0, deviation, 1.0)
        correlation = self.covariance / root[:, None] / root
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(mean + normal @ np.linalg.cholesky(correlation).T * deviation)

    def __str__(self) -> str:
        form = "diagonal" if self.covariance is None else "full"
        lines = [
            f"Variational Bayes: {type(self.model.loss).__name__} loss, {len(self.feature_names)} features, "
            f"C = {self.model.C:g}, {form} covariance",
            f"{self.status.value} ({self.n_iter} iterations)",
            f"Evidence lower bound {self.elbo:.6g}, best of {len(self.elbos)} starts, from {np.min(self.elbos):.6g}",
        ]
        if self.centre is not None:
            lines.append(centred_columns(self.centre))
        rate = self.rate_posterior
        if rate is not None:
            low, high = rate.interval(0.9)
            order = np.argsort(rate.mean, kind="stable")
            shown = order if len(order) <= 12 else np.concatenate([order[:6], order[-6:]])
            width = max(len("rate of"), *(len(rate.names[j]) for j in shown))
            lines.append(f"{'rate of':<{width}}    mean  90 % mean-field interval (too narrow)")
            rows = [f"{rate.names[j]:<{width}}  {rate.mean[j]:6.3f}  [{low[j]:.3f}, {high[j]:.3f}]" for j in shown]
            if len(shown) < len(order):
                rows.insert(6, f"… {len(order) - len(shown)} more …")
            lines += rows
            if rate.never_seen:
                lines.append(f"never seen, at their prior: {', '.join(rate.never_seen[:10])}")
        return "\n".join(lines)
