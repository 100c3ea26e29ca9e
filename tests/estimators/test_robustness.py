"""Deleting features: seeded, of the stated frequency, the same in dense and sparse; the scorer in scikit-learn."""

import pickle

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.datasets import load_digits
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

import bayesdrop as bd

FALSE_ALARM = 2e-5


def rows(n=200, p=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.6)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
def test_frequency(rate, seed):
    """The number deleted is binomial; each of the tests alarms falsely at the rate 2e-5."""
    X = rows()
    left = bd.delete_features(X, rate, seed)
    present = np.count_nonzero(X)
    gone = present - np.count_nonzero(left)
    assert stats.binomtest(gone, present, rate).pvalue > FALSE_ALARM
    kept = left != 0
    np.testing.assert_array_equal(left[kept], X[kept])


def test_entries_are_deleted_independently():
    """Numbers of entries left in a row: the statistic of dispersion is χ², false-alarm rate 2e-5."""
    left = np.count_nonzero(bd.delete_features(np.ones((2000, 20)), 0.3, seed=3), axis=1)
    statistic = np.sum((left - 14.0) ** 2) / (20 * 0.3 * 0.7)
    # The variance of a squared binomial residual is 2 − 6/n + 1/(n·0.21) of its squared mean: nearly χ²(2000).
    assert FALSE_ALARM / 2 < stats.chi2(2000).sf(statistic) < 1 - FALSE_ALARM / 2


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_sparse_stays_sparse_and_equals_dense(kind):
    X = rows()
    thin = kind(X)
    before = thin.copy()
    left = bd.delete_features(thin, 0.5, 7)
    assert type(left) is kind
    np.testing.assert_array_equal(left.toarray(), bd.delete_features(X, 0.5, 7))
    assert left.nnz == np.count_nonzero(left.toarray())
    np.testing.assert_array_equal(thin.toarray(), before.toarray())


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_dtype_and_input_stay(dtype):
    X = (rows() != 0).astype(dtype)
    before = X.copy()
    assert bd.delete_features(X, 0.5, 0).dtype == dtype
    np.testing.assert_array_equal(X, before)


def test_data_frames_keep_their_names():
    import pandas as pd
    import polars as pl

    X = rows(p=3)
    table = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(200) + 5)
    left = bd.delete_features(table, 0.5, 0)
    assert left.index.equals(table.index)
    for frame in (left, bd.delete_features(pl.DataFrame(X, schema=["a", "b", "c"]), 0.5, 0)):
        assert list(frame.columns) == ["a", "b", "c"]
        np.testing.assert_array_equal(frame.to_numpy(), bd.delete_features(X, 0.5, 0))


def test_the_ends():
    X = rows()
    np.testing.assert_array_equal(bd.delete_features(X, 0, 0), X)
    assert not np.any(bd.delete_features(X, 1, 0))


def digits():
    X, y = load_digits(return_X_y=True)
    chosen = (y == 3) | (y == 8)
    return X[chosen] / 16, y[chosen]


def test_scorer_scores_what_is_left():
    X, y = digits()
    model = bd.DropoutLogisticRegression(0.3, corrupted_inputs=True).fit(X[::2], y[::2])
    for name in ("accuracy", "neg_log_loss"):
        scorer = bd.deletion_scorer(0.4, seed=3, scoring=name, repeats=3)
        manual = [
            get_scorer(name)(model, _deleted(X[1::2], 0.4, np.random.default_rng([3, repeat])), y[1::2])
            for repeat in range(3)
        ]
        assert scorer(model, X[1::2], y[1::2]) == pytest.approx(np.mean(manual))
        assert scorer(model, X[1::2], y[1::2]) == pytest.approx(scorer(model, sparse.csr_array(X[1::2]), y[1::2]))
    assert bd.deletion_scorer(0.0, scoring=None)(model, X, y) == model.score(X, y)
    weight = np.arange(len(y)) % 2
    assert bd.deletion_scorer(0.0)(model, X, y, sample_weight=weight) == model.score(X, y, sample_weight=weight)


def _deleted(X, rate, rng):
    left, (i, d) = X.copy(), np.nonzero(X)
    gone = rng.random(len(i)) < rate
    left[i[gone], d[gone]] = 0
    return left


def test_scorer_in_scikit_learn():
    X, y = digits()
    scorer, folds = bd.deletion_scorer(0.5, repeats=2), StratifiedKFold(3)
    model = bd.DropoutLogisticRegression(C=1.0, corrupted_inputs=True)
    search = GridSearchCV(model, {"rates": [0.0, 0.5]}, scoring=scorer, cv=folds).fit(X, y)
    assert search.best_params_ == {"rates": 0.5}
    again = bd.DropoutLogisticRegressionCV([0.0, 0.5], Cs=(1.0,), cv=folds, scoring=scorer, corrupted_inputs=True)
    again.fit(X, y)
    assert again.best_rates_ == 0.5
    # The odd row may fall on the other side of a threshold that fits reach from different starts.
    np.testing.assert_allclose(
        again.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"], atol=1.01 / len(y)
    )
    copy = pickle.loads(pickle.dumps(scorer))
    assert cross_val_score(model, X, y, cv=2, scoring=copy).shape == (2,)
