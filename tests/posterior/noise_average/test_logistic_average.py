"""The quick average of the logistic function over masks, against sums over all masks and over counts."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, log_expit

import bayesdrop as bd
from bayesdrop.posterior.draws.draws import read_draws
from bayesdrop.posterior.noise_average import expectation
from bayesdrop.posterior.noise_average.expectation import class_probability
from bayesdrop.posterior.noise_average.logistic import TOLERANCE, average_logistic
from bayesdrop.posterior.noise_average.quadrature import RULES

P = 10


def averaged(X, weight, rate, intercept):
    """Value and error for one draw, (n,) each."""
    weight, rate = (np.pad(values, (0, X.shape[1] - len(values)))[None] for values in (weight, rate))
    value, error = average_logistic(X, weight, rate, np.full((X.shape[0], 1), intercept))
    return value[:, 0], error[:, 0]


def over_all_masks(X, weight, rate, intercept):
    """``E σ(s)`` and its logarithm, by the 2^p masks."""
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=X.shape[1])))
    with np.errstate(divide="ignore"):
        chance = np.log(np.where(masks > 0, 1 - rate, rate)).sum(axis=1)
    score = (X * weight) @ masks.T + intercept
    return np.exp(chance + log_expit(score)).sum(axis=1), np.logaddexp.reduce(chance + log_expit(score), axis=1)


KINDS = {
    "small weights": lambda rng: (0.2 * rng.normal(size=P), rng.beta(1, 3, size=P)),
    "ordinary": lambda rng: (rng.normal(size=P), rng.uniform(0.01, 0.1, size=P)),
    "one dominates": lambda rng: (np.r_[8.0, 0.3 * rng.normal(size=P - 1)], rng.uniform(0.1, 0.9, size=P)),
    "rates near 1": lambda rng: (2 * rng.normal(size=P), 1 - 10.0 ** rng.uniform(-12, -1, size=P)),
    "rates near 0": lambda rng: (3 * rng.normal(size=P), 10.0 ** rng.uniform(-12, -1, size=P)),
    "some not noised": lambda rng: (rng.normal(size=P), np.where(np.arange(P) % 2, 0.4, 0.0)),
    "far out": lambda rng: (5 * rng.normal(size=P), np.full(P, 0.05)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_row_is_averaged_to_the_tolerance(kind):
    """All that is taken is right to the tolerance, its estimate is no less than the error, and most rows are taken."""
    rng = np.random.default_rng(0)
    for density in (1.0, 0.4):
        weight, rate = KINDS[kind](rng)
        X = rng.normal(size=(60, P)) * (rng.random((60, P)) < density)
        X[0] = 0.0
        for intercept in (0.0, 2.0, -9.0):
            exact, _ = over_all_masks(X, weight, rate, intercept)
            value, error = averaged(X, weight, rate, intercept)
            taken = error <= TOLERANCE
            assert taken.mean() > 0.9
            off = np.abs(value - exact)[taken]
            assert off.max() <= TOLERANCE
            assert np.all(off <= error[taken] + 1e-6)  # the round-off of single precision
            assert np.all((value >= 0) & (value <= 1))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_small_probabilities_have_digits(sign):
    """Relative to the smaller of the two, which a log loss looks at: to a tenth down to 1e-20."""
    rng = np.random.default_rng(1)
    weight, rate, X = rng.normal(size=P), np.full(P, 0.05), 0.5 * rng.normal(size=(40, P))
    intercept = np.linspace(3, 45, 40)
    for row, b in zip(X, intercept, strict=True):
        _, exact = over_all_masks(row[None], -weight * sign, rate, -b)
        value, _ = averaged(row[None], weight * sign, rate, b)
        other, _ = averaged(row[None], -weight * sign, rate, -b)
        assert abs(np.log(other[0]) - exact[0]) < 0.1
        assert value[0] == pytest.approx(1 - other[0], abs=1e-6)


def test_rows_of_few_entries_are_exact_and_hard_ones_go_another_way(build, monkeypatch):
    rng = np.random.default_rng(2)
    weight, rate = rng.normal(size=P), rng.beta(1, 2, size=P)
    model = bd.Model(rates=bd.PerFeature())
    X = rng.normal(size=(50, P)) * (rng.random((50, P)) < 0.4)
    few = np.count_nonzero(X, axis=1) <= 6
    assert 20 < few.sum() < 50
    draws = read_draws(build(model, weight[None, None], intercept=0.5, rate=rate, classes=[0, 1]))
    for matrix in (X, sparse.csr_array(X), sparse.csc_array(X)):
        found = class_probability(draws, matrix)[:, 0]
        exact, _ = over_all_masks(X, weight, rate, 0.5)
        np.testing.assert_allclose(found[few], exact[few], rtol=0, atol=1e-13)
        np.testing.assert_allclose(found, exact, rtol=0, atol=TOLERANCE if matrix is X else RULES.probability)
    narrow = read_draws(build(model, weight[None, None, :5], intercept=0.5, rate=rate[:5], classes=[0, 1]))
    exact, _ = over_all_masks(X[:, :5], weight[:5], rate[:5], 0.5)
    np.testing.assert_allclose(class_probability(narrow, X[:, :5])[:, 0], exact, rtol=0, atol=1e-14)
    # Scores that spread over tens of units about 0 are beyond the quick way.
    wide, X = 10 * weight, rng.normal(size=(50, P))
    exact, _ = over_all_masks(X, wide, rate, 0.5)
    _, error = averaged(X, wide, rate, 0.5)
    called, other = [], expectation.by_law
    monkeypatch.setattr(
        expectation, "by_law", lambda law, *args, **more: called.append(law) or other(law, *args, **more)
    )
    draws = read_draws(build(model, wide[None, None], intercept=0.5, rate=rate, classes=[0, 1]))
    np.testing.assert_allclose(class_probability(draws, X)[:, 0], exact, rtol=0, atol=5e-4)
    assert sum(len(law.base) for law in called) == np.sum(~(error <= TOLERANCE)) > 0


def test_without_noise_it_is_the_function():
    X = np.random.default_rng(3).normal(size=(30, P))
    y = X[:, 0] > 0
    model = bd.DropoutLogisticRegression(0.0).fit(X, y)
    for storage in (np.asarray, sparse.csr_array):
        np.testing.assert_allclose(model.predict_proba(storage(X))[:, 1], expit(model.decision_function(X)), rtol=1e-12)


@pytest.mark.parametrize("p", [5, P])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_many_draws_are_averaged_as_each_by_itself(build, p, storage):
    """With an offset, in rows of few entries and of many; a probability depends on no other row or draw."""
    rng = np.random.default_rng(4)
    weight, rate, intercept = rng.normal(size=(1, 40, p)), rng.beta(1, 2, size=(1, 40, p)), rng.normal(size=(1, 40))
    X, offset = rng.normal(size=(30, p)) * (rng.random((30, p)) < 0.8), rng.normal(size=30)
    draws = read_draws(build(bd.Model(), weight, intercept=intercept, rate=rate, classes=[0, 1]))
    found = class_probability(draws, storage(X), offset=offset)
    for j in (0, 17, 39):
        exact = [
            over_all_masks(x[None], weight[0, j], rate[0, j], intercept[0, j] + o)[0][0]
            for x, o in zip(X, offset, strict=True)
        ]
        allowed = TOLERANCE if storage is np.asarray else RULES.probability
        np.testing.assert_allclose(found[:, j], exact, rtol=0, atol=1e-14 if p == 5 else allowed)
        one = read_draws(
            build(bd.Model(), weight[:, [j]], intercept=intercept[:, [j]], rate=rate[:, [j]], classes=[0, 1])
        )
        alone = class_probability(one, storage(X[:3]), offset=offset[:3])[:, 0]
        np.testing.assert_allclose(found[:3, j], alone, rtol=0, atol=1e-7)
