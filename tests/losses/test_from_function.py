"""A loss of one function equals the losses with closed forms, and runs wherever its abilities let it."""

import copy
import pickle

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy import integrate, optimize, stats

import bayesdrop as bd
from bayesdrop.losses.protocols import Augmented, Classifying, Curved, Scored, Simulated, Sloped

GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=(120, 3))
SCORE = X @ np.array([1.0, -1.0, 0.5])


def logistic(y, s):
    return jnp.logaddexp(0.0, -y * s)


def squared(y, s):
    return 0.5 * (y - s) ** 2


def poisson(y, s):
    return jnp.exp(s) - y * s


def student(y, s):
    return 2.5 * jnp.log1p((y - s) ** 2 / 4)


def huber(y, s):
    size = jnp.abs(y - s)
    return jnp.where(size < 1, 0.5 * size**2, size - 0.5)


def cloglog(y, s):
    return jnp.where(y > 0, -jnp.log(-jnp.expm1(-jnp.exp(s))), jnp.exp(s))


def zero_inflated(y, s):
    some = np.log(0.7) + y * s - jnp.exp(s) - gammaln(y + 1)
    return -jnp.where(y > 0, some, jnp.logaddexp(np.log(0.3), np.log(0.7) - jnp.exp(s)))


def draw_normal(generator, score, C):
    return score + generator.normal(size=np.shape(score)) / np.sqrt(C)


def draw_counts(generator, score, C):
    return generator.poisson(np.exp(score))


def draw_student(generator, score, C):
    return score + generator.standard_t(4, np.shape(score))


def draw_zero_inflated(generator, score, C):
    return generator.poisson(np.exp(score)) * (generator.random(np.shape(score)) > 0.3)


def zero_inflated_mean(law):
    return 0.7 * np.exp(law.log_exponential())


make = bd.losses.from_function
SAME = {
    "logistic": (
        make(logistic, "class", convex=True, normalised=True),
        bd.Logistic("gaussian"),
        np.where(SCORE + GENERATOR.logistic(size=120) > 0, 1, -1),
    ),
    "squared": (
        make(squared, normalised=True, sample_response=draw_normal),
        bd.Squared(variance=1.0),
        SCORE + GENERATOR.normal(size=120),
    ),
    "poisson": (
        make(poisson, "count", sample_response=draw_counts),
        bd.Poisson("gaussian"),
        GENERATOR.poisson(np.exp(0.5 * SCORE)),
    ),
}
NEW = {
    "robust": (
        make(student, normalised=True, sample_response=draw_student),
        SCORE + GENERATOR.standard_t(2, 120),
    ),
    "zero-inflated": (
        make(
            zero_inflated, "count", normalised=True, expected_response=zero_inflated_mean,
            sample_response=draw_zero_inflated,
        ),
        GENERATOR.poisson(np.exp(0.5 * SCORE)) * (GENERATOR.random(120) > 0.3),
    ),
    "cloglog": (
        make(cloglog, "class", convex=True, normalised=True),
        GENERATOR.random(120) < -np.expm1(-np.exp(SCORE)),
    ),
}  # fmt: skip
# What the module states of a smooth loss: digits of the values, and ten times fewer of derivatives.
STATED = {0.0: 1e-10, 1e-6: 1e-10, 0.3: 1e-10, 1.0: 1e-9, 4.0: 1e-4}
# A few draws, and tables of fits with noise.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::bayesdrop.{kind}Warning")
    for kind in ("Mixing", "Approximation", "Influence", "NarrowIntervals", "PseudoLikelihood")
]
SHORT = {"draws": 20, "tune": 20, "chains": 2, "seed": 1, "progress": False}


@pytest.mark.parametrize("spread", STATED)
@pytest.mark.parametrize("name", SAME)
def test_it_equals_the_closed_form(name, spread):
    own, closed, _ = SAME[name]
    mean = np.linspace(-4, 4, 41)
    y, var = np.full(41, 3.0 if name != "logistic" else 1.0), np.full(41, spread**2)
    # Half the deviance of a count lacks a term of y.
    constant = 3 * np.log(3) - 3 if name == "poisson" else 0.0
    np.testing.assert_allclose(
        own.value(y, mean, var) + constant, closed.value(y, mean, var), rtol=0, atol=STATED[spread]
    )
    for part, expected in zip(own.derivatives(y, mean, var), closed.derivatives(y, mean, var), strict=True):
        np.testing.assert_allclose(part, expected, rtol=0, atol=10 * STATED[spread])


@pytest.mark.parametrize("function", [logistic, cloglog, student, huber])
def test_slopes_are_those_of_the_value(function):
    loss, h = make(function), 1e-6
    y = np.tile([1.0, -1.0], 10)
    mean, var = GENERATOR.normal(size=20), np.geomspace(1e-3, 4, 20)
    slopes = loss.derivatives(y, mean, var)
    up, down = loss.value(y, mean + h, var), loss.value(y, mean - h, var)
    np.testing.assert_allclose(slopes.mean, (up - down) / (2 * h), atol=1e-7)
    step = 1e-4 * var
    more, less = loss.value(y, mean, var + step), loss.value(y, mean, var - step)
    np.testing.assert_allclose(slopes.var, (more - less) / (2 * step), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shape", [(0,), (3,), (2, 5), (300, 1)])
def test_arrays_of_any_shape_are_doubles_that_may_be_written_to(shape):
    loss, arrays = make(squared), [np.ones(shape), np.zeros(shape), np.full(shape, 0.5)]
    for found in (loss.value(*arrays), *loss.derivatives(*arrays), *loss.plain_value_and_slope(*arrays[:2])):
        assert found.shape == shape
        assert found.dtype == np.float64
        found += 1


@pytest.mark.slow
def test_arrays_of_jax_stay_in_its_precision():
    loss, one = make(logistic, "class"), jnp.ones(4, jnp.float32)
    for found in (loss.value(one, one, one), *loss.derivatives(one, one, one), *loss.score_cost(one, one, one, one)):
        assert found.dtype == jnp.float32
    np.testing.assert_allclose(
        np.stack(loss.derivatives(one, one, one)), np.stack(loss.derivatives(*[np.ones(4)] * 3)), atol=1e-4
    )


@pytest.mark.default_cases("logistic-0.0", "logistic-0.3")
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("name", SAME)
def test_fits_equal_those_of_the_closed_form(name, rate):
    own, closed, y = SAME[name]
    one, other = (
        bd.fit(bd.Model(loss, rates=bd.Fixed(rate)), X, y, method=bd.Newton(tol=1e-13)) for loss in (own, closed)
    )
    np.testing.assert_allclose(one.weight, other.weight, atol=1e-7)
    assert one.intercept == pytest.approx(other.intercept, abs=1e-7)
    np.testing.assert_allclose(one.predict(X).mean, other.predict(X).mean, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "squared"])
def test_posteriors_and_what_is_made_of_them_equal_those_of_the_closed_form(name):
    own, closed, y = SAME[name]
    one, other = (
        bd.sample(
            bd.Model(loss, rates=bd.Fixed(0.2), C=0.7), X, y, method=bd.HMC(dtype="float64", correct=False), **SHORT
        )
        for loss in (own, closed)
    )
    # 15 nodes of both, or of one: what they lose moves draws by a thousandth of their spread.
    atol = {"logistic": 1e-6, "squared": 1e-3}[name]
    np.testing.assert_allclose(one.posterior.weight, other.posterior.weight, atol=atol)
    np.testing.assert_allclose(bd.predict(one, X[:5]).mean, bd.predict(other, X[:5]).mean, atol=2e-3)
    first, second = (bd.log_likelihood(post, X, y).log_likelihood.y for post in (one, other))
    np.testing.assert_allclose(first, second, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.2])
@pytest.mark.parametrize("name", NEW)
def test_a_fit_reaches_the_minimum_that_bfgs_reaches(name, rate):
    loss, y = NEW[name]
    fit = bd.fit(bd.Model(loss, rates=bd.Fixed(rate)), X, y, method=bd.Newton(tol=1e-13))
    code = np.where(y, 1.0, -1.0) if name == "cloglog" else y.astype(float)
    points, shares = np.polynomial.hermite_e.hermegauss(32)

    def energy(theta):
        mean, var = (1 - rate) * X @ theta[:-1] + theta[-1], rate * (1 - rate) * X**2 @ theta[:-1] ** 2
        score = mean + np.sqrt(var) * points[:, None]
        return 0.5 * theta[:-1] @ theta[:-1] + np.sum(
            shares / shares.sum() @ np.asarray(loss.function(np.broadcast_to(code, score.shape), score))
        )

    with jnp_double():
        best = optimize.minimize(energy, np.append(fit.weight, fit.intercept) + 0.1, method="BFGS")
    assert fit.objective_trace[-1] <= best.fun + 1e-7
    np.testing.assert_allclose(np.append(fit.weight, fit.intercept), best.x, atol=2e-3)


def jnp_double():
    import jax

    return jax.enable_x64(True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEW)
def test_a_new_loss_runs_to_the_end(name):
    loss, y = NEW[name]
    model = bd.Model(loss, rates=bd.Fixed(0.1))
    fit = bd.fit(model, X, y)
    assert bd.comparisons(fit, X[:5]).shape[0] == 3
    post = bd.sample(model, X, y, method=bd.HMC(n_leapfrog_steps=4, correct=False), **SHORT)
    assert np.all(np.isfinite(bd.predict(post, X[:5]).mean))
    assert np.isfinite(bd.loo(bd.log_likelihood(post, X, y)).elpd_loo)
    assert bd.comparisons(post, X[:5]).shape[0] == 3
    bd.posterior_predictive(post, X)
    bd.weights_table(post)
    again = pickle.loads(pickle.dumps(copy.deepcopy(post)))
    np.testing.assert_array_equal(bd.predict(again, X[:5]).mean, bd.predict(post, X[:5]).mean)


def test_a_file_names_the_function(tmp_path):
    loss, y = NEW["cloglog"]
    fit = bd.fit(bd.Model(loss, rates=bd.Fixed(0.1)), X, y)
    fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=rf"'{cloglog.__module__}\.cloglog', a component of your own"):
        bd.Fit.load(tmp_path / "fit.nc")
    again = bd.Fit.load(tmp_path / "fit.nc", model=bd.Model(loss))
    np.testing.assert_array_equal(again.predict(X).mean, fit.predict(X).mean)


def test_densities_have_the_constant_that_makes_their_integral_one():
    loss, _ = NEW["robust"]
    y = np.linspace(-3, 3, 7)
    for C in (1.0, 2.5):
        norm, _ = integrate.quad(lambda r, C=C: (1 + r * r / 4) ** (-2.5 * C), -np.inf, np.inf)
        logs = loss.log_constant(np.array([C, C])) - C * loss.value(y[:, None], np.zeros((7, 1)), np.zeros((7, 1)))
        np.testing.assert_allclose(logs[:, 0], np.log((1 + y * y / 4) ** (-2.5 * C) / norm), rtol=1e-8)
    np.testing.assert_allclose(logs.shape, (7, 2))
    one = loss.log_constant(1.0) - loss.value(y, np.zeros(7), np.zeros(7))
    np.testing.assert_allclose(one, stats.t(4).logpdf(y), rtol=1e-8)
    counts, (other, _) = np.arange(60.0), NEW["zero-inflated"]
    assert np.sum(np.exp(-other.value(counts, np.ones(60), np.zeros(60)))) == pytest.approx(1, abs=1e-10)


def test_probabilities_of_classes_are_those_of_the_link():
    loss, score = NEW["cloglog"][0], np.linspace(-3, 2, 11)
    np.testing.assert_allclose(loss.probability(score, 5.0), -np.expm1(-np.exp(score)), atol=1e-14)
    hinge = make(lambda y, s: jnp.maximum(0.0, 1 - y * s) ** 2, "class")  # no likelihood: C matters
    odds = np.exp(2.0 * (np.maximum(0, 1 + score) ** 2 - np.maximum(0, 1 - score) ** 2))
    np.testing.assert_allclose(hinge.probability(score, 2.0), odds / (1 + odds), atol=1e-14)
    expected = [
        integrate.quad(lambda z, m=m: -np.expm1(-np.exp(m + 0.8 * z)) * stats.norm.pdf(z), -9, 9)[0] for m in score
    ]
    np.testing.assert_allclose(loss.expected_probability(score, np.full(11, 0.64), 1.0), expected, atol=1e-8)


def test_abilities():
    for loss, _, _ in SAME.values():
        assert isinstance(loss, Curved)
        assert isinstance(loss, Sloped)
        assert isinstance(loss, Scored)
        assert not isinstance(loss, Augmented)
    assert isinstance(SAME["logistic"][0], Classifying)
    assert not isinstance(make(squared), Simulated)
    assert all(isinstance(loss, Simulated) for loss, _ in NEW.values())
    assert NEW["zero-inflated"][0].largest_count == np.inf
    assert NEW["cloglog"][0].convex
    assert not NEW["robust"][0].convex


@pytest.mark.slow
def test_a_posterior_without_a_sampler_of_responses_says_what_lacks():
    post = bd.sample(bd.Model(make(student), rates=bd.Fixed(0.0)), X, SCORE, method=bd.HMC(), **SHORT)
    with pytest.raises(ValueError, match=r"loss that is Simulated.*no sample_response, log_constant"):
        bd.predict(post, X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3,), "function: expected a function of responses and scores, got 3"),
        ((lambda y, s: np.maximum(y, float(s)),), r"does not take arrays of JAX.*jax\.numpy"),
        ((lambda y, s: jnp.sum(y - s),), "expected a loss for each of 3 scores"),
        ((lambda y: y,), "does not take arrays of JAX"),
        ((squared, "text"), "response: expected"),
        ((squared, "number", "yes"), None),
    ],
)
def test_what_is_no_loss_is_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(*arguments)


def test_what_follows_from_the_function_is_not_given():
    for name in ("expected_response", "sample_response"):
        with pytest.raises(ValueError, match=f"{name}: the probabilities of classes"):
            make(logistic, "class", **{name: len})
    with pytest.raises(TypeError, match="sample_response: expected a function"):
        make(squared, sample_response=3)
    with pytest.raises(ValueError, match="no finite integral"):
        make(lambda y, s: 0 * (y - s), sample_response=draw_student).log_constant(1.0)
