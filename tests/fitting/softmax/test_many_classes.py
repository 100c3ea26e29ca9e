"""``bd.fit`` of many classes: two are the binary fit, the estimator is the same fit, learnt rates by their rule."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.problems.many_classes import fit_classes
from bayesdrop.fitting.solvers.driver import Status

N, P, K = 90, 5, 3


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.8)
    code = (X @ rng.normal(size=(P, K)) + rng.gumbel(size=(N, K))).argmax(axis=1)
    return X, np.array(["red", "green", "blue"])[code]


def test_without_noise_it_is_scikit_learns_fit():
    X, y = problem()
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), C=0.8)
    fit = bd.fit(model, pd.DataFrame(X, columns=list("abcde")), y, method=bd.Newton(tol=1e-12))
    theirs = LogisticRegression(C=0.8, tol=1e-8, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(fit.weight, theirs.coef_, atol=2e-5)
    np.testing.assert_allclose(
        fit.intercept - fit.intercept.mean(), theirs.intercept_ - theirs.intercept_.mean(), atol=2e-5
    )
    assert fit.classes.tolist() == ["blue", "green", "red"]
    data = fit.to_dataset()
    assert data["weight"].dims == ("class", "feature")
    assert data["intercept"].dims == ("class",)
    assert data["feature"].values.tolist() == list("abcde")
    assert "Softmax loss, 5 features" in str(fit)


@pytest.mark.parametrize("rates", [bd.Fixed(0.3), bd.PerFeature(bd.Beta(2, 3)), bd.Shared()], ids=repr)
@pytest.mark.parametrize("noise", [bd.Dropout(), bd.Dropout(unbiased=True)], ids=repr)
def test_two_classes_are_the_binary_fit(rates, noise):
    """``w_1 − w_0`` has a prior √2 as wide, and the sign rule is the binary one: same optimum, same rates."""
    X, y = problem()
    y = np.where(y == "red", "red", "other")
    weight = np.linspace(0.5, 2.0, N)
    method = bd.Newton(tol=1e-13)
    joint = bd.fit(bd.Model(bd.Softmax(), noise, rates), X, y, method=method, sample_weight=weight)
    plain = bd.Model(bd.Logistic("taylor"), noise, rates, weight_prior=bd.Normal(2**0.5))
    plain = bd.fit(plain, X, y, method=method, sample_weight=weight)
    np.testing.assert_allclose(joint.rates, plain.rates, rtol=1e-12)
    np.testing.assert_allclose(joint.weight[1] - joint.weight[0], plain.weight, atol=1e-5)
    np.testing.assert_allclose(joint.intercept[1] - joint.intercept[0], plain.intercept, atol=1e-5)
    if joint.rate_posterior is not None:
        for ours, theirs in zip(joint.rate_posterior.law, plain.rate_posterior.law, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_learnt_rates_count_what_speaks_against_the_weight_of_its_class():
    """The rule of the module's docstring, entry by entry: a second statement of the counts."""
    X, y = problem()
    fit = bd.fit(bd.Model(bd.Softmax(), bd.Dropout(centre=None), bd.PerFeature(bd.Beta(2, 3))), X, y)
    assert fit.status.name == "CONVERGED"
    np.testing.assert_allclose(fit.weight.sum(axis=0), 0, atol=1e-12)
    own = fit.weight[np.searchsorted(fit.classes, y)]
    against, total = np.sum(X * own < 0, axis=0), np.sum(X != 0, axis=0)
    np.testing.assert_allclose(fit.rates, (against + 1) / (total + 3), rtol=1e-12)
    np.testing.assert_array_equal(fit.rate_posterior.occurrences, total)


@pytest.mark.parametrize("rates", [0.3, bd.PerFeature()], ids=repr)
def test_the_estimator_is_the_same_fit(rates):
    X, y = problem()
    ours = bd.DropoutLogisticRegression(rates, multiclass="softmax", tol=1e-13).fit(X, y)
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.3) if rates == 0.3 else rates)
    for storage in (np.asarray, sparse.csr_array):
        fit = bd.fit(model, storage(X), y, method=bd.Newton(tol=1e-13))
        np.testing.assert_allclose(ours.coef_, fit.weight, atol=1e-6)
        np.testing.assert_allclose(ours.intercept_, fit.intercept, atol=1e-6)
        np.testing.assert_allclose(ours.rates_, fit.rates, rtol=1e-12)
    assert (ours.rate_posterior_ is None) == (rates == 0.3)


def test_bad_input():
    X, y = problem()
    model = bd.Model(bd.Softmax())
    for bad, words in (
        ({"y": np.ones(N)}, "at least two classes"),
        ({"y": np.where(np.arange(N) == 3, np.nan, 1.0)}, "NaN"),
        ({"sample_weight": (y != "red").astype(float)}, "every row of class red has weight zero"),
        ({"method": bd.EM()}, "Newton's method on all classes jointly"),
    ):
        arguments = {"y": y} | bad
        with pytest.raises(ValueError, match=words):
            bd.fit(model, X, **arguments)
    with pytest.raises(ValueError, match="got 9 in 9 rows; if y holds numbers"):
        bd.fit(model, X[:9], np.arange(9))
    with pytest.raises(ValueError, match="weight_prior"):
        bd.fit(bd.Model(bd.Softmax(), weight_prior=bd.Laplace(1.0)), X, y)
    with pytest.raises(ValueError, match=r"expected one of .*gaussian.*taylor"):
        bd.Softmax("augmentation")
    with pytest.raises(ValueError, match=r"bd.Softmax\(\)"):
        bd.fit(bd.Model(), X, y)


def topics(classes, n, p, seed=0):
    """0/1 words, of which each class has some more often."""
    generator = np.random.default_rng(seed)
    code = np.arange(n) % classes
    often = generator.random((classes, p)) < 0.03
    return 1.0 * (generator.random((n, p)) < np.where(often[code], 0.3, 0.03)), code


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("classes", [4, 12, 30])
def test_rates_of_rare_words_settle(classes, tol):
    """A loose fit may end before all signs stand: with an energy within the tolerance of the optimum at its rates."""
    X, code = topics(classes, 300, 500)
    model = bd.Model(bd.Softmax(), rates=bd.PerFeature(bd.Beta(2, 3)), C=3.0)
    arguments = as_design(sparse.csr_array(X)), model.bind([str(d) for d in range(500)]), code, np.ones(300), classes
    found = fit_classes(model, *arguments, tol=tol, max_iter=500)
    assert found.status is Status.CONVERGED
    fixed = bd.Model(bd.Softmax(), rates=bd.Fixed(found.rates[:, 0]), C=3.0)
    again = fit_classes(
        fixed, arguments[0], fixed.bind(arguments[1].names), *arguments[2:], tol=1e-10, max_iter=2000,
        start=(found.weights, found.rates),
    )  # fmt: skip
    assert 0 <= found.trace[-1] - again.trace[-1] <= tol * again.trace[-1]
