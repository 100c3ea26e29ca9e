"""Minimisers of the energy of a hidden layer: downhill, to a stationary point, and the paper's step is the EM step."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import bayesdrop as bd
from bayesdrop.fitting.solvers.driver import Status, Trace
from bayesdrop.latent.minimisers.alternating import output_update
from bayesdrop.latent.objective.criteria import OneVersusRest, Softmax
from bayesdrop.latent.objective.energy import LatentEnergy, Parameters, blocks_of
from bayesdrop.latent.rates import sign_counts

N, P, K = 80, 5, 4


def problem(loss=None, rate=0.3, problems=3, fit_intercept=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    code = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
    target = np.where(code[:, None] == np.arange(problems), 1.0, -1.0)
    start = Parameters(rng.normal(size=(P + 1, K)), rng.normal(size=(K + 1, problems)))
    if not fit_intercept:
        start.hidden[-1], start.output[-1] = 0.0, 0.0
    criterion = OneVersusRest(bd.Logistic() if loss is None else loss, 1e-3)
    energy = LatentEnergy(
        blocks_of(X, target, rng.gamma(2.0, size=N), K),
        bd.Dropout(),
        np.full(P, rate),
        criterion,
        np.ones(P),
        fit_intercept,
    )
    return energy, start


@pytest.mark.slow
@pytest.mark.parametrize("loss", [bd.Logistic(), bd.Hinge()])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_alternating_never_goes_uphill_and_ends_at_a_stationary_point(loss, rate):
    energy, start = problem(loss, rate)
    energy, trace = replace(energy, criterion=OneVersusRest(loss, 1e-3)), Trace()
    end = bd.Alternating(tol=1e-13, max_iter=2000, steps=20).minimise(energy, start, trace)
    values = np.array(trace.values)[:, 0]
    assert trace.status is Status.CONVERGED
    assert np.all(np.diff(values) <= 1e-12 * np.abs(values[1:]))
    value, gradient = energy.value_and_gradient(end)
    first = energy.value_and_gradient(start)[1].flatten()
    assert np.linalg.norm(gradient.flatten()) < 1e-3 * np.linalg.norm(first)
    # From there the other minimiser gains nothing but the tail of a slow descent.
    again = bd.LBFGS(tol=1e-12, max_iter=500).minimise(energy, end, trace)
    assert value - energy.value_and_gradient(again)[0] < 1e-3 * value


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_output_update_is_the_minimum_of_the_quadratic_bound(fit_intercept):
    """With ``(ω, κ)`` held, by solving the normal equations row by row; and its value is not above the old one."""
    energy, here = problem(fit_intercept=fit_intercept)
    found = output_update(energy, energy.criterion, here)
    block, moments = energy.blocks[0], energy.moments_of(energy.blocks[0])
    unit = expit(moments.mean(here.hidden))
    slope = unit * (1 - unit)
    for m in range(3):
        left, right = np.diag(np.append(np.ones(K), 0.0 if fit_intercept else 1.0)), np.zeros(K + 1)
        for i in range(N):
            V = 0.3 * 0.7 * np.asarray(block.rows.matrix())[i] ** 2
            tilted = slope[i][:, None] * here.hidden[:-1].T
            h = np.append(unit[i], float(fit_intercept))
            score = h @ here.output[:, m]
            bent = (tilted * V) @ tilted.T
            var = here.output[:-1, m] @ bent @ here.output[:-1, m] + 1e-3
            sign, weight = block.target[i, m], block.weight[i]
            r = np.sqrt(score**2 + var)
            omega = weight * np.tanh(r / 2) / (2 * r)
            left += omega * np.outer(h, h)
            left[:-1, :-1] += omega * bent
            right += weight * sign / 2 * h
        np.testing.assert_allclose(found[:, m], np.linalg.solve(left, right), rtol=1e-9, atol=1e-12)
    before, after = (energy.value_and_gradient(part)[0] for part in (here, here._replace(output=found)))
    assert after <= before


def test_statuses_of_lbfgs_are_those_of_its_steps():
    energy, start = problem()
    ends = {}
    for tol, most in ((1e-4, 500), (0.0, 3000), (0.0, 5), (1.0, 5)):
        trace = Trace()
        ends[tol, most] = bd.LBFGS(tol, most).minimise(energy, start, trace), trace
        assert len(trace.values) == trace.iterations <= most
    found, trace = ends[1e-4, 500]
    values = np.array(trace.values)[:, 0]
    assert trace.status is Status.CONVERGED
    assert values[-11] - values[-1] < 10 * 1e-4 * energy.row_weight <= values[-12] - values[-2]
    assert values[-1] == energy.value_and_gradient(found)[0]
    end, trace = ends[0.0, 3000]
    assert trace.status in (Status.ROUND_OFF, Status.CONVERGED)
    assert np.linalg.norm(energy.value_and_gradient(end)[1].flatten()) < 1e-5 * energy.row_weight
    # Five steps say nothing of ten.
    assert ends[0.0, 5][1].status is ends[1.0, 5][1].status is Status.MAX_ITERATIONS


def test_alternating_needs_the_augmentation():
    energy, start = problem(bd.Logistic(expectation="gaussian"))
    with pytest.raises(ValueError, match="augmentation bound.*LBFGS"):
        bd.Alternating().minimise(energy, start, Trace())
    rows = blocks_of(np.ones((3, P)), np.array([0, 1, 2]), np.ones(3), K)
    joint = LatentEnergy(rows, bd.Dropout(), np.full(P, 0.3), Softmax("taylor"), np.ones(P))
    with pytest.raises(ValueError, match="augmentation bound"):
        bd.Alternating().minimise(joint, start, Trace())


def test_sign_counts_are_those_of_the_linearised_score():
    """Entry by entry, the slope of the score in each feature by a difference of the score itself."""
    energy, here = problem()
    block, ratio = energy.blocks[0], np.array([0.5, 2.0, 1.0])
    X = np.array(block.rows.matrix())
    X[X < -0.5] = 0.0
    energy = LatentEnergy(
        blocks_of(X, block.target, block.weight, K), energy.noise, energy.rate, energy.criterion, np.ones(P)
    )
    against, total = sign_counts(energy, here, 2.0, ratio)
    expected, count = np.zeros(P), np.zeros(P)

    def score(x):
        return expit(0.7 * x @ here.hidden[:-1] + here.hidden[-1]) @ here.output[:-1]

    for i in range(N):
        for d in range(P):
            ahead = X[i].copy()
            ahead[d] += 1e-6
            slope = score(ahead) - score(X[i])
            for m in range(3):
                sign = block.target[i, m]
                weight = block.weight[i] / 2 * (1.0 if sign > 0 else ratio[m])
                expected[d] += weight * (sign * slope[m] * X[i, d] < 0)
                count[d] += weight * (X[i, d] != 0)
    np.testing.assert_allclose(against, expected, rtol=1e-12)
    np.testing.assert_allclose(total, count, rtol=1e-12)


@pytest.mark.parametrize("method", [bd.Newton(), bd.HMC(), "adam", bd.LBFGS])
def test_methods_of_other_kinds_are_refused(method):
    with pytest.raises(TypeError, match=r"method: expected a minimiser such as bd\.LBFGS\(\)"):
        bd.LatentDropoutSVC(0.1, method=method).fit(np.eye(4), [0, 1, 0, 1])
