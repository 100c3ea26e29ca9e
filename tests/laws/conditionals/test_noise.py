"""Laws of every noise: coefficients, sampler and log-moment-generating function are of one distribution."""

import dataclasses
from math import factorial

import numpy as np
import pytest

import bayesdrop.noise


def _noises():
    """Every noise of the package by default, and with each field changed."""
    found = (getattr(bayesdrop.noise, name) for name in bayesdrop.noise.__all__)
    noises = []
    for cls in found:
        if not (dataclasses.is_dataclass(cls) and hasattr(cls, "coefficients")):
            continue
        noises.append(cls())
        for field in dataclasses.fields(cls):
            default = getattr(cls(), field.name)
            if field.name == "centre":  # what a noise is given is x − c, and its laws are those of any other x
                noises.append(cls(centre=[2.0, -1.0]))
                continue
            noises.append(cls(**{field.name: not default if isinstance(default, bool) else 0.6 * default}))
    return noises


NOISES = _noises()
RATED = [noise for noise in NOISES if noise.has_rate]
# Entries x and rates η, crossed; 64 equally likely uniforms resolve every rate exactly.
ENTRIES, RATE_GRID = np.array([0.0, 0.5, 1.0, 2.5, -1.5]), np.array([0.0, 0.125, 0.5, 0.75])


@pytest.fixture(params=NOISES, ids=repr)
def noise(request):
    return request.param


def _cases(noise):
    """``x`` and ``η`` (cases,), within the domain."""
    entries = []
    for x in ENTRIES:
        try:
            noise.check(float(x))
        except ValueError:
            continue
        entries.append(x)
    rates = RATE_GRID if noise.has_rate else np.zeros(1)
    x, rate = np.meshgrid(entries, rates)
    return x.ravel(), rate.ravel()


def _moments(noise, x, rate):
    gain, shift, quadratic, linear, constant = noise.coefficients(rate)
    return gain * x + shift, quadratic * x**2 + linear * x + constant


class _EveryUniform:
    """A generator whose uniforms are the 64 midpoints of a grid, so that averages over it are exact."""

    levels = (np.arange(64) + 0.5) / 64

    def random(self, shape):
        assert shape[0] == 64
        return np.broadcast_to(self.levels.reshape((64,) + (1,) * (len(shape) - 1)), shape)


def test_noises_are_found():
    assert {type(noise).__name__ for noise in NOISES} >= {
        "Dropout",
        "GaussianNoise",
        "LaplaceNoise",
        "MultiplicativeNoise",
        "PoissonNoise",
    }


@pytest.mark.parametrize("noise", RATED, ids=repr)
def test_dropout_law_by_enumeration(noise, same):
    """Mean, variance and log-moment-generating function of a two-point law, exactly."""
    x, rate = _cases(noise)
    draws = noise.sample(_EveryUniform(), np.broadcast_to(x, (64, *x.shape)), rate)
    assert all(len(np.unique(draws[:, k])) <= 2 for k in range(len(x)))
    mean, var = _moments(noise, x, rate)
    same(draws.mean(axis=0), mean)
    same(draws.var(axis=0), var)
    for t in (-1.3, 0.0, 0.4, 2.0):
        same(np.log(np.mean(np.exp(t * draws), axis=0)), noise.log_mgf(t, x, rate))


# Monte Carlo: means of independent terms, studentised. With 2e5 draws the normal tail beyond |z| = 6 (2e-9) is right
# to a factor of a few for every statistic here, so that the file raises a false alarm in fewer than 1e-5 of runs.
DRAWS, LIMIT = 200_000, 6.0


def _z(terms, expected):
    """Studentised distance of column means (cases,) from what is expected; 0 where they differ by rounding alone."""
    error = terms.std(axis=0) / np.sqrt(len(terms))
    distance = terms.mean(axis=0) - expected
    exact = np.abs(distance) <= len(terms) * np.finfo(float).eps * np.maximum(1.0, np.abs(expected))
    return np.where(exact, 0.0, distance / np.where(error > 0, error, np.finfo(float).tiny))


def test_sampler_has_the_moments(noise):
    x, rate = _cases(noise)
    draws = noise.sample(np.random.default_rng(21), np.broadcast_to(x, (DRAWS, *x.shape)), rate)
    assert draws.shape == (DRAWS, *x.shape)
    mean, var = _moments(noise, x, rate)
    assert np.max(np.abs(_z(draws, mean))) < LIMIT
    assert np.max(np.abs(_z((draws - mean) ** 2, var))) < LIMIT


def test_sampler_has_the_moment_generating_function(noise):
    x, rate = _cases(noise)
    draws = noise.sample(np.random.default_rng(22), np.broadcast_to(x, (DRAWS, *x.shape)), rate)
    for t in (-0.2, 0.15):
        expected = np.exp(noise.log_mgf(t, x, rate))
        assert np.max(np.abs(_z(np.exp(t * draws), expected))) < LIMIT, t


def _central(order):
    """Weights of the nine-point central difference of the given order, at steps −4 … 4."""
    points = np.arange(-4.0, 5.0)
    system = np.vander(points, increasing=True).T
    target = np.zeros(9)
    target[order] = factorial(order)
    return points, np.linalg.solve(system, target)


def test_log_mgf_slope_is_the_derivative(noise, same):
    """At zero the mean, and elsewhere the nine-point difference of the log-moment-generating function.

    Truncation ``h⁸ K⁽⁹⁾/630`` is far below the tolerance as in the next test, and rounding is a few ``ε|K|/h``.
    """
    x, rate = _cases(noise)
    same(noise.log_mgf_slope(np.zeros(1), x, rate), _moments(noise, x, rate)[0])
    h, (points, weights) = 0.005, _central(1)
    for t in (-0.7, -0.3, 0.2, 0.6):
        assert abs(t) + 4 * h < noise.mgf_limit()
        difference = sum(w * noise.log_mgf(t + k * h, x, rate) for k, w in zip(points, weights, strict=True)) / h
        slope = noise.log_mgf_slope(np.array([t]), x, rate)
        assert slope.shape == x.shape
        assert np.max(np.abs(difference - slope)) < 1e-9 * max(1.0, np.max(np.abs(slope))), t


def test_log_mgf_is_finite_below_its_limit_alone(noise):
    """Just inside the limit both functions are finite; where there is one, they are infinite at it."""
    x, rate = _cases(noise)
    limit = noise.mgf_limit()
    inside = min((1 - 1e-9) * limit, 20.0)
    for t in (-inside, inside):
        assert np.all(np.isfinite(noise.log_mgf(t, x, rate)))
        assert np.all(np.isfinite(noise.log_mgf_slope(t, x, rate)))
    if np.isfinite(limit):
        assert np.all(noise.log_mgf(limit, x, rate) == np.inf)
        assert np.all(noise.log_mgf_slope(limit, x, rate) == np.inf)


def test_log_mgf_generates_the_moments(noise):
    # Error of the nine-point rules at h = 0.005: truncation h⁸ K⁽⁹⁾/630 and h⁸ K⁽¹⁰⁾/3150, below 1e-9 for cumulants
    # up to 1e12 (those of a kept value of 10 are the largest here), and rounding, a few ε|K|/h² < 1e-10.
    x, rate = _cases(noise)
    h = 0.005
    mean, var = _moments(noise, x, rate)
    np.testing.assert_array_equal(np.abs(noise.log_mgf(0.0, x, rate)) <= 1e-15, True)
    for order, expected in ((1, mean), (2, var)):
        points, weights = _central(order)
        difference = sum(w * noise.log_mgf(t * h, x, rate) for t, w in zip(points, weights, strict=True)) / h**order
        assert np.max(np.abs(difference - expected)) < 1e-9, order


def _log_characteristic(noise, u, x, rate):
    """``log E exp{iu(x̃ − E x̃)}``, each noise by its own law; for two points from the likelier, whose log is near 0."""
    if noise.has_rate:
        kept = x / (1 - rate) if noise.unbiased else x
        angle = u * kept
        likely = rate < 0.5
        rare = np.where(likely, rate * np.expm1(-1j * angle), (1 - rate) * np.expm1(1j * angle))
        return np.log1p(rare) + 1j * angle * np.where(likely, rate, rate - 1)
    return noise.log_mgf(1j * u, x, rate) - 1j * u * _moments(noise, x, rate)[0]


def test_what_follows_the_variance_is_below_its_bound(noise):
    """``|e^r − 1| <= exp(bound) − 1``, in logarithms where it is large, for arguments from 0.3 to 60."""
    x, rate = _cases(noise)
    rates = [1e-6, 1e-3, 0.03, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.7, 0.9, 0.999] if noise.has_rate else [0.0]
    for r in rates:
        rate = np.full_like(x, r)
        third, fourth, remainder, powers, _, _ = noise.expansion(rate)
        var = _moments(noise, x, rate)[1]
        for u in np.geomspace(0.3, 60, 400):
            series = -0.5 * var * u**2 + fourth * x ** powers[1] * u**4 / 24
            rest = _log_characteristic(noise, u, x, rate) - series + 1j * third * x ** powers[0] * u**3 / 6
            bound = remainder * np.abs(x) ** powers[2] * u**5
            small = (bound < 30) & (rest.real < 30)
            found = np.where(small, np.log1p(np.abs(np.expm1(np.where(small, rest, 0)))), rest.real)
            assert np.all(found <= bound * (1 + 1e-9) + 1e-12 * (1 + np.abs(series)))


def test_tails_are_below_their_bound(noise):
    """``log E exp{t(x̃ − E x̃)} <= ½ V t²/(1 − jump |t|)``, from which the window of a score follows (Chernoff)."""
    x, rate = _cases(noise)
    expansion = noise.expansion(rate)
    mean, var = _moments(noise, x, rate)
    proxy = var if expansion.proxy is None else expansion.proxy * x**2
    if expansion.proxy is not None:
        assert np.all(proxy >= var * (1 - 1e-12))
    end = 0.99 / expansion.tail_scale if expansion.tail_scale else 20.0
    for t in np.r_[-np.geomspace(1e-3, end, 60), np.geomspace(1e-3, end, 60)]:
        found = noise.log_mgf(np.array(t), x, rate) - t * mean
        assert np.all(found <= 0.5 * proxy * t**2 / (1 - expansion.tail_scale * abs(t)) * (1 + 1e-9) + 1e-12)
