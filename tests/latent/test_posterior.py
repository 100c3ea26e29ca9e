"""Posterior of a hidden layer: the density is the program's, its gradient its own, and labels do not matter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import ndtr
from jax.scipy.stats import norm
from numpyro.infer.util import log_density
from scipy import sparse
from scipy.special import expit

import bayesdrop as bd
from bayesdrop.hmc.kernels.density import DensityOperands
from bayesdrop.latent.density import LatentDensity
from bayesdrop.latent.sampling import align_units
from bayesdrop.models import latent
from bayesdrop.posterior.arviz_groups.groups import dataset
from bayesdrop.priors.rate_prior import BetaLaw
from bayesdrop.sampling.matrix import samplers_matrix

N, P, K, CHAINS = 12, 4, 3, 5
C = 1.7
A, B = np.array([2.0, 1.0, 0.7, 3.0]), np.array([1.0, 2.0, 0.6, 1.0])


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.9, size=(N, P)).astype(float)
    X[2] = 0
    return X, np.where(rng.random(N) < 0.5, -1.0, 1.0), C * (1.0 + np.arange(N) % 3)


def operands_of(X, y, power, storage=np.asarray):
    parts = {
        "target": y,
        "row_weight": power,
        "loss_weight": C,
        "precision": np.full(P, 0.25),
        "fixed_rate": np.full(P, 0.5),
    }
    parts = {name: jnp.asarray(value) for name, value in parts.items()}
    index = jnp.arange(P, dtype=jnp.int32)
    matrix = samplers_matrix(storage(X), "float64", True)
    return DensityOperands(matrix=matrix, index=index, rate_prior=BetaLaw(jnp.asarray(A), jnp.asarray(B)), **parts)


@pytest.mark.default_cases("asarray")
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_density_is_the_program(storage):
    """Differences between points, to 1e-10 of the largest energy; a row of zeros, and rows of several weights.

    The program has 100 nodes about the mean of a score for the 15 about its mode.
    """
    X, y, power = problem()
    density = LatentDensity(bd.Logistic(), bd.Dropout(), K, P, True, P)
    operands = operands_of(X, y, power, storage)
    scale = np.array([0.1, 0.5, 1.0, 1.0, 2.0])[:, None]
    theta = jnp.asarray(scale * np.random.default_rng(1).normal(size=(CHAINS, density.size)))
    found = jax.jit(density.evaluate)(operands, theta)
    energy = np.asarray(jnp.sum(found.cost, axis=1) - found.prior)
    times = np.rint(power / C).astype(int)
    repeated = jnp.asarray(np.repeat(X, times, axis=0)), np.repeat(y, times) > 0
    arguments = (*repeated, K, C, jnp.asarray(A), jnp.asarray(B), 2.0, 100)
    names = {"hidden": "hidden_weight", "shift": "hidden_intercept", "output": "output_weight"}

    def log_joint(point):
        values = {names.get(name, name): part for name, part in density.split(point).items()}
        probit = values.pop("probit")  # the library's coordinate of a rate; its slope is the normal density
        found = log_density(latent.program, arguments, {"intercept_scale": None}, {**values, "rate": ndtr(probit)})[0]
        return found + jnp.sum(norm.logpdf(probit))

    with jax.numpy_rank_promotion("allow"):  # NumPyro's Beta needs it
        expected, slopes = jax.jit(jax.vmap(jax.value_and_grad(log_joint)))(theta)
    gap = energy + np.asarray(expected)
    assert np.ptp(energy) > 10
    np.testing.assert_allclose(gap, gap[0], rtol=0, atol=1e-10 * np.max(np.abs(energy)))
    np.testing.assert_allclose(-found.gradient, slopes, rtol=0, atol=1e-8 * np.max(np.abs(slopes)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "noise"),
    [
        (bd.Hinge(), bd.Dropout(unbiased=True)),
        (bd.EpsilonInsensitive(), bd.GaussianNoise(0.3)),
        (bd.Squared(variance=1.0), bd.Dropout()),
    ],
)
def test_moments_and_gradient_for_other_losses_and_noises(loss, noise):
    """Moments as the estimators have them, the gradient by autodiff of the value."""
    from bayesdrop.latent.objective.criteria import OneVersusRest
    from bayesdrop.latent.objective.energy import LatentEnergy, Parameters, blocks_of

    X, y, power = (part[3:] for part in problem())
    free = P if noise.has_rate else 0
    density = LatentDensity(loss, noise, K, P, True, free)
    operands = operands_of(X, y, power)
    theta = jnp.asarray(np.random.default_rng(1).normal(size=(2, density.size)))
    part = density.split(theta[0])
    mean, var = jax.jit(density.moments)(operands, part)
    rate = np.asarray(density.rates(operands, part["probit"]))
    energy = LatentEnergy(blocks_of(X, y[:, None], power, K), noise, rate, OneVersusRest(bd.Logistic()), np.ones(P))
    parameters = Parameters(
        np.vstack([part["hidden"].T, part["shift"]]), np.append(part["output"], part["intercept"])[:, None]
    )
    expected = energy.scores(energy.blocks[0], parameters)
    np.testing.assert_allclose(mean, expected[0][:, 0], rtol=1e-10)
    np.testing.assert_allclose(var, expected[1][:, 0], rtol=1e-10)

    def value(point):
        parts = density.split(point)
        moments = density.moments(operands, parts)
        each = loss.score_cost(operands.target, *moments, jnp.full(len(y), C)).value
        return jnp.sum(operands.row_weight / C * each) - density.log_prior(operands, parts)

    slopes = jax.jit(jax.vmap(jax.grad(value)))(theta)
    found = jax.jit(density.evaluate)(operands, theta)
    np.testing.assert_allclose(found.gradient, slopes, rtol=0, atol=1e-9 * np.max(np.abs(slopes)))


def scrambled(rng, draws=40):
    """Draws near one predictor, their units permuted and turned at random."""
    base, out = rng.normal(size=(K, P)), np.array([1.0, -2.0, 3.0])
    hidden = np.repeat(base[None], draws, axis=0) + 0.05 * rng.normal(size=(draws, K, P))
    shift, output = 0.05 * rng.normal(size=(draws, K)) + [0.5, -0.5, 0.1], out + 0.05 * rng.normal(size=(draws, K))
    intercept = rng.normal(size=draws)
    mixed = [part.copy() for part in (hidden, shift, output, intercept)]
    for s in range(draws):
        order, sign = rng.permutation(K), rng.choice([-1.0, 1.0], K)
        mixed[3][s] += output[s][order][sign < 0].sum()
        for j, part in enumerate((hidden, shift, output)):
            mixed[j][s] = (part[s][order].T * sign).T
    return (hidden, shift, output, intercept), mixed


def test_alignment_undoes_permutations_and_turns_and_keeps_the_function():
    rng = np.random.default_rng(0)
    plain, mixed = scrambled(rng)
    found = align_units(*mixed)
    X = rng.normal(size=(7, P))

    def scores(hidden, shift, output, intercept):
        unit = expit(np.einsum("np,skp->snk", X, hidden) + shift[:, None])
        return np.einsum("snk,sk->sn", unit, output) + intercept[:, None]

    np.testing.assert_allclose(scores(*found), scores(*mixed), rtol=1e-10)
    # Up to one relabelling of all draws together, the draws are as near each other as before.
    np.testing.assert_allclose(np.sort(found[2].std(axis=0)), np.sort(plain[2].std(axis=0)), rtol=1e-10)
    assert np.max(found[0].std(axis=0)) < 0.1
    assert np.max(mixed[0].std(axis=0)) > 0.5


@pytest.mark.slow
def test_density_does_not_depend_on_labels():
    """A permuted and turned draw has the same energy: the symmetry that alignment uses holds."""
    rng = np.random.default_rng(0)
    plain, mixed = scrambled(rng)
    X, y, power = problem()
    density, operands = LatentDensity(bd.Logistic(), bd.Dropout(), K, P, True, P), operands_of(X, y, power)
    probit = rng.normal(size=(40, P))
    evaluate = jax.jit(density.evaluate)

    def energy(hidden, shift, output, intercept):
        parts = (hidden.reshape(40, -1), output, shift, intercept[:, None], probit)
        found = evaluate(operands, jnp.asarray(np.concatenate(parts, axis=1)))
        return np.sum(found.cost, axis=1) - found.prior

    np.testing.assert_allclose(energy(*mixed), energy(*plain), rtol=1e-10)


def nonlinear(n=150):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0, "up", "down")


def test_posterior_in_arviz():
    X, y = nonlinear(60)
    with (
        pytest.warns(UserWarning, match="chains"),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        post = bd.sample_latent(
            bd.Model(rates=bd.PerGroup(["a", "a", "b"])), sparse.csr_array(X), y, n_hidden=2, draws=20, tune=20,
            chains=2, progress=False, feature_names=["u", "v", "w"],
        )  # fmt: skip
    group = dataset(post, "posterior")
    assert group["hidden_weight"].dims == ("chain", "draw", "hidden", "feature")
    assert list(group["feature"].values) == ["u", "v", "w"]
    assert group["rate"].dims == ("chain", "draw", "group")
    assert bool(((group["rate"] > 0) & (group["rate"] < 1)).all())
    assert "hidden layer" in str(dataset(post, "posterior").attrs["approximation"])
    assert post.attrs["complete"] == 1


def test_other_priors_and_methods_are_refused():
    X, y = nonlinear(20)
    with pytest.raises(ValueError, match="normal weight priors"):
        bd.sample_latent(bd.Model(weight_prior=bd.Horseshoe()), X, y)
    with pytest.raises(TypeError, match="NUTS"):
        bd.sample_latent(bd.Model(), X, y, method=bd.HMC())
