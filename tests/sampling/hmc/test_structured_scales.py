"""Learnt scales of many weights: the maps that decouple them, and the draws.

Jacobians, densities, those of slices too, centres and covariances are exact. False-alarm rate of the draws: each
statistic is allowed 6 standard errors of 64 independent chains
(1e-7 by Student's t), 4 are compared; Kolmogorov-Smirnov tests have 1e-6.
"""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse, stats

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.hmc.approximations import choices
from bayesdrop.hmc.approximations.choices import Limits
from bayesdrop.hmc.approximations.learnt_scales import ScaleDensity
from bayesdrop.hmc.approximations.scale_map import Eigenvectors, LeadingDirections, RowDirections
from bayesdrop.hmc.binding import bind_start
from bayesdrop.hmc.kernels import kernel as hmc_kernel
from bayesdrop.hmc.kernels.factors import StretchFactor
from bayesdrop.sampling.run.runner import as_key, run

FEW, MANY = (12, 16), (40, 6)


def learnt(p, groups=1, size=1.0):
    unit = np.linspace(0.5, 1.5, p)
    names = None if groups == 1 else ["ab"[d % 2] for d in range(p)]
    return bd.Normal(bd.HalfNormal(size), unit=unit, groups=names)


def data_of(n, p, classes=2):
    generator = np.random.default_rng(4)
    X = generator.normal(size=(n, p)) * (generator.random((n, p)) < 0.5)
    y = np.argmax(X[:, :classes] + 0.5 * generator.gumbel(size=(n, classes)), axis=1)
    return as_dataset(sparse.csr_array(X), y, multiclass=classes > 2, binary=classes == 2).with_weight()


def case_of(name, groups=1):
    """A model, its data, whether the loss is marginalised, and the directions that it has."""
    kind, *more = name.split(", ")
    n, p = FEW if kind in ("classes of few rows", "few rows") else MANY
    rates = bd.Fixed(0.3) if "noise" in more else bd.Shared() if "rate" in more else bd.Fixed(0.0)
    classes = 3 if kind.startswith("classes") else 2
    loss = bd.Softmax() if classes > 2 else bd.Logistic()
    model = bd.Model(loss, rates=rates, weight_prior=learnt(p, groups))
    found = RowDirections if kind.endswith("few rows") else Eigenvectors if classes > 2 else LeadingDirections
    return model, data_of(n, p, classes), classes > 2 or not more, found


def start_of(model, data, marginalised):
    rate_map = model.bind(data.feature_names)
    case = choices.case_of(model, data, rate_map, marginalised)
    choice = choices.choose(case, SMALL).name
    return bind_start("HMC", model, data, rate_map, marginalised, "float64", choice)


SMALL = Limits(dense=2)
CASES = [
    ("classes of few rows", 1), ("classes of few rows, noise", 2), ("classes of many rows", 2),
    ("classes of many rows, noise", 1), ("few rows", 1), ("few rows, rate", 2), ("many rows", 2),
    ("many rows, rate", 1),
]  # fmt: skip


@pytest.mark.default_cases("many rows, rate-1", "classes of many rows, noise-1", "few rows, rate-2")
@pytest.mark.parametrize(("name", "groups"), CASES)
def test_the_jacobian_is_that_of_the_map(name, groups):
    """Against the determinant of its derivative, at scales near and far."""
    model, data, marginalised, kind = case_of(name, groups)
    with jax.enable_x64(True):
        bound = start_of(model, data, marginalised)
        found, D = bound.operands.map, bound.operands.map.size
        assert isinstance(found.directions, kind)
        # As if the curvature fell otherwise with each scale.
        fall = jnp.linspace(0.4, 1.3, groups)
        found = found._replace(fall=fall, pull_fall=0.5 * fall)
        zeta = jnp.asarray(np.random.default_rng(0).normal(size=(3, D)))
        delta = jnp.asarray([[0.0, 0.0], [-1.5, 0.7], [1.2, -0.4]])[:, :groups]
        # A scale is a coordinate of its own, so that this block has the determinant of the whole.

        @jax.jit
        def everything(found, zeta, delta):
            slope = jax.vmap(jax.jacobian(lambda z, d: found.place(z[None], d[None])[0][0]))(zeta, delta)
            parts, level = found.frame.whiten(zeta)
            along = found.directions.along(parts)
            again = found.directions.along(found.directions.back(along))
            return slope, found.place(zeta, delta)[1], found.frame.join(parts, level), along, again

        slope, jacobian, joined, along, again = map(np.asarray, everything(found, zeta, delta))
    expected = np.linalg.slogdet(slope)[1]
    np.testing.assert_allclose(jacobian - jacobian[0], expected - expected[0], atol=1e-9)
    np.testing.assert_allclose(joined, zeta, atol=1e-10)
    # V is orthonormal, in as many directions as the rows say something.
    np.testing.assert_allclose(again, along, atol=1e-9)


def scale_part(model, bound, theta, log_scale):
    """Log prior density of weights and ``log σ``, by scipy."""
    p, J = len(model.weight_prior.unit), bound.density.contrasts
    found = model.weight_prior.learnt_scale(p)
    scale = np.exp(log_scale)[:, found.index] * found.unit
    weight = theta[:, : J * p].reshape(-1, J, p)
    weights = stats.norm.logpdf(weight, scale=scale[:, None]).sum(axis=(1, 2))
    return weights + (stats.halfnorm.logpdf(np.exp(log_scale)) + log_scale).sum(axis=1)


@pytest.mark.default_cases("classes of few rows, noise-2", "many rows-2")
@pytest.mark.parametrize(("name", "groups"), CASES)
def test_the_density_is_that_of_weights_and_scales(name, groups):
    """What rows and rates say of ``θ``, normal weights and half-normal scales by scipy, and the map's determinant."""
    model, data, marginalised, _ = case_of(name, groups)
    with jax.enable_x64(True):
        bound = start_of(model, data, marginalised)
        density, operands = bound.density, bound.operands
        point = jnp.asarray(np.random.default_rng(3).normal(size=(4, len(bound.centre))))

        def one(point):
            return jnp.concatenate([part[0] for part in density.place(operands, point[None])[:2]])

        @jax.jit
        def everything(point):
            theta, log_scale, _ = density.place(operands, point)
            found, given = density.evaluate(operands, point), bound.given.evaluate(operands.given, theta)
            values = (part.prior - jnp.sum(part.cost, axis=1) for part in (found, given))
            return *values, theta, log_scale, jnp.linalg.slogdet(jax.vmap(jax.jacobian(one))(point))[1]

        found, given, *place, stretch = (np.asarray(part) for part in everything(point))
    offset = found - given - scale_part(model, bound, *place) - stretch
    np.testing.assert_allclose(offset, offset[0], rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["classes of few rows", "classes of many rows", "few rows", "many rows"])
def test_centre_and_covariance_at_any_scale(name):
    """``ζ = 0`` is the mean, and the prior alone changes with the scale, where the curvature of the rows does not.

    The leading directions of many rows are as exact where the scale is that of the approximation.
    """
    model, data, marginalised, _ = case_of(name)
    prior = model.weight_prior.learnt_scale(data.design.shape[1])
    with jax.enable_x64(True):
        bound = start_of(model, data, marginalised)
        inside = bound.operands.map
        inside = inside._replace(fall=0 * inside.fall, pull_fall=0 * inside.pull_fall)
        known = replace(model, weight_prior=bd.Normal(prior.scale(np.exp(bound.operands.log_scale))))
        start = start_of(known, data, marginalised)
        D, J = inside.size, bound.density.contrasts
        times, place = jax.jit(lambda factor, z: factor.times(z)), jax.jit(lambda inside, *at: inside.place(*at)[0])
        factor = np.asarray(times(start.factor, np.eye(D))).T
        precision = np.linalg.inv(factor @ factor.T)
        of_prior = np.zeros(D)
        of_prior[: J * len(prior.index)] = np.tile(known.weight_prior.precision(len(prior.index)), J)
        for delta in (0.0,) if name == "many rows" else (-1.0, 0.0, 0.8):
            found = np.asarray(place(inside, np.eye(D + 1, D, -1), np.full((D + 1, 1), delta)))
            moved = precision + np.diag(np.expm1(-2 * delta) * of_prior)
            np.testing.assert_allclose(found[0], np.linalg.solve(moved, precision @ start.centre), rtol=0, atol=1e-6)
            spread = (found[1:] - found[0]).T
            np.testing.assert_allclose(spread @ spread.T @ moved, np.eye(D), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["classes of few rows", "few rows, rate"])
def test_slices_are_of_the_density(monkeypatch, name):
    """Each trial of a scale differs from its start as the density does, all else as the slices before left it."""
    model, data, marginalised, _ = case_of(name, 2)
    trials = []

    def moved(key, log_density, start, width):
        away = start + jnp.asarray([0.4, -0.7])
        before, after = jax.lax.map(log_density, jnp.stack([start, away]))  # compiled once
        trials.append((start, away, after - before))
        return away

    monkeypatch.setattr(hmc_kernel, "slice_sample", moved)
    with jax.enable_x64(True):
        method = bd.HMC(dtype="float64", limits=SMALL)
        kernel, operands = method.bind(model, data, model.bind(data.feature_names), 5, marginalised)

        @jax.jit
        def value(operands, point):
            found = kernel.density.evaluate(operands.density, point)
            return found.prior - jnp.sum(found.cost, axis=1), found

        @jax.jit
        def moves(operands, state):
            trials.clear()
            new = kernel.slice_last(operands, state)
            return new.evaluation, trials, [kernel.place(operands, part, part.position) for part in (state, new)]

        state = jax.jit(kernel.init, static_argnums=2)(operands, as_key(0), 2)
        # As pilots leave it.
        state = state._replace(centre=state.centre + 0.1, factor=1.3 * state.factor)
        evaluation, trials, (point, after) = map(partial(jax.tree.map, np.asarray), moves(operands, state))
        assert len(trials) == 2
        expected, moving, here = [], point, value(operands, point)[0]
        for j, (_, away, _) in enumerate(trials):
            start, moving = moving[:, j - 2], moving.copy()
            moving[:, j - 2] = away
            before, (here, evaluated) = here, value(operands, moving)
            expected.append((start, away, here - before))
    compared = (after, evaluation, trials), (moving, evaluated, expected)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9), *compared)


@pytest.mark.parametrize("name", ["classes of few rows", "many rows, rate"])
def test_the_gradient_is_that_of_the_density(name):
    model, data, marginalised, _ = case_of(name)
    with jax.enable_x64(True):
        bound = start_of(model, data, marginalised)
        assert isinstance(bound.density, ScaleDensity)
        assert isinstance(bound.factor, StretchFactor)
        point = jnp.asarray(np.random.default_rng(1).normal(size=(2, len(bound.centre))))

        def value(point):
            found = bound.density.evaluate(bound.operands, point)
            return jnp.sum(found.cost) - jnp.sum(found.prior)

        found = jax.jit(lambda at: (jax.grad(value)(at), bound.density.evaluate(bound.operands, at).gradient))(point)
    np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("p", [16, 6])
def test_the_map_decouples_a_gaussian_posterior(p):
    """One scale and a squared loss: at any scale ``ζ`` is standard normal, where the rows' directions are all there."""
    n = 12 if p == 16 else 8
    X = np.random.default_rng(2).normal(size=(n, p))
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=learnt(p))
    with jax.enable_x64(True):
        data = as_dataset(sparse.csr_array(X), X[:, 0] + 0.3 * X[:, 1], binary=False).with_weight()
        bound = start_of(model, data, True)
        assert isinstance(bound.operands.map.directions, RowDirections)
        np.testing.assert_allclose(bound.operands.map.fall, 0, atol=1e-6)
        inside = bound.operands.map
        inside = bound.operands._replace(map=inside._replace(fall=0 * inside.fall, pull_fall=0 * inside.fall))
        zeta, evaluate = np.random.default_rng(0).normal(size=(5, p + 1)), jax.jit(bound.density.evaluate)
        for delta in (-2.0, 0.0, 1.5):
            at = jnp.asarray(np.c_[zeta, np.full(5, delta)])
            found = evaluate(inside, at)
            value = np.asarray(jnp.sum(found.cost, axis=1) - found.prior) - 0.5 * np.sum(zeta**2, axis=1)
            np.testing.assert_allclose(value, value[0], atol=1e-2)


def drawn(model, data, marginalised, chains, tune, draws, n_leapfrog_steps=None, seed=1, limits=SMALL):
    with jax.enable_x64(True):
        bound = bd.HMC(n_leapfrog_steps=n_leapfrog_steps, dtype="float64", limits=limits).bind(
            model, data, model.bind(data.feature_names), tune, marginalised
        )
        return bound, run(*bound, as_key(seed), tune=tune, draws=draws, chains=chains, progress=False).draws


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2])
def test_without_data_the_prior_is_recovered(groups):
    """As C → 0: one draw of each of 1,000 chains."""
    n, p = FEW
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), C=1e-6, weight_prior=learnt(p, groups), fit_intercept=False)
    found = drawn(model, data_of(n, p, 3), True, chains=1000, tune=60, draws=1)[1]
    scale = np.exp(np.asarray(found["log_weight_scale"], float)).reshape(1000, groups)
    for column in scale.T:
        assert stats.kstest(column, stats.halfnorm().cdf).pvalue > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classes of few rows", "classes of many rows", "few rows", "few rows, rate"])
def test_draws_are_those_of_a_dense_factor(name):
    """Scale, its square, and the squares of the weights, each bounded."""
    model, data, marginalised, _ = case_of(name)
    moments = []
    for dense in (True, False):
        limits = Limits() if dense else SMALL
        (_, operands), found = drawn(model, data, marginalised, 64, 300, 700, n_leapfrog_steps=12, limits=limits)
        assert isinstance(operands.factor, StretchFactor) != dense
        scale = np.exp(np.asarray(found["log_weight_scale"], float)).reshape(64, 700)
        weight = np.asarray(found["weight"], float).reshape(64, 700, -1)
        squares = np.mean(weight**2, axis=2)
        each = [scale, scale**2, np.log1p(squares), np.tanh(weight[..., 0])]
        moments.append(np.stack([part.mean(axis=1) for part in each], axis=1))
    away = moments[0].mean(axis=0) - moments[1].mean(axis=0)
    error = np.sqrt(sum(found.var(axis=0, ddof=1) for found in moments) / 64)
    assert np.all(np.abs(away) < 6 * error), (away / error, moments[0].mean(axis=0), moments[1].mean(axis=0))


def test_many_rows_and_features_have_their_scale():
    """It was held at its most likely value once; the kernel goes through the rows, and records it."""
    model, data, marginalised, _ = case_of("many rows")
    (kernel, operands), found = drawn(model, data, marginalised, chains=2, tune=8, draws=6, n_leapfrog_steps=3)
    assert type(kernel).__name__ == "StreamedKernel"
    assert isinstance(operands.chains.factor, StretchFactor)
    assert len(np.unique(found["log_weight_scale"])) > 3
