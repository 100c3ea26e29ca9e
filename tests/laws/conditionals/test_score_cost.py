"""Laws of the cost of a row whose score is normal: it is the integral, and its slopes are its own."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp, roots_legendre
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop.models.statements import statements

# Losses of counts have a law of their own below.
EXACT = ("Hinge", "EpsilonInsensitive", "Quantile", "Squared", "Logistic")
# The same with another margin, and with no tube.
OTHERS = (bd.Hinge(0.3), bd.EpsilonInsensitive(0.0))
LOSSES = [*(getattr(bd, name)(**statements()[name].settings) for name in EXACT), *OTHERS]
SMOOTH = (bd.Logistic,)


def stated(loss):
    """Log-likelihood of ``y = 1`` by the program, and where it has kinks."""
    if loss == bd.Hinge(0.3):
        return lambda s: -np.maximum(0, 0.3 - s), [0.3]
    statement = statements()[type(loss).__name__]
    settings = {name: getattr(loss, name) for name in statement.settings}
    return lambda s: statement.log_likelihood(1.0, s, **settings), [at(1.0, **settings) for at in statement.kinks]


POWERS, MEANS, SDS = (0.1, 1.0, 2.5), (-20.0, -3.0, -0.4, 0.02, 0.5, 0.8, 1.3, 6.0, 30.0), (0.05, 0.4, 1.0, 3.0, 9.0)


@pytest.fixture(
    params=[pytest.param(loss, marks=[pytest.mark.slow] * (loss in OTHERS), id=repr(loss)) for loss in LOSSES]
)
def loss(request):
    return request.param


def grid():
    """``(y, m, v, C)``; ``y`` is 1 and then, with the mean turned round, −1: the same but to a quantile."""
    rows = np.array(list(itertools.product(MEANS, SDS, POWERS)))
    mean, sd, power = rows.T
    return tuple(
        np.concatenate(pair)
        for pair in ((np.ones(len(rows)), -np.ones(len(rows))), (mean, -mean), (sd**2,) * 2, (power,) * 2)
    )


def integral(loss, mean, sd, power):
    """``log E exp{−C loss(1, s)}`` by Gauss-Legendre panels between the kinks, on the scale of logarithms."""
    plain, kinks = stated(loss)
    cuts = np.sort(np.concatenate([np.arange(-60, 41, 0.1), (np.array(kinks) - mean) / sd]))
    cuts = cuts[(cuts >= -60) & (cuts <= 40)]
    node, share = roots_legendre(12)
    half = np.diff(cuts)[:, None] / 2
    z = cuts[:-1, None] + half * (1 + node)
    with np.errstate(divide="ignore"):
        return logsumexp(power * np.asarray(plain(mean + sd * z)) + norm.logpdf(z), b=half * share)


@pytest.mark.slow
def test_it_is_the_integral(loss):
    """Closed forms to 1e-10 of the larger of one and the value; 15 nodes to 1e-7 where the variance is 1 at most."""
    y, mean, var, power = grid()
    found = loss.score_cost(y, mean, var, power).value
    half = len(y) // 2
    mirror = bd.Quantile(1 - loss.tau) if isinstance(loss, bd.Quantile) else loss
    turned = mirror.score_cost(y, mean, var, power).value
    np.testing.assert_allclose(turned[half:], found[:half], rtol=1e-13, atol=1e-13)
    expected = np.array(
        [-integral(loss, m, np.sqrt(v), C) for m, v, C in zip(mean[:half], var[:half], power[:half], strict=True)]
    )
    gap = np.abs(found[:half] - expected) / np.maximum(1, np.abs(expected))
    if isinstance(loss, SMOOTH):
        # The logistic function turns within a few units; nodes that are further apart than that are too few.
        narrow = var[:half] <= 1
        assert gap[narrow].max() < 1e-7
    else:
        assert gap.max() < 1e-10


@pytest.mark.parametrize(
    "loss",
    [bd.Logistic(), bd.Binomial(20), bd.Poisson(), bd.NegativeBinomial(5.0), bd.NegativeBinomial(200.0)],
    ids=repr,
)
@pytest.mark.parametrize(
    ("dtype", "power", "tolerance"), [(np.float64, 1.0, 1e-5), (np.float64, 100.0, 1e-5), (np.float32, 1.0, 5e-3)]
)
def test_a_row_that_says_more_than_the_noise_leaves_open(loss, dtype, power, tolerance):
    """Value and slopes are those of the integral, also where nodes about the mean score would miss the response."""
    responses = (-1.0, 1.0) if loss.binary else [y for y in (0.0, 1.0, 20.0, 1000.0) if y <= (loss.largest_count or y)]
    # As the docstring states: nodes that are far apart see less of a bend.
    limits = {0.01: tolerance, 0.1: tolerance, 1.0: tolerance, 10.0: 0.01, 100.0: 0.1}
    for y, distance, var in itertools.product(responses, (-3.0, -1.0, 0.0, 1.0, 3.0), limits):
        centre = 0.0 if isinstance(loss, bd.Logistic | bd.Binomial) else float(loss.first_score(np.array([y + 0.5]))[0])
        mean = centre + distance * max(1.0, np.sqrt(var))
        s = mean + np.arange(-12 * max(1.0, np.sqrt(var)), 12 * max(1.0, np.sqrt(var)), 1e-3)
        value, slope = loss.plain_value_and_slope(np.full(len(s), y), s)
        logs = -power * value - (s - mean) ** 2 / (2 * var)
        share = np.exp(logs - logsumexp(logs))
        cost = -logsumexp(logs, b=(s[1] - s[0]) / np.sqrt(2 * np.pi * var))
        expected = cost, power * share @ slope, power * share @ (slope * (s - mean)) / (2 * var)
        found = loss.score_cost(*(np.array([part], dtype=dtype) for part in (y, mean, var, power)))
        for here, there in zip(found, expected, strict=True):
            assert abs(here[0] - there) < limits[var] * max(1.0, abs(there))


@pytest.mark.slow
def test_slopes_are_those_of_the_value(loss, same, thorough):
    arguments = tuple(jnp.asarray(part) for part in grid())

    def value(mean, var, y, power):
        return loss.score_cost(y, mean, var, power).value

    y, mean, var, power = arguments
    found = jax.jit(loss.score_cost)(*arguments)
    slopes = jax.jit(jax.vmap(jax.grad(value, (0, 1))), compiler_options=thorough)(mean, var, y, power)
    for here, there in zip(found[1:], slopes, strict=True):
        same(here, there)


@pytest.mark.slow
def test_numpy_and_jax_agree(loss):
    """To 1e-8: JAX's ``log_ndtr`` is an asymptotic series below −20, off by 105/20⁸ at most."""
    plain = grid()
    for here, there in zip(loss.score_cost(*plain), loss.score_cost(*(jnp.asarray(p) for p in plain)), strict=True):
        assert isinstance(here, np.ndarray)
        np.testing.assert_allclose(here, there, rtol=1e-8, atol=1e-8)


def test_without_variance_it_is_the_plain_loss(loss):
    """The floor under the variance, a unit of round-off, moves a kink by 1e-8 and a slope less than 1e-6 beside it."""
    y, mean, var, power = grid()
    found = loss.score_cost(y, mean, 0 * var, power)
    value, slope = loss.plain_value_and_slope(y, mean)
    np.testing.assert_allclose(found.value, power * value, rtol=1e-12, atol=1e-7)
    np.testing.assert_allclose(found.mean, power * slope, rtol=1e-9, atol=1e-6)
    assert np.all(np.isfinite(found.var))


def test_single_precision_is_double_precision_rounded(loss):
    """Slopes are differences of terms of size ``C²v`` in units of ``C/√v``: 1e-4 of the largest for a hundred units."""
    wide = grid()
    narrow = loss.score_cost(*(part.astype(np.float32) for part in wide))
    for here, there in zip(narrow, loss.score_cost(*wide), strict=True):
        assert here.dtype == np.float32
        assert np.max(np.abs(here - there)) < 1e-4 * max(1.0, np.max(np.abs(there)))
