"""What a posterior of many classes says of rows: probabilities against all masks, responses, scores, files."""

import itertools

import numpy as np
import pytest
import xarray as xr
from scipy import sparse

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.posterior.arviz_groups.constants import observed_group
from bayesdrop.posterior.draws.draws import read_draws
from bayesdrop.posterior.noise_average.class_chances import class_chances, class_log_likelihood
from bayesdrop.posterior.scores.pointwise import row_log_likelihoods

K, P, N, S = 3, 9, 14, 6
CLASSES = np.array(["blue", "green", "red"])


def posterior(model, rows=N, draws=S, size=1.0, seed=0):
    """Draws of no sampler, with rows and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, P)) * (rng.random((rows, P)) < 0.8)
    code = rng.integers(0, K, rows)
    weight = size * rng.normal(size=(2, draws, K, P))
    intercept = size * rng.normal(size=(2, draws, K))
    found = {
        "weight": (("chain", "draw", "class", "feature"), weight - weight.mean(axis=2, keepdims=True)),
        "intercept": (("chain", "draw", "class"), intercept - intercept.mean(axis=2, keepdims=True)),
    }
    names = [f"x{d}" for d in range(P)]
    if model.bind(names).is_free:
        found["rate"] = (("chain", "draw", "feature"), rng.beta(2, 3, size=(2, draws, P)))
    coords = {"chain": np.arange(2), "draw": np.arange(draws), "class": CLASSES, "feature": names}
    groups = {
        "posterior": xr.Dataset(found, coords),
        "observed_data": observed_group(code, CLASSES, bd.Softmax()),
    }
    attrs = attributes(model, CLASSES) | {"target": "noising"}
    for group in groups.values():
        group.attrs.update(attrs)
    return bd.groups.assemble(groups, attrs), X, CLASSES[code]


def over_all_masks(draws, X):
    """``E softmax(s)`` of each row and draw by the sum over all masks, (n, S, K)."""
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=P)))
    result = np.empty((len(X), draws.size, K))
    for s in range(draws.size):
        rate = draws.rate(slice(s, s + 1))[0]
        chance = np.prod(np.where(masks == 1, 1 - rate, rate), axis=1)
        value = draws.weight[s] * draws.model.noise.coefficients(rate).gain / (1 - rate)
        for i in range(len(X)):
            score = masks @ (X[i] * value).T + draws.intercept[s]
            rise = np.exp(score - score.max(axis=1, keepdims=True))
            result[i, s] = chance @ (rise / rise.sum(axis=1, keepdims=True))
    return result


@pytest.mark.parametrize("noise", [bd.Dropout(), bd.Dropout(unbiased=True)], ids=repr)
def test_probabilities_against_all_masks(noise):
    """Exact with all masks enumerated, and to what the module says (0.003, rms 0.001) by its default."""
    post, X, y = posterior(bd.Model(bd.Softmax(), noise))
    draws, code = read_draws(post), np.searchsorted(CLASSES, y)
    exact = over_all_masks(draws, X)
    np.testing.assert_allclose(class_chances(draws, X, masks=2**P), exact, rtol=1e-12)
    own = np.log(exact[np.arange(N), :, code])
    np.testing.assert_allclose(class_log_likelihood(draws, X, code, 2**P).T, own, rtol=1e-12, atol=1e-12)
    near = class_chances(draws, X)
    np.testing.assert_allclose(near.sum(axis=2), 1, rtol=1e-12)
    assert np.max(np.abs(near - exact)) < 0.003
    assert np.sqrt(np.mean((near - exact) ** 2)) < 0.001
    assert np.max(np.abs(class_log_likelihood(draws, X, code).T - own)) < 0.012
    for storage in (sparse.csr_array, np.asfortranarray):
        np.testing.assert_allclose(class_chances(draws, storage(X)), near, rtol=1e-9)
    found = bd.predict(post, X)
    ends = np.quantile(near, [(1 - found.probability) / 2, (1 + found.probability) / 2], axis=1)
    np.testing.assert_allclose([found.mean, found.sd], [near.mean(axis=1), near.std(axis=1)], rtol=1e-9)
    np.testing.assert_allclose([found.low, found.high], ends, rtol=1e-9)


def test_likelihoods_to_a_power():
    """``C`` is a power inside the sum over masks, a row weight one of the sum."""
    post, X, y = posterior(bd.Model(bd.Softmax(), C=0.7))
    draws, code, weight = read_draws(post), np.searchsorted(CLASSES, y), np.linspace(0.5, 2, N)
    found = row_log_likelihoods(draws, X, code, weight)
    masks = np.array(list(itertools.product((0.0, 1.0), repeat=P)))
    rate = draws.rate(slice(0, 1))[0]
    chance = np.prod(np.where(masks == 1, 1 - rate, rate), axis=1)
    for i in range(N):
        score = masks @ (X[i] * draws.weight[0]).T + draws.intercept[0]
        own = score[:, code[i]] - np.logaddexp.reduce(score, axis=1)
        assert found[0, i] == pytest.approx(weight[i] * np.log(chance @ np.exp(0.7 * own)), rel=1e-10)


def test_the_noise_without_masks_and_intact_rows():
    """Normal noise: 64 points against 200,000 draws of the scores, Monte Carlo error 5e-3 at 5 standard errors."""
    post, X, _ = posterior(bd.Model(bd.Softmax(), bd.GaussianNoise(0.5)), rows=3, draws=1)
    draws, rng = read_draws(post), np.random.default_rng(1)
    near = class_chances(draws, X)
    for s in range(2):
        weight, b = draws.weight[s], draws.intercept[s]
        plain = np.exp(X @ weight.T + b)
        plain /= plain.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(bd.predict(post, X, corrupted_inputs=True).mean.sum(axis=1), 1)
        np.testing.assert_allclose(class_chances(draws, X, True)[:, s], plain, rtol=1e-10)
        for i in range(3):
            score = (X[i] + 0.5 * rng.normal(size=(200_000, P))) @ weight.T + b
            rise = np.exp(score - score.max(axis=1, keepdims=True))
            np.testing.assert_allclose(near[i, s], (rise / rise.sum(axis=1, keepdims=True)).mean(axis=0), atol=8e-3)


def test_predictions_are_on_rows_and_classes():
    post, X, _ = posterior(bd.Model(bd.Softmax(), rates=bd.Fixed(0.4)), rows=5, draws=20, size=0.5)
    found = bd.predict(post, X)
    assert found.mean.shape == found.low.shape == (5, K)
    np.testing.assert_allclose(found.mean.sum(axis=1), 1, rtol=1e-9)
    assert np.all((found.low <= found.mean) & (found.mean <= found.high))
    assert found.label.tolist() == CLASSES[found.mean.argmax(axis=1)].tolist()
    assert found.to_dataset()["mean"].dims == ("obs_id", "class")
    assert "probability of the class predicted" in str(found)


@pytest.mark.slow
def test_scores_diagnosis_pictures_and_files(tmp_path):
    post, X, y = posterior(bd.Model(bd.Softmax()), draws=200, size=0.1)
    more = bd.posterior_predictive(bd.log_likelihood(post, X, y), X)
    simulated = bd.groups.dataset(more, "posterior_predictive")["y"]
    assert simulated.shape == (2, 200, N)
    assert set(np.unique(simulated)) <= set(range(K))
    assert int(bd.loo(more).n_data_points) == N
    assert "weight of" in bd.diagnose(post).r_hat.name
    bd.groups.save(more, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    np.testing.assert_allclose(bd.predict(again, X).mean, bd.predict(post, X).mean, rtol=1e-12)
    assert bd.plots.ranks(post, "weight") is not None
    with pytest.raises(ValueError, match="expected the labels"):
        bd.log_likelihood(post, X, np.where(y == "red", "black", y))
    with pytest.raises(ValueError, match="other values of 14"):
        bd.log_likelihood(post, X, np.roll(y, 1))


def test_picture_of_weights_and_rates():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    assert bd.plots.rate_against_weight(bd.fit(bd.Model(bd.Softmax()), X, y)).get_ylabel().startswith("Dropout rate")
