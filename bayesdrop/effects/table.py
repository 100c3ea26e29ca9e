"""Tabulate weights with intervals, ratios and dropout rates: ``bd.weights_table``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._typing import DataFrame, Float, Int
from .._validation import check_choice, check_instance, check_number, shown
from ..fitting.results.laplace import why_no_covariance
from ..fitting.results.result import Fit
from ..fitting.results.saved import feature_gain, rows_of
from ..posterior.draws.draws import Draws, blocks, read_draws, read_group
from .contrasts import Contrasts, contrasts_of
from .sources import point_fits

__all__ = ["LAPLACE", "interval_of", "read_posterior", "weights_table"]

LAPLACE = "Laplace approximation"

Columns = dict[str, Any]  # each an array like the weights, (p,) or (K, p)
_STEMS = {"weight": "", "scaled_weight": "scaled_", "rate": "rate_"}  # columns, and prefixes of their ends' names


def weights_table(
    result: Any,
    *,
    probability: float | int = 0.9,
    contrasts: str | Contrasts | None = "reference",
    reference: Mapping[str, Any] | None = None,
    baseline: Any = None,
    estimate: str = "mean",
) -> DataFrame:
    """Tabulate weights with intervals, odds or rate ratios, and rates, one row for each feature (and class).

    If a formula made a column for each level of a factor, the rows are differences between levels.

    Parameters
    ----------
    result : Fit, InferenceData or DataTree, or a fitted linear estimator
        Result of ``bd.fit`` or ``bd.sample``, or an estimator such as ``bd.DropoutLogisticRegression()``.
    probability : float, default=0.9
        Probability content of the intervals, in (0, 1).
    contrasts : "reference", "mean" or None, default="reference"
        How the levels of a formula's factors are shown: as differences from one level, as differences from the mean of
        the levels, or (None) by the weight of each level, whose uncertainty is mostly that of the prior. Or linear
        combinations of the weights, as :class:`bayesdrop.effects.contrasts.Contrasts`.
    reference : mapping from column to level, optional
        Reference level of each factor; by default the first.
    baseline : label, optional
        For a softmax loss, the class that the other classes are compared with, for weights and ratios of relative
        risks. By default weights are as the result holds them.
    estimate : "mean" or "median", default="mean"
        Whether ``weight``, ``scaled_weight`` and ``rate`` of a posterior are means or medians of the draws.

    Returns
    -------
    pandas.DataFrame
        ``weight`` (for a posterior the mean or the median), ``sd``, ``low`` and ``high``; ``scaled_weight``, the
        coefficient of the feature in the mean score, ``(1 − rate) · weight`` under biased dropout; for a logistic loss
        ``odds_ratio``, the factor by which one unit changes the odds at the mean score under the noise,
        ``exp(scaled_weight)``, with ``odds_ratio_low`` and ``odds_ratio_high``, and with noise ``odds_ratio_if_kept``,
        ``exp(weight)``, for a feature that is not dropped; for counts ``rate_ratio`` and ``rate_ratio_if_kept`` of the
        expected count; with ``baseline`` the ``relative_risk_ratio``, the factor by which one unit changes the
        probability of a class over that of the baseline class; ``rate`` (of a posterior with ``rate_low`` and
        ``rate_high``). Under ``bd.SpikeSlab`` also ``inclusion_probability``; ``weight_if_included``, the mean of the
        draws that are not zero; ``expected_false_discoveries``, the expected number of features without an effect if
        this feature and all more probable ones are selected (under a softmax pairs of a feature and a class);
        ``inclusion_in_any_class``, the share of draws in which any class has the feature; and ``rate_if_included``,
        because ``rate`` also averages over draws without the feature, whose rate is drawn from its prior. There
        ``scaled_weight`` averages ``(1 − rate) · weight`` over all draws, 0 where the feature is excluded. With
        ``estimate="median"`` every number but ``sd`` is a quantile of the same draws.
        ``columns.name`` names the two classes of the odds. If the point fit has no intervals, because it has noise for
        example, a column ``interval`` says what to do instead. ``attrs`` describe the intervals, with the number of
        draws, or say why there are none: ``"weight_interval"``, ``"rate_interval"`` and ``"probability"``. With more
        than two classes, fitted one against the rest, each class has its rows.

    Raises
    ------
    TypeError, ValueError
        If ``result`` has another type, ``probability`` is not in (0, 1), or ``baseline`` is not a class of a softmax.

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
    (['weight', 'odds_ratio', 'odds_ratio_low', 'odds_ratio_high', 'sd'], 'Laplace approximation')
    >>> print(weights_table(bd.fit(bd.Model(), X, y))[["weight", "interval"]].round(2).head(2))
    1 against 0  weight       interval
    feature
    x0            -0.09  use bd.sample
    x1            -0.12  use bd.sample
    """
    import pandas as pd

    probability = check_number(probability, "probability", above=0, below=1, advice="0.9, say")
    check_choice(estimate, "estimate", ("mean", "median"))
    fits = point_fits(result)
    check_instance(reference, "reference", Mapping, "a mapping from column to level", none=True)
    if not isinstance(contrasts, Contrasts):
        check_choice(contrasts, "contrasts", ("reference", "mean", None))
    if fits is None:
        draws = read_posterior(result)
        shown = _contrasts(draws.facts.formula, contrasts, reference)
        loss, names, labels = draws.model.loss, draws.feature_names, draws.classes
        classes: Any = draws.classes if draws.weight.ndim > 2 else None
        if draws.weight.ndim > 2 and classes is None:
            classes = np.arange(draws.weight.shape[1])
        base = _baseline(baseline, classes if loss.multiclass else None)
        columns = _of_draws(draws, probability, shown, base, estimate)
        if "included" in read_group(result, "posterior", "result"):
            if base is not None:
                raise ValueError(
                    "baseline: under bd.SpikeSlab a weight may be zero where its difference from that of another class "
                    "is not, and inclusion is that of single classes; leave it out."
                )
            columns |= _of_indicators(read_group(result, "posterior", "result"), draws, shown)
        kind = rate_kind = interval_of(draws)
    else:
        first = fits[0].fit
        shown = _contrasts(first.facts.formula, contrasts, reference)
        base = _baseline(baseline, first.classes if first.model.loss.multiclass else None)
        parts = [_of_fit(one.fit, probability, shown, base) for one in fits]
        columns = {name: np.concatenate([np.atleast_2d(part[name]) for part in parts]) for name in parts[0]}
        (reason, remedy), rate_kind = why_no_covariance(first), ""
        if reason:
            columns["interval"] = np.full(columns["weight"].shape, remedy, dtype=object)
        loss, names, labels = first.model.loss, first.feature_names, first.classes
        classes = [one.label for one in fits] if len(fits) > 1 else first.classes if first.weight.ndim > 1 else None
        kind = f"none, for {reason}; {remedy}" if reason else LAPLACE
    ratio = loss.ratio
    if base is not None:
        ratio, classes = "relative_risk_ratio", [label for k, label in enumerate(classes) if k != base]
    if ratio:
        columns |= {f"{ratio}{part}": values for part, values in _ratios(columns).items()}
    # A terminal of 80 characters shows the first and the last columns.
    ratios = [f"{ratio}{part}" for part in ("", "_low", "_high")] if ratio else []
    single = ("sd", "low", "high", "interval", "scaled_weight", f"{ratio}_if_kept", "rate_low", "rate_high", "rate")
    last = (
        "weight_if_included", "rate_if_included", "expected_false_discoveries", "inclusion_in_any_class",
        "inclusion_probability",
    )  # fmt: skip
    order = [name for name in ("weight", *ratios, *single, *last) if name in columns]
    rows = rows_of(names if shown is None else shown.names, classes)
    frame = pd.DataFrame({name: np.ravel(columns[name]) for name in order}, index=rows)
    frame.attrs.update(weight_interval=kind, rate_interval=rate_kind, probability=probability)
    if ratio == "odds_ratio" and labels is not None and classes is None and len(labels) == 2:
        frame.columns.name = f"{labels[1]} against {labels[0]}"
    return frame


def _baseline(baseline: Any, classes: Any) -> int | None:
    """Index of the baseline class among the classes of a softmax; None without a baseline."""
    if baseline is None:
        return None
    if classes is None:
        raise ValueError("baseline: expected a softmax loss, which has a score for each class; leave it out.")
    labels = [str(label) for label in classes]
    if str(baseline) not in labels:
        raise ValueError(f"baseline: expected one of the classes {labels}, got {shown(baseline)}.")
    return labels.index(str(baseline))


def _compared(weight: Float[np.ndarray, "*more m"], base: int | None) -> Float[np.ndarray, "*others m"]:
    """Weights of the other classes minus those of a baseline class."""
    return weight if base is None else np.delete(weight - weight[..., [base], :], base, axis=-2)


def _contrasts(formula: Any, contrasts: Any, reference: Any) -> Contrasts | None:
    return contrasts if isinstance(contrasts, Contrasts) else contrasts_of(formula, contrasts, reference)


def interval_of(draws: Draws) -> str:
    """Describe the intervals of a posterior."""
    return f"posterior, equal tails of {draws.size} draws"


def read_posterior(result: Any, thin: int | None = None) -> Draws:
    """Draws of a posterior, at most ``thin`` per chain; errors list all results that a table accepts."""
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


def _of_fit(fit: Fit, probability: float, shown: Contrasts | None, base: int | None) -> Columns:
    """Columns of a point fit, shaped like its weights, or with a column for each contrast."""
    whole, gain = np.asarray(fit.weight, dtype=np.float64), feature_gain(fit)
    weight = _compared(whole, base)
    rates = np.broadcast_to(fit.rates, weight.shape)
    columns = {
        "weight": _combined(weight, shown),
        "scaled_weight": _combined(_compared(gain * whole, base), shown),
        "rate": rates if shown is None else rates[..., shown.feature],
    }
    if fit.covariance is not None:
        covariance, p = fit.covariance, weight.shape[-1]
        K = len(covariance) // (p + 1)
        compared = _compared(np.eye(K), base)
        inner = np.einsum("ak,kplq,al->apq", compared, covariance.reshape(K, p + 1, K, p + 1)[:, :p, :, :p], compared)
        if shown is not None:
            inner = [_combined(_combined(part, shown).T, shown) for part in inner]
        variance = np.stack([np.diagonal(part) for part in inner]).reshape(columns["weight"].shape)
        sd = np.sqrt(np.maximum(variance, 0))
        reach = ndtri((1 + probability) / 2) * sd
        columns |= {"sd": sd, "low": columns["weight"] - reach, "high": columns["weight"] + reach}
        # Intervals exist only without noise, where scaled weights equal the weights.
        columns |= {"scaled_low": columns["low"], "scaled_high": columns["high"]}
    if np.any(gain != 1):
        columns["kept"] = columns["weight"]
    return columns


def _combined(weight: Float[np.ndarray, "... p"], shown: Contrasts | None) -> Float[np.ndarray, "... r"]:
    """Contrasts of weights along the last axis."""
    if shown is None:
        return weight
    flat = weight.reshape(math.prod(weight.shape[:-1]), weight.shape[-1])
    return np.asarray((shown.matrix @ flat.T).T).reshape(*weight.shape[:-1], shown.matrix.shape[0])


def _of_draws(draws: Draws, probability: float, shown: Contrasts | None, base: int | None, estimate: str) -> Columns:
    """Columns of a posterior, shaped like its weights or with one per contrast, computed in blocks of features."""
    size = draws.weight.shape[-1] if shown is None else len(shown.names)
    classes = draws.weight.shape[1:-1]
    shape = (*(classes if base is None else (classes[0] - 1,)), size)
    middle = np.mean if estimate == "mean" else np.median
    ends = [(1 - probability) / 2, (1 + probability) / 2]
    triples = [(name, f"{stem}low", f"{stem}high") for name, stem in _STEMS.items()]
    columns = {name: np.empty(shape) for name in ("sd", *itertools.chain(*triples))}
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
        plain, scaled = (_combined(_compared(whole, base), matrix) for whole in (weight, gain * weight))
        columns["sd"][..., part] = plain.std(axis=0)
        if shown is not None:
            rate = rate[..., np.searchsorted(features, shown.feature[part])]
        for values, (name, low, high) in zip((plain, scaled, rate), triples, strict=True):
            columns[name][..., part] = middle(values, axis=0)
            columns[low][..., part], columns[high][..., part] = np.quantile(values, ends, axis=0)
    if draws.fixed_rate is not None:
        del columns["rate_low"], columns["rate_high"]
    if noisy:
        columns["kept"] = columns["weight"]
    return columns


def _of_indicators(posterior: Any, draws: Draws, shown: Contrasts | None) -> Columns:
    """Inclusion probabilities, means of weights and rates given inclusion, and expected false discoveries.

    One number per feature or, with contrasts, (r,), for the column that the contrast replaces.
    """
    feature: Any = slice(None) if shown is None else shown.feature
    mean = posterior["inclusion_probability"].astype(np.float64).mean(("chain", "draw"))
    chance = np.asarray(mean.reindex(feature=draws.feature_names).transpose(..., "feature").values)[..., feature]
    is_in = draws.weight[..., feature] != 0
    count, total = is_in.sum(axis=0), np.sum(_combined(draws.weight, shown) * is_in, axis=0)
    weight = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
    given = {"weight_if_included": weight}
    if is_in.ndim > 2:
        given["inclusion_in_any_class"] = np.broadcast_to(is_in.any(axis=1).mean(axis=0), chance.shape)
    if draws.fixed_rate is None:
        rates = np.where(is_in, _rates(draws, np.arange(draws.weight.shape[1])[feature]), 0).sum(axis=0)
        given["rate_if_included"] = np.divide(rates, count, out=np.full(len(count), np.nan), where=count > 0)
    order = np.argsort(-chance, axis=None, kind="stable")
    expected = np.empty(chance.size)
    expected[order] = np.cumsum(1 - chance.ravel()[order])
    return {"inclusion_probability": chance, **given, "expected_false_discoveries": expected}


def _rates(draws: Draws, features: Int[np.ndarray, " m"]) -> Float[np.ndarray, "S ..."]:
    """Rates of some features, (S, ..., m), float64."""
    if draws.fixed_rate is not None:
        rate = draws.fixed_rate[..., features]
        return np.broadcast_to(rate, (draws.size, *rate.shape))
    return draws.rate_of(slice(None), draws.index[features])


def _ratios(columns: Columns) -> Columns:
    """Ratios of odds or of expected counts, by the suffix of their column names."""
    sources = {"": "scaled_weight", "_low": "scaled_low", "_high": "scaled_high", "_if_kept": "kept"}
    with np.errstate(over="ignore"):  # an overflowing ratio is infinite
        return {part: np.exp(columns[name]) for part, name in sources.items() if name in columns}
