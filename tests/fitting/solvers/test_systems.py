"""Linear systems: factors, and conjugate gradients on a block, each column with its own step lengths."""

import numpy as np
import pytest

from bayesdrop.linalg.systems import conjugate_gradient, factor, solved


def test_factors_solve():
    X = np.random.default_rng(0).normal(size=(120, 6))
    matrix, right = X.T @ X + np.eye(6), np.arange(12.0).reshape(6, 2)
    np.testing.assert_allclose(solved(factor(matrix.copy()), right), np.linalg.solve(matrix, right), rtol=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="3-th leading minor"):
        factor(np.diag([1.0, 1.0, -1.0]))


def test_columns_are_solved_as_if_alone():
    """Systems of very different condition; those that end early stay where they are."""
    n, K = 30, 9
    generator = np.random.default_rng(0)
    rotation = np.linalg.qr(generator.normal(size=(n, n)))[0]
    spread = np.linspace(0, 1, n)[:, None] * np.arange(K)
    matrices = np.einsum("ij,jk,lj->ilk", rotation, np.exp(spread), rotation)
    right, inverse = generator.normal(size=(n, K)), 1 / np.einsum("iik->ik", matrices)

    def solve(columns):
        own, scale = matrices[..., columns], inverse[:, columns]
        return conjugate_gradient(
            lambda u: (np.einsum("ilk,lk->ik", own, u), (2 * u[:3],)),
            right[:, columns], lambda r: scale * r, np.full(own.shape[2], 1e-9), 500,
        )  # fmt: skip

    x, extras, steps = solve(slice(None))
    np.testing.assert_allclose(np.einsum("ilk,lk->ik", matrices, x), right, atol=1e-6)
    np.testing.assert_allclose(extras[0], 2 * x[:3], rtol=1e-12, atol=1e-12)
    alone = [solve(slice(k, k + 1)) for k in range(K)]
    assert steps == max(taken for _, _, taken in alone) > min(taken for _, _, taken in alone)
    # The sums of a block are taken in another order than those of one column.
    within = 2e-9 * np.exp(8) * np.linalg.norm(x, axis=0)
    assert np.all(np.linalg.norm(x - np.hstack([part for part, _, _ in alone]), axis=0) <= within)
