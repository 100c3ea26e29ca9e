"""The check of small scales: no alarm on exact draws, and an alarm if the neck of the funnel is visited too rarely.

Effects of six levels with ten rows each and a normal likelihood: the law of the log scale is a density on a grid, and
given the scale effects are normal, so that draws are exact and independent. The check fails falsely with probability
1e-4; of 200 statistics the mean square is 1 up to five standard errors (6e-7).
"""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.posterior.diagnostics.small_scales import Rules, _departure

LEVELS, ROWS = 6, 10


def exact_draws(generator, scale=0.0, shape=(4, 2500), levels=LEVELS, rows=ROWS):
    """Log scales (C, S) and effects (C, S, levels) of one posterior."""
    mean = generator.normal(size=levels) * np.hypot(scale, rows**-0.5)
    grid = np.linspace(-16, 4, 4001)
    variance = np.exp(2 * grid)[:, None] + 1 / rows
    log_p = stats.halfnorm.logpdf(np.exp(grid)) + grid - 0.5 * np.sum(np.log(variance) + mean**2 / variance, axis=1)
    p = np.exp(log_p - log_p.max())
    t = generator.choice(grid, size=shape, p=p / p.sum()) + generator.uniform(-0.0025, 0.0025, size=shape)
    width = 1 / (rows + np.exp(-2 * t))[..., None]
    return t, width * rows * mean + np.sqrt(width) * generator.normal(size=(*shape, levels))


def posterior_of(t, effects):
    prior = bd.Normal(bd.HalfNormal(1.0))
    data = {"weight": (("chain", "draw", "feature"), effects), "weight_scale": (("chain", "draw"), np.exp(t))}
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=prior, fit_intercept=False)
    posterior = xr.Dataset(data, {"feature": [f"x{d}" for d in range(effects.shape[2])]})
    return bd.groups.assemble({"posterior": posterior}, attributes(model, None))


def without_the_neck(t, effects, keep=0.3, below=-4.0, generator=None):
    """The draws with most of those below a scale replaced by draws above it."""
    lost = (t < below) & (generator.random(t.shape) > keep)
    again = [generator.choice(np.flatnonzero(row >= below), size=len(row)) for row in t]
    place = np.where(lost, np.array(again), np.arange(t.shape[1]))
    return np.take_along_axis(t, place, 1), np.take_along_axis(effects, place[..., None], 1)


def test_exact_draws_have_no_problem():
    t, effects = exact_draws(np.random.default_rng(0))
    assert bd.diagnose(posterior_of(t, effects)).ok


def test_a_neck_visited_too_rarely_is_a_problem():
    generator = np.random.default_rng(0)
    found = bd.diagnose(posterior_of(*without_the_neck(*exact_draws(generator), generator=generator)))
    assert len(found.problems) == 1
    assert "weight_scale is small too rarely" in found.advice


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "levels", "rows"), [(0.0, 6, 10), (0.3, 6, 10), (0.1, 30, 10), (0.02, 6, 1000)])
def test_the_statistic_has_its_law(scale, levels, rows):
    """Over 200 sets of data, where there are enough draws near 0."""
    generator, found = np.random.default_rng(1), []
    for _ in range(200):
        t, effects = exact_draws(generator, scale, (4, 500), levels, rows)
        excess = np.sum(effects**2, axis=2) * np.exp(-2 * t) - levels
        one = _departure(t, excess, lambda t: t - 0.5 * np.exp(2 * t), Rules(fewest=50))
        found += [] if one is None else [one[0]]
    square = np.square(found)
    assert len(found) > 100
    # Student's t has the variance 39/37.
    assert abs(square.mean() - 39 / 37) < 5 * square.std(ddof=1) / len(square) ** 0.5
