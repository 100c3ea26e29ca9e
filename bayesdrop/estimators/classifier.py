"""Linear classifiers under feature noise, following the scikit-learn API.

Two classes are one problem. More classes are fitted one against the rest, as one block with rates per class, or jointly
by the softmax.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from .._memory import check_memory
from .._typing import AnyArray, ArvizData, Float, PerRow, Shaped
from .._validation import refuse_masked, shown
from ..data.column_facts import in_order
from ..data.responses import class_factors, refuse_response, weigh_classes
from ..designs import Design, as_design, with_missing
from ..designs.dask.design import by_blocks
from ..designs.rows import check_sample_weight, unique_labels
from ..designs.sparse import stacked
from ..fitting.objective.centring import CentredProblem
from ..fitting.problems.block import Task
from ..fitting.tuning.search import candidate_Cs
from ..fitting.tuning.selection import Selection
from ..linalg.systems import double_range, refuse_overflow
from ..losses.softmax import log_sum_exp
from ..model import Model
from ..posterior.draws.draws import Draws
from ..posterior.noise_average.class_chances import class_chances
from ..posterior.noise_average.expectation import class_probability
from ..priors import Normal
from ..rates import PerFeature, Tuned
from ..rates.learnt import ExpectedDeletion
from .base import DropoutEstimator
from .classes import ClassScores, adapted, agreeing, check_rows, chosen_by, joint_model, shares, signs
from .validation import check_features, check_here, check_training, check_unlabelled, default_names, facts_of, intact

__all__ = ["DropoutClassifier"]


class DropoutClassifier(ClassScores, DropoutEstimator):
    """Base of the classifiers; a subclass defines its loss."""

    classes_: Shaped[np.ndarray, " K"]
    selection_: Selection | None
    class_weight: Any
    C_: float

    def _loss_weight(self) -> float:
        # By default C of the last fit, if there was one.
        return getattr(self, "C_", 1.0) if self.C is None else self.C

    def _centre(self, model: Model, design: Design, weight: PerRow, *, units: bool = False) -> CentredProblem:
        has_defaults = self.C is None and self.weight_prior is None
        centring = super()._centre(model, design, weight, units=units or has_defaults)
        if self.C is None:
            centring = centring.with_C(centring.usual_C if has_defaults else 1.0)
        self.C_ = float(centring.model.C)
        return centring

    def _to_draw(self, model: Model, design: Design, weight: PerRow) -> tuple[Model, float]:
        """Return the model to draw from, and the prior scale of weights that suits the rows of positive weight."""
        if self.C is not None or self.weight_prior is not None:
            return (model if self.C is not None else replace(model, C=1.0)), 1.0
        unit = float(np.sqrt(self._centre(model, design, weight).usual_C))
        return replace(model, C=1.0, weight_prior=Normal(unit)), unit

    def _default_rates(self) -> Any:
        return PerFeature()

    def _resolve_multiclass(self, classes: Shaped[np.ndarray, " K"], shape: tuple[int, int] | None) -> bool:
        """Decide whether classes are fitted jointly, not one against the rest; ``shape`` (n, p), None for a block."""
        return False

    def _is_joint(self, classes: Shaped[np.ndarray, " K"]) -> bool:
        """True if the classes were fitted jointly."""
        return len(classes) > 2 and getattr(self, "multiclass_", None) == "softmax"

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Any:
        """Fit weights and rates.

        Parameters
        ----------
        X : array, data frame, scipy sparse or Blocks (n, p)
            Features, finite except missing entries; sparse input is never made dense, and :class:`bayesdrop.Blocks` are
            read when needed.
        y : array (n,)
            Two or more classes, any labels.
        sample_weight : array (n,), optional
            Row weights, >= 0; weight 0 excludes a row, and weight 2 counts it twice. Folds hold out a row as a whole.
        groups : array (n,), optional
            Labels of rows that belong together, such as rows of one patient: folds that choose the strength of the
            noise hold them out together; see :class:`bayesdrop.Tuned`.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, groups)

    @intact
    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any = None,
        unlabelled: Any = None,
        unlabelled_weight: float = 1.0,
    ) -> Any:
        model = self._model()
        self._check_limits()
        rows = self._check_rows(X, y, sample_weight, groups)
        earlier = self._earlier_fit(rows[1], rows[0].shape[1]) if self.warm_start else None
        return self._fit_rows(model, rows, earlier, unlabelled, unlabelled_weight)

    def _check_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> tuple[Any, ...]:
        design, classes, code, origins = check_rows(self, X, y, sample_weight, groups)
        (n, p), K = design.shape, len(classes)
        refuse_response(design, code, getattr(self, "feature_names_in_", None), y, classes)
        if K > 2:
            check_memory(
                f"y: a fit of {K:,} classes takes at least",
                # Two numbers per row and class; weights, gradient, curvature and a step.
                8 * K * (2 * n * design.is_local + 4 * (p + 1)),
                "join rare classes, take fewer rows, or a regressor if y is a number.",
            )
        factor = class_factors(self.class_weight, classes, code, origins.weight, design)
        return design, classes, code, weigh_classes(factor, code, origins.weight), origins

    def _task_of_rows(self, model: Model, rows: tuple[Any, ...]) -> tuple[CentredProblem, Task]:
        design, classes, code, weight, origins = rows
        self.classes_, joint = classes, self._resolve_multiclass(classes, design.shape)
        model = joint_model(self, model) if joint else model
        centring = self._centre(model, design, weight)
        target, many = (code, len(classes)) if joint else (signs(code, len(classes)), None)
        return centring, self._task_of(centring, target, weight, origins, many)

    def _fit_rows(
        self,
        model: Model,
        rows: tuple[Any, ...],
        earlier: Any,
        unlabelled: Any = None,
        unlabelled_weight: float = 1.0,
    ) -> Any:
        if self.rates is None and model.noise.has_rate:
            deletes = self.expected_deletion is not None
            model = replace(model, rates=ExpectedDeletion(model.rates) if deletes else Tuned())
        centring, task = self._task_of_rows(model, rows)
        if unlabelled is not None:
            unlabelled = in_order(unlabelled, default_names(self), facts_of(self), "unlabelled")
            more = check_unlabelled(unlabelled, unlabelled_weight, task.design, model.missing)
            more, n = more if centring.centre is None else more.shifted(centring.centre), more.shape[0]
            task = replace(
                task, design=stacked(task.design, more), unlabelled=(n, float(unlabelled_weight)),
                target=np.concatenate([task.target, np.repeat(task.target[:1], n, axis=0)]),
                weight=np.append(task.weight, np.zeros(n)),
            )  # fmt: skip
        if task.n_classes is not None and self.method is not None:
            raise ValueError(
                f"method: the softmax has a Newton method of its own, got {shown(self.method)}; leave it out."
            )
        if task.n_classes is not None and earlier is not None:
            earlier = earlier[0], earlier[1][:, :1]
        self._solve(centring, replace(task, Cs=candidate_Cs(task.model.C) if self.C is None else None), earlier)
        if self.selection_ is not None:
            self.C_ = self.selection_.chosen.C
        return self

    @intact
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        n_total: float | None = None,
        forget: float = 0.0,
    ) -> Any:
        """Fit a block of rows, together with what is stored of earlier blocks.

        After the first 2,000 rows a quadratic represents the earlier ones: its curvature is a matrix up to 2,000
        features (and 16 million entries over all problems) and a diagonal beyond; learnt rates follow the counts so
        far. One pass over 60,000 rows, in blocks of 100 to 60,000, ended within 0.003 of the log loss of a fit to all
        rows, or 0.01 with a diagonal; on 6,000 rows of several classes, one against the rest, blocks of 100 ended
        within 0.005. There is no step size; ``SGDClassifier`` of scikit-learn needs a schedule that suits the data, but
        stores one number per feature. See :mod:`bayesdrop.fitting.problems.online`.

        Of an earlier ``fit`` the weights are used, with the precision of the prior, but not its rows. A block has no
        folds: default rates are those that an earlier ``fit`` chose, else those of ``bd.PerFeature()``. The softmax
        keeps the rates of an earlier ``fit``, or those from which learning would start, 0.5 by default.

        Parameters
        ----------
        X : array or scipy sparse (n, p)
            Some rows.
        y : array (n,)
            Classes of the rows.
        classes : array (K,), optional
            All classes, required at the first call.
        sample_weight : array (n,), optional
            Row weights, >= 0.
        n_total : float, optional
            Number of rows per pass over the data, if there are several passes: the penalty of the weights counts once
            per pass. By default there is one pass.
        forget : float, default=0.0
            Share of what is stored that each new row replaces, for data that drift: a row that came ``m`` rows ago has
            the weight ``(1 − forget)^m``, so that 1e-3 keeps about a thousand rows.

        Returns
        -------
        self
        """
        model = self._online_model()
        labels = getattr(self, "classes_", None)
        if classes is not None:
            refuse_masked(classes, "classes")
            labels = unique_labels(column_or_1d(classes), "classes")
        if labels is None:
            raise ValueError("classes: expected all class labels at the first call of partial_fit, got None.")
        if hasattr(self, "classes_") and not np.array_equal(labels, self.classes_):
            raise ValueError(f"classes: expected {self.classes_.tolist()} as before, got {labels.tolist()}.")
        if len(labels) < 2:
            raise ValueError(f"classes: expected at least two classes, got {labels.tolist()}.")
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            raise ValueError('class_weight: "balanced" needs all the data; give a dict, or sample_weight.')
        X, y = check_here(self, X, y, reset=not hasattr(self, "n_features_in_"))
        unknown_labels = np.setdiff1d(unique_labels(y, "y"), labels)
        if len(unknown_labels):
            raise ValueError(
                f"y: expected the classes {labels.tolist()} of the first call, got also {unknown_labels.tolist()}; "
                "name every class in `classes` at the first call."
            )
        code = np.searchsorted(labels, y)
        design, weight = as_design(with_missing(X)), check_sample_weight(sample_weight, X.shape[0])
        weight = weigh_classes(class_factors(self.class_weight, labels, code, weight, design), code, weight)
        self.classes_ = labels
        joint = self._is_joint(labels) if hasattr(self, "coef_") else self._resolve_multiclass(labels, None)
        target = code if joint else signs(code, len(labels))
        self.C_ = float(model.C)
        weights = self._step_online(model, design, target, weight, n_total, forget, len(labels) if joint else None)
        self._set_weights(weights)
        return self

    def _set_weights(self, weights: Float[np.ndarray, "q problems"]) -> None:
        self.coef_ = np.ascontiguousarray(weights[:-1].T)
        self.intercept_ = weights[-1].copy()

    def _earlier_fit(
        self, classes: Shaped[np.ndarray, " K"], p: int
    ) -> tuple[Float[np.ndarray, "q problems"], Float[np.ndarray, "p _"]] | None:
        coef = getattr(self, "coef_", None)
        if coef is None or coef.shape[1] != p or not np.array_equal(self.classes_, classes):
            return None
        return self._earlier()

    @by_blocks
    def decision_function(self, X: Any) -> Float[AnyArray, "m ..."]:
        """Mean score of each row under the noise, (n,) for two classes and (n, K) for more.

        For biased dropout it is ``((1 − η)∘w)ᵀx + (η∘w)ᵀc + b`` with ``c = centre_``; with ``corrupted_inputs=True`` or
        ``expected_deletion`` it is ``wᵀx + b``. The softmax gives the logarithm of the expected probabilities.
        """
        check_is_fitted(self)
        if self._is_joint(self.classes_):
            return self.predict_log_proba(X)
        mean = self._mean_scores(X)
        return mean if len(self.classes_) > 2 else mean[:, 0]

    @by_blocks
    def predict_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Class probabilities, (n, K), averaged over the noise as by :func:`bayesdrop.predict`; rows sum to 1.

        Near the boundary, the averaged probabilities may prefer another class than the mean score, except for the
        softmax. ``predict`` follows the score, which on tables errs no more often, and such probabilities are replaced
        by the nearest ones that agree with it.
        """
        check_is_fitted(self)
        if self._is_joint(self.classes_):
            return _probability(self, joint_model(self, self._model()), X, joint=True)
        positive = _probability(self, self._model(), X, joint=False)
        return agreeing(shares(positive), chosen_by(self._mean_scores(X)))

    def sample(self, X: Any, y: Any, *, sample_weight: Any = None, **options: Any) -> ArvizData:
        """Draw from the posterior of the feature-noising model with this estimator's settings.

        Accepts the options of :func:`bayesdrop.sample` (``draws``, ``tune``, ``chains``, ``seed``, …) and returns its
        ArviZ object. It needs no earlier ``fit`` and does not change the estimator. With more than two classes a
        logistic regression uses ``bd.Softmax()``, with rates shared by the classes; a hinge raises an error. With fewer
        features than rows, and without ``rates``, ``method`` or ``target``, a logistic regression also draws the mean
        and strength of its rates and the scale of its weights; see :func:`.classes.adapted`. Without ``C`` and
        ``weight_prior``, the prior scale of weights is ``√C`` for the default ``C``, and the likelihood has ``C = 1``.
        """
        from ..posterior.sampling import sample

        many = len(set(np.ravel(np.asarray(y)).tolist())) > 2
        model = self._model_of_many() if many else self._model()
        other = clone(self)  # which notes the features
        design = check_training(other, X)
        design, weight = design.drop_zero_weight(design.row_weights(sample_weight))
        model, unit = other._to_draw(model, design, weight)
        if model.loss.normalised and options.get("method") is None and options.get("target") is None:
            rates = self.rates if self.expected_deletion is None else model.rates
            model = adapted(model, rates, self.weight_prior, design.shape, unit)
        return sample(model, X, y, sample_weight=sample_weight, class_weight=self.class_weight, **options)

    def _model_of_many(self) -> Model:
        """Model for sampling with more than two classes."""
        raise ValueError(
            f"y: expected two classes, got more, and {type(self).__name__} has no likelihood of more; take "
            "DropoutLogisticRegression, or bd.sample with loss=bd.Softmax()."
        )


def _probability(estimator: Any, model: Model, X: Any, joint: bool) -> Float[AnyArray, "m K"]:
    """Probability of the positive class of each problem, (n, 1) or (n, K), or of each class if ``joint``, (n, K).

    Probabilities are averaged over the noise as by :func:`bayesdrop.predict`.

    Raises
    ------
    ValueError
        If a score overflows.
    """
    design, weights = estimator._about_centre(check_features(estimator, X))
    coef, intercept, rates = np.ascontiguousarray(weights[:-1].T), weights[-1], np.atleast_2d(estimator.rates_)
    C = np.full(1 if joint else len(coef), estimator._loss_weight())
    draws = Draws(
        model=model, feature_names=[], weight=coef[None] if joint else coef,
        intercept=intercept[None] if joint else intercept, free_rate=rates[:, :0] if joint else rates,
        index=np.arange(coef.shape[1]), fixed_rate=rates[0] if len(rates) == 1 else None, C=C, marginalised=False,
        classes=None, steps={},
    )  # fmt: skip
    chances = []
    with double_range():
        for _, part in design.parts():
            if not joint:
                chances.append(class_probability(draws, part.matrix(), estimator.arrives_noised))
            elif estimator.arrives_noised:
                chances.append(log_sum_exp(part.matvec(weights[:-1]) + intercept)[1])
            else:
                chances.append(class_chances(draws, part.matrix())[:, 0])
    result = np.concatenate(chances)
    refuse_overflow(probabilities=result)
    return result
