"""The table of weights: what each feature says, how far that is known, and how often it is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._stored import by_label
from .._typing import DataFrame, Float, Int
from .._validation import check_choice, check_instance, check_number
from ..data.column_facts import response_in
from ..fitting.results.saved import feature_gain, rows_of
from ..posterior.arviz_groups.builder import SUMMARY, THINNED, not_kept
from ..posterior.arviz_groups.groups import dataset
from ..posterior.draws.draws import Draws, blocks, read_draws, read_group
from .contrasts import Contrasts, contrasts_of
from .laplace import laplace_covariance, why_no_covariance
from .sources import PointFit, point_fits

__all__ = ["LAPLACE", "POSTERIOR", "USE_SAMPLE", "no_interval", "read_posterior", "weights_table"]

LAPLACE, POSTERIOR = "Laplace approximation", "posterior, equal tails"
# What stands in the column ``interval`` where there is none.
USE_SAMPLE = "use bd.sample"

Columns = dict[str, Any]  # each an array like the weights, (p,) or (K, p)


def weights_table(
    result: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    probability: float | int = 0.9,
    contrasts: str | Contrasts | None = "reference",
    reference: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Tabulate weights with intervals, odds or rate ratios, and rates, one row for each feature (and class).

    Where a formula made a column for each level of a factor, the rows are differences between levels.

    Parameters
    ----------
    result : Fit, InferenceData or DataTree, or a fitted linear estimator
        What ``bd.fit`` or ``bd.sample`` returned, or an estimator such as ``bd.DropoutLogisticRegression()``.
    X, y : (n, p) and (n,), optional
        For intervals of a point fit without noise: the rows of that fit; with a formula its table, without ``y``. A
        posterior needs neither.
    sample_weight : array (n,), optional
        Row weights of that fit.
    probability : float, default=0.9
        Probability content of the intervals, in (0, 1).
    contrasts : "reference", "mean" or None, default="reference"
        How the levels of a formula's factors are shown: as differences from one level, as differences from the mean of
        the levels, or (None) by the weight of each level, whose spread is mostly that of the prior. Or linear
        combinations of the weights, :class:`bayesdrop.effects.contrasts.Contrasts`.
    reference : mapping from column to level, optional
        Reference level of each factor; by default the first.

    Returns
    -------
    pandas.DataFrame
        ``weight`` (for a posterior the mean), ``sd``, ``low`` and ``high``; ``scaled_weight``, the coefficient of the
        feature in the mean score, ``(1 − rate) · weight`` under biased dropout; for a logistic loss ``odds_ratio``, the
        factor by which one unit changes the odds at the mean score under the noise, ``exp(scaled_weight)`` (for a
        posterior the median), with ``odds_ratio_low`` and ``odds_ratio_high``, and with noise ``odds_ratio_if_kept``,
        ``exp(weight)``, for a feature that is not dropped; for counts ``rate_ratio`` and ``rate_ratio_if_kept`` of the
        expected count; ``rate`` (for a posterior the mean, with ``rate_low`` and ``rate_high``). ``columns.name`` names
        the two classes of the odds. If ``X`` and ``y`` are given and the point fit has no intervals, because it has
        noise for example, a column ``interval`` says "use bd.sample" instead. ``attrs`` describe the intervals, or say
        why there are none: ``"weight_interval"``, ``"rate_interval"`` and ``"probability"``. If not every draw was kept
        (``variables`` of ``bd.sample``), means and ``sd`` of weights are those of all draws and quantiles those of the
        thinned draws, as the attributes say. With more than two classes, fitted one against the rest, each class has
        its rows.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has another type, the rows are not those of the fit, or ``probability`` is not in (0, 1).

    See Also
    --------
    marginal_effects, bayesdrop.plots.weights_forest

    Notes
    -----
    Intervals of a point fit without noise are those of Laplace's approximation, ``ŵ ± z √diag(H⁻¹)`` with the Hessian
    ``H`` of the energy; they approximate posterior intervals only if the loss is a negative log-likelihood. Intervals
    of a posterior are quantiles of its draws. A fit with noise minimises an expected loss, which shrinks the weights,
    so that 90 % intervals around them would contain only 64 % of the true weights (in simulations with known rates of
    0.3 and 0.5), and its learnt rates come from a rule; use the posterior for the uncertainty of both. The plug-in
    posterior of the rule is ``fit.rate_posterior``.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> table = weights_table(bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, y), X, y)
    >>> list(table)[:5], table.attrs["weight_interval"]
    (['weight', 'sd', 'low', 'high', 'scaled_weight'], 'Laplace approximation')
    >>> print(weights_table(bd.fit(bd.Model(), X, y), X, y)[["weight", "interval"]].round(2).head(2))
    1 against 0  weight       interval
    feature
    x0            -0.09  use bd.sample
    x1            -0.12  use bd.sample
    """
    import pandas as pd

    probability = check_number(probability, "probability", above=0, below=1, advice="0.9, say")
    fits = point_fits(result)
    check_instance(reference, "reference", Mapping, "a mapping from column to level", none=True)
    if not isinstance(contrasts, Contrasts):
        check_choice(contrasts, "contrasts", ("reference", "mean", None))
    if fits is None:
        draws = read_posterior(result)
        if X is not None or y is not None:
            raise ValueError("X: a posterior has the intervals in its draws; leave X and y out.")
        shown = _contrasts(draws.facts.formula, contrasts, reference)
        columns, loss = _of_draws(draws, probability, shown), draws.model.loss
        names, known = draws.feature_names, draws.classes
        classes: Any = draws.classes if draws.weight.ndim > 2 else None
        if draws.weight.ndim > 2 and classes is None:
            classes = np.arange(draws.weight.shape[1])
        columns, few = _with_summaries(result, draws, columns, shown)
        kinds = {"weight_interval": POSTERIOR + few, "rate_interval": POSTERIOR + few}
    else:
        first = fits[0].fit
        y = response_in(X, first.feature_names, first.facts, y)
        given, shown = given_rows(X, y), _contrasts(first.formula, contrasts, reference)
        reason = next(filter(None, (why_no_covariance(one.fit) for one in fits)), "") if given else ""
        parts = [_of_fit(one, X, y, sample_weight, probability, given and not reason, shown) for one in fits]
        columns = {name: np.concatenate([np.atleast_2d(part[name]) for part in parts]) for name in parts[0]}
        if reason:
            columns["interval"] = np.full(columns["weight"].shape, USE_SAMPLE, dtype=object)
        loss, names, known = first.model.loss, first.feature_names, first.classes
        classes = [one.label for one in fits] if len(fits) > 1 else first.classes if first.weight.ndim > 1 else None
        kinds = {"weight_interval": no_interval(reason) if reason else LAPLACE if given else "", "rate_interval": ""}
    ratio = loss.ratio
    if ratio:
        columns |= {f"{ratio}{part}": values for part, values in _ratios(columns).items()}
    single = ("weight", "sd", "low", "high", "interval", "scaled_weight")
    ratios = [f"{ratio}{part}" for part in ("", "_low", "_high", "_if_kept")] if ratio else []
    order = [name for name in (*single, *ratios, "rate", "rate_low", "rate_high") if name in columns]
    rows = rows_of(names if shown is None else shown.names, classes)
    frame = pd.DataFrame({name: np.ravel(columns[name]) for name in order}, index=rows)
    frame.attrs.update(kinds, probability=probability)
    if ratio == "odds_ratio" and known is not None and classes is None and len(known) == 2:
        frame.columns.name = f"{known[1]} against {known[0]}"
    return frame


def _contrasts(formula: Any, contrasts: Any, reference: Any) -> Contrasts | None:
    return contrasts if isinstance(contrasts, Contrasts) else contrasts_of(formula, contrasts, reference)


def no_interval(reason: str) -> str:
    """What ``attrs`` say of intervals that there are not, and why."""
    return f"none, for {reason}; {USE_SAMPLE}"


def given_rows(X: Any, y: Any) -> bool:
    """True if the rows of a fit were given; raise ValueError if one of ``X`` and ``y`` is missing."""
    if (X is None) != (y is None):
        missing = "y" if y is None else "X"
        raise ValueError(f"{missing}: expected both X and y of the rows that were fitted, or neither, got one of them.")
    return X is not None


def read_posterior(result: Any, thin: int | None = None) -> Draws:
    """Draws of a posterior, at most ``thin`` of each chain, or an error that says all that could have come."""
    try:
        posterior = read_group(result, "posterior", "result")
        if not_kept(result):
            posterior = dataset(result, THINNED)
        return read_draws(result, None if thin is None else min(thin, posterior.sizes.get("draw", thin)), few=True)
    except TypeError:
        raise TypeError(
            "result: expected what bd.fit, bd.sample or bd.groups.load returned, or a fitted linear estimator, got "
            f"{type(result).__name__}."
        ) from None
    except ValueError as error:
        raise ValueError(f"result: {error}") from None


def _of_fit(
    one: PointFit, X: Any, y: Any, sample_weight: Any, probability: float, given: bool, shown: Contrasts | None
) -> Columns:
    """Columns of a point fit, shaped like its weights, or with a column for each contrast."""
    fit, weight = one.fit, np.asarray(one.fit.weight, dtype=np.float64)
    gain, rates = feature_gain(fit), np.broadcast_to(fit.rates, weight.shape)
    columns = {
        "weight": _combined(weight, shown),
        "scaled_weight": _combined(gain * weight, shown),
        "rate": rates if shown is None else rates[..., shown.feature],
    }
    if given:
        own_y, own_weight = one.rows(X, y, sample_weight)
        covariance, p = laplace_covariance(fit, X, own_y, own_weight), weight.shape[-1]
        inner = [covariance[start : start + p, start : start + p] for start in range(0, len(covariance), p + 1)]
        if shown is not None:
            inner = [_combined(_combined(part, shown).T, shown) for part in inner]
        variance = np.stack([np.diagonal(part) for part in inner]).reshape(columns["weight"].shape)
        sd = np.sqrt(np.maximum(variance, 0))
        reach = ndtri((1 + probability) / 2) * sd
        columns |= {"sd": sd, "low": columns["weight"] - reach, "high": columns["weight"] + reach}
        # Without noise, or there are no intervals: the weights are what they are scaled to.
        columns |= {"scaled_low": columns["low"], "scaled_high": columns["high"]}
    columns["scaled_median"] = columns["scaled_weight"]
    if np.any(gain != 1):
        columns["kept_median"] = columns["weight"]
    return columns


def _combined(weight: Float[np.ndarray, "... p"], shown: Contrasts | None) -> Float[np.ndarray, "... r"]:
    """Contrasts of weights along the last axis."""
    if shown is None:
        return weight
    flat = weight.reshape(-1, weight.shape[-1])
    return np.asarray((shown.matrix @ flat.T).T).reshape(*weight.shape[:-1], -1)


def _of_draws(draws: Draws, probability: float, shown: Contrasts | None) -> Columns:
    """Columns of a posterior, shaped like its weights or with a column for each contrast, some of them at a time."""
    size = draws.weight.shape[-1] if shown is None else len(shown.names)
    shape = (*draws.weight.shape[1:-1], size)
    ends = [(1 - probability) / 2, (1 + probability) / 2]
    names = ("weight", "sd", "low", "high", "kept_median", "scaled_weight", "scaled_low", "scaled_median")
    columns = {name: np.empty(shape) for name in (*names, "scaled_high", "rate", "rate_low", "rate_high")}
    noisy = False
    for part in blocks(size, draws.weight[..., 0].size):
        if shown is None:
            features, matrix = np.arange(part.start, part.stop), None
        else:
            features = np.unique(np.concatenate([shown.matrix[part].indices, shown.feature[part]]))
            matrix = shown._replace(matrix=shown.matrix[part][:, features])
        weight, rate = draws.weight[..., features].astype(np.float64), _rates(draws, features)
        gain = draws.model.noise.coefficients(rate).gain
        gain = gain if gain.ndim == weight.ndim else gain[:, None]
        noisy |= bool(np.any(gain != 1))
        plain, scaled = _combined(weight, matrix), _combined(gain * weight, matrix)
        columns["weight"][..., part], columns["sd"][..., part] = plain.mean(axis=0), plain.std(axis=0)
        columns["scaled_weight"][..., part] = scaled.mean(axis=0)
        for values, kinds in (
            (plain, ("low", "kept_median", "high")),
            (scaled, ("scaled_low", "scaled_median", "scaled_high")),
        ):
            for name, quantile in zip(kinds, np.quantile(values, [ends[0], 0.5, ends[1]], axis=0), strict=True):
                columns[name][..., part] = quantile
        if shown is not None:
            rate = rate[..., np.searchsorted(features, shown.feature[part])]
        columns["rate"][..., part] = rate.mean(axis=0)
        columns["rate_low"][..., part], columns["rate_high"][..., part] = np.quantile(rate, ends, axis=0)
    if draws.fixed_rate is not None:
        del columns["rate_low"], columns["rate_high"]
    if not noisy:
        del columns["kept_median"]
    return columns


def _with_summaries(result: Any, draws: Draws, columns: Columns, shown: Contrasts | None) -> tuple[Columns, str]:
    """Means and spreads from all draws, where single ones were not kept, and what to say of the quantiles then."""
    names = not_kept(result)
    if not {"weight", "rate"} & set(names):
        return columns, ""
    rate_map = draws.model.bind(draws.feature_names)
    summary = by_label(dataset(result, SUMMARY), "feature", draws.feature_names)
    if "weight" in names and shown is None:
        known = summary["weight"].transpose("statistic", ..., "feature")
        columns |= {"weight": known.sel(statistic="mean").values, "sd": known.sel(statistic="sd").values}
    if "rate" in names:
        index = draws.index if shown is None else draws.index[shown.feature]
        rate = by_label(summary["rate"], rate_map.dim, rate_map.names)
        columns |= {"rate": rate.sel(statistic="mean").values[..., index]}
    return columns, f" of {draws.size} draws"


def _rates(draws: Draws, own: Int[np.ndarray, " m"]) -> Float[np.ndarray, "S ..."]:
    """Rates of some features, (S, ..., m), float64."""
    if draws.fixed_rate is not None:
        rate = draws.fixed_rate[..., own]
        return np.broadcast_to(rate, (draws.size, *rate.shape))
    return draws.rate_of(slice(None), draws.index[own])


def _ratios(columns: Columns) -> Columns:
    """Ratios of odds or of expected counts, by what they are called after the first words."""
    sources = {"": "scaled_median", "_low": "scaled_low", "_high": "scaled_high", "_if_kept": "kept_median"}
    with np.errstate(over="ignore"):  # beyond double precision it is infinite
        return {part: np.exp(columns[name]) for part, name in sources.items() if name in columns}
