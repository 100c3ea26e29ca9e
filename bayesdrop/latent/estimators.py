"""Classifiers with one learnt hidden layer whose inputs are noised, following the scikit-learn API."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from .._progress import waiting
from .._typing import Float, MatrixLike, Shaped
from .._validation import MOST_PARTS, check_choice, check_count, check_instance, check_random_state, takes_random_state
from ..data.responses import class_factors, weigh_classes
from ..designs import in_memory
from ..designs.dask.design import by_blocks
from ..estimators.base import DropoutEstimator
from ..estimators.classes import ClassScores, agreeing, check_rows, chosen_by, merge_rows, shares, signs
from ..estimators.validation import check_new_matrix, default_names, intact, set_parameters
from ..fitting.solvers.driver import Trace, announce
from ..linalg.systems import double_range, refuse_overflow
from ..losses import Hinge, Logistic, Loss
from ..losses.base import choose_form
from ..losses.protocols import Classifying, require
from ..losses.softmax import FORMS
from ..model import Model, refuse_stated_priors
from ..noise import Dropout
from ..rates import Fixed, PerFeature, RateMap
from .minimisers.lbfgs import LBFGS, LatentMethod
from .objective.criteria import Criterion, OneVersusRest, Softmax
from .objective.energy import LatentEnergy, Parameters, blocks_of
from .objective.rules import RULES
from .rates import class_ratio, learn_rates, random_start

__all__ = ["LatentDropoutLogisticRegression", "LatentDropoutSVC"]

_DEFAULT_RATE = 0.5


class LatentClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassScores, DropoutEstimator):
    """Base of both estimators; a subclass defines its loss."""

    n_hidden: int
    class_weight: Any
    n_init: int
    random_state: Any
    classes_: Shaped[np.ndarray, " K"]

    def _default_rates(self) -> Any:
        return PerFeature()

    def _is_joint(self, classes: Shaped[np.ndarray, " K"]) -> bool:
        return False

    def _criterion(self, classes: Shaped[np.ndarray, " K"]) -> Criterion:
        if self._is_joint(classes):
            form = "taylor" if self.expectation is None else self.expectation
            choose_form(FORMS, form, "softmax")
            return Softmax(form)
        loss = self._loss()
        return OneVersusRest(loss, RULES.smoothing if loss.piecewise_linear else 0.0)

    def _rate_map(self, model: Model, classes: Shaped[np.ndarray, " K"]) -> RateMap:
        joint = self._is_joint(classes)
        if joint and self.rates is None and model.noise.has_rate:
            return Fixed(_DEFAULT_RATE).bind(default_names(self))
        rate_map = model.bind(default_names(self))
        if joint and rate_map.is_free:
            raise ValueError(
                "rates: the sign rule that learns rates needs two classes per problem, and the softmax fits all at "
                'once; give a rate, as in rates=0.3, or multiclass="one_vs_rest".'
            )
        return rate_map

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit both layers, and the rates.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite; sparse input is never made dense.
        y : array (n,)
            Two or more classes, any labels.
        sample_weight : array (n,), optional
            Row weights, >= 0.

        Returns
        -------
        self
        """
        model = self._model()
        self._check_limits()
        units = check_count(self.n_hidden, "n_hidden", most=MOST_PARTS)
        check_count(self.n_init, "n_init", most=MOST_PARTS)
        design, classes, code, origins = check_rows(self, in_memory(X), y, sample_weight)
        factor = class_factors(self.class_weight, classes, code, origins.weight, design)
        design, code, weight = merge_rows(design, code, origins.weight)
        weight = weigh_classes(factor, code, weight)
        X = design.matrix()
        joint, many = self._is_joint(classes), len(classes) > 2
        target = code if joint else signs(code, len(classes))
        rate_map = self._rate_map(model, classes)
        blocks = blocks_of(X, target, model.C * weight, units)
        model.noise.check(design.minimum())
        refuse_stated_priors(model, X.shape[1], "a hidden layer")
        energy = LatentEnergy(
            blocks,
            model.noise,
            rate_map.initial,
            self._criterion(classes),
            model.weight_prior.precision(X.shape[1]),
            self.fit_intercept,
        )
        method = self._method()
        trace, posterior, occurrences = Trace(), None, None
        with double_range(), waiting("fit", "step"):
            start = self._last_fit(X.shape[1], classes)
            if start is None:
                problems = len(classes) if many else 1
                generator = check_random_state(self.random_state)
                start = random_start(energy, method, units, problems, self.n_init, generator)
            if rate_map.is_free:
                ratio = class_ratio(rate_map, target, weight, many)
                learnt = learn_rates(energy, start, rate_map, method, trace, model.C, ratio)
                energy, parameters, posterior, occurrences = learnt
            else:
                parameters = method.minimise(energy, start, trace)
        refuse_overflow(weights=parameters.flatten(), energy=trace.values[-1:])
        announce(trace.status, trace.iterations)
        self.classes_ = classes
        self.hidden_coef_ = np.ascontiguousarray(parameters.hidden[:-1].T)
        self.hidden_intercept_ = parameters.hidden[-1].copy()
        self.coef_ = np.ascontiguousarray(parameters.output[:-1].T)
        self.intercept_ = parameters.output[-1].copy()
        rates = energy.rate[:, None]
        both = None if posterior is None else posterior.map(lambda part: part[:, None])
        self._keep_rates(rate_map, rates, both, None if occurrences is None else occurrences[:, None])
        self.objective_trace_ = np.array(trace.values)[:, 0] if trace.values else np.empty(0)
        self.n_iter_ = trace.iterations
        self.status_ = trace.status
        return self

    def _method(self) -> LatentMethod:
        if self.method is not None:
            expected = "a minimiser such as bd.LBFGS() or bd.Alternating()"
            checked: LatentMethod = check_instance(self.method, "method", LatentMethod, expected)
            return checked
        return LBFGS(self.tol, self.max_iter)

    def _last_fit(self, p: int, classes: Shaped[np.ndarray, " K"]) -> Parameters | None:
        """Weights of the last fit, if a warm start can continue from them."""
        if not (self.warm_start and hasattr(self, "hidden_coef_")) or not np.array_equal(self.classes_, classes):
            return None
        earlier = self._parameters()
        return earlier if earlier.hidden.shape == (p + 1, self.n_hidden) else None

    def _parameters(self) -> Parameters:
        return Parameters(
            np.vstack([self.hidden_coef_.T, self.hidden_intercept_]), np.vstack([self.coef_.T, self.intercept_])
        )

    def _energy(self, X: Any) -> LatentEnergy:
        """Check new rows and return them as an energy without targets."""
        check_is_fitted(self)
        X = check_new_matrix(self, X)
        model, n = self._model(), X.shape[0]
        blocks = blocks_of(X, np.zeros(n), np.ones(n), int(self.n_hidden))
        # Rows that are already corrupted get no further noise.
        noise, rate = (Dropout(), 0 * self.rates_) if self.corrupted_inputs else (model.noise, self.rates_)
        return LatentEnergy(
            blocks, noise, rate, self._criterion(self.classes_), np.ones(X.shape[1]), self.fit_intercept
        )

    def _scores(self, X: MatrixLike) -> tuple[Float[np.ndarray, "n M"], Float[np.ndarray, "n J"] | None]:
        """Means (n, M) of the scores of new rows, and covariances (n, J) of the criterion's pairs or None."""
        energy, parameters = self._energy(X), self._parameters()
        with double_range():
            parts = [energy.scores(block, parameters) for block in energy.blocks]
        covs = [cov for _, cov in parts if cov is not None]
        mean = np.concatenate([mean for mean, _ in parts])
        refuse_overflow(scores=mean, variances=np.concatenate(covs) if covs else 0.0)
        return mean, np.concatenate(covs) if covs else None

    def transform(self, X: MatrixLike) -> Float[np.ndarray, "n units"]:
        """Hidden features ``σ(ū)`` at the mean pre-activations under the noise, (n, n_hidden)."""
        energy, hidden = self._energy(X), self._parameters().hidden
        return np.concatenate([expit(energy.moments_of(block).mean(hidden)) for block in energy.blocks])

    @by_blocks
    def decision_function(self, X: MatrixLike) -> Float[np.ndarray, ...]:
        """Log odds of the second of two classes, (n,), or of each class against the rest, (n, K), for more classes.

        Odds are ratios of probabilities averaged over the noise. The softmax gives the log of these probabilities.
        """
        check_is_fitted(self)
        if self._is_joint(self.classes_):
            return self.predict_log_proba(X)
        for_it, against = (np.maximum(self._chance(X, sign), np.finfo(float).tiny) for sign in (1.0, -1.0))
        odds = np.log(for_it) - np.log(against)
        return odds if len(self.classes_) > 2 else odds[:, 0]

    @by_blocks
    def predict_proba(self, X: MatrixLike) -> Float[np.ndarray, "n K"]:
        """Class probabilities, (n, K); rows sum to 1."""
        check_is_fitted(self)
        if self._is_joint(self.classes_):
            return Softmax.expected_probabilities(*self._scores(X))
        return agreeing(shares(self._chance(X, 1.0)), chosen_by(self.decision_function(X)))

    def _chance(self, X: MatrixLike, sign: float) -> Float[np.ndarray, "n M"]:
        """Probability of each problem's class (``sign`` +1), or of the other classes (−1), (n, M)."""
        mean, cov = self._scores(X)
        loss = require(self._loss(), Classifying, "predict_proba", "take predict")
        return loss.expected_probability(sign * mean, np.zeros_like(mean) if cov is None else cov, float(self.C))

    @property
    def _n_features_out(self) -> int:
        return len(self.hidden_coef_)


class LatentDropoutLogisticRegression(LatentClassifier):
    """Logistic regression on one learnt hidden layer whose inputs are noised.

    Minimises ``½‖α‖² + ½‖W‖² + C Σ φ`` with the noise propagated through the sigmoid units to first order (Chen, Zhu,
    Chen & Chen 2015, section 5.2); see :mod:`bayesdrop.latent.objective.energy`. More than two classes share the hidden
    layer.

    Parameters
    ----------
    rates : float or Rates, optional
        Dropout rate of the inputs in [0, 1), or ``bd.Fixed``, ``bd.Shared``, ``bd.PerFeature`` or ``bd.PerGroup``,
        learnt by the sign rule of the linearised score and shared by all classes. By default ``bd.PerFeature()``, or
        0.5 for the softmax, which has no such rule.
    n_hidden : int, default=20
        Hidden units, at least 1.
    C, noise : see DropoutLogisticRegression
        As in :class:`DropoutLogisticRegression`.
    expectation : str, optional
        As in :class:`DropoutLogisticRegression`.
    multiclass : str, default="softmax"
        How more than two classes are fitted: ``"softmax"``, all jointly, or ``"one_vs_rest"``.
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn.
    weight_prior : Normal, optional
        Prior of the hidden weights, ``bd.Normal(1.0)`` by default; the output weights always have ``bd.Normal(1.0)``.
    method : LBFGS or Alternating, optional
        By default ``bd.LBFGS(tol, max_iter)``.
    fit_intercept : bool, default=True
        Add intercepts to both layers.
    n_init : int, default=3
        Number of random starts; the best after 15 steps is run to convergence.
    warm_start : bool, default=False
        Start from the last fit's weights.
    corrupted_inputs : bool, default=False
        Whether the rows to predict are already corrupted, so that their scores are not averaged over the noise.
    random_state : int, numpy.random.Generator, RandomState or None, optional
        Seed of the random starts.
    tol : float, default=0.0001
        Stop if steps lower the energy by less than ``tol`` times the total weight of the rows; see ``bd.LBFGS``.
    max_iter : int, default=500
        Maximal number of steps.

    Attributes
    ----------
    hidden_coef_ : array (n_hidden, p)
        Weights of the hidden units.
    hidden_intercept_ : array (n_hidden,)
        Intercepts of the hidden units.
    coef_ : array (1, n_hidden) or (K, n_hidden)
        Output weights.
    intercept_ : array (1,) or (K,)
        Output intercepts.
    classes_, rates_, rate_posterior_, objective_trace_, n_iter_, status_, n_features_in_
        As in :class:`DropoutLogisticRegression`.
    feature_names_in_
        As in :class:`DropoutLogisticRegression`.

    See Also
    --------
    LatentDropoutSVC, sample_latent, LBFGS

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = LatentDropoutLogisticRegression(0.05, n_hidden=8, C=10.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), model.transform(X).shape
    (True, (300, 8))
    """

    @takes_random_state
    def __init__(
        self,
        rates: Any = None,
        *,
        n_hidden: int = 20,
        C: float = 1.0,
        noise: Any = None,
        expectation: str | None = None,
        multiclass: str = "softmax",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_init: int = 3,
        warm_start: bool = False,
        corrupted_inputs: bool = False,
        random_state: Any = None,
        tol: float = LBFGS.tol,
        max_iter: int = LBFGS.max_iter,
    ) -> None:
        set_parameters(self, locals())

    def _loss(self) -> Loss:
        return Logistic("augmentation" if self.expectation is None else self.expectation)

    def _is_joint(self, classes: Shaped[np.ndarray, " K"]) -> bool:
        check_choice(self.multiclass, "multiclass", ("one_vs_rest", "softmax"))
        return self.multiclass == "softmax" and len(classes) > 2


class LatentDropoutSVC(LatentClassifier):
    """Support vector machine on one learnt hidden layer whose inputs are noised.

    Minimises ``½‖α‖² + ½‖W‖² + C Σ φ`` with the noise propagated through the sigmoid units to first order (Chen, Zhu,
    Chen & Chen 2015, section 4.2); see :mod:`bayesdrop.latent.objective.energy`. The hinge is smoothed within 0.01 of
    its corner. More than two classes share the hidden layer, one against the rest.

    Parameters
    ----------
    rates : float or Rates, optional
        Dropout rate of the inputs in [0, 1), or ``bd.Fixed``, ``bd.Shared``, ``bd.PerFeature`` (default) or
        ``bd.PerGroup``, learnt by the sign rule of the linearised score and shared by all classes.
    n_hidden, C, noise : see LatentDropoutLogisticRegression
        As in :class:`LatentDropoutLogisticRegression`.
    expectation : str, default="augmentation"
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.
    class_weight, weight_prior, method, fit_intercept, n_init : see LatentDropoutLogisticRegression
        As in :class:`LatentDropoutLogisticRegression`.
    warm_start, corrupted_inputs, random_state, tol, max_iter : see LatentDropoutLogisticRegression
        As in :class:`LatentDropoutLogisticRegression`.

    Attributes
    ----------
    hidden_coef_, hidden_intercept_, coef_, intercept_, classes_, rates_, rate_posterior_, objective_trace_, n_iter_
        As in :class:`LatentDropoutLogisticRegression`, and so are ``status_`` and the names of features.

    See Also
    --------
    LatentDropoutLogisticRegression, Alternating

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = LatentDropoutSVC(0.05, n_hidden=8, C=10.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    @takes_random_state
    def __init__(
        self,
        rates: Any = None,
        *,
        n_hidden: int = 20,
        C: float = 1.0,
        noise: Any = None,
        expectation: str = "augmentation",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        n_init: int = 3,
        warm_start: bool = False,
        corrupted_inputs: bool = False,
        random_state: Any = None,
        tol: float = LBFGS.tol,
        max_iter: int = LBFGS.max_iter,
    ) -> None:
        set_parameters(self, locals())

    def _loss(self) -> Loss:
        return Hinge(expectation=self.expectation)
