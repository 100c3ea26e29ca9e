"""Linear classifiers under feature noise, with scikit-learn's manners.

Two classes are one problem. More are solved one against the rest, all as one block with rates of their own, or jointly
by the softmax.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from .._validation import check_choice, refuse_masked
from ..centring import shifted
from ..data import check_sample_weight, prepare
from ..designs import as_design
from ..losses import Hinge, Logistic, Loss
from ..rates import PerFeature
from .base import DropoutEstimator, with_parameters
from .classes import ClassScores, check_rows, shares, signs, unique_labels, weigh_classes
from .intact import intact
from .joint import fit_joint, joint_chances, joint_rates
from .lazy import by_blocks
from .names import check_here
from .probabilities import positive_probability
from .unlabelled import check_unlabelled, stack

__all__ = ["DropoutLogisticRegression", "DropoutSVC"]

Array = Any


class _DropoutClassifier(ClassScores, DropoutEstimator):
    """Shared by the classifiers; a subclass names its loss."""

    classes_: Array
    class_weight: Any

    def _default_rates(self) -> Any:
        return PerFeature()

    def _is_joint(self, classes: Array) -> bool:
        """True if the classes are fitted jointly rather than one against the rest."""
        return False

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit weights and rates.

        Parameters
        ----------
        X : array, data frame, scipy sparse or Blocks (n, p)
            Features, finite; sparse input is never made dense, :class:`bayesdrop.Blocks` are read when needed.
        y : array (n,)
            Two or more classes, any labels.
        sample_weight : array (n,), optional
            Row weights, >= 0; weight 2 is a row twice, weight 0 no row.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)

    @intact
    def _fit(self, X: Any, y: Any, sample_weight: Any, unlabelled: Any = None, share: float = 1.0) -> Any:
        model = self._model()
        self._check_limits()
        X, classes, code, weight = check_rows(self, X, y, sample_weight)
        earlier = self._earlier_fit(classes, X.shape[1]) if self.warm_start else None
        weight = weigh_classes(self.class_weight, classes, code, weight, X)
        joint = self._is_joint(classes)
        settled = self._settle(model, X, weight, joint_rates(self, model) if joint else None)
        X, extra = settled.X, None
        if unlabelled is not None:
            more = shifted(check_unlabelled(unlabelled, share, X), settled.centre)
            extra = (more.shape[0], float(share))
            X, code = stack(X, more), np.append(code, np.zeros(more.shape[0], dtype=code.dtype))
            weight = np.append(weight, np.zeros(more.shape[0]))
        self.classes_ = classes
        self._online = None
        if joint:
            return fit_joint(self, settled, as_design(X), code, weight, earlier, extra)
        block = self._solve(settled, X, signs(code, len(classes)), weight, earlier, extra)
        self.coef_ = np.ascontiguousarray(block.weights[:-1].T)
        self.intercept_ = block.weights[-1].copy()
        return self

    @intact
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, n_total: float | None = None
    ) -> Any:
        """Take one step on a block of rows, by the update of Wager, Wang & Liang (2013, section 4).

        The weights move by the gradient over the running diagonal curvature, and learnt rates follow the counts so
        far. See :mod:`bayesdrop.inference.online`.

        Parameters
        ----------
        X : array or scipy sparse (n, p)
            Some rows.
        y : array (n,)
            Their classes.
        classes : array (K,), optional
            All classes, needed at the first call.
        sample_weight : array (n,), optional
            Row weights, >= 0.
        n_total : float, optional
            Rows in one pass over the data, over which the penalty of the weights is spread; by default the rows seen
            so far, which is right for a single pass.

        Returns
        -------
        self
        """
        model = self._model()
        known = getattr(self, "classes_", None)
        if classes is not None:
            refuse_masked(classes, "classes")
            known = unique_labels(column_or_1d(classes, input_name="classes"), "classes")
        if known is None:
            raise ValueError("classes: expected all class labels at the first call of partial_fit, got None.")
        if hasattr(self, "classes_") and not np.array_equal(known, self.classes_):
            raise ValueError(f"classes: expected {self.classes_.tolist()} as before, got {known.tolist()}.")
        if len(known) < 2:
            raise ValueError(f"classes: expected at least two classes, got {known.tolist()}.")
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            raise ValueError('class_weight: "balanced" needs all the data; give a dict, or sample_weight.')
        X, y = check_here(self, X, y, reset=not hasattr(self, "n_features_in_"))
        strange = np.setdiff1d(unique_labels(y, "y"), known)
        if len(strange):
            raise ValueError(
                f"y: expected the classes {known.tolist()} of the first call, got also {strange.tolist()}; name every "
                "class in `classes` at the first call."
            )
        code = np.searchsorted(known, y)
        weight = weigh_classes(self.class_weight, known, code, check_sample_weight(sample_weight, X.shape[0]))
        self.classes_ = known
        joint = self._is_joint(known)
        target = code if joint else signs(code, len(known))
        weights = self._step_online(model, X, target, weight, n_total, len(known) if joint else None)
        self.coef_ = np.ascontiguousarray(weights[:-1].T)
        self.intercept_ = weights[-1].copy()
        return self

    def _earlier_fit(self, classes: Array, p: int) -> tuple[Array, Array] | None:
        coef = getattr(self, "coef_", None)
        if coef is None or coef.shape[1] != p or not np.array_equal(self.classes_, classes):
            return None
        return self._earlier()

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """Score of each row, (n,) for two classes and (n, K) for more: its mean under the noise.

        Under biased dropout that is ``((1 − η)∘w)ᵀx + (η∘w)ᵀc + b``, ``c`` being ``centre_``; with
        ``corrupted_inputs=True`` it is ``wᵀx + b``. The softmax gives the logarithm of the expected probabilities.
        """
        check_is_fitted(self)
        if self._is_joint(self.classes_):
            return self.predict_log_proba(X)
        mean, _ = self._moments(X)
        return mean if len(self.classes_) > 2 else mean[:, 0]

    @by_blocks
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities, (n, K), averaged over the noise as by :func:`bayesdrop.predict`; rows sum to 1."""
        check_is_fitted(self)
        if self._is_joint(self.classes_):
            return joint_chances(self, X)
        return shares(positive_probability(self, X))

    def sample(self, X: Any, y: Any, *, sample_weight: Any = None, **options: Any) -> Any:
        """Draw from the posterior of the feature-noising model with this estimator's settings.

        Takes the options of :func:`bayesdrop.sample` (``draws``, ``tune``, ``chains``, ``seed``, …) and returns its
        ArviZ object. It needs no earlier ``fit`` and leaves the estimator as it is.
        """
        from ..inference import sample

        if self.class_weight is not None:
            data = prepare(X, y, sample_weight)
            code = (data.target > 0).astype(int)
            sample_weight = weigh_classes(self.class_weight, data.classes, code, data.weight)
        return sample(self._model(), X, y, sample_weight=sample_weight, **options)


@with_parameters
class DropoutLogisticRegression(_DropoutClassifier):
    """Logistic regression trained under marginalised feature noise, with learnt dropout rates.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the Polya-Gamma bound of the expected logistic loss (Chen, Zhu, Chen &
    Chen 2015, section 5), or another form of it, and learns the rates in closed form (Zhuo, Zhu & Zhang 2015). Rows
    without labels may join in (Wager, Wang & Liang 2013). Probabilities are the expectation of the logistic function
    under the noise. ``C`` is c/2 of Chen et al. (2015).

    Parameters
    ----------
    {rates}
    {C}
    {noise}
    bound : str, optional
        ``"augmentation"`` (default), ``"gaussian"`` or ``"taylor"``; see :mod:`bayesdrop.losses.base`. The softmax
        takes ``"taylor"`` (default) or ``"gaussian"``.
    multiclass : str
        What to do with more than two classes: ``"one_vs_rest"``, or ``"softmax"`` for all of them jointly (Wager,
        Wang & Liang 2013) at fixed rates, 0.5 by default.
    {class_weight}
    {common}

    Attributes
    ----------
    {classifier}
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), DropoutLogisticRegression()).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True

    Labels for one row in ten, and the other rows without:

    >>> X = StandardScaler().fit_transform(X)
    >>> some = DropoutLogisticRegression(0.3).fit(X[::10], y[::10], unlabelled=X, weight=0.5)
    >>> bool(some.score(X, y) > 0.94)
    True
    """

    def __init__(
        self,
        rates: Any = None,
        *,
        C: float = 1.0,
        noise: Any = None,
        bound: str | None = None,
        multiclass: str = "one_vs_rest",
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
        self.bound = bound
        self.multiclass = multiclass
        self.weight_prior = weight_prior
        self.method = method
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.corrupted_inputs = corrupted_inputs
        self.tol = tol
        self.max_iter = max_iter

    def _loss(self) -> Loss:
        return Logistic("augmentation" if self.bound is None else self.bound)

    def _is_joint(self, classes: Array) -> bool:
        check_choice(self.multiclass, "multiclass", ("one_vs_rest", "softmax"))
        return self.multiclass == "softmax" and len(classes) > 2

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, unlabelled: Any = None, weight: float = 1.0) -> Any:
        """Fit weights and rates.

        Parameters
        ----------
        X : array, data frame, scipy sparse or Blocks (n, p)
            Features, finite; sparse input is never made dense, :class:`bayesdrop.Blocks` are read when needed.
        y : array (n,)
            Two or more classes, any labels.
        sample_weight : array (n,), optional
            Row weights, >= 0; weight 2 is a row twice, weight 0 no row.
        unlabelled : array or scipy sparse (m, p), optional
            Rows without labels. What the noise adds to the logistic loss does not depend on the label, so that they
            tell which features are noisy together (Wager, Wang & Liang 2013, section 5).
        weight : float
            Their weight ``α >= 0``: labelled and unlabelled rows share one penalty as ``1 : α``.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, unlabelled, weight)


@with_parameters
class DropoutSVC(_DropoutClassifier):
    """Linear support vector machine trained under marginalised feature noise, with learnt dropout rates.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the location-scale bound of the expected hinge loss (Chen, Zhu, Chen &
    Chen 2015, section 3) and learns the rates in closed form (Zhuo, Zhu & Zhang 2015). At rate 0 it is the ordinary
    linear SVM. ``predict_proba`` is the normalised pseudo-likelihood of the hinge, averaged over the noise as by
    :func:`bayesdrop.predict`: its steepness depends on C, and it is no calibrated probability. Nor is it a function of
    the mean score, so two rows of nearly the same ``decision_function`` may come in the other order. ``C`` is c of
    Chen et al. (2015).

    Parameters
    ----------
    {rates}
    {C}
    {noise}
    bound : str
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.
    {class_weight}
    {common}

    Attributes
    ----------
    {classifier}
    {fitted}

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

    def __init__(
        self,
        rates: Any = None,
        *,
        C: float = 1.0,
        noise: Any = None,
        bound: str = "augmentation",
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
        self.bound = bound
        self.weight_prior = weight_prior
        self.method = method
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.corrupted_inputs = corrupted_inputs
        self.tol = tol
        self.max_iter = max_iter

    def _loss(self) -> Loss:
        return Hinge(bound=self.bound)
