"""What a fit prints and the intervals of its rates, against a search on a grid."""

import numpy as np
import pytest
from scipy.stats import beta

import bayesdrop as bd
from bayesdrop.fitting.results.result import RatePosterior
from bayesdrop.priors.rate_prior import BetaLaw, beta_mode, highest_density

SHAPES = [(1.0, 3.0), (4.0, 1.0), (0.4, 30.0), (2.5, 2.5), (1.01, 900.0), (90.0, 1.3), (300.0, 200.0), (1.0, 1.0),
          (0.3, 0.6), (0.2, 0.2)]  # fmt: skip


@pytest.mark.parametrize("probability", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_highest_density_is_the_shortest_interval(a, b, probability):
    """A search over 20,001 lower tails: none is shorter, but where the mode is in the middle of two poles."""
    low, high = (float(end) for end in highest_density(a, b, probability))
    law = beta(a, b)
    assert law.cdf(high) - law.cdf(low) == pytest.approx(probability, abs=1e-6)
    assert low <= float(beta_mode(a, b)) <= high
    tails = np.linspace(0, 1 - probability, 20_001)
    shortest = np.min(law.ppf(np.minimum(tails + probability, 1)) - law.ppf(tails))
    if a == b <= 1:
        assert low == pytest.approx(1 - high)
    else:
        assert high - low == pytest.approx(shortest, rel=1e-6, abs=1e-9)


def test_the_interval_holds_the_learnt_rate_always():
    """Any shapes, and blocks of problems as well as single ones; equal tails leave out two rates in five here."""
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.uniform(np.log(0.05), np.log(1e4), size=(2, 300, 2)))
    a[::3] = 1.0
    posterior = RatePosterior(BetaLaw(a, b), a + b, [f"x{d}" for d in range(300)], "feature")
    for probability in (0.1, 0.9):
        low, high = posterior.interval(probability)
        assert low.shape == (300, 2)
        assert np.all((low <= posterior.mode) & (posterior.mode <= high))
    one = posterior.take([4, 2])
    assert one.names == ["x4", "x2"]
    np.testing.assert_allclose(one.interval(0.9), [end[[4, 2]] for end in posterior.interval(0.9)], rtol=1e-8)


def test_print_shows_intervals_with_their_estimate_and_says_what_they_leave_out():
    """A feature that never speaks against its weight is learnt as 0, the lower end of its interval."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, size=40)
    X = np.column_stack([2.0 * y - 1, rng.normal(size=(40, 14))])
    fit = bd.fit(bd.Model(), X, y)
    text = str(fit)
    lines = [line for line in text.splitlines() if line.startswith("x")]
    assert len(lines) == 12
    for line in lines:
        rate, low, high = (float(part.strip("[],")) for part in line.split()[1:])
        assert low <= rate <= high, line
    assert lines[0].split()[0] == "x0"
    assert "  0.000  [0.000, " in lines[0]
    assert "… 3 more …" in text.splitlines()[9]
    assert "takes the weights, and which entries were deleted, as known" in text
    assert "can lie far from" in text
    assert "bd.sample gives the posterior" in text
    fixed = str(bd.fit(bd.Model(rates=bd.Fixed(0.2)), X, y))
    assert "interval" not in fixed


def test_completion_of_a_fit_offers_what_users_need():
    fit = bd.fit(bd.Model(), [[0.0], [1.0]], [0, 1])
    assert {"predict", "rates", "weight", "save", "summary"} <= set(dir(fit))
    assert not {"facts", "from_dataset", "_auxiliary"} & set(dir(fit))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.MixingWarning")
@pytest.mark.parametrize("estimator", [bd.DropoutRidge(0.0, C=10.0), bd.DropoutQuantileRegressor(0.0, C=10.0)])
def test_a_regressor_samples_at_the_scale_of_its_fit(estimator):
    """The loss has the weight C, so that no scale is learnt beside it."""
    X = np.random.default_rng(0).normal(size=(30, 3))
    X, y = X[:, :2], X @ [1.0, 0.5, 0.4]
    short = {"draws": 5, "tune": 5, "chains": 2, "progress": False}
    ours = bd.groups.dataset(estimator.sample(X, y, **short), "posterior")
    loss = bd.Squared(variance=1.0) if "Ridge" in type(estimator).__name__ else bd.Quantile(0.5, scale=1.0)
    stated = bd.Model(loss, rates=bd.Fixed(0.0), C=10.0)
    assert "sigma" not in ours
    assert ours.equals(bd.groups.dataset(bd.sample(stated, X, y, **short), "posterior"))
