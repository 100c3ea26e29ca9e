"""Random keys: each is used once, by JAX's own check, and of any kind."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC

import bayesdrop as bd
from bayesdrop.distributions import GeneralizedInverseGaussian, PolyaGamma
from bayesdrop.posterior.problem import Problem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = (X[:, 0] + RNG.normal(size=30) > 0).astype(int)
CLASSES = np.arange(30) % 3
NONE = bd.Fixed(0.0)
CASES = {
    "gibbs": (bd.Model(), Y, bd.Gibbs()),
    "gibbs, no masks": (bd.Model(rates=NONE), Y, bd.Gibbs()),
    "gibbs, hinge": (bd.Model(bd.Hinge()), Y, bd.Gibbs()),
    "gibbs, shared": (bd.Model(rates=bd.Shared()), Y, bd.Gibbs()),
    "gibbs, groups": (bd.Model(rates=bd.Hierarchical([0, 0])), Y, bd.Gibbs()),
    "gibbs, horseshoe": (bd.Model(weight_prior=bd.Horseshoe()), Y, bd.Gibbs()),
    "gibbs, scale": (bd.Model(weight_prior=bd.Normal(bd.HalfNormal(1.0))), Y, bd.Gibbs()),
    "gibbs, counts": (bd.Model(bd.NegativeBinomial(1.0)), CLASSES, bd.Gibbs()),
    "gibbs, classes": (bd.Model(bd.Softmax()), CLASSES, bd.Gibbs()),
    "hmc": (bd.Model(), Y, bd.HMC()),
    "hmc, shared": (bd.Model(rates=bd.Shared()), Y, bd.HMC()),
    "hmc, scale": (bd.Model(rates=NONE, weight_prior=bd.Normal(bd.HalfNormal(1.0))), Y, bd.HMC()),
    "hmc, classes": (bd.Model(bd.Softmax(), rates=NONE), CLASSES, bd.HMC()),
}


def sample(name, seed):
    model, y, method = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws
        return bd.sample(model, X, y, method=method, draws=4, tune=6, chains=2, seed=seed, progress=False)


@pytest.mark.default_cases("gibbs")
@pytest.mark.parametrize("name", CASES)
def test_no_key_is_used_twice(name):
    with jax.debug_key_reuse(True):
        sample(name, 0)


BRANCHES = {
    "classes": (bd.Model(bd.Softmax()), CLASSES),
    "classes, scales": (bd.Model(bd.Softmax(), weight_prior=bd.Normal(bd.HalfNormal(1.0), groups=[0, 1])), CLASSES),
    "counts, scales": (bd.Model(bd.NegativeBinomial(), weight_prior=bd.Normal(bd.HalfNormal(1.0))), CLASSES),
    "classes, indicators": (bd.Model(bd.Softmax(), rates=NONE, weight_prior=bd.SpikeSlab(0.5)), CLASSES),
}


def watched(function, seen):
    """The function, which adds the words of its key to ``seen``."""

    def call(key, *arguments, **options):
        seen.add(tuple(np.asarray(jax.random.key_data(key)).ravel().tolist()))
        return function(key, *arguments, **options)

    return call


@pytest.mark.slow
@pytest.mark.parametrize("name", BRANCHES)
def test_no_key_is_both_split_and_folded(name, monkeypatch):
    """``fold_in(key, i)`` is ``split(key, n)[i]``: the same random numbers twice, which JAX's check does not see."""
    model, y = BRANCHES[name]
    kernel, operands = Problem.of(model, X, y).bind(bd.Gibbs(), 5)
    state = kernel.init(operands, jax.random.key(0), 2)
    parents = {"split": set(), "fold_in": set()}
    for what, seen in parents.items():
        monkeypatch.setattr(jax.random, what, watched(getattr(jax.random, what), seen))
    with jax.disable_jit():
        kernel.step(operands, state)
    assert all(parents.values())
    assert not parents["split"] & parents["fold_in"]


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.Gibbs(), bd.HMC()], ids=repr)
def test_no_key_is_used_twice_under_numpyro(method):
    with jax.debug_key_reuse(True):
        kernel = bd.NumpyroKernel(bd.Model(), X, Y, method=method)
        mcmc = MCMC(kernel, num_warmup=3, num_samples=3, num_chains=2, chain_method="vectorized", progress_bar=False)
        mcmc.run(jax.random.key(0))


@pytest.mark.slow
def test_no_key_of_a_distribution_is_used_twice():
    with jax.debug_key_reuse(True):
        for law in (PolyaGamma(70.3, jnp.ones(4)), GeneralizedInverseGaussian(0.3, 1.0, jnp.ones(3))):
            law.sample(jax.random.key(0), (2,))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_keys_of_another_kind(name):
    """Hardware keys, which are four words long, as the seed and as what a number is made into."""
    first = bd.groups.dataset(sample(name, jax.random.key(3, impl="rbg")), "posterior")
    assert all(np.all(np.isfinite(part)) for part in first.values())
    before = jax.config.jax_default_prng_impl
    jax.config.update("jax_default_prng_impl", "rbg")
    try:
        again = bd.groups.dataset(sample(name, 3), "posterior")
    finally:
        jax.config.update("jax_default_prng_impl", before)
    for key, part in first.items():
        np.testing.assert_array_equal(part, again[key])
