"""Without a ``C`` the classifier chooses it together with the strength of the noise, "nothing" among the candidates."""

import numpy as np
import pytest
from scipy.sparse import csr_array, diags_array
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

import bayesdrop as bd
from bayesdrop.fitting.tuning.search import candidate_Cs

ROWS = 200


def split(seed, spread, p=10, intercept=0.0, correlated=False):
    """Training and test rows of a logistic model whose weights have the standard deviation ``spread``."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS + 2000, p))
    if correlated:
        X = rng.normal(size=(len(X), 2)) @ rng.normal(size=(2, p)) + 0.3 * X
    score = X @ rng.normal(0, spread, p) + intercept
    y = (score + rng.logistic(size=len(X)) > 0).astype(int)
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def losses(seed, **table):
    X, y, new, truth = split(seed, **table)
    ridge = LogisticRegressionCV(scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=2000)
    models = bd.DropoutLogisticRegression(), ridge
    return [log_loss(truth, model.fit(X, y).predict_proba(new)) for model in models]


@pytest.mark.default_cases("nothing")
@pytest.mark.parametrize(
    "table",
    [{"spread": 3.0}, {"spread": 0.0, "p": 30}, {"spread": 0.1, "p": 40, "correlated": True}],
    ids=["strong", "nothing", "correlated"],
)
def test_the_default_is_level_with_tuned_ridge(table):
    """Ten tables: not behind by three standard errors, one-sided, of the differences in pairs (1 in 130 by chance)."""
    gap = np.array([ours - theirs for ours, theirs in (losses(seed, **table) for seed in range(10))])
    assert gap.mean() < 3 * gap.std(ddof=1) / np.sqrt(len(gap)) + 1e-3


def test_strong_weights_get_a_larger_C_than_none():
    strong, nothing = (bd.DropoutLogisticRegression().fit(*split(0, spread, 20)[:2]) for spread in (3.0, 0.0))
    assert strong.C_ > 1 > nothing.C_
    assert strong.C_ == strong.selection_.chosen.C
    again = bd.DropoutLogisticRegression(strong.selection_.chosen.rates, C=strong.C_).fit(*split(0, 3.0, 20)[:2])
    np.testing.assert_allclose(again.coef_, strong.coef_, rtol=1e-5)


def test_nothing_is_always_among_the_candidates():
    """A search that climbs need not come there step by step."""
    X, y, _, _ = split(1, 2.0)
    tried = {one.C for one in bd.DropoutLogisticRegression().fit(X, y).selection_.candidates}
    assert candidate_Cs(1.0)[0] in tried


def test_short_texts_get_more_than_the_size_of_their_entries_says():
    """Ten words a text, of which few say anything: the start is far too small."""
    rng = np.random.default_rng(0)
    words, n = 300, 1000
    counts = csr_array((rng.random((n, words)) < 10 / words * rng.exponential(size=words)).astype(float))
    weight = np.where(rng.random(words) < 0.2, rng.normal(0, 4, words), 0.0)
    X = diags_array(1 / np.sqrt(np.maximum(counts.sum(axis=1), 1))).tocsr() @ counts
    y = (counts @ weight + rng.logistic(size=n) > 0).astype(int)
    model = bd.DropoutLogisticRegression().fit(X, y)
    fixed = bd.DropoutLogisticRegression(bd.Fixed(0.0)).fit(X, y)
    assert model.C_ > fixed.C_


def test_given_rates_or_a_given_C_choose_nothing():
    X, y, _, _ = split(2, 3.0)
    assert bd.DropoutLogisticRegression(0.1).fit(X, y).C_ == 1
    assert bd.DropoutLogisticRegression(C=0.5).fit(X, y).C_ == 0.5
    cv = bd.DropoutLogisticRegressionCV().fit(X, y)
    assert cv.C_ == bd.DropoutLogisticRegression().fit(X, y).C_
