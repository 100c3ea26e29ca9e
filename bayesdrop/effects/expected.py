r"""Expected responses averaged over rows, at changed rows, with their uncertainty: what effects are made of.

    A(changed) = (1/Σs) Σ_i s_i E f(s̃_i(changed x_i))

An effect is a function of a few such averages: a difference, a quotient, a quotient of odds. Of a posterior it has a
value for each draw. Of a point fit without noise its standard deviation is by the delta method, from Laplace's
approximation; the averages are then had at weights moved by a thousandth of a standard deviation each way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri

from .._typing import Float
from .._validation import check_count, check_flag, check_instance, check_number
from ..data.column_facts import offset_in, response_in
from ..data.formulas.encoder import FormulaEncoder, StoredFormula
from ..data.frames import to_pandas
from ..designs.rows import check_sample_weight
from ..noise.base import centre_of
from ..posterior.diagnostics.mixing import mixing
from ..posterior.draws.draws import Draws, blocks
from ..posterior.draws.new_rows import draws_of_fit, for_rows, match_columns, match_design, match_offset
from ..posterior.noise_average.probability import expected_response
from .laplace import laplace_covariance, why_no_covariance
from .sources import PointFit, point_fits
from .table import LAPLACE, POSTERIOR, USE_SAMPLE, no_interval, read_posterior

__all__ = ["Average", "Effect", "EffectRows"]

Averages = Float[np.ndarray, "S ..."]  # the averages of an effect, (S, ..., a)


class Average(NamedTuple):
    """Rows to average expected responses over.

    Attributes
    ----------
    matrix : array or scipy sparse (m, p)
        Changed features.
    weight : array (m,)
        What multiplies each row's expected response in the sum.
    offset : array (m,) or None
        Known parts of their scores.
    """

    matrix: Any
    weight: Float[np.ndarray, " m"]
    offset: Float[np.ndarray, " m"] | None = None


class Effect(NamedTuple):
    """A function of averages.

    Attributes
    ----------
    label : tuple of str
        What it is called in the table.
    averages : callable
        Makes the averages when they are needed.
    combine : callable
        From averages (S, ..., a) to effects (S, ...).
    """

    label: tuple[Any, ...]
    averages: Callable[[], list[Average]]
    combine: Callable[[Averages], Float[np.ndarray, "S ..."]]


@dataclass(frozen=True)
class EffectRows:
    """The result to describe, and the rows to average over.

    Attributes
    ----------
    sources : list of Draws
        Draws of a posterior, or of each point fit one.
    fits : list of PointFit or None
        The point fits; None of a posterior.
    X : features or table (n, ·)
        The rows as they came.
    frame : pandas.DataFrame or None
        The rows, if they are a table of the columns that a formula names.
    encoder : FormulaEncoder or None
        That formula.
    weight : array (n,)
        Row weights, of sum 1.
    offset : array (n,) or None
        Known parts of the scores, of rows as they came.
    """

    sources: list[Draws]
    fits: list[PointFit] | None
    X: Any
    frame: Any
    encoder: FormulaEncoder | None
    weight: Float[np.ndarray, " n"]
    offset: Float[np.ndarray, " n"] | None
    offset_given: bool
    corrupted_inputs: bool
    y: Any
    sample_weight: Any
    probability: float
    reference: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        result: Any,
        X: Any,
        y: Any,
        sample_weight: Any,
        corrupted_inputs: bool,
        offset: Any,
        draws: int,
        probability: float,
        reference: Mapping[str, Any] | None = None,
    ) -> EffectRows:
        """Read a fit, a posterior or an estimator, and rows for it; the arguments are those of ``marginal_effects``.

        Raises
        ------
        TypeError, ValueError
            If ``result`` is something else, the rows do not fit it, or an argument is not what it may be.
        """
        probability = check_number(probability, "probability", above=0, below=1, advice="0.9, say")
        check_flag(corrupted_inputs, "corrupted_inputs")
        check_count(draws, "draws")
        check_instance(reference, "reference", Mapping, "a mapping from variable to level", none=True)
        fits = point_fits(result)
        if fits is None and y is not None:
            raise ValueError("y: a posterior has the intervals in its draws; leave y out.")
        sources = (
            [for_rows(read_posterior(result, draws), X)] if fits is None else [draws_of_fit(one.fit) for one in fits]
        )
        first = sources[0]
        formula: Any = first.facts.encoder_of(X, first.feature_names)
        encoder = formula.encoder if isinstance(formula, StoredFormula) else formula
        rows_of_fit = y is not None
        if fits is not None:
            y = response_in(X, first.feature_names, first.facts, y)
        design = match_design(X, first.feature_names, first.model, first.facts)
        weight = check_sample_weight(sample_weight, design.shape[0])
        rows = cls(
            sources=sources,
            fits=fits,
            X=design.matrix() if encoder is None else X,
            frame=None if encoder is None else to_pandas(X),
            encoder=encoder,
            weight=weight / weight.sum(),
            offset=match_offset(first, offset, design.shape[0], X),
            offset_given=offset is not None,
            corrupted_inputs=corrupted_inputs or bool(getattr(result, "corrupted_inputs", False)),
            y=y,
            sample_weight=sample_weight,
            probability=probability,
            reference=reference or {},
        )
        strange = [name for name in rows.reference if name not in rows.factors]
        if strange:
            raise ValueError(
                f"reference: {strange[0]!r} is not a factor of a formula; the factors are "
                f"{', '.join(map(repr, rows.factors)) or 'none'}."
            )
        return rows if rows_of_fit or y is None else rows._with_rows_of_fit()

    def _with_rows_of_fit(self) -> EffectRows:
        """Without the responses of a table, if its rows are not those of the fit, which has no intervals then."""
        try:
            self._varied()
        except ValueError:
            return replace(self, y=None)
        return self

    @property
    def reason(self) -> str:
        """Why a point fit has no intervals, in words; empty if it has, or nothing was asked for."""
        if not self.fits or self.y is None:
            return ""
        return next(filter(None, (why_no_covariance(one.fit) for one in self.fits)), "")

    @property
    def factors(self) -> dict[str, list[Any]]:
        """Levels of each factor of the formula, by its column."""
        known = {} if self.encoder is None else self.encoder.columns
        return {name: facts["levels"] for name, facts in known.items() if "levels" in facts}

    def changed(self, frame: Any, weight: Float[np.ndarray, " m"]) -> Average:
        """An average over the rows of a changed table, whose offset changes with its columns."""
        assert self.encoder is not None
        first = self.sources[0]
        offset = self.offset if self.offset_given else offset_in(frame, first.feature_names, first.facts, None)
        if offset is not None and len(offset) != len(frame):
            offset = np.full(len(frame), float(np.mean(offset)))
        return Average(self.encoder.transform(frame), weight, offset)

    def table(
        self, effects: Iterable[Effect], *, are_predictions: bool = False
    ) -> tuple[list[tuple[Any, ...]], dict[str, Any], str]:
        """Labels, columns and kind of interval of effects; of many classes the rows go class after class.

        Intervals of predictions are made on the scale of the score, so that those of probabilities lie between 0 and 1
        and those of counts above 0.
        """
        varied = self._varied()
        labels: list[tuple[Any, ...]] = []
        values: list[list[Any]] = [[] for _ in varied]
        for effect in effects:
            averages = effect.averages()
            labels.append(effect.label)
            for k, (draws, _) in enumerate(varied):
                parts = [self._average(draws, average) for average in averages]
                values[k].append(effect.combine(np.stack(parts, axis=-1)))
        columns: list[dict[str, Any]] = []
        for found, (draws, covariance) in zip(values, varied, strict=True):
            per = np.stack(found, axis=-1)  # (S, effects) or (S, K, effects)
            columns.append(self._columns(per, draws, covariance, are_predictions))
        classes = self._classes()
        if classes is not None:
            labels = [(label, *more) for label in classes for more in labels]
        joined = {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
        kind = POSTERIOR if self.fits is None else f"delta method, {LAPLACE}" if self.y is not None else ""
        if self.reason:
            joined["interval"], kind = np.full(len(labels), USE_SAMPLE, dtype=object), no_interval(self.reason)
        return labels, joined, kind

    def _classes(self) -> Sequence[Any] | None:
        first = self.sources[0]
        if self.fits is not None and len(self.fits) > 1:
            return [one.label for one in self.fits]
        if first.weight.ndim > 2:
            return list(range(first.weight.shape[1])) if first.classes is None else [str(c) for c in first.classes]
        return None

    def _varied(self) -> list[tuple[Draws, Float[np.ndarray, "D D"] | None]]:
        """Draws of each source; of a fit with intervals it, and it with each weight moved, and their covariance."""
        if self.fits is None or self.y is None or self.reason:
            return [(source, None) for source in self.sources]
        pairs: list[tuple[Draws, Float[np.ndarray, "D D"] | None]] = []
        for one, draws in zip(self.fits, self.sources, strict=True):
            y, weight = one.rows(self.X, self.y, self.sample_weight)
            covariance = laplace_covariance(one.fit, self.X, y, weight)
            step = 1e-3 * np.sqrt(np.maximum(np.diagonal(covariance), 0))
            moves = np.vstack([np.zeros(len(step)), np.diag(step), -np.diag(step)])
            inward = moves.reshape(len(moves), -1, draws.weight.shape[-1] + 1)
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
            pairs.append((varied, covariance))
        return pairs

    def _columns(
        self,
        values: Float[np.ndarray, "S ..."],
        draws: Draws,
        covariance: Float[np.ndarray, "D D"] | None,
        are_predictions: bool,
    ) -> dict[str, Float[np.ndarray, " rows"]]:
        """Columns of a table from effects (S, effects) or (S, K, effects)."""
        flat = values.reshape(len(values), -1)
        if self.fits is None:
            tails = [(1 - self.probability) / 2, (1 + self.probability) / 2]
            low, high = np.quantile(flat, tails, axis=0)
            error = _monte_carlo_errors(flat, draws.shape[0])
            return {"effect": flat.mean(axis=0), "sd": flat.std(axis=0), "low": low, "high": high, "mcse": error}
        if covariance is None:
            return {"effect": flat[0]}
        size = len(covariance)
        step = 1e-3 * np.sqrt(np.maximum(np.diagonal(covariance), 0))
        able = step > 0
        slopes = (flat[1 : size + 1] - flat[size + 1 :]) / np.where(able, 2 * step, 1.0)[:, None] * able[:, None]
        sd = np.sqrt(np.maximum(np.einsum("ja,jk,ka->a", slopes, covariance, slopes), 0))
        reach, effect, loss = ndtri((1 + self.probability) / 2) * sd, flat[0], draws.model.loss
        if are_predictions and (loss.binary or loss.multiclass):
            reach = reach / (effect * (1 - effect))
            low, high = expit(logit(effect) - reach), expit(logit(effect) + reach)
        elif are_predictions and loss.ratio == "rate_ratio":
            low, high = effect * np.exp(-reach / effect), effect * np.exp(reach / effect)
        else:
            low, high = effect - reach, effect + reach
        return {"effect": effect, "sd": sd, "low": low, "high": high}

    def _average(self, draws: Draws, rows: Average) -> Float[np.ndarray, "S ..."]:
        """Weighted sum of the expected responses of some rows, (S,) or (S, K)."""
        classes = draws.weight.shape[1:-1]
        total = np.zeros((draws.size, *classes))
        for part in blocks(rows.matrix.shape[0], draws.size * max(int(np.prod(classes)), 1)):
            X = match_columns(rows.matrix[part], draws)
            known = None if rows.offset is None else rows.offset[part]
            values = expected_response(draws, X, self.corrupted_inputs, known)
            total += np.tensordot(rows.weight[part], values, axes=1)
        return total


def _monte_carlo_errors(effects: Float[np.ndarray, "S rows"], chains: int) -> Float[np.ndarray, " rows"]:
    """Monte Carlo standard errors of mean effects, from draws of chains one after the other."""
    import xarray as xr

    by_chain = effects.reshape(chains, len(effects) // chains, -1)
    dims = ("chain", "draw", "row")
    ess = mixing(xr.Dataset({"effect": (dims, by_chain)}))["ess_bulk"]["effect"].values
    with np.errstate(divide="ignore", invalid="ignore"):
        error: Float[np.ndarray, " rows"] = by_chain.std(axis=(0, 1)) / np.sqrt(ess)
    # What does not vary has none; of three draws of a chain or fewer none is known.
    return np.where(np.isnan(ess), 0.0, np.where(ess > 0, error, np.nan))
