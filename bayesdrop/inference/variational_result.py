"""What variational Bayes returns: means, intervals that are too narrow, and draws for ArviZ."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_count, check_seed
from ..centring import moved
from ..description import attributes
from ..groups import assemble
from ..noise.centre import centre_of
from ..responses import observed_group
from ..results import RatePosterior, centred_columns

if TYPE_CHECKING:
    from ..model import Model
    from ..rates import RateMap
    from .ascent import AscentStatus

__all__ = ["NarrowIntervalsWarning", "Variational"]

Array = Any


class NarrowIntervalsWarning(UserWarning):
    """Intervals of a mean field are too narrow: it takes weights, masks and rates as independent of each other.

    Measured on the standardised breast-cancer data (569 × 30, logistic loss, one rate per feature under a flat prior),
    standard deviations relative to those of ``bd.sample``: weights 0.45 (median; 0.29 to 0.67), rates 0.05 (0.02 to
    0.07). Intervals that claim 90 % hold 52 % of the posterior of a weight and 7 % of that of a rate. Means move too:
    the rates are ordered as in the posterior (correlation 0.92) but are pushed apart, by 0.23 on average. The width of
    a rate is that of as many known masks as the feature has entries, ``Beta(A + Σ(1 − ρ), B + Σρ)``, and no mask is
    known.

    ``bd.sample`` has intervals to report. Where the order of the features is all that is wanted, silence the warning
    by ``warnings.simplefilter("ignore", NarrowIntervalsWarning)``, imported from ``bayesdrop.inference``.
    """


@dataclass(frozen=True)
class Variational:
    """Mean-field approximation of the posterior of weights and dropout rates.

    Attributes
    ----------
    weight_mean, weight_sd : array (p,)
        Mean and standard deviation of the weights; the latter is too small, see :class:`NarrowIntervalsWarning`.
    intercept_mean, intercept_sd : float
        The same of the intercept; 0 without one.
    covariance : array (p + 1, p + 1) or None
        Covariance of the weights and, last, the intercept; None if it was taken as diagonal.
    rate_posterior : RatePosterior or None
        ``Beta(a, b)`` of each free rate, averaged over weights and masks, unlike that of ``bd.fit``; None if the rates
        are fixed.
    rates : array (p,)
        Mean dropout rate of each feature.
    elbo_trace : array
        Evidence lower bound along the best start, in natural logarithms; it never falls.
    elbos : array (starts,)
        Evidence lower bound that each start came to. All but the best stopped at 100 times the tolerance.
    status : AscentStatus
        How the ascent ended; ``status.value`` says what to do.
    n_iter : int
        Rounds of updates of the best start.
    feature_names, classes, model
        What was fitted.
    target, row_weight : array (n,)
        Labels as −1 and +1 or numbers, and weights, of the rows of weight above 0.
    rate_map : RateMap
        Features mapped to free rates.
    stated : Model
        The model with numbers for what it says of its columns: the centre of the noise, the scales of the prior.
    inner_intercept_sd : float
        Standard deviation of the intercept for ``X − c``, where ``c`` is the centre.
    """

    weight_mean: Array
    weight_sd: Array
    intercept_mean: float
    intercept_sd: float
    covariance: Array | None
    rate_posterior: RatePosterior | None
    rates: Array
    elbo_trace: Array
    elbos: Array
    status: AscentStatus
    n_iter: int
    feature_names: list[str]
    classes: Array | None
    model: Model
    target: Array
    row_weight: Array
    rate_map: RateMap
    stated: Model
    inner_intercept_sd: float

    @property
    def centre(self) -> Array | None:
        """Where the noise is centred, (p,); None if it is 0 for all columns."""
        return centre_of(self.stated.noise)

    @property
    def elbo(self) -> float:
        """Evidence lower bound, the largest found."""
        return float(self.elbo_trace[-1])

    def to_arviz(self, draws: int = 1000, seed: int = 0) -> Any:
        """Independent draws from the approximation, as ArviZ groups like those of ``bd.sample``.

        There is one chain of independent draws: R-hat and effective sample sizes of it are meaningless, for they see
        how draws mix and not how far the approximation is from the posterior. :func:`bayesdrop.groups.save` writes
        the groups to a netCDF file, without pickle, and :func:`bayesdrop.groups.load` reads them. What takes a
        posterior of ``bd.sample``, such as ``bd.predict``, takes these draws too.

        Parameters
        ----------
        draws : int
            Number of draws.
        seed : int
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
            If ``draws`` or ``seed`` is no whole number of at least 1 or 0.

        Examples
        --------
        >>> import warnings
        >>> import bayesdrop as bd
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", NarrowIntervalsWarning)
        ...     result = bd.variational(bd.Model(), [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1], feature_names=["age"])
        >>> tree = result.to_arviz(draws=100)
        >>> bd.groups.dataset(tree, "posterior")["rate"].shape
        (1, 100, 1)
        """
        import xarray as xr

        draws, seed = check_count(draws, "draws", most=10**8), check_seed(seed)
        generator = np.random.default_rng(seed)
        features = np.array(self.feature_names)
        steps = {"chain": np.arange(1), "draw": np.arange(draws)}
        coords: dict[str, Any] = {**steps, "feature": features}
        fixed_coords: dict[str, Any] = {"feature": features}
        constant: dict[str, Any] = {
            "weight_precision": ("feature", self.stated.weight_prior.precision(len(features))),
        }
        if self.centre is not None:
            constant["centre"] = ("feature", self.centre)
        drawn = self._draw_weights(generator, draws)
        posterior: dict[str, Any] = {"weight": (("chain", "draw", "feature"), drawn[None, :, :-1])}
        if self.model.fit_intercept:
            posterior["intercept"] = (("chain", "draw"), drawn[None, :, -1])
        rate = self.rate_posterior
        if rate is None:
            constant["fixed_rate"] = ("feature", self.rate_map.initial)
        else:
            coords[rate.dim] = fixed_coords[rate.dim] = np.array(rate.names)
            posterior["rate"] = (("chain", "draw", rate.dim), generator.beta(rate.a, rate.b, (1, draws, len(rate.a))))
            prior = self.rate_map.prior.concentrations(rate.occurrences)
            constant["rate_prior_a"], constant["rate_prior_b"] = ((rate.dim, part) for part in prior)
            if rate.dim == "group":
                constant["feature_group"] = ("feature", np.array(rate.names)[self.rate_map.index])
        if np.any(self.row_weight != 1):
            constant["row_weight"] = ("obs_id", self.row_weight)
            fixed_coords["obs_id"] = np.arange(len(self.target))
        groups = {
            "posterior": xr.Dataset(posterior, coords=coords),
            "observed_data": observed_group(self.target, self.classes, binary=self.model.loss.binary),
            "constant_data": xr.Dataset(constant, coords=fixed_coords),
        }
        attrs: dict[str, str | int | float] = {
            "inference_library": "bayesdrop",
            "inference_library_version": version("bayesdrop"),
            "inference_method": "variational",
            "target": "noising",
            "created_at": datetime.datetime.now(datetime.UTC).isoformat(),
            "model": repr(self.model),
            "covariance": "diagonal" if self.covariance is None else "full",
            "elbo": self.elbo,
            "status": self.status.name,
            "seed": seed,
            **attributes(self.stated, self.classes),
        }
        if self.centre is not None:
            attrs["centred"] = centred_columns(self.centre)
        for group in groups.values():
            group.attrs.update(attrs)
        return assemble(groups, attrs)

    def _draw_weights(self, generator: np.random.Generator, draws: int) -> Array:
        """Weights and intercept, (draws, p + 1)."""
        mean = np.append(self.weight_mean, self.intercept_mean)
        if self.covariance is None:
            # Weights and intercept are independent for X − c, and not for X.
            deviation = np.append(self.weight_sd, self.inner_intercept_sd)
            drawn = moved(mean, self.centre, 1.0) + generator.standard_normal((draws, len(mean))) * deviation
            return moved(drawn.T, self.centre, -1.0).T
        deviation = np.append(self.weight_sd, self.intercept_sd)
        normal = generator.standard_normal((draws, len(deviation)))
        root = np.where(deviation > 0, deviation, 1.0)
        correlation = self.covariance / root[:, None] / root
        np.fill_diagonal(correlation, 1.0)
        return mean + normal @ np.linalg.cholesky(correlation).T * deviation

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
