"""Trajectories that are judged by the sum over the masks of each row.

Of statistical tests each statistic is allowed 5 standard errors (5.7e-7 each
under normality): 55 in all, 22 of them by default.
"""

import itertools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logsumexp
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.mcmc.hmc.masks.kernel import Effective, SummedEvaluation
from bayesdrop.mcmc.hmc.rate_slices import draw_rates, has_rates
from bayesdrop.mcmc.run.runner import as_key, run
from bayesdrop.mcmc.scales import natural
from bayesdrop.posterior.masks.row_costs import row_costs

LIMIT = 5.0
REPLICATES, STEPS = 1500, 6
RATES = bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)))


def enumerated(X, y, C, weight, intercept, rate, loss=None):
    """Minus the log-likelihoods (draws, n), all masks of a row summed; by default of the logistic loss."""
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=X.shape[1])))
    with np.errstate(divide="ignore"):
        kept = np.where(masks[None] == 1, np.log1p(-rate)[:, None], np.log(rate)[:, None]).sum(axis=2)
    scores = np.einsum("ip,kp,sp->sik", X, masks, weight) + intercept[:, None, None]
    target = np.broadcast_to(y[:, None], scores.shape)
    cost = np.logaddexp(0.0, -target * scores) if loss is None else loss.value(target, scores, np.zeros_like(scores))
    return -logsumexp(kept[:, None, :] - C * cost, axis=2)


def problem(n=12, p=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, p)) * (generator.random((n, p)) < 0.8)
    return X, np.where(X[:, 0] + generator.normal(size=n) > 0, 1.0, -1.0)


def bind(model, X, y, method, tune=0, weight=None, offset=None):
    data = as_dataset(X, y, weight, binary=True).with_weight().with_offset(offset)
    kernel, operands = method.bind(model, data, model.bind(data.feature_names), tune)
    return (replace(kernel, costs=row_costs) if method.masks == "summed" else kernel), operands


# The draws.


def exact_means(model, X, y, row_weight, draws=250_000):
    """Posterior means of ``statistics`` by importance sampling from the prior, and their standard errors."""
    generator, p = np.random.default_rng(1), X.shape[1]
    rate_map = model.bind([f"x{d}" for d in range(p)])
    weight, intercept = generator.normal(size=(draws, p)), 2.5 * generator.standard_t(4, size=draws)
    free = generator.beta(2.0, 3.0, size=(draws, rate_map.size))
    rate = free[:, rate_map.index]
    effective = weight / (1 - rate) if model.noise.unbiased else weight
    parts = [enumerated(X, y, model.C, *some, model.loss) for some in zip(
        *(np.array_split(part, 100) for part in (effective, intercept, rate)), strict=True)]  # fmt: skip
    log_share = -np.concatenate(parts) @ row_weight + 2.5 * np.log1p((intercept / 2.5) ** 2 / 4)
    share = np.exp(log_share - log_share.max())
    share /= share.sum()
    values = statistics(weight, intercept, free)
    mean = share @ values
    return mean, np.sqrt(share**2 @ (values - mean) ** 2)


def statistics(weight, intercept, rate):
    """Moments of weights and rates and what couples them, (draws, q)."""
    first = weight, weight**2, rate, rate**2, intercept[:, None], rate[:, :1] * weight**2
    return np.concatenate(first, axis=1)


# Large features and C = 2, so that the posterior under normal scores is 0.3 standard deviations away.
CASES = {
    "hinge, shared": (bd.Model(bd.Hinge(), rates=bd.Shared(bd.Beta(2, 3)), C=2.0), None),
    "per feature": (bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)), C=2.0), None),
    "shared, row weights": (bd.Model(rates=bd.Shared(bd.Beta(2, 3)), C=2.0), np.tile([2.0, 1.0, 0.5], 8)),
    "unbiased, groups": (
        bd.Model(noise=bd.Dropout(unbiased=True), rates=bd.PerGroup(["a", "b", "a"], bd.Beta(2, 3)), C=2.0),
        None,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_posterior_means_are_exact(name):
    """Rates that features share are drawn given the weights too, as they are of many features."""
    (model, row_weight), (X, y) = CASES[name], problem(24)
    X = 3 * X
    mean, error = exact_means(model, X, y, np.ones(len(y)) if row_weight is None else row_weight)
    with jax.enable_x64(False):
        kernel, operands = bind(model, sparse.csr_array(X), y, bd.HMC(masks="summed"), 100, row_weight)
        kernel = replace(kernel, inner=replace(kernel.inner, slices=name != "per feature"))
        draws = run(kernel, operands, as_key(0), tune=100, draws=150, chains=64, progress=False).draws
    assert np.mean(draws["acceptance_rate"]) > 0.2
    drawn = {key: np.asarray(part, float).reshape(9600, *part.shape[2:]) for key, part in natural(draws).items()}
    values = statistics(drawn["weight"], drawn["intercept"], drawn["rate"]).reshape(64, 150, -1).mean(axis=1)
    total = np.hypot(values.std(axis=0, ddof=1) / 8, error)
    z = (values.mean(axis=0) - mean) / total
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)


@pytest.mark.slow
def test_rates_given_the_weights_follow_the_density():
    """Two rates of 12,000 chains that share their weights, drawn in turns: moments of the density on a grid."""
    model, (X, y) = bd.Model(rates=bd.PerGroup(["a", "b", "a"], bd.Beta(2, 3))), problem()
    with jax.enable_x64(True):
        kernel, operands = bind(model, 2 * X, y, bd.HMC(dtype="float64"))
        density, data = kernel.density, operands.density
        assert has_rates(density)
        weight = jnp.asarray([1.5, -1.0, 0.5, 0.2])

        def at(u):
            return jnp.concatenate([jnp.broadcast_to(weight[None], (len(u), 4)), u], axis=1)

        grid = np.linspace(-5, 4, 120)
        both = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
        found = jax.jit(density.evaluate)(data, at(jnp.asarray(both)))
        share = np.exp(np.asarray(found.prior) - np.asarray(found.cost).sum(axis=1))
        sweep = jax.jit(lambda key, theta: draw_rates(key, density, data, theta, backwards=False))
        back = jax.jit(lambda key, theta: draw_rates(key, density, data, theta, backwards=True))
        theta = at(jax.random.normal(jax.random.key(0), (12_000, 2)))
        for number in range(8):
            theta = (back if number % 2 else sweep)(jax.random.key(number + 1), theta)
    share /= share.sum()
    np.testing.assert_array_equal(theta[:, :4], np.broadcast_to(weight, (12_000, 4)))

    def moments(u):
        return np.concatenate([u, u**2, u[:, :1] * u[:, 1:]], axis=1)

    drawn, exact = moments(np.asarray(theta)[:, 4:]), share @ moments(both)
    z = (drawn.mean(axis=0) - exact) / (drawn.std(axis=0) / np.sqrt(12_000))
    assert np.max(np.abs(z)) < LIMIT, np.round(z, 1)


def test_what_is_held_of_a_state_is_the_sum_there():
    """Costs are the sums at the position, the density under normal scores is kept beside, and ``lp`` has the sums.

    The scores of all rows have a known part, as an intercept would be.
    """
    X, y = problem()
    with jax.enable_x64(False):
        kernel, operands = bind(RATES, X, y, bd.HMC(masks="summed"), 10, offset=np.full(12, 0.8))
        state = kernel.init(operands, as_key(1), 2)
        for _ in range(12):
            state, record = kernel.step(operands, state)
        theta = kernel.inner.place(operands.chains, state, state.position)
        nearly = kernel.inner.density.evaluate(operands.chains.density, theta)
    weight, intercept, logit = (np.asarray(record[name], float) for name in ("weight", "intercept", "logit_rate"))
    rate = expit(logit)
    expected = enumerated(X, y, 1.0, weight, intercept + 0.8, rate)
    np.testing.assert_allclose(state.evaluation.cost, expected, atol=1e-5)
    np.testing.assert_allclose(state.evaluation.nearly, nearly.cost, atol=1e-5)
    np.testing.assert_allclose(state.evaluation.gradient, nearly.gradient, atol=1e-4)
    assert np.max(np.abs(expected - np.asarray(nearly.cost))) > 1e-3
    # The density recorded is that of the probits.
    prior = -0.5 * np.sum(weight**2, axis=1) + np.sum(
        np.log(rate) + 2 * np.log1p(-rate) + norm.logpdf(norm.ppf(rate)), 1
    )
    np.testing.assert_allclose(np.diff(record["lp"]), np.diff(prior - expected.sum(axis=1)), atol=1e-3)


@pytest.mark.slow
def test_joint_distribution_is_kept():
    """Geweke's joint test (2004): labels given the masks summed, and steps, in turns; false-alarm rate 2e-5."""
    model, (X, y) = bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)), fit_intercept=False), problem(8)
    X, generator, found = sparse.csr_array(1.5 * X), np.random.default_rng(3), ([], [])
    with jax.enable_x64(True):
        kernel, operands = bind(model, X, y, bd.HMC(kicks=2, masks="summed", dtype="float64"))
        blank, inside = kernel.init(operands, as_key(0), 1), operands.chains
        place = jax.jit(lambda theta: (theta - blank.centre[None]) @ jnp.linalg.inv(blank.factor).T)
        evaluate = jax.jit(kernel.inner.density.evaluate)
        for number in range(REPLICATES):
            weight, rate = generator.normal(size=(1, 3)), generator.beta(2.0, 3.0, size=(1, 3))
            label = labels(generator, operands.rows, weight, rate)
            found[0].append(summary(weight, rate, X, label))
            state = blank._replace(key=as_key(number))
            for _ in range(STEPS):
                theta = jnp.asarray(np.concatenate([weight, norm.ppf(rate)], axis=1))
                rows = operands.rows._replace(target=label)
                here = operands._replace(
                    chains=inside._replace(density=inside.density._replace(target=jnp.asarray(label))), rows=rows
                )
                held = evaluate(here.chains.density, theta)
                cost = jnp.asarray(row_costs(rows, Effective(weight, np.zeros(1), 1 - rate, rate)))
                whole = SummedEvaluation(cost, held.prior, held.gradient, held.cost)
                state, record = kernel.step(here, state._replace(position=place(theta), evaluation=whole))
                weight, rate = np.asarray(record["weight"]), expit(np.asarray(record["logit_rate"]))
                label = labels(generator, operands.rows, weight, rate)
            found[1].append(summary(weight, rate, X, label))
    before, after = (np.array(part) for part in found)
    z = (after.mean(axis=0) - before.mean(axis=0)) / np.sqrt((after.var(axis=0) + before.var(axis=0)) / REPLICATES)
    assert np.max(np.abs(z)) < norm.isf(1e-5 / len(z)), np.round(z, 1)


def labels(generator, rows, weight, rate):
    """Each +1 with its probability, all masks summed."""
    cost = row_costs(rows._replace(target=np.ones(8)), Effective(weight, np.zeros(1), 1 - rate, rate))
    return np.where(generator.random(8) < np.exp(-cost[0]), 1.0, -1.0)


def summary(weight, rate, X, label):
    (w,), (r,) = weight, rate
    return [w[0], w[0] ** 2, w[2] ** 2, w[0] * w[1], r[0], r[0] ** 2, r[2], r[0] * w[0] ** 2, np.mean(label * (X @ w))]


# What a user sees.


def quietly(*arguments, **options):
    with pytest.warns(bd.warnings.MixingWarning):
        return bd.sample(*arguments, tune=20, chains=2, progress=False, method=bd.HMC(masks="summed"), **options)


def test_a_resumed_run_is_bit_identical_and_states_no_approximation(tmp_path):
    X, y = problem()
    whole = quietly(RATES, X, y, draws=20)
    quietly(RATES, X, y, draws=8, checkpoint=tmp_path / "run")
    parts = quietly(RATES, X, y, draws=20, checkpoint=tmp_path / "run")
    for name, value in bd.groups.dataset(whole, "posterior").items():
        np.testing.assert_array_equal(value.values, bd.groups.dataset(parts, "posterior")[name].values)
    assert not [name for name in bd.groups.dataset(whole, "posterior").attrs if name.startswith("approximation")]
    with pytest.raises(ValueError, match="they are exact"):
        bd.reweight(whole, X, y)


def test_models_without_a_sum_are_refused():
    model = bd.Model(weight_prior=bd.Normal(bd.HalfNormal(1.0)))
    with pytest.raises(ValueError, match=r'"summed" takes normal weights of known scales and one score.*bd.Gibbs'):
        bd.sample(model, *problem(), method=bd.HMC(masks="summed"), progress=False)


def test_settings_are_checked():
    with pytest.raises(ValueError, match='masks: expected "normal" or "summed"'):
        bd.HMC(masks="exact")
    assert bd.HMC().integrates_masks
    assert not bd.HMC(masks="summed").integrates_masks
