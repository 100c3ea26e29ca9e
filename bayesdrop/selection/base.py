"""Estimators that choose ``C`` and the noise by cross-validation, on one set of folds.

For each candidate of the rates and each ``C`` the score of a fold is that of ``argmin ½‖w‖² + C Σ φ(y, m, v)`` on the
other folds, and the pair with the best mean score is refitted on all the data. Rates and ``C`` are chosen together
because both shrink: dropout at rate ``η`` adds about ``½C Σ_d w_d² η(1 − η) Σ_i φ''(m_i) x_id²`` to the loss (Wager,
Wang & Liang 2013), in addition to the ``½‖w‖²``. Folds and candidates are problems of one block, started along ``C``
from each other; see :mod:`bayesdrop.fitting.tuning`.

Settings that do not depend on the labels are those of all rows: the centre of the noise, and the scales of a relative
prior.

The decision threshold is a separate choice, which scikit-learn makes from the probabilities:

>>> from bayesdrop import DropoutLogisticRegression
>>> from sklearn.datasets import make_classification
>>> from sklearn.metrics import balanced_accuracy_score
>>> from sklearn.model_selection import TunedThresholdClassifierCV, train_test_split
>>> X, y = make_classification(600, 10, weights=[0.9], class_sep=0.7, random_state=0)
>>> X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
>>> plain = DropoutLogisticRegression(0.3).fit(X, y)
>>> tuned = TunedThresholdClassifierCV(DropoutLogisticRegression(0.3), scoring="balanced_accuracy", cv=5).fit(X, y)
>>> bool(tuned.best_threshold_ < 0.3)
True
>>> scores = [balanced_accuracy_score(y_test, model.predict(X_test)) for model in (plain, tuned)]
>>> bool(scores[1] > scores[0] + 0.1)
True
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

from .._typing import ArvizData, Float
from .._validation import check_count, check_flag, check_numbers, shown
from ..designs import column_names, in_memory
from ..designs.rows import check_sample_weight
from ..estimators.validation import NoiseParameters, check_here, deletion_of, intact, takes_missing
from ..fitting.empty_columns import used_columns
from ..fitting.objective.centring import CentredProblem
from ..fitting.problems.block import Task
from ..fitting.tuning.blocks import Held
from ..fitting.tuning.choose import Comparison, search_on
from ..fitting.tuning.folds import Fold
from ..fitting.tuning.scores import Key
from ..fitting.tuning.search import Losses, Search, candidate_Cs
from ..fitting.tuning.selection import Selection, conclude
from ..rates import Fixed, Rates
from ..rates.base import check_rate
from ..rates.learnt import is_tuned
from ..warnings import UnscaledWarning
from .path import scorer_of, take_rows

__all__ = ["FITTED", "DropoutCV"]

FITTED = (
    "coef_",
    "intercept_",
    "rates_",
    "centre_",
    "rate_posterior_",
    "objective_trace_",
    *("n_iter_", "status_"),
)


@dataclass(eq=False, repr=False, kw_only=True)
class SearchParameters(NoiseParameters):
    """Constructor arguments of the estimators with a search."""

    Cs: Any = None
    cv: Any = None
    scoring: Any = None
    one_standard_error: bool = False
    n_jobs: int | None = None
    expected_deletion: Any = None


class DropoutCV(SearchParameters, BaseEstimator):
    """Base of the estimators with a search; a subclass names the estimator without search in ``_plain``."""

    best_estimator_: Any
    n_features_in_: int
    _copied: tuple[str, ...] = FITTED
    _plain: ClassVar[type]

    def _default_candidates(self) -> list[Any]:
        raise NotImplementedError

    def _start(self, centring: CentredProblem, task: Task) -> float:
        """``C`` at which the search starts."""
        return task.model.C

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = takes_missing(self)
        return tags

    def _estimator(self) -> Any:
        """The estimator without search, with the same parameters, and defaults for the searched ones."""
        names = set(inspect.signature(self._plain).parameters) - {"rates", "C", "warm_start"}
        parameters = self.get_params(deep=False)
        return self._plain(**{name: parameters[name] for name in names & set(parameters)})

    def _candidates(self) -> list[Any]:
        """Candidates of the rates: numbers, rates objects, and pairs of a structure and a strength."""
        if self.expected_deletion is not None:
            if self.rates is not None or self.scoring is not None:
                raise ValueError(
                    "rates, scoring: expected None next to expected_deletion, which says the noise and that held-out "
                    f"rows are scored as rows that lose entries, got rates={shown(self.rates)} and "
                    f"scoring={shown(self.scoring)}; leave them out."
                )
            return [deletion_of(self)]
        if self.rates is None:
            plain_noise = self.noise is not None and not getattr(self.noise, "has_rate", True)
            return [None] if plain_noise else self._default_candidates()
        if is_tuned(self.rates):
            return list(self.rates.candidates)
        if isinstance(self.rates, str | Rates) or not isinstance(self.rates, Sequence | np.ndarray):
            raise ValueError(
                f"rates: expected a sequence of candidates, got {shown(self.rates)}; give rates in [0, 1) and objects "
                "such as bd.PerFeature() in a list, as in [0.0, 0.5, bd.PerFeature()], also for a single one."
            )
        if len(self.rates) == 0:
            raise ValueError("rates: expected at least one candidate, got none; give a list such as [0.0, 0.3, 0.6].")
        return [rates for one in self.rates for rates in (one.candidates if is_tuned(one) else [one])]

    def _checked_Cs(self) -> Float[np.ndarray, " c"] | None:
        if self.Cs is None:
            return None
        expected = "a sequence of finite numbers above 0"
        numbers = check_numbers(self.Cs, "Cs", expected, above=0, advice="for a single one give (1.0,)")
        Cs = np.unique(numbers)
        if numbers.ndim != 1 or len(Cs) == 0:
            raise ValueError(f"Cs: expected {expected}, got {shown(self.Cs)}; for a single one give (1.0,).")
        return Cs

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Choose the rates and ``C`` on the folds, and fit with them to all rows.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite but for missing ones; sparse input is never made dense.
        y : array (n,)
            Two or more classes, any labels; or the targets of a regression.
        sample_weight : array (n,), optional
            Row weights, >= 0, of fits and of scores; weight 2 counts a row twice, weight 0 omits it.
        groups : array (n,), optional
            Group of each row, such as the patient: folds then hold out whole groups, and splitters of groups receive
            them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a candidate, the folds or the data are invalid; the message names the argument and what to do.

        Warns
        -----
        SelectionWarning
            If the largest class (with ``scoring`` the rarest) has fewer rows than ``cv`` folds, and fewer folds are
            used.
        """
        checked, y = check_here(self, X, y, y_numeric=not is_classifier(self))
        X = checked if column_names(X) is None else in_memory(X)
        weight = None if sample_weight is None else check_sample_weight(sample_weight, checked.shape[0])
        self._keep(self._choose(X, y, weight, groups, checked.shape[0]).fit(X, y, sample_weight=weight))
        return self

    def _choose(self, X: Any, y: Any, weight: Float[np.ndarray, " n"] | None, groups: Any, n: int) -> Any:
        """Search, store the results, and return the unfitted estimator with the chosen settings."""
        candidates_of_user, Cs = self._candidates(), self._checked_Cs()
        check_flag(self.one_standard_error, "one_standard_error")
        if self.n_jobs is not None and (check_count(self.n_jobs, "n_jobs", -1024, 1024) == 0):
            raise ValueError("n_jobs: expected a number of processes, -1 for all processors or None, got 0.")
        candidates = [_as_rates(one) for one in candidates_of_user]
        # Prepare the columns for a candidate with noise, if there is one: without noise they would not be centred.
        first = next((one for one in candidates if _drops(one)), candidates[0])
        first = first[0] if isinstance(first, tuple) else first
        plain = self._estimator()
        if self.expected_deletion is None:
            plain.set_params(rates=first)
        self.scorer_ = scorer_of(plain, self.scoring)
        with warnings.catch_warnings():
            # The final fit repeats the warning.
            warnings.simplefilter("ignore", UnscaledWarning)
            rows = plain._check_rows(X, y, np.ones(n) if weight is None else weight, groups)
            centring, task = plain._task_of_rows(plain._model(), rows)
        task = replace(task, model=replace(task.model, C=self._start(centring, task)))
        if hasattr(plain, "multiclass_"):
            plain.multiclass = plain.multiclass_  # a fold may have fewer rows than columns
        by_loss = self.scoring is None
        # A user's score needs all columns.
        columns = used_columns(task, candidates) if by_loss and np.sum(task.empty_columns) > 1 else None
        task = task if columns is None else columns.reduce(task)
        tuned = self.rates is None or is_tuned(self.rates) or all(is_tuned(one) for one in self.rates)
        searched = search_on(
            task, self.cv, "cv", candidates, candidate_Cs(task.model.C) if Cs is None else Cs,
            None if by_loss else _by_scorer(self.scorer_, plain, X, y, weight, task),
            climbs=by_loss and tuned, n_jobs=self.n_jobs,
        )  # fmt: skip
        if searched is None:
            few = "" if task.code is None else f" of {'each of two classes' if by_loss else 'each class'}"
            raise ValueError(
                f"{'cv' if groups is None else 'groups, cv'}: expected at least two rows{few}"
                f"{'' if groups is None else ' in different groups'}, to fit one and hold the other out, got 1 sample"
                f"{'' if task.code is None else ' of some class'}{'' if groups is None else ' or group'}; give more "
                f"rows, or {self._plain.__name__} rates and C of your own."
            )
        search, keys = searched
        name = self.scoring if isinstance(self.scoring, str) else "the score"
        scoring = Comparison(task).scoring if by_loss else f"negative of {name}"
        self.selection_: Selection
        self.selection_ = conclude(search, keys, scoring, self.one_standard_error)
        self._tabulate(search, candidates_of_user)
        self.n_splits_ = len(search.tried)
        # expected_deletion determines the rates.
        return plain.set_params(rates=None if self.expected_deletion is not None else self.best_rates_, C=self.C_)

    def _tabulate(self, search: Search, candidates: list[Any]) -> None:
        """Set the table and the choice; rows run along C, then along the candidates of the rates."""
        keys = sorted(search.table.losses)
        table = -np.stack([search.table.means(key)[search.tried] for key in keys])
        mean = np.array([-search.table.mean(key) for key in keys])
        if np.all(np.isnan(mean)):
            raise ValueError("scoring: every score is NaN; expected numbers, so give another scoring or other folds.")
        rates = np.empty(len(keys), dtype=object)
        rates[:] = [search.member(m)[0] if isinstance(candidates[m], tuple) else candidates[m] for _, m in keys]
        Cs = np.array([C for C, _ in keys])
        # Candidates that were not tried on all folds rank last.
        whole = ~np.isnan(table).any(axis=1)
        losses = np.where(whole | ~whole.any(), search.table.rounded(keys), np.inf)
        order = rankdata(losses, method="min").astype(np.int32)
        self.cv_results_: dict[str, Any] = {
            "param_rates": rates,
            "param_C": Cs,
            "params": [{"rates": r, "C": float(C)} for r, C in zip(rates, Cs, strict=True)],
            **{f"split{k}_test_score": table[:, k] for k in range(table.shape[1])},
            "mean_test_score": mean,
            "std_test_score": table.std(axis=1),
            "standard_error_test_score": np.array([search.table.error(key) for key in keys]),
            "rank_test_score": order,
        }
        self.best_index_ = self.selection_.best
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.best_rates_ = rates[self.best_index_]
        self.C_ = float(Cs[self.best_index_])

    def _keep(self, best: Any) -> None:
        self.best_estimator_ = best
        for name in self._copied:
            setattr(self, name, getattr(best, name))

    def _chosen(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.set_params(corrupted_inputs=self.corrupted_inputs)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score by ``scoring``, by default the accuracy of a classifier and R² of a regression."""
        weights, chosen = {} if sample_weight is None else {"sample_weight": sample_weight}, self._chosen()
        return float(self.scorer_(chosen, X, y, **weights))

    def to_sklearn(self) -> Any:
        """The chosen fit as scikit-learn's own linear model; see :meth:`bayesdrop.DropoutSVC.to_sklearn`."""
        return self._chosen().to_sklearn()

    def sample(self, X: Any, y: Any, *, sample_weight: Any = None, **options: Any) -> ArvizData:
        """Draw from the posterior of the feature-noising model with the chosen rates and ``C``.

        Takes the options of :func:`bayesdrop.sample` and returns its ArviZ object.
        """
        return self._chosen().sample(X, y, sample_weight=sample_weight, **options)


def _drops(candidate: Any) -> bool:
    """Whether a candidate, as :func:`_as_rates` returns it, has any noise."""
    rates, strength = candidate if isinstance(candidate, tuple) else (candidate, 1.0)
    return strength > 0 and (not isinstance(rates, Fixed) or bool(np.any(np.asarray(rates.values) > 0)))


def _as_rates(candidate: Any) -> Any:
    """Candidate as a rates object; pairs and None are unchanged."""
    numbers = not isinstance(candidate, tuple | Rates) and candidate is not None
    return Fixed(check_rate(candidate, "rates")) if numbers else candidate


def _by_scorer(scorer: Any, plain: Any, X: Any, y: Any, weight: Float[np.ndarray, " n"] | None, task: Task) -> Losses:
    """Losses that are minus the scikit-learn score of an estimator with the weights of a fold."""
    row_weight, number = task.origins.weight, task.origins.number

    def losses(key: Key, fold: Fold, held_out: Held) -> Float[np.ndarray, " 1"]:
        rows = fold.test if number is None else number[fold.test]
        weights = {} if weight is None else {"sample_weight": row_weight[fold.test]}
        fitted = plain._with_weights(held_out.weights, held_out.rates, key[0])
        return np.array([-float(scorer(fitted, take_rows(X, rows), y[rows], **weights))])

    return losses
