"""Where fits start: from weights that are far too large a fit reaches the optimum, or does not say that it has."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.fitting.solvers.driver import OneProblem, Status, Trace, minimise

ESTIMATORS = {
    "logistic": bd.DropoutLogisticRegression,
    "softmax": lambda *rates, **options: bd.DropoutLogisticRegression(*rates, multiclass="softmax", **options),
    "svc": bd.DropoutSVC,
    "poisson": bd.DropoutPoissonRegressor,
}


@pytest.mark.parametrize("rate", [0.0, 0.5])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_start_at_weights_that_are_far_too_large_is_no_worse_than_none(name, rate):
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 500), density=0.05, rng=rng, format="csr")
    y = np.asarray(X @ rng.normal(size=(500, 4))).argmax(axis=1)
    warm = ESTIMATORS[name](rate, C=1e8, warm_start=True, tol=1e-6).fit(X, y)
    # The other order of the classes, of which every row has much of the wrong one, and a strong prior.
    warm.set_params(C=1e-3).fit(X, 3 - y)
    cold = ESTIMATORS[name](rate, C=1e-3, tol=1e-6).fit(X, 3 - y)
    assert np.sum(warm.objective_trace_[-1]) == pytest.approx(np.sum(cold.objective_trace_[-1]), rel=1e-5)


@dataclass(frozen=True)
class Overflow(OneProblem):
    """A state whose suboptimality is NaN, as after a step that overflows."""

    value: np.ndarray
    remaining: np.ndarray

    @property
    def objective(self):
        return self.value


class Stuck:
    """A minimiser whose step overflows and moves nothing."""

    def step(self, energy, state, goal):
        return replace(state, remaining=np.array([np.nan])), np.zeros(1, dtype=bool)


def test_a_step_that_overflows_is_not_an_optimum():
    trace = Trace()
    minimise(Stuck(), None, Overflow(np.ones(1), np.array([np.inf])), 1e-8, 10, trace)
    assert trace.status is Status.MAX_ITERATIONS
    assert trace.iterations == 1
