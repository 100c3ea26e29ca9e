"""The moments of the score, their derivatives and their adjoint, for every noise."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.moments import ScoreMoments

NOISES = [
    bd.Dropout(),
    bd.Dropout(unbiased=True),
    bd.GaussianNoise(0.7),
    bd.LaplaceNoise(0.4),
    bd.PoissonNoise(),
    bd.MultiplicativeNoise(0.6),
]


class Shifted(bd.Dropout):
    """A noise with all five coefficients, none of which the shipped noises leave untested together."""

    def coefficients(self, rate):
        from bayesdrop.noise import Coefficients

        return Coefficients(1 - rate, 0.3 + rate, 0.2 * rate, 0.1 + rate, 0.5 * rate)


class Corners(bd.Dropout):
    """All but the linear part of the variance: the products of one pass are then those of X and X²."""

    def coefficients(self, rate):
        from bayesdrop.noise import Coefficients

        return Coefficients(1 - rate, 0.3 + rate, 0.2 * rate, 0 * rate, 0.5 * rate)


@pytest.fixture(params=[*NOISES, Shifted(), Corners()], ids=lambda noise: f"{type(noise).__name__} {noise!r}")
def noise(request):
    return request.param


@pytest.fixture(params=["dense", "sparse"])
def setting(request, noise):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.7, size=(11, 4)).astype(float)
    rate = rng.random((4, 3)) * 0.9
    design = as_design(X if request.param == "dense" else sparse.csr_array(X))
    return X, noise.coefficients(rate), ScoreMoments(design, noise, rate), rng


def test_scores_are_the_formula(setting):
    X, (g, h, a, b, c), moments, rng = setting
    w = rng.normal(size=(5, 3))
    mean, var = moments.scores(w)
    np.testing.assert_allclose(mean, X @ (g * w[:-1]) + (h * w[:-1]).sum(0) + w[-1], rtol=1e-12)
    expected = X**2 @ (a * w[:-1] ** 2) + X @ (b * w[:-1] ** 2) + (c * w[:-1] ** 2).sum(0)
    np.testing.assert_allclose(var, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(moments.mean(w), mean, rtol=1e-12)
    np.testing.assert_allclose(moments.variance(w), var, rtol=1e-12, atol=1e-15)


def test_tangent_is_the_derivative(setting):
    """m is linear and v quadratic in w, so a central difference is exact up to round-off."""
    _, _, moments, rng = setting
    w, u = rng.normal(size=(2, 5, 3))
    dm, dv = moments.tangent(w, u)
    (mean_up, var_up), (mean_down, var_down) = moments.scores(w + u), moments.scores(w - u)
    np.testing.assert_allclose(dm, (mean_up - mean_down) / 2, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(dv, (var_up - var_down) / 2, rtol=1e-11, atol=1e-12)


def test_adjoint_identity(setting):
    _, _, moments, rng = setting
    w, u = rng.normal(size=(2, 5, 3))
    r, s = rng.normal(size=(2, 11, 3))
    dm, dv = moments.tangent(w, u)
    back, spread = moments.adjoint(w, r, s)
    np.testing.assert_allclose((back * u).sum(0), (r * dm + s * dv).sum(0), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(spread, moments.spread(s), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(moments.mean_adjoint(r), moments.adjoint(0 * w, r, 0 * s)[0], rtol=1e-12, atol=1e-12)


def test_normal_product_is_tangent_and_adjoint(setting):
    _, _, moments, rng = setting
    w, u = rng.normal(size=(2, 5, 3))
    omega, other = rng.random((2, 11, 3))

    def between(rows, mean, var):
        return omega[rows] * mean + other[rows] * var, other[rows] * mean - omega[rows] * var

    mean, var, back = moments.normal_product(w, u, between)
    tangent = moments.tangent(w, u)
    same = {"rtol": 1e-11, "atol": 1e-11}
    np.testing.assert_allclose(mean, tangent[0], **same)
    np.testing.assert_allclose(var, tangent[1], **same)
    np.testing.assert_allclose(back, moments.adjoint(w, *between(slice(None), *tangent))[0], **same)
    mean, back = moments.mean_normal_product(u, lambda rows, part: omega[rows] * part)
    np.testing.assert_allclose(mean, moments.mean(u), **same)
    np.testing.assert_allclose(back, moments.mean_adjoint(omega * mean), **same)


def test_diagonal(setting):
    _, _, moments, rng = setting
    omega = rng.random((11, 3))
    got = moments.diagonal(omega)
    for d in range(5):
        unit = np.zeros((5, 3))
        unit[d] = 1.0
        np.testing.assert_allclose(got[d], (omega * moments.mean(unit) ** 2).sum(0), rtol=1e-12, atol=1e-12)


def test_some_columns_are_those_of_all(setting):
    """Also of moments whose variance was forgotten: a problem that is left keeps the energy that it had."""
    _, _, moments, rng = setting
    w = rng.normal(size=(5, 3))
    for whole in (moments, moments.without_variance()):
        mean, var = whole.scores(w)
        some, some_var = whole.select([0, 2]).scores(w[:, [0, 2]])
        np.testing.assert_allclose(some, mean[:, [0, 2]], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(some_var, var[:, [0, 2]], rtol=1e-12, atol=1e-12)
        assert whole.select([0, 2]).has_variance == whole.has_variance


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_gram(setting, fit_intercept):
    _, _, moments, rng = setting
    moments = ScoreMoments(moments.design, moments.noise, moments.rate[:, 1:2], fit_intercept)
    omega = rng.random((11, 1))
    columns = np.concatenate([moments.mean(unit[:, None]) for unit in np.eye(5)], axis=1)
    columns[:, -1] *= fit_intercept
    expected = columns.T @ (omega * columns)
    grams = moments.grams(np.concatenate([omega, 2 * omega], axis=1))
    np.testing.assert_allclose(grams, [expected, 2 * expected], rtol=1e-12, atol=1e-12)


def test_without_intercept_its_gradient_is_zero(noise):
    moments = ScoreMoments(as_design(np.ones((3, 2))), noise, np.full((2, 1), 0.5), fit_intercept=False)
    ones = np.ones((3, 1))
    assert moments.adjoint(np.ones((3, 1)), ones, ones)[0][-1, 0] == 0
    assert moments.mean_adjoint(ones)[-1, 0] == 0
