"""Labels and class probabilities of the classifiers, and the default model of their posterior (:func:`adapted`).

The flat rates and unit-normal weights of ``bd.sample(bd.Model(), X, y)`` are informative: features are dropped half of
the time on average, and weights hardly exceed 2. On tables that need little noise or large weights they predict worse
than ridge regression with a tuned penalty (``benchmarks.peers``). Therefore :func:`adapted` draws what ridge regression
tunes: the mean and the strength of the rates, and the scale of the weights,

    η_d ~ Beta(μ s, (1 − μ) s),   w_d ~ N(0, σ²),   σ ~ HalfNormal(1),

with the hyperpriors of ``bd.Hierarchical``; point fits choose the strength of their noise instead (``bd.Tuned``).
Several classes share all of these, ``w_kd ~ N(0, σ²)``. With at least as many features as rows, as for words, the data
contain little information about them, and the model is unchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from .._typing import AnyArray, Float, Int, PerRow, Shaped
from ..data.dataset import check_classes
from ..designs import Design
from ..designs.dask.design import by_blocks
from ..designs.duplicates import merge_duplicates
from ..fitting.tuning.folds import Rows
from ..losses import Softmax
from ..model import Model
from ..priors import HalfNormal, Normal
from ..rates import Fixed, Hierarchical, RateMap
from ..rates.learnt import is_tuned
from .validation import check_training, default_names

__all__ = [
    "ClassScores",
    "adapted",
    "agreeing",
    "check_rows",
    "chosen_by",
    "joint_model",
    "joint_rates",
    "merge_rows",
    "shares",
    "signs",
]


def check_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any = None
) -> tuple[Design, Shaped[np.ndarray, " K"], PerRow, Rows]:
    """Check the data of a fit; return rows of positive weight, the classes, the class number and origin of each row.

    Raises
    ------
    ValueError
        If there are fewer than two classes, or all rows of a class have weight 0.
    """
    design = check_training(estimator, X)
    classes, code, weight = check_classes(design, y, sample_weight)
    origins = Rows.of(weight, groups)
    design, weight, code = design.drop_zero_weight(weight, code)
    return design, classes, code, replace(origins, weight=weight)


def merge_rows(design: Any, code: PerRow, weight: PerRow) -> tuple[Any, PerRow, PerRow]:
    """Merge equal rows of a class; see :func:`bayesdrop.designs.duplicates.merge_duplicates`.

    Examples
    --------
    >>> from bayesdrop.designs import as_design
    >>> rows, code, weight = merge_rows(as_design(np.ones((3, 1))), np.array([1, 0, 1]), np.ones(3))
    >>> code.tolist(), weight.tolist()
    ([0, 1], [1.0, 2.0])
    """
    rows, total = merge_duplicates(design, code[:, None], weight)
    if len(rows) == len(weight) and np.all(weight == 1):
        return design, code, weight
    return design[rows], code[rows], total


def signs(code: PerRow, n_classes: int) -> PerRow:
    """Targets ±1 of one problem per class, (n, K), or of the one problem of two classes, (n, 1).

    Examples
    --------
    >>> signs(np.array([0, 1]), 2).tolist()
    [[-1.0], [1.0]]
    """
    positive = np.arange(n_classes) if n_classes > 2 else np.array([1])
    return np.where(code[:, None] == positive, 1.0, -1.0)


def shares(positive: Float[AnyArray, "m K"]) -> Float[AnyArray, "m classes"]:
    """Class probabilities, rows summing to 1, from those of the positive class (n, 1) or of each class (n, K).

    Examples
    --------
    >>> shares(np.array([[0.25]])).tolist(), shares(np.array([[0.2, 0.1, 0.1]])).tolist()
    ([[0.75, 0.25]], [[0.5, 0.25, 0.25]])
    """
    positive = np.clip(positive, 0.0, 1.0)
    if positive.shape[1] == 1:
        return np.hstack([1 - positive, positive])
    total = positive.sum(axis=1, keepdims=True)
    return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / positive.shape[1])


def chosen_by(score: Float[AnyArray, "m ..."]) -> Int[AnyArray, " m"]:
    """Number of the class with the largest score, (n,), for scores (n,) or (n, 1) of two classes and (n, K) of more.

    Examples
    --------
    >>> chosen_by(np.array([-1.0, 2.0])).tolist(), chosen_by(np.array([[0.0, 1.0, -1.0]])).tolist()
    ([0, 1], [1])
    """
    if score.ndim > 1 and score.shape[1] > 1:
        return score.argmax(axis=1)
    return (score.reshape(len(score)) > 0).astype(int)


def agreeing(chance: Float[AnyArray, "m K"], chosen: Int[AnyArray, " m"]) -> Float[AnyArray, "m K"]:
    """Nearest probabilities under which the chosen class is the most probable.

    A probability averaged over the noise is not a function of the mean score: near the boundary it may prefer another
    class.

    Examples
    --------
    >>> agreeing(np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]), np.array([1, 1])).tolist()
    [[0.4, 0.4000000000000001, 0.2], [0.2, 0.5, 0.3]]
    """
    rows = np.flatnonzero(chance.argmax(axis=1) != chosen)
    if not len(rows):
        return chance
    chance, own_chance = chance.copy(), chance[rows, chosen[rows]][:, None]
    # Probabilities above a level are lowered to it, and that of the chosen class is raised to it.
    above = -np.sort(-np.where(chance[rows] > own_chance, chance[rows], -np.inf), axis=1)
    count = 1 + np.arange(above.shape[1])
    means = (own_chance + np.cumsum(np.maximum(above, 0.0), axis=1)) / (1 + count)
    level = np.maximum(own_chance, means.max(axis=1, keepdims=True))  # unchanged if the others are at most equal
    chance[rows] = np.minimum(chance[rows], level)
    chance[rows, chosen[rows]] = np.nextafter(level[:, 0], 1.0)
    return chance


class ClassScores(ClassifierMixin):
    """Predicted classes and log probabilities, from the scores and probabilities of a classifier."""

    classes_: Shaped[np.ndarray, " K"]

    def decision_function(self, X: Any) -> Float[AnyArray, "m ..."]:
        """Scores, (n,) for two classes and (n, K) for more."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Class probabilities, (n, K); rows sum to 1."""
        raise NotImplementedError

    @by_blocks
    def predict(self, X: Any) -> Shaped[AnyArray, " m"]:
        """Class with the largest score, (n,), which is also the most probable class."""
        chosen = chosen_by(self.decision_function(X))
        return self.classes_[chosen]

    @by_blocks
    def predict_log_proba(self, X: Any) -> Float[AnyArray, "m K"]:
        """Logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


def adapted(model: Model, rates: Any, weight_prior: Any, shape: tuple[int, ...], unit: float = 1.0) -> Model:
    """If ``rates`` is None, return the model with hierarchical rates and, without ``weight_prior``, a learnt scale.

    The scale of the weights has the prior ``HalfNormal(unit)``. If ``p >= n`` in ``shape`` (n, p), return ``model``.

    Examples
    --------
    >>> adapted(Model(), None, None, (100, 3)).weight_prior.scale
    HalfNormal(scale=1.0)
    >>> adapted(Model(), None, None, (100, 300)) == Model()
    True
    """
    if rates is not None or not model.noise.has_rate or len(shape) != 2 or shape[1] >= shape[0]:
        return model
    prior = Normal(HalfNormal(unit)) if weight_prior is None else weight_prior
    return replace(model, rates=Hierarchical(["all"] * shape[1]), weight_prior=prior)


def joint_model(estimator: Any, model: Model) -> Model:
    """Return the estimator's model with the softmax loss, and with rate 0.5 if none is given or to be chosen."""
    usual = "taylor" if estimator.expected_deletion is None else "gaussian"
    loss = Softmax(usual if estimator.expectation is None else estimator.expectation)
    default = estimator.rates is None and estimator.expected_deletion is None and model.noise.has_rate
    return replace(model, loss=loss, rates=Fixed(0.5) if default and not is_tuned(model.rates) else model.rates)


def joint_rates(estimator: Any, model: Model) -> RateMap:
    """Rates of the features in ``partial_fit``, shared by the classes.

    A block of rows does not determine the rates of all rows: learnt and default rates are those of an earlier fit, or
    those from which learning starts.
    """
    model, names = joint_model(estimator, model), default_names(estimator)
    rate_map = model.bind(names)
    if model.noise.has_rate and (estimator.rates is None or rate_map.is_free):
        # A fit of each class against the rest has rates per class.
        rate = np.atleast_2d(getattr(estimator, "rates_", rate_map.initial)).mean(axis=0)
        rate_map = replace(model, rates=Fixed(rate)).bind(names)
    return rate_map
