"""A row of weight 2 is the row twice, its masks drawn apart: identities of densities and draws, whatever the method."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_sampling_design
from bayesdrop.hmc.streamed import one_pass
from bayesdrop.posterior.draws.draws import read_draws
from bayesdrop.posterior.scores.approximation_error import errors_of
from bayesdrop.posterior.scores.pointwise import row_log_likelihoods

N, P = 12, 3
TIMES = np.tile([1, 2, 3, 1], N // 4)
LOSSES = [
    bd.Logistic(),
    bd.Hinge(),
    bd.Squared(variance=1.0),
    bd.EpsilonInsensitive(),
    bd.Quantile(0.8, 1.0),
    bd.Poisson(),
]


def problem(loss, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, P)), rng.normal(size=N)
    X[0] = 0.0
    if loss.binary:
        y = np.where(y > 0, 1.0, -1.0)
    elif loss.multiclass:
        y = np.arange(N) % 3
    elif loss.largest_count is not None:
        y = np.floor(np.abs(3 * y))
    return X, y


def both(loss, seed=0):
    """The rows with their weights, and as often as these say."""
    X, y = problem(loss, seed)
    return (X, y, TIMES.astype(float)), (np.repeat(X, TIMES, axis=0), np.repeat(y, TIMES), None)


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return bd.sample(*arguments, progress=False, **options)


def bound(model, method, X, y, weight):
    many = model.loss.multiclass
    data = as_dataset(X, y, weight, None, model.loss.binary, as_sampling_design, many).with_weight()
    bind = method.bind_streamed if data.design.is_streamed else method.bind
    return bind(model, data, model.bind(data.feature_names), 0)


@pytest.mark.slow
@pytest.mark.parametrize("C", [0.3, 4.0])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("method", [bd.HMC(dtype="float64"), bd.NUTS()], ids=["HMC", "NUTS"])
def test_densities_with_masks_integrated(method, loss, C):
    model = bd.Model(loss, rates=bd.PerFeature(bd.Beta.from_mode(0.3, relative_strength=0.5)), C=C)
    with jax.enable_x64(True):
        found = []
        theta = jnp.asarray(np.random.default_rng(1).normal(size=(4, 2 * P + 1)))
        for rows in both(loss):
            kernel, operands = bound(model, method, *rows)
            at = kernel.density.evaluate(operands.density, theta)
            found.append((jnp.sum(at.cost, axis=1), at.prior, at.gradient))
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-9)


@pytest.mark.slow
def test_densities_of_streamed_rows():
    model = bd.Model(bd.Hinge(), rates=bd.Shared(), C=3.0)
    with jax.enable_x64(True):
        found = []
        theta = jnp.asarray(np.random.default_rng(1).normal(size=(4, P + 2)))
        for X, y, weight in both(model.loss):
            kernel, operands = bound(model, bd.HMC(), bd.Blocks(lambda X=X: iter([X[:5], X[5:]])), y, weight)
            found.append(one_pass(kernel.inner.density, operands.rows, kernel.inner.density.loadings(
                operands.chains.density, theta)))  # fmt: skip
    np.testing.assert_allclose(found[0].cost + 0, found[1].cost, rtol=1e-10)
    for one, other in zip(found[0].slopes, found[1].slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_sums_over_masks(loss):
    """Log-likelihoods and the error of masks integrated, to rounding."""
    model, (weighed, repeated) = bd.Model(loss, C=2.0), both(loss)
    post = quietly(model, *problem(loss)[:2], draws=3, tune=2, chains=2, method=bd.HMC())
    draws = read_draws(post)
    cost = []
    for X, y, weight in (weighed, repeated):
        weight = np.ones(len(y)) if weight is None else weight
        group = row_log_likelihoods(draws, X, y, weight)
        cost.append((group.sum(axis=1), errors_of(draws, X, y, weight).sum(axis=1)))
    for one, other in zip(*cost, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


GIBBS = {
    "per feature": bd.Model(C=2.0),
    "shared": bd.Model(bd.Hinge(), rates=bd.Shared()),
    "counted prior": bd.Model(rates=bd.PerFeature(bd.Beta.from_mode(0.3, relative_strength=0.5))),
    "unknown variance": bd.Model(bd.Squared(variance=bd.InverseGamma(2.0, 1.0))),
    "horseshoe, hierarchy": bd.Model(weight_prior=bd.Horseshoe(), rates=bd.Hierarchical(["a", "b", "a"])),
    "classes": bd.Model(bd.Softmax()),
}


@pytest.mark.parametrize("name", GIBBS)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_gibbs_draws_the_masks_of_each_copy(name, storage):
    """Kernel and operands are those of repeated rows, and so are the draws."""
    model = GIBBS[name]
    (kernel, one), (same, other) = (
        bound(model, bd.Gibbs(), storage(X), y, weight) for X, y, weight in both(model.loss)
    )
    assert kernel == same
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.slow
def test_other_powers_are_refused_or_approximated():
    """Of a row with masks: ``bd.Gibbs()`` says what to take instead, and the default takes it."""
    (X, y), weight = problem(bd.Logistic()), np.where(np.arange(N) == 4, 0.5, 1.0)
    with pytest.raises(ValueError, match=r"sample_weight: .*included, 0.5. Take whole numbers, or method=bd.HMC\(\)"):
        bd.sample(bd.Model(), X, y, sample_weight=weight, method=bd.Gibbs())
    post = quietly(bd.Model(), X, y, sample_weight=weight, draws=3, tune=2, chains=2)
    assert post.attrs["method"].startswith("HMC(")
    assert "approximation" in post.attrs
    with pytest.raises(ValueError, match=r"sample_weight: .*whole numbers"):
        bd.sample(bd.Model(weight_prior=bd.Horseshoe()), X, y, sample_weight=weight)
    weight[4] = 1e15
    with pytest.raises(ValueError, match="sample_weight: .*rows take .* and this process may have .*bd.reweight"):
        bd.sample(bd.Model(), X, y, sample_weight=weight)


def test_rows_without_masks_take_any_weight():
    """One has no entry, and the only entries of another are of a feature that is never dropped."""
    (X, y), model = problem(bd.Logistic()), bd.Model(rates=bd.Fixed([0.3, 0.3, 0.0]))
    X[4, :2], unmasked = 0.0, np.isin(np.arange(N), (0, 4))
    weight = np.where(unmasked, 2.5, TIMES)
    rows = np.repeat(np.arange(N), np.where(unmasked, 1, TIMES))
    found = [
        bound(model, bd.Gibbs(), *part)[1]
        for part in ((X, y, weight), (X[rows], y[rows], np.where(unmasked, 2.5, 1.0)[rows]))
    ]
    jax.tree.map(np.testing.assert_array_equal, *found)
    assert np.unique(found[0].row_weight).tolist() == [1.0, 2.5]
