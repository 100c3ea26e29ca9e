"""Where noise or prior cannot fit the columns the user is told once, by name; ordinary data pass in silence.

Warnings are errors in the suite, so that every fit without ``pytest.warns`` says that there is none.
"""

import warnings

import numpy as np
import pytest
import xarray as xr
from scipy import sparse

import bayesdrop as bd
from bayesdrop.posterior.diagnostics.diagnosis import diagnose_groups

RNG = np.random.default_rng(1)
Y = RNG.integers(0, 2, size=200)
PRESENT = np.column_stack([RNG.normal(30.0, 2.0, 200), RNG.normal(size=200)]) + Y[:, None]
NAMES = ["height", "balance"]
ZERO = bd.Dropout(centre=None)


def caught(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    assert len(found) == 1, [str(one.message) for one in found]
    assert found[0].category is bd.UnscaledWarning
    assert found[0].filename == __file__
    return str(found[0].message)


STORAGES = [np.asarray, sparse.csr_array, lambda X: bd.Blocks([X[:90], X[90:]])]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("model", "harm", "remedy"),
    [
        (bd.Model(noise=ZERO), "shares of the classes", 'centre="mean"'),
        (bd.Model(fit_intercept=False), "shares of the classes", "fit_intercept=True"),
        (bd.Model(noise=ZERO, rates=bd.Fixed(0.2)), "more than 3 standard deviations", 'centre="mean"'),
    ],
)
def test_a_column_far_from_zero_is_named_once(model, storage, harm, remedy):
    text = caught(lambda: bd.fit(model, storage(PRESENT), Y, feature_names=NAMES))
    assert text.startswith("X: 1 column ('height') is never zero and of one sign")
    assert harm in text
    assert remedy in text
    bd.fit(bd.Model(), storage(PRESENT), Y)  # which centres it


def test_estimators_name_it_too_and_point_at_the_caller():
    model = bd.DropoutSVC(noise=ZERO)
    assert "'x0'" in caught(lambda: model.fit(PRESENT, Y))


@pytest.mark.parametrize("storage", STORAGES)
def test_scales_beyond_reason_are_named(storage):
    X = np.column_stack([RNG.normal(size=200) * 1e-4, RNG.normal(size=200) * 1e4])
    text = caught(lambda: bd.fit(bd.Model(), storage(X), Y, feature_names=["mass", "distance"]))
    assert "'mass' and 'distance' differ by a factor of 1e+08" in text
    bd.fit(bd.Model(weight_prior=bd.Normal(1.0, relative=True)), storage(X), Y)


@pytest.mark.parametrize("storage", STORAGES)
def test_ordinary_columns_pass_in_silence(storage):
    dummies = (RNG.random((200, 4)) < [0.02, 0.5, 0.9, 0.5]).astype(float)
    counts = RNG.poisson([0.05, 0.5, 2.0, 4.0], size=(200, 4)).astype(float)
    counts[0] = 0.0
    standardised = RNG.normal(size=(200, 2))
    for X in (dummies, counts, standardised, np.column_stack([dummies, counts, standardised, np.ones(200)])):
        for rates in (bd.PerFeature(), bd.Fixed(0.3), bd.Fixed(0.0)):
            bd.fit(bd.Model(rates=rates, noise=ZERO), storage(X), Y)


def advice(rates, **attrs):
    """What is said of chains that disagree."""
    weight = np.random.default_rng(0).normal(size=(4, 50, 2)) + 5.0 * np.arange(4)[:, None, None]
    size = 1 if isinstance(rates, bd.Shared) else 2
    parts = {
        "weight": (("chain", "draw", "feature"), weight),
        "rate": (("chain", "draw", "group" if size == 1 else "feature"), weight[:, :, :size]),
    }
    return diagnose_groups({"posterior": xr.Dataset(parts)}, {"method": "Gibbs()", **attrs}).advice


def test_advice_fits_the_case():
    assert "bd.Shared" in advice(bd.PerFeature())
    assert "Shared" not in advice(bd.Shared())
    text = advice(bd.Shared(), scale_ratio=2e5)
    assert "differ by a factor of 2e+05" in text
    assert "bd.Normal(1.0, relative=True)" in text
    assert "Shared" not in text
    text = advice(bd.PerFeature(), unscaled='["height"]', scale_ratio=2e5)
    assert "dropped to 0 (height)" in text
    assert "Shared" not in text
