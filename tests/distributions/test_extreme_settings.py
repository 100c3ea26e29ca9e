"""Moments, densities and distribution functions at extreme settings, in either precision, against mpmath.

What may be off is rounding: so many units in the last place of the number itself, and of what one unit in the last
place of the argument or a parameter makes of it.
"""

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from bayesdrop.distributions import (
    BernoulliPseudoLikelihood,
    EpsilonInsensitiveGivenScales,
    GeneralizedInverseGaussian,
    InverseGaussian,
    PolyaGamma,
)

PRECISIONS = {"double": (True, jnp.float64), "single": (False, jnp.float32)}
# Units in the last place that any of them may be off. Sums of 800 terms and a dozen steps of Newton's method are in it.
UNITS = 100


def rounded(*values):
    """The numbers as single precision has them, so that both precisions are asked for the same."""
    return [float(np.float32(value)) for value in values]


@cache
def exact(function, *values):
    with mpmath.workdps(60):
        return function(*(mpmath.mpf(value) for value in values))


def compare(precision, found, truth, condition=0.0, absolute=0.0):
    """Assert that the error is rounding; ``condition`` is in units of one relative unit of the arguments."""
    _, dtype = PRECISIONS[precision]
    limits = jnp.finfo(dtype)
    size = float(abs(truth))
    if not 1e3 * float(limits.tiny) < size < 1e-3 * float(limits.max):
        return
    off = abs(float(found) - float(truth))
    assert off <= UNITS * float(limits.eps) * (size + float(condition) + absolute), (float(found), float(truth), off)


@cache
def bessel(order, omega):
    return mpmath.besselk(order, omega)


def gig_moment(power, p, a, b):
    omega = mpmath.sqrt(a * b)
    return mpmath.sqrt(b / a) ** power * bessel(p + power, omega) / bessel(p, omega)


def gig_variance(p, a, b):
    return gig_moment(2, p, a, b) - gig_moment(1, p, a, b) ** 2


def gig_density(x, p, a, b):
    constant = p / 2 * mpmath.log(a / b) - mpmath.log(2 * bessel(p, mpmath.sqrt(a * b)))
    return constant + (p - 1) * mpmath.log(x) - (a * x + b / x) / 2


# Means are moved by powers of two, so that √(ab) is the same and few Bessel functions are asked for.
GIG = [rounded(p, w / m, w * m) for p, w, m in itertools.product(
    (-300, -3.3, -0.5, -1e-3, 0, 0.5, 2, 500), rounded(1e-8, 1e-3, 0.3, 5, 300, 1e5, 1e8), (2**-10, 1, 2**13)
)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_generalised_inverse_gaussian(precision):
    double, dtype = PRECISIONS[precision]
    settings = GIG if double else GIG[::2]
    with jax.enable_x64(double):
        p, a, b = (jnp.asarray(part, dtype) for part in np.array(settings).T)
        law = GeneralizedInverseGaussian(p, a, b)
        found = [law.mean, law.variance, law.moment(-1), law.moment(2.5)]
        for values, power in zip(found, (1, None, -1, 2.5), strict=True):
            for value, setting in zip(np.asarray(values), settings, strict=True):
                truth = exact(gig_variance, *setting) if power is None else exact(gig_moment, power, *setting)
                compare(precision, value, truth, 6 * abs(float(truth)))
        place = np.asarray(law.mean) + np.outer((-1, 0, 3), np.sqrt(np.asarray(law.variance)))
        place = jnp.where((place > 0) & np.isfinite(place), place, law.mean).astype(dtype)
        densities = np.asarray(law.log_prob(place))
        for row in range(3):
            for value, x, (p, a, b) in zip(densities[row], np.asarray(place[row], float), settings, strict=True):
                if not (np.isfinite(x) and x > 1e-30):
                    continue
                truth = exact(gig_density, float(x), p, a, b)
                slope = abs(p - 1 - a * x / 2 + b / x / 2)
                compare(precision, value, truth, 1 + slope + abs(np.log(x)) + np.sqrt(np.sqrt(a * b) + abs(p)))


def inverse_gaussian_cdf(x, mean, shape):
    root = mpmath.sqrt(shape / x)
    first = mpmath.ncdf(root * (x / mean - 1))
    return first + mpmath.exp(2 * shape / mean) * mpmath.ncdf(-root * (x / mean + 1))


def inverse_gaussian_density(x, mean, shape):
    return mpmath.log(shape / (2 * mpmath.pi * x**3)) / 2 - shape * (x - mean) ** 2 / (2 * mean * mean * x)


INVERSE = [rounded(*setting) for setting in itertools.product((1e-6, 1e-2, 1, 30, 1e5), (1e-6, 1e-2, 1, 50, 1e4, 1e9))]


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_inverse_gaussian(precision):
    double, dtype = PRECISIONS[precision]
    with jax.enable_x64(double):
        means, shapes = np.array(INVERSE).T
        law = InverseGaussian(jnp.asarray(means, dtype), jnp.asarray(shapes, dtype))
        spread = np.sqrt(means / shapes)  # relative to the mean
        x = np.float32(
            means * np.stack([0 * spread + 1e-3, 0 * spread + 0.2, 0 * spread + 1, 1 + spread, 1 + 6 * spread])
        )
        chances, densities = (np.asarray(found(jnp.asarray(x, dtype))) for found in (law.cdf, law.log_prob))
        assert np.all((chances >= 0) & (chances <= 1))
        variances = np.asarray(law.variance)
        for i, (mean, shape) in enumerate(INVERSE):
            compare(precision, variances[i], exact(lambda m, s: m**3 / s, mean, shape))
            for at, chance, density in zip(x[:, i].astype(float).tolist(), chances[:, i], densities[:, i], strict=True):
                z = np.sqrt(shape / at) * (at - mean) / mean
                moved = (1 + abs(z)) * (np.sqrt(shape / at) * (at / mean + 1))  # by a relative unit, in logarithms
                truth = exact(inverse_gaussian_cdf, at, mean, shape)
                compare(precision, chance, truth, moved * float(truth), float(mpmath.npdf(z)) * moved)
                truth = exact(inverse_gaussian_density, at, mean, shape)
                compare(precision, density, truth, 1 + moved + abs(np.log(at)) + z * z)
        ends = InverseGaussian(2.0, 3.0).cdf(jnp.asarray([0.0, jnp.inf, -1.0]))
        np.testing.assert_array_equal(ends, [0, 1, 0])


def polya_gamma_density(x, b, z):
    """By the alternating series, which converges everywhere, in as many digits as cancel."""
    with mpmath.workdps(250):
        total, n = mpmath.mpf(0), 0
        while n < 5 or (2 * n + b) ** 2 / (8 * x) < 600 + b**2 / (8 * x):
            size = mpmath.gammaprod([n + b], [n + 1, b]) * mpmath.exp(-((2 * n + b) ** 2) / (8 * x))
            total, n = total + (-1) ** n * (2 * n + b) * size, n + 1
        first = (b - 1) * mpmath.log(2) - mpmath.log(2 * mpmath.pi * x**3) / 2 + mpmath.log(total)
        return first + b * mpmath.log(mpmath.cosh(z / 2)) - z * z * x / 2


def polya_gamma_moments(b, z):
    if z == 0:
        return b / 4, b / 24
    return b * mpmath.tanh(z / 2) / (2 * z), b * (mpmath.sinh(z) - z) / (4 * z**3 * mpmath.cosh(z / 2) ** 2)


POLYA = [rounded(*setting) for setting in itertools.product(
    (1e-3, 0.2, 1, 3.7, 8, 64.5, 1e4, 1e6), (0, 1e-4, 0.29, 0.31, 2, 40, 1e3, 2e9, 2e14, 1e19, 1e30)
)]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_moments_of_polya_gamma(precision):
    double, dtype = PRECISIONS[precision]
    with jax.enable_x64(double):
        b, z = (jnp.asarray(part, dtype) for part in np.array(POLYA).T)
        law = PolyaGamma(b, z)
        draws = np.asarray(law.sample(jax.random.key(0), (20,)))
        assert np.all(np.isfinite(draws))
        assert np.all(draws > 0)
        means, variances = np.asarray(law.mean), np.asarray(law.variance)
        for *found, setting in zip(means, variances, POLYA, strict=True):
            mean, variance = exact(polya_gamma_moments, *setting)
            compare(precision, found[0], mean)
            compare(precision, found[1], variance, 20 * abs(float(variance)))
        for share in (1e-6, 0.3, 5.0, 1e4):
            t = jnp.asarray(np.float32(share / means), dtype)
            values = law.log_laplace(t)
            for value, at, (shape, tilt) in zip(np.asarray(values), np.asarray(t, float), POLYA, strict=True):
                truth = exact(
                    lambda t, b, z: b * mpmath.log(mpmath.cosh(z / 2) / mpmath.cosh(mpmath.sqrt(z * z / 4 + t / 2))),
                    at, shape, tilt,
                )  # fmt: skip
                compare(precision, value, truth, 2 * abs(float(truth)))


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_draws_at_huge_tilts_keep_mean_and_spread(precision):
    """Draws vary by ``√(2/(bz))`` of their mean there: 1,000 of them are off by five standard errors 6 times in 1e7."""
    double, dtype = PRECISIONS[precision]
    limits = np.finfo(dtype)
    settings = [rounded(*both) for both in itertools.product((0.3, 1, 64.5, 100, 1e6), (1e8, 2e14, 1e19, 1e30, 3e38))]
    with jax.enable_x64(double):
        b, z = (jnp.asarray(part, dtype) for part in np.array(settings).T)
        draws = np.asarray(PolyaGamma(b, z).sample(jax.random.key(0), (1000,)), float)
        for column, (shape, tilt) in zip(draws.T, settings, strict=True):
            mean, spread = shape / (2 * tilt), np.sqrt(2 / (shape * tilt))
            if mean < 10 * limits.tiny * shape:  # of a unit shape it underflows
                assert np.all((column >= 0) & (column <= 100 * limits.tiny * max(shape, 1)))
                continue
            relative = column / mean - 1
            assert abs(relative.mean()) < 5 * spread / np.sqrt(1000) + UNITS * limits.eps, (shape, tilt)
            assert 0.85 * spread - UNITS * limits.eps < relative.std() < 1.15 * spread + UNITS * limits.eps, (
                shape,
                tilt,
            )


def polya_gamma_inversion(x, b, z):
    """By inverting the Laplace transform along the line through its saddle point, for shapes whose series cancel."""
    with mpmath.workdps(60):

        def cost(s):
            return -b * mpmath.log(mpmath.cosh(mpmath.sqrt(s / 2))) + s * x

        def slope(q):
            return mpmath.tanh(mpmath.sqrt(q) / 2) / (2 * mpmath.sqrt(q)) - x / b

        start = max(b / (2 * x), 1) ** 2 if x < b / 8 else mpmath.mpf(1) / 10
        saddle = mpmath.re(mpmath.findroot(slope, start)) / 2
        top, step = cost(saddle), 1 / mpmath.sqrt(abs(mpmath.diff(cost, saddle, 2)))
        nodes = [mpmath.re(mpmath.exp(cost(saddle + 1j * step * k / 4) - top)) for k in range(1, 60)]
        total = (step / 4) * (1 + 2 * sum(nodes)) / (2 * mpmath.pi)
        return mpmath.re(top + mpmath.log(total)) + b * mpmath.log(mpmath.cosh(z / 2)) - z * z * x / 2


DENSITIES = (
    (polya_gamma_density, (1e-3, 0.2, 1, 3.7, 8, 64.5), (0, 0.3, 40, 2e9)),
    (polya_gamma_density, (1, 64.5, 1e6, 1e12), (2e14, 1e19, 1e30)),
    (polya_gamma_inversion, (1e6, 1e10, 1e15), (0, 0.3, 40)),
)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_density_of_polya_gamma(precision):
    double, dtype = PRECISIONS[precision]
    with jax.enable_x64(double):
        for truth_of, shape, tilt in [
            (truth_of, *rounded(*both))
            for truth_of, shapes, tilts in DENSITIES
            for both in itertools.product(shapes, tilts)
        ]:
            mean, variance = (float(part) for part in exact(polya_gamma_moments, shape, tilt))
            spread = np.sqrt(variance)
            x = rounded(*(part for part in (mean / 2, mean - spread, mean, mean + 3 * spread) if part > 0))
            found = PolyaGamma(jnp.asarray(shape, dtype), jnp.asarray(tilt, dtype)).log_prob(jnp.asarray(x, dtype))
            for value, at in zip(np.asarray(found), x, strict=True):
                truth = exact(truth_of, at, shape, tilt)
                condition = 1 + abs(np.log(at)) + mean / spread * (1 + abs(at - mean) / spread)
                # The terms of Talbot's inversion cancel to 1e-10 of their sum in double precision, as its file says.
                compare(precision, value, truth, condition, 1e-10 / (UNITS * np.finfo(float).eps) * double)


@pytest.mark.slow
@pytest.mark.parametrize("precision", PRECISIONS)
def test_moments_of_pseudo_likelihoods(precision):
    double, dtype = PRECISIONS[precision]
    with jax.enable_x64(double):
        for gap in rounded(-80, -30, -1e-6, 0, 3, 20, 70):
            law = BernoulliPseudoLikelihood(jnp.asarray(0, dtype), jnp.asarray(gap, dtype))
            chance = exact(lambda gap: 1 / (1 + mpmath.exp(-gap)), gap)
            compare(precision, law.mean, chance, abs(gap) * float(chance))
            both = exact(lambda gap: 1 / (1 + mpmath.exp(-gap)) / (1 + mpmath.exp(gap)), gap)
            compare(precision, law.variance, both, abs(gap) * float(both))
        for above, below, C, epsilon in itertools.product(*(rounded(1e-4, 2, 1e3),) * 3, rounded(1e-6, 0.1, 1e3)):
            law = EpsilonInsensitiveGivenScales(*(jnp.asarray(v, dtype) for v in (0, above, below, C, epsilon)))
            precision_of = exact(lambda a, b, C: (C / 2) ** 2 * (1 / a + 1 / b), above, below, C)
            compare(precision, law.variance, 1 / precision_of)
            centre = exact(lambda a, b, e: e * (b - a) / (a + b), above, below, epsilon)
            compare(precision, law.mean, centre, absolute=epsilon)
