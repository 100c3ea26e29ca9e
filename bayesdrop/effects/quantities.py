"""Read the quantities that a hypothesis such as ``"age > 0"`` may name, with their draws, for ``bd.hypothesis``.

Posteriors and effects have draws. A fit without noise has the normal distribution of Laplace's approximation for its
weights, represented by points of a Sobol sequence.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from .._typing import Float
from ..description import stored_model
from ..fitting.results.laplace import why_no_covariance
from ..fitting.results.result import Fit
from ..model import Model
from ..posterior.draws.draws import read_group
from .averages import RULES
from .contrasts import contrasts_of
from .sources import point_fits
from .table import LAPLACE, interval_of, read_posterior

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Quantities", "read_quantities"]

_CHAIN_DRAW = ("chain", "draw")

OneDraws = Float[np.ndarray, " S"]
ManyDraws = Float[np.ndarray, "S m"]


@dataclass(frozen=True)
class Quantities:
    """Named quantities and their draws.

    Attributes
    ----------
    names : list of str
        Names that a hypothesis may use.
    draw : callable
        Returns the joint draws (S, names), float64, of a sequence of names.
    chains : int
        Number of chains, whose draws are concatenated; 0 for a normal distribution.
    kind : str
        Description of the intervals.
    unclear : dict from name to text
        Ambiguous names, and what to write instead.
    shared : list of dicts from name to number
        Changes of weights and intercepts that alter no score without noise: +1 for all levels of a factor, −1 for the
        intercept, or for the weight of lower order, with which their mean is confounded.
    """

    names: list[str]
    draw: Callable[[Sequence[str]], ManyDraws] = field(repr=False)
    chains: int
    kind: str
    unclear: dict[str, str]
    shared: list[dict[str, float]] = field(default_factory=list, repr=False)


def read_quantities(result: Any) -> Quantities:
    """Read the quantities of a posterior, of draws of effects, of a fit or of an estimator.

    Raises
    ------
    TypeError, ValueError
        If ``result`` is something else, or has neither draws nor a normal approximation.
    """
    import xarray as xr

    if isinstance(result, xr.DataArray):
        return _of_effects(result)
    fits = point_fits(result)
    if fits is None:
        if hasattr(result, "columns"):
            raise TypeError("result: expected draws, got a table; make the effects with as_draws=True.")
        return _of_posterior(result)
    if len(fits) > 1:
        raise ValueError(
            f"result: expected one fit, got {len(fits)}, one for each class against all others, which have no joint "
            "law; fit bd.Model(bd.Softmax()), or one class."
        )
    return _of_fit(fits[0].fit)


def _of_effects(effects: xr.DataArray) -> Quantities:
    """Effects, named by their labels: ``age``, ``site[s - n]``, ``prediction[50, s]``; with classes ``age[yes]``."""
    other = [str(dim) for dim in effects.dims if dim not in (*_CHAIN_DRAW, "class")]
    if not set(_CHAIN_DRAW) <= set(effects.dims) or len(other) != 1:
        raise ValueError(
            "result: expected effects with as_draws=True, on chain, draw, class if there are many, and one more dim, "
            f"got {effects.dims}."
        )
    (dim,) = other
    effects = effects.transpose(*_CHAIN_DRAW, ..., dim)
    labels = [coord.values for coord in effects.coords.values() if coord.dims == (dim,)]
    rows = [[_text(label[j]) for label in labels] for j in range(effects.sizes[dim])]
    if dim == "point":
        rows = [[str(effects.name), *row] for row in rows]
    classes = [[str(label)] for label in effects["class"].values] if "class" in effects.dims else [[]]
    names = [_named(row[0], [*class_labels, *row[1:]]) for class_labels in classes for row in rows]
    repeated = {name: "two of the effects have this name" for name in names if names.count(name) > 1}
    columns = dict(zip(names, _flat(effects).T, strict=True))
    kind = f"posterior, equal tails of {effects.sizes['chain'] * effects.sizes['draw']} draws"
    return Quantities(names, lambda chosen: _stacked([columns[name] for name in chosen]), effects.sizes["chain"], kind,
                      repeated)  # fmt: skip


def _of_posterior(post: Any) -> Quantities:
    """All variables (``weight[age]``), and weights named by feature (``age``) or difference of levels."""
    posterior = read_group(post, "posterior", "result")
    getters: dict[str, Callable[[], OneDraws]] = {}
    for variable, array in posterior.data_vars.items():
        array = array.transpose(*_CHAIN_DRAW, ...)
        labels = itertools.product(*(array.get_index(dim) for dim in array.dims[2:]))
        flat = _flat(array)
        for k, label in enumerate(labels):
            getters[_named(str(variable), [str(part) for part in label])] = lambda flat=flat, k=k: flat[:, k]  # type: ignore[misc]
    size, chains = posterior.sizes["chain"] * posterior.sizes["draw"], posterior.sizes["chain"]
    kind, unclear, shared = f"posterior, equal tails of {size} draws", dict[str, str](), list[dict[str, float]]()
    if "weight" in posterior and stored_model({**getattr(post, "attrs", {}), **posterior.attrs}) is not None:
        draws = read_posterior(post)
        weight, kind = draws.weight.reshape(size, -1), interval_of(draws)
        classes = posterior["class"].values if draws.weight.ndim > 2 and draws.classes is None else draws.classes
        classes = classes if draws.weight.ndim > 2 else None
        shared = _shared(draws.feature_names, draws.facts.formula, classes, draws.model)
        for name, place, factor in _weights(draws.feature_names, draws.facts.formula, classes):
            if name in getters and f"weight[{name}]" in getters:
                unclear[name] = f"write weight[{name}] for the weight of the feature"
            getters[name] = lambda place=place, factor=factor: weight[:, place].astype(np.float64) @ factor  # type: ignore[misc]
    for name in unclear:
        del getters[name]
    return Quantities(
        list(getters), lambda chosen: _stacked([getters[name]() for name in chosen]), chains, kind, unclear, shared
    )


def _of_fit(fit: Fit) -> Quantities:
    """Weights and intercepts, from the normal approximation to a fit without noise."""
    covariance = fit.covariance
    if covariance is None:
        reason, remedy = why_no_covariance(fit)
        raise ValueError(f"result: the fit has no law of its weights, for {reason}; {remedy}.")
    weight = np.atleast_2d(fit.weight)
    classes, (K, p) = (fit.classes if np.ndim(fit.weight) > 1 else None), weight.shape
    centre = np.column_stack([weight, np.reshape(fit.intercept, (K, 1))]).ravel()
    rows: dict[str, tuple[Any, Any]] = {}
    for name, place, factor in _weights(fit.feature_names, fit.facts.formula, classes, long_names=True):
        rows[name] = (np.asarray(place) // p * (p + 1) + np.asarray(place) % p, factor)
    unclear = {"intercept": "write weight[intercept] for the weight of the feature"} if "intercept" in rows else {}
    for k, label in enumerate([None] if classes is None else list(classes)):
        rows[_named("intercept", [] if label is None else [str(label)])] = (np.array([k * (p + 1) + p]), np.ones(1))

    def draw(chosen_names: Sequence[str]) -> ManyDraws:
        factors = np.zeros((len(chosen_names), len(centre)))
        for j, name in enumerate(chosen_names):
            factors[j, rows[name][0]] = rows[name][1]
        return _normal_points(factors @ centre, factors @ covariance @ factors.T)

    shared = _shared(fit.feature_names, fit.facts.formula, classes, fit.model)
    return Quantities([name for name in rows if name not in unclear], draw, 0, f"{LAPLACE}, {RULES.law} points",
                      unclear, shared)  # fmt: skip


def _weights(
    names: list[str], formula: Any, classes: Any, long_names: bool = False
) -> Iterator[tuple[str, Any, Float[np.ndarray, " m"]]]:
    """Names of weights and of differences of levels, with the positions in ``weight.ravel()`` (K p,) and the factors.

    Without classes a weight has the name of its feature, and with ``long_names`` also ``weight[age]``.
    """
    p, shown = len(names), contrasts_of(formula, "reference")
    for k, label in enumerate([None] if classes is None else list(classes)):
        class_labels = [] if label is None else [str(label)]
        for j, name in enumerate(names):
            if label is None:
                yield name, np.array([j]), np.ones(1)
            if long_names:
                yield _named("weight", [*class_labels, name]), np.array([k * p + j]), np.ones(1)
        for r, name in enumerate([] if shown is None else shown.names):
            if shown is not None and name not in names:
                row = shown.matrix[[r]].tocoo()
                yield (
                    name if label is None else _named("weight", [*class_labels, name]),
                    k * p + row.coords[1],
                    row.data,
                )


def _shared(names: list[str], formula: Any, classes: Any, model: Model) -> list[dict[str, float]]:
    """``Quantities.shared``, with every name of each weight and intercept."""
    shown, found = contrasts_of(formula, "reference"), []
    for class_label in [[]] if classes is None else [[str(label)] for label in classes]:
        aliases = [[*([] if class_label else [name]), _named("weight", [*class_label, name])] for name in names]
        for levels, lower in () if shown is None else shown.shared:
            if lower or model.fit_intercept:
                lowered = [name for j in lower for name in aliases[j]] or [_named("intercept", class_label)]
                found.append(dict.fromkeys(lowered, -1.0) | {name: 1.0 for j in levels for name in aliases[j]})
    return found


def _normal_points(mean: Float[np.ndarray, " m"], covariance: Float[np.ndarray, "m m"]) -> ManyDraws:
    """Points of a normal distribution, with its mean, and its standard deviations to a few parts in 10,000.

    Examples
    --------
    >>> points = _normal_points(np.array([1.0]), np.array([[4.0]]))
    >>> np.quantile(points[:, 0], [0.05, 0.5]).round(3).tolist(), float(points.std().round(3))
    ([-2.289, 1.0], 2.0)
    """
    from scipy.stats.qmc import Sobol

    unit = np.sqrt(np.maximum(covariance.diagonal(), np.finfo(float).tiny))
    value, vector = np.linalg.eigh(covariance / unit[:, None] / unit)
    root = unit[:, None] * vector[:, ::-1] * np.sqrt(np.maximum(value[::-1], 0.0))
    # Without scrambling each coordinate has every multiple of 1/n once; shift them to the middles of strata.
    points = Sobol(len(mean), scramble=False).random(RULES.law) + 0.5 / RULES.law
    return np.asarray(mean + ndtri(points) @ root.T)


def _flat(array: xr.DataArray) -> ManyDraws:
    """Draws (S, m) of an array (chain, draw, …), chains concatenated."""
    return np.asarray(array.values).reshape(array.sizes["chain"] * array.sizes["draw"], -1)


def _stacked(columns: list[OneDraws]) -> ManyDraws:
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def _text(label: Any) -> str:
    return f"{label:g}" if isinstance(label, float | np.floating) else str(label)


def _named(name: str, labels: Sequence[str]) -> str:
    return f"{name}[{', '.join(labels)}]" if labels else name
