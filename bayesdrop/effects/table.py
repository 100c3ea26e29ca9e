"""The table of weights: what each feature says, how far that is known, and how often it is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._typing import Float
from .._validation import check_number
from ..fitting.results.summary import feature_gain, rows_of
from ..posterior.arviz_groups.builder import SUMMARY, THINNED, not_kept
from ..posterior.arviz_groups.groups import dataset
from ..posterior.draws.draws import Draws, blocks, read_draws, read_group
from .laplace import laplace_covariance, why_no_covariance
from .sources import PointFit, point_fits

__all__ = ["LAPLACE", "POSTERIOR", "USE_SAMPLE", "no_interval", "read_posterior", "weights_table"]

LAPLACE, POSTERIOR = "Laplace approximation", "posterior, equal tails"
# What stands in the column ``interval`` where there is none.
USE_SAMPLE = "use bd.sample"

Columns = dict[str, Any]  # each an array like the weights, (p,) or (K, p)


def weights_table(
    result: Any, X: Any = None, y: Any = None, *, sample_weight: Any = None, probability: float | int = 0.9
) -> Any:
    """Weights with their intervals, odds ratios and rates, one row per feature, and class if there are many.

    Parameters
    ----------
    result : Fit, InferenceData or DataTree, or a fitted linear estimator
        What ``bd.fit`` or ``bd.sample`` returned, or an estimator such as ``bd.DropoutLogisticRegression()``.
    X, y : (n, p) and (n,), optional
        The rows that a point fit without noise was fitted to, for intervals of its weights. A posterior needs none.
    sample_weight : array (n,), optional
        Row weights of that fit.
    probability : float
        What the intervals hold, in (0, 1).

    Returns
    -------
    pandas.DataFrame
        ``weight`` (of a posterior its mean), ``sd``, ``low`` and ``high``; ``scaled_weight``, what multiplies the
        feature in the mean score: ``(1 − rate) · weight`` under biased dropout; for a logistic loss ``odds_ratio``,
        ``exp(weight)`` for one unit of a feature that is not dropped (of a posterior its median), ``odds_ratio_low``
        and ``odds_ratio_high``; ``rate`` (of a posterior its mean), and of a posterior ``rate_low`` and
        ``rate_high``. A point fit that has no intervals though ``X`` and ``y`` are given, one with noise, say, has a
        column ``interval`` in their place, which says "use bd.sample". ``attrs`` say what the intervals are, or why
        there are none: ``"weight_interval"``, ``"rate_interval"`` and ``"probability"``. Where draws were not kept
        one by one (``variables`` of ``bd.sample``) means and ``sd`` of weights are those of all draws, and quantiles
        those of the few that there are, as the attributes say. Of three classes and more solved one against the rest
        each has its rows.

    Raises
    ------
    TypeError, ValueError
        If ``result`` is something else, the rows are not those of the fit, or ``probability`` is not in (0, 1).

    Notes
    -----
    Intervals of a point fit without noise are those of Laplace's approximation, ``ŵ ± z √diag(H⁻¹)`` with the Hessian
    ``H`` of the energy; they are those of a posterior only as far as the loss is a likelihood. Those of a posterior are
    quantiles of its draws. A fit with noise minimises an expected loss: it is shrunk, so that intervals around it would
    hold the weights far too seldom (64 % of them where 90 % are claimed, in simulations with known rates of 0.3 and
    0.5), and its learnt rates are those of a rule; how far either is known, the posterior says. The plug-in posterior
    of the rule is ``fit.rate_posterior``.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import make_classification
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> table = weights_table(bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, y), X, y)
    >>> list(table)[:5], table.attrs["weight_interval"]
    (['weight', 'sd', 'low', 'high', 'scaled_weight'], 'Laplace approximation')
    >>> print(weights_table(bd.fit(bd.Model(), X, y), X, y)[["weight", "interval"]].round(2).head(2))
             weight       interval
    feature
    x0        -0.09  use bd.sample
    x1        -0.12  use bd.sample
    """
    import pandas as pd

    probability = check_number(probability, "probability", above=0, below=1, advice="0.9, say")
    fits = point_fits(result)
    if fits is None:
        draws = read_posterior(result)
        if X is not None or y is not None:
            raise ValueError("X: a posterior has the intervals in its draws; leave X and y out.")
        columns, loss = _of_draws(draws, probability), draws.model.loss
        names = draws.feature_names
        classes: Any = draws.classes if draws.weight.ndim > 2 else None
        if draws.weight.ndim > 2 and classes is None:
            classes = np.arange(draws.weight.shape[1])
        columns, few = _with_summaries(result, draws, columns)
        kinds = {"weight_interval": POSTERIOR + few, "rate_interval": POSTERIOR + few}
    else:
        given = given_rows(X, y)
        reason = next(filter(None, (why_no_covariance(one.fit) for one in fits)), "") if given else ""
        parts = [_of_fit(one, X, y, sample_weight, probability, given and not reason) for one in fits]
        columns = {name: np.concatenate([np.atleast_2d(part[name]) for part in parts]) for name in parts[0]}
        if reason:
            columns["interval"] = np.full(columns["weight"].shape, USE_SAMPLE, dtype=object)
        first = fits[0].fit
        loss, names = first.model.loss, first.feature_names
        classes = [one.label for one in fits] if len(fits) > 1 else first.classes if first.weight.ndim > 1 else None
        kinds = {"weight_interval": no_interval(reason) if reason else LAPLACE if given else "", "rate_interval": ""}
    if loss.log_odds:
        columns |= {f"odds_ratio{part}": values for part, values in _ratios(columns).items()}
    columns.pop("median", None)
    single = ("weight", "sd", "low", "high", "interval", "scaled_weight")
    order = [name for stem in single for name in columns if name == stem]
    order += [name for stem in ("odds_ratio", "rate") for name in columns if name.startswith(stem)]
    frame = pd.DataFrame({name: np.ravel(columns[name]) for name in order}, index=rows_of(names, classes))
    frame.attrs.update(kinds, probability=probability)
    return frame


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


def _of_fit(one: PointFit, X: Any, y: Any, sample_weight: Any, probability: float, given: bool) -> Columns:
    """Columns of a point fit, shaped like its weights."""
    fit, weight = one.fit, np.asarray(one.fit.weight)
    found = {
        "weight": weight,
        "scaled_weight": feature_gain(fit) * weight,
        "rate": np.broadcast_to(fit.rates, weight.shape),
    }
    if given:
        own_y, own_weight = one.rows(X, y, sample_weight)
        variance = np.diagonal(laplace_covariance(fit, X, own_y, own_weight))
        sd = np.sqrt(np.maximum(variance.reshape(-1, weight.shape[-1] + 1)[:, :-1], 0)).reshape(weight.shape)
        reach = ndtri((1 + probability) / 2) * sd
        found |= {"sd": sd, "low": weight - reach, "high": weight + reach}
    return found


def _of_draws(draws: Draws, probability: float) -> Columns:
    """Columns of a posterior, shaped like its weights, some features at a time."""
    shape = draws.weight.shape[1:]
    ends = [(1 - probability) / 2, (1 + probability) / 2]
    names = ("weight", "sd", "low", "high", "median", "scaled_weight", "rate", "rate_low", "rate_high")
    found = {name: np.empty(shape) for name in names}
    for part, weight, rate in _features(draws):
        gain = draws.model.noise.coefficients(rate).gain
        gain = gain if gain.ndim == weight.ndim else gain[:, None]
        found["weight"][..., part], found["sd"][..., part] = weight.mean(axis=0), weight.std(axis=0)
        low, median, high = np.quantile(weight, [ends[0], 0.5, ends[1]], axis=0)
        found["low"][..., part], found["median"][..., part], found["high"][..., part] = low, median, high
        found["scaled_weight"][..., part] = (gain * weight).mean(axis=0)
        found["rate"][..., part] = rate.mean(axis=0)
        found["rate_low"][..., part], found["rate_high"][..., part] = np.quantile(rate, ends, axis=0)
    if draws.fixed_rate is not None:
        del found["rate_low"], found["rate_high"]
    return found


def _with_summaries(result: Any, draws: Draws, columns: Columns) -> tuple[Columns, str]:
    """Means and spreads from all draws, where single ones were not kept, and what to say of the quantiles then."""
    names = not_kept(result)
    if not {"weight", "rate"} & set(names):
        return columns, ""
    summary = dataset(result, SUMMARY)
    if "weight" in names:
        known = summary["weight"].transpose("statistic", ..., "feature")
        columns |= {"weight": known.sel(statistic="mean").values, "sd": known.sel(statistic="sd").values}
    if "rate" in names:
        columns |= {"rate": summary["rate"].sel(statistic="mean").values[..., draws.index]}
    return columns, f" of {draws.size} draws"


def _features(draws: Draws) -> Iterator[tuple[slice, Float[np.ndarray, "S ..."], Float[np.ndarray, "S ..."]]]:
    """Weights and rates of some features, (S, ..., features) each, float64."""
    for part in blocks(draws.weight.shape[-1], draws.weight[..., 0].size):
        weight = draws.weight[..., part].astype(np.float64)
        if draws.fixed_rate is not None:
            yield (
                part,
                weight,
                np.broadcast_to(draws.fixed_rate[..., part], (len(weight), *draws.fixed_rate[..., part].shape)),
            )
        else:
            yield part, weight, draws.free_rate[..., draws.index[part]].astype(np.float64)


def _ratios(columns: Columns) -> Columns:
    """Odds ratios and their ends, by what they are called after the first word."""
    with np.errstate(over="ignore"):  # beyond double precision it is infinite
        found = {"": np.exp(columns["median" if "median" in columns else "weight"])}
        return found | {f"_{end}": np.exp(columns[end]) for end in ("low", "high") if end in columns}
