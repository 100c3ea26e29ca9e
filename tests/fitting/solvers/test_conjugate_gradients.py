"""Conjugate gradients on a block of systems: what ends early leaves the block, and nothing changes for the others."""

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.estimators.classes import signs
from bayesdrop.fitting.problems.block import fit_block
from bayesdrop.fitting.solvers import preconditioners
from bayesdrop.fitting.solvers.preconditioners import DiagonalInverse
from bayesdrop.linalg import conjugate_gradients
from bayesdrop.linalg.conjugate_gradients import conjugate_gradient


def systems(n=30, K=9):
    """Matrices (n, n, K), each worse conditioned than the one before, and right-hand sides."""
    generator = np.random.default_rng(0)
    rotation = np.linalg.qr(generator.normal(size=(n, n)))[0]
    spread = np.linspace(0, 1, n)[:, None] * np.arange(K)
    return np.einsum("ij,jk,lj->ilk", rotation, np.exp(spread), rotation), generator.normal(size=(n, K))


def solve(matrices, right, asked=None):
    def product(columns):
        return lambda u: (np.einsum("ilk,lk->ik", matrices[..., columns], u), (u[:3] * np.arange(9)[columns],))

    inverse = DiagonalInverse(1 / np.einsum("iik->ik", matrices))

    def select(columns):
        asked.append(columns)
        return product(columns), inverse.select(columns)

    tolerance = np.full(right.shape[1], 1e-9)
    return conjugate_gradient(
        product(slice(None)), right, inverse, tolerance, 500, select=None if asked is None else select
    )


def test_columns_that_have_ended_are_left_out(monkeypatch):
    monkeypatch.setattr(conjugate_gradients, "_LARGE", 1)
    matrices, right = systems()
    asked = []
    x, extras, steps = solve(matrices, right, asked)
    whole, whole_extras, whole_steps = solve(matrices, right)
    # Directions go on as they were; in more steps than there are dimensions round-off moves the last by one or two.
    assert abs(steps - whole_steps) <= 0.1 * whole_steps
    # Fewer at each call, and always some of those before.
    assert len(asked) >= 3
    assert all(set(later) < set(before) for before, later in zip(asked, asked[1:], strict=False))
    # Residuals are within 1e-9, and solutions within that times the condition of the worst system.
    within = 2e-9 * np.exp(8) * np.linalg.norm(whole, axis=0)
    assert np.all(np.linalg.norm(x - whole, axis=0) <= within)
    np.testing.assert_allclose(extras[0], x[:3] * np.arange(9), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(whole_extras[0], whole[:3] * np.arange(9), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.einsum("ilk,lk->ik", matrices, x), right, atol=1e-6)


def test_small_blocks_stay_whole():
    asked = []
    solve(*systems(), asked)
    assert not asked


@pytest.mark.parametrize("expectation", ["augmentation", "gaussian"])
def test_fits_of_classes_are_the_same(monkeypatch, expectation):
    """With the terms of the variance in the model and without them."""
    generator = np.random.default_rng(1)
    X = generator.poisson(0.05, size=(80, 300)).astype(float)
    code = np.where(generator.uniform(size=80) < 0.8, 0, generator.integers(0, 12, size=80))
    model = bd.Model(bd.Logistic(expectation=expectation), rates=bd.Fixed(0.3))
    found = []
    for large in (1, 10**9):
        monkeypatch.setattr(conjugate_gradients, "_LARGE", large)
        arguments = (as_design(X), model.bind([str(d) for d in range(300)]), signs(code, 12), np.ones(80))
        found.append(fit_block(model, *arguments, bd.Newton(tol=1e-11, preconditioner=preconditioners.Jacobi())))
    few, whole = found
    gap = np.linalg.norm(few.weights[:-1] - whole.weights[:-1], axis=0)
    # Both are within tol of the optimum of an energy whose curvature is one at least.
    assert np.all(gap <= 2 * np.sqrt(2e-11 * whole.trace[-1]))
