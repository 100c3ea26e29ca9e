"""Constants stored with draws: names along the dims, priors, fixed rates, row weights, offsets and the response.

The prior of the rates writes its parameters under its names, and reads them. Responses are numbers, or classes as 0 and
1 with their names as a coordinate. Inside the package a class is a sign, −1 or +1; functions for binary data, such as
ArviZ's separation plots and calibration curves, use the mean of ``y`` as a probability and need 0 and 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._stored import by_label
from ..._typing import AnyArray, Num, PerRow, Shaped
from ...losses.base import Loss
from ...model import Model
from ...noise.base import centre_of
from ...priors import RandomEffects
from ...priors.intercept import known_place
from ...priors.rate_prior import BetaLaw
from ...rates import RateMap
from ...rates.fixed import LEADING

if TYPE_CHECKING:
    import xarray as xr

__all__ = [
    "PAIR",
    "class_names",
    "correlation_coords",
    "in_model_order",
    "model_constants",
    "model_coords",
    "observed_group",
    "parted",
    "rate_prior_constants",
    "read_rate_prior",
    "read_response",
]


PAIR = "correlation_pair"
"""Dim of the correlations of all terms in the record of a sampler."""


def model_coords(rate_map: RateMap, feature_names: Sequence[str]) -> dict[str, Any]:
    """Labels along the dims of a model: features, and any groups of rates.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model_coords(bd.PerGroup(["a", "a"]).bind(["x0", "x1"]), ["x0", "x1"])["group"].tolist()
    ['a']
    """
    coords: dict[str, Any] = {"feature": np.array(feature_names)}
    if rate_map.is_free:
        coords[rate_map.dim] = np.array(rate_map.names)
    if rate_map.hierarchy is not None:
        coords["group"] = np.array(rate_map.hierarchy.names)
    return coords


def correlation_coords(prior: Any) -> dict[str, Any]:
    """Labels along the dim of the variable ``correlation`` of a sampler; empty without correlated terms."""
    if not getattr(prior, "correlated", ()):
        return {}
    return {PAIR: np.array([f"{term}[{pair}]" for term, pairs in prior.pairs().items() for pair in pairs])}


def model_constants(
    model: Model, rate_map: RateMap, row_weight: Any, occurrences: Callable[[], Any], offset: Any = None, y: Any = None
) -> dict[str, tuple[Any, Any]]:
    """Dims and values of the group ``constant_data``, by name.

    Parameters
    ----------
    model : Model
        Model whose settings for columns are numbers.
    rate_map : RateMap
        Rates of the model, bound to the columns.
    row_weight : array (n,)
        Row weights, stored unless all are 1.
    occurrences : callable
        Returns the weighted number of non-zero entries for each free rate (k,), on which a prior may depend; called
        only if the rates have a prior.
    offset : array (n,), optional
        Known part of every row's score.
    y : array (n,) or (n, 2), optional
        Responses; for pairs of counts the trials are stored.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model = bd.Model(rates=bd.Fixed(0.25))
    >>> sorted(model_constants(model, model.bind(["x0"]), np.ones(3), lambda: np.zeros(0)))
    ['fixed_rate', 'weight_precision']
    """
    constants: dict[str, tuple[Any, Any]] = dict(model.weight_prior.constants(len(rate_map.initial)))
    centre = centre_of(model.noise)
    if centre is not None:
        constants["centre"] = ("feature", centre)
    level: Any = model.intercept_prior
    if level is not None:
        constants |= {"intercept_prior_mean": ((), level.mean), "intercept_prior_scale": ((), level.scale)}
        constants["column_mean"] = ("feature", known_place(level))
    for one in model.loss.parameters:
        law = one.prior.law(1)
        kind = re.sub(r"(?<!^)(?=[A-Z])", "_", type(one.prior).__name__).lower()
        constants |= {f"{one.name}_prior_{kind}_{name}": ((), part[0]) for name, part in law._asdict().items()}
    if not rate_map.is_free:
        constants["fixed_rate"] = ("feature", rate_map.initial)
    elif rate_map.hierarchy is not None:
        constants |= rate_map.hierarchy.constants()
        named = [rate_map.hierarchy.names[int(j)] for j in rate_map.hierarchy.index]
        constants["feature_group"] = ("feature", np.array(named + [""] * (len(rate_map.index) - len(named))))
    else:
        constants |= rate_prior_constants(rate_map.prior.law(occurrences()), rate_map.dim)
    if rate_map.is_free and rate_map.dim == "group":
        constants["feature_group"] = ("feature", np.array([*rate_map.names, ""])[rate_map.index])
    if np.any(row_weight != 1):
        constants["row_weight"] = ("obs_id", row_weight)
    if offset is not None:
        constants["offset"] = ("obs_id", offset)
    if np.ndim(y) == 2:
        constants["trials"] = ("obs_id", np.sum(y, axis=1).astype(np.int64))
    return constants


_PREFIX = "rate_prior_"


def rate_prior_constants(law: BetaLaw, dim: str) -> dict[str, Any]:
    """Dims and values of the prior of rates by name, to store with draws of rates on ``dim``.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesdrop as bd
    >>> rate_prior_constants(bd.Beta(1.0, 3.0).law(np.zeros(1)), "feature")["rate_prior_b"]
    ('feature', array([3.]))
    """
    return {f"{_PREFIX}{name}": (dim, value) for name, value in law._asdict().items()}


def read_rate_prior(constant: Any, rates: Sequence[str]) -> BetaLaw | None:
    """Prior of the free rates ``rates`` that :func:`rate_prior_constants` stored; None if there is none."""
    stored = [constant[name] for name in (f"{_PREFIX}{field}" for field in BetaLaw._fields) if name in constant]
    if len(stored) < len(BetaLaw._fields):
        return None
    return BetaLaw(*(by_label(part, str(part.dims[0]), rates).values for part in stored))


def class_names(classes: Any) -> dict[str, Shaped[np.ndarray, " classes"]]:
    """Coordinate ``class``: the labels as text, that of ``y = 0`` first; nothing for numbers or unknown labels.

    Examples
    --------
    >>> class_names([False, True])["class"].tolist()
    ['False', 'True']
    """
    return {} if classes is None else {"class": np.array([str(label) for label in classes])}


def observed_group(y: Num[AnyArray, " n"], classes: Any, loss: Loss) -> xr.Dataset:
    """Group ``observed_data``: ``y`` (obs_id), signs as 0 and 1 (int8), counts and classes int64, numbers unchanged.

    Parameters
    ----------
    y : array (n,) or (n, 2)
        Labels as −1 and +1, numbers of classes, or numbers; successes and failures, of which successes are stored.
    classes : sequence of K labels, optional
        Labels of −1 and of +1, or of the class numbers.
    loss : Loss
        Loss, which determines the kind of ``y``.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> group = observed_group(np.array([1.0, -1.0]), ["no", "yes"], bd.Logistic())
    >>> group["class"].values[group["y"].values].tolist()
    ['yes', 'no']
    """
    import xarray as xr

    y = np.asarray(y) if np.ndim(y) == 1 else np.asarray(y)[:, 0]
    y = (y > 0).astype(np.int8) if loss.binary else y.astype(np.int64) if loss.largest_count or loss.multiclass else y
    coords = {"obs_id": np.arange(len(y)), **(class_names(classes) if loss.binary or loss.multiclass else {})}
    return xr.Dataset({"y": ("obs_id", y)}, coords=coords)


def read_response(observed: xr.Dataset, constant: Any, *, binary: bool) -> PerRow:
    """Inverse of :func:`observed_group`: signs or numbers, float64 (n,), or successes and failures (n, 2).

    Parameters
    ----------
    observed, constant : xarray.Dataset
        The groups ``observed_data`` and ``constant_data``.
    binary : bool
        Whether the responses are two classes.

    Raises
    ------
    ValueError
        If classes are not coded 0 and 1, as in files of releases that stored signs.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> read_response(observed_group(np.array([1.0, -1.0]), None, bd.Logistic()), {}, binary=True).tolist()
    [1.0, -1.0]
    """
    y = np.asarray(observed["y"].values, dtype=np.float64)
    if "trials" in constant:
        return np.stack([y, constant["trials"].values - y], axis=1)
    if not binary:
        return y
    if not np.all((y == 0) | (y == 1)):
        raise ValueError(
            f"post: expected classes coded 0 and 1 in observed_data, got {np.unique(y)[:5].tolist()}; the posterior "
            "was saved by an earlier release or changed since. Sample again with bd.sample."
        )
    return 2 * y - 1


def parted(group: xr.Dataset, prior: Any) -> xr.Dataset:
    """Separate the effects of random terms from the weights of features, as a posterior stores them.

    Effects become variables such as ``1|site`` on ``site|level``, and their scales ``1|site|scale``; variables on
    ``feature`` or ``weight_group`` keep the features. The correlations of a term are ``1+x|site|correlation`` on
    ``1+x|site|pair``.
    """
    if not isinstance(prior, RandomEffects):
        return group
    import xarray as xr

    before = group.sizes.get("weight_group", 0) - len(prior.learnt_terms)
    named = not prior.normal.gaussian and getattr(prior.normal, "groups", None) is not None
    variables: dict[str, xr.DataArray] = {}
    for key, part in group.data_vars.items():
        name = str(key)
        if name == "correlation" and prior.correlated:
            start = 0
            for term, pairs in prior.pairs().items():
                term_pairs = part.isel({PAIR: slice(start, start := start + len(pairs))}).drop_vars(PAIR)
                dim = f"{term}|pair"
                variables[f"{term}|correlation"] = term_pairs.rename({PAIR: dim}).assign_coords({dim: pairs})
            continue
        if "weight_group" in part.dims:
            if name == "weight_scale":
                for k, term in enumerate(prior.learnt_terms, before):
                    variables[f"{term}|scale"] = part.isel(weight_group=k, drop=True)
            part = part.isel(weight_group=slice(before) if named else 0, drop=True) if before else part[[]]
            if not before:
                continue
        if "feature" in part.dims:
            start = p = part.sizes["feature"] - prior.size
            for term, dim, levels in zip(prior.terms, prior.dims(), prior.levels, strict=True):
                if name == "weight":
                    effects = part.isel(feature=slice(start, start + len(levels))).drop_vars("feature")
                    variables[term] = effects.rename(feature=dim).assign_coords({dim: list(levels)})
                start += len(levels)
            part = part.isel(feature=slice(p))
        variables[name] = part.rename({LEADING: "feature"}) if LEADING in part.dims else part
    return xr.Dataset(variables, attrs=group.attrs)


def in_model_order(group: xr.Dataset, model: Model, feature_names: Sequence[str] | None, classes: Any) -> xr.Dataset:
    """A posterior in the form of its model: weights of features and effects joined, all dims in order, by labels.

    Parameters
    ----------
    group : xarray.Dataset
        Posterior whose features, groups, classes and levels may have been sorted.
    model : Model
        The sampled model.
    feature_names : sequence of p str, optional
        Columns in the order of the model; by default the order of the posterior.
    classes : sequence of K labels, optional
        Labels by number, for a model with a score per class.

    Raises
    ------
    ValueError
        If a label is missing or repeated.
    """
    try:
        whole = _joined(group, model.weight_prior)
        names = [str(name) for name in whole["feature"].values] if feature_names is None else list(feature_names)
        rate_map, learnt = model.bind(names), model.weight_prior.learnt_scale(len(names))
        labels: list[tuple[str, Any]] = [("feature", names)]
        labels += [(rate_map.dim, rate_map.names)] if rate_map.is_free else []
        labels += [("class", class_names(classes)["class"])] if model.loss.multiclass and classes is not None else []
        labels += [("weight_group", learnt.names)] if learnt is not None and learnt.names else []
        for dim, wanted in labels:
            whole = by_label(whole, dim, wanted)
    except ValueError as error:
        raise ValueError(f"post: {error}; pass all draws that bd.sample returned.") from None
    return whole


def _joined(group: xr.Dataset, prior: Any) -> xr.Dataset:
    """Inverse of :func:`parted` for a posterior: join weights of features and effects."""
    if not isinstance(prior, RandomEffects) or prior.terms[0] not in group:
        return group
    import xarray as xr

    for dim, levels in zip(prior.dims(), prior.levels, strict=True):
        group = by_label(group, dim, levels)
    variables = {
        str(name): part.rename(feature=LEADING) if "feature" in part.dims else part
        for name, part in group.data_vars.items()
        if name not in prior.terms
    }
    parts, names = [group["weight"].transpose(..., "feature").drop_vars("feature")], list(group["feature"].values)
    for term, dim, levels in zip(prior.terms, prior.dims(), prior.levels, strict=True):
        parts.append(group[term].transpose(..., dim).drop_vars(dim).rename({dim: "feature"}))
        names += [f"{term}[{level}]" for level in levels]
    variables["weight"] = xr.concat(parts, "feature").transpose(*parts[0].dims)
    if prior.correlated:
        pair_parts = [
            by_label(variables.pop(f"{term}|correlation").to_dataset(name="r"), f"{term}|pair", pairs)["r"]
            .drop_vars(f"{term}|pair")
            .rename({f"{term}|pair": PAIR})
            for term, pairs in prior.pairs().items()
        ]
        variables["correlation"] = xr.concat(pair_parts, PAIR)
    scales = [variables[name] for name in ("weight_scale",) if name in variables]
    scales += [variables.pop(f"{term}|scale") for term in prior.learnt_terms]
    if scales:
        each = [part if "weight_group" in part.dims else part.expand_dims("weight_group", -1) for part in scales]
        variables["weight_scale"] = xr.concat(
            [part.drop_vars("weight_group", errors="ignore") for part in each], "weight_group"
        )
    return xr.Dataset(variables, attrs=group.attrs).assign_coords(feature=names)
