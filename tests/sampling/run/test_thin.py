"""Thinned runs: the kept draws are every ``thin``-th draw of the whole run, to the bit, however the run is cut."""

import contextlib
import json
import warnings

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop import _memory
from bayesdrop.sampling.run import driving, runner

N, P = 40, 3
MODEL = bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)))
SHORT = {"tune": 10, "chains": 3, "progress": False}


def table():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, P))
    return X, X[:, 0] + rng.logistic(size=N) > 0


def sampled(model=MODEL, rows=None, **options):
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return bd.sample(model, X if rows is None else rows, y, **SHORT | options)


def check_thinned(found, whole, thin):
    for name in ("posterior", "sample_stats"):
        kept, every = (bd.groups.dataset(post, name) for post in (found, whole))
        assert set(kept.data_vars) == set(every.data_vars)
        for variable in every.data_vars:
            values = every[variable].transpose("chain", "draw", ...).values
            np.testing.assert_array_equal(kept[variable].transpose("chain", "draw", ...), values[:, thin - 1 :: thin])


@pytest.mark.parametrize("seconds", [1e-9, 0.5])
@pytest.mark.parametrize("thin", [2, 7, 150])
def test_every_thin_th_draw_is_kept_whatever_the_chunks(monkeypatch, walk, seconds, thin):
    whole = walk(draws=3 * thin).draws
    monkeypatch.setattr(runner.Runner, "chunk_seconds", seconds)
    found = walk(draws=3, thin=thin).draws
    for name, value in whole.items():
        np.testing.assert_array_equal(found[name], value[:, thin - 1 :: thin])


@pytest.mark.slow
def test_a_posterior_has_the_draws_that_were_asked_for():
    found, whole = sampled(draws=20, thin=3), sampled(draws=60)
    check_thinned(found, whole, 3)
    assert bd.groups.dataset(found, "posterior")["draw"].values.tolist() == list(range(20))
    assert (found.attrs["thin"], whole.attrs["thin"]) == (3, 1)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [{}, {"noise": bd.Dropout(centre=[1.0, -2.0, 3.0])}])
def test_rows_outside_memory_and_moved_intercepts(noise):
    model = bd.Model(rates=bd.Fixed(0.3), **noise)
    X, _ = table()
    rows, options = bd.Blocks([X[:25], X[25:]]), {"method": bd.HMC(dtype="float64", correct=False)}
    check_thinned(*(sampled(model, rows, draws=12 // thin, thin=thin, **options) for thin in (4, 1)), 4)


def test_a_stop_rule_counts_kept_draws(walk):
    rule = bd.Stop(ess=150, r_hat=1.2, min_draws=50)
    found = walk(draws=3000, thin=5, stop=rule)
    kept = found.draws["lp"].shape[1]
    assert found.stopped == "target"
    assert rule.next_check(kept - 1) == kept
    assert rule.assess({"weight": found.draws["weight"]}).reached
    np.testing.assert_array_equal(walk(draws=kept, thin=5).draws["weight"], found.draws["weight"])


def test_a_checkpoint_goes_on_between_two_kept_draws(tmp_path, often, monkeypatch, walk):
    whole, chunk, calls = walk(draws=30, thin=7).draws, driving.run_chunk, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 48:  # 30 of the warm-up, and 17
            raise KeyboardInterrupt
        return chunk(*arguments)

    monkeypatch.setattr(driving, "run_chunk", interrupted)
    monkeypatch.setattr(runner.Runner, "chunk_seconds", 1e-9)  # chunks of one draw
    first = walk(tmp_path / "run", draws=30, thin=7)
    monkeypatch.undo()
    done = json.loads((tmp_path / "run" / "manifest.json").read_text())["done"]
    assert (done - 30) % 7
    assert first.draws["lp"].shape[1] == (done - 30) // 7 == 2
    found = walk(tmp_path / "run", draws=30, thin=7).draws
    for name, value in whole.items():
        np.testing.assert_array_equal(found[name], value)
    fewer = walk(tmp_path / "run", draws=4, thin=7).draws
    np.testing.assert_array_equal(fewer["weight"], whole["weight"][:, :4])


@pytest.mark.slow
def test_a_checkpoint_belongs_to_one_thinning(tmp_path):
    sampled(draws=4, thin=2, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="belongs to another run: thin was 2 and is 3"):
        sampled(draws=4, thin=3, checkpoint=tmp_path / "run")
    check_thinned(sampled(draws=6, thin=2, checkpoint=tmp_path / "run"), sampled(draws=12), 2)


@pytest.mark.slow
def test_draws_that_do_not_fit_are_refused_before_the_first(monkeypatch):
    """The message names ``thin``; with a time limit fewer draws may do."""
    one = 3 * 4 * (2 * P + 2)  # weights, rates, intercept and log density of three chains
    monkeypatch.setattr(_memory, "memory_limit", lambda: 1000 * one)
    with pytest.raises(
        ValueError, match=r"1,001 draws of 3 chains take 0.0961 MB, and this process may have 0.096 MB.*thin="
    ):
        sampled(draws=1001, thin=2)
    for options in ({"draws": 1001, "max_seconds": 0.01, "tune": 1}, {"draws": 2, "thin": 1000}):
        with contextlib.suppress(TimeoutError):  # it begins
            sampled(**options)
    monkeypatch.setattr(_memory, "memory_limit", lambda: 3 * one - 1)
    with pytest.raises(ValueError, match="one draw of 3 chains take"):
        sampled(draws=1001, max_seconds=0.01, tune=1)


def test_time_without_a_kept_draw_names_thin(walk):
    with pytest.raises(TimeoutError, match=r"before a draw was kept.*thin"):
        walk(draws=2, thin=10**7, tune=0, max_seconds=1e-9)


@pytest.mark.slow
def test_refits_are_thinned_as_the_posterior_is(monkeypatch):
    from bayesdrop.posterior import held_out

    (X, y), seen = table(), []
    post = sampled(draws=20, thin=3, log_likelihood=True)
    monkeypatch.setattr(held_out, "sample", lambda *rows, **options: seen.append(options) or post)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bd.loo(post, X, y, refit=True)
    assert all(options["thin"] == 3 for options in seen)
    assert seen
