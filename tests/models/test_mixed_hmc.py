"""The masks of a program under NumPyro's MixedHMC (Zhou 2020), which moves them within its trajectories."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import HMC, MCMC, NUTS, MixedHMC

from bayesdrop.models import feature_noising

N = 8
X = np.random.default_rng(2).normal(size=(N, 2))
Y = (X[:, 0] > 0).astype(int)
CHAINS, LIMIT = 32, 7.0


@pytest.fixture(autouse=True)
def _numpyro_promotion():
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def drawn(kernel, draws):
    mcmc = MCMC(
        kernel, num_warmup=300, num_samples=draws, num_chains=CHAINS, progress_bar=False, chain_method=jax.vmap
    )  # fmt: skip
    mcmc.run(jax.random.key(0), jnp.asarray(X), jnp.asarray(Y))
    return {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")  # NumPyro's own, under vmap
def test_its_means_are_those_with_all_masks_summed():
    """Against NUTS on the enumerated program; five means of 32 chains each are allowed 7 standard errors.

    By Student's t with 31 degrees of freedom a correct sampler fails with probability 4e-7.
    """
    mixed = drawn(MixedHMC(HMC(feature_noising.program, trajectory_length=1.2), num_discrete_updates=16), 1000)
    plain = drawn(NUTS(feature_noising.enumerated), 500)
    assert mixed["kept"].shape == (CHAINS, 1000, N, 2)
    assert set(np.unique(mixed["kept"])) == {0, 1}
    for name in ("weight", "rate", "intercept"):
        ours, theirs = (found[name].mean(axis=1) for found in (mixed, plain))
        error = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / CHAINS)
        assert np.max(np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / error) < LIMIT
