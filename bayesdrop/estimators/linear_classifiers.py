"""Logistic regression and the linear support vector machine under feature noise, following the scikit-learn API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._typing import AnyArray, Float, Shaped
from .._validation import check_choice
from ..designs.dask.design import by_blocks
from ..fitting.solvers.driver import Status
from ..fitting.tuning.calibration import Calibration
from ..losses import Hinge, Logistic, Loss, Softmax
from ..model import Model
from .classes import agreeing, chosen_by
from .classifier import DropoutClassifier
from .validation import LinearParameters, intact

__all__ = ["DropoutLogisticRegression", "DropoutSVC"]


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutLogisticRegression(LinearParameters, DropoutClassifier):
    """Logistic regression trained under marginalised feature noise, with learnt dropout rates.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the Polya-Gamma bound of the expected logistic loss (Chen, Zhu, Chen &
    Chen 2015, eqs 31-35), or another form of it, and learns the rates in closed form (Zhuo, Zhu & Zhang 2015). Rows
    without labels can be added (Wager, Wang & Liang 2013). Probabilities are the expectation of the logistic function
    under the noise. ``C`` is c/2 of Chen et al. (2015).

    Parameters
    ----------
    rates : float or Rates, optional
        Dropout rate in [0, 1), or ``bd.Fixed``, ``bd.Shared``, ``bd.PerFeature`` or ``bd.PerGroup``, or ``bd.Tuned()``,
        the default: one learnt rate per feature, all of them scaled by a strength in [0, 1] that is chosen by the log
        loss of held-out rows. ``bd.PerFeature()`` is the published rule, in one fit. With more than two classes each
        class learns its own rates, and the negative class is weighted by ``n₊/n₋`` in the rate update unless the rates
        object says otherwise. ``partial_fit``, which has no folds, uses ``bd.PerFeature()`` by default; see ``sample``
        for its default.
    C : float, optional
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``. By default it is chosen together with
        the strength of the rates, by the same held-out rows, among 14 values from 1e-4 to 1e4 times a start. If
        nothing is chosen, as with fixed ``rates``, it is the start: the power of ten nearest to one over the mean
        square of non-zero entries (or the variance, if 0 is not a typical value) of the median column, which is 1 for
        standardised columns and 0/1 words, and about 100 for TF-IDF rows of norm 1; or 1 with a ``weight_prior``.
    noise : Noise, optional
        ``bd.Dropout()`` by default: a kept feature is unchanged, and a dropped one becomes 0, or its mean where 0 is
        not a typical value (``centre="auto"``). Other noises have no ``rates``.
    expectation : str, optional
        ``"augmentation"`` (default), ``"gaussian"`` or ``"taylor"``; see :mod:`bayesdrop.losses.base`. The softmax
        accepts ``"taylor"`` (default) or ``"gaussian"``. With ``expected_deletion`` the default is ``"gaussian"``.
    multiclass : str, default="auto"
        How more than two classes are fitted: ``"softmax"`` fits them jointly, with shared rates (Wager, Wang & Liang
        2013); ``"one_vs_rest"`` fits each class against the others, with rates of each class, and normalises the
        probabilities. ``"auto"`` (default) is one against the rest if there are more features than rows, because it
        predicts as well from words in a fifth of the time, or if ``expectation="augmentation"``, which the softmax
        lacks. Otherwise it is the softmax, whose log loss is smaller on tables. ``partial_fit`` ignores the number of
        features, and continues with the choice of an earlier fit.
    weight_prior : Normal, optional
        ``bd.Normal(1.0)`` by default; the intercept is neither penalised nor noised.
    method : Newton or EM, optional
        Minimiser, with its tolerance; by default ``bd.Newton(tol=tol, max_iter=max_iter)``.
    fit_intercept : bool, default=True
        Add an intercept.
    class_weight : dict or "balanced", optional
        Weights of the classes, as in scikit-learn.
    warm_start : bool, default=False
        Start from the last fit's weights and rates.
    corrupted_inputs : bool, default=False
        Whether the rows to predict are corrupted already, with zeros for missing features: their score is then ``wᵀx``
        instead of its mean under the noise, ``(g∘w)ᵀx``, probabilities are not averaged over the noise, and
        ``centre="auto"`` means None.
    expected_deletion : float, array (p,) or mapping of column names, optional
        Share of the entries of each column that the rows to predict will lose, in [0, 1); columns that a mapping does
        not name lose none. Fit complete rows, without ``rates``: the noise is this deletion, and if ``C`` is None, it
        is chosen by scores of held-out rows that lose entries. An entry that is lost comes as NaN and becomes
        ``centre_``, by default the mean of its column (``missing="nan"`` is implied); with ``corrupted_inputs=True``
        it comes as a zero.
    missing : None or "nan", optional
        How NaN in the features is treated. None (default): as an error. ``"nan"``: as a missing entry, that is, as a
        dropped one: it becomes ``centre_``, in training and in prediction, by default the mean of the observed entries
        of its column; see :class:`bayesdrop.Model`.
    tol : float, default=1e-08
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int, default=200
        Maximal number of Newton steps.

    Attributes
    ----------
    coef_ : array (1, p) or (K, p)
        Weights, without noise.
    intercept_ : array (1,) or (K,)
        Intercepts.
    classes_ : array (K,)
        Class labels.
    rates_ : array (p,) or (K, p)
        Dropout rates of the features.
    rate_posterior_ : RatePosterior or None
        Plug-in posterior of the free rates, (k,) or (k, K); None if they are fixed.
    objective_trace_ : array ``(n_iter_,)`` or ``(n_iter_, K)``
        Energy after each iteration.
    selection_ : Selection or None
        The choice of ``bd.Tuned()`` and its score: ``print(estimator.selection_)``, ``bd.plots.selection``.
    multiclass_ : str
        ``"softmax"`` or ``"one_vs_rest"``, as used.
    n_iter_ : int
        Iterations.
    status_ : Status
        How the fit ended; ``status_.value`` says what to do.
    C_ : float
        The ``C`` of the fit.
    centre_ : array (p,) or None
        Value that a dropped entry takes, the ``centre`` of the noise; None if it is 0 for all columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    DropoutLogisticRegressionCV, DropoutSVC, Tuned

    References
    ----------
    - Chen, Zhu, Chen & Chen (2015), Dropout training for SVMs with data augmentation, section 5.
    - Wager, Wang & Liang (2013), Dropout training as adaptive regularization, NIPS.

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
    >>> some = DropoutLogisticRegression(0.3).fit(X[::10], y[::10], unlabelled=X, unlabelled_weight=0.5)
    >>> bool(some.score(X, y) > 0.94)
    True
    """

    C: float | None = None
    expectation: str | None = None
    multiclass: str = "auto"
    class_weight: Any = None
    expected_deletion: Any = None

    def _loss(self) -> Loss:
        # New rows really lose entries: their expected loss is minimised, because its bound is too conservative.
        usual = "augmentation" if self.expected_deletion is None else "gaussian"
        return Logistic(usual if self.expectation is None else self.expectation)

    def _model_of_many(self) -> Model:
        form = self.expectation if self.expectation == "gaussian" else "taylor"  # of point fits alone
        return replace(self._model(), loss=Softmax(form))

    def _resolve_multiclass(self, classes: Shaped[np.ndarray, " K"], shape: tuple[int, int] | None) -> bool:
        kind = check_choice(self.multiclass, "multiclass", ("auto", "one_vs_rest", "softmax"))
        if kind == "auto":
            few = shape is None or shape[1] <= shape[0]
            bound = isinstance(self.expectation, str) and self.expectation == "augmentation"
            kind = "softmax" if few and not bound else "one_vs_rest"
        self.multiclass_ = kind
        return kind == "softmax" and len(classes) > 2

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        unlabelled: Any = None,
        unlabelled_weight: float = 1.0,
    ) -> Any:
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
        unlabelled : array or scipy sparse (m, p), optional
            Rows without labels. The term that the noise adds to the logistic loss does not depend on the label, so that
            these rows contribute to it (Wager, Wang & Liang 2013). If there are several minima, the fit descends from
            the fit without these rows or, if that has several minima, too (``"taylor"``, the softmax), from the fit
            without noise, unless ``warm_start`` defines the start.
        unlabelled_weight : float
            Weight ``α >= 0`` of each unlabelled row: labelled and unlabelled rows share the noise term as ``1 : α``.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, groups, unlabelled, unlabelled_weight)


@dataclass(eq=False, repr=False, kw_only=True)
class DropoutSVC(LinearParameters, DropoutClassifier):
    """Linear support vector machine trained under marginalised feature noise, with learnt dropout rates.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the location-scale bound of the expected hinge loss (Chen, Zhu, Chen &
    Chen 2015, section 4.1) and learns the rates in closed form (Zhuo, Zhu & Zhang 2015). At rate 0 it is the ordinary
    linear SVM. ``C`` is c of Chen et al. (2015).

    A hinge loss has no probabilities. If the strength of the rates is chosen on folds, as by default, ``predict_proba``
    is calibrated on the scores of held-out rows: ``1/(1 + e^{−(a s + b)})`` with ``a > 0`` for the score ``s`` of a row
    (Platt 1999; :mod:`bayesdrop.fitting.tuning.calibration`), and ``e^{a s_k} / Σ_l e^{a s_l}`` for more than two
    classes. With two classes ``decision_function`` is ``s + b/a``, zero if both are equally probable; ``b`` is 0 unless
    it gains a unit of log-likelihood. If nothing is chosen on folds, after ``partial_fit``, or if ``corrupted_inputs``
    was changed after the fit, there are no such scores, and ``predict_proba`` is the pseudo-likelihood, averaged over
    the noise as in :func:`bayesdrop.predict`, which is not calibrated.

    Parameters
    ----------
    rates : float or Rates, optional
        As in :class:`DropoutLogisticRegression`, but the choice is by the error on held-out rows plus the log loss of
        their scores at the best slope; see :mod:`bayesdrop.fitting.tuning.scores`.
    C : float, optional
        As in :class:`DropoutLogisticRegression`.
    noise : Noise, optional
        As in :class:`DropoutLogisticRegression`.
    margin : float, default=1.0
        Score in favour of its class above which a row costs nothing, as in :class:`bayesdrop.Hinge`.
    expectation : str, default="augmentation"
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.
    weight_prior, method, class_weight : object, optional
        As in :class:`DropoutLogisticRegression`.
    fit_intercept, warm_start : bool, default=(True, False)
        As in :class:`DropoutLogisticRegression`.
    corrupted_inputs : bool, default=False
        As in :class:`DropoutLogisticRegression`.
    expected_deletion : float, array (p,) or mapping of column names, optional
        As in :class:`DropoutLogisticRegression`; probabilities are calibrated on rows that lose entries.
    missing : None or "nan", optional
        As in :class:`DropoutLogisticRegression`.
    tol : float, default=1e-08
        Estimated suboptimality, relative to the energy, at which to stop.
    max_iter : int, default=200
        Maximal number of Newton steps.

    Attributes
    ----------
    coef_ : array (1, p) or (K, p)
        Weights, without noise.
    intercept_ : array (1,) or (K,)
        Intercepts.
    classes_ : array (K,)
        Class labels.
    rates_, rate_posterior_, objective_trace_, selection_
        As in :class:`DropoutLogisticRegression`.
    calibration_ : Calibration or None
        ``slope`` and ``intercept`` of the probability as a function of the score; None if no rows were held out.
    n_iter_ : int
        Iterations.
    status_ : Status
        How the fit ended; ``status_.value`` says what to do.
    C_ : float
        The ``C`` of the fit.
    centre_ : array (p,) or None
        Value that a dropped entry takes, the ``centre`` of the noise; None if it is 0 for all columns.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    DropoutSVCCV, DropoutLogisticRegression, Tuned

    References
    ----------
    Chen, Zhu, Chen & Chen (2015), Dropout training for SVMs with data augmentation, section 4.1.

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

    C: float | None = None
    margin: float = 1.0
    expectation: str = "augmentation"
    class_weight: Any = None
    expected_deletion: Any = None

    def _loss(self) -> Loss:
        return Hinge(self.margin, self.expectation)

    @intact
    def _fit(self, X: Any, y: Any, sample_weight: Any, *rest: Any) -> Any:
        super()._fit(X, y, sample_weight, *rest)
        self.calibration_: Calibration | None
        self.calibration_ = None if self.selection_ is None else self.selection_.calibration
        return self

    def _set_weights(self, weights: Float[np.ndarray, "q problems"]) -> None:
        super()._set_weights(weights)
        self.calibration_ = None  # until there are scores of held-out rows

    def _calibrated(self) -> Calibration | None:
        """The calibration, if it applies to scores of new rows."""
        calibration = self.calibration_
        if calibration is None or calibration.corrupted_inputs != self.arrives_noised:
            return None
        # If all weights are 0, rows have one score, unlike the scores of folds whose weights are not all 0.
        is_constant = self.status_ is Status.ALL_ZERO and len(self.classes_) == 2
        return calibration.without_scores() if is_constant else calibration

    def _threshold(self) -> float:
        calibration = self._calibrated()
        return 0.0 if calibration is None else calibration.threshold

    @by_blocks
    def decision_function(self, X: Any) -> Float[AnyArray, "m ..."]:
        """Score of each row under the noise, (n,) for two classes and (n, K) for more, minus a threshold.

        The threshold is the score at which calibrated probabilities of two classes are equal, or 0.
        """
        return super().decision_function(X) - self._threshold()

    @by_blocks
    def predict_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Class probabilities, (n, K), calibrated or from the pseudo-likelihood; rows sum to 1."""
        check_is_fitted(self)
        calibration = self._calibrated()
        if calibration is None:
            return super().predict_proba(X)
        score = self.decision_function(X)
        return agreeing(
            calibration.probabilities(score.reshape(len(score), -1) + calibration.threshold), chosen_by(score)
        )
