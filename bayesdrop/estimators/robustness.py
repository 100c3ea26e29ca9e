"""Features that go missing at test time: random deletion, scores under deletion, and training for it.

"Nightmare at test time" (Globerson & Roweis 2006; Zhuo, Zhu & Zhang 2015, section 4): the training rows are complete,
and each feature of a new row is missing, that is zero, with a probability ``q`` that is roughly known. To prepare:

1. Use ``q`` as the prior mode of the dropout rates, ``bd.Beta.from_mode(q, relative_strength=λ)``: the learnt rates are
   ``(η̂_d + λ q)/(1 + λ)``, between the rate that the data suggest for a feature and its rate of deletion.
2. Set ``corrupted_inputs=True``: new rows are already corrupted, so that their score is ``wᵀx`` and not its mean under
   further noise. The training noise then replaces features by 0, the value of a missing feature, also where
   ``centre="auto"`` would use the mean.
3. Score with :func:`deletion_scorer`, a ``scoring`` for scikit-learn, by which ``C`` and ``λ`` may be chosen.

Deletion acts on the features that the model receives: scale them first, without shifting zero, or delete in a pipeline.

>>> import bayesdrop as bd
>>> from sklearn.datasets import load_digits
>>> from sklearn.model_selection import train_test_split
>>> X, y = load_digits(return_X_y=True)
>>> rows = (y == 3) | (y == 8)
>>> X, X_test, y, y_test = train_test_split(X[rows] / 16, y[rows], stratify=y[rows], random_state=0)
>>> rates = bd.PerFeature(bd.Beta.from_mode(0.5, relative_strength=5.0))
>>> robust = bd.DropoutLogisticRegression(rates, corrupted_inputs=True).fit(X, y)
>>> plain = bd.DropoutLogisticRegression(0.0).fit(X, y)
>>> scorer = bd.deletion_scorer(0.5, seed=0, repeats=20)
>>> bool(scorer(robust, X_test, y_test) > scorer(plain, X_test, y_test) + 0.01)
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .._typing import Shaped
from .._validation import check_count, check_number, check_seed, open_table, shown, takes_seed
from ..designs import admit

__all__ = ["DeletionScorer", "delete_features", "deletion_scorer"]


_ADVICE = "it is the probability that a feature is deleted"
_MOST_REPEATS = 10**6


def _delete(X: Any, rate: float, rng: np.random.Generator) -> Any:
    """Copy of ``X``, of the same type, with entries deleted at random."""
    table_of_user, X = X, admit(X)
    if issparse(X):
        rows = X.tocsr(copy=True)
        # Store one number per entry in the order of rows, so that a seed deletes the same entries as in a dense array.
        rows.sum_duplicates()
        rows.eliminate_zeros()
        _refuse_missing(rows.data)
        rows.data[rng.random(rows.nnz) < rate] = 0
        rows.eliminate_zeros()
        return rows.asformat(X.format)
    if hasattr(X, "iloc"):  # a table of any kind
        left, table = _delete(X.to_numpy(), rate, rng), open_table(table_of_user).to_native()
        if isinstance(table, type(X)):
            return type(table)(left, columns=table.columns, index=table.index)
        import narwhals as nw

        return nw.from_numpy(left, schema=list(X.columns), backend=nw.get_native_namespace(table)).to_native()
    left = np.array(X)
    if left.ndim != 2 or left.dtype.kind not in "biuf":
        raise ValueError(
            f"X: expected a matrix (n, p) of numbers, got shape {left.shape} of {left.dtype}; encode text and "
            "categories before, and give a single row as X[None, :]."
        )
    _refuse_missing(left)
    where = np.nonzero(left)
    is_deleted = rng.random(len(where[0])) < rate
    left[where[0][is_deleted], where[1][is_deleted]] = 0
    return left


def _refuse_missing(values: Shaped[np.ndarray, ...]) -> None:
    if values.dtype.kind == "f" and np.any(np.isnan(values)):
        raise ValueError("X: expected numbers, got missing ones (NaN or null); fill them in before.")


@takes_seed
def delete_features(X: Any, rate: float, seed: Any) -> Any:
    """Return a copy with each non-zero entry set to zero with probability ``rate``, independently.

    Parameters
    ----------
    X : array, data frame or scipy sparse (n, p)
        Features. Sparse input stays sparse, in its format, without the deleted entries.
    rate : float
        Probability of deletion in [0, 1].
    seed : int, numpy.random.Generator or RandomState
        The same seed deletes the same entries of a dense matrix and of the equal sparse one.

    Returns
    -------
    array, data frame or scipy sparse (n, p)
        The same type as ``X``; a pandas data frame for a dict or an xarray object.

    Raises
    ------
    ValueError
        If the rate is not a probability, the seed is invalid, or ``X`` is not a complete numeric matrix.

    See Also
    --------
    deletion_scorer

    Examples
    --------
    >>> left = delete_features(np.ones((1000, 10)), 0.3, seed=0)
    >>> bool(abs(left.mean() - 0.7) < 0.02)
    True
    """
    rate = check_number(rate, "rate", least=0, most=1, advice=_ADVICE)
    seed = check_seed(seed)
    return _delete(X, rate, np.random.default_rng(seed))


@dataclass(frozen=True)
class DeletionScorer:
    """Scorer that deletes features first; made by :func:`deletion_scorer`.

    Attributes
    ----------
    rate : float
        Probability of deletion.
    seed : int
        Seed of the deletions.
    scoring : str, callable or None
        Name of a scikit-learn scorer, a scorer, or None for ``estimator.score``.
    repeats : int
        Number of deletions over which the score is averaged.
    """

    rate: float
    seed: int = 0
    scoring: Any = "accuracy"
    repeats: int = 1

    def __post_init__(self) -> None:
        check_number(self.rate, "rate", least=0, most=1, advice=_ADVICE)
        object.__setattr__(self, "seed", check_seed(self.seed))
        check_count(self.repeats, "repeats", most=_MOST_REPEATS)
        if isinstance(self.scoring, str):
            from sklearn.metrics import get_scorer

            try:
                get_scorer(self.scoring)
            except ValueError as error:
                raise ValueError(
                    f"scoring: expected the name of a scorer of scikit-learn or a callable. {error}"
                ) from None
        elif self.scoring is not None and (isinstance(self.scoring, type) or not callable(self.scoring)):
            raise ValueError(
                f'scoring: expected a name such as "accuracy", a callable scorer(estimator, X, y) or None, got '
                f"{shown(self.scoring)}."
            )

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean score of a fitted estimator on ``X`` (n, p) with deletions; ``sample_weight`` (n,) goes to the score."""
        from sklearn.metrics import check_scoring

        scorer = check_scoring(estimator, scoring=self.scoring)
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        scores = [
            scorer(estimator, _delete(X, self.rate, np.random.default_rng([self.seed, repeat])), y, **weights)
            for repeat in range(self.repeats)
        ]
        return float(np.mean(scores))


@takes_seed
def deletion_scorer(rate: float, *, seed: Any = 0, scoring: Any = "accuracy", repeats: int = 1) -> DeletionScorer:
    """Make a scorer that deletes features at random before it scores.

    Parameters
    ----------
    rate : float
        Probability in [0, 1] that a non-zero entry is set to zero.
    seed : int, numpy.random.Generator or RandomState, default=0
        Every call uses the same seed, so that estimators are scored on the same deletions.
    scoring : str, callable or None, default="accuracy"
        Name of a scikit-learn scorer, or a scorer; greater is better. None is the ``score`` of the estimator.
    repeats : int, default=1
        Number of deletions whose scores are averaged.

    Returns
    -------
    DeletionScorer
        ``scorer(estimator, X, y, sample_weight=None) -> float``, for any ``scoring=`` of scikit-learn.

    Raises
    ------
    ValueError
        If an argument is out of range; the message names it.

    See Also
    --------
    delete_features, bayesdrop.plots.deletion_robustness

    References
    ----------
    Globerson & Roweis (2006), Nightmare at test time: robust learning by feature deletion, ICML.

    Examples
    --------
    >>> import bayesdrop as bd
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> model = bd.DropoutLogisticRegression(0.3, corrupted_inputs=True)
    >>> bool(cross_val_score(model, X / 16, y, scoring=deletion_scorer(0.3), cv=3).mean() > 0.95)
    True
    """
    return DeletionScorer(rate, seed, scoring, repeats)
