"""The stated error of integrated masks is the error: against all masks, and against masks that are drawn."""

import itertools

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data import prepare
from bayesdrop.draws import draws_of
from bayesdrop.groups import dataset
from bayesdrop.inference.approximation import error_per_row


def draws_by_hand(p, size, spread, model):
    import xarray as xr

    rng = np.random.default_rng(0)
    dims = ("chain", "draw", "feature")
    parts = {"weight": (dims, spread * rng.normal(size=(1, size, p)))}
    parts |= {"rate": (dims, rng.uniform(0.2, 0.8, size=(1, size, p))), "intercept": (dims[:2], np.zeros((1, size)))}
    coords = {"chain": [0], "draw": np.arange(size), "feature": [f"x{d}" for d in range(p)]}
    return draws_of(xr.Dataset(parts, coords), model, marginalised=False)


@pytest.mark.parametrize("model", [bd.Model(C=1.5), bd.Model(bd.Hinge())])
def test_error_is_that_against_all_masks(model):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 4)), np.arange(20) % 2
    draws, data = draws_by_hand(4, 6, 1.5, model), prepare(X, y)
    z, shares = np.polynomial.hermite_e.hermegauss(15)
    if isinstance(model.loss, bd.Hinge):  # in closed form, so by the trapezium rule here
        z = np.linspace(-12, 12, 200_001)
        shares = np.exp(-0.5 * z * z)
    shares = shares / shares.sum()
    squares = []
    for w, r in zip(draws.weight, draws.free_rate, strict=True):
        for x, sign in zip(X, data.target, strict=True):

            def likelihood(score, sign=sign):
                return np.exp(-model.C * model.loss.plain.value(np.full_like(score, sign), score, 0 * score))

            masks = np.array(list(itertools.product((0, 1), repeat=4)))
            chance = np.prod(np.where(masks == 1, 1 - r, r), axis=1)
            exact = np.log(chance @ likelihood(masks @ (w * x)))
            normal = w @ (x * (1 - r)) + z * np.sqrt(np.sum(r * (1 - r) * (w * x) ** 2))
            squares.append((exact - np.log(shares @ likelihood(normal))) ** 2)
    assert error_per_row(draws, data) == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-9)


def test_noise_of_drawn_masks_does_not_count_as_error():
    """At weights near zero nothing is wrong with normal scores, while the noise of a thousand masks is 0.0014.

    The product of two independent noises has mean 0 and, over 960 cells, a standard error of 6.5e-8: five of them
    (6e-7 of false alarms) leave a root of 5.7e-4.
    """
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(60, 12)), np.arange(60) % 2
    assert error_per_row(draws_by_hand(12, 16, 0.05, bd.Model()), prepare(X, y)) < 5.7e-4


def test_the_posterior_says_that_it_is_approximate():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    options = {"draws": 10, "tune": 10, "chains": 1, "progress": False}
    with pytest.warns(UserWarning, match="chains"):
        post = bd.sample(bd.Model(), X, y, method=bd.HMC(), **options)
    assert 0 <= dataset(post, "posterior").attrs["approximation_error"] < 1
    assert "off by" in str(bd.diagnose(post))
    with pytest.warns(UserWarning, match="chains"):
        exact = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, y, **options)
    assert "approximation" not in dataset(exact, "posterior").attrs
