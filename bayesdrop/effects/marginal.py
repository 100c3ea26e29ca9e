r"""Average marginal effects: by how much the prediction moves per unit of a feature, averaged over rows.

    AME_d = (1/Σs) Σ_i s_i ∂/∂x_id E f(s̃_i)

with ``f(s̃)`` the response at the noised score, the one that :func:`bayesdrop.predict` averages: a probability, an
expected count or a mean. The derivative is a central difference of the predictions, as in the packages
``marginaleffects`` (Arel-Bundock, Greifer & Heiss 2024), with a step of a thousandth of the feature's standard
deviation, so that every noise and every loss has it; where a noise takes no numbers below zero, it is one-sided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._typing import Float, Int
from .._validation import check_count, check_flag, check_number, shown
from ..designs.rows import check_sample_weight
from ..fitting.objective.centring import shifted
from ..fitting.results.summary import rows_of
from ..noise.base import centre_of
from ..posterior.diagnostics.mixing import mixing
from ..posterior.draws.draws import Draws, blocks
from ..posterior.draws.new_rows import draws_of_fit, match_design, match_offset
from ..posterior.noise_average.class_chances import class_chances
from ..posterior.noise_average.probability import class_probability, expected_response
from .laplace import laplace_covariance, why_no_covariance
from .sources import PointFit, point_fits
from .table import LAPLACE, POSTERIOR, USE_SAMPLE, no_interval, read_posterior

__all__ = ["marginal_effects"]

_STEP = 1e-3
_MISSING = (
    "Effects are those of features that are there; leave the rows with missing ones out, or fill them in by what they "
    "may have been."
)


def marginal_effects(
    result: Any,
    X: Any,
    y: Any = None,
    *,
    features: Sequence[str] | None = None,
    sample_weight: Any = None,
    corrupted_inputs: bool = False,
    offset: Any = None,
    draws: int = 25,
    probability: float | int = 0.9,
) -> Any:
    """Average marginal effect of each feature on the probability, the expected count or the mean, with intervals.

    Parameters
    ----------
    result : Fit, InferenceData or DataTree, or a fitted linear estimator
        What ``bd.fit`` or ``bd.sample`` returned, or an estimator such as ``bd.DropoutLogisticRegression()``.
    X : array, data frame or scipy sparse (n, p)
        Rows to average over, often those of the fit; a data frame's columns are matched by name.
    y : sequence (n,), optional
        For a point fit: the responses, if ``X`` are the rows of the fit. The effects of one without noise then have
        intervals.
    features : sequence of str, optional
        Of which features; by default of all. Each costs two predictions of all rows, and with ``y`` as many more for
        each weight.
    sample_weight : array (n,), optional
        Row weights of the average; with ``y`` they are those of the fit.
    corrupted_inputs : bool
        Say that the rows are corrupted already, so that no noise is averaged over; an estimator may say so itself.
    offset : array (n,) or float, optional
        Known part of the score of each row, needed if the rows of the fit had one.
    draws : int
        Draws of each chain of a posterior to take, spread evenly, at most all of them. ``mcse`` says what more of them
        would gain.
    probability : float
        What the intervals hold, in (0, 1).

    Returns
    -------
    pandas.DataFrame
        ``effect``, and ``sd``, ``low`` and ``high``, one row per feature; of many classes one per class and feature,
        the effects on its probability, which sum to zero over the classes. A point fit that has no intervals though
        ``y`` is given, one with noise, say, has a column ``interval`` in their place, which says "use bd.sample".
        ``attrs["interval"]`` says what the intervals are, or why there are none. Of a posterior there is ``mcse`` too,
        the Monte Carlo standard error of ``effect`` from the draws that were taken; the ends of a 90 % interval have
        about twice as much.

    Raises
    ------
    TypeError, ValueError
        If ``result`` is something else, or the columns or rows do not fit it.

    Notes
    -----
    Intervals of a posterior are quantiles of the effects by its draws. Those of a point fit without noise are by the
    delta method from Laplace's approximation (:func:`bayesdrop.weights_table`, which says why a fit with noise has
    none). A feature that is 0 or 1 has a slope like any other.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> X, y = [[0.0, 1.0], [1.0, 3.0], [2.0, 0.0], [3.0, 1.0]], [0.0, 1.1, 1.9, 3.2]
    >>> fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), X, y)
    >>> table = marginal_effects(fit, X, y)
    >>> bool(np.allclose(table["effect"], fit.weight))
    True
    """
    import pandas as pd

    probability = check_number(probability, "probability", above=0, below=1, advice="0.9, say")
    check_flag(corrupted_inputs, "corrupted_inputs")
    check_count(draws, "draws")
    fits = point_fits(result)
    corrupted_inputs |= bool(getattr(result, "corrupted_inputs", False))
    if fits is None:
        if y is not None:
            raise ValueError("y: a posterior has the intervals in its draws; leave y out.")
        found = read_posterior(result, draws)
        sources = [found]
    else:
        sources = [draws_of_fit(one.fit) for one in fits]
    first = sources[0]
    names = _chosen(features, first.feature_names)
    columns = np.array([first.feature_names.index(name) for name in names])
    complete = replace(first.model, missing=None)
    matrix = match_design(X, first.feature_names, complete, first.facts, advice=_MISSING).matrix()
    weight, known = check_sample_weight(sample_weight, matrix.shape[0]), match_offset(first, offset, matrix.shape[0])
    parts: list[Any] = []
    reason = next(filter(None, (why_no_covariance(one.fit) for one in fits)), "") if fits and y is not None else ""
    for k, source in enumerate(sources):
        if fits is not None and y is not None and not reason:
            parts.append(
                _of_fit(fits[k], source, X, y, sample_weight, matrix, columns, weight, corrupted_inputs, known)
            )
        else:
            parts.append((_effects(source, matrix, columns, weight, corrupted_inputs, known), None))
    table = _columns(parts, fits is None, probability)
    if fits is None:
        table["mcse"] = _monte_carlo_errors(parts[0][0], first.shape[0])
    classes: Any = None
    if len(sources) > 1 and fits is not None:
        classes = [one.label for one in fits]
    elif first.weight.ndim > 2:
        classes = np.arange(first.weight.shape[1]) if first.classes is None else first.classes
    frame = pd.DataFrame(table, index=rows_of(names, classes))
    interval = POSTERIOR if fits is None else f"delta method, {LAPLACE}" if y is not None else ""
    if reason:
        frame["interval"], interval = USE_SAMPLE, no_interval(reason)
    return _labelled(frame, interval, probability)


def _labelled(frame: Any, interval: str, probability: float) -> Any:
    frame.attrs.update(interval=interval, probability=probability)
    return frame


def _chosen(features: Any, known: list[str]) -> list[str]:
    """Names of the features asked for."""
    if features is None:
        return known
    named = not isinstance(features, str | bytes) and isinstance(features, Sequence | np.ndarray)
    wanted = [str(name) for name in features] if named else []
    unknown = [name for name in wanted if name not in known]
    if not wanted or unknown or len(set(wanted)) < len(wanted):
        raise ValueError(
            f"features: expected a list of different names among {known[:5]}{' …' * (len(known) > 5)}, got "
            f"{shown(features)}."
        )
    return wanted


def _columns(parts: list[Any], posterior: bool, probability: float) -> dict[str, Float[np.ndarray, " rows"]]:
    """Columns of the table, from effects (S, p) or (S, K, p) and covariances or None of each problem."""
    if posterior:
        effects = parts[0][0].reshape(len(parts[0][0]), -1)
        low, high = np.quantile(effects, [(1 - probability) / 2, (1 + probability) / 2], axis=0)
        return {"effect": effects.mean(axis=0), "sd": effects.std(axis=0), "low": low, "high": high}
    effect = np.concatenate([found[0].ravel() for found, _ in parts])
    if parts[0][1] is None:
        return {"effect": effect}
    sd = np.concatenate([sd for _, sd in parts])
    reach = ndtri((1 + probability) / 2) * sd
    return {"effect": effect, "sd": sd, "low": effect - reach, "high": effect + reach}


def _monte_carlo_errors(effects: Float[np.ndarray, "S ..."], chains: int) -> Float[np.ndarray, " rows"]:
    """Monte Carlo standard errors of mean effects, from draws of chains one after the other."""
    import xarray as xr

    by_chain = effects.reshape(chains, len(effects) // chains, -1)
    dims = ("chain", "draw", "row")
    ess = mixing(xr.Dataset({"effect": (dims, by_chain)}))["ess_bulk"]["effect"].values
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Float[np.ndarray, " rows"] = by_chain.std(axis=(0, 1)) / np.sqrt(ess)
    # What does not vary has none; of three draws of a chain or fewer none is known.
    return np.where(np.isnan(ess), 0.0, np.where(ess > 0, error, np.nan))


def _of_fit(
    one: PointFit,
    draws: Draws,
    X: Any,
    y: Any,
    sample_weight: Any,
    matrix: Any,
    columns: Int[np.ndarray, " c"],
    weight: Float[np.ndarray, " n"],
    corrupted_inputs: bool,
    offset: Float[np.ndarray, " n"] | None,
) -> tuple[Float[np.ndarray, "1 ..."], Float[np.ndarray, " rows"]]:
    """Effects at the weights of a fit, and their standard deviations by the delta method."""
    own_y, own_weight = one.rows(X, y, sample_weight)
    covariance = laplace_covariance(one.fit, X, own_y, own_weight)
    step = 1e-3 * np.sqrt(np.maximum(np.diagonal(covariance), 0))
    size, q = len(step), draws.weight.shape[-1] + 1
    moves = np.vstack([np.zeros(size), np.diag(step), -np.diag(step)])
    inward = moves.reshape(len(moves), -1, q)
    centre = centre_of(draws.model.noise)
    moved = inward[..., -1] + (0.0 if centre is None else inward[..., :-1] @ centre)
    shape = (len(moves), *draws.weight.shape[1:])
    varied = replace(
        draws,
        weight=draws.weight + inward[..., :-1].reshape(shape),
        intercept=draws.intercept + moved.reshape(shape[:-1]),
        C=np.repeat(draws.C, len(moves)),
        free_rate=np.zeros((len(moves), 0)),
    )
    effects = _effects(varied, matrix, columns, weight, corrupted_inputs, offset)
    flat = effects.reshape(len(moves), -1)
    able = step > 0
    slopes = np.where(
        able[:, None], (flat[1 : size + 1] - flat[size + 1 :]) / np.where(able, 2 * step, 1.0)[:, None], 0
    )
    variance = np.einsum("ja,jk,ka->a", slopes, covariance, slopes)
    return effects[:1], np.sqrt(np.maximum(variance, 0))


def _expected(draws: Draws, corrupted_inputs: bool) -> Callable[[Any, Any], Float[np.ndarray, "n S ..."]]:
    """Expected responses of rows as the user has them and their offsets, (n, S) or (n, S, K)."""
    loss, centre = draws.model.loss, centre_of(draws.model.noise)
    if loss.multiclass:
        return lambda X, _: class_chances(draws, shifted(X, centre), corrupted_inputs)
    made = class_probability if loss.binary else expected_response
    return lambda X, offset: made(draws, shifted(X, centre), corrupted_inputs, offset=offset)


def _effects(
    draws: Draws,
    X: Any,
    columns: Int[np.ndarray, " c"],
    weight: Float[np.ndarray, " n"],
    corrupted_inputs: bool,
    offset: Float[np.ndarray, " n"] | None,
) -> Float[np.ndarray, "S ..."]:
    """Average slopes of the expected responses in the columns, (S, c) or (S, K, c)."""
    expected, classes = _expected(draws, corrupted_inputs), draws.weight.shape[1:-1]
    found = np.zeros((draws.size, *classes, len(columns)))
    total = float(weight.sum())
    for j, d in enumerate(columns):
        step = _STEP * (_spread(X, int(d)) or 1.0)
        for rows in blocks(X.shape[0], draws.size * max(int(np.prod(classes)), 1)):
            here, known = X[rows], None if offset is None else offset[rows]
            for factor, changed in _moved(draws, here, int(d), step):
                values = expected(changed, known)
                found[..., j] += factor / total * np.tensordot(weight[rows], values, axes=1)
    return found


def _spread(X: Any, d: int) -> float:
    """Standard deviation of a column."""
    column = X[:, [d]]
    column = column.toarray() if hasattr(column, "toarray") else np.asarray(column)
    return float(column.astype(np.float64).std())


def _moved(draws: Draws, X: Any, d: int, step: float) -> Iterator[tuple[float, Any]]:
    """Rows with the column moved, and the factors of a difference quotient."""
    try:
        draws.model.noise.check(float(X[:, [d]].min()) - step)
        places: tuple[tuple[float, float], ...] = ((1.0, 0.5 / step), (-1.0, -0.5 / step))
    except ValueError:
        places = ((0.0, -1.5 / step), (1.0, 2 / step), (2.0, -0.5 / step))
    for times, factor in places:
        yield factor, _shift(X, d, times * step)


def _shift(X: Any, d: int, length: float) -> Any:
    """Rows with ``length`` added to the column, float64."""
    if not hasattr(X, "nnz"):
        changed = np.array(X, dtype=np.float64)
        changed[:, d] += length
        return changed
    from scipy.sparse import csr_array

    n, p = X.shape
    more = csr_array((np.full(n, length), (np.arange(n), np.full(n, d))), shape=(n, p))
    return (csr_array(X.astype(np.float64)) + more).tocsr()
