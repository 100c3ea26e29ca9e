"""Split Hamiltonian Monte Carlo: the trajectory, the posteriors it draws from, and where it starts.

False-alarm rate: each statistic is allowed 5 standard errors (5.7e-7 each under normality); fewer than 100 of them are
compared, so a correct sampler fails with probability below 1e-4.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import expit, ndtr

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_design
from bayesdrop.hmc import method as hmc_method
from bayesdrop.hmc.approximations import normal as laplace
from bayesdrop.hmc.approximations.choices import CHOICES, Limits
from bayesdrop.hmc.approximations.normal import Rules, normal_approximation, score_spread
from bayesdrop.hmc.kernels.factors import unwhiten
from bayesdrop.losses import EpsilonInsensitive, Hinge, Logistic, Quantile, Squared
from bayesdrop.sampling.run.runner import as_key, run
from bayesdrop.warnings import ApproximationWarning, MixingWarning

LIMIT = 5.0
SINGLE, DOUBLE = bd.HMC(), bd.HMC(dtype="float64")
WEIGHTS = np.array([2.0, 1.0, 0.5] * 4)


def problem(n=12, p=2, seed=0, binary=True):
    """Small data with zeros in them."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, p))
    X[generator.random((n, p)) < 0.2] = 0.0
    score = X @ np.linspace(2, -1, p) + generator.normal(size=n)
    y = np.where(score > 0, 1, -1)
    y[:2] = 1, -1
    return X, y if binary else score


def bind(model, method=DOUBLE, X=None, y=None, tune=0, marginalised=True, sample_weight=None):
    """Kernel and operands; call it under the precision of the method."""
    if X is None:
        X, y = problem(binary=model.loss.binary)
    data = as_dataset(X, y, sample_weight, None, model.loss.binary).with_weight()
    return method.bind(model, data, model.bind(data.feature_names), tune, marginalised=marginalised)


def sampled(model, method=DOUBLE, *, tune=20, draws=30, chains=3, seed=0, **options):
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = bind(model, method, tune=tune, **options)
        return run(kernel, operands, as_key(seed), tune=tune, draws=draws, chains=chains, progress=False)


# The trajectory.

MOVED = {
    "logistic": (bd.Model(rates=bd.Fixed(0.0), C=2.0), True),
    "dropout": (bd.Model(rates=bd.Fixed([0.4, 0.2]), C=2.0), True),
    "rates": (bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)), C=2.0), False),
    "hinge": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.0), C=2.0), True),
}


@cache
def compiled(name):
    """Kernel and operands, and the kernel's beginning and its step, each compiled once for a number of chains."""
    model, marginalised = MOVED[name]
    kernel, operands = bind(model, marginalised=marginalised)
    return kernel, operands, jax.jit(kernel.init, static_argnums=2), jax.jit(kernel.step)


@cache
def moving(name, chains):
    """``start``, and a trajectory of it, compiled once."""
    kernel, operands, state, momentum = start(name, chains)
    return kernel, operands, state, momentum, jax.jit(partial(kernel.trajectory, operands))


def total(evaluation, momentum):
    """Total energy (C,)."""
    prior, kinetic = np.asarray(evaluation.prior), 0.5 * np.sum(np.asarray(momentum) ** 2, axis=1)
    return np.sum(np.asarray(evaluation.cost), axis=1) - prior + kinetic


def start(name, chains, stretch=1.5):
    """A state whose metric fits badly, so that the remainder is no small one."""
    kernel, operands, init, _ = compiled(name)
    rng = np.random.default_rng(1)
    D = len(operands.centre)
    factor = operands.factor @ jnp.asarray(np.eye(D) * stretch + 0.2 * rng.normal(size=(D, D)))
    operands = operands._replace(centre=operands.centre + 0.3, factor=factor)
    state = init(operands, jax.random.key(0), chains)
    return kernel, operands, state, jnp.asarray(rng.normal(size=(chains, D)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rates", "hinge", "logistic", "dropout"])
def test_trajectory_is_reversible(name):
    with jax.enable_x64(True):
        _, _, state, momentum, move = moving(name, 200)
        angle, n_leapfrog_steps = jnp.asarray(0.3), jnp.int32(4)
        z, r, evaluation = move(state, momentum, angle, n_leapfrog_steps)
        back, r_back, _ = move(state._replace(position=z, evaluation=evaluation), -r, angle, n_leapfrog_steps)
    assert np.mean(np.abs(np.asarray(z) - np.asarray(state.position)) > 0.1) > 0.8
    np.testing.assert_allclose(back, state.position, atol=1e-8)
    np.testing.assert_allclose(r_back, -np.asarray(momentum), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rates", "hinge", "logistic"])
def test_trajectory_keeps_volume(name):
    """The Jacobian of (position, momentum) has determinant 1, and is no orthogonal matrix."""
    with jax.enable_x64(True):
        kernel, operands, state, momentum = start(name, 1)
        D = momentum.shape[1]

        def move(point):
            z, r = point[None, :D], point[None, D:]
            evaluation = kernel.density.evaluate(operands.density, unwhiten(state.centre, state.factor, z))
            z, r, _ = kernel.trajectory(operands, state._replace(position=z, evaluation=evaluation), r, 0.5, 3)
            return jnp.concatenate([z[0], r[0]])

        jacobian = np.asarray(jax.jit(jax.jacrev(move))(jnp.concatenate([state.position[0], momentum[0]])))
    assert np.linalg.det(jacobian) == pytest.approx(1.0, abs=1e-10)
    assert np.max(np.abs(jacobian @ jacobian.T - np.eye(2 * D))) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rates", "logistic", "dropout"])
def test_energy_error_is_of_second_order(name):
    """Half the angle and twice the steps divide the error of the total energy by four, up to terms of fourth order.

    With rates the slopes are those of 15 constant nodes, which leave an error of .001 at any angle.
    """
    errors = []
    with jax.enable_x64(True):
        _, _, state, momentum, move = moving(name, 200)
        for n_leapfrog_steps in (5, 10):
            _, r, evaluation = move(state, momentum, jnp.asarray(1.0 / n_leapfrog_steps), jnp.int32(n_leapfrog_steps))
            errors.append(total(evaluation, r) - total(state.evaluation, momentum))
    rms = [np.sqrt(np.mean(error**2)) for error in errors]
    assert rms[0] > 1e-8
    assert rms[0] / rms[1] == pytest.approx(4, rel=0.05)


@pytest.mark.slow
def test_acceptance_and_energy_are_those_of_the_trajectory():
    """Recomputed from the state's key: probability, total energy at the end, and which chains stay."""
    with jax.enable_x64(True):
        _, operands, state, _, move = moving("rates", 200)
        kernel = compiled("rates")[0]
        after, _ = jax.jit(replace(kernel, options=bd.HMC(n_leapfrog_steps=1)).step)(operands, state)
        _, key, _, _ = jax.random.split(state.key, 4)
        momentum = jax.random.normal(key, state.position.shape)
        z, r, new = move(state, momentum, after.angle, after.n_leapfrog_steps)
    before, behind = total(state.evaluation, momentum), total(new, r)
    np.testing.assert_allclose(after.acceptance, np.minimum(1, np.exp(before - behind)), rtol=1e-10)
    z, position = np.asarray(z), np.asarray(state.position)
    moved = np.any(np.asarray(after.position) != position, axis=1)
    assert 0.05 < np.mean(~moved) < 0.9
    np.testing.assert_allclose(after.energy, np.where(moved, behind, before), rtol=1e-12)
    np.testing.assert_allclose(after.position, np.where(moved[:, None], z, position), rtol=1e-12, atol=1e-14)
    # The number of acceptances is a sum of independent trials; false-alarm rate 6e-7.
    chance = np.asarray(after.acceptance)
    assert abs(np.sum(moved) - np.sum(chance)) < LIMIT * np.sqrt(np.sum(chance * (1 - chance)))


@pytest.mark.slow
def test_a_trajectory_out_of_bounds_is_rejected_and_reported():
    with jax.enable_x64(True):
        _, operands, state, _ = start("rates", 200, stretch=1e6)
        kernel = compiled("rates")[0]
        after, _ = jax.jit(replace(kernel, options=bd.HMC(n_leapfrog_steps=3)).step)(operands, state)
    after, state = (tree._replace(key=None) for tree in (after, state))
    assert np.any(after.diverging)
    stayed = np.asarray(after.diverging)
    np.testing.assert_array_equal(np.asarray(after.position)[stayed], np.asarray(state.position)[stayed])
    assert np.all(np.isfinite(after.evaluation.gradient))


def closed_form(model, X, y, rate, weight):
    """Mean and covariance under squared loss: ``Q = P + C(MᵀSM + diag q)``, mean ``C Q⁻¹MᵀSy``."""
    n, p = X.shape
    gain, _, quadratic, _, _ = model.noise.coefficients(rate)
    M = np.column_stack([X * gain, np.ones(n)])
    Q = model.C * (M.T * weight) @ M
    Q[range(p), range(p)] += model.weight_prior.precision(p) + model.C * quadratic * (weight @ X**2)
    return np.linalg.solve(Q, model.C * M.T @ (weight * y)), np.linalg.inv(Q)


def check_moments(result, mean, covariance):
    """First and second moments of 64 chains."""
    theta = np.concatenate([result.draws["weight"], result.draws["intercept"][..., None]], axis=2).astype(float) - mean
    products = np.stack([theta[..., i] * theta[..., j] for i in range(3) for j in range(i + 1)], axis=2)
    expected = [np.zeros(3), np.array([covariance[i, j] for i in range(3) for j in range(i + 1)])]
    for values, exact in zip((theta, products), expected, strict=True):
        chain = values.mean(axis=1)
        assert np.all(np.abs(chain.mean(axis=0) - exact) < LIMIT * chain.std(axis=0, ddof=1) / np.sqrt(64))


RIDGE = bd.Model(Squared(variance=1.0), rates=bd.Fixed([0.3, 0.6]), C=2.0, weight_prior=bd.Normal([0.5, 2.0]))


@pytest.mark.slow
def test_squared_loss_is_the_exact_limit():
    """No remainder, no rejection: the posterior is the approximation. Eight statistics of 6,400 draws."""
    X, y = problem(binary=False)
    result = sampled(RIDGE, tune=0, draws=100, chains=64, sample_weight=WEIGHTS)
    mean, covariance = closed_form(RIDGE, X, y, np.array([0.3, 0.6]), WEIGHTS)
    assert np.min(result.draws["acceptance_rate"]) > 1 - 1e-9
    assert np.all(result.draws["n_steps"] == 2)
    np.testing.assert_allclose(result.state.centre, mean, atol=1e-8)
    factor = np.asarray(result.state.factor)
    np.testing.assert_allclose(factor @ factor.T, covariance, rtol=1e-8, atol=1e-12)
    check_moments(result, mean, covariance)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "accuracy"), [(DOUBLE, 1e-9), (SINGLE, 1e-4)])
def test_a_normal_posterior_is_left_as_it_is(method, accuracy):
    """The warm-up has no pilots to spoil the exact metric, so that nothing is ever rejected.

    In single precision the energies, up to 100 a row in 12 rows, are rounded by 7e-5.
    """
    X, y = problem(binary=False)
    result = sampled(RIDGE, method, tune=60, draws=100, chains=16, sample_weight=WEIGHTS, X=X, y=y)
    assert np.min(result.draws["acceptance_rate"]) > 1 - accuracy
    assert np.all(result.draws["n_steps"] == 1)
    mean, _ = closed_form(RIDGE, X, y, np.array([0.3, 0.6]), WEIGHTS)
    np.testing.assert_allclose(result.state.centre, mean, rtol=1e-5)


@pytest.mark.parametrize(
    ("model", "marginalised", "normal"),
    [
        (bd.Model(Squared(variance=1.0), rates=bd.Fixed(0.3)), True, True),
        pytest.param(bd.Model(Squared(variance=1.0), rates=bd.Fixed(0.0)), False, True, marks=pytest.mark.slow),
        pytest.param(bd.Model(Squared(variance=1.0), rates=bd.Fixed(0.3)), False, False, marks=pytest.mark.slow),
        (bd.Model(Squared(variance=1.0)), False, False),
        pytest.param(bd.Model(Hinge(), rates=bd.Fixed(0.3)), True, False, marks=pytest.mark.slow),
        (bd.Model(Logistic(), rates=bd.Fixed(0.3)), True, False),
    ],
    ids=repr,
)
def test_which_posteriors_are_normal(model, marginalised, normal):
    """Where the gradient is linear."""
    with jax.enable_x64(True):
        kernel, operands = bind(model, marginalised=marginalised)
        theta = jnp.asarray(np.random.default_rng(0).normal(size=(2, len(operands.centre))))
        gradient = jax.jit(lambda theta: kernel.density.evaluate(operands.density, theta).gradient)
        low, middle, high = (np.asarray(gradient(scale * theta)) for scale in (0.5, 1.0, 1.5))
    assert kernel.density.is_normal == normal
    assert (np.max(np.abs(high - 2 * middle + low)) < 1e-10) == normal


# Posteriors.


def statistics(weight, intercept):
    """First and second moments and products; (draws, q)."""
    return np.concatenate(
        [weight, weight**2, intercept[:, None], intercept[:, None] ** 2, weight[:, :1] * weight], axis=1
    )


def energy(model, X, y, row_weight, weight, intercept, rate):
    """``U`` of draws (m, p) with rates (p,), by the formula; (m,)."""
    gain, shift, quadratic, linear, constant = model.noise.coefficients(rate)
    square = weight**2
    mean = (weight * gain) @ X.T + (weight @ shift + intercept)[:, None]
    var = (square * quadratic) @ (X**2).T + (square * linear) @ X.T + (square @ constant)[:, None]
    loss = model.loss.value(np.broadcast_to(y.astype(float), mean.shape), mean, var)
    return 0.5 * square @ model.weight_prior.precision(X.shape[1]) + model.C * loss @ row_weight


def quadrature(model, X, y, row_weight, offset, fine):
    """Posterior means of ``statistics`` by the trapezoid rule, ±12 deviations, which a coarse and wide grid finds."""
    data = as_dataset(X, y, row_weight, None, model.loss.binary).with_weight()
    rate = model.bind(data.feature_names).initial
    centre, factor = normal_approximation(model, data, rate)
    p = X.shape[1]
    for half, step in ((20, 1.0), (50, 0.24) if fine else (33, 0.36)):
        axis = step * (np.arange(-half, half + 1) + offset)
        z = np.stack(np.meshgrid(*[axis] * len(centre), indexing="ij"), axis=-1).reshape(-1, len(centre))
        theta = centre + z @ factor.T
        weight, intercept = theta[:, :p], theta[:, p] if model.fit_intercept else np.zeros(len(theta))
        log = np.concatenate([
            -energy(model, X, data.target, data.weight, w, b, rate)
            for w, b in zip(np.array_split(weight, 40), np.array_split(intercept, 40), strict=True)
        ])  # fmt: skip
        share = np.exp(log - log.max())
        share /= share.sum()
        centre = share @ theta
        factor = np.linalg.cholesky((theta - centre).T @ (share[:, None] * (theta - centre)))
    edge = np.any(np.abs(z) > (half - 1) * step, axis=1)
    assert share[edge].sum() < 1e-6, share[edge].sum()
    return share @ statistics(weight, intercept)


def compare(model, method, row_weight=None, *, data=None, chains=64, tune=200, draws=400):
    """Means of the chains against quadrature."""
    X, y = problem(binary=model.loss.binary) if data is None else data
    weight = np.ones(len(y)) if row_weight is None else row_weight
    result = sampled(model, method, X=X, y=y, sample_weight=row_weight, tune=tune, draws=draws, chains=chains)
    drawn = {
        name: value.astype(float).reshape(chains * draws, *value.shape[2:]) for name, value in result.draws.items()
    }
    values = statistics(drawn["weight"], drawn.get("intercept", np.zeros(chains * draws))).reshape(chains, draws, -1)
    mean, error = values.mean(axis=(0, 1)), values.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(chains)
    exact, other = (quadrature(model, X, y, weight, offset, draws > 400) for offset in (0.0, 0.5))
    exact_error = np.abs(exact - other)
    # Kinks are all that the rule can miss, and both grids miss them alike: a tenth of a standard error at most.
    assert np.all(exact_error[error > 0] < 0.1 * error[error > 0])
    np.testing.assert_array_equal(mean[error == 0], exact[error == 0])  # an absent intercept is 0 in both
    z = (mean - exact)[error > 0] / np.hypot(error, exact_error)[error > 0]
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)
    return result


NO_NOISE, DROPOUT = bd.Fixed(0.0), bd.Fixed(0.4)
# Densities of other losses and noises are held to the programs by tests/laws/conditionals/test_density.py, and masks to
# sums over all of them by tests/laws/test_normal_scores.py.
EXACT = {
    "hinge": (bd.Model(Hinge(), rates=NO_NOISE, C=1.5), SINGLE, WEIGHTS),
    "logistic, dropout": (bd.Model(Logistic(), rates=DROPOUT, C=2.5), DOUBLE, WEIGHTS),
    "logistic, no intercept": (bd.Model(Logistic(), rates=NO_NOISE, fit_intercept=False), SINGLE, None),
    "logistic, Gaussian noise": (bd.Model(Logistic(), bd.GaussianNoise(0.7), C=2.0), SINGLE, WEIGHTS),
    "quantile, dropout": (bd.Model(Quantile(0.8, 1.0, expectation="gaussian"), rates=DROPOUT, C=3.0), DOUBLE, None),
}


@pytest.mark.default_cases("hinge")
@pytest.mark.parametrize("name", EXACT)
def test_posterior_means_are_exact(name):
    result = compare(*EXACT[name], **({} if name == "hinge" else {"tune": 300, "draws": 1500}))
    assert name == "hinge" or np.mean(result.draws["acceptance_rate"]) > 0.6


def on_a_kink():
    """Counts with rows of zeros, which Poisson noise leaves alone: the fit's intercept lies on the kink of those."""
    counts = np.random.default_rng(1).poisson(1.0, size=(6, 2)).astype(float)
    return np.concatenate([np.zeros((6, 2)), counts]), np.array([1, 1, 1, 1, -1, -1, 1, -1, 1, -1, 1, -1])


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["augmentation", "gaussian"])
def test_a_fit_on_a_kink_has_its_posterior(bound):
    model, (X, y) = bd.Model(Hinge(expectation=bound), bd.PoissonNoise(), C=3.0), on_a_kink()
    fit = bd.fit(model, X, y)
    assert abs(1 - fit.intercept) < 1e-3
    result = compare(model, SINGLE, data=(X, y), tune=300, draws=1000)
    drawn = np.stack([*np.moveaxis(result.draws["weight"], 2, 0), result.draws["intercept"]]).reshape(3, -1)
    data = as_dataset(X, y)
    mean, factor = normal_approximation(model, data, np.zeros(2))
    ratio = np.sqrt(np.sum(factor**2, axis=1)) / drawn.std(axis=1)
    assert np.max(np.abs(np.log(ratio))) < np.log(1.5)
    assert np.max(np.abs(mean - drawn.mean(axis=1)) / drawn.std(axis=1)) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [bd.Model(Logistic(), rates=NO_NOISE, C=1.5), bd.Model(Hinge(), rates=DROPOUT, C=1.5)], ids=repr
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nuts_draws_from_the_same_posteriors(model, dtype):
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        compare(model, bd.NUTS(dtype=dtype), WEIGHTS, tune=300, draws=500)


# Geweke's joint test (2004): parameters and labels are drawn from the model; then the sampler's step at a fixed, badly
# fitting metric and a fresh draw of the labels alternate. Both keep the joint law, so a plain two-sample test of
# independent replicates compares it before and after. It applies where the likelihood is normalised: the logistic loss
# with C = 1, plain or with masks integrated, where a label is +1 with the probability E σ(s) of the 15 nodes. Nine
# statistics a case; false-alarm rate 2e-5 a case.

GEWEKE = stats.norm.isf(2e-5 / 2 / 9)
REPLICATES, STEPS = 40_000, 10
JOINT = {
    "plain": bd.Model(rates=NO_NOISE, fit_intercept=False),
    "rates": bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)), fit_intercept=False),
    "groups, unbiased": bd.Model(
        noise=bd.Dropout(unbiased=True), rates=bd.PerGroup([0, 1, 0], bd.Beta(2, 3)), fit_intercept=False
    ),
}


def worst(name):
    """Largest |z| of the joint test."""
    model = JOINT[name]
    X, y = problem(n=10, p=3)
    with jax.enable_x64(True):
        kernel, operands = bind(
            model, bd.HMC(n_leapfrog_steps=2, dtype="float64"), 1.5 * X, y, marginalised=name == "plain"
        )
        D = len(operands.centre)
        factor = 0.8 * np.eye(D) + 0.1 * np.random.default_rng(0).normal(size=(D, D))
        operands = operands._replace(centre=jnp.full(D, 0.1), factor=jnp.asarray(factor))

        def labels(key, theta):
            """Each +1 with the probability that the density itself gives it."""
            mean, *var = kernel.density.moments(operands.density, theta)
            plus = operands.density._replace(target=jnp.ones(len(y)))
            log_chance = -kernel.density.cost(plus, mean, var[0] if var else jnp.zeros_like(mean))[0][0]
            return jnp.where(jnp.log(jax.random.uniform(key, (len(y),))) < log_chance, 1.0, -1.0)

        def relabelled(state, sign):
            data = operands._replace(density=operands.density._replace(target=sign))
            theta = unwhiten(state.centre, state.factor, state.position)
            return data, state._replace(evaluation=kernel.density.evaluate(data.density, theta))

        def one(key, steps):
            keys = jax.random.split(key, 5)
            weight = jax.random.normal(keys[0], (3,))
            rate = jax.random.beta(keys[1], 2.0, 3.0, (kernel.density.free,))
            theta = jnp.concatenate([weight, jax.scipy.special.ndtri(rate)])
            state = kernel.init(operands, keys[2], 1)
            state = state._replace(position=jnp.linalg.solve(state.factor, theta - state.centre)[None])
            sign = labels(keys[3], theta[None])

            def body(carry, key):
                state, sign = carry
                data, state = relabelled(state, sign)
                state, _ = kernel.step(data, state)
                return (state, labels(key, unwhiten(state.centre, state.factor, state.position))), None

            (state, sign), _ = jax.lax.scan(body, (state, sign), jax.random.split(keys[4], steps))
            theta = unwhiten(state.centre, state.factor, state.position)[0]
            score = jnp.asarray(1.5 * X) @ theta[:3]
            rate = jax.nn.sigmoid(kernel.density.logit_rates(theta[None]))[0] if kernel.density.free else jnp.zeros(2)
            return jnp.stack([
                theta[0], theta[0] ** 2, theta[2] ** 2, theta[0] * theta[1],
                rate[0], rate[0] ** 2, rate[-1], rate[0] * theta[0] ** 2, jnp.mean(sign * score),
            ])  # fmt: skip

        many = jax.jit(jax.vmap(one, (0, None)), static_argnums=1)
        after = np.asarray(many(jax.random.split(jax.random.key(1), REPLICATES), STEPS))
        before = np.asarray(many(jax.random.split(jax.random.key(2), 4 * REPLICATES), 0))
    scale = np.sqrt(after.var(axis=0) / len(after) + before.var(axis=0) / len(before))
    moving = scale > 0
    return np.max(np.abs((after.mean(axis=0) - before.mean(axis=0))[moving] / scale[moving]))


@pytest.mark.slow
@pytest.mark.parametrize("name", JOINT)
def test_joint_distribution_is_kept(name):
    assert worst(name) < GEWEKE


# The normal approximation.

LAPLACE = [
    bd.Model(Logistic(), rates=NO_NOISE, C=2.0),
    *(
        pytest.param(bd.Model(Logistic(expectation=form), rates=bd.Fixed([0.4, 0.1, 0.7])), marks=pytest.mark.slow)
        for form in ("augmentation", "gaussian")
    ),
    bd.Model(Logistic(expectation="taylor"), bd.MultiplicativeNoise(0.3)),
    bd.Model(Squared(variance=1.0), rates=DROPOUT),
]


def data_of(model):
    X, y = problem(n=40, p=3, seed=3, binary=model.loss.binary)
    return as_dataset(X, y, np.tile([2.0, 1.0, 0.5, 1.0], 10), None, model.loss.binary).with_weight()


def approximation(model, dense=True, **options):
    data = data_of(model)
    rate = model.bind(data.feature_names).initial
    return normal_approximation(model, data, rate, dense=dense, **options), data, rate


def hessian(model, point):
    """Of the density that is sampled, by autodiff of its value."""
    with jax.enable_x64(True):
        kernel, operands = DOUBLE.bind(model, data_of(model), model.bind(["x0", "x1", "x2"]), 0, marginalised=True)

        def value(theta):
            found = kernel.density.evaluate(operands.density, theta[None])
            return jnp.sum(found.cost) - found.prior[0]

        return np.asarray(jax.jit(jax.jacrev(jax.grad(value)))(jnp.asarray(point)))


@pytest.mark.parametrize("model", LAPLACE, ids=lambda model: f"{model.loss}, {model.noise}")
def test_approximation_is_the_fit_and_its_curvature(model, monkeypatch):
    """A diagonal one has the same mean, and the Hessian's diagonal, within a factor of three where there is noise."""
    (mean, factor), data, rate = approximation(model)
    fit = bd.fit(model, data.X, data.target, sample_weight=data.weight, method=bd.Newton(tol=1e-9))
    np.testing.assert_allclose(mean, np.append(fit.weight, [fit.intercept] if model.fit_intercept else []), atol=1e-12)
    curvature = hessian(model, mean)
    np.testing.assert_allclose(factor @ factor.T @ curvature, np.eye(len(mean)), atol=1e-6)
    (centre, deviation), _, _ = approximation(model, dense=False)
    np.testing.assert_array_equal(centre, mean)
    ratio = deviation**2 * np.diag(curvature)
    exact = isinstance(model.loss, Squared) or (model.noise.has_rate and not np.any(rate))
    assert np.max(np.abs(np.log(ratio))) < (1e-6 if exact else np.log(3))


KINKED = [
    bd.Model(Hinge(), rates=NO_NOISE, C=2.0),
    bd.Model(Hinge(0.5), rates=NO_NOISE, fit_intercept=False),
    bd.Model(EpsilonInsensitive(0.2), rates=NO_NOISE, C=3.0, weight_prior=bd.Normal([0.5, 1.0, 3.0])),
    bd.Model(Quantile(0.8, 1.0), rates=NO_NOISE, C=3.0),
]


def expected_slope(model, data, mean, covariance):
    """``E ∇U`` and ``E ∇²U`` under the normal law, in closed form for a piecewise linear loss."""
    X = np.column_stack([data.X, np.ones(len(data.target))]) if model.fit_intercept else data.X
    precision = np.append(model.weight_prior.precision(3), [0.0] if model.fit_intercept else [])
    score, sd = X @ mean, np.sqrt(np.sum((X @ covariance) * X, axis=1))
    # Slope of the loss where the score is below, between and above its kinks.
    y = data.target
    if model.loss.binary:
        kinks = [(y * model.loss.margin, np.ones_like(y))]
        first = np.where(y > 0, -1.0, 0.0)
    elif isinstance(model.loss, Quantile):
        kinks, first = [(y, np.ones_like(y))], np.full_like(y, -model.loss.tau)
    else:
        kinks = [(y - model.loss.epsilon, np.ones_like(y)), (y + model.loss.epsilon, np.ones_like(y))]
        first = -np.ones_like(y)
    slope, bend = first, np.zeros_like(y)
    for place, jump in kinks:
        z = (score - place) / sd
        slope, bend = slope + jump * ndtr(z), bend + jump * stats.norm.pdf(z) / sd
    weight = model.C * data.weight
    return precision * mean + X.T @ (weight * slope), np.diag(precision) + (X.T * (weight * bend)) @ X


@pytest.mark.parametrize("model", KINKED, ids=lambda model: f"{model.loss}")
def test_approximation_of_a_kinked_posterior_is_a_fixed_point(model):
    """``E ∇U = 0`` and ``Σ⁻¹ = E ∇²U``: roughly as shipped (a tenth of a deviation), fully if it may go on."""
    (mean, factor), data, _ = approximation(model)
    slope, _ = expected_slope(model, data, mean, factor @ factor.T)
    assert np.linalg.norm(factor.T @ slope) < 0.1
    (mean, factor), data, _ = approximation(model, rules=Rules(steps=200, tolerance=0.0))
    slope, curvature = expected_slope(model, data, mean, factor @ factor.T)
    np.testing.assert_allclose(factor.T @ slope, 0, atol=1e-6)
    np.testing.assert_allclose(factor @ factor.T @ curvature, np.eye(len(mean)), atol=1e-6)


# Losses, mean responses, scales of a column and prior standard deviations.
COUNTED = [
    (bd.NegativeBinomial(19.0), 0.6, 10.0, 10.0), (bd.NegativeBinomial(0.5), 50.0, 1000.0, 50.0),
    (bd.Poisson(), 0.1, 1e-3, 2.5), (bd.Poisson(), 300.0, 1000.0, 50.0),
    (bd.Binomial(12), 0.4, 10.0, 10.0), (bd.Binomial(12), 11.0, 1e-3, 2.5),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "mean_response", "scale", "prior"), COUNTED, ids=lambda part: str(part))
def test_averaged_approximation_is_a_fixed_point_on_any_scale(loss, mean_response, scale, prior):
    """As of a kinked posterior, by a Gauss–Hermite rule, where scores of 0 are far from the responses."""
    generator = np.random.default_rng(5)
    groups = np.eye(8)[np.arange(80) % 8]
    X = np.column_stack([scale * (5 + generator.normal(size=80)), generator.normal(size=80), groups])
    X -= X.mean(axis=0)
    many = float(loss.trials) if isinstance(loss, bd.Binomial) else np.inf
    y = np.minimum(generator.poisson(mean_response * np.exp(0.3 * X[:, 1])), many)
    sd = np.append([prior / scale, prior], np.full(8, 3.0))
    model = bd.Model(loss, rates=NO_NOISE, weight_prior=bd.Normal(sd))
    data, rows, precision = as_dataset(X, y, None, None, False).with_weight(), np.ones((80, 11)), np.append(sd**-2, 0.0)
    rows[:, :10] = X
    node, share = np.polynomial.hermite_e.hermegauss(60)
    share = share / share.sum()
    for accuracy, rules in ((0.1, Rules()), (1e-5, Rules(steps=100, tolerance=0.0))):
        mean, factor = normal_approximation(model, data, np.zeros(10), averaged=True, rules=rules)
        score = (rows @ mean)[:, None] + np.linalg.norm(rows @ factor, axis=1)[:, None] * node
        if isinstance(loss, bd.Poisson):
            slope, bend = np.exp(score) - y[:, None], np.exp(score)
        else:
            trials = loss.trials if isinstance(loss, bd.Binomial) else (y + loss.dispersion)[:, None]
            chance = expit(score)
            slope, bend = trials * chance - y[:, None], trials * chance * (1 - chance)
        slope = precision * mean + rows.T @ (slope @ share)
        assert np.linalg.norm(factor.T @ slope) < accuracy
    curvature = np.diag(precision) + (rows.T * (bend @ share)) @ rows
    np.testing.assert_allclose(factor.T @ curvature @ factor, np.eye(11), atol=1e-5)


def _wide_counts(size, n=30, p=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return size * X, rng.poisson(np.exp(0.5 * X[:, 0])).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("rates", [bd.Fixed(0.0), bd.Fixed(0.1)], ids=["scores", "rows"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_curvature_that_grows_with_the_spread_of_scores_does_not_overflow(rates, dtype):
    """Averaged over scores of the prior's spread, 23, the curvature of a count would be e^270."""
    X, y = _wide_counts(3.0)
    model, method = bd.Model(bd.Poisson(), rates=rates), bd.HMC(dtype=dtype, limits=Limits(dense=2), correct=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = bd.sample(model, X, y, method=method, draws=50, tune=50, chains=2, progress=False)
    assert float(bd.groups.dataset(post, "sample_stats")["acceptance_rate"].mean()) > 0.4
    # 60 features and 30 rows: most directions have the prior's standard deviation.
    assert 0.4 < float(bd.groups.dataset(post, "posterior")["weight"].std()) < 1.3


@pytest.mark.slow
def test_chains_of_scores_start_where_trajectories_can_leave():
    """The tails of counts are much lighter than the approximation's."""
    X, y = _wide_counts(3.0)
    model, data = bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), as_dataset(X, y, binary=False)
    with jax.enable_x64(True):
        method = bd.HMC(dtype="float64", limits=Limits(dense=2))
        kernel, operands = method.bind(model, data, model.bind(data.feature_names), 50, marginalised=True)
        value = kernel.init(operands, jax.random.key(0), 400).evaluation
        centre = kernel.evaluated(operands, jnp.zeros((1, 61)))
        energy, origin = (np.asarray(jnp.sum(part.cost, axis=1) - part.prior) for part in (value, centre))
    assert np.max(energy - origin) < 30 + 61


@pytest.mark.slow
def test_averaged_curvature_of_wide_counts_is_finite():
    X, y = _wide_counts(10.0, 50, 100)
    model = bd.Model(bd.Poisson(), rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfNormal(1.0)))
    data = as_dataset(X, y, binary=False)
    with jax.enable_x64(True):
        _, operands = bd.HMC(dtype="float64").bind(model, data, model.bind(data.feature_names), 50, marginalised=True)
        assert np.all(np.isfinite(operands.factor))
        assert np.all(np.isfinite(operands.density.map.factor))


def test_a_diagonal_approximation_of_a_kinked_posterior_is_finite(monkeypatch):
    for model in KINKED:
        (mean, factor), _, _ = approximation(model, dense=False)
        assert np.all(np.isfinite(mean))
        assert np.all(factor > 0)
        assert factor.shape == mean.shape


@pytest.mark.parametrize("model", KINKED, ids=lambda model: f"{model.loss}")
@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_spread_of_the_scores(model, store, monkeypatch):
    """By the whole covariance, dense and diagonal; a row of zeros without an intercept has a thousandth of the most."""
    for dense in (True, False):
        (_, factor), data, _ = approximation(model, dense=dense)
        X = data.X.copy()
        X[1] = 0
        full = np.column_stack([X, np.ones(len(X))]) if model.fit_intercept else X
        covariance = factor @ factor.T if dense else np.diag(factor**2)
        expected = np.sqrt(np.einsum("ij,jk,ik->i", full, covariance, full))
        if not model.fit_intercept:
            expected[1] = 1e-3 * expected.max()
        np.testing.assert_allclose(
            score_spread(replace(data, design=as_design(store(X))), factor), expected, rtol=1e-12
        )


def test_spread_of_scores_that_cannot_move_is_positive():
    X, y = np.zeros((3, 2)), np.array([1.0, -1.0, 1.0])
    assert np.all(score_spread(as_dataset(X, y, None, None, True), np.eye(2)) > 0)


def test_kinks_are_rounded_where_there_are_some_and_no_noise_rounds_them():
    for model, rounded in (
        (KINKED[0], True),
        (bd.Model(Hinge(), rates=DROPOUT), False),
        (bd.Model(rates=NO_NOISE), False),
    ):
        with jax.enable_x64(True):
            assert (bind(model)[1].density.width is not None) == rounded
            assert bind(model, bd.NUTS())[1].density.width is None


def test_directions_without_curvature_get_unit_length():
    """A Hessian with a negative and a zero eigenvalue, as Taylor's penalty may have: the factor stays finite."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    factor = laplace.root_inverse((basis * [4.0, 0.0, -2.0]) @ basis.T)
    np.testing.assert_allclose(factor @ factor.T, (basis * [0.25, 1.0, 1.0]) @ basis.T, atol=1e-12)


# What a run does.


@pytest.mark.slow
@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_a_diagonal_metric_draws_from_the_same_posterior(store, monkeypatch):
    """Nine statistics against the closed form; the diagonal metric fits badly, so there are rejections."""
    monkeypatch.setattr(hmc_method, "choose", lambda case, limits: CHOICES[-1])
    X, y = problem(binary=False)
    X[:, 1] += X[:, 0]
    result = sampled(RIDGE, SINGLE, X=store(X), y=y, sample_weight=WEIGHTS, tune=150, draws=300, chains=64)
    assert result.state.factor.shape == (3,)
    assert np.mean(result.draws["acceptance_rate"]) < 0.999
    mean, covariance = closed_form(RIDGE, X, y, np.array([0.3, 0.6]), WEIGHTS)
    check_moments(result, mean, covariance)


RATES = bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)))


@pytest.mark.slow
def test_adaptation_ends_with_the_warm_up():
    short, long = (sampled(RATES, SINGLE, marginalised=False, tune=60, draws=draws).state for draws in (1, 40))
    with jax.enable_x64(False):
        _, operands = bind(RATES, SINGLE, marginalised=False, tune=60)
    for name in ("centre", "factor", "mean", "square", "seen"):
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name))
    assert np.all(short.centre != operands.centre)
    assert np.any(short.factor != operands.factor)
    for name in short.search._fields:
        np.testing.assert_array_equal(getattr(short.search, name), getattr(long.search, name))
    assert np.count_nonzero(short.search.tried) > 1  # what it chose may be what it began at
    result = sampled(RATES, SINGLE, marginalised=False, tune=60, draws=40)
    assert len(np.unique(result.draws["n_steps"])) == 1
    assert len(np.unique(result.draws["step_size"][0])) == 40  # the angle is drawn afresh


@pytest.mark.slow
@pytest.mark.parametrize("method", [SINGLE, DOUBLE])
def test_same_seed_same_draws_in_the_precision_that_was_asked_for(method):
    first, again, other = (sampled(RATES, method, marginalised=False, seed=seed) for seed in (0, 0, 1))
    for name, value in first.draws.items():
        np.testing.assert_array_equal(value, again.draws[name])
    assert np.all(first.draws["weight"] != other.draws["weight"])
    assert {str(first.draws[name].dtype) for name in ("weight", "intercept", "logit_rate", "lp")} == {method.dtype}


@dataclass(frozen=True)
class Counting(bd.Logistic):
    """A logistic loss that counts how often it is traced."""

    def plain_value_and_slope(self, y, score):
        TRACES.append(1)
        return super().plain_value_and_slope(y, score)


TRACES = []


@pytest.mark.parametrize("p", [2, 20])
def test_a_second_run_compiles_nothing(p):
    """Of weights, and of scores where features are many."""
    model, (X, y) = bd.Model(Counting(), rates=NO_NOISE), problem(p=p)
    method = replace(SINGLE, limits=Limits(dense=5))
    sampled(model, method, X=X, y=y)
    traced = len(TRACES)
    assert traced > 0
    result = sampled(replace(model, C=3.0), method, X=2 * X, y=-y, seed=1, tune=7, draws=17)
    assert np.ndim(result.state.factor) == (2 if p == 2 else 1)
    assert len(TRACES) == traced


def quietly(*arguments, **options):
    with warnings.catch_warnings(), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        warnings.simplefilter("ignore", MixingWarning)
        warnings.simplefilter("ignore", ApproximationWarning)
        return bd.sample(*arguments, tune=20, chains=2, progress=False, **options)


@pytest.mark.slow
@pytest.mark.parametrize("prior", [bd.Normal(1.0), bd.Normal(bd.HalfNormal(1.0))], ids=["known scale", "learnt scale"])
@pytest.mark.parametrize("method", [SINGLE, bd.NUTS(max_tree_depth=3)], ids=["hmc", "nuts"])
def test_a_resumed_run_is_bit_identical(tmp_path, method, prior):
    """Stopped in its warm-up, and again after some draws."""
    X, y = problem()
    draw = partial(quietly, replace(RATES, weight_prior=prior), X, y, method=method)
    whole = draw(draws=30)
    with pytest.raises(TimeoutError, match="checkpoint|same arguments"):
        draw(draws=10, checkpoint=tmp_path / "run", max_seconds=1e-9)
    draw(draws=10, checkpoint=tmp_path / "run")
    parts = draw(draws=30, checkpoint=tmp_path / "run")
    for group in ("posterior", "sample_stats"):
        there, here = (bd.groups.dataset(post, group) for post in (whole, parts))
        assert set(there) == set(here)
        for name in there:
            np.testing.assert_array_equal(there[name].values, here[name].values)


@pytest.mark.parametrize("method", [bd.HMC(), bd.NUTS()], ids=["HMC", "NUTS"])
@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (bd.Model(Squared(), rates=NO_NOISE, C=4.0), {}, r"C: expected 1 beside a variance .*variance=0\.25"),
        (bd.Model(rates=NO_NOISE, weight_prior=bd.Normal([1.0, 2.0, 3.0])), {}, "expected one number or 2 of them"),
        (bd.Model(), {"target": "mode"}, 'target: expected "noising", "marginalised" or None, got \'mode\''),
        (bd.Model(), {"target": "marginalised"}, "give fixed rates"),
        (bd.Model(noise=bd.GaussianNoise(1.0)), {"target": "noising"}, "has no masks"),
        (bd.Model(noise=bd.PoissonNoise()), {}, "Poisson noise needs x >= 0"),
    ],
)
def test_models_that_do_not_fit_are_refused(method, model, options, message):
    X, y = problem(binary=model.loss.binary)
    with pytest.raises(ValueError, match=message):
        bd.sample(model, X, y, method=method, progress=False, **options)
