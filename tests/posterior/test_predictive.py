"""Simulated responses against quadrature, against all masks enumerated, and against the prior's own moments.

False-alarm rate: each statistic is allowed 5 standard errors (5.7e-7), each Kolmogorov-Smirnov test a p-value of 1e-6;
about 120 of them, so a correct sampler fails with probability below 2e-4. The draws of Laplace and horseshoe priors
have 2e-5 a test, 5e-4 for all of them.
"""

from functools import partial

import numpy as np
import pytest
from scipy import integrate, sparse
from scipy.special import exp1
from scipy.stats import beta, binomtest, gamma, halfcauchy, invgamma, kstest, laplace, norm, spearmanr

import bayesdrop as bd
import bayesdrop.losses
from bayesdrop.losses import Loss
from bayesdrop.posterior.arviz_groups.groups import group_names
from bayesdrop.posterior.draws.draws import Limits
from bayesdrop.priors import Gamma, InverseGamma
from bayesdrop.rates import Hierarchical

LIMIT, LEAST, FALSE_ALARM = 5.0, 1e-6, 2e-5
DRAWS = 200_000


def _losses():
    found = (getattr(bayesdrop.losses, name) for name in bayesdrop.losses.__all__)
    kinds = [kind for kind in found if isinstance(kind, type) and kind is not Loss and hasattr(kind, "sample_pseudo")]
    # Counts have sums, which tests/losses/test_counts.py takes.
    kinds = [kind for kind in kinds if kind().largest_count is None]
    others = [bd.Hinge(2.0), bd.EpsilonInsensitive(0.0), bd.EpsilonInsensitive(2.0), bd.Quantile(0.2, 1.0)]
    return [kind() for kind in kinds] + others


LOSSES = _losses()
NUMBERS = [loss for loss in LOSSES if not loss.binary]


def _density(loss, score, C):
    def at(y):
        one = np.asarray(y, dtype=float)
        return np.exp(-C * loss.value(one, np.full_like(one, score), np.zeros_like(one)))

    return at


def _moment(density, score, k, y):
    return (y - score) ** k * density(y)


def _integral(function, loss, score, low=-np.inf, high=np.inf):
    """Over a range, cut at the kinks and some way from them."""
    half = getattr(loss, "epsilon", 0.0)
    ends = score + np.array([-40.0 - half, -half, half, 40.0 + half])
    ends = np.concatenate([[low], ends[(ends > low) & (ends < high)], [high]])
    pairs = zip(ends[:-1], ends[1:], strict=True)
    return sum(integrate.quad(function, *pair, epsabs=1e-13, epsrel=1e-11, limit=400)[0] for pair in pairs)


def test_losses_are_found():
    expected = {"Hinge", "Logistic", "EpsilonInsensitive", "Quantile", "Squared"}
    assert {type(loss).__name__ for loss in LOSSES} >= expected


@pytest.mark.slow_cases("-1.0")
@pytest.mark.parametrize("C", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_responses_follow_their_density(loss, C):
    """Of ``exp(−C loss)`` over its sum or integral; of a likelihood of classes at C = 1, whatever C tempers."""
    for score in (-1.3, 0.0, 0.4, 3.0):
        drawn = loss.sample_response(np.random.default_rng(0), np.full(DRAWS, score), C)
        assert drawn.shape == (DRAWS,)
        density = _density(loss, score, 1.0 if loss.binary and loss.normalised else C)
        if loss.binary:
            assert set(np.unique(drawn)) <= {-1.0, 1.0}
            up = density(1.0) / (density(1.0) + density(-1.0))
            error = np.sqrt(up * (1 - up) / DRAWS)
            assert abs(np.mean(drawn > 0) - up) < LIMIT * error
            continue
        total, below = _integral(density, loss, score), -np.inf
        if density(score + 1e3) * 1e15 < 1e-6 * density(score):  # else the tails have no fourth moment
            first, second, fourth = (
                _integral(partial(_moment, density, score, k), loss, score) / total for k in (1, 2, 4)
            )
            error = np.sqrt((second - first**2) / DRAWS)
            assert abs(np.mean(drawn - score) - first) < LIMIT * error
            assert loss.score_is != "expected response" or abs(first) < 1e-9
            error = np.sqrt((fourth - second**2) / DRAWS)
            assert abs(np.mean((drawn - score) ** 2) - second) < LIMIT * error
        # Ranges that hold shares of every size, far tails too; a moment may be infinite.
        ends = np.append(score + np.quantile(drawn - score, [1e-3, 0.02, 0.2, 0.5, 0.8, 0.98, 1 - 1e-3]), np.inf)
        other = loss.sample_response(np.random.default_rng(1), np.full(DRAWS, score), C)
        for end in ends:
            share = _integral(density, loss, score, below, end) / total
            error = np.sqrt(share * (1 - share) / DRAWS)
            assert abs(np.mean((other > below) & (other <= end)) - share) < LIMIT * error
            below = end


@pytest.mark.parametrize("C", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("loss", NUMBERS, ids=repr)
def test_the_constant_normalises(loss, C):
    density = _density(loss, 0.4, C)
    assert np.exp(loss.log_constant(C)) * _integral(density, loss, 0.4) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_what_is_normalised_is_said(loss):
    """True only where the sum or integral of ``exp(−loss)`` is the same for every score."""
    scores = (-2.0, 0.0, 0.7, 5.0)
    if loss.binary:
        totals = [_density(loss, s, 1.0)(1.0) + _density(loss, s, 1.0)(-1.0) for s in scores]
    else:
        totals = [_integral(_density(loss, s, 1.0), loss, s) for s in scores]
    assert loss.normalised == bool(np.ptp(totals) < 1e-9)


def test_a_weight_for_each_score(build):
    for loss in NUMBERS:
        weight = np.array([1.0, 100.0])
        drawn = loss.sample_response(np.random.default_rng(0), np.zeros((20_000, 2)), weight)
        tail = np.mean(np.abs(drawn) > getattr(loss, "epsilon", 0) + 0.5, axis=0)
        assert tail[0] > 0.1 > 0.001 > tail[1]


X = np.array([[1.0, -0.5, 2.0], [0.0, 1.5, 0.0], [0.0, 0.0, 0.0], [-1.0, 0.7, 0.3]])
WEIGHT, RATE = np.array([1.2, -2.0, 0.8]), np.array([0.3, 0.6, 0.45])


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize(
    "loss", [bd.Logistic(), bd.Hinge(), bd.Squared(variance=1.0), bd.EpsilonInsensitive(0.5)], ids=repr
)
def test_responses_average_over_all_masks(build, enumerate_masks, loss, unbiased, convert):
    """The same draw of the posterior many times over: moments of y against the sum over the eight masks."""
    draws, C = 20_000, 1.5
    model = bd.Model(loss, bd.Dropout(unbiased), bd.PerFeature(), C)
    post = build(model, np.broadcast_to(WEIGHT, (2, draws, 3)), intercept=0.3, rate=RATE, y=[1, -1, 1, 1])
    done = bd.posterior_predictive(post, convert(X), seed=3)
    y = bd.groups.dataset(done, "posterior_predictive")["y"]
    assert y.dims == ("chain", "draw", "obs_id")
    assert y.dtype == (np.int8 if loss.binary else np.float64)
    y = y.values.reshape(-1, 4).astype(float)
    for i in range(4):
        score, chance = enumerate_masks(model, X[i], WEIGHT, 0.3, RATE)
        if loss.binary:
            density = [_density(loss, s, 1.0 if loss.normalised else C) for s in score]
            each = np.array([d(1.0) / (d(1.0) + d(-1.0)) for d in density])
            mean = chance @ each
            var = mean * (1 - mean)
        else:
            density = _density(loss, 0.0, C)
            own = _integral(partial(_moment, density, 0.0, 2), loss, 0.0) / _integral(density, loss, 0.0)
            mean = chance @ score
            var = own + chance @ (score - mean) ** 2
        z = (y[:, i].mean() - mean) / np.sqrt(var / len(y))
        assert abs(z) < LIMIT, (i, z)
        if not loss.binary:
            square = (y[:, i] - mean) ** 2
            assert abs(square.mean() - var) < LIMIT * square.std() / np.sqrt(len(y)), i


@pytest.mark.slow
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "noise", [bd.GaussianNoise(0.7), bd.LaplaceNoise(0.5), bd.MultiplicativeNoise(0.6), bd.PoissonNoise()], ids=repr
)
def test_other_noises_have_the_moments_of_their_scores(build, noise, convert, monkeypatch):
    monkeypatch.setattr("bayesdrop.posterior.draws.draws.LIMITS", Limits(block=5))
    draws, rows = 5_000, np.abs(X)
    post = build(
        bd.Model(bd.Squared(variance=1.0), noise, C=4.0), np.broadcast_to(WEIGHT, (1, draws, 3)), intercept=0.3
    )
    y = bd.groups.dataset(bd.posterior_predictive(post, convert(rows), new=True), "predictions")["y"].values[0]
    part = noise.coefficients(np.zeros(3))
    mean = rows @ WEIGHT + 0.3
    var = 0.25 + (part.quadratic * rows**2 + part.linear * rows + part.constant) @ WEIGHT**2
    assert np.max(np.abs(y.mean(axis=0) - mean) / np.sqrt(var / draws)) < LIMIT
    square = (y - mean) ** 2
    assert np.max(np.abs(square.mean(axis=0) - var) / (square.std(axis=0) / np.sqrt(draws))) < LIMIT


def test_each_draw_has_its_own_masks_weights_and_noise(build):
    """Variance of y over draws whose weights and σ differ: E σ² + E v + Var m."""
    rng = np.random.default_rng(5)
    draws = 40_000
    w, sigma = rng.normal(size=(1, draws, 2)), rng.gamma(5.0, 0.2, size=(1, draws))
    loss = bd.Squared(variance=InverseGamma(2.0, 1.0))
    post = build(bd.Model(loss, rates=bd.Fixed(0.4), fit_intercept=False), w, sigma=sigma)
    x = np.array([[1.0, 2.0]])
    y = bd.groups.dataset(bd.posterior_predictive(post, x, new=True), "predictions")["y"].values.ravel()
    expected = np.mean(sigma**2) + 0.24 * np.mean((w**2) @ (x[0] ** 2)) + 0.36 * np.var(w @ x[0])
    assert abs(np.mean(y**2) - expected) < LIMIT * np.std(y**2) / np.sqrt(draws)


def test_corrupted_inputs_suffer_no_more_noise(build):
    post = build(
        bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.9), C=1e12),
        np.broadcast_to(WEIGHT, (1, 5, 3)),
        intercept=0.3,
    )
    done = bd.posterior_predictive(post, X, new=True, corrupted_inputs=True)
    y = bd.groups.dataset(done, "predictions")["y"].values[0]
    np.testing.assert_allclose(y, np.broadcast_to(X @ WEIGHT + 0.3, y.shape), atol=1e-4)


def _small(build, draws=7):
    rng = np.random.default_rng(0)
    return build(bd.Model(), rng.normal(size=(2, draws, 3)), intercept=0.0, rate=0.5, y=[1, -1, 1, 1], classes=[0, 1])


def test_groups_draws_and_seeds(build, tmp_path):
    post = _small(build)
    done = bd.posterior_predictive(post, X, draws=3)
    group = bd.groups.dataset(done, "posterior_predictive")
    assert group["y"].shape == (2, 3, 4)
    assert group["draw"].values.tolist() == [0, 3, 6]
    assert "posterior_predictive" not in bd.groups.group_names(post)
    both = bd.posterior_predictive(done, X[:2], new=True)
    assert set(bd.groups.group_names(both)) >= {"posterior", "posterior_predictive", "predictions", "observed_data"}
    assert both.attrs["model_description"] == post.attrs["model_description"]
    again = bd.groups.dataset(bd.posterior_predictive(post, X, draws=3), "posterior_predictive")
    np.testing.assert_array_equal(again["y"], group["y"])
    other = bd.groups.dataset(bd.posterior_predictive(post, X, seed=1), "posterior_predictive")
    assert not np.array_equal(other["y"].isel(draw=[0, 3, 6]), group["y"])
    bd.groups.save(both, tmp_path / "post.nc")
    loaded = bd.groups.load(tmp_path / "post.nc")
    np.testing.assert_array_equal(bd.groups.dataset(loaded, "posterior_predictive")["y"], group["y"])


def test_bad_requests_are_refused(build):
    post = _small(build)
    with pytest.raises(ValueError, match="draws: expected"):
        bd.posterior_predictive(post, X, draws=8)
    with pytest.raises(ValueError, match=r"expected the 4 rows that were sampled .* got 3; .*new=True"):
        bd.posterior_predictive(post, X[:3])
    with pytest.raises(ValueError, match="observed_data"):
        bd.posterior_predictive(bd.groups.assemble({"posterior": bd.groups.dataset(post, "posterior")}, post.attrs), X)


@pytest.mark.parametrize(
    "rates", [bd.PerFeature(bd.Beta(2, 5)), bd.Shared(bd.Beta(0.5, 3)), bd.PerGroup(["a", "b", "a"])]
)
def test_prior_draws_follow_the_prior(rates):
    scale = np.array([0.5, 1.0, 2.0])
    model = bd.Model(rates=rates, weight_prior=bd.Normal(scale))
    tree = bd.prior_draws(model, X, draws=20_000, seed=1, intercept_scale=2.5)
    prior = bd.groups.dataset(tree, "prior")
    rate_map = model.bind(["x0", "x1", "x2"])
    assert prior["rate"].dims == ("chain", "draw", rate_map.dim)
    for d in range(3):
        assert kstest(prior["weight"].values[0, :, d] / scale[d], "norm").pvalue > LEAST
    assert kstest(prior["intercept"].values[0] / 2.5, "norm").pvalue > LEAST
    for j in range(rate_map.size):
        law = beta(rate_map.prior.a, rate_map.prior.b)
        assert kstest(prior["rate"].values[0, :, j], law.cdf).pvalue > LEAST
    y = bd.groups.dataset(tree, "prior_predictive")["y"].values[0].astype(float)
    assert y.shape == (20_000, 4)
    # The prior is symmetric, so that either class is as likely as the other.
    assert np.max(np.abs(y.mean(axis=0) - 0.5)) < LIMIT * 0.5 / np.sqrt(20_000)


def test_laplace_weights_are_drawn():
    """Their law, and responses of the variance 1/C + Σ x² 2b² E[1 − η]."""
    scale = np.array([0.5, 1.0, 2.0])
    rates = bd.PerFeature(bd.Beta(2, 3))
    model = bd.Model(bd.Squared(variance=1.0), rates=rates, C=2.0, weight_prior=bd.Laplace(scale), fit_intercept=False)
    tree = bd.prior_draws(model, X, draws=40_000)
    weight = bd.groups.dataset(tree, "prior")["weight"].values[0]
    for d in range(3):
        assert kstest(weight[:, d], laplace(scale=scale[d]).cdf).pvalue > FALSE_ALARM
    assert spearmanr(np.abs(weight[:, 0]), np.abs(weight[:, 1])).pvalue > FALSE_ALARM
    square = bd.groups.dataset(tree, "prior_predictive")["y"].values[0] ** 2
    var = 0.5 + 1.2 * X**2 @ scale**2
    away = (square.mean(axis=0) - var) / (square.std(axis=0) / np.sqrt(len(square)))
    assert np.max(np.abs(away)) < norm.isf(FALSE_ALARM / 2 / len(var))


def test_horseshoe_weights_are_drawn():
    """τ is half Cauchy, and w/τ has the density (2π³)^{−½} exp(w²/2) E₁(w²/2) (Carvalho, Polson & Scott 2010)."""
    model = bd.Model(rates=bd.Fixed(0.3), weight_prior=bd.Horseshoe(0.2))
    tree = bd.prior_draws(model, X, draws=20_000, intercept_scale=2.5)
    prior = bd.groups.dataset(tree, "prior")
    scale = prior["global_scale"].values[0]
    assert prior["global_scale"].dims == ("chain", "draw")
    assert kstest(scale, halfcauchy(scale=0.2).cdf).pvalue > FALSE_ALARM
    # Quantiles of log|w/τ|, on a scale where the density has no peak.
    log = np.linspace(-25, 60, 20_001)
    half = 0.5 * np.exp(2 * log)
    scaled_exponential = np.where(half < 50, exp1(half) * np.exp(np.minimum(half, 50)), 1 / (half + 1))
    density = 2 * np.exp(log) * scaled_exponential / np.sqrt(2 * np.pi**3)
    cumulative = integrate.cumulative_simpson(density, x=log, initial=0.0)
    assert cumulative[-1] == pytest.approx(1, abs=1e-3)
    local = prior["weight"].values[0] / scale[:, None]
    for d in range(3):
        assert kstest(np.log(np.abs(local[:, d])), lambda t: np.interp(t, log, cumulative)).pvalue > FALSE_ALARM
        assert binomtest(int(np.sum(local[:, d] > 0)), len(local)).pvalue > FALSE_ALARM
    assert spearmanr(np.abs(local[:, 0]), np.abs(local[:, 1])).pvalue > FALSE_ALARM
    assert spearmanr(np.abs(local[:, 0]), scale).pvalue > FALSE_ALARM
    y = bd.groups.dataset(tree, "prior_predictive")["y"].values[0]
    assert set(np.unique(y)) == {0, 1}
    # The prior is symmetric, so that either class is as likely as the other.
    for column in y.T:
        assert binomtest(int(np.sum(column > 0)), len(column)).pvalue > FALSE_ALARM


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_heavy_tails_of_the_prior_give_finite_responses(loss):
    model = bd.Model(loss, rates=bd.Fixed(0.3), weight_prior=bd.Horseshoe(1e6), fit_intercept=False)
    y = bd.groups.dataset(bd.prior_draws(model, X), "prior_predictive")["y"].values
    assert np.all(np.isfinite(y))


def test_an_unknown_variance_is_drawn():
    loss = bd.Squared(variance=InverseGamma(5.0, 3.0))
    tree = bd.prior_draws(bd.Model(loss, rates=bd.Fixed(0.3), fit_intercept=False), X, draws=40_000)
    sigma = bd.groups.dataset(tree, "prior")["sigma"].values[0]
    assert kstest(sigma**2, invgamma(5.0, scale=3.0).cdf).pvalue > LEAST
    y = bd.groups.dataset(tree, "prior_predictive")["y"].values[0, :, 2]  # a row of zeros: nothing but the noise
    assert abs(np.mean(y**2) - 0.75) < LIMIT * np.std(y**2) / np.sqrt(len(y))


def test_a_hierarchy_is_drawn_and_kept():
    """``group_rate`` and ``group_strength`` follow their priors, and the rates of a draw those of their group."""
    rates = Hierarchical(["a", "b", "a"], bd.Beta(2, 3), Gamma(3.0, 4.0))
    tree = bd.prior_draws(bd.Model(rates=rates, fit_intercept=False), X, draws=20_000)
    prior = bd.groups.dataset(tree, "prior")
    assert prior["group"].values.tolist() == ["a", "b"]
    for name, law in (("group_rate", beta(2, 3)), ("group_strength", gamma(3.0, scale=4.0))):
        assert prior[name].dims == ("chain", "draw", "group")
        for value in prior[name].values[0].T:
            assert kstest(value, law.cdf).pvalue > LEAST
    mean, strength = (prior[name].values[0][:, [0, 1, 0]] for name in ("group_rate", "group_strength"))
    # Given the group every rate is a Beta variable, so its own distribution function makes it uniform.
    uniform = beta.cdf(prior["rate"].values[0], mean * strength, (1 - mean) * strength)
    for value in uniform.T:
        assert kstest(value, "uniform").pvalue > LEAST


def test_prior_responses_follow_the_offset():
    """With one seed all that an offset does is to be added to the score."""
    rows = np.random.default_rng(3).normal(size=(6, 2))
    known = np.array([0.0, 1.0, -2.0, 5.0, 30.0, -30.0])

    def responses(model, **options):
        tree = bd.prior_draws(model, rows, draws=50, intercept_scale=1.0, **options)
        return tree, bd.groups.dataset(tree, "prior_predictive")["y"].values[0]

    numbers = bd.Model(bd.Squared(variance=1.0), rates=bd.PerFeature())
    plain = responses(numbers)[1]
    tree, moved = responses(numbers, offset=known)
    np.testing.assert_allclose(moved - plain, np.tile(known, (50, 1)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(responses(numbers, offset=2.5)[1] - plain, 2.5, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(bd.groups.dataset(tree, "constant_data")["offset"], known)
    assert "constant_data" not in group_names(responses(numbers)[0])
    without, with_offset = (bd.groups.dataset(one, "prior") for one in (responses(numbers)[0], tree))
    for variable in ("weight", "rate", "intercept"):
        np.testing.assert_array_equal(with_offset[variable], without[variable])
    classes = responses(bd.Model(), offset=40 * np.sign(known))[1]
    np.testing.assert_array_equal(classes[:, 4:], np.tile([1, 0], (50, 1)))
    counts = responses(bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), offset=-60.0)[1]
    assert not counts.any()
