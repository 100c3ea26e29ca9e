"""Linear classifiers under feature noise, with scikit-learn's manners.

Two classes are one problem; more are solved one against the rest, all as one block, with rates of their own.
"""

from __future__ import annotations

import numbers
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data import check_sample_weight, prepare
from ..designs import as_design
from ..inference import Newton
from ..inference.descent import Status
from ..inference.fitting import fit_block
from ..losses import Hinge, Logistic, Loss
from ..model import Model
from ..moments import ScoreMoments
from ..noise import Dropout
from ..priors import Normal
from ..rates import Fixed, PerFeature
from ..results import RatePosterior

__all__ = ["DropoutLogisticRegression", "DropoutSVC"]

Array = Any

_PARAMETERS = """
    Parameters
    ----------
    rates : float or Rates, optional
        Dropout rate in [0, 1), or ``bd.Fixed``, ``bd.Shared``, ``bd.PerFeature`` (default, with a flat prior) or
        ``bd.PerGroup``. With more than two classes each class learns its own rates, and the negative class is
        weighed by ``n₊/n₋`` in the rate update unless the rates object says otherwise.
    C : float
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature stays as it is. Other noises take no ``rates``.
    weight_prior : Normal, optional
        ``bd.Normal(1.0)`` by default; the intercept is neither penalised nor noised.
    method : Newton or EM, optional
        Minimiser with a tolerance of its own; by default ``bd.Newton(tol=tol, max_iter=max_iter)``.
    fit_intercept : bool
        Add an intercept.
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn.
    warm_start : bool
        Start from the last fit's weights and rates.
    corrupted_inputs : bool
        Say at prediction that new rows are corrupted already: the score is then ``wᵀx`` rather than its mean under
        the noise, ``(g∘w)ᵀx``, and probabilities are not averaged over the noise.
    tol : float
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int
        Most Newton steps.

    Attributes
    ----------
    coef_ : array (1, p) or (K, p)
        Weights, un-noised.
    intercept_ : array (1,) or (K,)
        Intercepts.
    classes_ : array (K,)
        Class labels.
    rates_ : array (p,) or (K, p)
        Dropout rates of the features.
    rate_posterior_ : RatePosterior or None
        Plug-in posterior of the free rates, (k,) or (k, K); None if they are fixed.
    objective_trace_ : array (n_iter_,) or (n_iter_, K)
        Energy after each iteration.
    n_iter_ : int
        Iterations.
    status_ : Status
        How the fit ended; ``status_.value`` says what to do.
    n_features_in_, feature_names_in_
        As in scikit-learn.
"""


def _with_parameters(kind: type) -> type:
    """Fill the shared list of parameters and attributes into the docstring of an estimator."""
    kind.__doc__ = (kind.__doc__ or "").replace("    {parameters}\n", _PARAMETERS.lstrip("\n"))
    return kind


class _DropoutClassifier(ClassifierMixin, BaseEstimator):
    """Shared by the classifiers; a subclass names its loss."""

    classes_: Array
    coef_: Array
    intercept_: Array
    rates_: Array
    n_features_in_: int
    _free_rates: Array

    def __init__(
        self,
        rates: Any = None,
        *,
        C: float = 1.0,
        noise: Any = None,
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        corrupted_inputs: bool = False,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        self.rates = rates
        self.C = C
        self.noise = noise
        self.weight_prior = weight_prior
        self.method = method
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.corrupted_inputs = corrupted_inputs
        self.tol = tol
        self.max_iter = max_iter

    def _loss(self) -> Loss:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _model(self) -> Model:
        rates = Fixed(self.rates) if isinstance(self.rates, numbers.Real | np.ndarray) else self.rates
        noise: Any = Dropout() if self.noise is None else self.noise
        if rates is None and getattr(noise, "has_rate", False):
            rates = PerFeature()
        prior = Normal() if self.weight_prior is None else self.weight_prior
        return Model(self._loss(), noise, rates, self.C, prior, self.fit_intercept)

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{d}" for d in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _class_weights(self, classes: Array, code: Array, weight: Array) -> Array:
        if self.class_weight is None:
            return weight
        if self.class_weight == "balanced":
            totals = np.bincount(code, weights=weight, minlength=len(classes))
            return weight * (weight.sum() / (len(classes) * totals))[code]
        return weight * compute_class_weight(self.class_weight, classes=classes, y=classes[code])[code]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit weights and rates.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite; sparse input is never made dense.
        y : array (n,)
            Two or more classes, any labels.
        sample_weight : array (n,), optional
            Row weights, >= 0; weight 2 is a row twice, weight 0 no row.

        Returns
        -------
        self
        """
        model = self._model()
        if not (isinstance(self.max_iter, numbers.Integral) and self.max_iter >= 1):
            raise ValueError(f"max_iter: expected an integer above 0, got {self.max_iter!r}.")
        if not (isinstance(self.tol, numbers.Real) and self.tol > 0):
            raise ValueError(f"tol: expected a number above 0, got {self.tol!r}.")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        classes, code = np.unique(y, return_inverse=True)
        weight = check_sample_weight(sample_weight, X.shape[0])
        if len(classes) < 2:
            raise ValueError(f"y: expected at least two classes, got one class ({classes[0]}); a classifier needs two.")
        totals = np.bincount(code, weights=weight)
        if np.any(totals == 0):
            raise ValueError(
                f"sample_weight: every row of class {classes[np.argmin(totals)]} has weight zero; leave the class out "
                "or give a row some weight."
            )
        if np.any(weight == 0):
            X, code, weight = X[weight > 0], code[weight > 0], weight[weight > 0]
        earlier = self._earlier_fit(classes, X.shape[1]) if self.warm_start else None
        self.classes_ = classes
        weight = self._class_weights(classes, code, weight)
        target = np.arange(len(classes)) if len(classes) > 2 else np.array([1])
        sign = np.where(code[:, None] == target, 1.0, -1.0)
        rate_map = model.bind(self._names())
        method = Newton(tol=self.tol, max_iter=self.max_iter) if self.method is None else self.method
        block = fit_block(model, as_design(X), rate_map, sign, weight, method, earlier)
        if block.status in (Status.MAX_ITERATIONS, Status.RATES_UNSETTLED):
            warnings.warn(block.status.value, ConvergenceWarning, stacklevel=2)
        several = len(target) > 1

        def shape(part: Array) -> Array:
            return part if several else part[:, 0]

        self.coef_ = np.ascontiguousarray(block.weights[:-1].T)
        self.intercept_ = block.weights[-1].copy()
        self.rates_ = np.ascontiguousarray(block.rates.T) if several else block.rates[:, 0].copy()
        self.rate_posterior_ = None
        if block.posterior is not None:
            a, b = block.posterior
            self.rate_posterior_ = RatePosterior(
                shape(a), shape(b), shape(block.occurrences), rate_map.names, rate_map.dim
            )
        self._free_rates = block.free_rates
        self.objective_trace_ = shape(block.trace)
        self.n_iter_ = block.iterations
        self.status_ = block.status
        return self

    def _earlier_fit(self, classes: Array, p: int) -> tuple[Array, Array] | None:
        coef = getattr(self, "coef_", None)
        if coef is None or coef.shape[1] != p or not np.array_equal(self.classes_, classes):
            return None
        return np.vstack([coef.T, self.intercept_]), self._free_rates

    def _moments(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the score of new rows, (n, 1) or (n, K)."""
        check_is_fitted(self)
        design = as_design(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        weights = np.vstack([self.coef_.T, self.intercept_])
        if self.corrupted_inputs:
            mean = design.matvec(weights[:-1]) + weights[-1]
            return mean, np.zeros_like(mean)
        model = self._model()
        rate = np.atleast_2d(self.rates_).T
        return ScoreMoments(design, model.noise, rate, model.fit_intercept).scores(weights)

    def decision_function(self, X: Any) -> Array:
        """Score of each row, (n,) for two classes and (n, K) for more: its mean under the noise.

        Under biased dropout that is ``((1 − η)∘w)ᵀx + b``; with ``corrupted_inputs=True`` it is ``wᵀx + b``.
        """
        mean, _ = self._moments(X)
        return mean if len(self.classes_) > 2 else mean[:, 0]

    def predict(self, X: Any) -> Array:
        """Class with the largest score, (n,)."""
        score = self.decision_function(X)
        index = score.argmax(axis=1) if score.ndim == 2 else (score > 0).astype(int)
        return self.classes_[index]

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, (n, K); rows sum to 1."""
        mean, var = self._moments(X)
        positive = self._loss().expected_probability(mean, var, self.C)
        if len(self.classes_) == 2:
            return np.hstack([1 - positive, positive])
        total = positive.sum(axis=1, keepdims=True)
        return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / positive.shape[1])

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def sample(self, X: Any, y: Any, *, sample_weight: Any = None, **options: Any) -> Any:
        """Draw from the posterior of the feature-noising model with this estimator's settings.

        Takes the options of :func:`bayesdrop.sample` (``draws``, ``tune``, ``chains``, ``seed``, …) and returns its
        ArviZ object. It needs no earlier ``fit`` and leaves the estimator as it is.
        """
        from ..inference import sample

        if self.class_weight is not None:
            data = prepare(X, y, sample_weight)
            code = (data.target > 0).astype(int)
            sample_weight = self._class_weights(data.classes, code, data.weight)
        return sample(self._model(), X, y, sample_weight=sample_weight, **options)


@_with_parameters
class DropoutLogisticRegression(_DropoutClassifier):
    """Logistic regression trained under marginalised feature noise, with learnt dropout rates.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the Polya-Gamma bound of the expected logistic loss (Chen, Zhu, Chen &
    Chen 2015, section 5) and learns the rates in closed form (Zhuo, Zhu & Zhang 2015). Probabilities are the
    expectation of the logistic function under the noise. ``C`` is c/2 of Chen et al. (2015).

    {parameters}

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), DropoutLogisticRegression()).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    """

    def _loss(self) -> Loss:
        return Logistic()


@_with_parameters
class DropoutSVC(_DropoutClassifier):
    """Linear support vector machine trained under marginalised feature noise, with learnt dropout rates.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the location-scale bound of the expected hinge loss (Chen, Zhu, Chen &
    Chen 2015, section 3) and learns the rates in closed form (Zhuo, Zhu & Zhang 2015). At rate 0 it is the ordinary
    linear SVM. ``predict_proba`` is the normalised pseudo-likelihood of the hinge: a monotone transform of the score
    whose steepness depends on C, not a calibrated probability. ``C`` is c of Chen et al. (2015).

    {parameters}

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), DropoutSVC(C=0.1)).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    """

    def _loss(self) -> Loss:
        return Hinge()
