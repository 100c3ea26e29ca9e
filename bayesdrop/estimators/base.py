"""Base of the estimators: the model that their parameters define, the fit and the moments of new scores."""

from __future__ import annotations

import numbers
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from .._typing import Float, Num, PerRow
from .._validation import check_count, check_flag, check_number, shown
from ..designs import Design
from ..fitting.fit import rate_posterior, shaped, solve
from ..fitting.objective.centring import CentredProblem, centre_problem, moved
from ..fitting.objective.exponential_moments import exponential_moments
from ..fitting.problems.block import Task, first_rates
from ..fitting.problems.many_classes import softmax_energy
from ..fitting.problems.online import Online
from ..fitting.solvers.driver import check_minimiser
from ..fitting.solvers.learning import SignCounts
from ..fitting.solvers.newton import Newton
from ..fitting.tuning.folds import Rows
from ..linalg.systems import double_range, refuse_overflow
from ..losses import EpsilonInsensitive, Hinge, Logistic, Loss, Squared
from ..model import Model
from ..moments import ScoreMoments
from ..noise import Dropout
from ..noise.base import AUTO, MEAN, centre_of
from ..rates import Fixed, RateMap
from ..rates.base import check_rate
from ..rates.learnt import is_tuned
from .classes import joint_model, joint_rates
from .validation import check_features, default_names, deletion_of, missing_of, takes_missing

__all__ = ["DropoutEstimator"]

# scikit-learn's model for each loss whose predictions follow from mean scores alone.
_COUNTERPARTS: dict[type, tuple[str, str]] = {
    Logistic: ("sklearn.linear_model", "LogisticRegression"),
    Hinge: ("sklearn.svm", "LinearSVC"),
    Squared: ("sklearn.linear_model", "Ridge"),
    EpsilonInsensitive: ("sklearn.svm", "LinearSVR"),
}


class DropoutEstimator(BaseEstimator):
    """Base of the estimators; a subclass defines its loss and its default rates."""

    rates: Any
    C: Any
    noise: Any
    expectation: Any
    weight_prior: Any
    method: Any
    fit_intercept: bool
    warm_start: bool
    corrupted_inputs: bool
    expected_deletion: Any = None
    missing: str | None
    tol: float
    max_iter: int
    coef_: Float[np.ndarray, ...]
    intercept_: Any
    rates_: Float[np.ndarray, ...]
    n_features_in_: int
    centre_: Float[np.ndarray, " p"] | None
    _counts: SignCounts | None
    _covariances: Float[np.ndarray, "B D D"] | None
    _online: Online | None

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _default_rates(self) -> Any:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = takes_missing(self)
        return tags

    def _model(self) -> Model:
        rates = self.rates
        if self.expected_deletion is not None:
            if rates is not None:
                raise ValueError(
                    f"rates: expected None, for expected_deletion says how often features are dropped, got "
                    f"{shown(rates)}; leave one of them out."
                )
            rates = deletion_of(self)
        if isinstance(rates, numbers.Real | np.ndarray):
            rates = Fixed(check_rate(rates, "rates"))
        noise = self._noise()
        if rates is None and getattr(noise, "has_rate", False):
            rates = self._default_rates()
        prior = {} if self.weight_prior is None else {"weight_prior": self.weight_prior}
        return Model(
            self._loss(), noise, rates, self._loss_weight(), fit_intercept=self.fit_intercept, missing=missing_of(self),
            **prior,
        )  # fmt: skip

    def _loss_weight(self) -> float:
        """``C`` of the model."""
        return self.C

    def _noise(self) -> Any:
        """Noise of the model, without the model, whose checks take longer than the prediction of a few rows."""
        noise: Any = Dropout() if self.noise is None else self.noise
        check_flag(self.corrupted_inputs, "corrupted_inputs")
        if self.expected_deletion is not None and getattr(noise, "unbiased", True):
            raise ValueError(
                f"noise: expected bd.Dropout(), which leaves kept features as they are, for expected_deletion, got "
                f"{noise!r}; leave noise out."
            )
        if self.arrives_noised and getattr(noise, "centre", None) == AUTO:
            # Lost features of new rows are zeros, or they are NaN and replaced by the mean.
            as_mean = not self.corrupted_inputs and self.fit_intercept
            noise = replace(noise, centre=MEAN if as_mean else None)
        return noise

    @property
    def arrives_noised(self) -> bool:
        """Whether rows to predict are already noised, so that their scores are not averaged over the noise."""
        return self.corrupted_inputs or self.expected_deletion is not None

    def _check_limits(self) -> None:
        check_count(self.max_iter, "max_iter")
        check_number(self.tol, "tol", above=0)
        check_flag(self.warm_start, "warm_start")

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[Any, ...]:
        """Check the data of a fit; return the design and the further arguments of :meth:`_task_of_rows`."""
        raise NotImplementedError

    def _task_of_rows(self, model: Model, rows: tuple[Any, ...]) -> tuple[CentredProblem, Task]:
        """Centre checked rows; return the centred problem and the task of the fit, also for folds."""
        raise NotImplementedError

    def _centre(self, model: Model, design: Design, weight: PerRow, *, units: bool = False) -> CentredProblem:
        """Subtract the centre of the noise from the features, and resolve settings of the model that need the data."""
        names = default_names(self)
        rate_map = first_rates(model).bind(names)
        centring = centre_problem(
            model, design, weight, rate_map, names, zeros_to_come=self.corrupted_inputs, units=units
        )
        self.centre_ = centring.centre
        return centring

    def _solve(
        self,
        centring: CentredProblem,
        task: Task,
        earlier: tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p _"]] | None,
    ) -> Any:
        """Fit a task to rows ``X − c`` and store the fit; ``earlier`` are weights for ``X``, and rates."""
        solved = solve(task, centring, earlier)
        solution, self.selection_, self._online = solved.fit, solved.selection, None
        self._covariances = solved.covariances
        self._keep_rates(solved.rate_map, solution.rates, solution.posterior, solution.occurrences)
        self._set_weights(solution.weights)
        self._counts = solution.counts
        self.objective_trace_ = shaped(solution.trace)
        self.n_iter_ = solution.iterations
        self.status_ = solution.status
        return self

    def _task_of(
        self, centring: CentredProblem, target: PerRow, weight: PerRow, origins: Rows, n_classes: int | None = None
    ) -> Task:
        """Task of the fit, which a search also fits on folds."""
        plain = Newton(tol=self.tol, max_iter=self.max_iter)
        method = plain if self.method is None else check_minimiser(self.method)
        names = default_names(self)
        will_lose = self.expected_deletion is not None
        return Task(
            centring.model, centring.design, target, weight, names, method, origins, n_classes,
            self.corrupted_inputs and not will_lose, will_be_noised=will_lose,
        )  # fmt: skip

    def _set_weights(self, weights: Float[np.ndarray, "q K"]) -> None:
        """Set ``coef_`` and ``intercept_`` from weights (p + 1, K) for the user's columns."""
        raise NotImplementedError

    def _with_weights(self, weights: Float[np.ndarray, "q K"], rates: Float[np.ndarray, "p _"], C: float) -> Any:
        """Return a fitted estimator with weights (p + 1, K) for ``X − c`` and rates (p, K), without a fit."""
        other = clone(self).set_params(C=C)
        for name in ("n_features_in_", "feature_names_in_", "zero_based_in_", "classes_", "centre_", "multiclass_"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        other._set_weights(moved(weights, self.centre_, -1.0))
        other.rates_ = shaped(rates).T
        return other

    def _keep_rates(
        self,
        rate_map: RateMap,
        rates: Float[np.ndarray, "p _"],
        posterior: Any,
        occurrences: Num[np.ndarray, ...] | None,
    ) -> None:
        self.rates_ = shaped(rates).T.copy()
        self.rate_posterior_ = rate_posterior(rate_map, posterior, occurrences)

    def _earlier(self) -> tuple[Float[np.ndarray, "q K"], Float[np.ndarray, "p _"]]:
        """Weights (p + 1, K) and rates of the features (p, K) or (p, 1) of the last fit."""
        return self._weights(), np.atleast_2d(self.rates_).T

    def _online_model(self) -> Model:
        """Model of a step on a block of rows; if an earlier fit chose the rates, with its choice."""
        model, selection = self._model(), getattr(self, "selection_", None)
        if selection is None or not (self.rates is None or is_tuned(self.rates)):
            return model
        return replace(model, rates=selection.chosen.rates)

    def _step_online(
        self,
        model: Model,
        design: Design,
        target: PerRow,
        weight: PerRow,
        n_total: float | None,
        forget: float,
        n_joint: int | None = None,
    ) -> Float[np.ndarray, "q K"]:
        """Weights (p + 1, K) after one step of an online fit from the current state of the estimator.

        If given, ``n_joint`` is the number of classes that are fitted jointly. Blocks do not determine the means of all
        rows: the centre is that of the last ``fit``, the given numbers, or 0.
        """
        if n_total is not None:
            check_number(n_total, "n_total", above=0)
        check_number(forget, "forget", least=0, below=1, advice="1e-3 remembers about a thousand rows")
        rate_map = model.bind(default_names(self)) if n_joint is None else joint_rates(self, model)
        if rate_map.is_free and model.loss.votes(target) is None:
            raise ValueError("rates: learnt rates need two classes or counts; give fixed ones, as in bd.Fixed(0.1).")
        p, K = design.shape[1], target.shape[1] if n_joint is None else n_joint
        centre = self._online_centre(model, p)
        noise: Any = model.noise
        if noise.centre is not None:
            model = replace(model, noise=replace(noise, centre=None))
        if centre is not None:
            design = design.shifted(centre)
        online = getattr(self, "_online", None)
        if online is None:
            start, counts = None, None
            if hasattr(self, "coef_"):
                start, counts = moved(self._weights(), centre, 1.0), getattr(self, "_counts", None)
            prior = model.weight_prior.of_columns(default_names(self))
            online = Online.start(replace(model, weight_prior=prior), p, K, start, counts, n_joint is not None)
        # If the step overflows, the estimator is unchanged.
        online = deepcopy(online)
        with double_range():
            if n_joint is None:
                online.update(model, design, rate_map, target, weight, n_total, forget)
            else:
                row_weight = model.C * weight
                energy = softmax_energy(
                    joint_model(self, model), design, rate_map.initial, target, n_joint, row_weight, row_weight
                )
                online.update_joint(energy, float(weight.sum()), n_total, forget)
        refuse_overflow(weights=online.weights, curvature=online.curvature)
        self._online, self.centre_, self._covariances = online, centre, None
        rate = online.rate(rate_map, model.loss.binary)
        learner = online.learner
        self._keep_rates(
            rate_map,
            np.broadcast_to(rate, (p, K if n_joint is None else 1)),  # classes jointly share their rates
            None if learner is None else learner.posterior(),
            None if learner is None else learner.occurrences,
        )
        self.n_iter_ = online.steps
        return moved(online.weights, centre, -1.0)

    def _online_centre(self, model: Model, p: int) -> Float[np.ndarray, " p"] | None:
        """Centre of the noise for blocks of rows."""
        if hasattr(self, "centre_"):
            return self.centre_
        # The mean that expected_deletion implies becomes 0 here, as for centre="auto".
        if getattr(self.noise, "centre", None) == MEAN:
            raise ValueError(
                'centre: "mean" is that of all rows, and partial_fit sees a block; call fit on some rows before, or '
                "give the means, as in bd.Dropout(centre=means)."
            )
        centre = centre_of(model.noise)
        if centre is not None and (len(centre) != p or not model.fit_intercept):
            raise ValueError(
                f"centre: expected {p} numbers (one per feature) and an intercept, got {len(centre)} and "
                f"fit_intercept={model.fit_intercept}."
            )
        return centre

    def to_sklearn(self) -> Any:
        """Return the fit as scikit-learn's own linear model, with the mean scores under the noise.

        For tools that accept only scikit-learn's models, such as converters to ONNX and PMML. The mean score is linear
        in the features, ``Σ_d w_d (g_d x_d + h_d) + b`` with ``E[x̃|x] = g x + h``. A classifier becomes a
        ``LogisticRegression`` or ``LinearSVC``, a regressor a ``Ridge`` or ``LinearSVR``. Probabilities of
        ``LogisticRegression`` are those of the mean scores, not averaged over the noise, with more than two classes by
        a softmax. If classes were fitted jointly, the mean scores may choose another label than the averaged
        probabilities. The result rejects missing entries.

        Raises
        ------
        TypeError
            If scikit-learn has no model with the same predictions: for counts, quantiles and hidden layers.

        Examples
        --------
        >>> import bayesdrop as bd
        >>> fitted = bd.DropoutSVC(0.3).fit([[-1.0], [-2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
        >>> fitted.to_sklearn().predict([[5.0]]).tolist()
        ['yes']
        """
        counterpart = None if hasattr(self, "hidden_coef_") else _COUNTERPARTS.get(type(self._loss()))
        if counterpart is None:
            raise TypeError(
                f"{type(self).__name__} has no counterpart in scikit-learn with the same predictions; keep it by "
                "pickle, joblib or skops."
            )
        check_is_fitted(self)
        plain: Any = getattr(import_module(counterpart[0]), counterpart[1])()
        weights = self._weights()
        coef, intercept = weights[:-1], weights[-1]
        if not self.arrives_noised:
            coefficients = self._model().noise.coefficients(np.atleast_2d(self.rates_).T)
            coef, intercept = coef * coefficients.gain, intercept + np.sum(coef * coefficients.shift, axis=0)
            if self.centre_ is not None:
                intercept = intercept + self.centre_ @ (weights[:-1] - coef)
        coef, intercept = np.ascontiguousarray(coef.T), intercept - self._threshold()
        classes = getattr(self, "classes_", None)
        plain.coef_ = coef if classes is not None else coef[0]
        plain.intercept_ = intercept if classes is not None else float(intercept[0])
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(plain, name, getattr(self, name))
        plain.n_iter_ = np.ravel(self.n_iter_)
        return plain

    def _weights(self) -> Float[np.ndarray, "q K"]:
        """Fitted weights as a block (p + 1, K)."""
        coef = np.atleast_2d(self.coef_)
        weights = np.empty((coef.shape[1] + 1, coef.shape[0]))
        weights[:-1], weights[-1] = coef.T, self.intercept_
        return weights

    def _threshold(self) -> float:
        """Threshold of the scores, which ``decision_function`` subtracts; 0 unless they are calibrated."""
        return 0.0

    def _score_moments(self, X: Any, exponential: bool = False) -> tuple[ScoreMoments, Float[np.ndarray, "q K"]]:
        """Moments of the scores of new rows, with ``v = 2 log E e^{s − m}`` if ``exponential``, and the weights."""
        check_is_fitted(self)
        design, noise = check_features(self, X), self._noise()
        with double_range():
            design, weights = self._about_centre(design)
            if self.arrives_noised:
                return ScoreMoments(design, Dropout(), np.zeros((design.shape[1], 1))), weights
            exponential &= isinstance(design.zeros(1), np.ndarray)  # rows on a cluster have products alone
            rate = np.atleast_2d(self.rates_).T
            make = exponential_moments if exponential else ScoreMoments
            return make(design, noise, rate, self.fit_intercept), weights

    def _mean_scores(self, X: Any) -> PerRow:
        """Means of the scores of new rows, (n, 1) or (n, K)."""
        moments, weights = self._score_moments(X)
        with double_range():
            mean = moments.mean(weights)
        refuse_overflow(scores=mean)
        return mean

    def _about_centre(self, design: Design) -> tuple[Design, Float[np.ndarray, "q K"]]:
        """Subtract the centre of the noise from new rows; return also the weights for them."""
        weights = self._weights()
        if self.centre_ is None:
            return design, weights
        return design.shifted(self.centre_), moved(weights, self.centre_, 1.0)
