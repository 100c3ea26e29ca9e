"""Learnt scales of normal weights: each conditional, both densities, and the prior; test_calibration.py has draws.

Conditionals are held to quadrature by Kolmogorov-Smirnov tests of independent chains, false-alarm rate 1e-6 each.
Densities are held exactly.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import log_density
from scipy import stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs.moves.scales import draw_along_rays, draw_given_weights
from bayesdrop.hmc.binding import bind_start
from bayesdrop.models import logistic
from bayesdrop.sampling.prior_operands import scale_operands
from bayesdrop.sampling.protocols import natural
from bayesdrop.sampling.run.runner import as_key, run

FALSE_ALARM = 1e-6
GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(size=(14, 3)) * [1.0, 0.5, 2.0]
Y = np.where(X @ [1.0, -1.0, 0.5] + GENERATOR.logistic(size=14) > 0, 1, -1)
GROUPS = ["a", "b", "a"]
LAWS = {bd.HalfNormal: stats.halfnorm, bd.HalfCauchy: stats.halfcauchy}
PLAIN = bd.Fixed(0.0)
GRID = np.linspace(-14, 9, 20_001)


def log_law(prior, log_scale):
    """Log density of ``log σ``, by scipy."""
    return LAWS[type(prior)].logpdf(np.exp(log_scale), scale=prior.scale) + log_scale


def assert_law(draws, log_density):
    """Draws of ``log σ`` against a log density on the grid."""
    density = np.exp(log_density - log_density.max())
    below = np.cumsum(density) / density.sum()
    assert stats.kstest(np.interp(np.asarray(draws, float), GRID, below), "uniform").pvalue > FALSE_ALARM


@pytest.mark.parametrize("prior", [bd.HalfNormal(0.7), bd.HalfCauchy(2.5)])
def test_laws_are_those_of_scipy(prior):
    t = np.linspace(-30, 4, 50)
    law = prior.law(1)
    offset = law.log_density(t) - log_law(prior, t)
    np.testing.assert_allclose(offset, offset[0], rtol=0, atol=1e-9)
    reference = LAWS[type(prior)](scale=prior.scale)
    assert law.median()[0] == pytest.approx(reference.median(), rel=1e-12)
    drawn = prior.sample(np.random.default_rng(0), 20_000, 1)[:, 0]
    assert stats.kstest(drawn, reference.cdf).pvalue > FALSE_ALARM
    assert prior.has_mean == np.isfinite(reference.mean())


@pytest.mark.slow
@pytest.mark.parametrize("prior", [bd.HalfNormal(0.7), bd.HalfCauchy(2.5)])
@pytest.mark.parametrize("weights", [[0.3, -1.0, 2.0], [1e-4, 0.0, -2e-4]])
def test_scales_given_weights(prior, weights):
    unit = np.array([1.0, 2.0, 0.5])
    learnt = bd.Normal(prior, unit=unit).learnt_scale(3)
    expected = log_law(prior, GRID) + sum(
        stats.norm.logpdf(w, scale=np.exp(GRID) * u) for w, u in zip(weights, unit, strict=True)
    )
    operands = scale_operands(learnt, "float32")
    weight = jnp.broadcast_to(jnp.asarray(weights, "float32")[None], (4000, 3))
    step = lambda i, t: draw_given_weights(jax.random.fold_in(jax.random.key(1), i), operands, weight, t)  # noqa: E731
    drawn = jax.jit(lambda t: jax.lax.fori_loop(0, 60, step, t))(jnp.zeros((4000, 1)))
    assert_law(drawn[:, 0], expected)


@pytest.mark.slow
def test_scales_given_directions():
    """Two groups, one fixed; mean and variance of a noised score, the second with the square of the factor."""
    prior, chains, z = bd.HalfNormal(1.5), 4000, np.array([0.7, -1.2, 0.4])
    learnt = bd.Normal(prior, groups=GROUPS).learnt_scale(3)
    operands, start = scale_operands(learnt, "float32"), jnp.log(jnp.full((chains, 2), 0.8))
    features, labels = jnp.asarray(X, "float32"), jnp.asarray(Y, "float32")
    first = 0.8 * jnp.asarray(z, "float32")

    def cost(mean, var, xp, labels):
        return xp.sum(xp.logaddexp(0 * mean, -labels * mean) + 0.125 * var, axis=-1)

    def sweep(i, carry):
        scores, t = carry
        weight = first[None] * jnp.exp(t - start)[:, operands.index]

        def share(mask):
            part = weight * mask[None]
            return part @ features.T, part**2 @ (features**2).T

        everything = share(jnp.ones(3)) if scores is None else scores
        key = jax.random.fold_in(jax.random.key(2), i)
        return draw_along_rays(key, operands, share, lambda s: -cost(*s, jnp, labels[None]), everything, t)

    begin = sweep(0, (None, start))
    scores, drawn = jax.jit(lambda carry: jax.lax.fori_loop(1, 40, sweep, carry))(begin)
    drawn = np.asarray(drawn, float)
    weight = 0.8 * z * (np.exp(drawn) / 0.8)[:, learnt.index]
    np.testing.assert_allclose(scores[0], weight @ X.T, atol=1e-3)
    t = np.linspace(-8, 3, 441)
    first, second = np.meshgrid(t, t, indexing="ij")
    weights = np.stack([np.exp(first) * z[0], np.exp(second) * z[1], np.exp(first) * z[2]], axis=-1)
    mean = weights @ X.T
    # The variance of independent noise is a sum over the groups of the squares within each.
    inside = [np.array([1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0])]
    var = sum((weights * part) ** 2 @ (X**2).T for part in inside)
    joint = log_law(prior, first) + log_law(prior, second) - cost(mean, var, np, Y)
    joint = np.exp(joint - joint.max())
    for j in range(2):
        marginal = np.log(joint.sum(axis=1 - j) + 1e-300)
        assert_law(drawn[:, j], np.interp(GRID, t, marginal, left=-700, right=-700))


def explicit(model, weight, intercept, log_scale):
    """Log joint density of weights, a flat intercept and ``log σ`` at points (S, …), by scipy."""
    learnt = model.weight_prior.learnt_scale(3)
    scale = np.exp(log_scale)[:, learnt.index] * learnt.unit
    score = weight @ X.T + intercept[:, None]
    target = np.broadcast_to(Y, score.shape).astype(float)
    loss = model.C * model.loss.plain.value(target, score, np.zeros_like(score)).sum(axis=1)
    law = stats.halfnorm if isinstance(model.weight_prior.scale, bd.HalfNormal) else stats.halfcauchy
    prior = law.logpdf(np.exp(log_scale), scale=model.weight_prior.scale.scale) + log_scale
    return stats.norm.logpdf(weight, scale=scale).sum(axis=1) + prior.sum(axis=1) - loss


MODELS = {
    "one": bd.Model(rates=PLAIN, weight_prior=bd.Normal(bd.HalfNormal(1.5))),
    "groups": bd.Model(
        bd.Hinge(), rates=PLAIN, C=0.7, weight_prior=bd.Normal(bd.HalfNormal([1.5, 0.4]), groups=GROUPS)
    ),
    "units": bd.Model(rates=PLAIN, weight_prior=bd.Normal(bd.HalfCauchy(0.5), unit=[1.0, 2.0, 0.5])),
}


def test_the_program_states_the_same_density():
    drawn = np.random.default_rng(0).normal(size=(4, 5))
    model = MODELS["one"]
    expected = explicit(model, drawn[:, :3], drawn[:, 3], drawn[:, 4:]) - drawn[:, 4]
    options = {"scale": dist.HalfNormal(1.5), "intercept_scale": None}
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        density = jax.jit(lambda values: log_density(logistic.program, (X, (Y > 0).astype(int)), options, values)[0])
        found = [density({"weight": w[:3], "intercept": w[3], "weight_scale": np.exp(w[4])}) for w in drawn]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_density_and_gradient_of_gradient_samplers(name):
    """Against scipy and the determinant of the map; the slope against autodiff, but where it is rounded."""
    model, points = MODELS[name], np.random.default_rng(3).normal(size=(6, 6))
    with jax.enable_x64(True):
        data = as_dataset(X, Y)
        bound = bind_start("HMC", model, data, model.bind(data.feature_names), True, "float64", "dense", rounded=False)
        g = len(bound.operands.log_scale)
        phi = jnp.asarray(points[:, : 4 + g]) * np.array([0.1, 0.5, 1.0, 1.0, 2.0, 3.0])[:, None]

        def one(point):
            return jnp.concatenate([part[0] for part in bound.density.place(bound.operands, point[None])[:2]])

        def value(point):
            found = bound.density.evaluate(bound.operands, point[None])
            return jnp.sum(found.cost) - jnp.sum(found.prior)

        @jax.jit
        def everything(phi):
            stretch = jnp.linalg.slogdet(jax.vmap(jax.jacobian(one))(phi))[1]
            there = bound.density.evaluate(bound.operands, phi), bound.density.place(bound.operands, phi)
            return *there, stretch, jax.vmap(jax.grad(value))(phi)

        evaluation, (theta, log_scale, _), stretch, slope = everything(phi)
        found = np.asarray(evaluation.prior - jnp.sum(evaluation.cost, axis=1))
    expected = explicit(model, np.asarray(theta[:, :3]), np.asarray(theta[:, 3]), np.asarray(log_scale))
    offset = found - expected - np.asarray(stretch)
    np.testing.assert_allclose(offset, offset[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(evaluation.gradient, slope, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
def test_the_map_decouples_a_gaussian_posterior():
    """One scale and a squared loss: at any scale ζ is standard normal, so that the density depends on δ alone."""
    model = bd.Model(bd.Squared(variance=1.0), rates=PLAIN, weight_prior=bd.Normal(bd.HalfNormal(2.0)))
    with jax.enable_x64(True):
        data = as_dataset(X, X[:, 0] + GENERATOR.normal(size=14), binary=False)
        bound = bind_start("HMC", model, data, model.bind(data.feature_names), True, "float64", "dense")
        zeta, evaluate = np.random.default_rng(0).normal(size=(5, 4)), jax.jit(bound.density.evaluate)
        for delta in (-2.0, 0.0, 1.5):
            at = lambda zeta, delta=delta: np.c_[zeta, np.full(len(zeta), delta)]  # noqa: E731
            evaluation = evaluate(bound.operands, jnp.asarray(at(zeta)))
            value = np.asarray(jnp.sum(evaluation.cost, axis=1) - evaluation.prior) - 0.5 * np.sum(zeta**2, axis=1)
            np.testing.assert_allclose(value, value[0], atol=2e-4)


def draws_of(model, method, chains=64, tune=200, draws=400, seed=3):
    data = as_dataset(X, Y)
    with jax.enable_x64(method.dtype == "float64"):
        kernel, operands = method.bind(model, data, model.bind(data.feature_names), tune, marginalised=True)
        return natural(run(kernel, operands, as_key(seed), tune=tune, draws=draws, chains=chains, progress=False).draws)


@pytest.mark.slow
def test_the_recorded_density_is_that_of_weights_and_scales():
    drawn = draws_of(MODELS["groups"], bd.Gibbs(), draws=5)
    flat = {name: np.asarray(value, float).reshape(320, *value.shape[2:]) for name, value in drawn.items()}
    log_scale = np.log(flat["weight_scale"])
    expected = explicit(MODELS["groups"], flat["weight"], flat["intercept"], log_scale) - log_scale.sum(axis=1)
    offset = flat["lp"] - expected
    np.testing.assert_allclose(offset, offset.mean(), atol=2e-3)


QUICK = {"draws": 20, "tune": 20, "chains": 2, "progress": False}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning")
def test_posterior_and_prior_hold_the_scales(tmp_path):
    prior = bd.Normal(bd.HalfNormal([1.0, 2.0]), groups={"a": [0, 2], "b": [1]}, relative=True)
    model = bd.Model(rates=PLAIN, weight_prior=prior)
    post = bd.sample(model, X, Y, **QUICK)
    posterior, constants = (bd.groups.dataset(post, name) for name in ("posterior", "constant_data"))
    assert posterior["weight_scale"].dims == ("chain", "draw", "weight_group")
    assert posterior["weight_group"].values.tolist() == ["a", "b"]
    assert constants["feature_weight_group"].values.tolist() == ["a", "b", "a"]
    np.testing.assert_allclose(constants["weight_unit"], 1 / X.std(axis=0))
    assert constants["weight_scale_half_normal"].values.tolist() == [1, 2]
    bd.groups.save(post, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    np.testing.assert_allclose(bd.predict(again, X).mean, bd.predict(post, X).mean, rtol=1e-12)
    assert bd.diagnose(post).r_hat is not None
    drawn = bd.groups.dataset(bd.prior_draws(model, X, draws=4000, intercept_scale=2.0), "prior")
    assert drawn["weight_scale"].dims == ("chain", "draw", "weight_group")
    z = drawn["weight"].values[0] / drawn["weight_scale"].values[0][:, [0, 1, 0]] * X.std(axis=0)
    for j in range(3):
        assert stats.kstest(z[:, j], "norm").pvalue > FALSE_ALARM
    assert stats.kstest(drawn["weight_scale"].values[0, :, 1], stats.halfnorm(scale=2).cdf).pvalue > FALSE_ALARM


def learnt(**options):
    return bd.Normal(bd.HalfNormal(1.0), **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bd.Normal(1.0, groups=["a"]), "Normal groups: expected only with a learnt scale"),
        (lambda: bd.Normal(1.0, unit=2.0), "Normal unit: expected only with a learnt scale"),
        (lambda: learnt(groups=["a", "b"]).check(3), "one group label per feature, 3 in all, got 2"),
        (lambda: learnt(groups={"a": [0, 1]}).check(3), "1 of 3 columns are in no group"),
        (lambda: learnt(groups={"a": [0, 1, 2], "b": []}).check(3), "group 'b' has no feature"),
        (lambda: learnt(unit=[1.0, 2.0]).check(3), "Normal unit: expected one number or 3"),
        (lambda: bd.Normal(bd.HalfNormal([1.0, 2.0])).check(3), r"expected one number or 1 .*per group"),
        (lambda: learnt(relative=True).precision(3), "learnt together with the weights"),
        (lambda: learnt().log_density(np.zeros(3)), "no closed form"),
        (lambda: learnt().sample_precision(None, None, ()), "nothing to draw"),
        (lambda: bd.fit(bd.Model(weight_prior=learnt()), X, Y), "scale goes to 0.*bd.Normal"),
        (lambda: bd.variational(bd.Model(weight_prior=learnt()), X, Y), "weight_prior: .*bd.sample"),
        (lambda: bd.sample(bd.Model(weight_prior=learnt(groups=["a"])), X, Y, **QUICK), "3 in all, got 1"),
        (
            lambda: bd.sample(
                bd.Model(weight_prior=bd.Normal(bd.HalfCauchy(1.0)), rates=PLAIN), [[0.0], [1.0]], [0, 1], **QUICK
            ),
            r"separate the two classes.*bd\.HalfNormal",
        ),
        (lambda: bd.WeightsBlock(bd.Model(rates=PLAIN, weight_prior=learnt()), X, Y), "no known scales"),
    ],
)
def test_errors_say_what_to_do(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()
