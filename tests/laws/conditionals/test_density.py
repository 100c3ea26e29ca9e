"""The densities that gradient samplers follow are those of the explicit programs, and their gradients are their own."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import ndtr
from jax.scipy.stats import norm
from numpyro.infer.util import log_density
from scipy.sparse import csr_array
from scipy.special import expit

import bayesdrop as bd
import bayesdrop.noise
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.energy import Energy
from bayesdrop.hmc.binding import bind_density
from bayesdrop.models import marginalised_dropout, normal_scores
from bayesdrop.models.statements import statements
from bayesdrop.moments import ScoreMoments
from bayesdrop.noise import Noise
from bayesdrop.sampling.matrix import samplers_matrix

N, P, CHAINS = 14, 4, 6
C = 1.7
SCALE = np.linspace(0.5, 2.0, P)
RATE = np.array([0.1, 0.4, 0.7, 0.95])
GROUPS = (0, 1, 0, 2)


def _noises():
    """Every noise of the package in every form that it has."""
    found = (getattr(bayesdrop.noise, name) for name in bayesdrop.noise.__all__)
    single = [cls for cls in found if isinstance(cls, type) and cls is not Noise and hasattr(cls, "has_rate")]
    return [form for cls in single for form in ((cls(), cls(unbiased=True)) if cls.has_rate else (_with_scale(cls),))]


def _with_scale(cls):
    return cls(0.6) if "scale" in cls.__dataclass_fields__ else cls()


class Shifted(bd.Dropout):
    """A noise with all five coefficients, of which the shipped noises have a few each."""

    def coefficients(self, rate):
        from bayesdrop.noise import Coefficients

        return Coefficients(1 - rate, 0.3 + rate, 0.2 * rate, 0.1 + rate, 0.5 * rate)


NOISES = [*_noises(), Shifted()]
FREE = {
    "per feature": bd.PerFeature(bd.Beta(2, 3)),
    "groups": bd.PerGroup(list(GROUPS), bd.Beta([2.0, 1.0, 0.5], [3.0, 1.0, 4.0])),
    "shared": bd.Shared(bd.Beta(1, 1)),
    "relative": bd.PerFeature(bd.Beta.from_mode(0.3, relative_strength=0.5)),
}


def _data(binary=True):
    """Features that are counts, with a row and entries of zeros; labels or numbers; row weights."""
    rng = np.random.default_rng(3)
    X = rng.poisson(0.8, size=(N, P)).astype(float)
    X[2] = 0
    score = X @ rng.normal(size=P) + rng.normal(size=N)
    y = np.where(score > np.median(score), 1.0, -1.0) if binary else score
    return X, y, rng.gamma(2.0, size=N)


def _bound(model, X, y, row_weight, marginalised, dtype="float64"):
    data = as_dataset(X, y, row_weight, None, model.loss.binary).with_weight()
    rate_map = model.bind(data.feature_names)
    return bind_density("HMC", model, data, rate_map, marginalised, dtype)


def _theta(density, seed=4):
    """Points of all chains, weights of either sign and any size."""
    rng = np.random.default_rng(seed)
    D = P + density.fit_intercept + density.free
    return jnp.asarray(rng.normal(size=(CHAINS, D)) * np.array([0.1, 0.3, 1.0, 1.0, 1.0, 2.0])[:, None])


def _potential(density, operands, theta):
    """Minus the log density, (CHAINS,), without the closed-form gradient."""
    mean, *rest = density.moments(operands, theta)
    var = rest[0] if rest else jnp.zeros_like(mean)
    return jnp.sum(density.cost(operands, mean, var)[0], axis=1) - density.log_prior(operands, theta)


@partial(jax.jit, static_argnums=0)
def _evaluate(density, operands, theta):
    """Cost, prior and gradient in one program, shared by equal densities."""
    return density.evaluate(operands, theta)


def _data_of(loss):
    """The data with responses that the loss takes: counts up to 5 for a loss of counts."""
    X, y, row_weight = _data(loss.binary)
    return X, y if loss.largest_count is None else np.minimum(np.round(np.abs(y)), 5.0), row_weight


def _coded(loss, y):
    """Labels as programs have them, 0 and 1, or numbers."""
    return (y > 0).astype(float) if loss.binary else y


def _is_refused(loss, noise):
    """The exact expectation of a Poisson count is no function of the two moments, so that no density has it."""
    if loss.expectation != "exact":
        return False
    with pytest.raises(ValueError, match="two moments of a score"):
        _bound(bd.Model(loss, noise, bd.Fixed(RATE) if noise.has_rate else None), *_data_of(loss), True)
    return True


def _against_program(density, operands, program, arguments, same, **options):
    theta = _theta(density)
    found = _evaluate(density, operands, theta)
    energy = np.asarray(jnp.sum(found.cost, axis=1) - found.prior)

    @jax.jit
    @jax.vmap
    def log_joints(point):
        values, slope = {"weight": point[:P], "intercept": point[P]}, 0.0
        if density.free:  # the library's coordinate is the probit of the rate, whose slope is the normal density
            values["rate"], slope = ndtr(point[P + 1 :]), jnp.sum(norm.logpdf(point[P + 1 :]))
        return log_density(program, arguments, {"intercept_scale": None, **options}, values)[0] + slope

    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # NumPyro's own code needs both
        gap = energy + np.asarray(log_joints(theta))
    assert np.std(energy) > 1
    same(gap - gap[0], np.zeros(CHAINS), energy)


@pytest.mark.slow_cases("Logistic(expectation='gau", "expectation='gaussian')-False")
@pytest.mark.parametrize(("unbiased", "storage"), [(False, csr_array), (True, np.asarray)])
def test_marginalised_density_is_the_program(loss, unbiased, storage, same, published_bound):
    """``exp(−U)``: the bound is the program's own where it has one, else the loss's, which has laws of its own."""
    X, y, row_weight = _data_of(loss)
    if _is_refused(loss, bd.Dropout(unbiased=unbiased)):
        return
    model = bd.Model(loss, bd.Dropout(unbiased=unbiased), bd.Fixed(RATE), C=C, weight_prior=bd.Normal(SCALE))
    density, operands = _bound(model, storage(X), y, row_weight, True)
    bound = published_bound(loss) if loss.expectation == "augmentation" else loss.value
    power = C * jnp.asarray(row_weight)
    arguments = (jnp.asarray(X), _coded(loss, y), jnp.asarray(RATE), bound, power, jnp.asarray(SCALE), unbiased)
    _against_program(density, operands, marginalised_dropout.program, arguments, same, real=not loss.binary)


def test_density_without_noise_is_the_plain_program(loss, same):
    X, y, row_weight = _data_of(loss)
    model = bd.Model(loss, rates=bd.Fixed(0.0), C=C, weight_prior=bd.Normal(SCALE))
    statement = statements()[type(loss).__name__]
    options = {**statement.options, "C": C * jnp.asarray(row_weight), "scale": jnp.asarray(SCALE)}
    for marginalised in (True, False):
        density, operands = _bound(model, X, y, row_weight, marginalised)
        assert not density.has_variance
        _against_program(density, operands, statement.program, (jnp.asarray(X), _coded(loss, y)), same, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "structure", "storage"),
    [
        (bd.Hinge(), "per feature", np.asarray),
        (bd.Hinge(), "groups", csr_array),
        (bd.Logistic(expectation="gaussian"), "groups", np.asarray),
        (bd.Logistic(), "per feature", csr_array),
    ],
)
def test_integrated_density_is_the_program(loss, structure, storage, same):
    """Whatever the bound of the loss: masks that are part of the model have no use for one. Weights repeat rows.

    To round-off in closed form, and to 1e-4 by 15 nodes under the logistic loss, for which the program has 200.
    """
    (X, y, _), times = _data(), 1 + np.arange(N) % 3
    groups = GROUPS if structure == "groups" else None
    A, B = (2.0, 3.0) if groups is None else (jnp.array([2.0, 1.0, 0.5]), jnp.array([3.0, 1.0, 4.0]))
    model = bd.Model(loss, rates=FREE[structure], C=C, weight_prior=bd.Normal(SCALE))
    density, operands = _bound(model, storage(X), y, times.astype(float), False)
    if isinstance(loss, bd.Logistic):
        likelihood, check = partial(normal_scores.logistic, nodes=200), partial(same, accuracy=1e-4)
    else:
        likelihood, check = normal_scores.hinge, same
    rows = jnp.asarray(np.repeat(X, times, axis=0)), _coded(loss, np.repeat(y, times))
    arguments = (*rows, likelihood, C, A, B, groups, jnp.asarray(SCALE))
    _against_program(density, operands, normal_scores.program, arguments, check)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_marginalised_density_is_the_energy_of_the_fit(noise, same):
    """For every noise, and gradient too: two statements of ``U``."""
    fit_intercept = noise.has_rate
    X, y, row_weight = _data()
    loss = bd.Logistic() if noise.has_rate else bd.Hinge()
    rates = bd.Fixed(RATE) if noise.has_rate else None
    model = bd.Model(loss, noise, rates, C=C, weight_prior=bd.Normal(SCALE), fit_intercept=fit_intercept)
    moments = ScoreMoments(as_design(X), noise, RATE[:, None], fit_intercept)
    precision = np.append(SCALE**-2.0, 0.0)[:, None]
    energy = Energy(moments, loss, y[:, None], C * row_weight[:, None], precision)
    for storage in (np.asarray, csr_array):
        density, operands = _bound(model, storage(X), y, row_weight, True)
        theta = _theta(density)
        found = _evaluate(density, operands, theta)
        total = jnp.sum(found.cost, axis=1) - found.prior
        for c in range(CHAINS):
            weights = np.append(theta[c], [] if fit_intercept else [0.0])[:, None]
            mean, var = moments.scores(weights)
            none = np.zeros((1, 1))
            same(total[c], energy.value(weights, mean, var, none)[0], total)
            gradient, _ = energy.gradient(weights, energy.derivatives(mean, var, none))
            same(found.gradient[c], gradient[: theta.shape[1], 0], found.gradient)


def _check_gradient(loss, noise, rates, marginalised, same, thorough):
    """By autodiff of the value; the points, drawn at random, are away from the kinks almost surely."""
    X, y, row_weight = (part[3:] for part in _data_of(loss))  # autodiff fails at a root of zero
    fixed = bd.Fixed(RATE) if noise.has_rate else None
    model = bd.Model(loss, noise, FREE[rates] if rates else fixed, C=C, weight_prior=bd.Normal(SCALE))
    density, operands = _bound(model, X, y, row_weight, marginalised)
    theta = _theta(density)
    found = _evaluate(density, operands, theta)

    @partial(jax.jit, compiler_options=thorough)
    def value_and_slope(theta):
        total, pull_back = jax.vjp(lambda t: _potential(density, operands, t), theta)
        return total, pull_back(jnp.ones(CHAINS))[0]

    total, expected = value_and_slope(theta)
    same(jnp.sum(found.cost, axis=1) - found.prior, total)
    same(found.gradient, expected)
    sparse = operands._replace(matrix=samplers_matrix(csr_array(X), "float64", True))
    for here, there in zip(found, _evaluate(density, sparse, theta), strict=True):
        same(here, there)


@pytest.mark.default_cases("Poisson(expectation='exact')")
def test_gradient_is_that_of_the_value(loss, same, thorough):
    """Every loss under the noise with all five coefficients, and with masks integrated, whatever its bound."""
    if _is_refused(loss, NOISES[-1]):
        return
    _check_gradient(loss, NOISES[-1], None, True, same, thorough)
    if loss.expectation == "augmentation":
        _check_gradient(loss, bd.Dropout(), "groups", False, same, thorough)


@pytest.mark.parametrize("loss", [bd.Hinge(0.7), bd.EpsilonInsensitive(0.4), bd.Quantile(0.3, 1.0)], ids=repr)
def test_a_rounded_gradient_is_a_mean_of_gradients_and_leaves_the_density_alone(loss, same):
    """The mean slope over the width from the losses' definitions, whose slope is a step: the share beyond each kink."""
    X, y, row_weight = _data(loss.binary)
    model = bd.Model(loss, rates=bd.Fixed(0.0), C=C, weight_prior=bd.Normal(SCALE))
    density, operands = _bound(model, X, y, row_weight, True)
    width = np.linspace(0.01, 2.0, N)
    theta = _theta(density)
    plain, rounded = (_evaluate(density, o, theta) for o in (operands, operands._replace(width=jnp.asarray(width))))
    np.testing.assert_allclose(plain.cost, rounded.cost, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plain.prior, rounded.prior, rtol=1e-12, atol=1e-12)
    score = np.asarray(theta[:, :P] @ X.T + theta[:, P:])

    def share_above(kink):
        return np.clip((score + width - kink) / (2 * width), 0, 1)

    if loss.binary:  # the slope is −y where the agreement is below the margin
        below = np.where(y > 0, 1 - share_above(y * loss.margin), share_above(y * loss.margin))
        slope = -y * below
    elif isinstance(loss, bd.Quantile):  # −τ below y, 1 − τ above it
        slope = share_above(y) - loss.tau
    else:
        slope = share_above(y + loss.epsilon) - 1 + share_above(y - loss.epsilon)
    assert np.mean((slope != 0) & (np.abs(slope) < 1)) > 0.1
    weighted = C * row_weight * slope
    expected = np.column_stack([weighted @ X + np.asarray(theta[:, :P]) / SCALE**2, weighted.sum(axis=1)])
    same(rounded.gradient, expected)


@pytest.mark.slow
@pytest.mark.parametrize("rates", [*FREE, None])
def test_gradient_in_rates_of_every_structure(rates, same, thorough):
    _check_gradient(bd.Logistic(), bd.Dropout(unbiased=True), rates, False, same, thorough)


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, True])
def test_a_row_without_noise_has_a_finite_gradient(losses, every):
    """A row of zeros under masks, and under Poisson noise, has a score without variance."""
    X, y, row_weight = _data()
    structures = {bd.Hinge(): ("groups", "relative"), bd.Logistic(): ("per feature", "shared")}
    cases = [(bd.Model(loss, rates=FREE[name]), False) for loss in structures for name in structures[loss][: 1 + every]]
    forms = [loss for loss in losses if loss.binary and (every or loss.expectation == "augmentation")]
    cases += [(bd.Model(loss, bd.PoissonNoise()), True) for loss in forms]
    for model, marginalised in cases:
        density, operands = _bound(model, X, y, row_weight, marginalised)
        for theta in (jnp.zeros_like(_theta(density)), _theta(density)):
            found = _evaluate(density, operands, theta)
            assert all(np.all(np.isfinite(part)) for part in found)


@pytest.mark.parametrize("marginalised", [True, False])
def test_single_precision_is_double_precision_rounded(marginalised):
    """Each row's cost to 1e-5 of the largest, the gradient to 1e-4 of it: sums of tens of terms of unit round-off."""
    X, y, row_weight = _data()
    rates = bd.Fixed(RATE) if marginalised else FREE["per feature"]
    found = {}
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            model = bd.Model(bd.Logistic(), rates=rates, C=C, weight_prior=bd.Normal(SCALE))
            density, operands = _bound(model, X, y, row_weight, marginalised, dtype)
            found[dtype] = _evaluate(density, operands, _theta(density).astype(dtype))
            assert {str(part.dtype) for part in found[dtype]} == {dtype}
    for name, accuracy in (("cost", 1e-5), ("prior", 1e-5), ("gradient", 1e-4)):
        wide = np.asarray(getattr(found["float64"], name))
        gap = np.abs(np.asarray(getattr(found["float32"], name), float) - wide)
        assert np.max(gap) < accuracy * np.max(np.abs(wide))


@pytest.mark.slow
def test_rates_and_their_coordinates_are_inverse(same):
    X, y, row_weight = _data()
    density, _ = _bound(bd.Model(rates=FREE["groups"]), X, y, row_weight, False)
    theta = _theta(density)
    same(jax.scipy.special.ndtri(jax.nn.sigmoid(density.logit_rates(theta))), theta[:, -3:])


def exact_likelihood(loss, X, y, weight, intercept, rate):
    """``log Σ_α p(α) exp{−loss(y, wᵀ(x∘α) + b)}`` of each row, parameters per row, and its bound by Jensen; (n,)."""
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=X.shape[1])))
    chance = np.prod(np.where(masks[None] == 1, 1 - rate[:, None], rate[:, None]), axis=2)
    score = (weight * X) @ masks.T + intercept[:, None]
    term = (
        expit(y[:, None] * score) if isinstance(loss, bd.Logistic) else np.exp(-np.maximum(0, 1 - y[:, None] * score))
    )
    return np.log(np.sum(chance * term, axis=1)), np.sum(chance * np.log(term), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "sd", "bound"),
    [(bd.Logistic(), 0.5, 0.015), (bd.Logistic(), 1.0, 0.1), (bd.Hinge(), 0.5, 0.045), (bd.Hinge(), 1.0, 0.16)],
)
@pytest.mark.parametrize("p", [3, 10])
def test_error_of_normal_scores_against_all_masks(p, loss, sd, bound):
    """Root mean square error of a row's log-likelihood: features standard normal, rates uniform, weights of this sd.

    The bounds are half as large again as what :mod:`bayesdrop.hmc.kernels.density` states for ten features, and
    Jensen's bound is three times as far off at least.
    """
    n, rng = 600, np.random.default_rng(0)
    X, weight, rate = rng.normal(size=(n, p)), sd * rng.normal(size=(n, p)), rng.random((n, p))
    intercept, y = rng.normal(size=n), np.where(rng.random(n) < 0.5, -1.0, 1.0)
    model = bd.Model(loss)
    density, operands = _bound(model, X, y, np.ones(n), False)
    mean = np.sum((1 - rate) * weight * X, axis=1) + intercept
    var = np.sum(rate * (1 - rate) * (weight * X) ** 2, axis=1)
    found = -np.asarray(density.cost(operands, jnp.asarray(mean)[None], jnp.asarray(var)[None])[0][0])
    exact, jensen = exact_likelihood(loss, X, y, weight, intercept, rate)
    error, other = (np.sqrt(np.mean((part - exact) ** 2)) for part in (found, jensen))
    assert error < bound
    assert other > 2.5 * error
