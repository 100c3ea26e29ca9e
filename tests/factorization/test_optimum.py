"""The closed form is the global optimum, and its truncated decomposition is the full one."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar

import bayesdrop as bd
from bayesdrop.factorization import estimator
from bayesdrop.factorization.alternating import alternate
from bayesdrop.factorization.entries import Complete
from bayesdrop.factorization.leading import Rules, leading
from bayesdrop.factorization.shrinkage import adaptive_retain, equalise, minimum, nuclear_weight, shrink

MF = bd.DropoutMatrixFactorization


def matrix(n=40, p=25, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p)) @ np.diag(np.geomspace(3, 0.05, p))


def optimum(X, weight, most=None):
    """The optimum from the full decomposition."""
    left, values, right = np.linalg.svd(X, full_matrices=False)
    shrunk = shrink(values, weight, most)
    k = len(shrunk.values)
    return (left[:, :k] * shrunk.values) @ right[:k], shrunk.threshold


def product(model, X):
    return model.inverse_transform(model.transform(X))


@pytest.mark.parametrize("retain", [0.3, 0.7, 0.9, 0.99])
def test_no_subgradient_is_left(retain):
    """``X − A = γ‖A‖* (PQᵀ + W)`` with ``W`` orthogonal to both and of norm at most 1: the problem is convex."""
    X, weight = matrix(), (1 - retain) / retain
    model = MF(retain=retain).fit(X)
    A = product(model, X)
    nuclear = np.linalg.svd(A, compute_uv=False).sum()
    assert model.shrinkage_ == pytest.approx(weight * nuclear, rel=1e-10)
    left, values, right = np.linalg.svd(A, full_matrices=False)
    k = model.n_components_
    left, right = left[:, :k], right[:k]
    np.testing.assert_allclose(values[:k], model.singular_values_, rtol=1e-9)
    subgradient = (X - A) / (weight * nuclear)
    np.testing.assert_allclose(left.T @ subgradient, right, atol=1e-9)
    np.testing.assert_allclose(subgradient @ right.T, left, atol=1e-9)
    assert np.linalg.norm(subgradient - left @ right, 2) <= 1 + 1e-9
    value = np.sum((X - A) ** 2) + weight * nuclear**2
    assert model.objective_ == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("weight", [0.01, 0.2, 3.0])
def test_one_dimensional_search_on_the_singular_values(weight):
    """At any nuclear norm the best values are ``(σ − ν)₊``, so a search over ``ν`` is a search over all."""
    values = np.linalg.svd(matrix(), compute_uv=False)

    def objective(threshold):
        kept = np.maximum(values - threshold, 0)
        return np.sum((values - kept) ** 2) + weight * kept.sum() ** 2

    grid = np.linspace(0, values[0], 2000)
    place = int(np.argmin([objective(x) for x in grid]))
    bounds = (grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)])
    found = minimize_scalar(objective, bounds=bounds, method="bounded", options={"xatol": 1e-12})
    assert shrink(values, weight).threshold == pytest.approx(found.x, abs=1e-6)
    assert minimum(np.sum(values**2), values, weight) == pytest.approx(found.fun, rel=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_the_number_kept_is_the_largest_that_satisfies_the_rule(seed):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.gamma(0.7, size=15))[::-1]
    weight = 10 ** rng.uniform(-3, 1)
    rule = [d for d in range(1, 16) if values[d - 1] > weight * values[:d].sum() / (1 + d * weight)]
    assert len(shrink(values, weight).values) == max(rule)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("width", "retain"), [(25, None), (30, 0.4), (4, 0.4)])
def test_alternating_least_squares_ends_at_the_same_minimum(seed, width, retain):
    """Adaptive with as many columns as wanted, fixed with more than the rank, fixed with a binding rank."""
    X = matrix()
    theta = adaptive_retain(0.9, width) if retain is None else retain
    found = alternate(Complete(X), width, theta, tol=1e-12, max_iter=20_000, generator=np.random.RandomState(seed))
    weight = nuclear_weight(theta, width)
    values = np.linalg.svd(X, compute_uv=False)
    assert found.trace[-1] == pytest.approx(minimum(np.sum(X**2), values, weight, width), rel=1e-7)
    best, _ = optimum(X, weight, width)
    np.testing.assert_allclose(found.left @ found.right.T, best, atol=2e-3 * np.linalg.norm(best))
    assert np.all(np.diff(found.trace) <= 1e-12 * found.trace[0]), "a sweep raised the loss"


@pytest.mark.parametrize(("adaptive", "components"), [(True, None), (True, 3), (False, 3), (False, 40)])
def test_the_loadings_reach_the_minimum(adaptive, components):
    """Equal strengths: the factors themselves have the loss that the closed form states."""
    X = matrix()
    model = MF(components, retain=0.6, adaptive=adaptive).fit(X)
    entries = Complete(X)
    left = entries.solve_left(model.loadings_, model.retain_)
    assert entries.objective(left, model.loadings_, model.retain_) == pytest.approx(model.objective_, rel=1e-10)
    strength = np.sum(model.loadings_**2, axis=0)
    np.testing.assert_allclose(strength, strength.mean(), rtol=1e-9)
    np.testing.assert_allclose(left @ model.loadings_.T, product(model, X), atol=1e-9)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(model.n_components_), atol=1e-10)


@pytest.mark.parametrize(("size", "width"), [(1, 1), (1, 5), (3, 3), (4, 9)])
def test_equalised_columns(size, width):
    values = np.sort(np.random.default_rng(size + width).gamma(0.5, size=size))[::-1]
    rotation = equalise(values, width)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(size), atol=1e-13)
    diagonal = np.diag(rotation.T @ np.diag(values) @ rotation)
    np.testing.assert_allclose(diagonal, values.sum() / width, rtol=1e-12)


@pytest.mark.parametrize("centre", [False, True])
@pytest.mark.parametrize("shape", [(40, 25), (25, 40)])
@pytest.mark.parametrize("storage", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
def test_sparse_equals_dense(storage, shape, centre, monkeypatch):
    X = matrix(*shape)
    X[np.abs(X) < 0.3] = 0
    dense = MF(centre=centre).fit(X)
    other = MF(centre=centre).fit(storage(X))
    np.testing.assert_allclose(other.singular_values_, dense.singular_values_, rtol=1e-10)
    np.testing.assert_allclose(other.components_, dense.components_, atol=1e-8)
    np.testing.assert_allclose(other.transform(storage(X)), dense.transform(X), atol=1e-8)
    assert other.objective_ == pytest.approx(dense.objective_, rel=1e-10)
    best, _ = optimum(X - X.mean(axis=0) * centre, 1 / 9)
    np.testing.assert_allclose(product(other, storage(X)), best + X.mean(axis=0) * centre, atol=1e-8)
    monkeypatch.setattr(estimator, "leading", partial(leading, rules=Rules(gram_side=0, guess=3)))
    lanczos = MF(centre=centre, n_components=6, retain=0.99).fit(storage(X))
    gram = MF(centre=centre, n_components=6, retain=0.99).fit(X)
    np.testing.assert_allclose(lanczos.singular_values_, gram.singular_values_, rtol=1e-9)


@pytest.mark.parametrize("way", ["gram", "lanczos"])
@pytest.mark.parametrize("shape", [(200, 150), (150, 200)])
@pytest.mark.parametrize("retain", [0.5, 0.99, 0.9995])
def test_truncated_equals_full(way, shape, retain):
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.normal(size=(size, 150)))[0] for size in shape)
    values = np.geomspace(10, 1e-3, 150)
    X = (left * values) @ right.T
    weight = (1 - retain) / retain
    kept = len(shrink(values, weight).values)
    found, vectors = leading(Complete(X), weight, rules=Rules(gram_side=2000 if way == "gram" else 0, guess=8))
    if way == "gram" or len(found) <= 50:
        assert kept < len(found) <= max(8, 4 * kept), "hardly more than needed"
    np.testing.assert_allclose(found[:kept], values[:kept], rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(vectors[:, :kept] * right[:, :kept], axis=0)), 1, atol=1e-10)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("shape", [(30, 20), (20, 30)])
def test_a_mean_is_subtracted_in_either_way(storage, shape):
    X, mean = 3 + matrix(*shape), np.linspace(1, 5, shape[1])
    expected = np.linalg.svd(X - mean, compute_uv=False)[:4]
    for rules in (Rules(guess=5, rows=7), Rules(gram_side=0, guess=5)):
        found, _ = leading(Complete(storage(X), mean), 1.0, 4, rules=rules)
        np.testing.assert_allclose(found[:4], expected, rtol=1e-9)


@pytest.mark.parametrize("retain", [1 - 1e-4, 1 - 1e-7])
def test_a_weak_penalty_keeps_small_singular_values(retain):
    """Where squares lose them: the largest is ten million times the smallest."""
    rng = np.random.default_rng(2)
    left, right = (np.linalg.qr(rng.normal(size=(size, 8)))[0] for size in (50, 30))
    values = np.geomspace(1, 1e-7, 8)
    model = MF(retain=retain).fit((left * values) @ right.T)
    expected = shrink(values, (1 - retain) / retain)
    assert model.n_components_ == len(expected.values)
    np.testing.assert_allclose(model.singular_values_, expected.values, rtol=1e-7, atol=1e-14)


def test_ordinary_dtypes_and_zero():
    X = matrix()
    single, double = MF().fit(X.astype(np.float32)), MF().fit(X)
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.singular_values_, double.singular_values_, rtol=1e-5)
    nothing = MF().fit(np.zeros((4, 3)))
    assert nothing.n_components_ == 0
    assert nothing.transform(X[:4, :3]).shape == (4, 0)
    np.testing.assert_array_equal(nothing.inverse_transform(np.zeros((2, 0))), np.zeros((2, 3)))


def test_the_rank_may_be_capped():
    X = matrix()
    free, capped = MF(retain=0.9).fit(X), MF(3, retain=0.9).fit(X)
    assert free.n_components_ > 3 == capped.n_components_
    np.testing.assert_allclose(product(capped, X), optimum(X, 1 / 9, 3)[0], atol=1e-10)
    assert capped.objective_ > free.objective_
    assert list(capped.get_feature_names_out()) == [f"dropoutmatrixfactorization{k}" for k in range(3)]
