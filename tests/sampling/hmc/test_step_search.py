"""The number of leapfrog steps: chosen from known laws of the acceptance, and on tables with small categories."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import ndtr

import bayesdrop as bd
from bayesdrop.hmc.kernels.trajectory import HMCOptions, draw_length, first_search, searched, started_again

OPTIONS = HMCOptions()
TURN = OPTIONS.turn
search_step, steps_of = jax.jit(searched, static_argnums=4), jax.jit(draw_length, static_argnums=2)


def quadratic(angle, scale):
    """The law of the error of an energy, whose acceptance is 0.8 at a step of the given size."""
    return 2 * ndtr(-0.2533 * (angle / scale) ** 2)


def jump(angle, scale):
    """0.4 by one step, 0.87 by two, as on a table with small categories."""
    return jnp.where(angle > 1.25, 0.4, 0.87)


def nearly(angle, scale):
    """0.9 by one step, 0.97 by two."""
    return jnp.where(angle > 1.25, 0.9, 0.97)


@partial(jax.jit, static_argnames=("law", "tune", "chains"))
def chosen(law, key, scale=1.0, tune=500, chains=4):
    """Steps and turn after a warm-up in which acceptances are uniform about their law, which is their mean."""

    def step(search, count):
        key_angle, key_noise = jax.random.split(jax.random.fold_in(key, count))
        _, angle = draw_length(key_angle, search, OPTIONS)
        mean = law(angle, scale)
        width = jnp.minimum(0.3, jnp.minimum(mean, 1 - mean))
        accepted = mean + width * (2 * jax.random.uniform(key_noise, (chains,)) - 1)
        return searched(search, accepted, count, jnp.int32(tune), OPTIONS), angle

    search, _ = jax.lax.scan(step, first_search(2, jnp.float32), jnp.arange(tune + 20))
    angles = jax.vmap(lambda k: draw_length(k, search, OPTIONS)[1])(jax.random.split(key, 400))
    steps, _ = draw_length(key, search, OPTIONS)
    return steps, steps.astype(angles.dtype) * jnp.mean(angles), jnp.mean(law(angles, scale))


@partial(jax.jit, static_argnames=("law", "chains"))
def for_each(law, keys, scale, chains=4):
    """Compiled once for all scales."""
    return jax.vmap(lambda key: chosen(law, key, scale, chains=chains))(keys)


@pytest.mark.slow
@pytest.mark.parametrize("chains", [1, 4])
def test_a_jump_of_the_acceptance_is_not_averaged_over(chains):
    """One step that accepts 0.4 and two that accept 0.87 are 0.8 on average: no warm-up of fifty takes one."""
    steps, _, acceptance = for_each(jump, jax.random.split(jax.random.key(0), 50), np.float32(1), chains)
    assert np.all((np.asarray(steps) == 2) | ((np.asarray(steps) == 3) & (chains == 1)))
    assert np.all(np.asarray(acceptance) > 0.8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "least", "most"), [(8.0, 1, 1), (1.9, 2, 2), (1.0, 2, 2), (0.3, 6, 8), (0.05, 37, 48)]
)
def test_the_fewest_steps_that_are_accepted_often_enough(scale, least, most):
    keys = jax.random.split(jax.random.key(1), 20)
    steps, turn, acceptance = for_each(quadratic, keys, np.float32(scale))
    assert np.all((np.asarray(steps) >= least) & (np.asarray(steps) <= most))
    assert np.all(np.asarray(turn) > 0.75 * TURN)
    assert np.all((np.asarray(acceptance) > 0.75) & ((np.asarray(acceptance) < 0.97) | (np.asarray(steps) == 1)))


def test_where_a_hundred_steps_are_too_few_the_turn_is_shorter():
    steps, turn, acceptance = for_each(quadratic, jax.random.split(jax.random.key(2), 20), np.float32(0.008))
    assert np.all(np.asarray(steps) == 100)
    assert np.all((np.asarray(acceptance) > 0.7) & (np.asarray(turn) < 0.7 * TURN))


@pytest.mark.slow
@pytest.mark.parametrize("double", [False, True])
def test_what_is_chosen_is_kept_after_warm_up_and_where_it_starts_again(double):
    with jax.enable_x64(double):
        real = jnp.float64 if double else jnp.float32
        search = first_search(3, real)
        for count in range(12):
            search = search_step(search, jnp.ones(4, real), jnp.int32(count), jnp.int32(100), OPTIONS)
        assert int(search.chosen) == 0
        after = search_step(search, jnp.zeros(4, real), jnp.int32(100), jnp.int32(100), OPTIONS)
        again = started_again(search)
    for name in search._fields:
        np.testing.assert_array_equal(getattr(after, name), getattr(search, name))
    assert int(again.chosen) == 0
    assert not np.any(again.tried)
    assert not np.any(again.accepted)


def small_categories(seed, n=310):
    """A dozen indicators of 2 to 10 % beside ten correlated numbers."""
    rng = np.random.default_rng(seed)
    indicators = rng.random((n, 12)) < rng.uniform(0.02, 0.1, 12)
    numbers = rng.normal(size=(n, 10)) @ np.linalg.cholesky(np.full((10, 10), 0.6) + 0.4 * np.eye(10)).T
    X = np.hstack([indicators, numbers])
    score = X @ np.concatenate([rng.normal(0, 1.5, 12), rng.normal(0, 0.6, 10)]) - 0.3
    return X, (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_every_seed_moves_on_a_table_with_small_categories(seed):
    """Every weight and its tails have 0.4 independent draws a draw; those of one leapfrog step have 0.003 or fewer.

    The smallest estimate of 240 runs of 16,000 draws, eight of each table, was 0.48. Their logarithms have mean -0.461,
    standard deviation 0.064 and skewness -1.0: by the gamma law of these moments a table is below 0.4 with probability
    2e-5, one of the thirty with 5e-4. Of 4,000 draws one estimate in fifty is, where 100,000 of that table have 0.62.
    """
    post = bd.sample(
        bd.Model(rates=bd.Fixed(0.0)), *small_categories(seed), method=bd.HMC(), draws=4000, seed=seed, progress=False
    )
    found = bd.diagnose(post)
    assert 0.65 < found.acceptance_rate < 0.95
    assert min(found.ess_bulk.value, found.ess_tail.value) > 0.4 * 16_000
    assert found.ok


@pytest.mark.slow
def test_no_round_is_spent_on_steps_that_are_never_accepted():
    """Eight trajectories that are rejected end a round, two of four chains or eight of one; no other does."""

    def after(acceptances, chains=4):
        search = first_search(2, jnp.float32)
        for count, acceptance in enumerate(acceptances):
            mean = np.full(chains, acceptance, np.float32)
            search = search_step(search, mean, np.int32(count), np.int32(100), OPTIONS)
        return int(steps_of(jax.random.key(0), search, OPTIONS)[0])

    assert after([0.0]) == 2
    assert after([0.0, 0.0]) > 4
    assert after([0.0, 0.3]) == 2
    assert after([0.0] * 7, chains=1) == 2
    assert after([0.0] * 8, chains=1) > 4


@pytest.mark.slow
def test_one_step_has_to_be_accepted_nearly_always():
    """A law of 0.9 for one step of any turn, 0.97 for two: a chain that is rejected once is often rejected again."""
    steps, _, acceptance = for_each(nearly, jax.random.split(jax.random.key(3), 20), np.float32(1))
    assert np.all(np.asarray(steps) == 2)
    assert np.all(np.asarray(acceptance) > 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rates", [None, bd.Fixed(0.0)], ids=["masks", "plain"])
def test_every_seed_moves_on_a_table_of_one_column(rates, seed):
    """Of 25 rows chains of one leapfrog step stand still for up to 90 draws, at places where its error is large.

    The smallest of 48 runs, four of each table, are 4,512 and 1,831 effective draws of 8,000, where single steps that
    accept 0.8 had 1,419 and 567.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, 1))
    y = (X[:, 0] + rng.logistic(size=25) > 0).astype(int)
    for number in range(3):
        method = bd.HMC(correct=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bd.warnings.ApproximationWarning)
            post = bd.sample(bd.Model(rates=rates), X, y, method=method, draws=2000, seed=number, progress=False)
        found = bd.diagnose(post)
        assert found.ess_bulk.value > 0.4 * 8000, (seed, number)
        assert found.ess_tail.value > 0.15 * 8000, (seed, number)
