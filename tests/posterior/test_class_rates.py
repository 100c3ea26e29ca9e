"""What a posterior of classes with rates of their own says of rows: against the masks of all classes, and files."""

import itertools

import numpy as np
import pytest
import xarray as xr
from scipy import sparse, special

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.posterior.arviz_groups.constants import observed_group
from bayesdrop.posterior.draws.draws import read_draws
from bayesdrop.posterior.noise_average.class_chances import class_chances, class_log_likelihood

K, P, N, S = 3, 3, 8, 5
CLASSES = np.array(["blue", "green", "red"])
MASKS = np.array(list(itertools.product((0.0, 1.0), repeat=K * P))).reshape(-1, K, P)


def posterior(model, draws=S, size=1.0):
    """Draws of no sampler, with rows and labels."""
    rng = np.random.default_rng(0)
    X, code = rng.normal(size=(N, P)) * (rng.random((N, P)) < 0.8), rng.integers(0, K, N)
    found = {
        "weight": (("chain", "draw", "class", "feature"), size * rng.normal(size=(2, draws, K, P))),
        "intercept": (("chain", "draw", "class"), size * rng.normal(size=(2, draws, K))),
    }
    if model.bind(["x0", "x1", "x2"]).is_free:
        found["rate"] = (("chain", "draw", "class", "feature"), rng.beta(2, 3, size=(2, draws, K, P)))
    coords = {"chain": [0, 1], "draw": np.arange(draws), "class": CLASSES, "feature": ["x0", "x1", "x2"]}
    observed = observed_group(code, CLASSES, bd.Softmax())
    attrs = attributes(model, CLASSES) | {"target": "noising"}
    groups = {"posterior": xr.Dataset(found, coords).assign_attrs(attrs), "observed_data": observed.assign_attrs(attrs)}
    return bd.groups.assemble(groups, attrs), X, code


def over_all_masks(draws, X):
    """Probability of each combination of masks (S, M), and softmax of the scores under it (n, S, M, K)."""
    rate = draws.rate(slice(None))[:, None]
    chance = np.prod(np.where(MASKS[None] == 1, 1 - rate, rate), axis=(2, 3))
    value = draws.weight * draws.model.noise.coefficients(rate[:, 0]).gain / (1 - rate[:, 0])
    score = np.einsum("id,skd,mkd->ismk", X, value, MASKS) + draws.intercept[None, :, None]
    return chance, special.softmax(score, axis=-1)


@pytest.mark.parametrize("rates", [bd.PerFeature(), bd.Fixed([0.5, 0.0, 0.3])], ids=repr)
@pytest.mark.parametrize("unbiased", [False, True])
def test_chances_and_likelihoods_against_all_masks(rates, unbiased):
    """Exact with all masks enumerated, and to what the module says by its default."""
    post, X, code = posterior(bd.Model(bd.Softmax(class_rates=True), bd.Dropout(unbiased=unbiased), rates, C=0.7))
    draws = read_draws(post)
    chance, softmax = over_all_masks(draws, X)
    exact = np.einsum("sm,ismk->isk", chance, softmax)
    np.testing.assert_allclose(class_chances(draws, X, masks=len(MASKS)), exact, rtol=1e-11)
    own = softmax[np.arange(N), :, :, code] ** 0.7
    own = np.log(np.einsum("sm,ism->is", chance, own))
    np.testing.assert_allclose(class_log_likelihood(draws, X, code, len(MASKS)).T, own, rtol=1e-10, atol=1e-11)
    near = class_chances(draws, X)
    assert np.max(np.abs(near - exact)) < 0.004
    np.testing.assert_allclose(class_chances(draws, sparse.csr_array(X)), near, rtol=1e-9)


def test_simulated_classes():
    """Shares of 40,000 simulated classes a row against their probabilities, within 5 standard errors."""
    post, X, _ = posterior(bd.Model(bd.Softmax(class_rates=True)), size=1.5)
    draws = read_draws(post)
    score = draws.noised_scores(np.repeat(X, 40_000, axis=0), slice(0, 1), np.random.default_rng(3))[:, 0]
    drawn = draws.model.loss.sample_response(np.random.default_rng(4), score).reshape(N, 40_000)
    share = np.stack([np.mean(drawn == k, axis=1) for k in range(K)], axis=1)
    chance = class_chances(read_draws(post, 1), X, masks=len(MASKS))[:, 0]
    assert np.max(np.abs(share - chance) / np.sqrt(chance * (1 - chance) / 40_000)) < 5


def test_scores_diagnosis_pictures_and_files(tmp_path):
    post, X, code = posterior(bd.Model(bd.Softmax(class_rates=True)), draws=200, size=0.1)
    more = bd.posterior_predictive(bd.log_likelihood(post, X, CLASSES[code]), X)
    assert int(bd.loo(more).n_data_points) == N
    assert bd.diagnose(post).r_hat.value > 0
    assert len(np.ravel(bd.plots.ranks(post, "rate"))) > 0
    assert len(bd.plots.rates_forest(post).get_yticks()) == K * P
    bd.groups.save(more, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    np.testing.assert_allclose(bd.predict(again, X).mean, bd.predict(post, X).mean, rtol=1e-12)
    shared = bd.groups.dataset(post, "posterior").isel({"class": 0}, drop=True)["rate"]
    changed = bd.groups.dataset(post, "posterior").assign(rate=shared)
    with pytest.raises(ValueError, match="rate.*class"):
        read_draws(bd.groups.assemble({"posterior": changed}, post.attrs))
