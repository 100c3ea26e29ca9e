"""Averages over the noise of a row against sums over all masks, over counts and by quadrature.

Everything here is deterministic but for the intervals of responses: 5 standard errors (5.7e-7 each), about 70 of them,
so a false alarm below 1e-4. Loss weights and responses beyond these are in ``test_extremes.py``.
"""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binom, laplace, norm, poisson

import bayesdrop as bd
from bayesdrop.posterior.draws.draws import Limits, read_draws
from bayesdrop.posterior.noise_average import quadrature
from bayesdrop.posterior.noise_average.expectation import class_probability, expectation
from bayesdrop.posterior.noise_average.functions import LogLikelihood
from bayesdrop.posterior.noise_average.quadrature import RULES
from bayesdrop.warnings import AccuracyWarning

RNG = np.random.default_rng


def sigmoid(gap):
    return 0.5 + 0.5 * np.tanh(0.5 * gap)


def probability(loss, score, C):
    """Of the positive class: σ(s), or the two pseudo-likelihoods of a hinge of margin 1 over their sum."""
    if isinstance(loss, bd.Logistic):
        return sigmoid(score)
    cost = [np.clip(1 - sign * score, 0, None) for sign in (1, -1)]
    return sigmoid(C * (cost[1] - cost[0]))


def cost(loss, y, score):
    """Plain losses, written apart from the library."""
    return {
        "Logistic": lambda: np.logaddexp(0, -y * score),
        "Hinge": lambda: np.clip(1 - y * score, 0, None),
        "Squared": lambda: 0.5 * (y - score) ** 2,
        "EpsilonInsensitive": lambda: np.clip(np.abs(y - score) - 0.1, 0, None),
        "Quantile": lambda: np.maximum(0.9 * (y - score), -0.1 * (y - score)),
    }[type(loss).__name__]()


def log_constant(loss, C):
    name = type(loss).__name__
    numbers = {"Squared": 0.5 * np.log(C / (2 * np.pi)), "EpsilonInsensitive": -np.log(0.2 + 2 / C)}
    return {**numbers, "Quantile": np.log(0.09 * C)}.get(name, 0.0)


def _setting(build, loss, C, p, scale, unbiased, seed, n=4, draws=5):
    """Draws and rows: rates down to 1e-4, weights of one size or of many."""
    rng = RNG(seed)
    w = scale * rng.normal(size=(1, draws, p)) * np.exp(rng.normal(size=p) * (seed % 2))
    rate = np.clip(rng.beta(0.5, 0.5, size=w.shape), 1e-4, 0.99)
    X = rng.normal(size=(n, p)) if seed % 3 else np.ones((n, p))
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0) if loss.binary else scale * rng.normal(size=n)
    model = bd.Model(loss, bd.Dropout(unbiased), bd.PerFeature(), C)
    options = {"classes": [-1, 1]} if loss.binary else {}
    return build(model, w, intercept=rng.normal(size=(1, draws)), rate=rate, y=y, **options), X, y


def _masks(enumerate_masks, post, model, X):
    """Scores and chances of all masks, (n, S, 2^p) each."""
    posterior = bd.groups.dataset(post, "posterior")
    values = [posterior[name].values[0] for name in ("weight", "intercept", "rate")]
    each = [[enumerate_masks(model, x, w, b, r) for w, b, r in zip(*values, strict=True)] for x in X]
    return tuple(np.array([[pair[j] for pair in row] for row in each]) for j in range(2))


BINARY = [bd.Logistic(), bd.Hinge()]
LOSSES = [*BINARY, bd.Squared(variance=1.0), bd.EpsilonInsensitive(), bd.Quantile(0.9, 1.0)]


@pytest.mark.parametrize("loss", BINARY, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_hundreds_of_entries(build, loss, convert):
    """Three weights, 40, 80 and 200 entries of each: sums of three binomial variables, every outcome enumerated."""
    counts, C = (40, 80, 200), 1.5
    for weight, rate in (((0.3, -0.2, 0.1), (0.3, 0.5, 0.8)), ((2.0, -1.0, 0.4), (0.9, 0.6, 0.01))):
        kept = [np.arange(n + 1) for n in counts]
        chance = [binom.pmf(k, n, 1 - r) for k, n, r in zip(kept, counts, rate, strict=True)]
        score = 0.4 + sum(np.ix_(*(w * k for w, k in zip(weight, kept, strict=True))))
        exact = np.einsum("a,b,c,abc", *chance, probability(loss, score, C))
        w, r = (np.repeat(part, counts) for part in (weight, rate))
        # One row of the others' weights, so that rows differ in the number of their entries.
        X = np.vstack([np.ones(320), np.r_[np.ones(120), np.zeros(200)]])
        model = bd.Model(loss, rates=bd.PerFeature(), C=C)
        post = build(model, w[None, None], intercept=0.4, rate=r, classes=[0, 1])
        found = class_probability(read_draws(post), convert(X))[:, 0]
        assert abs(found[0] - exact) < RULES.probability
        exact = np.einsum("a,b,ab", *chance[:2], probability(loss, score[:, :, 0], C))
        assert abs(found[1] - exact) < RULES.probability


NOISES = [bd.GaussianNoise(0.7), bd.MultiplicativeNoise(0.7), bd.LaplaceNoise(0.7), bd.PoissonNoise()]


@pytest.mark.slow_cases("0.1-")
@pytest.mark.parametrize("loss", BINARY, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_noise_without_masks(build, loss, noise, scale):
    """Two features, one of them zero in a row, against quadrature or the sum over the counts of each."""
    X, w, C = np.array([[2.0, 1.0], [0.0, 1.0]]), scale * np.array([1.2, -0.7]), 1.5
    post = build(bd.Model(loss, noise, C=C), w[None, None], intercept=0.3, classes=[0, 1])
    grid = np.linspace(-30, 30, 6001)
    for x, found in zip(X, class_probability(read_draws(post), X)[:, 0], strict=True):
        if isinstance(noise, bd.PoissonNoise):
            values = np.arange(60)
            parts = [(values, poisson.pmf(values, entry)) for entry in x]
        elif isinstance(noise, bd.LaplaceNoise):
            spread = np.linspace(-15, 15, 3001)
            density = laplace.pdf(spread, scale=0.7)
            parts = [(entry + spread, density / density.sum()) for entry in x]
        else:
            spread = np.linalg.norm(w if isinstance(noise, bd.GaussianNoise) else w * x) * 0.7
            parts = [((x @ w + spread * grid) / w[0], norm.pdf(grid) * 0.01), (np.zeros(1), np.ones(1))]
        score = 0.3 + w[0] * parts[0][0][:, None] + w[1] * parts[1][0]
        exact = parts[0][1] @ probability(loss, score, C) @ parts[1][1]
        assert abs(found - exact) < RULES.probability


@pytest.mark.parametrize("loss", LOSSES[2:], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_an_interval_of_new_responses_holds_what_it_says(build, enumerate_masks, loss, q):
    """Its content by the responses' own distribution function, summed over all draws and masks: √(q(1 − q)/N)."""
    C = 25.0
    post, X, _ = _setting(build, loss, C, 4, 1.0, False, 5, n=12, draws=40)
    model = bd.Model(loss, rates=bd.PerFeature(), C=C)
    score, chance = _masks(enumerate_masks, post, model, X)
    found = bd.predict(post, X, probability=q)

    def below(y):
        away = y[:, None, None] - score
        if isinstance(loss, bd.Squared):
            share = norm.cdf(away * np.sqrt(C))
        elif isinstance(loss, bd.Quantile):  # nine tenths lie below the score
            share = np.where(away > 0, 1 - 0.1 * np.exp(-0.9 * C * away), 0.9 * np.exp(0.1 * C * np.minimum(away, 0)))
        else:
            beyond = np.exp(-C * np.clip(np.abs(away) - 0.1, 0, None)) / C
            half = np.where(np.abs(away) > 0.1, 0.1 + 1 / C - beyond, np.abs(away))
            share = 0.5 + np.sign(away) * half / (0.2 + 2 / C)
        return (chance * share).sum(axis=2).mean(axis=1)

    content = below(found.response_high) - below(found.response_low)
    assert np.max(np.abs(content - q)) < 5 * np.sqrt(q * (1 - q) / 40_000)


@pytest.mark.parametrize("block", [1, 20, 300])
def test_blocks_and_storage_do_not_matter(build, monkeypatch, block):
    post, X, y = _setting(build, bd.Squared(variance=1.0), 1.0, 9, 1.0, False, 7)
    X[X < -0.5] = 0.0
    whole = bd.groups.dataset(bd.log_likelihood(post, X, y), "log_likelihood")["y"].values
    monkeypatch.setattr("bayesdrop.posterior.draws.draws.LIMITS", Limits(block=block))
    for matrix in (X, sparse.csr_array(X), sparse.coo_matrix(X)):
        pieces = bd.groups.dataset(bd.log_likelihood(post, matrix, y), "log_likelihood")["y"].values
        np.testing.assert_allclose(pieces, whole, rtol=1e-10, atol=1e-12)


def test_an_error_that_stays_is_told(build, monkeypatch):
    """Large entries, a steep hinge, too few nodes for it and too many entries for all masks."""
    monkeypatch.setattr(quadrature, "RULES", quadrature.Rules(last=64))
    post, X, _ = _setting(build, bd.Hinge(), 100.0, 21, 5.0, False, 1)
    with pytest.warns(AccuracyWarning, match=r"averages over .* have errors of about .*expected 0\.0005"):
        class_probability(read_draws(post), X)


K = 16
BITS = (np.arange(2**K)[:, None] >> np.arange(K)) & 1
RATES = {
    "any": lambda rng: rng.beta(1, 1, size=(1, 2, K)),
    "rare": lambda rng: np.full((1, 2, K), 0.02),
    "near 1": lambda rng: 1 - 10.0 ** rng.uniform(-4, -1, size=(1, 2, K)),
}


@pytest.mark.filterwarnings("error::bayesdrop.AccuracyWarning")
@pytest.mark.parametrize("kind", RATES)
@pytest.mark.parametrize(("scale", "C"), [(0.5, 1.0), (0.5, 30.0), (2.0, 30.0), (1000.0, 1.0)])
@pytest.mark.parametrize("loss", [*LOSSES[:3], bd.Quantile(0.9, 1.0)], ids=lambda loss: type(loss).__name__)
def test_many_entries_of_any_size_against_all_masks(build, loss, scale, C, kind):
    """Sixteen entries, up to a thousand times out of range, and no warning: there is no error to warn of."""
    rng = RNG(3)
    w, b, X = scale * rng.normal(size=(1, 2, K)), rng.normal(size=(1, 2)), rng.normal(size=(2, K))
    rate = np.clip(RATES[kind](rng), 1e-6, 1 - 1e-6)
    y = np.sign(rng.normal(size=2)) if loss.binary else 3 * scale * rng.normal(size=2)
    options = {"classes": [-1, 1]} if loss.binary else {}
    draws = read_draws(build(bd.Model(loss, C=C), w, intercept=b, rate=rate, y=y, **options))
    found = expectation(draws, X, LogLikelihood(draws, y))
    chances = class_probability(draws, X) if loss.binary else None
    for i, s in np.ndindex(2, 2):
        log_chance = BITS @ np.log1p(-rate[0, s]) + (1 - BITS) @ np.log(rate[0, s])
        score = BITS @ (X[i] * w[0, s]) + b[0, s]
        exact = np.logaddexp.reduce(log_chance - C * cost(loss, y[i], score)) + log_constant(loss, C)
        np.testing.assert_allclose(found[i, s], exact, rtol=1e-12, atol=RULES.likelihood)
        if chances is not None:
            exact = np.exp(log_chance) @ probability(loss, score, C)
            assert abs(chances[i, s] - exact) < RULES.probability


def test_a_probability_needs_classes(build):
    post, X, _ = _setting(build, bd.Squared(variance=1.0), 1.0, 7, 1.0, False, 0)
    with pytest.raises(ValueError, match="is Classifying.*Squared has no probability"):
        class_probability(read_draws(post), X)
