"""Predictions against the estimators, against all masks enumerated and against masks drawn.

False-alarm rate: Monte Carlo comparisons allow 5 standard errors (5.7e-7 each); about 150 of them, so below 1e-4.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop.priors import InverseGamma

RNG = np.random.default_rng
LOSSES = [bd.Logistic(), bd.Hinge()]


def _some(build, p=4, chains=2, draws=25, loss=None, classes=("no", "yes"), **options):
    """A posterior of random draws and rows to predict."""
    rng = RNG(0)
    loss = bd.Logistic() if loss is None else loss
    model = bd.Model(loss, rates=bd.PerFeature(), C=0.7, **options)
    post = build(
        model,
        rng.normal(size=(chains, draws, p)),
        intercept=rng.normal(size=(chains, draws)),
        rate=rng.beta(2, 3, size=(chains, draws, p)),
        names=[f"f{d}" for d in range(p)],
        classes=classes if loss.binary else None,
    )
    return post, rng.normal(size=(9, p))


def _flat(post):
    posterior = bd.groups.dataset(post, "posterior")
    return (
        posterior["weight"].values.reshape(-1, posterior.sizes["feature"]),
        posterior["intercept"].values.ravel(),
        posterior["rate"].values.reshape(-1, posterior.sizes["feature"]),
    )


@pytest.mark.parametrize("corrupted", [False, True])
@pytest.mark.parametrize("noise", [bd.Dropout(), bd.Dropout(unbiased=True), bd.GaussianNoise(0.5)], ids=repr)
@pytest.mark.parametrize(("kind", "loss"), [(bd.DropoutLogisticRegression, bd.Logistic()), (bd.DropoutSVC, bd.Hinge())])
def test_one_draw_is_the_estimator(build, breast_cancer, kind, loss, noise, corrupted):
    """The fitted weights as the only draw: probabilities and labels are those of the estimator."""
    X, y = breast_cancer
    rates = {"rates": 0.3} if noise.has_rate else {}
    fit = kind(C=0.2, noise=noise, corrupted_inputs=corrupted, **rates).fit(X, y)
    model = bd.Model(loss, noise, bd.Fixed(0.3) if rates else None, 0.2)
    post = build(model, fit.coef_[None], intercept=fit.intercept_[0], classes=[0, 1])
    found = bd.predict(post, X, corrupted_inputs=corrupted)
    np.testing.assert_allclose(found.mean, fit.predict_proba(X)[:, 1], rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(found.label, fit.predict(X))
    np.testing.assert_array_equal(found.sd, 0.0)
    np.testing.assert_array_equal(found.low, found.high)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_average_and_interval_are_over_the_draws(build, enumerate_masks, loss):
    """Each draw by itself, in a loop, and each of its 16 masks."""
    post, X = _some(build, loss=loss)
    found = bd.predict(post, X, probability=0.8)
    each = np.zeros((50, len(X)))
    for j, draw in enumerate(zip(*_flat(post), strict=True)):
        for i, x in enumerate(X):
            score, chance = enumerate_masks(bd.Model(loss), x, *draw)
            gap = score if loss.normalised else 0.7 * (np.maximum(1 + score, 0) - np.maximum(1 - score, 0))
            each[j, i] = chance @ (1 / (1 + np.exp(-gap)))
    np.testing.assert_allclose(found.mean, np.mean(each, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.sd, np.std(each, axis=0), rtol=1e-10)
    np.testing.assert_allclose(found.low, np.quantile(each, 0.1, axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.high, np.quantile(each, 0.9, axis=0), rtol=1e-12)


@pytest.mark.slow
def test_regression_mean_and_interval_of_the_mean(build):
    post, X = _some(build, loss=bd.Squared(variance=1.0))
    found = bd.predict(post, X)
    w, b, r = _flat(post)
    mean = X @ ((1 - r) * w).T + b
    np.testing.assert_allclose(found.mean, mean.mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(found.sd, mean.std(axis=1), rtol=1e-10)
    np.testing.assert_allclose([found.low, found.high], np.quantile(mean, [0.05, 0.95], axis=1), rtol=1e-10)
    assert found.label is None
    assert np.all(found.response_low < found.low)
    assert np.all(found.response_high > found.high)


def test_interval_of_a_new_response_has_the_drawn_variance(build):
    """One draw, no noise on the features: normal quantiles, from 40,000 responses at each of 60 rows."""
    sd, model = 0.3, bd.Model(bd.Squared(variance=InverseGamma(2.0, 1.0)), rates=bd.Fixed(0.0))
    post = build(model, [[[1.0, -2.0]]], intercept=0.5, sigma=sd)
    X = RNG(2).normal(size=(60, 2))
    found = bd.predict(post, X, probability=0.8)
    quantile = norm.ppf(0.9) * sd
    # Standard error of a sample quantile, √(q(1 − q)/N)/density, and of the average over the rows.
    error = np.sqrt(0.09 / 40_000) / (norm.pdf(norm.ppf(0.9)) / sd) / np.sqrt(60)
    assert abs(np.mean(found.response_high - found.mean) - quantile) < 5 * error
    assert abs(np.mean(found.response_low - found.mean) + quantile) < 5 * error


def test_what_the_score_is_is_said(build):
    """Of a quantile the mean over draws is no expected response, and the interval of a new one is about it."""
    post = build(bd.Model(bd.Quantile(0.9, 1.0), rates=bd.Fixed(0.0), C=2.0), [[[1.0, -2.0]]], intercept=0.5)
    found = bd.predict(post, np.zeros((2, 2)), probability=0.8)
    assert "2 rows, posterior 0.9 quantile of the response, 80 % interval" in str(found)
    np.testing.assert_allclose(found.mean, 0.5)
    # A tenth lies above: the interval's upper end is the score, with √(0.09/40000) over a density of 0.18.
    np.testing.assert_allclose(found.response_high, 0.5, atol=5 * np.sqrt(0.09 / 40_000) / 0.18)


@pytest.mark.parametrize("classes", [("no", "yes"), (False, True), (-1, 1), (2, 3)])
def test_labels_are_the_users(build, classes):
    post, X = _some(build, classes=classes)
    found = bd.predict(post, X)
    assert found.label.dtype == np.array(classes).dtype
    np.testing.assert_array_equal(found.label == classes[1], found.mean > 0.5)


@pytest.mark.slow
def test_sparse_rows_are_never_made_dense(build, monkeypatch):
    """50,000 columns: dense, 300 rows would take 120 MB."""
    import tracemalloc

    p = 50_000
    model = bd.Model(rates=bd.Shared(), fit_intercept=False)
    post = build(model, np.ones((1, 2, p), dtype=np.float32), rate=0.5, classes=[0, 1])
    X = sparse.random_array((300, p), density=6e-5, format="csr", rng=RNG(0))
    tracemalloc.start()
    found = bd.predict(post, X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 25e6
    np.testing.assert_allclose(found.mean[X.sum(axis=1) == 0], 0.5, rtol=1e-10)


def test_transposed_variables_are_read_by_dim(build):
    post, X = _some(build)
    expected = bd.predict(post, X).mean
    group = bd.groups.dataset(post, "posterior").transpose("feature", "draw", "chain")
    np.testing.assert_allclose(bd.predict(bd.groups.extend(post, {"posterior": group}), X).mean, expected, rtol=1e-12)


def test_what_is_shown(build):
    post, X = _some(build)
    text = str(bd.predict(post, X))
    assert "9 rows, posterior probability of yes, 90 % interval" in text
    assert "calibrated" not in text
    assert len(text.splitlines()) == 2 + len(X)
    many = str(bd.predict(post, np.tile(X, (3, 1)))).splitlines()
    assert "… 15 more …" in many[8]
    assert len(many) == 2 + 12 + 1
    hinge = bd.predict(_some(build, loss=bd.Hinge())[0], X)
    assert str(hinge).endswith("Use bd.Logistic() for probabilities.")
    data = hinge.to_dataset()
    assert data.sizes == {"obs_id": 9}
    assert set(data) == {"mean", "sd", "low", "high", "label"}
    assert data.attrs["positive_class"] == "yes"
    assert "note" in data.attrs
    numbers = bd.predict(_some(build, loss=bd.Squared(variance=1.0))[0], X)
    assert "new response" in str(numbers)
    assert {"response_low", "response_high"} <= set(numbers.to_dataset())


def test_rows_outside_the_domain_of_the_noise_are_refused(build):
    counts, X = (
        build(bd.Model(bd.Squared(variance=1.0), bd.PoissonNoise()), np.ones((1, 1, 4)), intercept=0.0),
        -np.eye(4),
    )
    for convert in (np.asarray, sparse.csr_array):
        with pytest.raises(ValueError, match="Poisson noise needs x >= 0"):
            bd.predict(counts, convert(X))


def test_posteriors_of_others_are_refused(build):
    post, X = _some(build)
    posterior = bd.groups.dataset(post, "posterior")
    for wrong in (None, 3, "post.nc", X, {"posterior": posterior}):
        with pytest.raises(TypeError, match=r"post: expected what bd\.sample"):
            bd.predict(wrong, X)
    with pytest.raises(ValueError, match="expected a group 'posterior'"):
        bd.predict(bd.groups.assemble({"prior": posterior}), X)
    stranger = posterior.drop_encoding()  # which has the model of posteriors of this process
    with pytest.raises(ValueError, match="another library"):
        bd.predict(bd.groups.assemble({"posterior": stranger}), X)
    for missing in ("weight", "rate", "intercept"):
        with pytest.raises(ValueError, match=f"expected the variable '{missing}'"):
            bd.predict(bd.groups.extend(post, {"posterior": posterior.drop_vars(missing)}), X)
    with pytest.raises(ValueError, match="at least one draw"):
        bd.predict(bd.groups.extend(post, {"posterior": posterior.isel(draw=slice(0))}), X)
    with pytest.raises(ValueError, match="not finite"):
        bd.predict(bd.groups.extend(post, {"posterior": posterior * np.nan}), X)
    damaged = bd.groups.assemble({"posterior": stranger}, {"model_description": '{"format": "bayes'})
    with pytest.raises(ValueError, match="truncated"):
        bd.predict(damaged, X)
