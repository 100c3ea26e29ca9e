"""How large R-hat is where chains agree, and that failures are found among thousands of numbers.

The law is held to ArviZ's own R-hat of simulated chains, autocorrelation times to ArviZ's effective sample sizes, and
batch means to SciPy's analysis of variance. Seeds are fixed; another one fails with the probability that is said.
"""

import re

import numpy as np
import pytest
import xarray as xr
from scipy import signal, stats

import bayesdrop as bd
from bayesdrop._arviz import arviz
from bayesdrop.posterior.diagnostics import largest_r_hat as law
from bayesdrop.sampling.run.summary import Summary, batches_of

FALSE_ALARM = 2e-5


def chains(seed, draws, count, correlation=0.0):
    """Four chains of stationary first-order autoregressions with unit variance, (4, draws, count)."""
    noise = np.random.default_rng(seed).normal(size=(4, draws, count))
    noise[:, 0] /= np.sqrt(1 - correlation**2)
    return signal.lfilter([1.0], [1.0, -correlation], noise, axis=1) * np.sqrt(1 - correlation**2)


def r_hats(draws, method="rank"):
    table = arviz().rhat(xr.Dataset({"x": (("chain", "draw", "k"), draws)}), method=method)
    return np.asarray(table["x"])


def diagnosis(draws):
    posterior = xr.Dataset({"weight": (("chain", "draw", "feature"), draws)}, {"feature": np.arange(draws.shape[2])})
    return bd.diagnose(bd.groups.assemble({"posterior": posterior}))


# The law.


@pytest.mark.parametrize(("draws", "correlation"), [(100, 0.0), (240, 0.5)])
def test_r_hat_of_chains_that_agree(draws, correlation):
    """Quantiles to the width of Dvoretzky, Kiefer & Wolfowitz (1956; Massart 1990), and the largest."""
    found = r_hats(chains(0, draws, 1000, correlation))
    ess = 4 * draws * (1 - correlation) / (1 + correlation)
    width = np.sqrt(np.log(2 / FALSE_ALARM) / (2 * len(found)))
    for probability in (0.1, 0.3, 0.5, 0.7, 0.9):
        below = np.mean(found <= bd.largest_r_hat(ess, chains=4, draws=draws, probability=probability))
        assert below > probability - width
        # Squares of an autoregression forget sooner, so that R-hat of distances is less than the law says.
        assert below < probability + width or correlation > 0
    every = np.full(len(found), ess)
    low, high = (
        bd.largest_r_hat(every, chains=4, draws=draws, probability=q) for q in (FALSE_ALARM / 2, 1 - FALSE_ALARM / 2)
    )
    assert low < found.max() < high


def test_independent_draws_by_another_formula():
    """Of normal draws ``n_e = n``: R-hat from the quantile of SciPy's analysis of variance."""
    for count in (1, 5001):
        ratio = stats.f.isf(-np.expm1(np.log(0.99) / (2 * count)), 7, 8 * 124)
        expected = np.sqrt(124 / 125 + ratio / 125)
        found = bd.largest_r_hat(np.full(count, 1000.0), chains=4, draws=250)
        assert found == pytest.approx(expected, abs=1e-10)


def test_it_grows_and_falls():
    def limit(ess, probability=0.99):
        return bd.largest_r_hat(ess, chains=4, draws=1000, probability=probability)

    some = np.array([400.0, 450.0, 500.0])
    assert limit(some) > limit(some[1:]) > limit(some[2:])
    assert limit(some) > limit(some, 0.5) > limit(some, 0.01)
    for number in range(3):
        better = some.copy()
        better[number] *= 1.1
        assert limit(better) < limit(some)
    # The least effective number decides, nearly.
    assert limit(some[:1]) < limit(some) < limit(np.full(3, 400.0))
    assert bd.largest_r_hat(400.0, chains=4, draws=1000) == limit([400.0])


def test_any_effective_sample_size_has_a_limit():
    """Of ever more effective draws it falls to that of equal means, √(1 − 1/n) with n draws of a half."""
    found = [bd.largest_r_hat([size], chains=4, draws=100) for size in (1e4, 1e12, 1e25, 1.7e308)]
    assert np.all(np.diff(found) <= 0)
    assert found[-1] == pytest.approx(np.sqrt(1 - 1 / 50), rel=1e-12)
    assert np.isfinite(bd.largest_r_hat([400.0, 1.7e308], chains=4, draws=100))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"ess": [500.0, 16.0]}, "ess: expected"),
        ({"ess": [np.nan]}, "ess: expected"),
        ({"ess": []}, "ess: expected at least one effective sample size"),
        ({"chains": 1}, "chains: expected"),
        ({"draws": 3}, "draws: expected"),
        ({"probability": 1.0}, "probability: expected"),
    ],
)
def test_bad_arguments(changed, words):
    arguments = {"ess": [500.0], "chains": 4, "draws": 100} | changed
    with pytest.raises(ValueError, match=words):
        bd.largest_r_hat(arguments.pop("ess"), **arguments)


def test_draws_that_it_takes():
    ess = np.random.default_rng(0).uniform(300, 900, 5000)
    wanted = law.draws_to_agree(ess, 4, 500, 1.01)
    for draws, enough in ((wanted, True), (0.85 * wanted, False)):
        grown = bd.largest_r_hat(ess * draws / 500, chains=4, draws=int(draws), probability=0.5)
        assert (grown <= 1.01) == enough
    assert law.draws_to_agree(np.array([3.0]), 4, 500, 1.01) > 1000


# What the draws say.


def test_autocorrelation_times_are_arviz_own_of_pieces_that_agree_as_expected():
    """With piece means put so that they vary by ``τW/n``, ArviZ's effective sample size is ``Mn/τ``."""
    scores = np.moveaxis(np.concatenate([chains(1, 250, 3, 0.6), chains(2, 250, 3, 0.6)]), 2, 0)
    times, _ = law._autocorrelation_time(scores)
    away = scores - scores.mean(axis=2, keepdims=True)
    places = np.arange(8) - 3.5
    places /= places.std(ddof=1)
    spread = np.sqrt(times * away.var(axis=2, ddof=1).mean(axis=1) / 250)
    placed = away + (spread[:, None] * places)[:, :, None]
    for number in range(3):
        assert 8 * 250 / times[number] == pytest.approx(float(arviz().ess(placed[number], method="identity")), rel=1e-3)


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_noise_of_autocorrelation_times(correlation):
    """Their standard deviation over a thousand numbers is at most what the law of truncated sums says, a sixth less."""
    parts = np.concatenate([chains(14, 200, 1000, correlation), chains(15, 200, 1000, correlation)])
    times, lags = law._autocorrelation_time(np.moveaxis(parts, 2, 0))
    assert np.mean(times) == pytest.approx((1 + correlation) / (1 - correlation), rel=0.05)
    said = np.sqrt(np.mean(2 * (2 * lags + 1)) / (8 * 200))
    # The standard deviation of a thousand is known to 2 %.
    assert 0.7 < np.std(times) / np.mean(times) / said < 1.0


def test_scores_are_arviz_own():
    """Of draws with many ties too."""
    draws = np.round(chains(3, 100, 2), 1)
    draws[:, :, 1] = np.round(draws[:, :, 1])
    scores = law._normal_scores(np.moveaxis(draws, 2, 0))
    split = r_hats(np.moveaxis(scores, 0, 2), "split")
    np.testing.assert_allclose(split, r_hats(draws, "z_scale"), rtol=1e-12)


@pytest.mark.parametrize(("draws", "correlation"), [(200, 0.0), (300, -0.5), (600, 0.7)])
def test_chains_that_agree_keep_to_their_limits(draws, correlation):
    values = chains(4, draws, 300, correlation)
    found = r_hats(values)
    limits = law.limit_of_draws(values, 300, 1 - FALSE_ALARM)
    assert np.all(found < limits)
    # Near the law's own limit: it is no wider than the noise of autocorrelation times makes it.
    strict = law.limit_of_draws(values, 300, 0.5)
    assert np.mean(strict - 1) < 1.3 * np.mean(limits - 1)
    assert np.any(found > 1 + 0.6 * (strict - 1))


def test_limits_of_batch_means_are_those_of_an_analysis_of_variance():
    """Forty draws fill twenty batches of two."""
    values = chains(5, 40, 3, 0.3)
    values[1, :, 2] += 0.8
    summary = Summary({"x": ((4, 3), np.float64)})
    for draw in np.moveaxis(values, 1, 0):
        summary.add({"x": draw})
    found = summary.result()["x"]
    assert batches_of(40) == 20
    limits = law.limit_of_summary(found.r_hat, found.ess, 4, 40, 20, 50)
    means = values.reshape(4, 2, 10, 2, 3).mean(axis=3).reshape(8, 10, 3)
    tail = -np.expm1(np.log(0.99) / 100)
    for number in range(3):
        ratio = stats.f_oneway(*means[:, :, number]).statistic
        each = ratio / (found.r_hat[number] ** 2 - 1 + 1 / 20)
        expected = np.sqrt(1 + stats.f.isf(tail, 7, 72) / each - 1 / 20)
        assert limits[number] == pytest.approx(expected, rel=1e-10)


# The diagnosis.


@pytest.mark.slow
def test_few_numbers_are_held_to_the_usual_limit():
    """The same draws of 499 numbers and of 500."""
    values, sign = chains(11, 1500, 500), np.array([1, -1, 1, -1])[:, None]
    values[:, :, 0] = chains(12, 1500, 1, 0.8)[:, :, 0] + 0.16 * sign
    few, many = diagnosis(values[:, :, :499]), diagnosis(values)
    assert few.r_hat == many.r_hat
    assert few.r_hat.value > 1.01
    assert not few.ok
    assert few.r_hat_limit == 1.01
    assert many.ok


def test_thousands_that_agree_are_not_told_off():
    """One in a hundred seeds fails."""
    found = diagnosis(chains(6, 240, 1000))
    assert found.r_hat.value > 1.01
    assert found.ok
    assert found.r_hat_limit > found.r_hat.value
    said = re.search(r"wanted: at most (1\.0\d\d), as chains that agree may have in one of 1,000 numbers.*", str(found))
    assert float(said[1]) == pytest.approx(found.r_hat_limit, abs=5e-4)
    wanted = int(re.search(r"1.01 takes about ([\d,]+) draws of each", said[0])[1].replace(",", ""))
    assert bd.largest_r_hat(np.full(1000, 4.0 * wanted), chains=4, draws=wanted, probability=0.5) < 1.01
    assert "No problem was found" in str(found)


def test_a_chain_of_another_place_is_found():
    """All numbers of a chain off by 0.3 standard deviations, which of one number alone is hardly to be told."""
    values = chains(7, 250, 300)
    values[2] += 0.3
    found = diagnosis(values)
    assert not found.ok
    assert "the chains disagree" in found.problems[0].text


def test_one_number_of_thousands_is_found():
    """Off by 0.6 of its standard deviations in one chain; of 5,001 numbers 0.5 is found with a power of 0.99."""
    values = chains(8, 400, 800)
    values[1, :, 77] += 0.6
    found = diagnosis(values)
    assert "(weight of 77), above" in found.problems[0].text
    # By the law too, not only because its effective sample size is small then.
    assert r_hats(values[:, :, [77]])[0] > law.limit_of_draws(values[:, :, [77]], 5001)[0]


def test_a_slow_number_is_found():
    """It has no effective sample size by which its R-hat could be excused."""
    values = chains(9, 400, 100)
    values[:, :, 5] = chains(10, 400, 1, 0.99)[:, :, 0]
    found = diagnosis(values)
    assert "R-hat" in found.problems[0].text
    assert "(weight of 5), above 1.01: the chains disagree" in found.problems[0].text
    assert "effective sample size" in found.problems[1].text


def test_a_number_is_held_to_its_own_limit():
    """One that mixes slowly may have the larger R-hat, and one that mixes well is told off for a smaller one."""
    values, sign = chains(11, 1500, 500), np.array([1, -1, 1, -1])[:, None]
    values[:, :, 0] = chains(12, 1500, 1, 0.8)[:, :, 0] + 0.16 * sign
    values[:, :, 9] += 0.16 * sign
    found = diagnosis(values)
    assert found.r_hat.name == "weight of 0"
    assert found.r_hat_limit > found.r_hat.value
    assert [problem.text for problem in found.problems] == [
        "an R-hat is 1.013 (weight of 9), above 1.01: the chains disagree"
    ]


def test_what_was_not_kept_is_held_to_the_law_too():
    """Summaries of independent draws, and of a chain elsewhere."""
    values = chains(13, 300, 1500)
    for shift in (0.0, 0.8):
        values[0, :, 8] += shift
        summary = Summary({"weight": ((4, 1500), np.float64)})
        for draw in np.moveaxis(values, 1, 0):
            summary.add({"weight": draw})
        part = summary.result()["weight"]
        kept = xr.Dataset({"intercept": (("chain", "draw"), values[:, :, 0])})
        known = xr.Dataset({"weight": (("statistic", "feature"), [part.r_hat, part.ess])})
        groups = {"posterior": kept, "posterior_summary": known.assign_coords(statistic=["r_hat", "ess"])}
        found = bd.diagnose(bd.groups.assemble(groups | {"posterior_thinned": kept}))
        assert found.r_hat.value > 1.01
        assert found.ok == (shift == 0), str(found)
        assert found.r_hat_limit > 1.01 or shift
