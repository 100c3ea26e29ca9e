"""Marginalised corrupted features: objectives by enumeration, gradients by differences, optima by other solvers."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

import bayesdrop as bd
from bayesdrop.baselines import MCFExponential, MCFLogistic, MCFQuadratic, mcf
from bayesdrop.baselines.marginalised_loss import MarginalisedLoss, exponential, logistic
from bayesdrop.designs import as_design

LOSSES = {"exponential": partial(exponential, steepest=300.0), "logistic": logistic}
NOISES = [
    bd.Dropout(),
    bd.Dropout(unbiased=True),
    bd.GaussianNoise(0.4),
    bd.LaplaceNoise(0.3),
    bd.MultiplicativeNoise(0.5),
    bd.PoissonNoise(),
]
SOLVED = [MCFExponential, MCFLogistic]
ALL = [MCFQuadratic, *SOLVED]


def _data(noise=None, n=40, p=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.7)
    X[0] = 0.0  # a row without entries
    y = np.where(X @ np.linspace(1, -1, p) + rng.normal(size=n) > 0, 1.0, -1.0)
    return (np.abs(X) if isinstance(noise, bd.PoissonNoise) else X), y


def _masks(p):
    return np.array(np.meshgrid(*[[0.0, 1.0]] * p)).reshape(p, -1).T


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_objective_by_enumeration_of_the_masks(name, unbiased):
    X, y = _data(p=3, n=12)
    rng = np.random.default_rng(1)
    rate, weight, w = np.array([0.2, 0.5, 0.7]), rng.random(12), rng.normal(size=4)
    masks = _masks(3)
    share = np.prod(np.where(masks == 1, 1 - rate, rate), axis=1)
    kept = X / (1 - rate) if unbiased else X
    score = np.einsum("id,md,d->im", kept, masks, w[:-1]) + w[-1]
    expected = np.exp(-y[:, None] * score) @ share
    if name == "logistic":
        # Jensen: above the expected logistic loss, and the logarithm of the exact expectation.
        bound = np.log1p(expected)
        assert np.all(bound >= np.log1p(np.exp(-y[:, None] * score)) @ share - 1e-12)
        expected = bound
    total = MarginalisedLoss(as_design(X), bd.Dropout(unbiased), rate, y, weight, LOSSES[name])
    np.testing.assert_allclose(total(w)[0], weight @ expected, rtol=1e-12)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("name", LOSSES)
def test_gradient_by_differences_and_sparse_equals_dense(name, noise):
    """Central differences at h = 1e-5: truncation about h² = 1e-10, rounding about 1e-11."""
    X, y = _data(noise)
    rng = np.random.default_rng(2)
    rate, weight = np.full(4, 0.3), rng.random(40)
    w, h = 0.5 * rng.normal(size=5), 1e-5
    totals = [
        MarginalisedLoss(as_design(storage(X)), noise, rate, y, weight, LOSSES[name])
        for storage in (np.asarray, sparse.csr_array)
    ]
    value, gradient = totals[0](w)
    differences = [(totals[0](w + h * e)[0] - totals[0](w - h * e)[0]) / (2 * h) for e in np.eye(5)]
    np.testing.assert_allclose(gradient, differences, rtol=1e-7, atol=1e-7)
    other = totals[1](w)
    np.testing.assert_allclose(other[0], value, rtol=1e-13)
    np.testing.assert_allclose(other[1], gradient, rtol=1e-11, atol=1e-12)


def test_the_exponential_goes_on_as_its_tangent():
    a = np.array([-800.0, 4.999, 5.0, 5.001, 1e6])
    value, slope = exponential(a, 5.0)
    np.testing.assert_allclose(value[:4], np.exp(a[:4]), rtol=1e-6)
    np.testing.assert_allclose(slope, np.exp(np.minimum(a, 5.0)))
    np.testing.assert_allclose(value[4], np.exp(5.0) * (1 + a[4] - 5))


@pytest.mark.parametrize("noise", NOISES, ids=repr)
@pytest.mark.parametrize("kind", SOLVED)
def test_the_minimum_is_reached(kind, noise):
    """Nelder-Mead from the fit, and from zero weights Powell, know neither gradient nor noise's slope."""
    X, y = _data(noise, p=2)
    C, rate = 0.3, np.array([0.2, 0.6])
    model = kind(rate, C=C, noise=noise, tol=1e-8).fit(X, y)
    loss = LOSSES["exponential" if kind is MCFExponential else "logistic"]

    def objective(w):
        with np.errstate(all="ignore"):
            a = noise.log_mgf(-y[:, None] * w[:-1], X, rate).sum(axis=1) - y * w[-1]
        inside = np.all(np.abs(w[:-1]) < noise.mgf_limit())
        return 0.5 * w[:-1] @ w[:-1] + C * loss(a)[0].sum() if inside else 1e30

    fitted = np.append(model.coef_[0], model.intercept_)
    for start, method in ((fitted, "Nelder-Mead"), (np.zeros(3), "Powell")):
        other = minimize(
            objective, start, method=method, options={"xtol": 1e-8, "ftol": 1e-14} if start is not fitted else {}
        )
        assert objective(fitted) <= other.fun * (1 + 1e-10)
        assert objective(fitted) >= other.fun * (1 - 1e-7)


def test_quadratic_is_dropout_ridge_of_the_signs():
    X, y = _data()
    for noise, rates in ((bd.Dropout(), np.array([0.1, 0.3, 0.5, 0.7])), (bd.GaussianNoise(0.5), 0.5)):
        fitted = MCFQuadratic(rates, C=0.4, noise=noise, tol=1e-12).fit(X, y)
        ridge_rates = bd.Fixed(rates) if noise.has_rate else None
        ridge = bd.DropoutRidge(ridge_rates, C=0.4, noise=noise, tol=1e-12).fit(X, y)
        np.testing.assert_allclose(fitted.coef_[0], ridge.coef_, rtol=1e-10)
        np.testing.assert_allclose(fitted.intercept_[0], ridge.intercept_, rtol=1e-10)
        np.testing.assert_allclose(fitted.decision_function(X), ridge.predict(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ALL)
def test_sparse_equals_dense_and_classes_stand_alone(kind):
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    X = np.where(np.abs(X - X.mean(axis=0)) < 0.3, 0.0, X - X.mean(axis=0))
    together = kind(0.3, C=0.1, tol=1e-9).fit(X, y)
    assert together.coef_.shape == (3, 4)
    for storage in (sparse.csr_array, sparse.csc_matrix):
        other = kind(0.3, C=0.1, tol=1e-9).fit(storage(X), y)
        np.testing.assert_allclose(other.coef_, together.coef_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(
            other.decision_function(storage(X)), together.decision_function(X), rtol=1e-6, atol=1e-7
        )
    for k in range(3):
        alone = kind(0.3, C=0.1, tol=1e-9).fit(X, y == k)
        np.testing.assert_allclose(alone.coef_[0], together.coef_[k], rtol=1e-6, atol=1e-8)
    assert np.array_equal(together.predict(X), together.classes_[together.decision_function(X).argmax(axis=1)])


@pytest.mark.parametrize("kind", ALL)
def test_the_score_is_the_mean_under_the_noise(kind):
    X, y = _data()
    rates = np.array([0.1, 0.3, 0.5, 0.7])
    model = kind(rates, C=0.2).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), X @ (model.coef_[0] * (1 - rates)) + model.intercept_)
    model = kind(bd.Fixed(0.3), C=0.2, noise=bd.Dropout(unbiased=True), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_[0])
    assert model.intercept_[0] == 0


def test_large_counts_under_poisson_noise():
    """Steps that overflow are stepped back from; ``x(e^t − 1)`` does so soonest."""
    rng = np.random.default_rng(4)
    y = np.where(rng.random(60) < 0.5, 1, -1)
    X = rng.poisson(np.where(y > 0, 900, 1100)[:, None] * np.array([1.0, 2.0])).astype(float)
    for kind in SOLVED:
        model = kind(noise=bd.PoissonNoise(), C=100.0, tol=1e-5).fit(X, y)
        assert np.all(np.isfinite(model.coef_))
        assert model.score(X, y) == 1.0


@pytest.mark.parametrize("kind", ALL)
def test_bad_input(kind):
    X, y = _data()
    with pytest.raises(ValueError, match="Poisson noise needs x >= 0"):
        kind(noise=bd.PoissonNoise()).fit(X, y)
    for rates in (bd.PerFeature(), bd.Shared()):
        with pytest.raises(ValueError, match="does not learn rates"):
            kind(rates).fit(X, y)


@pytest.mark.parametrize("kind", SOLVED)
def test_too_few_iterations_warn(kind):
    X, y = _data()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        kind(max_iter=1).fit(X, y)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("kind", SOLVED)
def test_laplace_noise_of_any_scale_keeps_the_weights_inside(kind, scale):
    """The logarithm is a barrier: the minimum lies inside the domain however large the noise is."""
    X, y = _data()
    model = kind(noise=bd.LaplaceNoise(scale), C=10.0).fit(X, y)
    assert np.all(np.abs(model.coef_) * scale < 1 - 1e-6)


@pytest.mark.parametrize("kind", SOLVED)
def test_a_search_that_breaks_off_at_the_edge_names_the_feature(kind, monkeypatch):
    """The barrier keeps minima inside, so that a search is made up here that stops on a bound."""
    pandas = pytest.importorskip("pandas")

    def stop_on_the_second_bound(fun, start, bounds, **options):
        return SimpleNamespace(x=np.array([0.0, bounds[1][1], 0.0]), nit=1, jac=start)

    monkeypatch.setattr(mcf, "minimize", stop_on_the_second_bound)
    X, y = _data(p=2)
    with pytest.raises(ValueError, match=r"feature size stopped at 50.*smaller scale.*smaller C.*standardise"):
        kind(noise=bd.LaplaceNoise(0.02)).fit(pandas.DataFrame(X, columns=["age", "size"]), y)
