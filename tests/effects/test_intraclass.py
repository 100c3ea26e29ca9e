"""Intraclass correlation of random intercepts: by hand from draws, and what it refuses."""

import numpy as np
import pytest

import bayesdrop as bd


@pytest.mark.parametrize("loss", [bd.Squared(), bd.Logistic(), bd.Binomial()], ids=repr)
def test_it_is_the_share_of_the_intercepts(loss, random_terms, tmp_path):
    post = random_terms(loss, {"1|site": None})
    found, draws = bd.intraclass_correlation(post), bd.groups.dataset(post, "posterior")
    assert found.dims == ("chain", "draw", "term")
    assert found["term"].values.tolist() == ["1|site"]
    residual = draws["sigma"].values ** 2 if "sigma" in draws else np.pi**2 / 3
    between = draws["1|site|scale"].values ** 2
    np.testing.assert_allclose(found.values[..., 0], between / (between + residual), rtol=1e-12)
    bd.groups.save(post, tmp_path / "post.nc")
    np.testing.assert_array_equal(bd.intraclass_correlation(bd.groups.load(tmp_path / "post.nc")), found)
    share = bd.hypothesis(found, "`1|site` > 0.5")["posterior_probability"].item()
    assert share == float((found > 0.5).mean())


def test_crossed_terms_share_one_total_and_known_scales_count(random_terms):
    post = random_terms(bd.Squared(variance=25.0), {"1|site": None, "1|ward": 2.0})
    found = bd.intraclass_correlation(post)
    site = bd.groups.dataset(post, "posterior")["1|site|scale"].values ** 2
    np.testing.assert_allclose(found.sel(term="1|site"), site / (site + 4 + 25), rtol=1e-12)
    np.testing.assert_allclose(found.sel(term="1|ward"), 4 / (site + 4 + 25), rtol=1e-12)


@pytest.mark.parametrize(
    ("loss", "scales", "options", "words"),
    [
        (bd.Squared(), {}, {"prior": bd.Normal()}, r"no random intercepts.*\(1 \| site\)"),
        (bd.Squared(), {"1|site": None, "x|site": None}, {}, r"'x\|site' depends on the row"),
        (bd.Poisson(), {"1|site": None}, {}, "no variance of the response"),
        (bd.Logistic(), {"1|site": None}, {"C": 2.0}, "C=2 has no variance"),
    ],
)
def test_what_has_none_is_refused(loss, scales, options, words, random_terms):
    with pytest.raises(ValueError, match=words):
        bd.intraclass_correlation(random_terms(loss, scales, **options))
