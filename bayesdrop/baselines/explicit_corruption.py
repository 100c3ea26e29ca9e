r"""Explicit corruption: train on sampled copies of the data, the Monte Carlo form of feature noising.

    min_θ  (1/M) Σ_m Σ_i loss(y_i, f_θ(x̃_im)) + penalty(θ),        x̃_im ~ p(x̃ | x_i)

which tends to the marginalised loss ``E loss(y, f(x̃))`` as the number of copies ``M`` grows, at ``M`` times the cost.
The virtual examples are those of Burges & Schölkopf (1997, "Improving the accuracy and speed of support vector
machines"); van der Maaten, Chen, Tyree & Weinberger (2013, equation 1) state them for feature noise and compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from .._typing import AnyArray, Float, Int, Shaped
from .._validation import MOST_PARTS, check_count, check_flag, check_random_state, shown, takes_random_state
from ..designs import as_design
from ..designs.duplicates import merge_duplicates
from ..designs.rows import check_sample_weight, unique_labels
from ..estimators.validation import check_here, check_new_matrix, default_names, intact
from ..noise import Noise
from .one_vs_rest import check_noise, fixed_rates, keeps_zeros

__all__ = ["ExplicitCorruption"]

# Maximum number of copies of a row with an integer weight; more would only take memory.
_MOST_TIMES = 100


def _has(method: str) -> Any:
    def check(self: Any) -> bool:
        # The wrapped estimator raises an AttributeError that names the missing method.
        getattr(getattr(self, "estimator_", self.estimator), method)
        return True

    return check


class ExplicitCorruption(MetaEstimatorMixin, BaseEstimator):
    """Train a scikit-learn classifier or regressor on sampled corruptions of its data.

    The rows are stacked ``copies`` times, each time with fresh noise, and weigh ``1/copies`` each, so that the
    estimator's own ``C`` or ``alpha`` keeps its meaning. An estimator whose ``fit`` takes no ``sample_weight`` sees
    the stacked rows unweighted: one whose penalty is set against the sum of the losses then needs its ``C`` divided
    by ``copies``. Sparse data stay sparse: only stored entries are corrupted.

    Parameters
    ----------
    estimator : estimator
        Classifier or regressor; it is cloned.
    rates : float, array (p,) or Fixed, default=0.5
        Dropout rates in [0, 1); ignored by a noise without rates.
    noise : Noise, optional
        ``bd.Dropout()`` by default. Additive noise is for dense data only.
    copies : int, default=16
        Number ``M`` of corrupted copies.
    random_state : int, numpy.random.Generator, RandomState or None, optional
        Seed of the corruption.
    corrupted_inputs : bool, default=False
        Whether the rows to predict are noised already and are used unchanged.

    Attributes
    ----------
    estimator_ : estimator
        Fitted on the corrupted rows.
    classes_ : array (K,)
        Class labels, if it is a classifier.
    rates_ : array (p,)
        Dropout rates of the features.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    bayesdrop.Dropout

    Notes
    -----
    Predictions are made at the mean of the noised features: under biased dropout that is ``(1 − η)∘x``; with
    ``corrupted_inputs=True`` they are made at ``x``.

    References
    ----------
    Burges & Schölkopf (1997), Improving the accuracy and speed of support vector machines, NIPS.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(200, 5, random_state=0)
    >>> model = ExplicitCorruption(LogisticRegression(), 0.3, copies=8, random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (200, 2)
    """

    estimator_: Any
    rates_: Float[np.ndarray, " p"]

    @takes_random_state
    def __init__(
        self,
        estimator: Any,
        rates: Any = 0.5,
        *,
        noise: Any = None,
        copies: int = 16,
        random_state: Any = None,
        corrupted_inputs: bool = False,
    ) -> None:
        self.estimator = estimator
        self.rates = rates
        self.noise = noise
        self.copies = copies
        self.random_state = random_state
        self.corrupted_inputs = corrupted_inputs

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.non_deterministic = self.random_state is None
        return tags

    @intact
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Corrupt the data and fit a clone of the estimator.

        Parameters
        ----------
        X : array, data frame or scipy sparse (n, p)
            Features, finite.
        y : array (n,) or (n, outputs)
            Targets, as the estimator takes them.
        sample_weight : array (n,), optional
            Row weights, >= 0, if the estimator takes them.

        Returns
        -------
        self
        """
        check_count(self.copies, "copies", most=MOST_PARTS)
        check_flag(self.corrupted_inputs, "corrupted_inputs")
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(f"estimator: expected a classifier or regressor, got {shown(self.estimator)}.")
        noise = check_noise(self.noise)
        X, y = check_here(self, X, y, multi_output=True)
        if y.dtype == object:
            unique_labels(y, "y")  # otherwise the fit would fail because NumPy cannot sort them
        self.rates_ = fixed_rates(self.rates, noise, default_names(self))
        if sparse.issparse(X) and not keeps_zeros(noise):
            raise ValueError(
                f"noise: {noise!r} disturbs zeros too, so that sparse X would become dense; give a dense X, or a "
                "noise that keeps zeros, such as bd.Dropout() or bd.MultiplicativeNoise()."
            )
        if sparse.issparse(X) and not (X.has_canonical_format and np.all(X.data)):
            X = X.copy()  # the caller's matrix is unchanged
            X.sum_duplicates()  # an entry stored in two parts is dropped as one
            X.eliminate_zeros()
        noise.check(float(X.min()) if X.shape[0] and X.shape[1] else 0.0)
        weighs = has_fit_parameter(self.estimator, "sample_weight")
        if sample_weight is not None and not weighs:
            raise ValueError(
                f"sample_weight: fit of {type(self.estimator).__name__} takes none, so that rows cannot be weighted."
            )
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max, size=4)
        generator = np.random.default_rng(seed)
        options = {}
        if weighs:
            rows, weight = _repeated(X, y, check_sample_weight(sample_weight, X.shape[0]))
            X, y = X[rows], y[rows]
            options["sample_weight"] = np.tile(weight / self.copies, self.copies)
        stack = sparse.vstack if sparse.issparse(X) else np.vstack
        noised: Any = stack([self._corrupt(noise, generator, X) for _ in range(self.copies)])
        # vstack chooses the sparse format; every estimator reads compressed rows.
        noised = noised.tocsr() if sparse.issparse(noised) else noised
        self.estimator_ = clone(self.estimator).fit(noised, np.concatenate([y] * self.copies), **options)
        if hasattr(self.estimator_, "classes_"):
            self.classes_ = self.estimator_.classes_
        return self

    def _corrupt(self, noise: Noise, generator: Any, X: Any) -> Any:
        """One corrupted copy of the rows."""
        if not keeps_zeros(noise):
            return noise.sample(generator, X, self.rates_)
        # Noise is drawn for the non-zero entries, row after row, so that dense and sparse storage give the same result.
        copy = X.copy()
        if not sparse.issparse(X):
            rows, columns = np.nonzero(X)
            copy[rows, columns] = noise.sample(generator, X[rows, columns], self.rates_[columns])
            return copy
        copy.data = noise.sample(generator, copy.data, self.rates_[copy.indices])
        copy.eliminate_zeros()
        return copy

    def _expected(self, X: Any) -> Any:
        """Mean of the noised features of new rows; rows that are corrupted already are returned unchanged."""
        check_is_fitted(self)
        X = check_new_matrix(self, X)
        if self.corrupted_inputs:
            return X
        gain, shift, *_ = check_noise(self.noise).coefficients(self.rates_)
        if not sparse.issparse(X):
            return X * gain + shift
        copy: Any = X.astype(np.float64)
        copy.data = copy.data * gain[X.indices]
        return copy

    @available_if(_has("predict"))
    def predict(self, X: Any) -> Shaped[AnyArray, "m ..."]:
        """Predictions of the fitted estimator, (n,) or (n, outputs)."""
        mean = self._expected(X)  # raises NotFittedError before estimator_ is read
        return self.estimator_.predict(mean)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Class probabilities of the fitted estimator, (n, K)."""
        mean = self._expected(X)
        return self.estimator_.predict_proba(mean)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any) -> Float[AnyArray, "m ..."]:
        """Scores of the fitted estimator, (n,) or (n, K)."""
        mean = self._expected(X)
        return self.estimator_.decision_function(mean)

    @available_if(_has("score"))
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the fitted estimator: accuracy of a classifier, R² of a regressor."""
        mean = self._expected(X)
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self.estimator_.score(mean, y, **options)


def _repeated(
    X: Any, y: Shaped[np.ndarray, "n ..."], weight: Float[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Numbers and weights of the rows to corrupt; a row of weight 2 is corrupted as often as two equal rows."""
    rows_with_weight = np.flatnonzero(weight > 0)
    labels = [np.unique(column, return_inverse=True)[1] for column in np.reshape(y, (len(y), -1))[rows_with_weight].T]
    used = weight[rows_with_weight]
    rows, total = merge_duplicates(as_design(X[rows_with_weight]), np.column_stack(labels), used)
    if len(rows) == len(used) and np.all(used == 1):
        return rows_with_weight, used
    are_counts = bool(np.all(used == np.round(used)))
    times = np.clip(np.round(total), 1, _MOST_TIMES).astype(int) if are_counts else np.ones(len(rows), dtype=int)
    return np.repeat(rows_with_weight[rows], times), np.repeat(total / times, times)
