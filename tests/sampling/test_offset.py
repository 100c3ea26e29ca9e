"""Offsets in posteriors: of numbers they are taken off the response, draw for draw; of the rest densities agree."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.gibbs.moves.joint_move import joint_moves
from bayesdrop.hmc.approximations.normal import normal_approximation
from bayesdrop.hmc.binding import approximate_scores, bind_density
from bayesdrop.hmc.kernels.density import Density
from bayesdrop.hmc.score_space import ScoreHMCKernel, score_operands
from bayesdrop.posterior.problem import Problem

N, CHAINS = 24, 3
SPREAD = bd.InverseGamma(2.0, 1.0)
# Posteriors of numbers: everything but the auxiliary variables of other losses.
SAMPLED = {
    "masks": (bd.Model(bd.Squared(variance=1.0), rates=bd.PerFeature()), bd.Gibbs(dtype="float64")),
    "unknown variance and scale": (
        bd.Model(bd.Squared(variance=SPREAD), rates=bd.PerFeature(), weight_prior=bd.Normal(bd.HalfNormal(1.0))),
        bd.Gibbs(dtype="float64"),
    ),
    "scales by group": (
        bd.Model(
            bd.Squared(variance=1.0), rates=bd.Fixed(0.2), weight_prior=bd.Normal(bd.HalfNormal(1.0), groups=[0, 0, 1])
        ),
        bd.Gibbs(dtype="float64"),
    ),
    "two auxiliary variables": (bd.Model(bd.EpsilonInsensitive(0.2), rates=bd.Fixed(0.3)), bd.Gibbs(dtype="float64")),
    "one auxiliary variable": (bd.Model(bd.Quantile(0.3, 1.0), rates=bd.Fixed(0.0)), bd.Gibbs(dtype="float64")),
    "marginalised, with a scale": (
        bd.Model(bd.EpsilonInsensitive(0.2), rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfNormal(1.0))),
        bd.Gibbs(dtype="float64"),
    ),
    "hmc": (bd.Model(bd.Quantile(0.3, 1.0), rates=bd.Fixed(0.0)), bd.HMC(dtype="float64")),
    "hmc, masks": (bd.Model(bd.EpsilonInsensitive(0.2), rates=bd.PerFeature()), bd.HMC(dtype="float64")),
    "nuts": (bd.Model(bd.Squared(variance=1.0), rates=bd.PerFeature()), bd.NUTS()),
}
FOLLOWED = {
    "logistic": (bd.Logistic(), np.sign),
    "hinge": (bd.Hinge(), np.sign),
    "poisson": (bd.Poisson(), lambda s: np.floor(np.exp(np.clip(s, -2, 2)))),
    "negative binomial": (bd.NegativeBinomial(2.0), lambda s: np.floor(np.exp(np.clip(s, -2, 2)))),
}


def data(seed=3):
    rng = np.random.default_rng(seed)
    X, offset = rng.normal(size=(N, 3)), 1.5 * rng.normal(size=N)
    return X, offset + X @ [0.8, -0.5, 0.0] + 0.4 * rng.normal(size=N), offset


def sampled(model, method, X, y, **options):
    with warnings.catch_warnings(), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs it
        warnings.simplefilter("ignore")
        options = {"draws": 6, "tune": 6, "chains": CHAINS, "seed": 1, "progress": False} | options
        return bd.sample(model, X, y, method=method, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_of_numbers_it_is_taken_off_the_response(name):
    """The same key, and a loss of ``y − s``: the chains are the same but for round-off, for which they are short."""
    model, method = SAMPLED[name]
    X, y, offset = data()
    # A precision of up to 1e8 holds a row at an end of its tube, and the next sweep divides by what is left of its
    # slack: round-off grows a thousandfold a sweep.
    short = {"draws": 1, "tune": 1} if name == "two auxiliary variables" else {}
    known, less = (
        bd.groups.dataset(sampled(model, method, X, *given[:1], offset=given[1], **short), "posterior")
        for given in ((y, offset), (y - offset, None))
    )
    for variable in less.data_vars:
        np.testing.assert_allclose(known[variable], less[variable], rtol=1e-5, atol=1e-6, err_msg=variable)


def problem_of(name, rates, offset):
    loss, response = FOLLOWED[name]
    X, score, _ = data()
    y = response(score)
    return Problem.of(bd.Model(loss, rates=rates, noise=bd.Dropout(centre=None)), X, y, offset=offset)


def density_of(problem, theta):
    """Log density of HMC at ``θ = (w, b, …)``, (C,)."""
    density, operands = bind_density(
        "HMC", problem.centring.model, problem.data, problem.rate_map, problem.marginalised, "float64"
    )
    found = jax.jit(density.evaluate)(operands, theta)
    return density, operands, found.prior - jnp.sum(found.cost, axis=1), found.gradient


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize("rates", [bd.Fixed(0.0), bd.Fixed(0.3), bd.PerFeature()], ids=["none", "fixed", "free"])
def test_a_constant_is_the_intercept_of_every_density(name, rates):
    with jax.enable_x64(True):
        size = 4 + 3 * (rates == bd.PerFeature())
        theta = jnp.asarray(np.random.default_rng(0).normal(size=(5, size)))
        moved = theta.at[:, 3].add(0.7)
        _, _, plain, slope = density_of(problem_of(name, rates, None), moved)
        _, _, known, other = density_of(problem_of(name, rates, 0.7), theta)
        np.testing.assert_allclose(known, plain, rtol=1e-12)
        np.testing.assert_allclose(other, slope, rtol=1e-10, atol=1e-10)


@pytest.mark.default_cases("logistic", "poisson")
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_column_of_known_weight_is_an_offset_of_every_density(name):
    """``Σ_d a_d x_d`` beside weights ``w − a``, of a flat prior of the weights."""
    X, score, _ = data()
    with jax.enable_x64(True):
        a = np.array([0.5, -1.0, 0.25])
        theta = jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)))
        _, operands, _, _ = density_of(problem_of(name, bd.Fixed(0.0), X @ a), theta)
        density, plain, _, _ = density_of(problem_of(name, bd.Fixed(0.0), None), theta)
        flat = [part._replace(precision=jnp.zeros(3)) for part in (operands, plain)]
        shifted = theta - jnp.append(jnp.asarray(a), 0.0)[None]
        evaluate = jax.jit(density.evaluate)
        one, other = evaluate(flat[0], shifted), evaluate(flat[1], theta)
        np.testing.assert_allclose(one.cost, other.cost, rtol=1e-10)
        np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-9, atol=1e-9)
    assert isinstance(density, Density)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "hinge", "negative binomial"])
def test_gibbs_and_hmc_have_one_density(name):
    """Without masks: ``lp`` of states of the one and of the other differ by a constant, wherever they are."""
    _, _, offset = data()
    problem = problem_of(name, bd.Fixed(0.0), offset)
    with jax.enable_x64(True):
        kernel, operands = problem.bind(bd.Gibbs(dtype="float64"), 0)

        @jax.jit
        def swept(operands, key):
            state = kernel.sweep(operands, kernel.init(operands, key, 6))
            return state, kernel.record(operands, state)["lp"]

        state, recorded = swept(operands, jax.random.key(0))
        theta = jnp.concatenate([state.weight, state.intercept[:, None]], axis=1)
        difference = recorded - density_of(problem, theta)[2]
        # The constant may be 0, so that it is the log densities whose digits count.
        np.testing.assert_allclose(difference, np.full(6, difference[0]), atol=1e-12 * np.abs(recorded).max())


@pytest.mark.slow
@pytest.mark.parametrize("rates", [bd.PerFeature(), bd.PerGroup([0, 0, 1])], ids=["features", "groups"])
def test_scores_of_a_state_are_those_of_its_weights_and_masks(rates):
    """After sweeps and joint moves, whichever of them moved a score."""
    _, _, offset = data()
    problem = problem_of("logistic", rates, offset)
    with jax.enable_x64(True):
        kernel, operands = problem.bind(bd.Gibbs(dtype="float64"), 3)

        @jax.jit
        def swept(operands, state):
            state = kernel.sweep(operands, state)
            score = operands.columns.product(state.masks, state.effective, N) + state.intercept[:, None]
            return state, score + jnp.asarray(offset)[None]

        state = jax.jit(kernel.init, static_argnums=2)(operands, jax.random.key(0), CHAINS)
        for _ in range(3):
            state, score = swept(operands, state)
            np.testing.assert_allclose(state.score, score, rtol=1e-10, atol=1e-10)


@pytest.mark.slow
def test_joint_moves_go_with_a_constant_as_with_the_intercept():
    """The same key, the metric moved along: the same trajectories, masks and decisions."""
    with jax.enable_x64(True):
        kernel, plain = problem_of("logistic", bd.PerFeature(), None).bind(bd.Gibbs(dtype="float64"), 0)
        _, known = problem_of("logistic", bd.PerFeature(), 0.7).bind(bd.Gibbs(dtype="float64"), 0)
        go = jax.jit(lambda operands, state: joint_moves(kernel, 2, operands, state, jnp.asarray(False)))
        init = jax.jit(kernel.init, static_argnums=2)
        accepted = 0
        for key in jax.random.split(jax.random.key(0), 12):
            state = init(plain, key, CHAINS)
            metric = state.metric._replace(mean=state.metric.mean.at[3].add(-0.7))
            one = go(plain, state)
            other = go(known, state._replace(intercept=state.intercept - 0.7, metric=metric))
            accepted += int(jnp.sum(jnp.any(one.effective != state.effective, axis=1)))
            np.testing.assert_allclose(other.effective, one.effective, rtol=1e-8)
            np.testing.assert_allclose(other.score, one.score, rtol=1e-8)
            np.testing.assert_array_equal(other.masks[0], one.masks[0])
        assert 0 < accepted < 12 * CHAINS


def approximation_of(problem):
    with jax.enable_x64(True):
        given = problem.centring.model, problem.data, problem.rate_map
        return approximate_scores(*given, *bind_density("HMC", *given, False, "float64"), "rows", "float64")


@pytest.mark.default_cases("logistic-weights")
@pytest.mark.parametrize("find", ["weights", "scores", "free rates"])
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_approximations_follow_it(name, find):
    """A constant moves the intercept of the normal approximation, and nothing else."""
    rates = bd.PerFeature(bd.Beta(2, 2)) if find == "free rates" else bd.Fixed(0.0 if find == "scores" else 0.2)
    plain, known = (problem_of(name, rates, offset) for offset in (None, 0.7))
    if find == "weights":
        (one, factor), (other, same) = (
            normal_approximation(problem.centring.model, problem.data, np.full(3, 0.2)) for problem in (plain, known)
        )
    else:
        found = [approximation_of(problem) for problem in (plain, known)]
        (one, factor), (other, same) = ((part.centre, part.precision.curvature) for part in found)
    # They start at an intercept of 0, and stop where a change is small beside the posterior's spread.
    np.testing.assert_allclose(other + 0.7 * (np.arange(len(one)) == 3), one, atol=0.05 * np.abs(one).max())
    np.testing.assert_allclose(same, factor, atol=0.05 * np.abs(factor).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_the_kernel_of_scores_has_the_density_of_weights(name):
    """``½‖z‖² + Σ r_i`` and minus the log density differ by a constant, wherever the weights are."""
    _, _, offset = data()
    problem = problem_of(name, bd.Fixed(0.0), offset)
    with jax.enable_x64(True):
        density, operands, *_ = density_of(problem, jnp.zeros((1, 4)))
        moved = score_operands(
            problem.centring.model, problem.data, problem.rate_map, density, operands, 0, "float64", 0.5
        )
        kernel, z = ScoreHMCKernel(density, float("inf")), jnp.asarray(np.random.default_rng(0).normal(size=(5, 4)))
        found = kernel.evaluation(moved, z, moved.scores(z))
        lp = found.prior - found.cost.sum(axis=1)
        difference = lp - density_of(problem, moved.centre[None] + moved.factor.times(z))[2]
        np.testing.assert_allclose(difference, np.full(5, difference[0]), rtol=1e-9)


@pytest.mark.slow
def test_it_is_stored_and_read_again(tmp_path):
    X, score, offset = data()
    y = np.floor(np.exp(score))
    model, weight = bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), (np.arange(N) > 1).astype(float)
    post = sampled(model, bd.HMC(), X, y, offset=offset, sample_weight=weight, log_likelihood=True)
    kept = weight > 0
    stored = bd.groups.dataset(post, "constant_data")["offset"]
    assert stored.dims == ("obs_id",)
    np.testing.assert_array_equal(stored, offset[kept])
    bd.groups.save(post, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    log = bd.groups.dataset(post, "log_likelihood")["y"]
    np.testing.assert_allclose(
        bd.groups.dataset(bd.log_likelihood(again, X[kept], y[kept]), "log_likelihood")["y"], log
    )
    draws = bd.groups.dataset(again, "posterior")
    weights = draws["weight"].values.reshape(-1, 3).astype(float)
    mean = np.exp(offset[kept] + weights @ X[kept].T + draws["intercept"].values.reshape(-1, 1))
    from scipy.stats import poisson

    np.testing.assert_allclose(log.values.reshape(-1, kept.sum()), poisson.logpmf(y[kept], mean), rtol=1e-5)
    np.testing.assert_allclose(bd.predict(again, X[kept], offset=offset[kept]).mean, mean.mean(axis=0), rtol=1e-5)
    old, new = (
        bd.groups.dataset(bd.posterior_predictive(again, X[kept], **options), group)["y"].values
        for group, options in (
            ("posterior_predictive", {}),
            ("predictions", {"new": True, "offset": offset[kept]}),
        )
    )
    np.testing.assert_array_equal(old, new)
    for call in (bd.predict, lambda post, X: bd.posterior_predictive(post, X, new=True), bd.marginal_effects):
        with pytest.raises(ValueError, match="offset: expected a number for each row, got none"):
            call(again, X)
    with pytest.raises(ValueError, match="offset"):
        bd.elpd(again, X, y)
    with pytest.raises(ValueError, match="new=True"):
        bd.posterior_predictive(again, X[kept], offset=0.0)


@pytest.mark.slow
def test_a_checkpoint_of_another_offset_is_refused(tmp_path):
    X, score, offset = data()
    model, folder = bd.Model(rates=bd.Fixed(0.0)), tmp_path / "run"
    sampled(model, bd.HMC(), X, np.sign(score), offset=offset, checkpoint=folder)
    sampled(model, bd.HMC(), X, np.sign(score), offset=offset, checkpoint=folder)
    for other in (offset + 0.1, None):
        with pytest.raises(ValueError, match="checkpoint: .*offset"):
            sampled(model, bd.HMC(), X, np.sign(score), offset=other, checkpoint=folder)


def test_who_does_not_say_that_it_takes_one_is_given_none():
    X, score, offset = data()

    class Own:
        dtype, warm_up, integrates_masks = "float32", 5, False

        def bind(self, *arguments, **options):
            raise AssertionError

    with pytest.raises(ValueError, match="offset: .*takes_offset"):
        sampled(bd.Model(rates=bd.Fixed(0.0)), Own(), X, np.sign(score), offset=offset)
    with pytest.raises(ValueError, match="offset: rows that are not in memory"):
        sampled(bd.Model(rates=bd.Fixed(0.0)), bd.HMC(), bd.Blocks([X]), np.sign(score), offset=offset)
