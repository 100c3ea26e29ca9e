"""Read the draws of a posterior with their model, and compute scores of rows from them.

Scores are computed in blocks of rows and draws, so that memory is bounded:

    mean and variance   in closed form, for all draws of a block as columns of one product
    one noised score    entry by entry, from the noise's own sampler

If the noise is centred, rows and intercepts are those of ``X − c``, see
:mod:`bayesdrop.fitting.objective.centring`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._memory import BLOCK
from ..._stored import stored_classes
from ..._typing import AnyArray, Bool, Float, Int, Num, Shaped
from ..._validation import check_count
from ...data.column_facts import ColumnFacts
from ...description import required_model, stored_facts, stored_feature_names
from ...designs import as_design
from ...losses.base import at_shape
from ...model import Model
from ...moments import ScoreMoments
from ...noise.base import centre_of
from ..arviz_groups.constants import PAIR, in_model_order
from ..arviz_groups.groups import dataset, group_names, read_attributes

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Draws", "Limits", "blocks", "draws_of", "read_draws", "read_group", "stored_constants", "stored_offset"]


@dataclass(frozen=True)
class Draws:
    """Draws of weights and rates, with chains concatenated, and their model.

    Attributes
    ----------
    model : Model
        The sampled model; the centre of its noise is None or numbers.
    feature_names : list of p str
        Columns.
    weight : array (S, p), or (S, K, p) for many classes
        Weights, in the precision in which they were stored.
    intercept : array (S,) or (S, K)
        Intercepts of ``X − c``, 0 if there is none.
    free_rate : array (S, k)
        Free rates.
    index : int array (p,)
        Free rate of each feature; ``k`` for a feature without noise.
    fixed_rate : array (p,) or None
        Rates of the features if none is free.
    C : array (S,)
        Loss weight: the model's, or for a learnt scale the factor on the loss of scale 1, ``1/σ²`` for normal
        responses.
    marginalised : bool
        True if the draws are those of ``exp(−U)``, with the noise averaged inside the loss.
    classes : array (K,) or None
        The user's labels; the negative class is the first of two.
    steps : dict of arrays
        Coordinates ``chain`` and ``draw``.
    has_offset : bool
        True if the scores have a known part, which new rows then need too.
    facts : ColumnFacts
        Formula and naming of the columns, for reading new rows.
    weight_scale : array (S, g) or None
        Learnt scales of the weights.
    parameter : array (S,) or None
        Learnt scale or shape of the likelihood.
    correlation : array (S, c) or None
        Correlations of the effects of random terms.
    """

    model: Model
    feature_names: list[str]
    weight: Float[np.ndarray, "S ..."]
    intercept: Float[np.ndarray, "S ..."]
    free_rate: Float[np.ndarray, "S k"]
    index: Int[np.ndarray, " p"]
    fixed_rate: Num[np.ndarray, " p"] | None
    C: Float[np.ndarray, " S"]
    marginalised: bool
    classes: Shaped[np.ndarray, " K"] | None
    steps: dict[str, Shaped[np.ndarray, " _"]]
    has_offset: bool = False
    facts: ColumnFacts = field(default_factory=ColumnFacts)
    weight_scale: Float[np.ndarray, "S g"] | None = None
    parameter: Float[np.ndarray, " S"] | None = None
    correlation: Float[np.ndarray, "S c"] | None = None

    def loss_of(self, part: Any, rank: int = 2, axis: int = -1, plain: bool = False) -> Any:
        """The loss, or its plain form, at the learnt shapes of some draws, for scores with the draws on ``axis``."""
        loss, values = self.model.loss.plain if plain else self.model.loss, self.parameter
        if values is None or self.model.loss.parameters[0].degree:
            return loss
        shape = [1] * rank
        shape[axis] = -1
        return at_shape(loss, {self.model.loss.parameters[0].field: values[part].reshape(shape)})

    def taken(self, part: Any) -> Draws:
        """Select draws, by a slice or an array of indices, as draws of one chain."""
        names = ("weight", "intercept", "free_rate", "C", "weight_scale", "parameter", "correlation")
        chosen = {name: getattr(self, name)[part] for name in names if getattr(self, name) is not None}
        steps = {"chain": np.zeros(1, int), "draw": np.arange(len(chosen["weight"]))}
        return replace(self, **chosen, steps=steps)

    @property
    def size(self) -> int:
        """Number ``S`` of draws."""
        return len(self.weight)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of chains, and of draws per chain."""
        return len(self.steps["chain"]), len(self.steps["draw"])

    @property
    def without_noise(self) -> Bool[np.ndarray, " p"]:
        """Features whose rate is 0 in all draws."""
        return self.index >= self.free_rate.shape[-1] if self.fixed_rate is None else self.fixed_rate == 0

    def rate(self, part: slice) -> Float[np.ndarray, "draws p"]:
        """Rates of the features, (draws, p), float64."""
        if self.fixed_rate is not None:
            return np.broadcast_to(self.fixed_rate, (len(self.weight[part]), len(self.fixed_rate)))
        return self.rate_of(part, self.index)

    def rate_of(self, chosen: Any, index: Int[np.ndarray, ...]) -> Float[np.ndarray, "draws ..."]:
        """Free rates ``index`` of some draws, 0 for the index ``k``, float64."""
        free = self.free_rate[chosen].astype(np.float64)
        # Rates that are 1 in single precision would divide by zero.
        every = np.clip(np.concatenate([free, np.zeros((*free.shape[:-1], 1))], axis=-1), 0.0, np.nextafter(1.0, 0.0))
        return every[..., index]

    def moments(
        self, design: Any, part: slice, corrupted_inputs: bool = False
    ) -> tuple[Float[AnyArray, "n draws"], Float[AnyArray, "n draws"]]:
        """Mean and variance of the score under the noise, (n, draws) each, without offsets."""
        weights = np.vstack([self.weight[part].T.astype(np.float64), self.intercept[part]])
        if corrupted_inputs:
            mean = design.matvec(weights[:-1]) + weights[-1]
            return mean, np.zeros_like(mean)
        rate = self.fixed_rate[:, None] if self.fixed_rate is not None else np.ascontiguousarray(self.rate(part).T)
        return ScoreMoments(design, self.model.noise, rate, self.model.fit_intercept).scores(weights)

    def noised_scores(
        self, X: Any, part: slice, generator: Any, corrupted_inputs: bool = False
    ) -> Float[np.ndarray, "n draws ..."]:
        """One score of each row under fresh noise, (n, draws) or (n, draws, K), for the draws of ``part``.

        All classes of a row see the same noise.
        """
        total = part.stop - part.start
        weight, intercept = self.weight[part].astype(np.float64), self.intercept[part].astype(np.float64)
        if corrupted_inputs:
            flat = as_design(X).matvec(np.ascontiguousarray(weight.reshape(intercept.size, weight.shape[-1]).T))
            return np.asarray(intercept + flat.reshape(-1, *intercept.shape))
        scores = np.repeat(intercept[None], X.shape[0], axis=0)
        every, weight = (
            scores.reshape(X.shape[0], total, -1),
            weight.reshape(total, scores[0, 0].size, weight.shape[-1]),
        )
        for rows, columns, values in self._entries(X):
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            for part_draws in blocks(total, len(values)):
                numbers = slice(part.start + part_draws.start, part.start + part_draws.stop)
                clean = np.broadcast_to(values, (part_draws.stop - part_draws.start, len(values)))
                noised = self.model.noise.sample(generator, clean, self.rate(numbers)[:, columns])
                for k in range(weight.shape[1]):
                    sums = np.add.reduceat(noised * weight[part_draws, k][:, columns], starts, axis=1)
                    every[rows[starts], part_draws, k] += sums.T
        return scores

    def log_exponential(self, X: Any) -> Float[np.ndarray, "n S"]:
        """``log E e^s`` for each row and draw under the noise, (n, S); infinite if the mean does not exist."""
        noise, limit = self.model.noise, self.model.noise.mgf_limit()
        logs = np.repeat(self.intercept[None].astype(np.float64), X.shape[0], axis=0)
        for rows, columns, values in self._entries(X):
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            for part in blocks(self.size, len(values)):
                weight = self.weight[part][:, columns].astype(np.float64)
                clean = np.broadcast_to(values, weight.shape)
                terms = noise.log_mgf(weight, clean, self.rate(part)[:, columns])
                terms = np.where(np.abs(weight) < limit, terms, np.inf)
                logs[rows[starts], part] += np.add.reduceat(terms, starts, axis=1).T
        return logs

    def _entries(
        self, X: Any
    ) -> Iterator[tuple[Int[np.ndarray, " e"], Int[np.ndarray, " e"], Float[np.ndarray, " e"]]]:
        """Entries that the noise may change, as ``(rows, columns, values)`` in blocks of whole rows."""
        coefficients = self.model.noise.coefficients(np.zeros(1))
        if np.any(coefficients.constant) or np.any(coefficients.shift):
            # Additive noise changes zeros too: make a few rows at a time dense.
            for rows in blocks(X.shape[0], X.shape[1]):
                block = X[rows].toarray() if hasattr(X, "toarray") else X[rows]
                row, column = np.indices(block.shape)
                yield row.ravel() + rows.start, column.ravel(), block.ravel().astype(np.float64)
            return
        for row, column, value in as_design(X).entries():
            yield row, column, value.astype(np.float64, copy=False)


@dataclass(frozen=True)
class Limits:
    """Limits on the memory of intermediate arrays.

    Attributes
    ----------
    block : int
        Maximum number of entries in an array.
    """

    block: int = BLOCK


LIMITS = Limits()


def blocks(total: int, size: int, maximum: int | None = None) -> Iterator[slice]:
    """Split ``range(total)`` into slices whose length times ``size`` is at most ``maximum``, with at least one each.

    By default ``maximum`` is ``LIMITS.block``.

    Examples
    --------
    >>> list(blocks(3, LIMITS.block // 2))
    [slice(0, 2, None), slice(2, 3, None)]
    """
    step = max(1, (LIMITS.block if maximum is None else maximum) // max(size, 1))
    for start in range(0, total, step):
        yield slice(start, min(start + step, total))


def read_group(post: Any, name: str, argument: str = "post") -> xr.Dataset:
    """Group of the result of ``bd.sample``; the error names the argument and what was passed instead."""
    try:
        names = group_names(post)
    except (AttributeError, TypeError):
        raise TypeError(
            f"{argument}: expected what bd.sample or bd.groups.load returned (InferenceData or DataTree), got "
            f"{type(post).__name__}."
        ) from None
    if name not in names:
        raise ValueError(
            f"{argument}: expected a group {name!r}, got {names}; give what bd.sample or bd.groups.load returned."
        )
    return dataset(post, name)


def read_draws(post: Any, thin: int | None = None) -> Draws:
    """Read draws and model from the result of ``bd.sample``, in memory or from a file.

    Parameters
    ----------
    post : InferenceData or DataTree
        As ``bd.sample`` or ``bd.groups.load`` returns it.
    thin : int, optional
        Number of draws of each chain to keep, evenly spaced; all by default.

    Raises
    ------
    TypeError
        If ``post`` is something else.
    ValueError
        If it lacks the posterior, the weights or the model; if the description of the model is damaged, or names
        user-defined components, which a file does not hold.
    """
    posterior = read_group(post, "posterior")
    attrs = read_attributes(post)
    try:
        model = required_model(attrs, "bd.sample", "bd.groups.load")
    except ValueError as error:
        raise ValueError(f"post: {error}") from None
    return draws_of(
        posterior,
        model,
        thin,
        marginalised=attrs.get("target") == "marginalised",
        classes=stored_classes(attrs),
        has_offset=stored_offset(post) is not None,
        facts=_stored_facts(attrs),
        feature_names=stored_feature_names(attrs),
    )


def _stored_facts(attrs: Mapping[str, Any]) -> ColumnFacts:
    try:
        return stored_facts(attrs)
    except ValueError as error:
        raise ValueError(f"post: {error}; the file was changed since bd.sample wrote it.") from None


def stored_constants(post: Any) -> Any:
    """The group ``constant_data``; empty if there is none."""
    return dataset(post, "constant_data") if "constant_data" in group_names(post) else {}


def stored_offset(post: Any) -> Float[np.ndarray, " n"] | None:
    """Offsets of the rows of the posterior, (n,); None if there are none."""
    constant = stored_constants(post)
    return constant["offset"].values if "offset" in constant else None


def draws_of(
    posterior: xr.Dataset,
    model: Model,
    thin: int | None = None,
    *,
    marginalised: bool,
    classes: Shaped[np.ndarray, " 2"] | None = None,
    has_offset: bool = False,
    facts: ColumnFacts | None = None,
    feature_names: list[str] | None = None,
) -> Draws:
    """Draws of a posterior group, given its model; see :func:`read_draws`."""
    posterior = in_model_order(posterior, model, feature_names, classes)
    many = ("class",) if model.loss.multiclass else ()

    def flat(name: str, *dims: str) -> Shaped[np.ndarray, "S ..."]:
        every = ("chain", "draw", *dims)
        if name not in posterior or set(posterior[name].dims) != set(every):
            came = posterior[name].dims if name in posterior else sorted(map(str, posterior.data_vars))
            raise ValueError(
                f"post: expected the variable {name!r} on {every} in the posterior, for {model!r}; got {came}."
            )
        values = posterior[name].transpose(*every).values
        return values.reshape(math.prod(values.shape[:2]), *values.shape[2:])

    if thin is not None:
        count = check_count(thin, "draws")
        if count > posterior.sizes["draw"]:
            raise ValueError(f"draws: expected at most the {posterior.sizes['draw']} of each chain, got {count}.")
        posterior = posterior.isel(draw=np.linspace(0, posterior.sizes["draw"] - 1, count).round().astype(int))
    weight = flat("weight", *many, "feature")
    total = len(weight)
    if total == 0:
        raise ValueError("post: expected at least one draw, got none.")
    names = [str(name) for name in posterior["feature"].values]
    rate_map = model.bind(names)
    free = flat("rate", rate_map.dim) if rate_map.is_free else np.zeros((total, 0))
    C, parameter = np.full(total, float(model.C)), None
    for learnt_parameter in model.loss.parameters:
        name = learnt_parameter.name
        parameter = flat(name).astype(np.float64)
        if not np.all(parameter > 0):
            raise ValueError(f"post: expected {name!r} above 0, got {parameter.min():g}; sample again.")
        C = parameter**-learnt_parameter.degree
    if np.any((free < 0) | (free > 1)):  # another check finds NaN
        raise ValueError(
            f"post: expected rates in [0, 1], got {free.min():g} to {free.max():g}; the file was changed since "
            "bd.sample drew them."
        )
    plain = np.zeros(weight.shape[:-1])
    intercept = flat("intercept", *many).astype(np.float64) if model.fit_intercept else plain
    centre = centre_of(model.noise)
    if centre is not None:
        if len(centre) != len(names):
            raise ValueError(f"post: expected a centre for each of {len(names)} features, got {len(centre)} of them.")
        intercept = intercept + weight.astype(np.float64) @ centre
    learnt, scale = model.weight_prior.learnt_scale(len(names)), None
    if learnt is not None and "weight_scale" in posterior:
        scale = flat("weight_scale", *learnt.dims).astype(np.float64).reshape(total, -1)
    label_count = weight.shape[1] if many else 2
    if classes is not None and len(classes) != label_count:
        raise ValueError(
            f"post: expected {label_count} labels in the attribute 'classes', for {model.loss!r}, got "
            f"{classes.tolist()}; the file was changed since bd.sample wrote it."
        )
    values = (weight, free, C, intercept)
    if not all(np.all(np.isfinite(part)) for part in values):
        raise ValueError("post: the draws are not finite (NaN or infinite weights, rates or noise); sample again.")
    correlation = flat("correlation", PAIR).astype(np.float64) if "correlation" in posterior else None
    return Draws(
        model=model, feature_names=names, weight=weight, intercept=intercept, free_rate=free, index=rate_map.index,
        fixed_rate=None if rate_map.is_free else rate_map.initial, C=C, marginalised=marginalised, classes=classes,
        steps={name: posterior[name].values for name in ("chain", "draw")}, has_offset=has_offset,
        facts=facts or ColumnFacts(), weight_scale=scale, parameter=parameter, correlation=correlation,
    )  # fmt: skip
