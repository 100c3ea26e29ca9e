"""Newton, EM and BFGS reach one optimum; the energy falls; weights are repetition."""

import numpy as np
import pytest
from scipy import optimize, sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.energy import Energy
from bayesdrop.fitting.solvers.preconditioners import Cholesky, Jacobi, Woodbury
from bayesdrop.moments import ScoreMoments

LOSSES = [bd.Hinge(), bd.Logistic(), bd.Hinge(margin=0.5)]
RATES = {"0.3": bd.Fixed(0.3), "0.01": bd.Fixed(0.01), "mixed": bd.Fixed(np.linspace(0.05, 0.9, 12))}


def data(n=60, p=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.6)
    y = np.where(X @ rng.normal(size=p) + rng.normal(size=n) > 0.3, "yes", "no")
    return X, y


def plain_energy(model, X, y, rate):
    """The energy written once more, term by term, with its gradient: an independent statement."""
    sign = np.where(y == np.unique(y)[1], 1.0, -1.0)
    g, h, a, b, c0 = (np.asarray(part) for part in model.noise.coefficients(np.broadcast_to(rate, X.shape[1:])))

    def value(theta):
        w, intercept = theta[:-1], theta[-1]
        mean = np.sum(w * (g * X + h), axis=1) + intercept
        var = np.sum(w**2 * (a * X**2 + b * X + c0), axis=1)
        if isinstance(model.loss, bd.Hinge):
            slack = model.loss.margin - sign * mean
            loss = 0.5 * (slack + np.sqrt(slack**2 + var))
        else:
            root = np.sqrt(mean**2 + var)
            loss = np.logaddexp(root / 2, -root / 2) - sign * mean / 2
        return 0.5 * w @ w + model.C * loss.sum()

    return value


@pytest.mark.slow_cases("sparse-0.01", "sparse-mixed")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_newton_em_and_bfgs_agree(loss, rate, storage):
    X, y = data()
    model = bd.Model(loss, rates=RATES[rate], C=0.7)
    newton = bd.fit(model, storage(X), y, method=bd.Newton(tol=1e-12))
    em = bd.fit(model, storage(X), y, method=bd.EM(tol=1e-12, max_iter=20_000))
    value = plain_energy(model, X, y, RATES[rate].bind([str(d) for d in range(12)]).initial)
    theta = np.append(newton.weight, newton.intercept)
    bfgs = optimize.minimize(value, np.zeros(13), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    for trace in (newton.objective_trace, em.objective_trace):
        assert np.all(np.diff(trace) <= 1e-12 * np.abs(trace[:-1]))
    assert newton.objective_trace[-1] == pytest.approx(value(theta), rel=1e-11)
    assert newton.objective_trace[-1] == pytest.approx(em.objective_trace[-1], rel=1e-8)
    assert newton.objective_trace[-1] == pytest.approx(bfgs.fun, rel=1e-8)
    # Strong convexity: a relative gap of 1e-8 in the energy bounds the distance of the weights.
    gap = 2 * np.sqrt(2 * 1e-8 * bfgs.fun)
    assert np.linalg.norm(newton.weight - em.weight) < gap
    assert np.linalg.norm(newton.weight - bfgs.x[:-1]) < gap


@pytest.mark.parametrize("preconditioner", [Cholesky(), Woodbury(), Jacobi()], ids=repr)
@pytest.mark.parametrize("method", [bd.Newton, bd.EM])
@pytest.mark.parametrize("noise", [bd.Dropout(), bd.GaussianNoise(0.3)], ids=repr)
def test_every_solver_gives_the_same_fit(preconditioner, method, noise):
    X, y = data(n=30, p=40)
    rates = bd.Fixed(0.4) if noise.has_rate else None
    model = bd.Model(bd.Logistic(), noise, rates)
    limit = {"max_iter": 5000}
    got = bd.fit(model, X, y, method=method(tol=1e-12, preconditioner=preconditioner, **limit))
    expected = bd.fit(model, X, y, method=bd.Newton(tol=1e-13))
    np.testing.assert_allclose(got.weight, expected.weight, atol=1e-5)
    assert got.objective_trace[-1] == pytest.approx(expected.objective_trace[-1], rel=1e-11)


def _block(K=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 8))
    sign = np.where(X @ rng.normal(size=(8, K)) + rng.normal(size=(50, K)) > 0, 1.0, -1.0)
    return X, sign


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_gradient_and_products_are_derivatives(loss):
    """Against JAX: the gradient of the energy and the exact Hessian's products, both in double precision."""
    import jax
    import jax.numpy as jnp

    X, sign = _block()
    rng = np.random.default_rng(1)
    rate = rng.random((8, 3)) * 0.8 + 0.1
    moments = ScoreMoments(as_design(X), bd.Dropout(), rate)
    precision = np.append(np.full(8, 1.3), 0.0)[:, None]
    energy = Energy(moments, loss, sign, np.full((50, 1), 0.7), precision)
    weights, direction = rng.normal(size=(2, 9, 3))
    smoothing = np.full(3, 0.05)
    with jax.enable_x64(True):

        def total(w):
            gain, spread = 1 - rate, rate * (1 - rate)
            mean = jnp.asarray(X) @ (gain * w[:-1]) + jnp.broadcast_to(w[-1], sign.shape)
            var = jnp.asarray(X**2) @ (spread * w[:-1] ** 2)
            value = loss.value(jnp.asarray(sign), mean, var + 0.05**2)
            return 0.5 * jnp.sum(jnp.asarray(np.broadcast_to(precision, w.shape)) * w**2) + 0.7 * jnp.sum(value)

        w, u = jnp.asarray(weights), jnp.asarray(direction)
        gradient, product = jax.jvp(jax.grad(total), (w,), (u,))
        gradient, product, value = np.asarray(gradient), np.asarray(product), float(total(w))
    mean, var = moments.scores(weights)
    assert energy.value(weights, mean, var, smoothing).sum() == pytest.approx(value, rel=1e-12)
    slopes = energy.derivatives(mean, var, smoothing)
    got, spread = energy.gradient(weights, slopes)
    np.testing.assert_allclose(got, gradient, rtol=1e-10, atol=1e-10)
    curvature = energy.curvature(slopes, spread)
    np.testing.assert_allclose(energy.product(weights, curvature, direction)[0], product, rtol=1e-9, atol=1e-9)


def test_rate_zero_is_scikit_learns_logistic_regression(breast_cancer):
    from sklearn.linear_model import LogisticRegression

    X, y = breast_cancer
    peer = LogisticRegression(C=0.5, tol=1e-10, max_iter=5000).fit(X, y)
    ours = bd.DropoutLogisticRegression(0.0, C=0.5, tol=1e-14).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-6)
    bound = 0.25 * 1e-6 * (1 + np.abs(X).sum(axis=1).max())  # the logistic function has slope at most 1/4
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=bound)


def test_rate_zero_is_scikit_learns_linear_svm(breast_cancer):
    """LinearSVC penalises its intercept, so both go without one; energies agree to LinearSVC's tolerance."""
    from sklearn.svm import LinearSVC

    X, y = breast_cancer
    sign = np.where(y == 1, 1.0, -1.0)
    peer = LinearSVC(C=0.5, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=2_000_000).fit(X, y)
    ours = bd.DropoutSVC(0.0, C=0.5, fit_intercept=False, tol=1e-9).fit(X, y)

    def energy(w):
        return 0.5 * w @ w + 0.5 * np.maximum(0, 1 - sign * (X @ w)).sum()

    assert energy(ours.coef_[0]) == pytest.approx(energy(peer.coef_[0]), rel=1e-7)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=2e-3)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_curvature_in_the_mean_is_never_negative(loss):
    """φ is convex in m; a difference of two equal terms once came out below zero far from the boundary."""
    mean = np.concatenate([-np.geomspace(1e-9, 1e3, 400), np.geomspace(1e-9, 1e3, 400)])
    for var in (0.0, 1e-12, 1e-4, 1.0, 1e4):
        for y in (-1.0, 1.0):
            assert np.all(loss.derivatives(np.full_like(mean, y), mean, np.full_like(mean, var)).mean_mean >= 0)
