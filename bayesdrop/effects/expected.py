r"""Compute effects, and their uncertainty, from averages of expected responses over changed rows.

    A(changed) = (1/Σs) Σ_i s_i E f(s̃_i(changed x_i))

An effect is a function of a few such averages: a difference, a ratio, a ratio of odds. The rows are changed as a user
would change them, missing entries included, and then averaged as in :func:`bayesdrop.predict`. A posterior has a value
of the effect for each draw. A point fit without noise has a standard deviation by the delta method and Laplace's
approximation, from the gradients of the averages in the weights. The row weights ``s`` are weights of the average only,
not of the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri

from .._typing import Float, Num
from .._validation import check_choice, check_count, check_flag, check_instance, check_matrix, check_number, shown
from ..data.column_facts import complete_rows, in_order, offset_in
from ..data.formulas.encoder import FormulaEncoder
from ..data.frames import to_pandas
from ..designs import in_memory
from ..designs.rows import check_sample_weight
from ..fitting.results.laplace import why_no_covariance
from ..posterior.diagnostics.mixing import mixing
from ..posterior.draws.draws import Draws
from ..posterior.draws.new_rows import for_rows, match_design, match_offset
from .averages import RULES, Average, Averaged, Averages, average_response, column_means
from .naming import prediction_name
from .sources import PointFit, chosen_of, draws_of, point_fits
from .table import LAPLACE, interval_of, read_posterior
from .variables import Variables

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Effect", "EffectRows", "monte_carlo_errors"]


class Effect(NamedTuple):
    """A function of averages, in each of ``G`` groups of rows.

    Attributes
    ----------
    labels : list of G tuples
        Values of the label columns of the table.
    averages : list of callable
        Functions that return the averages. A function that occurs in several effects is called once.
    combine : callable
        Returns effects (G, S, ...) from averages (G, S, ..., a).
    """

    labels: list[tuple[Any, ...]]
    averages: list[Callable[[], Average]]
    combine: Callable[[Averages], Num[np.ndarray, "G ..."]]


@dataclass(frozen=True)
class EffectRows:
    """The result to describe, and the rows to average over.

    Attributes
    ----------
    sources : list of Draws
        Draws of a posterior, or one draw for each point fit.
    fits : list of PointFit or None
        The point fits; None for a posterior.
    X : features or table (n, ·)
        The rows: features in the order of the fit, NaN if missing, or a table of the columns that a formula names.
    variables : Variables or None
        Columns of the table; None without a formula.
    weight : array (n,)
        Row weights of the average, of sum 1.
    are_equal : bool
        Whether the weights are the default, equal ones.
    offset : array (n,) or None
        Known parts of the scores of the unchanged rows.
    has_own_offset : bool
        Whether the caller passed the offset; it then does not depend on changed columns.
    corrupted_inputs : bool
        Whether the rows are corrupted already.
    probability : float
        Probability content of the intervals.
    reference : mapping
        Reference level of factors.
    estimate : "mean" or "median"
        Summary of the draws in a table.
    """

    sources: list[Draws]
    fits: list[PointFit] | None
    X: Any
    variables: Variables | None
    weight: Float[np.ndarray, " n"]
    are_equal: bool
    offset: Float[np.ndarray, " n"] | None
    has_own_offset: bool
    corrupted_inputs: bool
    probability: float
    reference: Mapping[str, Any]
    estimate: str

    @classmethod
    def of(
        cls,
        result: Any,
        X: Any,
        average_weight: Any,
        corrupted_inputs: bool,
        offset: Any,
        draws: int | None,
        probability: float,
        reference: Mapping[str, Any] | None,
        estimate: str,
    ) -> EffectRows:
        """Read a fit, a posterior or an estimator, and rows for it; the arguments are those of ``marginal_effects``.

        Raises
        ------
        TypeError, ValueError
            If ``result`` has another type, the rows do not match it, or an argument is invalid.
        """
        probability = check_number(probability, "probability", above=0, below=1, advice="0.9, say")
        check_flag(corrupted_inputs, "corrupted_inputs")
        check_choice(estimate, "estimate", ("mean", "median"))
        if draws is not None:
            check_count(draws, "draws")
        check_instance(reference, "reference", Mapping, "a mapping from variable to level", none=True)
        fits = point_fits(result)
        corrupted_inputs = corrupted_inputs or bool(getattr(chosen_of(result), "arrives_noised", False))
        sources = [read_posterior(result, draws)] if fits is None else draws_of(fits, result, corrupted_inputs)
        first = sources[0]
        X, average_weight, offset = complete_rows(X, first.feature_names, first.facts, average_weight, offset)
        sources = [for_rows(one, X) for one in sources]
        first = sources[0]
        formula: Any = first.facts.encoder_of(X, first.feature_names)
        encoder: FormulaEncoder | None = None if formula is None else formula.encoder
        n = match_design(X, first.feature_names, first.model, first.facts).shape[0]
        if encoder is None:
            matrix = in_memory(in_order(X, first.feature_names, first.facts))
            X = check_matrix(matrix, ensure_all_finite="allow-nan")
        weight = check_sample_weight(average_weight, n, name="average_weight")
        rows = cls(
            sources=sources,
            fits=fits,
            X=X if encoder is None else to_pandas(X),
            variables=None if encoder is None else Variables(encoder, to_pandas(X)),
            weight=weight / weight.sum(),
            are_equal=average_weight is None,
            offset=match_offset(first, offset, n, X),
            has_own_offset=offset is not None,
            corrupted_inputs=corrupted_inputs,
            probability=probability,
            reference=reference or {},
            estimate=estimate,
        )
        unknown = [name for name in rows.reference if name not in rows.factors]
        if unknown:
            raise ValueError(
                f"reference: {unknown[0]!r} is not a factor of a formula; the factors are "
                f"{', '.join(map(repr, rows.factors)) or 'none'}."
            )
        return rows

    @property
    def factors(self) -> dict[str, list[Any]]:
        """Levels of each factor of the formula, by its column."""
        return {} if self.variables is None else self.variables.levels

    @property
    def names(self) -> list[str]:
        """Variables of a formula, without columns that only group random terms; or features."""
        return self.sources[0].feature_names if self.variables is None else self.variables.names

    def chosen(self, wanted: Any, argument: str) -> list[str]:
        """Requested variables: by default :attr:`names`; grouping columns of random terms only if named."""
        groups = [name for name in self.factors if name not in self.names]
        return _chosen(wanted, self.names if wanted is None else self.names + groups, argument)

    def observed(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, "1 n"]:
        """Weights (1, n) of the rows in which a variable is observed, of sum 1."""
        weight = np.where(np.isnan(values), 0.0, self.weight)
        return (weight / (weight.sum() or 1.0))[None]

    def values_of(self, name: str) -> Float[np.ndarray, " n"]:
        """Numbers of a variable in the rows, NaN if missing."""
        if self.variables is None:
            column = self.X[:, [self.names.index(name)]]
            column = column.toarray() if hasattr(column, "toarray") else column
        else:
            column = self.X[name].to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(column, dtype=np.float64).ravel()

    def at(self, values: Mapping[str, Any], weight: Float[np.ndarray, "... n"] | None = None) -> Average:
        """Average over the rows with some variables changed, each to an array or a number."""
        weight = np.atleast_2d(self.weight if weight is None else weight)
        if self.variables is not None:
            frame = _with_values(self.X, values)
            return Average(self.variables.encoder.transform(frame), weight, self._offset_of(frame))
        X = self.X
        for name, value in values.items():
            X = _with_column(X, self.names.index(name), value)
        return Average(X, weight, self.offset)

    def typical(self, values: Mapping[str, Any]) -> Average:
        """Prediction for a row of typical values, with some variables changed; effects of other random terms are 0."""
        if self.variables is not None:
            frame = _with_values(self.X.iloc[[0]], {**self.variables.typical, **values})
            return Average(self.variables.encode_typical(frame, values), np.ones((1, 1)), self._offset_of(frame))
        X = column_means(self.X, self.weight)[None]
        for name, value in values.items():
            X[:, self.names.index(name)] = value
        return Average(X, np.ones((1, 1)), None if self.offset is None else np.array([self.weight @ self.offset]))

    def _offset_of(self, frame: Any) -> Float[np.ndarray, " m"] | None:
        """Offset of the rows of a changed table; it may depend on the columns."""
        first = self.sources[0]
        offset = self.offset if self.has_own_offset else offset_in(frame, first.feature_names, first.facts, None)
        return offset if offset is None or len(offset) == len(frame) else np.full(len(frame), self.weight @ offset)

    def table(
        self, effects: Sequence[Effect], *, are_predictions: bool = False
    ) -> tuple[list[tuple[Any, ...]], dict[str, Any], dict[str, Any]]:
        """Labels, columns and attributes of effects; with many classes the rows are ordered by class.

        Intervals of predictions are computed on the scale of the score, so that probabilities stay between 0 and 1 and
        counts above 0.
        """
        labels = [label for effect in effects for label in effect.labels]
        columns = [
            self._columns(self._found(effects, k), source, k, are_predictions) for k, source in enumerate(self.sources)
        ]
        classes = self._classes()
        if classes is not None:
            labels = [(label, *more) for label in classes for more in labels]
        joined = {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
        first = self.sources[0]
        several = self.fits is not None and len(self.fits) > 1
        attrs = {
            "prediction": prediction_name(
                first.model.loss, ["others", "class"] if several else first.classes, first.facts.formula
            ),
            "probability": self.probability,
            "average_weight": "equal" if self.are_equal else "as given",
        }
        if self.fits is None:
            return labels, joined, {"interval": interval_of(self.sources[0]), "draws": self.sources[0].size} | attrs
        reason, remedy = why_no_covariance(self.fits[0].fit)
        if reason:
            joined["interval"] = np.full(len(labels), remedy, dtype=object)
        kind = f"none, for {reason}; {remedy}" if reason else f"delta method, {LAPLACE}"
        return labels, joined, {"interval": kind} | attrs

    def draws(self, effects: Sequence[Effect], name: str, dim: str, names: Sequence[str]) -> xr.DataArray:
        """Draws of the effects of a posterior, on chain, draw, class if there are many, and ``dim``.

        ``names`` are the names of the labels, which become coordinates along ``dim``.
        """
        import xarray as xr

        if self.fits is not None:
            raise ValueError("as_draws: a point fit has no draws; leave it out, or pass what bd.sample returned.")
        source, classes = self.sources[0], self._classes()
        values = np.moveaxis(self._found(effects, 0).values, 0, -1)  # (S, R) or (S, K, R)
        dims = ("chain", "draw", *(() if classes is None else ("class",)), dim)
        labels = [label for effect in effects for label in effect.labels]
        coords: dict[str, Any] = {} if classes is None else {"class": list(classes)}
        for j, label in enumerate(names):
            while label in coords or (label in dims and label != dim):  # a column may have the name of a dim
                label += "_"
            coords[label] = (dim, [row[j] for row in labels])
        attrs = {"average_weight": "equal" if self.are_equal else "as given"}
        return xr.DataArray(
            values.reshape(*source.shape, *values.shape[1:]), dims=dims, coords=source.steps | coords, name=name,
            attrs=attrs,
        )  # fmt: skip

    def _classes(self) -> Sequence[Any] | None:
        first = self.sources[0]
        if self.fits is not None and len(self.fits) > 1:
            return [one.label for one in self.fits]
        if first.weight.ndim > 2:
            return list(range(first.weight.shape[1])) if first.classes is None else [str(c) for c in first.classes]
        return None

    def _found(self, effects: Sequence[Effect], k: int) -> Averaged:
        """Values of all effects for one source, and their gradients."""
        draws = self.sources[k]
        has_gradient = self.fits is not None and self.fits[k].fit.covariance is not None
        computed: dict[Callable[[], Average], Averaged] = {}
        values, gradients = [], []
        for effect in effects:
            for make in effect.averages:
                if make not in computed:
                    computed[make] = average_response(draws, make(), self.corrupted_inputs, has_gradient)
            parts = [computed[make] for make in effect.averages]
            averages = np.stack([part.values for part in parts], axis=-1)
            values.append(effect.combine(averages))
            slopes: Any = 0.0
            for j, part in enumerate(parts):
                if part.gradient is not None:
                    # Complex-step derivative: the imaginary part at a tiny imaginary step is the slope, without
                    # cancellation.
                    moved = averages + 1e-30j * (np.arange(len(parts)) == j)
                    slopes = slopes + (effect.combine(moved).imag / 1e-30)[:, 0, ..., None] * part.gradient
            gradients.append(slopes)
        return Averaged(np.concatenate(values), np.concatenate(gradients) if has_gradient else None)

    def _columns(
        self, averaged: Averaged, draws: Draws, k: int, are_predictions: bool
    ) -> dict[str, Float[np.ndarray, " rows"]]:
        """Columns of a table, ordered by class."""
        values = np.moveaxis(averaged.values, 0, -1)
        flat = values.reshape(len(values), -1)
        if self.fits is None:
            tails = [(1 - self.probability) / 2, (1 + self.probability) / 2]
            low, high = np.quantile(flat, tails, axis=0)
            error = monte_carlo_errors(flat, draws.shape[0])
            middle = np.mean if self.estimate == "mean" else np.median
            return {"effect": middle(flat, axis=0), "sd": flat.std(axis=0), "low": low, "high": high, "mcse": error}
        covariance = self.fits[k].fit.covariance
        if averaged.gradient is None or covariance is None:
            return {"effect": flat[0]}
        gradient = np.moveaxis(averaged.gradient, 0, -2).reshape(flat.shape[1], -1)
        variance = np.einsum("rd,de,re->r", gradient, covariance, gradient)
        effect, loss, sd = flat[0], draws.model.loss, np.sqrt(np.maximum(variance, 0))
        reach = ndtri((1 + self.probability) / 2) * sd
        if are_predictions and (loss.binary or loss.multiclass or loss.ratio == "odds_ratio"):
            # Nearer to 0 or 1 the rounding error of the slope may be more than a tenth of it, and nothing is known.
            spread = effect * (1 - effect)
            is_known = spread > 10 * np.finfo(np.float64).eps / RULES.intercept
            middle, reach = (
                logit(np.where(is_known, effect, 0.5)),
                np.where(is_known, reach / np.where(is_known, spread, 1), np.inf),
            )
            low, high = expit(middle - reach), expit(middle + reach)
        elif are_predictions and loss.ratio == "rate_ratio":
            low, high = effect * np.exp(-reach / effect), effect * np.exp(reach / effect)
        else:
            low, high = effect - reach, effect + reach
        return {"effect": effect, "sd": sd, "low": low, "high": high}


def _chosen(features: Any, names: Sequence[str], argument: str) -> list[str]:
    """Requested names of features, a text or a list; raise ValueError for unknown ones."""
    if not names:
        raise ValueError(f"{argument}: the model has no features, so that none can change; fit one that has a term.")
    if features is None:
        return list(names)
    features = [features] if isinstance(features, str) else features
    named = not isinstance(features, bytes) and isinstance(features, Sequence | np.ndarray | Mapping)
    wanted = [str(name) for name in features] if named else []
    unknown = [name for name in wanted if name not in names]
    if not wanted or unknown or len(set(wanted)) < len(wanted):
        raise ValueError(
            f"{argument}: expected a list of different names among {list(names)[:5]}{' …' * (len(names) > 5)}, got "
            f"{shown(features)}."
        )
    return wanted


def _with_values(frame: Any, values: Mapping[str, Any]) -> Any:
    """Copy of a table with other values in some columns."""
    changed = frame.copy(deep=False)
    for name, value in values.items():
        changed[name] = value
    return changed


def _with_column(X: Any, d: int, value: Any) -> Any:
    """Copy of features with other values in a column; sparse rows stay sparse."""
    if not hasattr(X, "nnz"):
        changed = np.array(X, dtype=np.float64)
        changed[:, d] = value
        return changed
    from scipy.sparse import csc_array, csr_array, hstack

    columns = csc_array(X, dtype=np.float64)
    column = csc_array(np.broadcast_to(value, X.shape[0])[:, None])
    return csr_array(hstack([columns[:, :d], column, columns[:, d + 1 :]]))


def monte_carlo_errors(effects: Float[np.ndarray, "S rows"], chains: int) -> Float[np.ndarray, " rows"]:
    """Monte Carlo standard errors of mean effects, from the draws of chains, concatenated."""
    import xarray as xr

    by_chain = effects.reshape(chains, len(effects) // chains, -1)
    dims = ("chain", "draw", "row")
    ess = mixing(xr.Dataset({"effect": (dims, by_chain)}))["ess_bulk"]["effect"].values
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Float[np.ndarray, " rows"] = by_chain.std(axis=(0, 1)) / np.sqrt(ess)
    # A constant effect has the error 0; with three draws per chain or fewer the error is unknown.
    return np.where(np.isnan(ess), 0.0, np.where(ess > 0, error, np.nan))
