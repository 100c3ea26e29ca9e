"""Draws of scales, variances and groups against their laws, no chain of masks run.

Either against the conditional in closed form, or: what is drawn from the joint law and moved once still has it. Both by
Kolmogorov-Smirnov tests at 2e-5 each (about 40 of them: a correct sampler fails with probability below 1e-3).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import expit, logit

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.gibbs import weights as gibbs_gaussian
from bayesdrop.gibbs.moves.scales import draw_groups, log_beta_density
from bayesdrop.gibbs.moves.state import hierarchy_operands
from bayesdrop.priors import WeightPrior
from bayesdrop.priors.horseshoe import HorseshoeScales

FALSE_ALARM = 2e-5
DTYPES = ["float32", "float64"]


def assert_law(draws, cdf):
    assert stats.kstest(np.asarray(draws, float).ravel(), cdf).pvalue > FALSE_ALARM


def assert_same_law(draws, others):
    assert stats.ks_2samp(np.asarray(draws, float).ravel(), np.asarray(others, float).ravel()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("prior", [bd.Normal(2.0), bd.Laplace([0.5, 1.0, 2.0]), bd.Horseshoe(0.3)])
def test_priors_keep_the_protocol(prior):
    assert isinstance(prior, WeightPrior)
    assert np.all(np.isfinite(prior.first_precision(3)))
    aux = prior.init(jax.random.key(0), 2, 3, "float32")
    assert all(leaf.shape[0] == 2 for leaf in jax.tree.leaves(aux))
    assert all(value.shape == (2,) for value in prior.record(aux).values())
    weight, found = prior.sample_weight(np.random.default_rng(0), 5, 3)
    assert weight.shape == (5, 3)
    assert found.keys() == prior.record(aux).keys()
    assert all(value.shape == (5,) for value in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_laplace_scales_given_weights(dtype):
    """``1/τ² ~ IG(1/(b|w|), 1/b²)`` (Park & Casella 2008); at w = 0 ``τ²/b²`` is a chi-square with one degree."""
    with jax.enable_x64(dtype == "float64"):
        for weight, b in ((0.7, 0.5), (-3.0, 2.0), (1e-3, 1.0)):
            aux = bd.Laplace(b).init(jax.random.key(0), 20_000, 1, dtype)
            precision, _ = bd.Laplace.sample_precision(jax.random.key(1), jnp.full((20_000, 1), weight, dtype), aux)
            assert precision.dtype == dtype
            mean, shape = 1 / (b * abs(weight)), 1 / b**2
            assert_law(precision, stats.invgauss(mean / shape, scale=shape).cdf)
        aux = bd.Laplace(2.0).init(jax.random.key(0), 20_000, 1, dtype)
        precision, _ = bd.Laplace.sample_precision(jax.random.key(2), jnp.zeros((20_000, 1), dtype), aux)
    assert_law(1 / (4 * np.asarray(precision, float)), stats.chi2(1).cdf)


def horseshoe_prior(key, chains, p, scale, dtype):
    """Weights and all scales from the joint law."""
    keys = jax.random.split(key, 5)
    inverse = lambda key, shape: 1 / jax.random.gamma(key, 0.5, shape, dtype)  # noqa: E731
    local_mixing, shared_mixing = inverse(keys[0], (chains, p)), inverse(keys[1], (chains,))
    local, shared = inverse(keys[2], (chains, p)) / local_mixing, inverse(keys[3], (chains,)) / shared_mixing
    weight = jax.random.normal(keys[4], (chains, p), dtype) * jnp.sqrt(local * shared[:, None]) * scale
    return weight, HorseshoeScales(local, local_mixing, shared, shared_mixing, jnp.full(chains, scale, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_horseshoe_weights_and_scales_keep_their_joint_law(dtype):
    """Every half-Cauchy scale is one before and after, and so are products of scales and weights."""
    with jax.enable_x64(dtype == "float64"):
        joint = jax.jit(lambda key: horseshoe_prior(key, 40_000, 3, 0.3, dtype))
        weight, aux = joint(jax.random.key(0))
        precision, new = jax.jit(bd.Horseshoe.sample_precision)(jax.random.key(1), weight, aux)
        other_weight, other = joint(jax.random.key(2))
        recorded = bd.Horseshoe.record(new)["global_scale"]
    assert precision.dtype == dtype
    assert np.all(np.isfinite(precision))
    assert_law(recorded, stats.halfcauchy(scale=0.3).cdf)
    assert_law(np.sqrt(new.local[:, 1]), stats.halfcauchy.cdf)
    log = lambda x: np.log(np.asarray(x, float))  # noqa: E731
    size = lambda w: log(np.abs(w) + 1e-30)  # noqa: E731
    assert_same_law(log(precision[:, 0]), -log(other.local[:, 0]) - log(other.shared) - 2 * np.log(0.3))
    assert_same_law(size(weight[:, 0]) - log(new.shared), size(other_weight[:, 0]) - log(other.shared))
    assert_same_law(size(weight[:, 2]) - log(new.local[:, 2]), size(other_weight[:, 2]) - log(other.local[:, 2]))


@pytest.mark.slow
def test_extreme_weights_give_finite_precisions():
    weight = jnp.asarray([[0.0, 1e-30, 1e4, 1e12]])
    for prior in (bd.Laplace(1.0), bd.Horseshoe(1.0)):
        aux, draw = prior.init(jax.random.key(0), 1, 4, "float32"), jax.jit(prior.sample_precision)
        for i in range(200):
            precision, aux = draw(jax.random.key(i), weight, aux)
            assert np.all(np.isfinite(precision))
            assert np.all(np.asarray(precision) > 0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_variance_given_scores(dtype):
    """``σ² ~ InverseGamma(a + ½Σs, b + ½Σs (y − score)²)``, after slices from a start far away."""
    X, y = np.random.default_rng(0).normal(size=(9, 2)), np.random.default_rng(1).normal(size=9)
    s = np.array([2.0, 1.0, 0.5] * 3)
    model = bd.Model(bd.Squared(variance=bd.InverseGamma(2.0, 0.7)), rates=bd.Fixed(0.0))
    data = as_dataset(X, y, s, None, False)
    with jax.enable_x64(dtype == "float64"):
        kernel, operands = bd.Gibbs(dtype=dtype).bind(model, data, model.bind(data.feature_names), 0)
        state = jax.jit(kernel.init, static_argnums=2)(operands, jax.random.key(0), 20_000)
        score = np.linspace(-1, 1, 9)
        state = state._replace(score=jnp.broadcast_to(jnp.asarray(score, dtype)[None], (20_000, 9)))
        step = jax.jit(lambda state, key: kernel._draw_priors(operands, state, key))
        for i in range(12):
            state = step(state, jax.random.key(i))
        drawn = state.noise_precision
    assert drawn.dtype == dtype
    shape, scale = 2 + 0.5 * s.sum(), 0.7 + 0.5 * np.sum(s * (y - score) ** 2)
    assert_law(1 / np.asarray(drawn, float), stats.invgamma(shape, scale=scale).cdf)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "accuracy"), [("float32", 2e-3), ("float64", 1e-9)])
def test_beta_density_of_a_group(dtype, accuracy):
    """Against scipy, up to strengths where the plain formula loses all digits in single precision."""
    with jax.enable_x64(dtype == "float64"):
        for strength in (1e-2, 0.5, 2.0, 7.9, 8.1, 50.0, 2e3, 3e4):
            for mean in (0.02, 0.5, 0.9):
                a, b = mean * strength, (1 - mean) * strength
                rate = np.clip(stats.beta(a, b).ppf([0.1, 0.5, 0.9]), 1e-3, 0.999).astype(dtype)
                wide = lambda x: jnp.full(3, x, dtype)  # noqa: E731
                group = wide(np.log(mean) - np.log1p(-mean)), wide(np.log(strength))
                found = np.asarray(log_beta_density(jnp.asarray(logit(rate)), *group), float)
                rate = expit(logit(rate).astype(float))
                exact = stats.beta(a, b).logpdf(rate) + np.log(rate) + np.log1p(-rate)
                np.testing.assert_allclose(found, exact, rtol=accuracy, atol=accuracy)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("mean_prior", "strength_prior"), [((2, 3), (3.0, 2.0)), ((0.05, 0.2), (0.3, 10.0))])
def test_groups_and_rates_keep_their_joint_law(dtype, mean_prior, strength_prior):
    """One step from exact draws. With small shapes most of the means and rates lie within 1e-7 of 0 or 1."""
    chains, names = 20_000, [f"x{d}" for d in range(5)]
    rates = bd.Hierarchical(["a", "a", "b", "a", "b"], bd.Beta(*mean_prior), bd.Gamma(*strength_prior))
    with jax.enable_x64(dtype == "float64"):
        operands = hierarchy_operands(rates.bind(names).hierarchy, dtype)

        generator = np.random.default_rng(0)

        def log_gamma(shape):
            """``log G`` of a Gamma variable of any shape: ``G(a)`` is ``G(a + 1)`` times a uniform one to ``1/a``."""
            shape = np.broadcast_to(shape, (chains, np.shape(shape)[-1]))
            return np.log(generator.gamma(shape + 1)) - generator.standard_exponential(shape.shape) / shape

        def prior():
            mean = log_gamma([mean_prior[0]] * 2) - log_gamma([mean_prior[1]] * 2)
            strength = log_gamma([strength_prior[0]] * 2) + np.log(strength_prior[1])
            # The law of the rates stays as it is beyond these; see the module.
            held, size = np.clip(mean, -40, 40), np.clip(strength, -30, 30)
            a, b = (np.exp(size - np.logaddexp(0, -sign * held))[:, operands.index] for sign in (1, -1))
            return tuple(jnp.asarray(part, dtype) for part in (log_gamma(a) - log_gamma(b), mean, strength))

        rate, mean, strength = prior()
        new_mean, new_strength = jax.jit(draw_groups)(jax.random.key(1), operands, rate, mean, strength)
        other_rate, other_mean, other_strength = prior()
    assert np.mean(np.asarray(new_mean != mean)) > 0.99
    for j in range(2):
        assert_law(expit(np.asarray(new_mean[:, j], float)), stats.beta(*mean_prior).cdf)
        assert_law(
            np.exp(np.asarray(new_strength[:, j], float)), stats.gamma(strength_prior[0], scale=strength_prior[1]).cdf
        )
    assert_same_law(rate[:, 2] - new_mean[:, 1], other_rate[:, 2] - other_mean[:, 1])
    spread = lambda rate, strength: jnp.log(jnp.abs(rate[:, 0] - rate[:, 3])) + strength[:, 0]  # noqa: E731
    assert_same_law(spread(rate, new_strength), spread(other_rate, other_strength))


X, Y = np.random.default_rng(0).normal(size=(20, 3)), np.where(np.arange(20) % 3 > 0, 1, -1)


@pytest.mark.parametrize(
    ("model", "y", "words"),
    [
        (bd.Model(weight_prior=bd.Horseshoe(1.0)), Y, "bd.sample draws"),
        (bd.Model(rates=bd.Hierarchical(["a", "a", "b"])), Y, "bd.PerGroup"),
    ],
)
def test_point_fits_say_what_takes_the_model(model, y, words):
    with pytest.raises(ValueError, match=words):
        bd.fit(model, X, y)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bd.Squared(variance=0.0), "variance: expected a finite number above 0, got 0.0; leave it out"),
        (lambda: bd.Quantile(0.5, -2.0), "scale: expected a finite number above 0, got -2.0"),
        (lambda: bd.Hierarchical(["a"], strength_prior=3.0), "bd.Gamma"),
        (lambda: bd.Hierarchical(["a"], bd.Beta.from_mode(0.2, relative_strength=1.0)), "relative"),
        (lambda: bd.Hierarchical(["a"]).bind(["x", "y"]), "one group label per feature"),
        (lambda: bd.Gibbs(weights="lu"), "woodbury"),
        (lambda: bd.sample(bd.Model(weight_prior=bd.Laplace([1.0, 2.0])), X, Y), "3 of them"),
        (lambda: bd.sample(bd.Model(), sparse.csr_array(X), Y, method=bd.Gibbs(weights="woodbury")), "sparse"),
    ],
)
def test_errors_name_the_argument(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_posterior_names_groups_and_priors():
    model = bd.Model(
        bd.Squared(variance=bd.InverseGamma(3.0, 1.0)),
        rates=bd.Hierarchical({"one": ["x0", "x2"], "two": ["x1"]}),
        weight_prior=bd.Horseshoe(0.5),
    )
    with pytest.warns(UserWarning, match="R-hat|effective|draws"):
        post = bd.sample(
            model, X, X.sum(axis=1), method=bd.Gibbs(joint_moves=0), draws=10, tune=10, chains=2, progress=False
        )
    posterior, constant = (bd.groups.dataset(post, name) for name in ("posterior", "constant_data"))
    assert posterior["rate"].dims == ("chain", "draw", "feature")
    assert posterior["group_rate"].dims == posterior["group_strength"].dims == ("chain", "draw", "group")
    assert posterior["group"].values.tolist() == ["one", "two"]
    assert posterior["sigma"].dims == posterior["global_scale"].dims == ("chain", "draw")
    assert constant["feature_group"].values.tolist() == ["one", "two", "one"]
    assert "rate_prior_a" not in constant
    assert float(constant["group_strength_prior_scale"]) == 10
    assert float(constant["sigma_prior_inverse_gamma_shape"]) == 3
    assert bd.plots.rates_forest(post).get_xlabel()


@pytest.mark.parametrize(("weights", "name"), list(gibbs_gaussian.DRAWS.items()))
def test_the_draw_of_the_weights_can_be_chosen(weights, name):
    model, data = bd.Model(), as_dataset(X, Y)
    kernel, _ = bd.Gibbs(weights=weights).bind(model, data, model.bind(data.feature_names), 0)
    assert kernel.gaussian_draw is name
