"""Classes in parts are fitted as they are all at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.estimators.classes import signs
from bayesdrop.fitting.problems.block import Task, fit_block, fit_in_parts

K = 7


def _rows() -> tuple[sparse.csr_array, np.ndarray]:
    generator = np.random.default_rng(0)
    code = np.arange(140) % K
    X = generator.poisson(0.3 + 1.5 * (np.arange(20) % K == code[:, None]))
    return sparse.csr_array(X.astype(float)), code


@pytest.mark.parametrize(
    ("loss", "rates"),
    [
        (bd.Logistic(), bd.Fixed(0.3)),
        (bd.Logistic(), bd.PerFeature(bd.Beta(1, 2))),
        (bd.Hinge(), bd.Shared(bd.Beta(1, 1))),
    ],
)
def test_parts_are_the_whole(loss: object, rates: object) -> None:
    X, code = _rows()
    model = bd.Model(loss, rates=rates)
    names = [str(d) for d in range(X.shape[1])]
    task = Task(model, as_design(X), signs(code, K), np.ones(len(code)), names, bd.Newton(tol=1e-11))
    whole = fit_block(model, task.design, model.bind(names), task.target, task.weight, task.method)
    parts = fit_in_parts(task, model.bind(names), together=4)
    assert np.allclose(parts.weights, whole.weights, atol=1e-5)
    assert np.allclose(parts.rates, whole.rates, rtol=1e-12)
    assert parts.weights.shape == (X.shape[1] + 1, K)
    assert parts.trace.shape == (parts.iterations, K)
    assert np.allclose(parts.trace[-1], whole.trace[-1], rtol=1e-10)
    if whole.posterior is None:
        assert parts.posterior is None
        assert parts.counts is None
        return
    assert parts.counts is not None
    assert whole.counts is not None
    for name in ("above", "below", "total"):
        assert np.array_equal(getattr(parts.counts, name), getattr(whole.counts, name))
    assert np.array_equal(parts.occurrences, whole.occurrences)
    assert np.allclose(parts.posterior.mode(), whole.posterior.mode(), rtol=1e-12)
