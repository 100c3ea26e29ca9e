"""Fits along a path start on a curve through those before, and end where fits by themselves do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.estimators.fitted_path import FittedPath
from bayesdrop.fitting.minimisers.neighbours import Neighbours
from bayesdrop.fitting.solvers.preconditioners import Cholesky
from bayesdrop.fitting.solvers.prepared import prepare_near
from bayesdrop.moments import ScoreMoments

TOL = 1e-8
# Neither in order nor all different, with none, hardly any and very much noise.
RATES = np.array([0.3, 0.0, 0.05, 0.1, 1e-4, 0.2, 0.4, 0.3, 0.5, 0.6, 0.95, 0.7, 0.8])

ESTIMATORS = {
    "logistic": bd.DropoutLogisticRegression(tol=TOL),
    "logistic, gaussian": bd.DropoutLogisticRegression(expectation="gaussian", tol=TOL),
    "hinge": bd.DropoutSVC(tol=TOL),
    "hinge, little C": bd.DropoutSVC(C=1e-3, tol=TOL),
    "hinge, gaussian": bd.DropoutSVC(expectation="gaussian", tol=TOL),
    "svr": bd.DropoutSVR(tol=TOL),
    "quantile": bd.DropoutQuantileRegressor(0.2, quantile=0.3, tol=TOL),
    "ridge": bd.DropoutRidge(tol=TOL),
    "poisson": bd.DropoutPoissonRegressor(tol=TOL),
    # It converges linearly, and what remains is an estimate.
    "em": bd.DropoutLogisticRegression(method=bd.EM(tol=0.1 * TOL)),
}


def rows(kind, name):
    """Some rows, the last column far from zero, which noise is centred in; and responses."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(150, 6))
    X[:, -1] += 9.0
    score = X[:, 0] - 0.5 * X[:, 1] + generator.normal(size=150)
    y = score if name in ("svr", "ridge", "quantile") else generator.poisson(np.exp(0.3 * score))
    y = np.where(score > 0.3, "yes", "no") if name.startswith(("logistic", "hinge", "em")) else y
    if kind == "sparse":
        wide = generator.normal(size=(150, 60)) * (generator.uniform(size=(150, 60)) < 0.2)
        X = sparse.csr_array(np.hstack([np.where(np.abs(X) > 1, X, 0)[:, :5], wide]))
    return X, y


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_rate_ends_at_the_optimum(name, kind):
    X, y = rows(kind, name)
    estimator = ESTIMATORS[name]
    steps, cold_steps = 0, 0
    for place, fit in FittedPath(clone(estimator), X, y, None).fits(RATES):
        cold = clone(estimator).set_params(rates=float(RATES[place])).fit(X, y)
        best = cold.set_params(tol=1e-10) if estimator.method is None else cold.set_params(method=bd.EM(tol=1e-10))
        steps, cold_steps = steps + fit.n_iter_, cold_steps + cold.n_iter_
        least = best.fit(X, y).objective_trace_[-1]
        assert abs(fit.objective_trace_[-1] - least) <= TOL * least, RATES[place]
        np.testing.assert_array_equal(fit.rates_, cold.rates_)
        if fit.centre_ is not None or cold.centre_ is not None:
            np.testing.assert_array_equal(fit.centre_, cold.centre_)
        # Of an energy of curvature >= 1.
        assert np.max(np.abs(fit.coef_ - best.coef_)) <= 2 * np.sqrt(2 * TOL * least)
    assert steps <= cold_steps


def test_a_fine_path_takes_about_a_step_for_each_rate():
    X, y = rows("dense", "logistic")
    steps = [fit.n_iter_ for _, fit in FittedPath(ESTIMATORS["logistic"], X, y, None).fits(np.linspace(0, 0.95, 20))]
    assert sum(steps) <= 30


def counting(function, calls, name):
    def counted(*args, **options):
        calls[name] += 1
        return function(*args, **options)

    return counted


def test_data_are_looked_at_once(monkeypatch):
    from bayesdrop.estimators import base, regressor

    calls = {"settle": 0, "check_training": 0}
    for module, name in ((base, "settle"), (regressor, "check_training")):
        monkeypatch.setattr(module, name, counting(getattr(module, name), calls, name))
    bd.RatePath(bd.DropoutRidge(), np.linspace(0.1, 0.9, 9)).fit(*rows("dense", "ridge"))
    assert calls == {"settle": 1, "check_training": 1}


def curve(rate, degree):
    """Weights that are a polynomial in the angle."""
    return np.polyval(np.arange(1.0, degree + 2.0), np.arcsin(np.sqrt(rate))) * np.array([[1.0, -2.0], [0.5, 3.0]])


@pytest.mark.parametrize("degree", range(5))
def test_polynomials_in_the_angle_are_met(degree):
    near = Neighbours()
    assert near.start() is None
    for rate in (0.9, 0.85, 0.7, 0.6, 0.45, 0.4, 0.4, 0.1):
        near.go_to(rate)
        near.keep(curve(rate, degree))
    near.go_to(0.05)
    np.testing.assert_allclose(near.start(), curve(0.05, degree), rtol=1e-9, atol=1e-9)


def test_noise_is_not_extrapolated():
    generator, near = np.random.default_rng(0), Neighbours()
    for rate in np.linspace(0.1, 0.8, 8):
        near.go_to(rate)
        near.keep(generator.normal(size=(500, 1)))
    near.go_to(0.85)
    assert np.linalg.norm(near.start()) < 1.2 * np.sqrt(500)  # the last optimum; a cubic would be 8 times as large


def test_an_earlier_factor_is_brought_to_scale():
    generator = np.random.default_rng(0)
    design, diagonal = as_design(generator.normal(size=(40, 4))), np.ones((5, 2))
    omega = generator.uniform(0.5, 1.0, size=(40, 2))
    near, far = (ScoreMoments(design, bd.Dropout(), np.full((4, 1), rate)) for rate in (0.2, 0.8))
    first = prepare_near(Cholesky(), near, omega, diagonal, None)
    right = generator.normal(size=(5, 2))
    # A multiple of the matrix, intercept and all, is met exactly.
    twice = prepare_near(Cholesky(), near, 2 * omega, 2 * diagonal, first)
    np.testing.assert_allclose(twice.apply(right), 0.5 * first.apply(right))
    np.testing.assert_allclose(twice.apply(right), Cholesky().prepare(near, 2 * omega, 2 * diagonal)(right))
    # At quite another rate the factor is that of the matrix itself.
    other = prepare_near(Cholesky(), far, omega, diagonal, first)
    np.testing.assert_allclose(other.apply(right), Cholesky().prepare(far, omega, diagonal)(right))
