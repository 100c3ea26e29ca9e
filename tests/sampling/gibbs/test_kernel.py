"""What holds exactly: bookkeeping of scores, sums over masks, Gaussian draws, seeds, precision, one compilation."""

import itertools
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from scipy.special import logit

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs import weights as gibbs_gaussian
from bayesdrop.gibbs.moves import columns as gibbs_columns
from bayesdrop.gibbs.moves import interweaving
from bayesdrop.gibbs.moves.columns import dense_columns, sparse_columns
from bayesdrop.gibbs.moves.features import log_mask_sum
from bayesdrop.gibbs.moves.pseudo_marginal import first_metric, mask_pass, trajectory
from bayesdrop.gibbs.moves.state import Conditional
from bayesdrop.sampling.run.runner import as_key, run
from bayesdrop.sampling.slice_sampling import slice_sample

DENSE = np.random.default_rng(0).normal(size=(20, 4)) * (np.random.default_rng(1).random((20, 4)) < 0.7)
LABELS = np.where(np.arange(20) % 2, 1, -1)


def bound(model, method=None, X=DENSE, y=LABELS, tune=3):
    data = as_dataset(X, y)
    return (bd.Gibbs() if method is None else method).bind(model, data, model.bind(data.feature_names), tune)


def draws_of(seed=0, dtype="float32", model=None, draws=6):
    with jax.enable_x64(dtype == "float64"):
        kernel, operands = bound(model or bd.Model(bd.Hinge()), bd.Gibbs(dtype=dtype))
        return run(kernel, operands, as_key(seed), tune=3, draws=draws, chains=2, progress=False)


GROUPED = bd.Model(bd.Hinge(), rates=bd.PerGroup([0, 0, 1, 1]))


@pytest.mark.slow
@pytest.mark.parametrize("model", [bd.Model(bd.Hinge()), GROUPED], ids=["per feature", "groups"])
def test_scores_follow_masks_and_weights(model):
    with jax.enable_x64(True):
        state = draws_of(dtype="float64", model=model, draws=30).state
        (kept,), effective = map(np.asarray, state.masks), np.asarray(state.effective)
        score = np.einsum("np,pcn,cp->cn", DENSE, kept, effective) + np.asarray(state.intercept)[:, None]
    np.testing.assert_allclose(state.score, score, atol=1e-12)
    assert np.all(kept[:, 0][(DENSE == 0).T])


@pytest.mark.slow
def test_same_seed_same_draws_and_another_seed_others():
    settings = {"dtype": "float64", "model": GROUPED}
    first, again, other = (draws_of(seed, **settings) for seed in (0, 0, 1))
    for name, value in first.draws.items():
        np.testing.assert_array_equal(value, again.draws[name])
    assert np.all(first.draws["weight"] != other.draws["weight"])
    key = draws_of(jax.random.key(0), **settings)
    np.testing.assert_array_equal(key.draws["weight"], first.draws["weight"])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precision_is_what_was_asked_for(dtype):
    # The programs of other tests here.
    draws = draws_of(dtype=dtype, model=GROUPED if dtype == "float64" else bd.Model(Counting())).draws
    assert {str(value.dtype) for value in draws.values()} == {dtype}
    assert not jax.config.jax_enable_x64


@dataclass(frozen=True)
class Counting(bd.Hinge):
    """A hinge that counts how often it is traced."""

    def sample_pseudo(self, key, y, mean, var, weight):
        TRACES.append(1)
        return super().sample_pseudo(key, y, mean, var, weight)


TRACES = []


@pytest.mark.slow
def test_a_second_run_compiles_nothing():
    draws_of(0, model=bd.Model(Counting()))
    traced = len(TRACES)
    assert traced > 0
    draws_of(1, model=bd.Model(Counting()), draws=17)
    assert len(TRACES) == traced


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_mask_sum_is_right_at_both_ends(dtype):
    """``log[(1 − η) e^g + η]`` to the last digits, however near the rate is to 0 or 1, against longer arithmetic."""
    gain, logit = (
        part.ravel() for part in np.meshgrid([-200.0, -3, -1e-6, 0, 2, 60, 300], [-300.0, -40, -1, 0, 8, 200])
    )
    with jax.enable_x64(dtype == "float64"):
        found = np.asarray(log_mask_sum(jnp.asarray(gain, dtype), jnp.asarray(logit, dtype)), np.longdouble)
    wide, far = gain.astype(dtype).astype(np.longdouble), logit.astype(np.longdouble)
    exact = np.logaddexp(wide, far) - np.logaddexp(np.longdouble(0), far)
    np.testing.assert_allclose(found, exact, rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps)


def brute_force_log_q(model, masks, weight, intercept, rate):
    """Look-ahead proposal, by plain loops in NumPy: log p(α, y | θ) − log q(α | θ), and q of every mask, row by row."""
    points, shares = np.polynomial.hermite_e.hermegauss(5)
    shares = shares / shares.sum()
    ratio, probability = np.zeros(len(DENSE)), np.ones(len(DENSE))
    for i, x in enumerate(DENSE):
        y = float(LABELS[i])

        def expected(mean, var, y=y):
            score = mean + points * np.sqrt(max(var, 0.0))
            return shares @ np.exp(-model.loss.value(np.full(5, y), score, np.zeros(5)))

        u = weight * x
        mean, var = intercept + u @ (1 - rate), (u**2) @ (rate * (1 - rate))
        for d in range(len(x)):
            var = max(var - u[d] ** 2 * rate[d] * (1 - rate[d]), 0.0)
            keep, drop = expected(mean + rate[d] * u[d], var), expected(mean - (1 - rate[d]) * u[d], var)
            chance = (1 - rate[d]) * keep / ((1 - rate[d]) * keep + rate[d] * drop)
            if x[d] == 0:
                continue
            chosen, prior = (chance, 1 - rate[d]) if masks[i, d] else (1 - chance, rate[d])
            ratio[i] += np.log(prior) - np.log(chosen)
            probability[i] *= chosen
            mean += (rate[d] if masks[i, d] else rate[d] - 1) * u[d]
        ratio[i] -= model.loss.value(np.array(y), np.array(mean), np.array(0.0))
    return ratio, probability


@pytest.mark.parametrize("loss", [bd.Hinge(), bd.Logistic()])
def test_look_ahead_proposal_is_a_distribution_and_its_ratio_is_right(loss):
    model = bd.Model(loss)
    weight, intercept, rate = np.array([1.5, -1.0, 0.7, 2.0]), 0.3, np.array([0.2, 0.5, 0.7, 0.4])
    with jax.enable_x64(True):
        kernel, operands = bound(model, bd.Gibbs(dtype="float64"))
        total, average = np.zeros(len(DENSE)), np.zeros(len(DENSE))
        data = operands, kernel.likelihood_given(jnp.ones(1))
        theta = (jnp.asarray(weight)[None], jnp.array([intercept]), jnp.asarray(logit(rate))[None])
        scores = jax.jit(lambda kept: mask_pass(*data, *theta, (kept,), None))
        for pattern in itertools.product((False, True), repeat=4):
            masks = np.array(pattern)[None, :] | (DENSE == 0)
            ratio, probability = brute_force_log_q(model, masks, weight, intercept, rate)
            copies = 2.0 ** np.sum(DENSE == 0, axis=1)  # patterns that differ in zero entries only
            total += probability / copies
            average += probability * np.exp(ratio) / copies
            scored, score, _ = scores(jnp.asarray(masks.T[:, None]))
            np.testing.assert_allclose(scored[0], ratio.sum(), atol=1e-6)
            np.testing.assert_allclose(score[0], (DENSE * masks) @ weight + intercept, atol=1e-12)
    np.testing.assert_allclose(total, 1, atol=1e-12)
    exact = np.zeros(len(DENSE))
    for pattern in itertools.product((0.0, 1.0), repeat=4):
        masks = np.array(pattern)
        prior = np.prod(np.where(masks == 1, 1 - rate, rate))
        exact += prior * np.exp(-loss.value(LABELS.astype(float), (DENSE * masks) @ weight + intercept, np.zeros(20)))
    np.testing.assert_allclose(average, exact, rtol=1e-12)  # the estimate of the likelihood has no bias


@pytest.mark.slow
def test_trajectories_report_their_energy():
    """The acceptance is that of the total energy, and a short trajectory stays where it is."""
    rng = np.random.default_rng(0)
    factor = np.linalg.cholesky(np.cov(rng.normal(size=(3, 20))))
    with jax.enable_x64(True):
        metric = first_metric(jnp.ones(3))._replace(factor=jnp.asarray(factor), mean=jnp.array([0.3, -1.0, 0.5]))
        log_density = lambda theta: -0.25 * jnp.sum((theta - 0.2) ** 4, axis=-1)  # noqa: E731
        start, key = jnp.asarray(rng.normal(size=(2, 3))), jax.random.key(5)
        move = jax.jit(lambda metric: trajectory(key, log_density, metric, start))
        end, change, acceptance = move(metric)
        gain = change + log_density(end) - log_density(start)
        np.testing.assert_allclose(acceptance, np.minimum(1, np.exp(gain)), rtol=1e-12)
        assert np.all(np.abs(np.asarray(gain)) < 0.5)
        assert np.all(np.abs(np.asarray(end - start)) > 1e-3)
        fine, _, _ = move(metric._replace(log_angle=jnp.log(1e-4)))
        np.testing.assert_allclose(fine, start, atol=0.02)


@pytest.mark.slow
def test_trajectories_keep_the_density():
    """Exact draws of a Beta(3, 2) on the logit scale, moved once; 5 standard errors (6e-7) a moment."""
    size = 400_000
    with jax.enable_x64(True):
        chance = jax.random.beta(jax.random.key(0), 3.0, 2.0, (size, 1))
        theta = jnp.log(chance / (1 - chance))
        log_density = lambda t: jnp.sum(3 * jax.nn.log_sigmoid(t) + 2 * jax.nn.log_sigmoid(-t), axis=-1)  # noqa: E731
        move = jax.jit(lambda theta: trajectory(jax.random.key(1), log_density, first_metric(jnp.ones(1)), theta))
        end, _, acceptance = move(theta)
        accept = jax.random.uniform(jax.random.key(2), (size,)) < acceptance
        new = np.asarray(jax.nn.sigmoid(jnp.where(accept[:, None], end, theta)))[:, 0]
    assert np.mean(np.asarray(accept)) > 0.5
    assert abs(new.mean() - 0.6) < 5 * 0.2 / np.sqrt(size)
    assert abs((new**2).mean() - 0.4) < 5 * 0.23 / np.sqrt(size)


@pytest.mark.slow
def test_slice_sampling_keeps_the_density():
    # Beta(3, 2) through 40,000 problems of one step each, started from exact draws; 5 standard errors: 6e-7 a moment.
    start = jax.random.beta(jax.random.key(0), 3.0, 2.0, (40_000,))
    log_density = lambda x: jnp.where((x > 0) & (x < 1), 2 * jnp.log(jnp.abs(x)) + jnp.log(jnp.abs(1 - x)), -jnp.inf)  # noqa: E731
    move = jax.jit(lambda widths: slice_sample(jax.random.key(1), log_density, start, widths))
    for width in (0.1, 2.0):
        new = np.asarray(move(jnp.full(40_000, width)), float)
        assert abs(new.mean() - 0.6) < 5 * 0.2 / 200
        assert abs((new**2).mean() - 0.4) < 5 * 0.23 / 200
        assert np.mean(new != np.asarray(start)) > 0.99


def spread_masks(columns, masks, chains):
    """Masks (n, p) as the blocks of columns hold them, the same for every chain."""
    spread = []
    for block in columns.blocks:
        rows = np.arange(len(masks))[None] if block.rows is None else np.asarray(block.rows)
        padded = np.vstack([masks, np.ones((1, masks.shape[1]), bool)])
        kept = padded[rows, np.asarray(block.features)[:, None]] | ~np.asarray(block.occurs)
        spread.append(jnp.broadcast_to(jnp.asarray(kept)[:, None], (kept.shape[0], chains, kept.shape[1])))
    return tuple(spread)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["precision_draw", "outer_draw", "gradient_draw"])
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_gaussian_draws_have_the_moments_of_the_conditional(name, is_sparse, intercept):
    if is_sparse and name != "gradient_draw":
        return
    generator = np.random.default_rng(0)
    n, p, chains = 7, 3, 20_000
    X = generator.normal(size=(n, p)) * (generator.random((n, p)) < 0.8)
    omega, kappa, precision = generator.gamma(2, size=n), generator.normal(size=n), np.array([0.5, 1.0, 2.0])
    masks = (generator.random((n, p)) < 0.6) | (X == 0)
    design = np.column_stack([X * masks, np.ones(n)])[:, : p + intercept]
    covariance = np.linalg.inv(np.diag(np.append(precision, 0.0)[: p + intercept]) + design.T * omega @ design)
    mean = covariance @ design.T @ kappa
    with jax.enable_x64(True):
        columns = sparse_columns(sparse.csr_array(X), "float64") if is_sparse else dense_columns(X, "float64")
        wide = spread_masks(columns, masks, chains)
        tile = lambda value: jnp.broadcast_to(jnp.asarray(value)[None], (chains, len(value)))  # noqa: E731
        draw = jax.jit(getattr(gibbs_gaussian, name), static_argnums=2)
        weight, offset = draw(
            jax.random.key(0), Conditional(columns, wide, *map(tile, (omega, kappa, precision))), intercept
        )
    drawn = np.column_stack([weight, offset])[:, : p + intercept]
    whitened = (drawn - mean) @ np.linalg.cholesky(np.linalg.inv(covariance))
    # 5 standard errors of a mean and of a second moment: 6e-7 each.
    assert np.max(np.abs(whitened.mean(axis=0))) < 5 / np.sqrt(chains)
    second = whitened.T @ whitened / chains - np.eye(p + intercept)
    assert np.max(np.abs(second)) < 5 * np.sqrt(2 / chains)


@pytest.mark.slow
def test_a_column_far_from_zero_costs_no_digits_of_single_precision():
    """Time stamps beside an intercept, under weights of rows that spread over orders of magnitude, as of a hinge.

    Means and second moments of weights and level: 5 standard errors each, 6e-7.
    """
    generator = np.random.default_rng(3)
    n, chains = 60, 20_000
    time = (1.7e9 + 3e7 * generator.random(n)).astype(np.float32).astype(float)
    X = np.column_stack([time, generator.normal(size=n)])
    omega, precision = 0.1 * generator.pareto(0.7, n), np.array([1.0, 1.0])
    kappa = omega * ((time - time.mean()) / time.std() + generator.normal(size=n))
    away = X - omega @ X / omega.sum()
    design = np.column_stack([away / time.std(), np.ones(n)])  # weights in units of their column's spread
    design[:, 1] = away[:, 1]
    scales = np.array([time.std(), 1.0])
    covariance = np.linalg.inv(np.diag(np.append(precision / scales**2, 0)) + design.T * omega @ design)
    mean = covariance @ design.T @ kappa
    with jax.enable_x64(False):
        columns = dense_columns(X, "float32")
        wide = spread_masks(columns, np.ones(X.shape, bool), chains)
        tile = lambda value: jnp.broadcast_to(jnp.asarray(value, jnp.float32)[None], (chains, len(value)))  # noqa: E731
        draw = jax.jit(gibbs_gaussian.precision_draw, static_argnums=2)
        weight, offset = draw(
            jax.random.key(0), Conditional(columns, wide, *map(tile, (omega, kappa, precision))), True
        )
    weight, offset = np.asarray(weight, float), np.asarray(offset, float)
    drawn = np.column_stack([weight * scales, offset + weight @ (omega @ X / omega.sum())])
    whitened = (drawn - mean) @ np.linalg.cholesky(np.linalg.inv(covariance))
    assert np.max(np.abs(whitened.mean(axis=0))) < 5 / np.sqrt(chains)
    assert np.max(np.abs(whitened.T @ whitened / chains - np.eye(3))) < 5 * np.sqrt(2 / chains)


@pytest.mark.slow
@pytest.mark.parametrize(("level", "unit"), [(300.0, 1.0), (1e4, 1.0), (0.0, 1e3)])
def test_more_columns_than_rows_cost_no_digits_far_from_zero_or_in_large_units(level, unit):
    """Moments of the outer draw in single precision in units of the posterior: 5 standard errors, and 0.05."""
    generator, chains = np.random.default_rng(0), 4000
    X = level + generator.normal(size=(30, 60)) * np.append([unit, unit], np.ones(58))
    kappa, away = X[:, 5] - level + generator.normal(size=30), X - X.mean(axis=0)
    with jax.enable_x64(False):
        columns = dense_columns(X, "float32")
        tile = lambda value: jnp.broadcast_to(jnp.asarray(value, jnp.float32)[None], (chains, len(value)))  # noqa: E731
        wide, parts = spread_masks(columns, np.ones(X.shape, bool), chains), (np.ones(30), kappa, np.ones(60))
        draw = gibbs_gaussian.outer_draw(jax.random.key(0), Conditional(columns, wide, *map(tile, parts)), True)
    weight, offset = (np.asarray(part, float) for part in draw)
    root = np.linalg.cholesky(away.T @ away + np.eye(60))
    whitened = (weight - np.linalg.solve(root @ root.T, away.T @ kappa)) @ root
    centred = offset + weight @ X.mean(axis=0) - kappa.mean()
    whitened = np.column_stack([whitened, centred * np.sqrt(30)])
    assert np.max(np.abs(whitened.mean(axis=0))) < 5 / np.sqrt(chains) + 0.05
    assert np.max(np.abs(whitened.T @ whitened / chains - np.eye(61))) < 5 * np.sqrt(2 / chains) + 0.05


@pytest.mark.slow
def test_a_factor_that_rounding_decides_is_not_a_number():
    """Equal columns under a prior so wide that the variance of their difference is lost."""
    X = np.repeat(np.random.default_rng(0).normal(size=(300, 1)), 2, axis=1)
    for dtype, is_lost in (("float32", True), ("float64", False)):
        with jax.enable_x64(dtype == "float64"):
            columns, values = dense_columns(X, dtype), (np.ones(300), X[:, 0], np.full(2, 1e-6))
            wide = spread_masks(columns, np.ones(X.shape, bool), 1)
            parts = [jnp.asarray(value[None], dtype) for value in values]
            weight, _ = gibbs_gaussian.precision_draw(jax.random.key(0), Conditional(columns, wide, *parts), True)
            assert bool(jnp.isnan(weight).all()) == is_lost


@pytest.mark.slow
def test_a_row_of_a_weight_above_all_others_fails_no_draw():
    """As piecewise-linear losses have in one draw of thousands: it makes a pivot small, the table does not."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    with jax.enable_x64(False):
        columns, values = dense_columns(X, "float32"), (np.append(1e11, np.ones(299)), X[:, 0], np.ones(2))
        wide = spread_masks(columns, np.ones(X.shape, bool), 1)
        parts = [jnp.asarray(value[None], jnp.float32) for value in values]
        weight, _ = gibbs_gaussian.precision_draw(jax.random.key(0), Conditional(columns, wide, *parts), False)
    assert bool(jnp.isfinite(weight).all())


def gradient_draws(X, kappa, precision, chains, dtype="float32"):
    """Draws of weights and intercept by conjugate gradients, with rows of precision 1."""
    with jax.enable_x64(dtype == "float64"):
        columns = sparse_columns(sparse.csr_array(X), dtype)
        wide = spread_masks(columns, np.ones(X.shape, bool), chains)
        tile = lambda value: jnp.broadcast_to(jnp.asarray(value, dtype)[None], (chains, len(value)))  # noqa: E731
        draw = jax.jit(gibbs_gaussian.gradient_draw, static_argnums=2)
        parts = tile(np.ones(len(X))), tile(kappa), tile(precision)
        return np.column_stack(draw(jax.random.key(0), Conditional(columns, wide, *parts), True)).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0, 1e4])
@pytest.mark.parametrize("scale", [30, 1e4])
def test_the_solver_resolves_weights_of_which_the_data_say_nothing(scale, level):
    """Two equal columns under a wide prior, in single precision: the weights of both, and of their difference.

    Means and second moments in units of the posterior: 5 standard errors each, 6e-7, and 0.02 for rounding.
    """
    generator, chains = np.random.default_rng(0), 4000
    X = generator.random((200, 5)) < [0.2, 0.2, 0.2, 0.5, 0.01]
    X[:, 1] = X[:, 0]
    kappa = 5.0 * X[:, 0] + level + generator.normal(size=200)
    drawn = gradient_draws(X * 1.0, kappa, np.full(5, scale**-2.0), chains)
    half = np.sqrt(0.5)
    turn = np.eye(6)
    turn[:2, :2] = [[half, -half], [half, half]]  # the first coordinate is the difference of the equal columns
    design = np.column_stack([X, np.ones(200)]) @ turn.T
    covariance = np.linalg.inv(design[:, 1:].T @ design[:, 1:] + np.diag([*np.full(4, scale**-2.0), 0]))
    mean, drawn = covariance @ design[:, 1:].T @ kappa, drawn @ turn.T
    whitened = (drawn[:, 1:] - mean) @ np.linalg.cholesky(np.linalg.inv(covariance))
    whitened = np.column_stack([drawn[:, 0] / scale, whitened])
    assert np.max(np.abs(whitened.mean(axis=0))) < 5 / np.sqrt(chains) + 0.02
    assert np.max(np.abs(whitened.T @ whitened / chains - np.eye(6))) < 5 * np.sqrt(2 / chains) + 0.02


@pytest.mark.slow
def test_a_draw_that_rounding_decides_is_not_a_number():
    generator = np.random.default_rng(0)
    X = np.vander(np.linspace(0, 1, 300), 9, increasing=True)[:, 1:]
    kappa = 1000 * np.sin(6 * X[:, 0]) + 10 * generator.normal(size=300)
    equal = np.repeat(generator.random((300, 1)), 2, axis=1)
    for matrix, precision in ((10 * X, 1e-4), (equal, 1e-16)):
        wide = np.full(matrix.shape[1], precision)
        assert np.mean(np.isnan(gradient_draws(matrix, kappa, wide, 50))) > 0.5
    assert np.all(np.isfinite(gradient_draws(10 * X, kappa, np.full(8, 1e-4), 50, "float64")))
    model = bd.Model(bd.Squared(variance=0.01), rates=bd.Fixed(0.0), weight_prior=bd.Normal(100))
    options = {"draws": 5, "tune": 5, "chains": 2, "target": "marginalised", "progress": False}
    with pytest.raises(ValueError, match='dtype="float64"'):
        bd.sample(model, X, kappa / 1000, method=bd.Gibbs(weights="conjugate_gradient"), **options)


@pytest.mark.parametrize("store", [dense_columns, lambda X, dtype: sparse_columns(sparse.csr_array(X), dtype)])
def test_rows_of_every_chain(store):
    """The rows that a chain asks for, in its order, with its own masks; rows of every length, an empty one too."""
    X, chains = skewed(), 3
    X[5] = 0
    generator = np.random.default_rng(1)
    masks = generator.random((chains, *X.shape)) < 0.5
    chosen = np.array([[0, 5, 19, 3], [7, 7, 1, 2], [19, 18, 17, 16]])
    with jax.enable_x64(True):
        columns = store(X, "float64")
        kept = [spread_masks(columns, one, 1) for one in masks]
        together = tuple(jnp.concatenate(parts, axis=1) for parts in zip(*kept, strict=True))
        found = jax.jit(columns.rows)(together, jnp.asarray(chosen, jnp.int32))
    np.testing.assert_array_equal(found, [(X * one)[rows] for one, rows in zip(masks, chosen, strict=True)])


def skewed(n=20, p=9, seed=4):
    """Columns from full to empty, which sparse data cut into several blocks."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, p))
    X[generator.random((n, p)) > np.geomspace(1, 0.05, p)] = 0
    X[:, 3] = 0
    return X


@pytest.fixture
def _no_overhead(monkeypatch):
    """Small columns are cut into blocks as long ones are."""
    for module in (gibbs_columns, interweaving):
        monkeypatch.setattr(module, "partition", partial(gibbs_columns.partition, overhead=0))


@pytest.mark.usefixtures("_no_overhead")
@pytest.mark.slow
@pytest.mark.parametrize("rates", [bd.PerFeature(), bd.PerGroup([0, 0, 1, 1, 2, 1, 0, 2, 2])])
def test_sparse_and_dense_products_agree(rates):
    X = skewed()
    masks = np.random.default_rng(0).random((2, *X.shape)) < 0.5
    with jax.enable_x64(True):
        products = []
        for matrix in (X, sparse.csr_array(X)):
            kernel, operands = bound(bd.Model(bd.Hinge(), rates=rates), bd.Gibbs(dtype="float64"), X=matrix)
            columns = operands.columns
            weight, rate = jnp.stack([jnp.arange(1.0, 10.0), jnp.ones(9)]), jnp.full((2, 9), 0.3)
            kept = tuple(
                jnp.stack([one[0] for one in pair], axis=1)
                for pair in zip(*([(m[:, 0],) for m in spread_masks(columns, mask, 1)] for mask in masks), strict=True)
            )
            data = operands, kernel.likelihood_given(jnp.ones(2))

            @jax.jit
            def everything(kept, columns=columns, data=data, weight=weight, rate=rate):
                ratio, score, _ = mask_pass(*data, weight, jnp.zeros(2), rate, kept, None)
                return score, [
                    ratio,
                    columns.product(kept, weight, 20),
                    columns.transposed_product(kept, score),
                    columns.transposed_product(kept, score, square=True),
                    columns.full_product(weight),
                    columns.full_squared_product(weight),
                    columns.occurrences,
                ]

            score, found = everything(kept)
            np.testing.assert_allclose(score, np.einsum("np,cnp,cp->cn", X, masks, weight), atol=1e-12)
            products.append(found)
        assert len(columns.blocks) > 2
        assert 3 in columns.empty
        for dense, other in zip(*products, strict=True):
            np.testing.assert_allclose(dense, other, atol=1e-10)
