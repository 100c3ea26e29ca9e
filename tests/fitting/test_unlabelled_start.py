"""A fit with rows that have no label begins at the fit without them."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.energy import Energy, row_weights
from bayesdrop.fitting.problems.block import fit_block
from bayesdrop.fitting.problems.many_classes import softmax_energy
from bayesdrop.moments import ScoreMoments

N, MORE, P = 40, 90, 12


def problem(storage):
    generator = np.random.default_rng(5)
    X = generator.normal(size=(N + MORE, P)) * (generator.random((N + MORE, P)) < 0.6)
    score = X @ generator.normal(size=(P, 3)) + generator.normal(size=(N + MORE, 3))
    weight = np.where(np.arange(N + MORE) < N, generator.uniform(0.5, 2, size=N + MORE), 0.0)
    return as_design(storage(X)), score, weight, generator


def labelled(design):
    return as_design(design.matrix()[:N])


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("rates", [bd.Fixed(0.4), bd.PerFeature(), bd.Shared()], ids=["fixed", "own", "shared"])
@pytest.mark.parametrize("method", [bd.Newton(tol=1e-9), bd.Newton(tol=1e-2)], ids=str)
def test_of_scores(storage, rates, method):
    design, score, weight, generator = problem(storage)
    target, offset = np.where(score > 0, 1.0, -1.0), generator.normal(size=N + MORE)
    model, rate_map = bd.Model(rates=rates, C=20.0), rates.bind([f"x{d}" for d in range(P)])
    strength = np.array([1.0, 20.0, 60.0])
    several = {"strength": strength, "many": True}
    found = fit_block(
        model, design, rate_map, target, weight, method, None, (MORE, 0.7), offset=offset, **several
    )  # fmt: skip
    rough = type(method)(tol=max(method.tol, 1e-3))
    first = fit_block(
        model, labelled(design), rate_map, target[:N], weight[:N], rough, offset=offset[:N], **several
    )  # fmt: skip
    same = fit_block(
        model, design, rate_map, target, weight, method, (first.weights, first.rates), (MORE, 0.7), offset=offset,
        **several,
    )  # fmt: skip
    np.testing.assert_array_equal(found.weights, same.weights)
    np.testing.assert_array_equal(found.rates, same.rates)
    assert np.all(found.trace[-1] <= found.trace[0] * (1 + 1e-12))  # a step may raise an energy by round-off


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("with_offset", [False, True])
def test_without_noise_rows_without_a_label_say_nothing(storage, with_offset):
    """A loss that is not convex begins there: its energy is that of the rows with labels."""
    design, score, weight, generator = problem(storage)
    target, strength = np.where(score > 0, 1.0, -1.0), np.array([1.0, 20.0, 60.0])
    offset = generator.normal(size=(N + MORE, 1)) if with_offset else None
    # One row of the first class is held out.
    weight = np.repeat(weight[:, None], 3, axis=1)
    weight[3, 0] = 0.0
    model = bd.Model(bd.Logistic("taylor"), C=1.0)
    _, noisy, plain = row_weights(model, weight, (MORE, 0.7), strength)
    rate, precision = generator.uniform(0.1, 0.6, size=(P, 3)), np.append(np.ones(P), 0.0)[:, None]
    energy = Energy(ScoreMoments(design, model.noise, rate), model.loss, target, noisy, precision, plain, offset)
    easier = energy.starting_energy()
    assert easier.convex
    assert easier.moments.design.shape == (N, P)
    weights = generator.normal(size=(P + 1, 3))
    sign, bias = target[:N], 0.0 if offset is None else offset[:N]
    mean = design.matrix()[:N] @ ((1 - rate) * weights[:-1]) + weights[-1] + bias
    expected = 0.5 * np.sum(weights[:-1] ** 2, axis=0)
    expected += strength * np.sum(weight[:N] * np.logaddexp(0, -sign * mean), axis=0)
    found = easier.value(weights, *easier.moments.scores(weights), np.zeros(3))
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_so_do_they_of_classes(storage):
    design, score, weight, generator = problem(storage)
    weight[3] = 0.0
    code = np.argmax(score, axis=1)
    model = bd.Model(bd.Softmax(), C=2.0)
    known, noisy = (part[:, 0] for part in row_weights(model, weight, (MORE, 0.7))[:2])
    energy = softmax_energy(model, design, np.full(P, 0.4), code, 3, 2.0 * known, noisy)
    easier = energy.without_noise()
    assert energy.noisy
    assert not easier.noisy
    assert easier.moments.design.shape == (N - 1, P)
    weights = generator.normal(size=(P + 1, 3))
    mean = design.matrix()[:N] @ (0.6 * weights[:-1]) + weights[-1]
    cost = logsumexp(mean, axis=1) - mean[np.arange(N), code[:N]]
    expected = 0.5 * np.sum(weights[:-1] ** 2) + 2.0 * np.sum(weight[:N] * cost)
    assert easier.value(weights) == pytest.approx(expected, rel=1e-13)
