r"""Score rows outside the fit by their log predictive densities: new rows, or the folds of a cross-validation.

    elpd = Σ_i log (1/S) Σ_s p(y_i | w_s, b_s, η_s),      se = √(n Var_i)

with the noise of each row averaged over, as in :mod:`.pointwise` (Vehtari, Gelman & Gabry 2017, equations 1 and 23).
Leave-one-out scores (``bd.loo``) need no second run; prefer them if their Pareto k are small. ``bd.kfold`` is for large
Pareto k, and ``bd.elpd`` for separate test rows.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import logsumexp

from .._display import Shown
from .._typing import Float, Int, PerRow
from .._validation import check_count, check_instance, check_seed, one_per_row, shown, takes_seed
from ..data.column_facts import complete_rows, response_in
from ..data.dataset import read_rows
from ..data.responses import code_response
from ..designs import as_local_design, as_sampling_design
from ..designs.rows import check_sample_weight
from ..fitting.by_formula import FormulaOptions, RowArguments, read_formula
from ..fitting.results.result import Fit
from ..fitting.tuning.folds import one_kind, split
from ..model import Model, check_model
from .arviz_groups.groups import group_names
from .draws.draws import Draws, read_draws
from .draws.new_rows import NewRows, for_rows, match_offset, match_rows, read_result, with_unseen
from .sampling import sample
from .scores.pointwise import row_log_likelihoods, stored_response, warn_of_pseudo_likelihood

__all__ = ["Elpd", "elpd", "kfold", "row_folds"]


@dataclass(frozen=True, repr=False)
class Elpd(Shown):
    """Expected log predictive density of rows that were held out; larger is better.

    Attributes
    ----------
    pointwise : array (n,)
        Log predictive density of each row.
    how : str
        How the rows were held out, in words.

    See Also
    --------
    elpd, kfold

    Examples
    --------
    >>> one, other = Elpd(np.array([-1.0, -2.0]), "new rows"), Elpd(np.array([-1.5, -2.5]), "new rows")
    >>> one.minus(other)
    (1.0, 0.0)
    >>> print(one)
    elpd -3.00 ± 0.71 (2 rows, new rows; ± is one standard error)
    """

    pointwise: Float[np.ndarray, " n"]
    how: str = "new rows"

    @property
    def elpd(self) -> float:
        """Sum over the rows."""
        return float(np.sum(self.pointwise))

    @property
    def se(self) -> float:
        """Standard error of :attr:`elpd`, from the spread of the rows; NaN for a single row."""
        return _standard_error(self.pointwise)

    def minus(self, other: Elpd) -> tuple[float, float]:
        """Difference to the score of another model on the same rows, and the standard error of the paired difference.

        Raises
        ------
        TypeError, ValueError
            If ``other`` is not an ``Elpd``, or has another number of rows.
        """
        check_instance(other, "other", Elpd, "what bd.elpd or bd.kfold returned")
        if len(other.pointwise) != len(self.pointwise):
            raise ValueError(
                f"other: expected scores of the same {len(self.pointwise)} rows, got {len(other.pointwise)}."
            )
        difference = self.pointwise - other.pointwise
        return float(difference.sum()), _standard_error(difference)

    def __repr__(self) -> str:
        return f"<Elpd: {self}>"

    def __str__(self) -> str:
        n = len(self.pointwise)
        rows = f"{n} row{'s' * (n != 1)}, {self.how}"
        return f"elpd {self.elpd:.2f} ± {self.se:.2f} ({rows}; ± is one standard error)"


def _standard_error(values: Float[np.ndarray, " n"]) -> float:
    return float(np.sqrt(len(values)) * np.std(values, ddof=0)) if len(values) > 1 else float("nan")


def elpd(post: Any, X: Any, y: Any = None, *, offset: Any = None, unseen: str | None = None) -> Elpd:
    """Log predictive densities of new rows under a posterior or a point fit.

    Parameters
    ----------
    post : InferenceData or DataTree, or Fit
        What ``bd.sample`` or ``bd.fit`` returned; a fit counts as a posterior of one draw.
    X : array, data frame, scipy sparse, Blocks or Dask collection (n, p)
        New rows, with the columns of the fit or the posterior; named columns are matched by name. ``bd.Blocks`` are
        read a block at a time, and a Dask collection is scored by its workers.
    y : sequence (n,), optional
        Labels, numbers or counts of these rows; with a formula they are read from the table ``X``.
    offset : array (n,) or float, optional
        Known part of the score of each row, needed if the rows of the fit or the posterior had one.
    unseen : "error", "population" or "draw", optional
        Treatment of a level absent from the fit, as in :func:`bayesdrop.predict`.

    Returns
    -------
    Elpd
        The score of each row, their sum and its standard error.

    Raises
    ------
    TypeError, ValueError
        If ``post`` has another type or is a fit whose ``sigma`` is unknown, or the rows or responses do not match it.

    Warns
    -----
    PseudoLikelihoodWarning
        If the loss is not a negative log-likelihood, or ``C`` raises the likelihood to a power; see
        :func:`bayesdrop.loo`.

    See Also
    --------
    kfold, loo

    References
    ----------
    Vehtari, Gelman & Gabry (2017), Practical Bayesian model evaluation using leave-one-out cross-validation and WAIC,
    Statistics and Computing 27.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> plain = {"rates": bd.Fixed(0.0), "fit_intercept": False}
    >>> model = bd.Model(bd.Squared(variance=1.0), weight_prior=bd.Normal(1e-6), **plain)
    >>> fit = bd.fit(model, [[1.0], [2.0]], [0.5, -0.5])
    >>> elpd(fit, [[3.0]], [0.0])  # the standard normal density at 0
    <Elpd: elpd -0.92 ± nan (1 row, new rows; ± is one standard error)>
    """
    draws = with_unseen(read_result(post), unseen, has_draws=not isinstance(post, Fit))
    scales = [one.field for one in draws.model.loss.parameters if one.degree]
    if isinstance(post, Fit) and post.sigma is None and scales:
        raise ValueError(
            "post: expected a fit with sigma, the scale of the density of y, got one of rows outside memory or of more "
            f"than a thousand weights; fit bd.{type(draws.model.loss).__name__}({scales[0]}=...), or use bd.sample."
        )
    X, y, offset = complete_rows(X, draws.feature_names, draws.facts, y, offset)
    y = response_in(X, draws.feature_names, draws.facts, y)
    if y is None:
        raise TypeError("y: expected the responses of these rows, got none.")
    draws = for_rows(draws, X)
    rows = match_rows(X, draws)
    target = code_response(draws.model.loss, draws.classes, rows.design, y)
    offsets = match_offset(draws, offset, rows.design.shape[0], X)
    pointwise = _pointwise(draws, rows, target, offsets, np.ones(rows.design.shape[0]))
    warn_of_pseudo_likelihood(draws, weighted=False)
    if not isinstance(post, Fit) and _has_responses(post, draws, target):
        return Elpd(pointwise, "the rows of the posterior itself, so too high: bd.loo scores them as if they were new")
    return Elpd(pointwise)


def _has_responses(post: Any, draws: Draws, target: PerRow) -> bool:
    """Whether these responses, of at least twenty rows, are the observed data of the posterior."""
    if len(target) < 20 or "observed_data" not in group_names(post):
        return False
    observed = stored_response(post, draws)
    return observed.shape == target.shape and bool(np.allclose(observed, target, rtol=1e-6) and np.ptp(observed) > 0)


def _pointwise(
    draws: Draws, rows: NewRows, target: PerRow, offset: Float[np.ndarray, " n"] | None, weight: PerRow
) -> Float[np.ndarray, " n"]:
    """Log predictive density of each row."""
    more = [rows.design.targets(part) for part in (weight, offset) if part is not None]
    return np.concatenate(rows.each(partial(_log_means, draws), target, *more))


def _log_means(
    draws: Draws, matrix: Any, target: PerRow, weight: PerRow, offset: PerRow | None = None
) -> Float[np.ndarray, " n"]:
    """Log predictive density of some rows in memory."""
    logs = row_log_likelihoods(draws, matrix, target, weight, offset)
    return np.asarray(logsumexp(logs, axis=0) - np.log(len(logs)))


@dataclass(frozen=True)
class HeldOut:
    """Scores of held-out rows, each under a posterior given other rows; for kfold, loo and project.

    Attributes
    ----------
    model : Model
        Model of the posteriors.
    rows : Design (n, p)
        Features.
    labels : array (n,) or (n, 2)
        Responses as ``bd.sample`` accepts them.
    weight, offset : array (n,) or None
        Row weights and known parts of the scores.
    feature_names : list of p str
        Names of the columns.
    options : dict
        Options of ``bd.sample``.
    """

    model: Model
    rows: Any
    labels: PerRow
    weight: PerRow | None
    offset: PerRow | None
    feature_names: list[str]
    options: dict[str, Any]

    def posterior(self, train: Int[np.ndarray, " m"]) -> Any:
        """Posterior given the rows ``train``."""
        weight, offset = (None if part is None else part[train] for part in (self.weight, self.offset))
        return sample(
            self.model, self.rows[train], self.labels[train], sample_weight=weight, offset=offset,
            feature_names=self.feature_names, **self.options,
        )  # fmt: skip

    def scores(
        self, train: Int[np.ndarray, " m"], test: Int[np.ndarray, " k"], weighted: bool = False
    ) -> tuple[Float[np.ndarray, " k"], Draws]:
        """Log predictive density of the rows ``test`` and the draws from the rows ``train``.

        Each row of ``test`` has weight 1 unless the scores are ``weighted``.
        """
        draws = read_draws(self.posterior(train))
        new = match_rows(self.rows[test], draws)
        target = code_response(draws.model.loss, draws.classes, new.design, self.labels[test])
        weight = self.weight[test] if weighted and self.weight is not None else np.ones(len(test))
        return _pointwise(draws, new, target, None if self.offset is None else self.offset[test], weight), draws


@takes_seed
def kfold(
    model: Model | str,
    X: Any,
    y: Any = None,
    *,
    cv: Any = 5,
    groups: Any = None,
    seed: Any = 0,
    sample_weight: Any = None,
    offset: Any = None,
    feature_names: Sequence[str] | None = None,
    **options: Any,
) -> Elpd:
    """Expected log predictive density by K-fold cross-validation: K posteriors, each from all rows but one fold.

    Parameters
    ----------
    model : Model or str
        As in :func:`bayesdrop.sample`; the levels, means and knots of a formula are those of all rows.
    X : array, data frame or scipy sparse (n, p)
        As in :func:`bayesdrop.sample`.
    y : sequence of n labels or numbers, optional
        As in :func:`bayesdrop.sample`.
    sample_weight : array (n,), optional
        As in :func:`bayesdrop.sample`; held-out rows count equally, whatever their weights.
    offset : array (n,) or float, optional
        As in :func:`bayesdrop.sample`.
    feature_names : sequence of p str, optional
        As in :func:`bayesdrop.sample`.
    cv : int, splitter or iterable of pairs, default=5
        Number of folds, shuffled by ``seed`` and stratified by class; a splitter of scikit-learn, such as
        ``GroupKFold(5)``; or pairs of training and test rows. Each row must be in exactly one test fold.
    groups : sequence of n labels, optional
        Group of each row, such as the patient: whole groups are held out, also if ``cv`` is a number of folds.
    seed : int, numpy.random.Generator or RandomState, default=0
        Seed of the folds and of the draws.
    **options
        Options of :func:`bayesdrop.sample`, such as ``draws``, ``chains`` and ``method``.

    Returns
    -------
    Elpd
        The score of each row under the posterior without its fold, in the order of the rows; with ``dropna=True`` of
        the complete rows, which ``cv`` numbers too.

    Raises
    ------
    TypeError, ValueError
        As in :func:`bayesdrop.sample`, or if a row is not in exactly one test fold.

    Warns
    -----
    PseudoLikelihoodWarning
        As in :func:`elpd`; each run also gives the warnings of ``bd.sample``.

    See Also
    --------
    elpd, loo

    Notes
    -----
    Vehtari, Gelman & Gabry (2017), section 2.4, without their correction for the smaller training sets. The cost is K
    runs, and a compilation for each different number of rows; :func:`bayesdrop.loo` needs no further run.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0))
    >>> X, y = np.arange(12.0)[:, None] / 6, np.arange(12.0) / 6 + np.resize([-1.0, 1.0], 12)
    >>> found = kfold(model, X, y, cv=2, draws=400, chains=2, progress=False)
    >>> found.pointwise.shape, found.how
    ((12,), '2 folds')
    """
    how = FormulaOptions(**{name: options.pop(name) for name in FormulaOptions._fields if name in options})
    arguments = RowArguments(sample_weight, options.pop("class_weight", None), offset, groups)
    passed_model, X, y, feature_names, _, arguments = read_formula(model, X, y, feature_names, how, arguments)
    model, seed = check_model(passed_model), check_seed(seed)
    sample_weight, class_weight, offset, groups = arguments
    loss = model.loss
    data = read_rows(
        loss, X, y, sample_weight, feature_names, wrap=as_sampling_design, missing=model.missing, offset=offset
    )
    if data.design.is_streamed:
        raise TypeError(
            "X: bd.kfold deals rows into folds, and these are not in memory. Hold some blocks or files out by hand, "
            "bd.sample the others by bd.HMC() and score those by bd.elpd(post, X, y); or pass an array or a scipy "
            "sparse matrix: all rows if they fit in memory, or a random sample of them."
        )
    # Folds are rows of the design, which records the missing entries.
    rows: Any = as_local_design(data.design)
    n = rows.shape[0]
    labels = one_per_row(y, n) if data.counts is None else data.counts
    weight = None if sample_weight is None else check_sample_weight(sample_weight, n)
    groups = None if groups is None else one_kind(groups, n)
    folds = row_folds(cv, data.target, groups, seed, classes=loss.binary or loss.multiclass)
    options |= {"class_weight": class_weight, "seed": seed}
    held_out = HeldOut(model, rows, labels, weight, data.offset, data.feature_names, options)
    pointwise = np.full(n, np.nan)
    draws: Any = None
    for train, test in folds:
        pointwise[test], draws = held_out.scores(train, test)
    warn_of_pseudo_likelihood(draws, weighted=sample_weight is not None or class_weight is not None)
    return Elpd(pointwise, f"{len(folds)} folds")


def row_folds(cv: Any, target: PerRow, groups: Any, seed: int, *, classes: bool) -> list[Any]:
    """Row numbers for training and testing, a pair per fold; each row is tested once."""
    n = len(target)
    if isinstance(cv, numbers.Integral) and not isinstance(cv, bool | np.bool_):
        name = "as many as the rarest class has rows"
        maximum = int(np.unique(target, return_counts=True)[1].min()) if classes else n
        if groups is not None:
            maximum, name = len(np.unique(groups)), "as many as there are groups"
        count = check_count(cv, "cv", 2, n)
        if maximum < count:
            raise ValueError(f"cv: expected at most {maximum} folds, {name}, got {count}.")
    folds = split(cv, np.zeros((n, 1)), target, classifier=classes, groups=groups, seed=seed % 2**32)
    if any(np.max(part, initial=0) >= n or len(part) > n for pair in folds for part in pair):
        raise ValueError(f"cv: expected numbers of the {n} rows, from 0 on, got {shown(cv)}.")
    pairs = [(np.arange(n)[train], np.arange(n)[test]) for train, test in folds]
    if any(len(np.intersect1d(train, test)) for train, test in pairs):
        raise ValueError(f"cv: expected training rows apart from the test rows, got {shown(cv)}.")
    test_rows = np.sort(np.concatenate([test for _, test in pairs]))
    if not np.array_equal(test_rows, np.arange(n)):
        raise ValueError(
            f"cv: expected test folds that hold each of the {n} rows once, got those of {shown(cv)}; a row that is "
            "held out twice, or never, has no score."
        )
    return pairs
