"""Offsets of new rows: a constant is the intercept of every draw, in whatever is made of draws."""

import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.posterior.draws.draws import read_draws
from bayesdrop.posterior.scores.approximation_error import errors_of

MODELS = {
    "few masks": (bd.Model(rates=bd.Fixed(0.3)), 3),
    "many masks": (bd.Model(rates=bd.Fixed(0.3)), 25),
    "normal noise": (bd.Model(noise=bd.GaussianNoise(0.4)), 3),
    "Laplace noise": (bd.Model(noise=bd.LaplaceNoise(0.4)), 3),
    "hinge": (bd.Model(bd.Hinge(), rates=bd.Fixed(0.3)), 3),
    "numbers": (bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.3)), 3),
    "quantile": (bd.Model(bd.Quantile(0.2, 1.0), rates=bd.Fixed(0.3)), 3),
    "poisson": (bd.Model(bd.Poisson(), rates=bd.Fixed(0.3)), 3),
    "negative binomial": (bd.Model(bd.NegativeBinomial(2.0), rates=bd.Fixed(0.3)), 3),
    "binomial": (bd.Model(bd.Binomial(4), rates=bd.Fixed(0.3)), 3),
}


def both(name, constant=0.8):
    """A posterior whose rows have an offset, one whose intercepts have it, rows and responses."""
    model, p = MODELS[name]
    rng = np.random.default_rng(2)
    weight, intercept = rng.normal(size=(2, 20, p)) / np.sqrt(p), 0.3 * rng.normal(size=(2, 20))
    X = rng.normal(size=(9, p))
    y = rng.integers(0, 2, 9)
    found = []
    for shift in (0.0, constant):
        draws = xr.Dataset(
            {"weight": (("chain", "draw", "feature"), weight), "intercept": (("chain", "draw"), intercept + shift)},
            coords={"feature": [f"x{d}" for d in range(p)], "chain": [0, 1], "draw": np.arange(20)},
        )
        target = "marginalised" if model.noise.centre is None and not model.noise.has_rate else "noising"
        attrs = attributes(model, [0, 1] if model.loss.binary else None) | {"target": target}
        groups = {"posterior": draws, "observed_data": xr.Dataset({"y": ("obs_id", y)})}
        if shift == 0:
            groups["constant_data"] = xr.Dataset({"offset": ("obs_id", np.full(9, constant))})
        found.append(bd.groups.assemble(groups, attrs))
    return *found, X, y


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::bayesdrop.PseudoLikelihoodWarning")
def test_a_constant_is_the_intercept(name):
    known, moved, X, y = both(name)
    for corrupted in (False, True):
        options = {"corrupted_inputs": corrupted}
        one, other = bd.predict(known, X, offset=0.8, **options), bd.predict(moved, X, **options)
        for part in ("mean", "sd", "low", "high", "response_low", "response_high"):
            if getattr(other, part) is not None:
                # Averages over the noise are to 0.002, mostly a hundred times nearer.
                np.testing.assert_allclose(getattr(one, part), getattr(other, part), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        bd.elpd(known, X, y, offset=np.full(9, 0.8)).pointwise, bd.elpd(moved, X, y).pointwise, atol=1e-4
    )
    logs = [bd.groups.dataset(bd.log_likelihood(post, X, y), "log_likelihood")["y"].values for post in (known, moved)]
    np.testing.assert_allclose(*logs, atol=1e-4)
    cases = (
        (known, {"new": True, "offset": 0.8}, "predictions"),
        (known, {}, "posterior_predictive"),
        (moved, {"new": True}, "predictions"),
    )
    drawn = [
        bd.groups.dataset(bd.posterior_predictive(post, X, **options), group)["y"].values
        for post, options, group in cases
    ]
    np.testing.assert_allclose(drawn[0], drawn[2], rtol=1e-9)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    if not MODELS[name][0].noise.has_rate:
        return
    effects = [bd.marginal_effects(post, X, offset=offset) for post, offset in ((known, 0.8), (moved, None))]
    np.testing.assert_allclose(*(table["effect"] for table in effects), atol=1e-3)


def test_the_error_of_an_approximation_sees_it():
    known, moved, X, y = both("few masks")
    sign = np.where(y == 1, 1.0, -1.0)
    one = errors_of(read_draws(known), X, sign, np.ones(9), np.full(9, 0.8))
    np.testing.assert_allclose(one, errors_of(read_draws(moved), X, sign, np.ones(9)), atol=1e-6)
    assert np.abs(one - errors_of(read_draws(known), X, sign, np.ones(9))).max() > 1e-4


def test_it_goes_with_its_row():
    known, _, X, _ = both("few masks")
    offset = np.linspace(-2, 2, 9)
    whole = bd.predict(known, X, offset=offset)
    for rows in (slice(3, 6), [8, 0]):
        np.testing.assert_allclose(bd.predict(known, X[rows], offset=offset[rows]).mean, whole.mean[rows], rtol=1e-9)
    blocks = bd.predict(known, bd.Blocks([X[:4], X[4:]]), offset=offset)
    np.testing.assert_allclose(blocks.mean, whole.mean, rtol=1e-9)
    assert np.all(np.abs(bd.predict(known, X, offset=offset + 0.1).mean - whole.mean) > 1e-4)
