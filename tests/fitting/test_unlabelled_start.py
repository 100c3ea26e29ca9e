"""A fit with rows that have no label begins at the fit without them."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.block import fit_block
from bayesdrop.fitting.many_classes import fit_classes

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
    assert np.all(found.trace[-1] <= found.trace[0])


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("rates", [bd.Fixed(0.4), bd.PerFeature()], ids=["fixed", "own"])
def test_of_classes(storage, rates):
    design, score, weight, _ = problem(storage)
    code = np.argmax(score, axis=1)
    model, rate_map = bd.Model(bd.Softmax(), rates=rates, C=20.0), rates.bind([f"x{d}" for d in range(P)])
    found = fit_classes(model, design, rate_map, code, weight, 3, tol=1e-9, max_iter=300, unlabelled=(MORE, 0.7))
    first = fit_classes(model, labelled(design), rate_map, code[:N], weight[:N], 3, tol=1e-3, max_iter=300)
    same = fit_classes(
        model, design, rate_map, code, weight, 3, tol=1e-9, max_iter=300, start=(first.weights, first.rates),
        unlabelled=(MORE, 0.7),
    )  # fmt: skip
    np.testing.assert_array_equal(found.weights, same.weights)
    np.testing.assert_array_equal(found.rates, same.rates)
