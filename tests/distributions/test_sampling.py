"""Draws against distribution functions, moments and Laplace transforms.

Every statistical test fails by chance with probability at most 2e-5 (fixed keys: it is then the same every time).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import integrate, stats

from bayesdrop.distributions import (
    GeneralizedInverseGaussian,
    InverseGaussian,
    PolyaGamma,
    polya_gamma_one,
    reciprocal_inverse_gaussian,
)

FALSE_ALARM = 2e-5
TILTS = [0.0, 0.5, 2.0, 3.0, 3.2, 5.0, 10.0, 50.0]


@pytest.fixture(params=[True, False], ids=["float64", "float32"])
def dtype(request):
    with jax.enable_x64(request.param):
        yield jnp.float64 if request.param else jnp.float32


def check_fit(draws, cdf):
    draws = np.asarray(draws, dtype=float).ravel()
    assert np.all(np.isfinite(draws))
    assert np.all(draws > 0)
    assert stats.kstest(draws, cdf).pvalue > FALSE_ALARM


def check_mean(values, expected, variance=None):
    """Two-sided z-test of a mean."""
    values = np.asarray(values, dtype=float).ravel()
    scale = np.sqrt((values.var() if variance is None else variance) / values.size)
    assert abs(values.mean() - expected) < stats.norm.isf(FALSE_ALARM / 2) * scale


def grid_cdf(log_density, low, high, points=20_001):
    """Distribution function of an unnormalised density on (0, ∞), by Simpson's rule in log x."""
    t = np.linspace(low, high, points)
    log_mass = log_density(np.exp(t)) + t
    mass = np.exp(log_mass - log_mass.max())
    total = integrate.cumulative_simpson(mass, x=t, initial=0)
    return lambda x: np.interp(np.log(x), t, total / total[-1])


def polya_gamma_cdf(x, b, z):
    """Fourier inversion of the characteristic function, independent of series, pieces and contours."""
    mean = b * (np.tanh(z / 2) / (2 * z) if z else 0.25)
    variance = b * ((np.sinh(z) - z) / (4 * z**3 * np.cosh(z / 2) ** 2) if z else 1 / 24)
    # Periodic extension over (−top, top): a Fourier series with exponentially falling coefficients.
    top = max(mean + 25 * np.sqrt(variance), 1.1 * x.max())
    frequency = np.pi / top * np.arange(1, 30_000)
    root = np.sqrt(z * z / 4 - 0.5j * frequency)

    def log_cosh(w):
        return w + np.log1p(np.exp(-2 * w)) - np.log(2)

    characteristic = np.exp(b * (log_cosh(z / 2) - log_cosh(root)))
    keep = np.abs(characteristic) > 1e-10
    coefficient = (characteristic / (1j * frequency))[keep]
    wave = np.exp(-1j * np.outer(x, frequency[keep]))
    return ((1 - wave) * coefficient).real.sum(axis=1) / top + x / (2 * top)


def polya_gamma_distance(draws, b, z):
    """Kolmogorov's distance on a grid of 150 of the draws: never more than the distance itself."""
    draws = np.sort(np.asarray(draws, dtype=float).ravel())
    assert np.all(np.isfinite(draws))
    assert draws[0] > 0
    rank = np.linspace(0, draws.size - 1, 150).astype(int)
    return np.abs((rank + 1) / draws.size - polya_gamma_cdf(draws[rank], b, z)).max()


def chance(size):
    """What Kolmogorov's distance exceeds with probability 2e-5 at most (Dvoretzky-Kiefer-Wolfowitz)."""
    return np.sqrt(np.log(2 / FALSE_ALARM) / (2 * size)) + 1 / size


@pytest.mark.slow_cases("float32-0.5", "float32-2.0", "float32-3.2", "float32-5.0", "float32-10.0")
@pytest.mark.parametrize("z", TILTS)
def test_polya_gamma_one(dtype, z):
    draws = polya_gamma_one(random.key(0), jnp.full(200_000, z, dtype))
    assert draws.dtype == dtype
    assert polya_gamma_distance(draws, 1.0, z) < chance(draws.size)
    law = PolyaGamma(1.0, z)
    mean, variance = float(law.mean), float(law.variance)
    check_mean(draws, mean, variance)
    squares = (np.asarray(draws, dtype=float) - mean) ** 2
    check_mean(squares, variance)
    for t in (0.5, 5.0, 50.0):
        check_mean(np.exp(-t * np.asarray(draws, dtype=float)), float(np.exp(law.log_laplace(t))))


@pytest.mark.slow
def test_polya_gamma_one_at_scores_whose_masses_underflow():
    """In single precision both pieces of the proposal have mass 0 beyond 206; PG(1, z) is then 1/2z within 1/√z."""
    for z in (150.0, 250.0, 1e4, 1e12):
        draws = np.asarray(polya_gamma_one(jax.random.key(0), jnp.full(20_000, z, jnp.float32)), float)
        # Mean 1/2z and variance about 1/2z³: five standard errors.
        assert abs(2 * z * draws.mean() - 1) < 5 * np.sqrt(2 / z / 20_000) + 1e-5
    assert np.all(np.isnan(polya_gamma_one(jax.random.key(0), jnp.full(3, jnp.inf, jnp.float32))))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("b", "z"),
    [
        (0.02, 1.0),
        (0.1, 1.0),
        (0.5, 0.0),
        (0.5, 4.0),
        (2.0, 1.0),
        (3.7, 2.0),
        (20.3, 0.5),
        (150.0, 1.0),
    ],
)
def test_polya_gamma_any_shape(dtype, b, z):
    draws = PolyaGamma(jnp.asarray(b, dtype), jnp.asarray(z, dtype)).sample(random.key(1), (50_000,))
    values = np.asarray(draws, dtype=float)
    law = PolyaGamma(b, z)
    check_mean(values, float(law.mean))
    check_mean((values - float(law.mean)) ** 2, float(law.variance))
    # The approximation of fractional and large parts: the distribution function is off by at most 1e-3.
    if b >= 0.5:
        assert polya_gamma_distance(values, b, z) < 1e-3 + chance(values.size)
    else:  # the inversion converges too slowly: a long sum of gammas, its tail replaced by its mean
        rng, reference = np.random.default_rng(0), np.zeros(values.size)
        weights = 1 / (2 * np.pi**2 * (np.arange(200) + 0.5) ** 2 + z * z / 2)
        for weight in weights:
            reference += weight * rng.gamma(b, size=values.size)
        reference += float(law.mean) - b * weights.sum()
        assert stats.ks_2samp(values, reference).statistic < 1e-3 + 2 * chance(values.size)


@pytest.mark.parametrize("nu", [0.0, 1e-8, 1e-3, 1.0, 30.0, 1e8])
def test_reciprocal_inverse_gaussian(dtype, nu):
    draws = np.asarray(reciprocal_inverse_gaussian(random.key(3), jnp.full(200_000, nu, dtype)), dtype=float)
    assert np.all(np.isfinite(draws))
    assert np.all(draws > 0)
    if nu < 1e-6:
        check_fit(draws, stats.chi2(1).cdf)
    elif nu < 1e6:
        check_fit(1 / draws, stats.invgauss(1 / nu).cdf)
    else:  # at ν = 1e8 the law is N(ν + 1/2, ν) to the precision of a double
        resolution = nu * float(jnp.finfo(dtype).eps)
        assert abs(draws.mean() - nu) < 5 * np.sqrt(nu / draws.size) + resolution
    if nu < 1e3:
        check_mean(draws, nu + 1)


@pytest.mark.parametrize(("loc", "concentration"), [(1.0, 1.0), (0.01, 3.0), (50.0, 0.5), (2.0, 200.0)])
def test_inverse_gaussian(dtype, loc, concentration):
    law = InverseGaussian(jnp.asarray(loc, dtype), jnp.asarray(concentration, dtype))
    reference = stats.invgauss(loc / concentration, scale=concentration)
    check_fit(law.sample(random.key(4), (100_000,)), reference.cdf)


GIG = [
    (0.5, 1.0, 4.0),
    (-0.5, 2.0, 0.3),
    (1.0, 1.0, 1.0),
    (-3.2, 0.5, 7.0),
    (0.01, 1e-4, 1e-4),
    (0.0, 0.1, 0.1),
    (20.0, 3.0, 0.01),
    (0.3, 50.0, 80.0),
    (5.0, 1e-3, 1e-3),
]


@pytest.mark.slow_cases("float32-0.5", "float32--0.5", "float32-1.0", "float32-20.0", "float32-0.3", "float32-5.0")
@pytest.mark.parametrize(("p", "a", "b"), GIG)
def test_generalized_inverse_gaussian(dtype, p, a, b):
    law = GeneralizedInverseGaussian(*(jnp.asarray(v, dtype) for v in (p, a, b)))
    draws = law.sample(random.key(5), (100_000,))
    reach = 30 if a * b < 1e-3 else 12
    centre = 0.5 * np.log(b / a)
    check_fit(draws, grid_cdf(lambda x: (p - 1) * np.log(x) - 0.5 * (a * x + b / x), centre - reach, centre + reach))
