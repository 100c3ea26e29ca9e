"""Programs and the library have one posterior, by HMCGibbs with the stated conditionals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC, NUTS, HMCGibbs
from scipy import stats

import bayesdrop as bd
from bayesdrop._arviz import arviz
from bayesdrop.models import augmented_noising, logistic, quantile, svm, svr
from bayesdrop.posterior.arviz_groups.groups import dataset

FALSE_ALARM = 1e-4
X = np.random.default_rng(7).normal(size=(24, 2)) * (np.random.default_rng(8).random((24, 2)) < 0.85)


@pytest.fixture(autouse=True)
def _numpyro_promotion():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        yield


def moment(draws):
    """Mean of (chains, draws) and its Monte Carlo error; the chains must agree."""
    ess = float(arviz().ess(draws, method="mean"))
    assert ess > 300, f"effective sample size {ess:.0f}"
    assert float(arviz().rhat(draws)) < 1.02
    return draws.mean(), draws.std() / np.sqrt(ess)


@pytest.mark.slow
@pytest.mark.parametrize("hinge", [False, True])
def test_the_stated_conditionals_have_the_law_of_the_library_s_sampler(hinge):
    """Means and second moments of weights, intercept and rates; false-alarm rate 1e-4 a loss."""
    C, A, B, scale = 1.4, 2.0, 3.0, 1.5
    rng = np.random.default_rng(9)
    y = (X @ [2.0, -1.0] + rng.logistic(size=24) > 0).astype(int)
    rows, labels = jnp.asarray(X, jnp.float32), jnp.asarray(y)
    sites = ["latent_scale" if hinge else "omega", "weight", "kept", "rate"]
    draw = augmented_noising.conditionals(rows, labels, hinge, C, A, B, scale)
    mcmc = MCMC(
        HMCGibbs(NUTS(augmented_noising.program), draw, sites),
        num_warmup=1000, num_samples=15_000, num_chains=4, chain_method=jax.vmap, progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(0), rows, labels, hinge, C, A, B, None, scale, None)
    theirs = {name: np.asarray(part).astype(float) for name, part in mcmc.get_samples(group_by_chain=True).items()}
    model = bd.Model(
        bd.Hinge() if hinge else bd.Logistic(), rates=bd.PerFeature(bd.Beta(A, B)), C=C, weight_prior=bd.Normal(scale)
    )
    posterior = dataset(bd.sample(model, X, y, draws=5000, tune=500, seed=1, progress=False), "posterior")
    z = []
    for name in ("weight", "intercept", "rate"):
        here, there = np.asarray(posterior[name]), theirs[name]
        for j in range(2 if name != "intercept" else 1):
            pair = [part if part.ndim == 2 else part[..., j] for part in (here, there)]
            centre = pair[0].mean()
            for power in (1, 2):
                means, errors = zip(*(moment((part - centre) ** power) for part in pair), strict=True)
                z.append((means[0] - means[1]) / np.hypot(*errors))
    assert np.max(np.abs(z)) < stats.norm.isf(FALSE_ALARM / (2 * len(z))), z


AUGMENTED = {
    "logistic": (logistic, ["omega", "weight"], {"C": 1.4}),
    "svm": (svm, ["latent_scale", "weight"], {"C": 1.4}),
    "svr": (svr, ["above", "below", "weight"], {"C": 1.4, "epsilon": 0.3}),
    "quantile": (quantile, ["latent_scale", "weight"], {"C": 1.4, "tau": 0.8}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", AUGMENTED)
def test_conditionals_have_the_posterior_of_the_plain_program(name):
    """HMCGibbs of the augmented program with its conditionals, NUTS of the other; false-alarm rate 1e-4 a program."""
    module, sites, options = AUGMENTED[name]
    rng, rows = np.random.default_rng(9), jnp.asarray(X, jnp.float32)
    score = X @ [2.0, -1.0] + rng.logistic(size=24)
    y = jnp.asarray(score > 0, int) if name in ("logistic", "svm") else jnp.asarray(score, jnp.float32)
    kernels = (HMCGibbs(NUTS(module.augmented), module.conditionals(rows, y, **options), sites), NUTS(module.program))
    moments, centre = [], None
    for kernel in kernels:
        mcmc = MCMC(
            kernel, num_warmup=500, num_samples=4000, num_chains=4,
            chain_method="vectorized" if kernel is kernels[1] else jax.vmap, progress_bar=False,
        )  # fmt: skip
        mcmc.run(jax.random.key(0), rows, y, **options)
        drawn = {key: np.asarray(part, float) for key, part in mcmc.get_samples(group_by_chain=True).items()}
        values = np.concatenate([drawn["weight"], drawn["intercept"][..., None]], axis=2)
        centre = values.mean(axis=(0, 1)) if centre is None else centre
        both = np.concatenate([values, (values - centre) ** 2], axis=2)
        moments.append([moment(both[..., j]) for j in range(both.shape[2])])
    z = [(a[0] - b[0]) / np.hypot(a[1], b[1]) for a, b in zip(*moments, strict=True)]
    assert np.max(np.abs(z)) < stats.norm.isf(FALSE_ALARM / (2 * len(z))), z
