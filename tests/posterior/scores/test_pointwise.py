"""The likelihood of each row against all masks enumerated in a loop, and leave-one-out scores against exact ones.

False-alarm rate: Monte Carlo comparisons allow 5 standard errors (5.7e-7 each); fewer than 20 of them.
"""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

import bayesdrop as bd
from bayesdrop.priors import InverseGamma
from bayesdrop.warnings import InfluenceWarning, PseudoLikelihoodWarning

LOSSES = [bd.Logistic(), bd.Hinge(2.0), bd.Squared(variance=1.0), bd.EpsilonInsensitive(0.5), bd.Quantile(0.2, 1.0)]
CONSTANT = {"Squared": 0.5 * np.log(1.5 / (2 * np.pi)), "EpsilonInsensitive": -np.log(1.0 + 2 / 1.5)}
CONSTANT["Quantile"] = np.log(1.5 * 0.2 * 0.8)


def _setting(build, loss, rates, *, p=4, n=8, unbiased=False, row_weight=None, seed=0, C=1.5, chains=2, draws=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X[rng.random((n, p)) < 0.3] = 0.0
    X[2] = 0.0
    y = np.where(rng.random(n) < 0.5, -1, 1) if loss.binary else rng.normal(size=n)
    y = y if loss.largest_count is None else np.floor(np.abs(y))
    model = bd.Model(loss, bd.Dropout(unbiased), rates, C)
    size = model.bind([f"x{d}" for d in range(p)]).size
    post = build(
        model, rng.normal(size=(chains, draws, p)), intercept=rng.normal(size=(chains, draws)),
        rate=rng.beta(2, 3, size=(chains, draws, size)) if size else None, y=y, row_weight=row_weight,
        classes=[0, 1] if loss.binary else None,
    )  # fmt: skip
    return post, model, X, y


def _labels(model, y):
    return (np.asarray(y) > 0).astype(int) if model.loss.binary else y


def _by_hand(enumerate_masks, post, model, X, y, row_weight=None):
    """``{Σ_α p(α) exp(−C loss)}^s``, a draw, a row and a mask at a time, and its second moment over masks."""
    posterior = bd.groups.dataset(post, "posterior")
    n, p = X.shape
    rate_map = model.bind([f"x{d}" for d in range(p)])
    row_weight = np.ones(n) if row_weight is None else row_weight
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], n)
    likelihood, second = np.zeros(shape), np.zeros(shape)
    for c, t, i in np.ndindex(*shape):
        rate = posterior["rate"].values[c, t][rate_map.index] if rate_map.is_free else rate_map.initial
        score, chance = enumerate_masks(
            model, X[i], posterior["weight"].values[c, t], posterior["intercept"].values[c, t], rate
        )
        value = model.loss.plain.value(np.full_like(score, float(y[i])), score, np.zeros_like(score))
        terms = np.exp(CONSTANT.get(type(model.loss).__name__, 0.0) - model.C * value)
        likelihood[c, t, i], second[c, t, i] = (chance @ terms) ** row_weight[i], chance @ terms**2
    return likelihood, second


RATES = [
    bd.PerFeature(),
    bd.Shared(),
    bd.PerGroup(["a", "b", "b", "a"]),
    bd.Fixed([0.3, 0.0, 0.6, 0.0]),
]


@pytest.mark.parametrize("rates", RATES, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_few_masks_are_summed_exactly(build, enumerate_masks, loss, rates):
    row_weight = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0, 0.7])
    for unbiased, weights, convert in ((False, None, np.asarray), (True, row_weight, sparse.csr_array)):
        post, model, X, y = _setting(build, loss, rates, unbiased=unbiased, row_weight=weights)
        expected, _ = _by_hand(enumerate_masks, post, model, X, y, weights)
        done = bd.log_likelihood(post, convert(X), _labels(model, y), masks=16)
        found = bd.groups.dataset(done, "log_likelihood")["y"]
        assert found.dims == ("chain", "draw", "obs_id")
        np.testing.assert_allclose(found.values, np.log(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", [bd.Logistic(), bd.Hinge(expectation="gaussian"), bd.Squared(variance=1.0)], ids=repr)
def test_a_noise_inside_the_loss(build, loss):
    """Draws of ``exp(−U)``: the terms of U, whatever their bound."""
    rng = np.random.default_rng(1)
    model = bd.Model(loss, rates=bd.Fixed(0.4), C=1.5)
    X, w, b = rng.normal(size=(6, 3)), rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5))
    y = np.array([1, -1, 1, 1, -1, -1])
    post = build(model, w, intercept=b, y=y, classes=[-1, 1] if loss.binary else None, target="marginalised")
    mean, var = 0.6 * w @ X.T + b[:, :, None], 0.24 * w**2 @ (X**2).T
    phi = loss.value(np.broadcast_to(y, mean.shape).astype(float), mean, var)
    found = bd.groups.dataset(bd.log_likelihood(post, X, y), "log_likelihood")["y"].values
    np.testing.assert_allclose(found, CONSTANT.get(type(loss).__name__, 0.0) - 1.5 * phi, rtol=1e-10)


@pytest.mark.parametrize(
    "noise", [{"rates": bd.Fixed(0.0)}, {"noise": bd.GaussianNoise(1e-9)}], ids=["masks", "inside the loss"]
)
def test_each_draw_has_its_noise_variance(build, noise):
    rng = np.random.default_rng(1)
    X, w, sigma = rng.normal(size=(6, 3)), rng.normal(size=(2, 5, 3)), rng.gamma(4, 0.3, size=(2, 5))
    y = rng.normal(size=6)
    loss = bd.Squared(variance=InverseGamma(2.0, 1.0))
    model = bd.Model(loss, **noise, fit_intercept=False)
    post = build(model, w, sigma=sigma, y=y, row_weight=np.full(6, 2.0))
    found = bd.groups.dataset(bd.log_likelihood(post, X, y), "log_likelihood")["y"].values
    # The row weights are powers.
    np.testing.assert_allclose(found, 2.0 * norm.logpdf(y, w @ X.T, sigma[:, :, None]), rtol=1e-10)
    without = bd.groups.dataset(post, "posterior").drop_vars("sigma")
    with pytest.raises(ValueError, match="expected the variable 'sigma'"):
        bd.log_likelihood(bd.groups.extend(post, {"posterior": without}), X, y)


def test_other_rows_are_refused(build):
    post, model, X, y = _setting(build, bd.Logistic(), bd.PerFeature())
    labels = _labels(model, y)
    with pytest.raises(ValueError, match=r"got 8 other values of 8|other values of 8"):
        bd.log_likelihood(post, X, 1 - labels)
    with pytest.raises(ValueError, match=r"expected the labels \[0, 1\]"):
        bd.log_likelihood(post, X, labels + 1)
    with pytest.raises(ValueError, match="expected the 8 rows"):
        bd.log_likelihood(post, X[:5], labels[:5])
    with pytest.raises(ValueError, match="expected 8 values, one for each row"):
        bd.log_likelihood(post, X, labels[:5])
    with pytest.raises(ValueError, match="add it by"):
        bd.loo(post)
    numbers, model, X, y = _setting(build, bd.Squared(variance=1.0), bd.PerFeature())
    with pytest.raises(ValueError, match="other values"):
        bd.log_likelihood(numbers, X, y + 0.1)


def _ridge(build, rates_scale, seed=0, n=40, draws=1000, chains=4):
    """Exact posterior draws of a regression without noise, and exact leave-one-out densities."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = X @ [1.0, -0.5] + rng.normal(size=n)

    def posterior(rows):
        precision = np.eye(2) / rates_scale**2 + X[rows].T @ X[rows]
        covariance = np.linalg.inv(precision)
        return covariance @ X[rows].T @ y[rows], covariance

    mean, covariance = posterior(np.arange(n))
    w = rng.multivariate_normal(mean, covariance, size=(chains, draws))
    model = bd.Model(
        bd.Squared(variance=1.0), rates=bd.Fixed(0.0), weight_prior=bd.Normal(rates_scale), fit_intercept=False
    )
    exact = 0.0
    for i in range(n):
        m, S = posterior(np.delete(np.arange(n), i))
        exact += norm.logpdf(y[i], X[i] @ m, np.sqrt(1 + X[i] @ S @ X[i]))
    return bd.log_likelihood(build(model, w, y=y), X, y), exact


def _total(result):
    return float(result.elpd_loo if hasattr(result, "elpd_loo") else result.elpd)


def test_leave_one_out_is_the_exact_one(build):
    """A Gaussian model, refitted in closed form without each row; the total's own Monte Carlo error is 0.03."""
    post, exact = _ridge(build, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing to warn of
        assert abs(_total(bd.loo(post)) - exact) < 0.15


@pytest.mark.parametrize("spread", [0.0, 1e-17, 1e-10])
def test_a_row_of_one_likelihood_is_scored_by_it(build, spread):
    """As rows far from the boundary are without noise; ArviZ alone gives NaN or raises."""
    from bayesdrop.posterior.arviz_groups.groups import dataset, extend

    post, _ = _ridge(build, 1.0)
    held = dataset(post, "log_likelihood")
    name = next(iter(held.data_vars))
    values = held[name].transpose("chain", "draw", ...).copy()
    values[..., 3] = -0.25 + spread * np.random.default_rng(0).random(values.shape[:2])
    before = bd.loo(post)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = bd.loo(extend(post, {"log_likelihood": held.assign({name: values})}))
    one, other = (np.asarray(r.loo_i if hasattr(r, "loo_i") else r.elpd_i).ravel() for r in (before, after))
    assert abs(other[3] + 0.25) < 1e-8
    np.testing.assert_allclose(np.delete(other, 3), np.delete(one, 3), rtol=1e-12)
    assert np.asarray(after.pareto_k).ravel()[3] < 0.7


def test_influential_rows_are_named_with_advice(build):
    rng = np.random.default_rng(0)
    X, y = np.array([[0.1], [30.0], [0.2]]), np.array([0.0, 10.0, 0.0])
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0), fit_intercept=False)
    post = bd.log_likelihood(build(model, rng.normal(size=(2, 500, 1)), y=y), X, y)
    with pytest.warns(InfluenceWarning, match=r"1 of 3 rows have a Pareto k above 0\.67 \(rows 1; .*Use more draws"):
        bd.loo(post)


@pytest.mark.parametrize(
    ("loss", "C", "row_weight", "reason"),
    [
        (bd.Hinge(), 1.0, None, r"Hinge\(.*\) is no likelihood"),
        (bd.Logistic(), 0.5, None, "C = 0.5 raises"),
        (bd.Logistic(), 1.0, np.full(8, 2.0), "row weights"),
        (bd.NegativeBinomial(2.5), 2.0, None, "C = 2 raises"),
        (bd.NegativeBinomial(2.5), 1.0, None, None),
        (bd.Logistic(), 1.0, None, None),
        (bd.Squared(variance=1.0), 0.5, None, None),
        (bd.EpsilonInsensitive(), 0.5, None, None),
        (bd.Quantile(0.9, 1.0), 0.5, None, None),
    ],
)
def test_a_pseudo_likelihood_is_called_one(build, loss, C, row_weight, reason):
    post, model, X, y = _setting(build, loss, bd.Fixed(0.1), C=C, row_weight=row_weight, draws=300)
    post = bd.log_likelihood(post, X, _labels(model, y))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bd.loo(post)
    texts = [str(w.message) for w in caught if w.category is PseudoLikelihoodWarning]
    assert len(texts) == (reason is not None)
    if reason:
        assert re.search(reason, texts[0])
