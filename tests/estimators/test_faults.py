"""Warm starts, warnings, probabilities and the end of a fit: what a caller sees."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bayesdrop as bd

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 4))
Y = (X @ [1.0, -1.0, 0.5, 0.0] + RNG.normal(size=80) > 0).astype(int)
MANY = (X @ RNG.normal(size=(4, 3))).argmax(axis=1)
STRUCTURES = {
    "fixed": 0.3,
    "shared": bd.Shared(),
    "groups": bd.PerGroup(["a", "b", "a", "b"]),
    "features": bd.PerFeature(bd.Beta(2, 2)),
}


@pytest.mark.parametrize("y", [Y, MANY], ids=["two", "three"])
@pytest.mark.parametrize(("before", "after"), list(itertools.pairwise([*STRUCTURES, "shared", "fixed"])))
def test_warm_start_takes_another_rate_structure(before, after, y):
    """Where it starts does not show in what it finds: the energies agree to the tolerance and the rates exactly."""
    cold = bd.DropoutLogisticRegression(STRUCTURES[after], tol=1e-10).fit(X, y)
    warm = bd.DropoutLogisticRegression(STRUCTURES[before], warm_start=True, tol=1e-10).fit(X, y)
    warm.set_params(rates=STRUCTURES[after]).fit(X, y)
    np.testing.assert_allclose(warm.objective_trace_[-1], cold.objective_trace_[-1], rtol=1e-8)
    np.testing.assert_allclose(warm.rates_, cold.rates_, rtol=1e-12)


def test_warm_start_begins_at_the_rates_of_the_last_fit():
    """One step of the weights from the optimum of the same model: nothing moves, so the energy is the last one."""
    model = bd.DropoutLogisticRegression(bd.PerFeature(), warm_start=True).fit(X, Y)
    last, steps = model.objective_trace_[-1], model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ <= 2 < steps
    assert model.objective_trace_[0] == pytest.approx(last, rel=1e-8)


ENDS_EARLY = {
    "two classes": lambda: bd.DropoutLogisticRegression(0.3, max_iter=1, tol=1e-14).fit(X, Y),
    "svm": lambda: bd.DropoutSVC(0.3, max_iter=1, tol=1e-14).fit(X, MANY),
    "softmax": lambda: bd.DropoutLogisticRegression(0.3, multiclass="softmax", max_iter=1, tol=1e-14).fit(X, MANY),
    "regression": lambda: bd.DropoutSVR(0.3, max_iter=1, tol=1e-14).fit(X, 2 * X[:, 0]),
    "function": lambda: bd.fit(bd.Model(), X, Y, method=bd.Newton(max_iter=1, tol=1e-14)),
    "hidden layer": lambda: bd.LatentDropoutSVC(0.3, n_hidden=2, max_iter=1, random_state=0).fit(X, Y),
}


@pytest.mark.parametrize("fit", ENDS_EARLY.values(), ids=ENDS_EARLY)
def test_warnings_point_at_the_line_that_fits(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    found = [item for item in caught if issubclass(item.category, ConvergenceWarning)]
    assert found
    assert {item.filename for item in found} == {__file__}


XOR = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]] * 3)
ODD = np.array([0, 1, 1, 0] * 3)


@pytest.mark.parametrize("method", [bd.Newton(), bd.EM()], ids=["Newton", "EM"])
@pytest.mark.parametrize("rates", [bd.Fixed(0.0), bd.Fixed(0.3), bd.PerFeature(bd.Beta(2, 5))], ids=repr)
@pytest.mark.parametrize("loss", [bd.Logistic(), bd.Hinge()], ids=["logistic", "hinge"])
def test_a_fit_without_a_weight_says_so(loss, rates, method):
    fit = bd.fit(bd.Model(loss, rates=rates), XOR, ODD, method=method)
    assert fit.status.name == "ALL_ZERO"
    np.testing.assert_allclose(fit.weight, 0, atol=1e-9)
    assert "all weights zero" in str(fit)
    if fit.rate_posterior is not None:
        # Every sign is undecided and counts half each way: (1 + 6) of 2 + 5 - 2 + 12.
        np.testing.assert_allclose(fit.rates, 7 / 17)
        np.testing.assert_allclose(fit.rate_posterior.mode, 7 / 17)


def test_estimators_without_a_weight_say_so_and_others_do_not():
    zero = np.zeros_like(X)
    assert bd.DropoutSVC().fit(zero, Y).status_.name == "ALL_ZERO"
    assert bd.DropoutLogisticRegression().fit(zero, MANY).status_.name == "ALL_ZERO"
    softmax = bd.DropoutLogisticRegression(0.3, multiclass="softmax")
    assert softmax.fit(zero, MANY).status_.name == "ALL_ZERO"
    assert softmax.fit(X, MANY).status_.name == "CONVERGED"
    assert bd.DropoutRidge(0.1).fit(zero, X[:, 0]).status_.name == "ALL_ZERO"
    assert bd.DropoutRidge(0.1).fit(X, 2 * X[:, 0]).status_.name == "CONVERGED"
    assert bd.DropoutSVC(C=1e-6).fit(X, Y).status_.name == "CONVERGED"
