"""Intraclass correlation of random intercepts: by hand from the draws, in truth, and what it refuses."""

import warnings

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd

RNG = np.random.default_rng(4)
SITE = np.repeat(np.arange(40), 10)
EFFECT = RNG.normal(size=40)[SITE]
TABLE = pd.DataFrame(
    {"x": RNG.normal(size=400), "site": [f"s{k:02d}" for k in SITE], "ward": np.resize([*"abcde"], 400)}
)
TABLE["y"] = 10.0 * (2.0 + TABLE.x + EFFECT + 0.5 * RNG.normal(size=400))
TABLE["ill"] = RNG.random(400) < 1 / (1 + np.exp(-1.8 * EFFECT))
TABLE["few"] = RNG.binomial(6, 1 / (1 + np.exp(-1.8 * EFFECT)))
TABLE["rest"] = 6 - TABLE["few"]


def sampled(formula, loss=None, model=None, **options):
    model = bd.Model(loss, rates=bd.Fixed(0.0)) if model is None else model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bd.warnings.MixingWarning)
        return bd.sample(model, formula, TABLE, progress=False, **{"draws": 200, "tune": 200, "chains": 2, **options})


@pytest.mark.parametrize(
    ("formula", "loss", "truth"),
    [
        ("y ~ x + (1 | site)", bd.Squared(), 1 / 1.25),
        ("ill ~ x + (1 | site)", bd.Logistic(), 3.24 / (3.24 + np.pi**2 / 3)),
        ("few + rest ~ x + (1 | site)", bd.Binomial(), 3.24 / (3.24 + np.pi**2 / 3)),
    ],
)
def test_it_is_the_share_of_the_intercepts(formula, loss, truth, tmp_path):
    post = sampled(formula, loss)
    found, draws = bd.intraclass_correlation(post), bd.groups.dataset(post, "posterior")
    assert found.dims == ("chain", "draw", "term")
    assert found["term"].values.tolist() == ["1|site"]
    residual = draws["sigma"].values ** 2 if "sigma" in draws else np.pi**2 / 3
    between = draws["1|site|scale"].values.astype(float) ** 2
    np.testing.assert_allclose(found.values[..., 0], between / (between + residual), rtol=1e-5)
    low, high = np.quantile(found.values, [0.005, 0.995])  # of one data set made above
    assert low < truth < high
    bd.groups.save(post, tmp_path / "post.nc")
    np.testing.assert_array_equal(bd.intraclass_correlation(bd.groups.load(tmp_path / "post.nc")), found)
    share = bd.hypothesis(found, "`1|site` > 0.5")["posterior_probability"].item()
    assert share == float((found > 0.5).mean())


def test_crossed_terms_share_one_total_and_known_scales_count():
    model = bd.Model(bd.Squared(variance=25.0), rates=bd.Fixed(0.0))
    scale = {"1|ward": 2.0}
    post = sampled("y ~ x + (1 | site) + (1 | ward)", model=model, random_scale=scale, draws=50)
    found = bd.intraclass_correlation(post)
    site = bd.groups.dataset(post, "posterior")["1|site|scale"].values.astype(float) ** 2
    np.testing.assert_allclose(found.sel(term="1|site"), site / (site + 4 + 25), rtol=1e-6)
    np.testing.assert_allclose(found.sel(term="1|ward"), 4 / (site + 4 + 25), rtol=1e-6)


@pytest.mark.parametrize(
    ("formula", "model", "words"),
    [
        ("y ~ x", bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), r"no random intercepts.*\(1 \| site\)"),
        ("y ~ x + (x | site)", bd.Model(bd.Squared(), rates=bd.Fixed(0.0)), r"'x\|site' depends on the row"),
        ("few ~ x + (1 | site)", bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), "no variance of the response"),
        ("ill ~ x + (1 | site)", bd.Model(bd.Logistic(), rates=bd.Fixed(0.0), C=2.0), "C=2 has no variance"),
    ],
)
def test_what_has_none_is_refused(formula, model, words):
    with pytest.raises(ValueError, match=words):
        bd.intraclass_correlation(sampled(formula, model=model, draws=5, tune=20))
    with pytest.raises(TypeError, match="result"):
        bd.intraclass_correlation(1.0)
