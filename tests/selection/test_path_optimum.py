"""Fits along a path start at the one before, and end where fits by themselves do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import bayesdrop as bd
from bayesdrop.selection.path import fits_along

TOL = 1e-8
# Neither in order nor all different, with none, hardly any and very much noise.
RATES = np.array([0.3, 0.0, 1e-4, 0.2, 0.3, 0.6, 0.95, 0.8])

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
    "classes, one vs rest": bd.DropoutLogisticRegression(multiclass="one_vs_rest", tol=TOL),
    "classes, softmax": bd.DropoutLogisticRegression(multiclass="softmax", tol=TOL),
}


def rows(kind, name):
    """Some rows, the last column far from zero, which noise is centred in; and responses."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(150, 6))
    X[:, -1] += 9.0
    score = X[:, 0] - 0.5 * X[:, 1] + generator.normal(size=150)
    y = score if name in ("svr", "ridge", "quantile") else generator.poisson(np.exp(0.3 * score))
    y = np.where(score > 0.3, "yes", "no") if name.startswith(("logistic", "hinge", "em")) else y
    y = np.digitize(score, [-0.5, 0.5]) if name.startswith("classes") else y
    if kind == "sparse":
        wide = generator.normal(size=(150, 60)) * (generator.uniform(size=(150, 60)) < 0.2)
        X = sparse.csr_array(np.hstack([np.where(np.abs(X) > 1, X, 0)[:, :5], wide]))
    return X, y


@pytest.mark.slow_cases(*(f"{name}-sparse" for name in ("logistic", "little C", "svr", "quantile", "ridge", "em")))
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_rate_ends_at_the_optimum(name, kind):
    X, y = rows(kind, name)
    estimator = ESTIMATORS[name]
    exact = {"tol": 1e-10} if estimator.method is None else {"method": bd.EM(tol=1e-10)}
    for rate, fit in zip(RATES.tolist(), fits_along(clone(estimator), RATES, X, y, None), strict=True):
        best = clone(estimator).set_params(rates=rate, **exact).fit(X, y)
        found, least = (np.asarray(one.objective_trace_[-1]) for one in (fit, best))
        assert np.all(np.abs(found - least) <= TOL * least), rate
        np.testing.assert_array_equal(fit.rates_, best.rates_)
        if fit.centre_ is not None or best.centre_ is not None:
            np.testing.assert_array_equal(fit.centre_, best.centre_)
        # Of an energy of curvature >= 1.
        assert np.max(np.abs(fit.coef_ - best.coef_)) <= 2 * np.sqrt(2 * TOL * least.max())
