"""Laws of every loss: what φ(y, m, v) is, what it bounds, and that ``(ω, κ)`` and the derivatives are its own."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import roots_legendre
from scipy.stats import norm

import bayesdrop.losses
from bayesdrop.losses import EpsilonInsensitive, Hinge, Logistic, Poisson, Quantile
from bayesdrop.models.statements import statements

POWERS = (0.1, 1.0, 2.5)

MEANS = np.array([-50, -20, -8, -3, -1.2, -1, -0.9, -0.3, -1e-3, 0, 1e-3, 0.3, 0.9, 1, 1.2, 3, 8, 20, 50])
VARIANCES = np.array([0, 1e-8, 1e-4, 1e-2, 0.1, 1, 10, 100, 1e4])


def _responses(loss):
    """Two responses that a loss may have."""
    return (-1.0, 1.0) if loss is None or loss.largest_count is None else (0.0, 3.0)


def _grid(means, variances, loss=None):
    """Responses, means and variances; the exponential of a Poisson loss leaves the digits of larger ones behind."""
    if isinstance(loss, Poisson):
        means, variances = means[np.abs(means) <= 8], variances[variances <= 10]
    rows = np.array(list(itertools.product(_responses(loss), means, variances)))
    return tuple(jnp.asarray(column) for column in rows.T)


def _smooth_grid(loss):
    """Moments at which automatic differentiation of φ itself is accurate: away from the kink, and r >= 0.05."""
    means = np.array([-50, -8, -3, -0.9, -0.3, -0.05, 0.04, 0.3, 0.8, 1.3, 3, 8, 50])
    return _grid(means, np.append([0.001, 0.004, 0.007], VARIANCES[3:]), loss)


def test_every_loss_is_stated_by_a_program(losses):
    """What a new loss needs beside its file: a program, whose statement the laws of this folder hold it to."""
    found = statements()
    kinds = [getattr(bayesdrop.losses, name) for name in bayesdrop.losses.__all__]
    for kind in kinds:
        if not (isinstance(kind, type) and hasattr(kind, "plain_value_and_slope")):
            continue
        name = kind.__name__
        assert name in found, f"{name}: no program in models/ has STATES[{name!r}], a Statement of its log-likelihood"
        bounded = hasattr(kind, "sample_pseudo")
        assert not bounded or found[name].bound, f"{name}: its Statement lacks the bound of its mixture"
    assert {type(loss).__name__ for loss in losses} == set(found)
    assert len(losses) >= 2 + 3 + 2 + 3 + 3 + 3 + 3 + 2


def test_a_piecewise_linear_loss_has_no_taylor_penalty(loss):
    if loss.piecewise_linear:
        with pytest.raises(ValueError, match="gaussian"):
            type(loss)(expectation="taylor")


def test_without_noise_it_is_the_plain_loss(loss, same, plain):
    y, mean, var = _grid(MEANS, np.zeros(1), loss)
    same(loss.value(y, mean, var), -plain(loss)(y, mean))


@pytest.mark.slow
def test_plain_likelihood_is_the_exponential_of_minus_the_loss_and_has_a_finite_log_everywhere():
    y, score = np.broadcast_arrays(np.array([1.0, -1.0])[:, None], np.linspace(-79, 79, 317)[None])
    loss, value = Logistic(), Logistic().plain_value_and_slope(y, score)[0]
    np.testing.assert_allclose(loss.plain_likelihood(y, score), np.exp(-value), rtol=1e-13)
    far = jnp.asarray([-1e4, -200.0, 200.0, 1e4], dtype=jnp.float32)
    for found in jax.vmap(jax.value_and_grad(lambda s: jnp.log(loss.plain_likelihood(jnp.float32(1), s))))(far):
        assert jnp.all(jnp.isfinite(found))


def test_plain_value_and_slope_are_those_without_noise(loss, same, plain):
    """The slope is that of the plain loss of the programs, by autodiff; the grid has no point on a kink."""
    y, mean, var = _grid(MEANS + 1e-4, np.zeros(1), loss)
    value, slope = loss.plain_value_and_slope(y, mean)
    log_likelihood = plain(loss)
    same(value, -log_likelihood(y, mean))
    same(slope, jax.jit(jax.vmap(jax.grad(lambda m, y: -log_likelihood(y, m))))(mean, y))
    same(value, loss.value(y, mean, var))
    same(slope, loss.derivatives(y, mean, var).mean)
    for here, there in zip(loss.plain_value_and_slope(np.asarray(y), np.asarray(mean)), (value, slope), strict=True):
        assert isinstance(here, np.ndarray)
        same(here, there)


def test_augmentation_is_the_published_formula(loss, same, published_bound):
    y, mean, var = _grid(MEANS, VARIANCES, loss)
    if loss.expectation == "augmentation":
        same(loss.value(y, mean, var), published_bound(loss)(y, mean, var))
    assert loss.plain.augmented or loss.quadratic or not hasattr(loss, "sample_pseudo")


@pytest.mark.slow_cases("epsilon=0.1, expectation='gau")
def test_gaussian_form_is_the_expectation(loss, plain):
    """By quadrature in panels; exact up to what quadrature and the mixture of 20 normals leave, 1e-10 together."""
    if loss.expectation == "gaussian":
        y, mean, var = (np.asarray(part) for part in _grid(MEANS, VARIANCES[1:], loss))
        expected = -_expected_plain_loss(plain(loss), y, mean, np.sqrt(var))
        assert np.all(np.abs(loss.value(y, mean, var) - expected) <= 1e-10 * np.maximum(1, np.abs(expected)))


def test_taylor_form_is_the_quadratic_penalty(loss, same, plain):
    """Wager, Wang & Liang (2013): the plain loss and half its second derivative, by autodiff."""
    if loss.expectation == "taylor":
        log_likelihood = plain(loss)
        y, mean, var = _grid(MEANS, VARIANCES, loss)
        bend = jax.jit(jax.vmap(jax.grad(jax.grad(lambda m, y: -log_likelihood(y, m)))))(mean, y)
        same(loss.value(y, mean, var), -log_likelihood(y, mean) + 0.5 * bend * var)


def test_what_noise_adds_depends_on_the_label_unless_separable(loss):
    y, mean, var = _grid(MEANS, VARIANCES[1:], loss)
    added = [np.asarray(loss.value(s * jnp.ones_like(y), mean, var)) for s in _responses(loss)]
    plain = [np.asarray(loss.value(s * jnp.ones_like(y), mean, 0 * var)) for s in _responses(loss)]
    gap = (added[0] - plain[0]) - (added[1] - plain[1])
    size = np.max(np.abs(added))
    assert (np.max(np.abs(gap)) < 1e-11 * size) == loss.separable


def test_quadratic_is_what_it_says(loss):
    """Second derivatives that are the same everywhere, and none but that in the mean."""
    parts = loss.derivatives(*_grid(MEANS, VARIANCES[1:], loss))
    constant = np.ptp(np.asarray(parts.mean_mean)) < 1e-12
    assert (constant and not np.any(parts.mean_var) and not np.any(parts.var_var)) == loss.quadratic


def test_expected_probability_is_the_expectation():
    sigma = Logistic().expected_probability
    for mean, var in itertools.product(MEANS, VARIANCES):
        sd = np.sqrt(max(var, 1e-18))
        expected = _expected_plain_loss(lambda y, s: jax.nn.sigmoid(jnp.asarray(s)), 1.0, mean, sd)
        assert float(sigma(np.asarray(mean), np.asarray(var), 1.0)) == pytest.approx(expected, abs=1e-10)


@pytest.mark.slow_cases("Logistic(expectation='gau")
def test_derivatives_are_those_of_the_value(loss, same):
    y, mean, var = _smooth_grid(loss)

    def scalar(y, m, v):
        return loss.value(y, m, v)

    slope_m, slope_v = jax.grad(scalar, 1), jax.grad(scalar, 2)
    oracle = (slope_m, slope_v, jax.grad(slope_m, 1), jax.grad(slope_m, 2), jax.grad(slope_v, 2))
    closed = jax.jit(loss.derivatives)(y, mean, var)
    expected = jax.jit(jax.vmap(lambda *at: tuple(function(*at) for function in oracle)))(y, mean, var)
    for name, part, derivative in zip(closed._fields, closed, expected, strict=True):
        assert part.shape == mean.shape, name
        same(part, derivative)


@pytest.mark.slow
def test_derivatives_where_autodiff_cannot_reach(same):
    """The logistic loss at ``r = 0``: tanh(r/2)/(2r) = 1/4 − r²/48 + …, so φ_v = 1/8 and φ_vv = −1/96."""
    zero = jnp.zeros(1)
    closed = Logistic().derivatives(jnp.ones(1), zero, zero)
    same(jnp.concatenate(closed), jnp.array([-1 / 2, 1 / 8, 1 / 4, 0, -1 / 96]))


def test_numpy_and_jax_agree(loss, same):
    arguments = _grid(MEANS, VARIANCES[1:], loss)
    plain = tuple(np.asarray(part) for part in arguments)
    same(loss.value(*plain), loss.value(*arguments))
    for here, there in zip(loss.derivatives(*plain), loss.derivatives(*arguments), strict=True):
        assert isinstance(here, np.ndarray)
        same(here, there, there)


def test_pseudo_observation_is_the_derivative(augmentable, same):
    loss = augmentable
    y, mean, var = _smooth_grid(loss)
    slope_m, slope_v = jax.jit(jax.vmap(jax.grad(lambda m, v, y: loss.value(y, m, v), (0, 1))))(mean, var, y)
    for C in POWERS:
        omega, kappa = loss.pseudo(y, mean, var, jnp.full_like(mean, C))
        same(omega, 2 * C * slope_v)
        same(kappa, omega * mean - C * slope_m, omega * mean)


def test_omega_is_not_negative(augmentable):
    loss = augmentable
    y, mean, var = _grid(MEANS, VARIANCES, loss)
    omega = np.asarray(loss.pseudo(y, mean, var, jnp.ones_like(mean)).omega)
    assert np.all(omega >= 0)
    assert not np.any(np.isnan(omega))


def _expected_plain_loss(plain, y, mean, sd):
    """``E loss(y, s)``, ``s ~ N(mean, sd²)``: Gauss-Legendre panels, cut at every score where a loss bends.

    Of numbers or arrays of one shape; panels beyond 12 deviations have no width.
    """
    y, mean, sd = (np.asarray(part, dtype=float)[..., None, None] for part in (y, mean, sd))
    nodes, weights = roots_legendre(24)
    places = [-40, -20, -10, -6, -4, -3, -2, -1.1, -1, -0.9, 0, 0.9, 1, 1.1, 2, 3, 4, 6, 10, 20, 40]
    bends = (np.array(places) - mean[..., 0]) / sd[..., 0]
    even = np.broadcast_to(np.linspace(-12, 12, 25), (*bends.shape[:-1], 25))
    cuts = np.sort(np.clip(np.concatenate([even, bends], axis=-1), -12, 12), axis=-1)[..., None]
    half, centre = np.diff(cuts, axis=-2) / 2, (cuts[..., 1:, :] + cuts[..., :-1, :]) / 2
    z = centre + half * nodes
    value = np.asarray(plain(np.broadcast_to(y, z.shape), mean + sd * z))
    return np.sum(half * weights * norm.pdf(z) * value, axis=(-2, -1))


def test_bound_is_above_what_it_bounds(augmentable, same, plain):
    loss = augmentable
    if loss.expectation != "augmentation":
        return
    log_likelihood = plain(loss)
    y, mean, var = (np.asarray(part) for part in _grid(MEANS, VARIANCES[1:], loss))
    expectation = -_expected_plain_loss(log_likelihood, y, mean, np.sqrt(var))
    gap = loss.value(y, mean, var) - expectation
    below = gap < -1e-12 * np.maximum(1.0, np.abs(expectation))
    assert not np.any(below), (y[below], mean[below], var[below])
    assert gap.max() > 0.05 or loss.quadratic, (
        "the grid holds no point at which the bound is loose, so it tests nothing"
    )


# Draws of the pseudo-observation at every power, label, mean and variance of the score. Each statistic is a mean of n
# = 2e4 independent draws with a known standard deviation and a skewness below 6.5, which raises the normal tail
# beyond |z| = 5.7 (1.2e-8) by less than a factor of five. With 96 cells and at most two statistics each the file
# raises a false alarm in fewer than 3e-5 of runs.
DRAWS, LIMIT = 20_000, 5.7
CELLS = np.array(list(itertools.product(POWERS, (-1.0, 1.0), (-7.0, -1.0, 0.0, 0.3, 0.9, 1.0, 2.0, 5.0), (0.0, 0.7))))


def _draw(loss, key):
    """``(ω, κ)`` at every cell, (cells, draws) each."""
    C, y, mean, var = (jnp.asarray(np.repeat(column, DRAWS)) for column in CELLS.T)
    pseudo = jax.jit(loss.sample_pseudo)(key, y, mean, var, C)
    return (np.asarray(part).reshape(len(CELLS), DRAWS) for part in pseudo)


def _expected_omega(loss):
    C, y, mean, var = (jnp.asarray(column) for column in CELLS.T)
    return np.asarray(loss.pseudo(y, mean, var, C).omega)


def _worst(draws, mean, sd):
    """Largest |z| over the cells."""
    return np.max(np.abs(draws.mean(axis=1) - mean) / (sd / np.sqrt(draws.shape[1])))


@pytest.mark.slow
def test_hinge_draws_have_the_moments_of_the_latent_scale():
    # 1/λ is inverse Gaussian with mean 1/ν and shape 1, so λ has mean ν + 1 and variance ν + 2, on the margin too,
    # where ω = c²/λ itself has no mean.
    C, y, mean, var = CELLS.T
    half = C / 2
    omega, kappa = _draw(Hinge(), jax.random.key(11))
    np.testing.assert_allclose(kappa, y[:, None] * (omega + half[:, None]), rtol=1e-12)
    nu = half * np.sqrt((1 - y * mean) ** 2 + var)
    assert np.sum(nu == 0) == 6
    assert _worst(half[:, None] ** 2 / omega, nu + 1, np.sqrt(nu + 2)) < LIMIT
    tame = nu > 0.5  # ω has the variance c⁴/ν³ and the skewness 3/√ν
    assert _worst(omega[tame], _expected_omega(Hinge())[tame], half[tame] ** 2 * nu[tame] ** -1.5) < LIMIT


@pytest.mark.slow
def test_epsilon_insensitive_draws_are_two_of_the_hinge():
    """ω = a + b and κ = a(y − ε) + b(y + ε) give both latent scales back: a = (ω(y + ε) − κ)/(2ε)."""
    C, y, mean, var = CELLS.T
    half, epsilon = C / 2, 0.3
    omega, kappa = _draw(EpsilonInsensitive(epsilon), jax.random.key(13))
    above = (omega * (y[:, None] + epsilon) - kappa) / (2 * epsilon)
    for part, slack in ((above, y - mean - epsilon), (omega - above, mean - y - epsilon)):
        nu = half * np.sqrt(slack**2 + var)
        tame = nu > 0.5
        expected = half**2 / np.where(nu > 0, nu, 1.0)  # E c²/λ = c²/ν, variance c⁴/ν³
        assert np.sum(tame) > 15
        assert _worst(part[tame], expected[tame], half[tame] ** 2 * nu[tame] ** -1.5) < LIMIT


@pytest.mark.slow
def test_quantile_draws_have_the_moments_of_their_mixture():
    """``κ = ωy + C(τ − ½)``, and ``λ = c²/ω`` is the hinge's of the residual; ω itself has no mean without one."""
    C, y, mean, var = CELLS.T
    half, tau = C / 2, 0.8
    omega, kappa = _draw(Quantile(tau), jax.random.key(14))
    np.testing.assert_allclose(kappa, omega * y[:, None] + (C * (tau - 0.5))[:, None], rtol=1e-12)
    nu = half * np.sqrt((y - mean) ** 2 + var)
    assert np.sum(nu == 0) > 0
    assert _worst(half[:, None] ** 2 / omega, nu + 1, np.sqrt(nu + 2)) < LIMIT
    tame = nu > 0.5
    assert _worst(omega[tame], _expected_omega(Quantile(tau))[tame], half[tame] ** 2 * nu[tame] ** -1.5) < LIMIT


def test_the_median_is_half_of_no_tube(same):
    """``τ = ½`` is half of the ε-insensitive loss of ``ε = 0``, whose pseudo-observation it has at twice the weight."""
    y, mean, var = _grid(MEANS, VARIANCES[1:])
    for expectation in ("augmentation", "gaussian"):
        median, tube = Quantile(0.5, expectation=expectation), EpsilonInsensitive(0.0, expectation)
        same(2 * median.value(y, mean, var), tube.value(y, mean, var))
        for half, whole in zip(median.derivatives(y, mean, var), tube.derivatives(y, mean, var), strict=True):
            same(2 * half, whole)
        pseudo = median.pseudo(y, mean, var, jnp.full_like(y, 3.0)), tube.pseudo(y, mean, var, jnp.full_like(y, 1.5))
        for found, expected in zip(*pseudo, strict=True):
            same(found, expected)
    weight = np.full(len(y), 3.0)
    parts = tuple(np.asarray(part) for part in (y, mean, var))
    costs = Quantile().score_cost(*parts, weight), EpsilonInsensitive(0.0).score_cost(*parts, weight / 2)
    for found, expected in zip(*costs, strict=True):
        same(found, expected)
    same(Quantile().log_constant(3.0), EpsilonInsensitive(0.0).log_constant(1.5))


@pytest.mark.slow
def test_logistic_draws_have_the_expected_omega():
    C, y, mean, var = CELLS.T
    omega, kappa = _draw(Logistic(), jax.random.key(12))
    np.testing.assert_allclose(kappa, np.broadcast_to((y * C / 2)[:, None], kappa.shape), rtol=1e-12)
    # Var PG(C, s) = C (sinh s − s) sech²(s/2) / (4 s³), C/24 at 0.
    root = np.sqrt(mean**2 + var)
    s = np.where(root == 0, 1.0, root)
    var = np.where(root == 0, 1 / 24, (np.sinh(s) - s) / np.cosh(s / 2) ** 2 / (4 * s**3))
    assert _worst(omega, _expected_omega(Logistic()), np.sqrt(C * var)) < LIMIT
