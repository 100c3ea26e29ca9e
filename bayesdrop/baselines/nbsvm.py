r"""NBSVM: a linear classifier of log-count ratios, shrunk towards naive Bayes.

A feature enters by its presence only, ``f = 1[x > 0]``. For one class against the rest, with row weights ``s``,

    u = α + Σ_{i: y_i = +1} s_i f_i,    v = α + Σ_{i: y_i = −1} s_i f_i,    r = log (u / ‖u‖₁) − log (v / ‖v‖₁)

is the weight that multinomial naive Bayes gives each feature. A linear classifier is trained on ``r∘f``,

    min_{w, b}  ½‖w‖² + C Σ_i s_i loss(y_i (wᵀ(r∘f_i) + b)),        loss(m) = max(0, 1 − m)²  or  log(1 + e^{−m}),

and its weights are shrunk towards their mean size ``w̄ = ‖w‖₁/p``, under which the score is naive Bayes' up to a
factor:

    w' = (1 − β) w̄ + β w,        score = w'ᵀ(r∘f) + b.

Wang & Manning (2012, "Baselines and bigrams: simple, good sentiment and topic classification"): section 2.1 for the
ratios, 2.2 for the squared hinge, printed as ``wᵀw + c Σ loss`` so that ``C = c/2``, and 2.3 for the interpolation.
Multinomial naive Bayes itself is ``sklearn.naive_bayes.MultinomialNB``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.utils.metaestimators import available_if

from .._typing import Float
from .._validation import check_choice, check_number
from ..designs import Design, as_design
from ..estimators.classes import agreeing, chosen_by, shares
from ..estimators.validation import default_names, set_parameters
from ..fitting.problems.block import fit_block
from ..fitting.solvers.driver import Status
from ..fitting.solvers.newton import Newton
from ..losses import Derivatives, Logistic, Loss
from ..losses.base import Responses, Scores
from ..model import Model
from ..rates import Fixed
from .one_vs_rest import OneVsRest

__all__ = ["NBSVM", "log_count_ratio"]


@dataclass(frozen=True)
class _SquaredHinge(Loss):
    """``max(0, 1 − ys)²`` of scores without noise."""

    binary: ClassVar[bool] = True

    def value(self, y: Responses, mean: Scores, var: Scores) -> Scores:
        return np.maximum(1 - y * mean, 0.0) ** 2

    def derivatives(self, y: Responses, mean: Scores, var: Scores) -> Derivatives:
        slack = 1 - y * mean
        below, zero = np.where(slack > 0, 1.0, 0.0), np.zeros_like(slack)
        # The slope in the variance is half the curvature, as for a convex function.
        return Derivatives(-2 * y * slack * below, below, 2 * below, zero, zero)


_LOSSES = {"squared_hinge": _SquaredHinge(), "log_loss": Logistic()}


def log_count_ratio(
    design: Design, sign: Float[np.ndarray, "n K"], weight: Float[np.ndarray, " n"], alpha: float
) -> Float[np.ndarray, "p K"]:
    """Log-ratio of the smoothed shares of each feature in the rows of sign +1 and in those of sign −1, (p, K).

    Parameters
    ----------
    design : Design
        Matrix with n rows and p columns; entries above 0 count as one.
    sign : array (n, K)
        Labels as −1 and +1.
    weight : array (n,)
        Row weights.
    alpha : float
        Added to each count, > 0.

    Examples
    --------
    >>> words = as_design(np.array([[2.0, 0.0], [1.0, 1.0]]))
    >>> np.exp(log_count_ratio(words, np.array([[1.0], [-1.0]]), np.ones(2), 1.0)).round(3).tolist()
    [[1.333], [0.667]]
    """
    counts = [alpha + design.sign_sums(weight[:, None] * (sign == side))[0] for side in (1.0, -1.0)]
    positive, negative = (np.log(count) - np.log(count.sum(axis=0)) for count in counts)
    return positive - negative


class NBSVM(OneVsRest):
    """Linear classifier of log-count ratios, shrunk towards naive Bayes, for words and pairs of words.

    Parameters
    ----------
    alpha : float, default=1.0
        Smoothing of the counts, > 0.
    beta : float, default=0.25
        Share of the linear classifier in ``w' = (1 − β) w̄ + β w``, in [0, 1]: 1 is the classifier on ratios, 0 naive
        Bayes up to a factor.
    C : float, default=1.0
        Weight of the loss, with scikit-learn's meaning: ``½‖w‖² + C Σ loss``.
    loss : str, default="squared_hinge"
        ``"squared_hinge"``, the paper's, or ``"log_loss"``, which has probabilities.
    fit_intercept : bool, default=True
        Add an intercept, which is not penalised.
    tol : float, default=1e-08
        Estimated suboptimality, relative to the objective, at which to stop.
    max_iter : int, default=200
        Maximal number of Newton steps.

    Attributes
    ----------
    coef_ : array (1, p) or (K, p)
        Weights ``w'∘r`` of the presence of each feature; more than two classes are solved one against the rest.
    intercept_ : array (1,) or (K,)
        Intercepts.
    log_count_ratio_ : array (1, p) or (K, p)
        The ratios ``r``.
    classes_ : array (K,)
        Class labels.
    n_iter_ : int
        Iterations, of the slowest class.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Raises
    ------
    ValueError
        If an entry is negative, a parameter is out of range, or there is one class only.

    See Also
    --------
    bayesdrop.DropoutSVC

    Notes
    -----
    Words may come as counts or as 0 and 1, with the same result. Wang & Manning (2012), section 2.3.

    References
    ----------
    Wang & Manning (2012), Baselines and bigrams: simple, good sentiment and topic classification, ACL, section 2.3.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> texts = ["a dull film", "a moving film", "dull and long", "moving and a joy"]
    >>> words = CountVectorizer().fit(texts)
    >>> model = NBSVM().fit(words.transform(texts), ["bad", "good", "bad", "good"])
    >>> model.predict(words.transform(["a dull and long dull film", "a joy"])).tolist()
    ['bad', 'good']
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        beta: float = 0.25,
        C: float = 1.0,
        loss: str = "squared_hinge",
        fit_intercept: bool = True,
        tol: float = Newton.tol,
        max_iter: int = Newton.max_iter,
    ) -> None:
        set_parameters(self, locals())

    alpha: float
    beta: float
    loss: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True  # if every entry is above 0, all rows are equal
        return tags

    def _solve(
        self, design: Design, sign: Float[np.ndarray, "n K"], weight: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, "q K"], int, bool]:
        check_number(self.alpha, "alpha", above=0)
        check_number(self.beta, "beta", least=0, most=1)
        loss = _LOSSES[check_choice(self.loss, "loss", _LOSSES)]
        model = Model(loss, rates=Fixed(0.0), C=self.C, fit_intercept=self.fit_intercept)
        method, names = Newton(tol=self.tol, max_iter=self.max_iter), default_names(self)
        present = self._seen(design.matrix())
        ratio = log_count_ratio(design, sign, weight, self.alpha)
        if not np.all(np.isfinite(ratio)):
            raise ValueError(f"alpha: expected a number whose sums are finite, got {self.alpha:g}; the usual one is 1.")
        self.log_count_ratio_ = np.ascontiguousarray(ratio.T)
        blocks = [
            fit_block(model, as_design(present @ sparse.diags_array(r)), model.bind(names), y[:, None], weight, method)
            for r, y in zip(ratio.T, sign.T, strict=True)
        ]
        weights = np.hstack([block.weights for block in blocks])
        size = np.abs(weights[:-1]).mean(axis=0)
        weights[:-1] = ratio * ((1 - self.beta) * size + self.beta * weights[:-1])
        converged = all(block.status is not Status.MAX_ITERATIONS for block in blocks)
        return weights, max(block.iterations for block in blocks), converged

    def _seen(self, X: Any) -> Any:
        """Presence of each feature, (n, p), sparse if ``X`` is."""
        smallest = X.min() if X.shape[0] and X.shape[1] else 0
        if smallest < 0:
            raise ValueError(
                f"X: Negative values in data, down to {smallest:g}; expected counts, or 0 and 1, as NBSVM uses whether "
                "an entry is above 0. For other features take bd.DropoutLogisticRegression."
            )
        return (X > 0).astype(float)

    def _has_probabilities(self) -> bool:
        if self.loss != "log_loss":
            raise AttributeError(f'loss: probabilities need loss="log_loss", got loss={self.loss!r}.')
        return True

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Float[np.ndarray, "m K"]:
        """Class probabilities (n, K) by the interpolated scores, with ``loss="log_loss"``; rows sum to 1."""
        score = self.decision_function(X)
        return agreeing(shares(expit(score.reshape(len(score), -1))), chosen_by(score))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> Float[np.ndarray, "m K"]:
        """Logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))
