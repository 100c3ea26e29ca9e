"""The stated error of integrated masks is the error: against all masks, and against masks that are drawn."""

import itertools

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.data import prepare
from bayesdrop.draws import draws_of
from bayesdrop.groups import dataset
from bayesdrop.inference import approximation
from bayesdrop.inference.approximation import ApproximationWarning, approximation_error


def draws_by_hand(p, size, spread, model, seed=0):
    import xarray as xr

    rng = np.random.default_rng(seed)
    dims = ("chain", "draw", "feature")
    parts = {"weight": (dims, spread * rng.normal(size=(1, size, p)))}
    parts |= {"rate": (dims, rng.uniform(0.2, 0.8, size=(1, size, p))), "intercept": (dims[:2], np.zeros((1, size)))}
    coords = {"chain": [0], "draw": np.arange(size), "feature": [f"x{d}" for d in range(p)]}
    return draws_of(xr.Dataset(parts, coords), model, marginalised=False)


def errors_by_hand(model, draws, X, target):
    """Sum over all masks less the normal score, (draws, n), from nothing but the definition."""
    z, shares = np.polynomial.hermite_e.hermegauss(15)
    if isinstance(model.loss, bd.Hinge):  # in closed form, so by the trapezium rule here
        z = np.linspace(-12, 12, 20_001)
        shares = np.exp(-0.5 * z * z)
    shares = shares / shares.sum()
    masks = np.array(list(itertools.product((0, 1), repeat=X.shape[1])))
    found = np.empty((draws.size, len(X)))
    for k, (w, r) in enumerate(zip(draws.weight, draws.free_rate, strict=True)):
        for i, (x, sign) in enumerate(zip(X, target, strict=True)):

            def likelihood(score, sign=sign):
                cost = np.maximum(1 - sign * score, 0) if isinstance(model.loss, bd.Hinge) else None
                return np.exp(-model.C * (np.logaddexp(0, -sign * score) if cost is None else cost))

            chance = np.prod(np.where(masks == 1, 1 - r, r), axis=1)
            exact = np.log(chance @ likelihood(masks @ (w * x)))
            normal = w @ (x * (1 - r)) + z * np.sqrt(np.sum(r * (1 - r) * (w * x) ** 2))
            found[k, i] = exact - np.log(shares @ likelihood(normal))
    return found


@pytest.mark.parametrize("model", [bd.Model(C=1.5), bd.Model(bd.Hinge())])
def test_error_is_that_against_all_masks(model):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 4)), np.arange(20) % 2
    draws, data = draws_by_hand(4, 40, 1.5, model), prepare(X, y)
    errors = errors_by_hand(model, draws, X, data.target)
    found = approximation_error(draws, data)
    assert (found.rows, found.draws) == (20, 40)
    # The trapezium rule sees a kink to the square of its step, 1.4e-6, and that where the score's spread is about 1.
    assert found.per_row == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-5)
    assert found.total == pytest.approx(np.std(errors.sum(axis=1), ddof=1), rel=1e-5)
    assert found.total > 3 * found.per_row  # what a row is off by says little of their sum
    assert found.resolved
    assert found.bound > found.total


def test_noise_of_drawn_masks_does_not_count_as_error(monkeypatch):
    """At weights near zero nothing is wrong with normal scores, while drawn masks make the sum over rows noisy.

    The covariance of two independent noises has mean 0; it is within two standard errors 98 times of 100 on the upper
    side, and of twenty independent reports at most four are beyond, but for a chance of 1e-4 (binomial).
    """
    monkeypatch.setattr(approximation, "_WORK", 5e4)  # 8 masks a set: a noise of a few tenths
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(15, 12)), np.arange(15) % 2
    data = prepare(X, y)
    found = [approximation_error(draws_by_hand(12, 64, 0.3, bd.Model(), seed), data, seed) for seed in range(20)]
    assert sum(report.resolved for report in found) <= 4
    assert all(report.total < 0.1 for report in found)
    # Had the noise been counted, this is what would have been said.
    one = next(approximation.row_log_likelihoods(
        draws_by_hand(12, 64, 0.3, bd.Model()), X, data.target, data.weight, 8, 1, rng
    ))  # fmt: skip
    assert np.std((one[1][0] - one[2]).sum(axis=1)) > 0.1


def test_many_rows_are_sampled_with_a_stated_error(monkeypatch):
    """The error of all rows from a third of them, a bias-free estimate: within its bound in each of ten deals.

    A bound of two standard errors from eight groups (Student, 7 degrees of freedom) fails once in 24 times on a side;
    four or more of ten do with a chance of 6e-4 at most... so three are allowed.
    """
    model = bd.Model(bd.Hinge(), C=2.0)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 3)), np.arange(300) % 2
    data, draws = prepare(X, y), draws_by_hand(3, 64, 1.0, model)
    whole = approximation_error(draws, data)
    assert whole.rows == 300
    monkeypatch.setattr(approximation, "_WORK", 6e5)
    parts = [approximation_error(draws, data, seed) for seed in range(10)]
    assert {part.rows for part in parts} == {part.rows for part in parts if 60 < part.rows < 200}
    assert sum(part.bound < whole.total for part in parts) <= 3
    squares = np.array([part.total**2 for part in parts])
    assert abs(squares.mean() - whole.total**2) < 5 * squares.std(ddof=1) / np.sqrt(10)
    assert all(np.isnan(part.pareto_k) for part in parts)


def test_a_harmful_approximation_is_a_problem_and_a_warning():
    """Forty rows, large C: the run says by how much it is off, and what to do."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 3))
    y = np.where(rng.random((40, 3)) < 0.6, X, 0) @ np.ones(3) > 0
    options = {"draws": 150, "tune": 200, "chains": 2, "progress": False, "method": bd.HMC()}
    model = bd.Model(bd.Hinge(), rates=bd.Shared(), C=20.0)
    with pytest.warns(ApproximationWarning, match=r"above 1: this is another posterior. Correct it by bd.reweight"):
        post = bd.sample(model, X, y, **options)
    found = bd.diagnose(post)
    assert not found.ok
    assert any("with masks integrated is off by" in problem.text for problem in found.problems)
    # The whole statement, against the definition, at the very draws.
    attrs = post.attrs
    draws = draws_of(dataset(post, "posterior"), model, 128, marginalised=False)
    errors = approximation_error(draws, prepare(X, y))
    assert attrs["approximation_total"] == errors.total > 1
    assert attrs["approximation_draws"] == 256
    mild = bd.Model(bd.Hinge(), rates=bd.Shared(), C=0.1)
    with pytest.warns(UserWarning) as caught:
        post = bd.sample(mild, X, y, **options)
    assert not [warning for warning in caught if warning.category is ApproximationWarning]
    assert "nats (standard deviation over draws" in str(bd.diagnose(post))


def test_the_posterior_says_that_it_is_approximate():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(30, 3)), np.arange(30) % 2
    options = {"draws": 10, "tune": 10, "chains": 1, "progress": False}
    with pytest.warns(UserWarning, match="chains"):
        post = bd.sample(bd.Model(), X, y, method=bd.HMC(), **options)
    assert 0 <= dataset(post, "posterior").attrs["approximation_error"] < 1
    assert "off by" in str(bd.diagnose(post))
    with pytest.warns(UserWarning, match="chains"):
        exact = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, y, **options)
    assert "approximation" not in dataset(exact, "posterior").attrs
