"""Several learnt scales at a time: random terms side by side, crossed, and beside a learnt scale of the features.

With a squared loss of known variance the weights are integrated out in closed form, so that the posterior of two log
scales is a density on a grid. Maps are exact there. At length: 100,000 draws in four chains, whose distances from the
grid are at most .005 if they are exact (500 runs of independent draws: .0044 at most; false-alarm rate below 1e-3), and
.02 is what is asked.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import bayesdrop as bd
from bayesdrop.fitting.by_formula import FormulaOptions, read_formula
from bayesdrop.hmc.approximations import joint_scale_map
from bayesdrop.hmc.binding import bind_start
from bayesdrop.posterior.problem import Problem

GRID = np.linspace(-12.0, 3.0, 301)
PLAIN = {"rates": bd.Fixed(0.0)}


def table(seed, rows=60, levels=6):
    generator = np.random.default_rng(seed)
    site, x = np.arange(rows) % levels, generator.normal(size=rows)
    slope = generator.normal(size=levels)
    y = 0.5 + 0.8 * x + generator.normal(size=rows) + 0.3 * slope[site] * x
    day = generator.integers(0, 5, rows)
    return pd.DataFrame({"x": x, "z": generator.normal(size=rows), "site": site, "day": day, "y": y}).astype(
        {"site": "str", "day": "str"}
    )


def columns(data, name, slope=None):
    found = (data[name].to_numpy()[:, None] == np.unique(data[name])[None]) * 1.0
    return found if slope is None else found * data[slope].to_numpy()[:, None]


def log_posterior(data, effects, t, features=()):
    """Log density of log scales (points, g) with effects and features of scale 1 integrated out, up to a constant."""
    n = len(data)
    X = np.column_stack([np.zeros((n, 0)), *(data[name] for name in features)])
    known = np.linalg.inv(np.eye(n) + X @ X.T)
    rows = known - np.outer(known.sum(axis=0), known.sum(axis=0)) / known.sum()  # a flat intercept
    Z, sizes = np.hstack(effects), [part.shape[1] for part in effects]
    gram, pull = Z.T @ rows @ Z, Z.T @ rows @ data.y.to_numpy()
    scale = np.repeat(np.exp(t), sizes, axis=1)
    inside, right = np.eye(len(pull)) + scale[:, :, None] * gram * scale[:, None], scale * pull
    square = np.sum(right * np.linalg.solve(inside, right[..., None])[..., 0], axis=1)
    law = np.sum(stats.halfnorm.logpdf(np.exp(t)) + t, axis=1)
    return law + 0.5 * square - 0.5 * np.linalg.slogdet(inside)[1]


def distribution_functions(name, data):
    """Those of both log scales on the grid."""
    pairs = np.stack(np.meshgrid(GRID, GRID, indexing="ij"), axis=-1)
    log_p = np.array([log_posterior(data, *reference(name, data, t)) for t in pairs])
    p = np.exp(log_p - log_p.max())
    sides = p.sum(axis=1) / p.sum(), p.sum(axis=0) / p.sum()
    return [np.cumsum(side) - 0.5 * side for side in sides]


BESIDE = bd.Model(bd.Squared(variance=1.0), **PLAIN)
CASES = {
    "side by side": (BESIDE, "y ~ x + (1 | site) + (0 + x | site)", ["1|site|scale", "x|site|scale"]),
    "crossed": (BESIDE, "y ~ x + (1 | site) + (1 | day)", ["1|site|scale", "1|day|scale"]),
    "features": (
        bd.Model(bd.Squared(variance=1.0), weight_prior=bd.Normal(bd.HalfNormal(1.0)), **PLAIN),
        "y ~ x + z + (1 | site)",
        ["1|site|scale", "weight_scale"],
    ),
}


MORE = {
    "one": (BESIDE, "y ~ x + (1 | site)", []),
    "three": (BESIDE, "y ~ x + (1 | site) + (0 + x | site) + (1 | day)", []),
}


def reference(name, data, t):
    """What :func:`log_posterior` is given besides the data."""
    site, slope, day = columns(data, "site"), columns(data, "site", "x"), columns(data, "day")
    effects = {
        "side by side": [site, slope],
        "crossed": [site, day],
        "features": [site, data[["x", "z"]].to_numpy()],
        "three": [site, slope, day],
        "one": [site],
    }[name]
    return effects, t, () if name == "features" else ["x"]


def drawn(name, data, **options):
    model, formula, names = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = bd.sample(model, formula, data, random_scale=bd.HalfNormal(1.0), progress=False, **options)
    found = bd.groups.dataset(post, "posterior")
    return post, [np.log(found[part].values.astype(float)) for part in names]


def bound_of(name, form, monkeypatch):
    """The density of a case in float64, its map of the given form."""
    model, formula, _ = (CASES | MORE)[name]
    if form == "shares":
        monkeypatch.setattr(joint_scale_map, "RULES", joint_scale_map.Rules(operations=0.0))
    else:
        monkeypatch.setattr(joint_scale_map, "FORMS", {form: joint_scale_map.FORMS[form]})
    options = FormulaOptions(random_scale=bd.HalfNormal(1.0))
    problem = Problem.of(*read_formula(model, formula, table(1), None, options)[:3])
    return bind_start("HMC", problem.centring.model, problem.data, problem.rate_map, True, "float64", "dense")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "form"),
    [*((name, form) for name in [*CASES, *MORE] for form in ("levels", "eigenvectors")), ("one", "shares")],
)
def test_the_map_is_exact(monkeypatch, name, form):
    """With a squared loss the coordinates of the effects are standard normal, and the scales have their posterior."""
    with jax.enable_x64(True):
        bound = bound_of(name, form, monkeypatch)
        point = jnp.asarray(1.5 * np.random.default_rng(0).normal(size=(20, len(bound.centre))))
        found = jax.jit(bound.density.evaluate)(bound.operands, point)
        _, t, _ = jax.jit(bound.density.place)(bound.operands, point)
        g = t.shape[1]
        log_slope = np.asarray(bound.operands.quantiles.at(point[:, -g:])[1])
    zeta, t = np.asarray(point[:, :-g]), np.asarray(t)
    if name == "features":
        t = t[:, ::-1]
    value = (
        np.asarray(found.prior)
        - np.asarray(found.cost).sum(axis=1)
        + 0.5 * np.sum(zeta**2, axis=1)
        - log_slope.sum(axis=1)
    )
    offset = value - log_posterior(table(1), *reference(name, table(1), t))
    np.testing.assert_allclose(offset, offset[0], rtol=0, atol=1e-4)


@pytest.mark.slow
def test_the_jacobian_of_shares_is_that_of_the_map(monkeypatch):
    """Shares are approximate for several scales, and their density is not."""
    with jax.enable_x64(True):
        bound = bound_of("three", "shares", monkeypatch)
        found, g = bound.operands.map, 3
        zeta, delta = (jnp.asarray(np.random.default_rng(0).normal(size=(4, m))) for m in (found.size, g))
        slope = jax.vmap(jax.jacobian(lambda z, d: found.place(z[None], d[None])[0][0]))(zeta, delta)
        jacobian = np.asarray(found.place(zeta, delta)[1])
    expected = np.linalg.slogdet(np.asarray(slope))[1]
    np.testing.assert_allclose(jacobian - jacobian[0], expected - expected[0], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [*((name, bd.HMC()) for name in CASES), ("side by side", bd.NUTS()), ("side by side", bd.Gibbs())],
)
def test_a_hundred_thousand_draws(name, method):
    data = table(1)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        post, found = drawn(name, data, draws=25_000, chains=4, seed=1, method=method)
    for draws, below in zip(found, distribution_functions(name, data), strict=True):
        t = np.sort(draws.ravel())
        share, exact = np.arange(1, t.size + 1) / t.size, np.interp(t, GRID, below)
        assert max(np.max(share - exact), np.max(exact - share + 1 / t.size)) < 0.02
        small, law = [np.mean(t < -4.0), np.mean(t < -3.0)], stats.halfnorm.cdf(np.exp([-4.0, -3.0]))
        if small[1] > 0.05:  # else there are too few draws for a ratio
            assert small[0] / small[1] == pytest.approx(law[0] / law[1], rel=0.1)
    assert bd.diagnose(post).ok
