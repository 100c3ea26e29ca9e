"""Scales and shapes of a likelihood that are learnt: densities, slopes, draws, fits, predictions and units."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density
from scipy import stats
from scipy.optimize import approx_fprime, minimize
from scipy.special import gammaln

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.losses import normal_score
from bayesdrop.models import count_laws, counts, quantile, ridge
from bayesdrop.posterior.problem import Problem

FALSE_ALARM = 1e-4
RNG = np.random.default_rng(11)
N, P = 60, 2
X = RNG.normal(size=(N, P))
SCORE = X @ [1.0, -0.5] + 0.3
NUMBERS = 3 * (SCORE + 0.6 * RNG.normal(size=N))
COUNTS = RNG.poisson(np.exp(SCORE) * RNG.gamma(2.0, size=N) / 2).astype(float)
NONE = bd.Fixed(0.0)
CASES = {"squared": (bd.Squared(), NUMBERS), "quantile": (bd.Quantile(0.8), NUMBERS)}
CASES["counts"] = (bd.NegativeBinomial(), COUNTS)
QUIET = {"progress": False, "chains": 4}
# Of XLA for autodiff, as by default: the suite asks it to compile quickly, and nought times infinity then stays.
THOROUGH = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True}


@pytest.fixture
def _numpyro_promotion():
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        yield


def bound(loss, y, rates=NONE, noise=None, **options):
    """Density and operands of a model in double precision."""
    model = bd.Model(loss, bd.Dropout() if noise is None else noise, rates, **options)
    data = as_dataset(X, y, binary=False)
    rate_map = model.bind(data.feature_names)
    marginalised = not rate_map.is_free
    kernel, operands = bd.HMC(dtype="float64").bind(model, data, rate_map, 10, marginalised=marginalised)
    return kernel.density, operands.density


def points(density, count=6):
    size = P + density.fit_intercept + 1 + density.free
    return jnp.asarray(np.random.default_rng(3).normal(scale=0.7, size=(count, size)))


def program_of(kind, y):
    """Log density of the program at a weight, an intercept and the logarithm of what is learnt."""
    rows, y = jnp.asarray(X), jnp.asarray(y)
    flat = {"intercept_scale": None}

    def of_scale(program, **options):
        law = numpyro_half_normal(1.0)

        def at(weight, intercept, t):
            values = {"weight": weight, "intercept": intercept, "sigma": jnp.exp(t)}
            return log_density(program, (rows, y), {"sigma": law, **flat, **options}, values)[0] + t

        return at

    def of_shape(weight, intercept, t):
        values = {"weight": weight, "intercept": intercept, "overdispersion": jnp.exp(-0.5 * t)}
        options = {"law": count_laws.overdispersed, **flat}
        return log_density(counts.program, (rows, y), options, values)[0] - 0.5 * t

    if kind == "counts":
        return of_shape
    return of_scale(ridge.program) if kind == "squared" else of_scale(quantile.program, tau=0.8)


def numpyro_half_normal(scale):
    import numpyro.distributions as dist

    return dist.HalfNormal(scale)


@pytest.mark.usefixtures("_numpyro_promotion")
@pytest.mark.parametrize("kind", CASES)
def test_the_density_is_that_of_the_program(kind):
    """Of weights, intercept and the logarithm of what is learnt, up to one constant, at random points."""
    with jax.enable_x64(True):
        density, operands = bound(*CASES[kind])
        theta = points(density)
        found = jax.jit(density.evaluate)(operands, theta)
        weight, intercept = density.weights(operands, theta)
        at = jax.jit(program_of(kind, CASES[kind][1]))
        theirs = [at(w, b, t) for w, b, t in zip(weight, intercept, density.log_parameter(theta), strict=True)]
        difference = np.asarray(found.prior - jnp.sum(found.cost, axis=1)) - np.asarray(theirs)
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("rates", [NONE, bd.Fixed(0.3), bd.PerFeature(bd.Beta(2, 3))], ids=["plain", "inside", "masks"])
@pytest.mark.parametrize("kind", CASES)
def test_slopes_are_those_of_the_density(kind, rates, monkeypatch):
    """Against central differences of the value; smooth forms, as quantiles have kinks without noise.

    The nodes of counts with masks move with the point, and slopes are those at constant nodes: here about the mean.
    """
    loss, y = CASES[kind]
    monkeypatch.setattr(normal_score, "_mode", lambda loss, y, mean, *_: (0 * mean, 1 + 0 * mean))
    with jax.enable_x64(True):
        density, operands = bound(loss, y, rates)
        operands = operands._replace(width=None)
        evaluate, step = jax.jit(density.evaluate, compiler_options=THOROUGH), 1e-5
        for row in np.asarray(points(density, 2)):
            aside = step * np.eye(len(row))
            found = evaluate(operands, jnp.asarray(np.vstack([row[None], row + aside, row - aside])))
            value = np.asarray(jnp.sum(found.cost, axis=1) - found.prior)
            up, down = np.split(value[1:], 2)
            np.testing.assert_allclose(found.gradient[0], (up - down) / (2 * step), rtol=2e-5, atol=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_gibbs_draws_what_is_learnt_from_its_conditional(kind):
    """Given scores, from a start far away, without an intercept: the law on a grid; false-alarm rate 1e-4 each."""
    loss, y = CASES[kind]
    y = y / 3 if kind != "counts" else y
    model = bd.Model(loss, rates=bd.Fixed(0.2), fit_intercept=False)
    data, chains = as_dataset(X, y, binary=False), 4000
    with jax.enable_x64(True):
        kernel, operands = bd.Gibbs(dtype="float64").bind(model, data, model.bind(data.feature_names), 0)
        state = jax.jit(kernel.init, static_argnums=2)(operands, jax.random.key(0), chains)
        state = state._replace(score=jnp.broadcast_to(jnp.asarray(SCORE)[None], (chains, N)))
        step = jax.jit(lambda state, key: kernel._draw_priors(operands, state, key))
        for i in range(15):
            state = step(state, jax.random.key(i))
        drawn = np.asarray(state.log_parameter)
    grid = np.linspace(-6, 8, 4001)
    value = np.exp(grid)
    residual = y - SCORE
    if kind == "squared":
        log_law = stats.norm.logpdf(residual, scale=value[:, None]).sum(axis=1) + stats.halfnorm.logpdf(value) + grid
    elif kind == "quantile":
        check = np.maximum(0.8 * residual, -0.2 * residual).sum()
        log_law = -N * grid - check / value + stats.halfnorm.logpdf(value) + grid
    else:
        log_law = stats.nbinom.logpmf(y, value[:, None], 1 / (1 + np.exp(SCORE))).sum(axis=1)
        log_law += stats.halfnorm.logpdf(value**-0.5) - 0.5 * grid
    share = np.exp(log_law - log_law.max())
    law = np.cumsum(share) / share.sum()
    assert stats.kstest(drawn, lambda t: np.interp(t, grid, law)).pvalue > FALSE_ALARM


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["squared", "quantile"])
@pytest.mark.parametrize("rates", [NONE, bd.PerFeature(bd.Beta(1, 5))], ids=["plain", "masks"])
def test_the_unit_of_the_response_does_not_matter(kind, rates):
    """The same numbers times 1,024, from one seed: means equal to a millionth of a posterior standard deviation."""
    loss, y = CASES[kind]
    found = []
    for unit in (1.0, 1024.0):
        method = bd.HMC(dtype="float64", correct=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few draws
            post = bd.sample(
                bd.Model(loss, rates=rates), X, unit * y, method=method, draws=60, tune=60, seed=4, **QUIET
            )
        posterior = bd.groups.dataset(post, "posterior")
        assert post.attrs["response_spread"] == pytest.approx(unit * np.std(y))
        found.append({name: posterior[name] / unit for name in ("weight", "intercept", "sigma")})
        assert float(bd.groups.dataset(post, "constant_data")["sigma_prior_half_normal_scale"]) == pytest.approx(
            unit * np.std(y)
        )
    for name, here in found[0].items():
        apart = np.abs(here.mean(("chain", "draw")) - found[1][name].mean(("chain", "draw")))
        assert np.all(apart <= 1e-6 * here.std(("chain", "draw")))


@pytest.mark.slow
def test_intervals_cover_where_the_unit_is_none_of_one():
    """A straight line of a spread of fifty: its slope is found, and nine of ten responses lie in their intervals."""
    rng = np.random.default_rng(0)
    days = np.repeat(np.arange(10.0), 18)
    data = {"days": days, "time": 250 + 10.5 * days + 48 * rng.normal(size=180)}
    post = bd.sample("time ~ days", data, draws=500, seed=0, **QUIET)
    posterior = bd.groups.dataset(post, "posterior")
    slope, level = np.polyfit(days, data["time"], 1)
    residual = data["time"] - level - slope * days
    sd = np.sqrt(residual @ residual / 178 / np.sum((days - days.mean()) ** 2))
    assert abs(float(posterior["weight"].mean()) - slope) < 0.2 * sd
    assert 0.9 < float(posterior["weight"].std()) / sd < 1.1
    assert abs(float(posterior["sigma"].mean()) / np.sqrt(residual @ residual / 178) - 1) < 0.05
    for found in (bd.predict(post, data), bd.predict(bd.fit("time ~ days", data), data)):
        inside = (data["time"] > found.response_low) & (data["time"] < found.response_high)
        assert 0.84 < inside.mean() < 0.96


@pytest.mark.slow
def test_predictions_and_scores_take_each_draw_s_value():
    """Log-likelihoods of given draws are those of scipy; expected counts and simulated ones follow."""
    rng = np.random.default_rng(5)
    for kind, (loss, y) in CASES.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few draws
            post = bd.sample(
                bd.Model(loss, rates=NONE), X, y, draws=20, tune=50, seed=0, progress=False, chains=2,
                method=bd.HMC(dtype="float64"), log_likelihood=True,
            )  # fmt: skip
        posterior = bd.groups.dataset(post, "posterior")
        score = np.einsum("cdp,np->cdn", posterior["weight"].values, X) + posterior["intercept"].values[..., None]
        value = posterior[loss.parameters[0].name].values[..., None]
        if kind == "squared":
            expected, mean = stats.norm.logpdf(y, score, value), score
        elif kind == "quantile":
            residual = y - score
            expected = np.log(0.16 / value) - np.maximum(0.8 * residual, -0.2 * residual) / value
            mean = score
        else:
            expected, mean = stats.nbinom.logpmf(y, value, 1 / (1 + np.exp(score))), value * np.exp(score)
        stored = bd.groups.dataset(post, "log_likelihood")["y"].values
        np.testing.assert_allclose(stored, expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(bd.predict(post, X).mean, mean.mean(axis=(0, 1)), rtol=1e-8)
        many = np.concatenate(
            [
                bd.groups.dataset(bd.posterior_predictive(post, X, seed=int(s)), "posterior_predictive")["y"].values
                for s in rng.integers(1 << 30, size=40)
            ]
        )
        if kind != "quantile":
            variance = np.mean(value**2 + 0 * mean if kind == "squared" else mean + mean**2 / value)
            variance += np.mean(np.var(mean, axis=(0, 1)))
            got = np.var(many, axis=(0, 1)).mean()
            assert abs(got / variance - 1) < 0.1
        names = bd.groups.dataset(bd.log_prior(post), "log_prior").data_vars
        assert loss.parameters[0].name in names


@pytest.mark.parametrize("rates", [NONE], ids=["plain"])
def test_a_fitted_dispersion_is_the_maximum_of_the_likelihood(rates):
    """At rate 0 and hardly a penalty: weights and dispersion of a minimiser of one's own."""
    fit = bd.fit(bd.Model(bd.NegativeBinomial(), rates=rates, weight_prior=bd.Normal(1e3)), X, COUNTS)

    def energy(theta):
        r, score = np.exp(theta[-1]), X @ theta[:P] + theta[P]
        loss = (COUNTS + r) * np.logaddexp(0, score) - COUNTS * score - gammaln(COUNTS + r) + gammaln(r)
        return loss.sum() + 0.5 * np.sum(theta[:P] ** 2) / 1e6

    found = minimize(energy, np.zeros(P + 2), method="BFGS", options={"gtol": 1e-10}).x
    for _ in range(4):  # Newton's method on differences
        hessian = approx_fprime(found, lambda at: approx_fprime(at, energy, 1e-5), 1e-4)
        slope = np.array([(energy(found + h) - energy(found - h)) / 2e-4 for h in 1e-4 * np.eye(P + 2)])
        found = found - np.linalg.solve(hessian, slope)
    assert fit.model.loss.dispersion == pytest.approx(np.exp(found[-1]), rel=1e-6)
    np.testing.assert_allclose([*fit.weight, fit.intercept], found[:-1], atol=1e-6)
    assert "dispersion" in str(fit)


def test_counts_that_vary_as_poisson_counts_say_so():
    from sklearn.exceptions import ConvergenceWarning

    even = np.repeat([2.0, 3.0], N // 2)
    with pytest.warns(ConvergenceWarning, match=r"no more than Poisson counts; take bd\.Poisson\(\)"):
        bd.fit(bd.Model(bd.NegativeBinomial(), rates=NONE), X, even)


def test_a_fit_reports_the_variance_of_its_residuals(tmp_path):
    """Of least squares over ``n − p − 1``; of a ridge over ``n`` less the trace of its hat matrix; files keep it."""
    plain = bd.fit(bd.Model(bd.Squared(), rates=NONE, weight_prior=bd.Normal(1e6)), X, NUMBERS)
    design = np.column_stack([X, np.ones(N)])
    residual = NUMBERS - design @ np.linalg.lstsq(design, NUMBERS)[0]
    assert plain.sigma**2 == pytest.approx(residual @ residual / (N - P - 1), rel=1e-6)
    covariance = np.linalg.inv(design.T @ design) * plain.sigma**2
    np.testing.assert_allclose(plain.covariance, covariance, rtol=1e-6)
    ridge_fit = bd.fit(bd.Model(bd.Squared(), rates=NONE, C=0.05), X, NUMBERS)
    penalty = np.diag([1.0, 1.0, 0.0]) / 0.05
    hat = design @ np.linalg.solve(design.T @ design + penalty, design.T)
    residual = NUMBERS - hat @ NUMBERS
    assert ridge_fit.sigma**2 == pytest.approx(residual @ residual / (N - np.trace(hat)), rel=1e-6)
    ridge_fit.save(tmp_path / "fit.nc")
    assert bd.Fit.load(tmp_path / "fit.nc").sigma == pytest.approx(ridge_fit.sigma)
    check = bd.fit(bd.Model(bd.Quantile(0.8), rates=NONE), X, NUMBERS)
    residual = NUMBERS - X @ check.weight - check.intercept
    assert check.sigma == pytest.approx(np.mean(np.maximum(0.8 * residual, -0.2 * residual)))
    assert bd.fit(bd.Model(bd.Squared(variance=1.0), rates=NONE), X, NUMBERS).sigma is None


@pytest.mark.slow
@pytest.mark.parametrize(("variance", "wrong"), [(1e-3, True), (3.0, False), (2e3, True)])
def test_a_response_that_its_likelihood_does_not_allow_is_a_problem(variance, wrong):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = bd.Model(bd.Squared(variance=variance), rates=NONE, weight_prior=bd.Normal(10.0))
        post = bd.sample(model, X, NUMBERS, draws=400, seed=0, **QUIET)
    texts = [problem.text for problem in bd.diagnose(post).problems]
    assert any("times as much about their scores as their likelihood says" in text for text in texts) == wrong


def test_a_fixed_variance_is_a_weight_of_the_loss():
    """``variance=v`` is the energy of ``C = 1/v``, in fits and posteriors."""
    both = (0.25, 1.0), (1.0, 4.0)
    models = [bd.Model(bd.Squared(variance=variance), rates=bd.Fixed(0.2), C=C) for variance, C in both]
    one, other = (bd.fit(model, X, NUMBERS) for model in models)
    np.testing.assert_allclose(one.weight, other.weight, rtol=1e-6)
    np.testing.assert_allclose(one.objective_trace[-1], other.objective_trace[-1], rtol=1e-9)
    plain = bd.Quantile(0.3).plain_value_and_slope(NUMBERS, SCORE)
    for scale in (0.5, 2.0):
        for part, whole in zip(bd.Quantile(0.3, scale).plain_value_and_slope(NUMBERS, SCORE), plain, strict=True):
            np.testing.assert_allclose(scale * part, whole)


def test_priors_of_one_s_own_are_in_units_of_the_response():
    """A prior that is given is not moved; the default is that of the response's spread."""
    model = bd.Model(bd.Squared(variance=bd.HalfCauchy(2.0)), rates=NONE, weight_prior=bd.Normal([1.0, 2.0]))
    problem = Problem.of(model, X, NUMBERS)
    assert problem.centring.original_model.loss.variance.scale == 2.0
    assert problem.centring.model.loss.variance.scale == pytest.approx(2.0 / np.std(NUMBERS))
    np.testing.assert_allclose(problem.centring.model.weight_prior.scale, np.array([1.0, 2.0]) / np.std(NUMBERS))
    default = Problem.of(bd.Model(bd.Squared(), rates=NONE), X, NUMBERS)
    assert default.centring.original_model.weight_prior.scale == pytest.approx(np.std(NUMBERS))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bd.sample(bd.Model(bd.Squared(), C=4.0), X, NUMBERS), r"C: .*variance=0\.25, and .*sample_weight"),
        (lambda: bd.sample(bd.Model(bd.NegativeBinomial(), C=2.0), X, COUNTS), r"C: .*Binomial\(dispersion="),
        (lambda: bd.NegativeBinomial(0.0), "dispersion: expected a finite number"),
        (lambda: bd.sample(bd.Model(bd.Squared(), rates=NONE), X, np.ones(N)), "y: all responses are equal"),
        (lambda: bd.variational(bd.Model(bd.Squared(), rates=NONE), X, NUMBERS), "the sigma of Squared.* is unknown"),
    ],
)  # fmt: skip
def test_errors_name_what_to_do(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ([0.5, 1.5, 2.5, 4.0], "numbers of 4 values"),
        ([0.0, 1.0, 1.0, 0.0], "0 and 1"),
        (["a", "b", "c", "a"], "one of 3 classes"),
        ([0.0, 3.0, 2.0, 5.0], "whole numbers, none below 0"),
    ],
)
def test_a_formula_says_what_the_response_is_taken_for(response, words, caplog):
    from bayesdrop.data.formulas.formula import encode_formula
    from bayesdrop.fitting.by_formula import default_model

    with caplog.at_level("INFO", logger="bayesdrop"):
        model = default_model(encode_formula("y ~ x", {"x": [1.0, 2.0, 4.0, 3.0], "y": response}))
    text = caplog.text
    assert "the response is taken for" in text
    assert words in text
    if isinstance(model.loss, bd.Squared):
        assert model.rates == bd.Fixed(0.0)
        assert "without noise" in text
