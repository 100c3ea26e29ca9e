"""The table of weights: what each feature says, how far that is known, and how often it is dropped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._typing import DataFrame, Float, Int
from .._validation import check_choice, check_instance, check_number
from ..fitting.results.laplace import why_no_covariance
from ..fitting.results.result import Fit
from ..fitting.results.saved import feature_gain, rows_of
from ..posterior.draws.draws import Draws, blocks, read_draws, read_group
from .contrasts import Contrasts, contrasts_of
from .sources import point_fits

__all__ = ["LAPLACE", "interval_of", "read_posterior", "weights_table"]

LAPLACE = "Laplace approximation"

Columns = dict[str, Any]  # each an array like the weights, (p,) or (K, p)


def weights_table(
    result: Any,
    *,
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
        the two classes of the odds. If the point fit has no intervals, because it has noise for example, a column
        ``interval`` says what to do instead. ``attrs`` describe the intervals, with the number of draws, or say why
        there are none: ``"weight_interval"``, ``"rate_interval"`` and ``"probability"``. If not every draw was kept
        (``variables`` of ``bd.sample``), means and ``sd`` of weights are those of all draws and quantiles those of the
        thinned draws. With more than two classes, fitted one against the rest, each class has its rows.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has another type, or ``probability`` is not in (0, 1).

    See Also
    --------
    marginal_effects, bayesdrop.plots.weights_forest

    Notes
    -----
    Intervals of a point fit without noise are those of Laplace's approximation, ``ŵ ± z √diag(H⁻¹)`` with the Hessian
    ``H`` of the energy, row weights of the fit included; they approximate posterior intervals only if the loss is a
    negative log-likelihood. Intervals of a posterior are quantiles of its draws. A fit with noise minimises an expected
    loss, which shrinks the weights, so that 90 % intervals around them would contain only 64 % of the true weights (in
    simulations with known rates of 0.3 and 0.5), and its learnt rates come from a rule; use the posterior for the
    uncertainty of both. The plug-in posterior of the rule is ``fit.rate_posterior``.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> table = weights_table(bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, y))
    >>> list(table)[:5], table.attrs["weight_interval"]
    (['weight', 'sd', 'low', 'high', 'scaled_weight'], 'Laplace approximation')
    >>> print(weights_table(bd.fit(bd.Model(), X, y))[["weight", "interval"]].round(2).head(2))
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
        shown = _contrasts(draws.facts.formula, contrasts, reference)
        columns, loss = _of_draws(draws, probability, shown), draws.model.loss
        names, known = draws.feature_names, draws.classes
        classes: Any = draws.classes if draws.weight.ndim > 2 else None
        if draws.weight.ndim > 2 and classes is None:
            classes = np.arange(draws.weight.shape[1])
        kind = rate_kind = interval_of(draws)
    else:
        first = fits[0].fit
        shown = _contrasts(first.formula, contrasts, reference)
        parts = [_of_fit(one.fit, probability, shown) for one in fits]
        columns = {name: np.concatenate([np.atleast_2d(part[name]) for part in parts]) for name in parts[0]}
        (reason, remedy), rate_kind = why_no_covariance(first), ""
        if reason:
            columns["interval"] = np.full(columns["weight"].shape, remedy, dtype=object)
        loss, names, known = first.model.loss, first.feature_names, first.classes
        classes = [one.label for one in fits] if len(fits) > 1 else first.classes if first.weight.ndim > 1 else None
        kind = f"none, for {reason}; {remedy}" if reason else LAPLACE
    ratio = loss.ratio
    if ratio:
        columns |= {f"{ratio}{part}": values for part, values in _ratios(columns).items()}
    single = ("weight", "sd", "low", "high", "interval", "scaled_weight")
    ratios = [f"{ratio}{part}" for part in ("", "_low", "_high", "_if_kept")] if ratio else []
    order = [name for name in (*single, *ratios, "rate", "rate_low", "rate_high") if name in columns]
    rows = rows_of(names if shown is None else shown.names, classes)
    frame = pd.DataFrame({name: np.ravel(columns[name]) for name in order}, index=rows)
    frame.attrs.update(weight_interval=kind, rate_interval=rate_kind, probability=probability)
    if ratio == "odds_ratio" and known is not None and classes is None and len(known) == 2:
        frame.columns.name = f"{known[1]} against {known[0]}"
    return frame


def _contrasts(formula: Any, contrasts: Any, reference: Any) -> Contrasts | None:
    return contrasts if isinstance(contrasts, Contrasts) else contrasts_of(formula, contrasts, reference)


def interval_of(draws: Draws) -> str:
    """What the intervals of a posterior are, in words."""
    return f"posterior, equal tails of {draws.size} draws"


def read_posterior(result: Any, thin: int | None = None) -> Draws:
    """Draws of a posterior, at most ``thin`` of each chain, or an error that says all that could have come."""
    try:
        posterior = read_group(result, "posterior", "result")
        return read_draws(result, None if thin is None else min(thin, posterior.sizes.get("draw", thin)))
    except TypeError:
        raise TypeError(
            "result: expected what bd.fit, bd.sample or bd.groups.load returned, or a fitted linear estimator, got "
            f"{type(result).__name__}."
        ) from None
    except ValueError as error:
        raise ValueError(f"result: {error}") from None


def _of_fit(fit: Fit, probability: float, shown: Contrasts | None) -> Columns:
    """Columns of a point fit, shaped like its weights, or with a column for each contrast."""
    weight = np.asarray(fit.weight, dtype=np.float64)
    gain, rates = feature_gain(fit), np.broadcast_to(fit.rates, weight.shape)
    columns = {
        "weight": _combined(weight, shown),
        "scaled_weight": _combined(gain * weight, shown),
        "rate": rates if shown is None else rates[..., shown.feature],
    }
    if fit.covariance is not None:
        covariance, p = fit.covariance, weight.shape[-1]
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
    flat = weight.reshape(math.prod(weight.shape[:-1]), weight.shape[-1])
    return np.asarray((shown.matrix @ flat.T).T).reshape(*weight.shape[:-1], shown.matrix.shape[0])


def _of_draws(draws: Draws, probability: float, shown: Contrasts | None) -> Columns:
    """Columns of a posterior, shaped like its weights or with a column for each contrast, some of them at a time."""
    size = draws.weight.shape[-1] if shown is None else len(shown.names)
    shape = (*draws.weight.shape[1:-1], size)
    ends = [(1 - probability) / 2, (1 + probability) / 2]
    names = ("weight", "sd", "low", "high", "kept_median", "scaled_weight", "scaled_low", "scaled_median")
    columns = {name: np.empty(shape) for name in (*names, "scaled_high", "rate", "rate_low", "rate_high")}
    noisy = False
    for part in blocks(size, draws.intercept.size):
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
