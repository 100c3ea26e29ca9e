"""The samplers under NumPyro's MCMC and in ArviZ, and weights as a block of NumPyro's Gibbs sampler.

False-alarm rate: each of four statistics is allowed 5 standard errors (5.7e-7 each under normality).
"""

import json
import os
import pickle
import subprocess
import sys
import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.warnings import MixingWarning

LIMIT = 5.0
KEY = 3
X = np.random.default_rng(0).normal(size=(20, 2))
Y = np.where(X[:, 0] + np.random.default_rng(1).normal(size=20) > 0, 1, -1)
PLAIN = bd.Model(rates=bd.Fixed(0.0))
FIELDS = ("lp", "acceptance_rate", "step_size")


@contextmanager
def numpyro_rules():
    """NumPyro's own code needs promotion of dtypes and ranks."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def program():
    """The posterior of ``PLAIN``."""
    import numpyro
    import numpyro.distributions as dist

    with numpyro.plate("feature", 2):
        weight = numpyro.sample("weight", dist.Normal(0.0, 1.0))
    intercept = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real, (), ()))
    with numpyro.plate("obs_id", 20):
        numpyro.sample("y", dist.Bernoulli(logits=jnp.asarray(X) @ weight + intercept), obs=jnp.asarray(Y == 1, int))


def run(method, model=PLAIN, chain_method="vectorized", chains=2, warmup=8, draws=6, fields=FIELDS, **options):
    from numpyro.infer import MCMC

    kernel = bd.NumpyroKernel(model, X, Y, method=method, **options)
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method=chain_method,
        progress_bar=False,
    )
    mcmc.run(jax.random.key(KEY), extra_fields=fields)
    return mcmc


def sampled(method, model, seed, chains, warmup=8, draws=6):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        warnings.simplefilter("ignore", bd.ApproximationWarning)  # six draws do not tell how far off they are
        post = bd.sample(model, X, Y, draws=draws, tune=warmup, chains=chains, seed=seed, method=method, progress=False)
    return bd.groups.dataset(post, "posterior"), bd.groups.dataset(post, "sample_stats")


def assert_same(mcmc, posterior, stats, chain=slice(None)):
    drawn = mcmc.get_samples(group_by_chain=True)
    assert set(drawn) == set(posterior.data_vars)
    for name in posterior.data_vars:
        np.testing.assert_allclose(drawn[name][chain], posterior[name], rtol=1e-8, atol=1e-8)
    fields = mcmc.get_extra_fields(group_by_chain=True)
    for name in set(fields) & set(stats.data_vars):
        np.testing.assert_allclose(fields[name][chain], stats[name], rtol=1e-8, atol=1e-8)


@pytest.fixture(scope="module")
def vectorised():
    with jax.enable_x64(True):
        return run(bd.HMC(), program=program)


def test_vectorised_draws_are_those_of_sample(vectorised):
    key = jax.random.split(jax.random.key(KEY), 2)[0]
    assert_same(vectorised, *sampled(bd.HMC(dtype="float64"), PLAIN, key, chains=2))


def test_vectorised_chains_adapt_together(vectorised):
    step = np.asarray(vectorised.get_extra_fields(group_by_chain=True)["step_size"])
    np.testing.assert_array_equal(step[0], step[1])


@pytest.mark.default_cases
def test_divergences_are_collected_unasked(vectorised, capsys):
    assert vectorised.get_extra_fields()["diverging"].dtype == bool
    vectorised.print_summary()
    assert "Number of divergences: 0" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.HMC(dtype="float64"), bd.NUTS()])
def test_sequential_chains_are_runs_of_their_own(method):
    model = bd.Model(bd.Hinge(), rates=bd.Fixed(0.0))
    with numpyro_rules():
        mcmc = run(method, model, chain_method="sequential")
        for chain, key in enumerate(jax.random.split(jax.random.key(KEY), 2)):
            assert_same(mcmc, *sampled(method, model, key, chains=1), chain=slice(chain, chain + 1))
    step = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["step_size"])
    assert np.all(step[0] != step[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model"),
    [
        (bd.Gibbs(dtype="float64"), bd.Model()),
        (bd.Gibbs(dtype="float64"), bd.Model(bd.Softmax())),
        (bd.NUTS(correct=False), bd.Model()),
    ],
)
def test_every_sampler_draws_what_sample_draws(method, model):
    """Draws as they come: ``bd.sample`` would take some of them again where they are corrected."""
    with numpyro_rules():
        mcmc = run(method, model, fields=("lp",))
        key = jax.random.split(jax.random.key(KEY), 2)[0]
        assert_same(mcmc, *sampled(method, model, key, chains=2))


PARALLEL = """
import json, sys, jax
sys.path.insert(0, {folder!r})
with jax.enable_x64(True):
    from test_numpyro import bd, run
    assert jax.local_device_count() == 2
    mcmc = run(bd.HMC(), chain_method="parallel")
    print(json.dumps([mcmc.chain_method, mcmc.get_samples(True)["weight"].tolist()]))
"""


@pytest.mark.slow
def test_parallel_chains_are_the_sequential_ones():
    """On two host devices, which must be asked for before JAX starts."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    code = PARALLEL.format(folder=os.path.dirname(__file__))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    chain_method, weight = json.loads(done.stdout)
    assert chain_method == "parallel"
    for chain, key in enumerate(jax.random.split(jax.random.key(KEY), 2)):
        posterior, _ = sampled(bd.HMC(dtype="float64"), PLAIN, key, chains=1)
        np.testing.assert_allclose(weight[chain], posterior["weight"][0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("model", "method", "names"),
    [
        (PLAIN, bd.HMC(), {"weight": (2,), "intercept": ()}),
        (bd.Model(), bd.HMC(), {"weight": (2,), "intercept": (), "rate": (2,)}),
        (bd.Model(fit_intercept=False), None, {"weight": (2,), "rate": (2,)}),
        (
            bd.Model(bd.Squared(variance=bd.InverseGamma(2.0, 1.0)), rates=bd.Shared()),
            None,
            {"weight": (2,), "intercept": (), "rate": (1,), "sigma": ()},
        ),
        (
            bd.Model(rates=bd.Hierarchical(["a", "a"]), weight_prior=bd.Horseshoe()),
            bd.Gibbs(joint_moves=0),
            {
                "weight": (2,),
                "intercept": (),
                "rate": (2,),
                "group_rate": (1,),
                "group_strength": (1,),
                "global_scale": (),
            },
        ),
    ],
)
@pytest.mark.slow_cases("None-model1", "None-model2", "None-model3", "None-model4")
@pytest.mark.parametrize("chains", [None, 3])
def test_every_recorded_variable_is_a_site(model, method, names, chains):
    """Traced only: names and shapes of chains one at a time and side by side."""
    kernel = bd.NumpyroKernel(model, X, Y, method=method)
    key = jax.random.key(0)
    keys = key if chains is None else jax.random.split(key, chains)
    state = jax.eval_shape(lambda key: kernel.sample(kernel.init(key, 5, None, (), {}), (), {}), keys)
    lead = () if chains is None else (chains,)
    assert {name: value.shape for name, value in state.z.items()} == {
        name: (*lead, *shape) for name, shape in names.items()
    }
    for name in state.sample_stats:
        assert getattr(state, name).shape == lead


def test_arviz_converts_the_draws_under_names_given_to_it(vectorised):
    import arviz as az

    kernel = vectorised.sampler
    assert kernel.model is program
    kernel._program = None  # without a program, names come from the caller
    try:
        post = az.from_numpyro(
            vectorised, coords={"feature": ["age", "dose"]}, dims={"weight": ["feature"]}, log_likelihood=False
        )
    finally:
        kernel._program = program
    weight = bd.groups.dataset(post, "posterior")["weight"]
    assert weight.dims == ("chain", "draw", "feature")
    assert weight.coords["feature"].values.tolist() == ["age", "dose"]
    np.testing.assert_array_equal(weight, vectorised.get_samples(group_by_chain=True)["weight"])
    stats = bd.groups.dataset(post, "sample_stats")
    assert set(stats.data_vars) == {"diverging", *FIELDS}
    assert stats["lp"].dims == ("chain", "draw")
    assert "weight" in str(az.summary(post))


@pytest.mark.slow
def test_arviz_reads_dims_from_a_program(vectorised):
    import arviz as az

    with numpyro_rules():  # the converter traces the program
        post = az.from_numpyro(vectorised, coords={"feature": ["age", "dose"]}, log_likelihood=False)
    weight = bd.groups.dataset(post, "posterior")["weight"]
    assert weight.dims == ("chain", "draw", "feature")
    np.testing.assert_array_equal(bd.groups.dataset(post, "observed_data")["y"], Y == 1)


@pytest.mark.slow
def test_chains_go_on_with_the_key_they_are_given():
    """MCMC continues a run by writing a key into the state: another key gives other draws, the same one the same."""
    kernel = bd.NumpyroKernel(PLAIN, X, Y)
    start = jax.jit(lambda keys: kernel.init(keys, 2, None, (), {}))(jax.random.split(jax.random.key(0), 2))
    step = jax.jit(lambda state: kernel.sample(state, (), {}))
    assert np.all(step(start).z["weight"] != start.z["weight"])
    other = [start._replace(rng_key=jax.random.split(jax.random.key(seed), 2)) for seed in (1, 1, 2)]
    one, again, two = (step(state) for state in other)
    np.testing.assert_array_equal(one.z["weight"], again.z["weight"])
    assert np.all(one.z["weight"] != two.z["weight"])
    assert np.all(one.z["weight"] != step(start).z["weight"])
    assert np.all(step(one).z["weight"] != one.z["weight"])  # and further, not the same number again


@pytest.mark.slow
def test_old_keys_and_new_ones_are_the_same():
    kernel = bd.NumpyroKernel(PLAIN, X, Y)
    first = jax.jit(lambda key: kernel.sample(kernel.init(key, 2, None, (), {}), (), {}).z["weight"])
    np.testing.assert_allclose(first(jax.random.PRNGKey(4)), first(jax.random.key(4)), rtol=1e-5)
    assert np.all(first(jax.random.key(4)) != first(jax.random.key(5)))


def test_a_kernel_and_a_run_can_be_pickled(vectorised):
    with jax.enable_x64(True):
        copy = pickle.loads(pickle.dumps(vectorised))
        np.testing.assert_array_equal(copy.get_samples()["weight"], vectorised.get_samples()["weight"])
    shapes = jax.eval_shape(lambda key: copy.sampler.init(key, 2, None, (), {}), jax.random.key(0))
    assert shapes.z["weight"].shape == (2,)


def test_kernel_errors_say_what_to_do():
    kernel = bd.NumpyroKernel(PLAIN, X, Y)
    with pytest.raises(TypeError, match="give X and y to bd.NumpyroKernel"):
        kernel.init(jax.random.key(0), 1, None, (X, Y), {})
    with pytest.raises(ValueError, match="init_params: expected None"):
        kernel.init(jax.random.key(0), 1, {"weight": X[0]}, (), {})
    with pytest.raises(AttributeError, match=r"extra_fields: expected .*'acceptance_rate'.*, got 'accept_prob'"):
        jax.eval_shape(lambda key: kernel.init(key, 1, None, (), {}), jax.random.key(0)).accept_prob
    with pytest.raises(TypeError, match="method: expected a sampler"):
        bd.NumpyroKernel(PLAIN, X, Y, method=bd.EM())
    with pytest.raises(TypeError, match="model: expected an object such as bd.Model"):
        bd.NumpyroKernel(bd.Hinge(), X, Y)
    with pytest.raises(ValueError, match="target"):
        bd.NumpyroKernel(bd.Model(), X, Y, target="marginalised")


# Weights as a block.


def moments(model, X, y, half_width=12.0, points=601):
    """Posterior means of a weight, the intercept and their squares by quadrature."""
    grid = np.linspace(-half_width, half_width, points)
    weight, intercept = (part.ravel() for part in np.meshgrid(grid, grid, indexing="ij"))
    total = 0.5 * weight**2 * model.weight_prior.precision(1)[0]
    for x, target in zip(X[:, 0], y, strict=True):
        score = weight * x + intercept
        total += model.C * model.loss.value(np.full_like(score, target), score, np.zeros_like(score))
    share = np.exp(total.min() - total)
    share /= share.sum()
    assert share[np.maximum(np.abs(weight), np.abs(intercept)) > 0.95 * half_width].sum() < 1e-5
    return share @ np.stack([weight, weight**2, intercept, intercept**2], axis=1)


def small():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(12, 1)) * (generator.random((12, 1)) < 0.8)
    return X, np.where(X[:, 0] + 0.3 + generator.normal(size=12) > 0, 1.0, -1.0)


NONE, HALF = bd.Fixed(0.0), bd.Fixed([0.5, 0.5])


@pytest.mark.slow
def test_block_keeps_the_posterior():
    """Means of 500 chains of draws given the last ones, each within 5 standard errors."""
    (X, y), model, draws = small(), bd.Model(bd.Hinge(), rates=NONE), 200
    with jax.enable_x64(True):
        block = bd.WeightsBlock(model, X, y)

        def chain(key):
            def step(sites, key):
                sites = block(rng_key=key, gibbs_sites=sites, hmc_sites={})
                return sites, jnp.append(sites["weight"], sites["intercept"])

            start = {"weight": jnp.zeros(1), "intercept": jnp.zeros(())}
            _, drawn = jax.lax.scan(step, start, jax.random.split(key, 100 + draws))
            return jnp.mean(jnp.concatenate([drawn[100:], drawn[100:] ** 2], axis=1), axis=0)

        means = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), 500)))[:, [0, 2, 1, 3]]
    z = (means.mean(axis=0) - moments(model, X, y)) / (means.std(axis=0, ddof=1) / np.sqrt(500))
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        bd.Model(bd.Hinge(), rates=NONE),
        bd.Model(rates=HALF, noise=bd.Dropout(unbiased=True)),
        bd.Model(bd.Squared(variance=1.0), noise=bd.GaussianNoise(0.8)),
    ],
    ids=repr,
)
def test_values_of_other_sites_are_those_of_the_model(model):
    """The same draw as of a block whose model has the scale and the C that the sites have."""
    stated = replace(model, weight_prior=bd.Normal([0.6, 2.0]), C=1.7)
    with jax.enable_x64(True):
        blocks = bd.WeightsBlock(model, X, Y, scale="spread", C="power"), bd.WeightsBlock(stated, X, Y)
        others = {"spread": jnp.array([0.6, 2.0]), "power": jnp.array(1.7)}, {}
        start = {"weight": jnp.array([0.7, -0.4]), "intercept": jnp.array(0.2)}
        one, other = (
            jax.jit(block)(jax.random.key(4), start, sites) for block, sites in zip(blocks, others, strict=True)
        )
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=1e-9)


def tau_program(X, y):
    import numpyro
    import numpyro.distributions as dist

    from bayesdrop.models import svm

    tau = numpyro.sample("tau", dist.Gamma(8.0, 6.0))
    svm.program(X, y > 0, scale=tau**-0.5, intercept_scale=None)


@pytest.mark.slow
@pytest.mark.parametrize("composed", [True, False])
def test_the_block_composes_with_nuts(composed):
    """NUTS draws τ on the program without auxiliary variables, the block the rest: each moves."""
    import numpyro.infer
    from numpyro.infer import MCMC, NUTS, HMCGibbs

    if composed and not hasattr(numpyro.infer, "CustomGibbs"):
        pytest.skip("NumPyro 0.22 has composable Gibbs blocks")
    X, y = small()
    with numpyro_rules():
        block = bd.WeightsBlock(bd.Model(bd.Hinge(), rates=NONE), X, y, scale=lambda sites: sites["tau"] ** -0.5)
        nuts = NUTS(partial(tau_program, jnp.asarray(X), jnp.asarray(y)))
        if composed:
            from numpyro.infer import CustomGibbs, Gibbs

            kernel = Gibbs([(CustomGibbs(block), block.sites), (nuts, None)])
        else:
            kernel = HMCGibbs(nuts, block, block.sites)
        mcmc = MCMC(kernel, num_warmup=20, num_samples=20, num_chains=4, chain_method=jax.vmap, progress_bar=False)
        mcmc.run(jax.random.key(0))
        drawn = {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}
    assert {name: part.shape for name, part in drawn.items()} == {
        "weight": (4, 20, 1), "intercept": (4, 20), "tau": (4, 20),
    }  # fmt: skip
    assert all(np.all(np.isfinite(part)) and np.all(part.std(axis=1) > 0) for part in drawn.values())


def test_the_block_says_what_it_needs():
    block = bd.WeightsBlock
    with pytest.raises(ValueError, match="rates: expected fixed ones, got 2 free"):
        block(bd.Model(), X, Y)
    with pytest.raises(ValueError, match='expected expectation="augmentation"'):
        block(bd.Model(bd.Logistic("gaussian"), rates=bd.Fixed(0.5)), X, Y)
    with pytest.raises(ValueError, match="name the site that has them"):
        block(bd.Model(rates=NONE, weight_prior=bd.Laplace()), X, Y)
    with pytest.raises(ValueError, match="has an unknown scale"):
        block(bd.Model(bd.Squared(variance=bd.InverseGamma(2.0, 1.0)), rates=NONE), X, Y)
    with pytest.raises(ValueError, match="draw: expected .* X is sparse"):
        block(PLAIN, sparse.csr_array(X), Y, draw="cholesky")
    with pytest.raises(TypeError, match="scale: expected the name of a site"):
        block(PLAIN, X, Y, scale=2.0)
    key, sites = jax.random.key(0), {"weight": jnp.zeros(2), "intercept": jnp.zeros(())}
    call = block(PLAIN, X, Y, scale="scale")
    with pytest.raises(ValueError, match=r"scale: expected a site 'scale' besides this block, got \['tau'\]"):
        call(key, sites, {"tau": jnp.ones(())})
    with pytest.raises(ValueError, match=r"scale: expected one number or 2 of them, got shape \(3,\)"):
        call(key, sites, {"scale": jnp.ones(3)})
    with pytest.raises(ValueError, match=r"weight: expected shape \(2,\)"):
        call(key, {**sites, "weight": jnp.zeros(3)}, {"scale": jnp.ones(())})
    with pytest.raises(ValueError, match=r"sites: expected \['weight', 'intercept'\] to be drawn"):
        call(key, {"weight": jnp.zeros(2)}, {"scale": jnp.ones(())})


@pytest.mark.slow
def test_the_block_takes_names_and_scales_of_each_weight():
    model = bd.Model(rates=NONE, fit_intercept=False)
    block = bd.WeightsBlock(model, X, Y, scale="spread", weight="beta")
    assert block.sites == ["beta"]
    drawn = jax.jit(block)(jax.random.key(0), {"beta": jnp.zeros(2)}, {"spread": jnp.array([1.0, 1e-4])})
    assert set(drawn) == {"beta"}
    assert abs(drawn["beta"][1]) < 1e-3 < abs(drawn["beta"][0])
    assert pickle.loads(pickle.dumps(block)).sites == ["beta"]


@pytest.mark.slow
def test_row_weights_are_repetitions():
    """One draw from the same key with a row twice and with weight two, where the loss needs no auxiliary variables."""
    model = bd.Model(bd.Squared(variance=1.0), rates=NONE)
    sites = {"weight": jnp.zeros(2), "intercept": jnp.zeros(())}
    twice = bd.WeightsBlock(model, np.vstack([X, X[:1]]), np.append(Y, Y[0]))
    heavy = bd.WeightsBlock(model, X, Y, sample_weight=np.append(2.0, np.ones(19)))
    drawn = [jax.jit(block)(jax.random.key(0), sites, {}) for block in (twice, heavy)]
    for name in sites:
        np.testing.assert_allclose(drawn[0][name], drawn[1][name], rtol=1e-4)


def _precisions(jaxpr):
    """Precisions of all products in a program and those inside it."""
    found = set()
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            found.add(str(equation.params["precision"]))
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    found |= _precisions(inner)
    return found


@pytest.mark.parametrize("method", [bd.Gibbs(), bd.HMC()], ids=["Gibbs", "HMC"])
def test_products_are_taken_in_full_precision(method):
    """As in bd.sample; on some accelerators the default rounds factors to ten bits."""
    kernel = bd.NumpyroKernel(PLAIN, X, Y, method=method)
    keys = jax.random.split(jax.random.key(0), 2)
    start = jax.eval_shape(lambda keys: kernel.init(keys, 2, None, (), {}), keys)
    steps = jax.make_jaxpr(lambda state: kernel.sample(state, (), {}))(start)
    begin = jax.make_jaxpr(lambda keys: kernel.init(keys, 2, None, (), {}))(keys)
    found = _precisions(steps.jaxpr) | _precisions(begin.jaxpr)
    assert found
    assert all("HIGHEST" in precision for precision in found), found
