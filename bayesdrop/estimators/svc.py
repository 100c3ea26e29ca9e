"""The linear support vector machine under feature noise; what the classifiers share is in :mod:`.classifier`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._typing import AnyArray, Float
from ..designs.dask.design import by_blocks
from ..fitting.tuning.calibration import Calibration
from ..losses import Hinge, Loss
from .classes import agreeing, chosen_by
from .classifier import DropoutClassifier
from .intact import intact
from .parameters import set_parameters, with_parameters

__all__ = ["DropoutSVC"]


@with_parameters
class DropoutSVC(DropoutClassifier):
    """Linear support vector machine trained under marginalised feature noise, with learnt dropout rates.

    Minimises ``½‖w‖² + C Σ φ(y, m, v)`` with the location-scale bound of the expected hinge loss (Chen, Zhu, Chen &
    Chen 2015, section 4.1) and learns the rates in closed form (Zhuo, Zhu & Zhang 2015). At rate 0 it is the ordinary
    linear SVM. ``C`` is c of Chen et al. (2015).

    A hinge has no probabilities. Where the strength of the rates was chosen on folds, as by default,
    ``predict_proba`` is what the scores of held-out rows were worth: ``1/(1 + e^{−(a s + b)})`` with ``a > 0`` for the
    score ``s`` of each row (Platt 1999; :mod:`bayesdrop.fitting.tuning.calibration`), as scikit-learn's
    ``CalibratedClassifierCV(ensemble=False)`` has it; of several classes ``e^{a s_k} / Σ_l e^{a s_l}``. Of two classes
    ``decision_function`` is then ``s + b/a``, zero where both are as probable, so that ``predict`` is the more probable
    one. With rates that are given, after ``partial_fit``, or where ``corrupted_inputs`` has been changed since the fit,
    there are no such scores, and it is the normalised pseudo-likelihood, averaged over the noise as by
    :func:`bayesdrop.predict`: its steepness depends on C, it is not calibrated, and two rows of nearly the same score
    may come in the other order.

    Parameters
    ----------
    {rates}
    {C}
    {noise}
    expectation : str
        ``"augmentation"`` or ``"gaussian"``; see :mod:`bayesdrop.losses.base`.
    {class_weight}
    {common}

    Attributes
    ----------
    {classifier}
    {selection}
    {calibration}
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

    calibration_: Calibration | None

    def __init__(
        self,
        rates: Any = None,
        *,
        C: float = 1.0,
        noise: Any = None,
        expectation: str = "augmentation",
        weight_prior: Any = None,
        method: Any = None,
        fit_intercept: bool = True,
        class_weight: Any = None,
        warm_start: bool = False,
        corrupted_inputs: bool = False,
        missing: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        set_parameters(self, locals())

    def _loss(self) -> Loss:
        return Hinge(expectation=self.expectation)

    @intact
    def _fit(self, X: Any, y: Any, sample_weight: Any, *rest: Any) -> Any:
        super()._fit(X, y, sample_weight, *rest)
        self.calibration_ = None if self.selection_ is None else self.selection_.calibration
        return self

    def _set_weights(self, weights: Float[np.ndarray, "q problems"]) -> None:
        super()._set_weights(weights)
        self.calibration_ = None  # until scores of held-out rows are known

    def _calibrated(self) -> Calibration | None:
        """The calibration, if it is for scores such as those of new rows."""
        found = self.calibration_
        return found if found is not None and found.corrupted_inputs == self.corrupted_inputs else None

    def _threshold(self) -> float:
        found = self._calibrated()
        return 0.0 if found is None else found.threshold

    @by_blocks
    def decision_function(self, X: Any) -> Float[AnyArray, "m ..."]:
        """Score of each row under the noise, (n,) for two classes and (n, K) for more, less its threshold.

        The threshold is zero, or where held-out scores made both of two classes as probable.
        """
        return super().decision_function(X) - self._threshold()

    @by_blocks
    def predict_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Class probabilities, (n, K), by the scores of held-out rows, or by the pseudo-likelihood; rows sum to 1."""
        check_is_fitted(self)
        found = self._calibrated()
        if found is None:
            return super().predict_proba(X)
        score = self.decision_function(X)
        return agreeing(found.probabilities(score.reshape(len(score), -1) + found.threshold), chosen_by(score))
