"""Draws that are not kept one by one: the others do not change, summaries are theirs, and what needs them says so."""

import contextlib
import json
import os
import signal
import warnings

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop import _memory
from bayesdrop._progress import uninterrupted
from bayesdrop.plots.style import draws_of_variable
from bayesdrop.sampling.run import checkpoint
from bayesdrop.sampling.run.summary import Finishing

N, P = 40, 3
MODEL = bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)))
OPTIONS = {"draws": 150, "tune": 10, "chains": 3, "progress": False}


def problem(classes=2):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, P))
    return X, np.arange(N) % classes if classes > 2 else X[:, 0] + rng.logistic(size=N) > 0


def quietly(call, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return call(*arguments, **options)


def sampled(model=MODEL, classes=2, **options):
    return quietly(bd.sample, model, *problem(classes), **OPTIONS | options)


def group(post, name="posterior"):
    return bd.groups.dataset(post, name)


@pytest.fixture(scope="module", name="whole")
def _whole():
    return sampled()


@pytest.fixture(scope="module", name="post")
def _post():
    return sampled(variables=["rate", "intercept"])


def check_summary(post, whole, names):
    """Kept draws to the bit, summaries of the others to round-off, and the few draws of all."""
    kept, every, summary, few = (
        group(post),
        group(whole),
        group(post, "posterior_summary"),
        group(post, "posterior_thinned"),
    )
    assert sorted(summary.data_vars) == sorted(names)
    assert set(kept.data_vars) == set(every.data_vars) - set(names)
    for name in kept.data_vars:
        np.testing.assert_array_equal(kept[name], every[name])
    for name in names:
        values = every[name].transpose("chain", "draw", ...).values
        found = summary[name].transpose("statistic", ...)
        scale = np.abs(values).max()
        np.testing.assert_allclose(
            found.sel(statistic="mean"), values.mean(axis=(0, 1), dtype=float), rtol=0, atol=1e-13 * scale
        )
        np.testing.assert_allclose(found.sel(statistic="sd"), values.std(axis=(0, 1), dtype=float), rtol=1e-10)
        some = few[name].transpose("chain", "draw", ...).values.astype(float)
        np.testing.assert_array_equal(found.sel(statistic="q25"), np.quantile(some, 0.25, axis=(0, 1)))
        assert few[name].dtype == every[name].dtype
    for name in every.data_vars:
        np.testing.assert_array_equal(few[name], every[name].sel(draw=few["draw"]))
    for name in group(whole, "sample_stats").data_vars:
        np.testing.assert_array_equal(*(group(one, "sample_stats")[name] for one in (post, whole)))


def test_draws_and_their_summaries(post, whole):
    check_summary(post, whole, ["weight"])
    assert group(whole)["weight"].dtype == np.float32
    assert group(post, "posterior_thinned").sizes["draw"] == 75
    assert list(group(post, "posterior_summary")["statistic"].values[:2]) == ["mean", "sd"]


CASES = {
    "rates, on another scale": (MODEL, 2, ["weight", "intercept"], ["rate"]),
    "an intercept that is moved": (
        bd.Model(bd.Squared(), noise=bd.Dropout(centre=[1.0, -2.0, 3.0]), rates=bd.Fixed(0.3)), 2, ["weight"],
        ["intercept"],
    ),
    "a moved intercept without its weights": (
        bd.Model(bd.Squared(), noise=bd.Dropout(centre=[1.0, -2.0, 3.0]), rates=bd.Fixed(0.3)), 2, ["intercept"],
        ["weight"],
    ),
    "many classes": (
        bd.Model(bd.Softmax(), noise=bd.Dropout(centre=[1.0, -2.0, 3.0]), rates=bd.Fixed(0.3)), 3, ["intercept"],
        ["weight"],
    ),
    "learnt scales without masks": (
        bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.Normal(bd.HalfNormal(1.0))), 2, ["weight_scale"],
        ["intercept", "weight"],
    ),
}  # fmt: skip


@pytest.mark.default_cases("rates, on another scale", "a moved intercept without its weights")
@pytest.mark.parametrize("name", CASES)
def test_other_variables(name):
    model, classes, kept, names = CASES[name]
    options = {"draws": 40}
    if model.loss.binary is False and classes == 2:
        X, _ = problem()
        y = X[:, 0] + np.random.default_rng(0).normal(size=N)
        post, whole = (
            quietly(bd.sample, model, X, y, **OPTIONS | options, variables=variables) for variables in (kept, None)
        )
    else:
        post, whole = (sampled(model, classes, **options, variables=variables) for variables in (kept, None))
    check_summary(post, whole, names)


def test_weights_are_kept_without_an_intercept_that_is_moved():
    finish = Finishing(np.array([2.0]), False)
    part = {"weight": np.ones((1, 3, 1)), "intercept": np.full((1, 3), 5.0)}
    whole = part | finish.more(part)
    assert finish.values(whole)["intercept"].tolist() == [[3.0, 3.0, 3.0]]
    del whole["intercept"]
    assert list(finish.values(whole)) == ["weight"]


# What is made of them.


def test_what_takes_the_few_draws(post, whole):
    X, y = problem()
    few = bd.groups.assemble(
        {name: group(whole, name).sel(draw=group(post, "posterior_thinned")["draw"]) if name == "posterior"
         else group(whole, name) for name in ("posterior", "observed_data", "constant_data")}, post.attrs,
    )  # fmt: skip
    for name in ("mean", "sd", "low", "high"):
        one, other = (getattr(bd.predict(tree, X), name) for tree in (post, few))
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(bd.elpd(post, X, y).pointwise, bd.elpd(few, X, y).pointwise, rtol=1e-12)
    simulated = group(bd.posterior_predictive(post, X, draws=5), "posterior_predictive")
    assert simulated["y"].shape == (3, 5, N)
    effects = bd.marginal_effects(post, X)
    np.testing.assert_allclose(effects["effect"], bd.marginal_effects(few, X)["effect"], rtol=1e-12)


def test_the_table_of_weights_has_means_of_all_draws(post, whole):
    table, expected = bd.weights_table(post), bd.weights_table(whole)
    assert list(table.columns) == list(expected.columns)
    np.testing.assert_allclose(table[["weight", "sd"]], expected[["weight", "sd"]], rtol=1e-6)
    assert table.attrs["weight_interval"] == "posterior, equal tails of 225 draws"
    assert np.all((table["low"] < table["weight"]) & (table["weight"] < table["high"]))
    rates = bd.weights_table(sampled(variables=["weight"]))
    np.testing.assert_allclose(rates["rate"], expected["rate"], rtol=1e-10)


def test_a_diagnosis_sees_them(post):
    found = bd.diagnose(post)
    summary = group(post, "posterior_summary")["weight"]
    assert found.n_rates == P
    worst = float(summary.sel(statistic="r_hat").max())
    assert found.r_hat.value >= worst
    away = group(post, "posterior_summary").copy(deep=True)
    away["weight"].loc[{"statistic": "r_hat", "feature": "x1"}] = 9.5
    away["weight"].loc[{"statistic": "ess", "feature": "x2"}] = 1.5
    changed = bd.diagnose(bd.groups.extend(post, {"posterior_summary": away}))
    assert changed.r_hat == (9.5, "weight of x1")
    assert changed.ess_bulk == (1.5, "weight of x2")
    assert not changed.ok
    assert bd.diagnose(sampled(variables=["weight"])).n_rates == P


def test_what_needs_all_draws_says_so(post):
    X, y = problem()
    words = r"the draws of 'weight' were not kept one by one .*Sample again without `variables`"
    for call in (
        lambda: bd.log_likelihood(post, X, y),
        lambda: bd.log_prior(post),
        lambda: bd.reweight(post, X, y),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(ValueError, match=r"'weight' were not kept.*posterior_thinned"):
        draws_of_variable(post, "weight")
    assert draws_of_variable(post, "rate")[0].shape == (3, 150, P)
    assert draws_of_variable(group(post, "posterior_thinned"), "weight")[0].shape == (3, 75, P)


def test_what_is_saved_is_read_again(post, tmp_path):
    bd.groups.save(post, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    X, _ = problem()
    np.testing.assert_allclose(bd.predict(again, X).mean, bd.predict(post, X).mean, rtol=1e-12)
    assert str(bd.diagnose(again)) == str(bd.diagnose(post))


def test_an_approximation_is_looked_at_with_the_few_draws():
    options = {"method": bd.HMC(correct=False), "draws": 100}
    found, whole = (
        sampled(bd.Model(rates=bd.Fixed(0.4)), **options, variables=names).attrs for names in (["intercept"], None)
    )
    assert found["approximation_draws"] == 3 * 50
    assert found["approximation_error"] == pytest.approx(whole["approximation_error"], rel=0.2)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"variables": ["rates"]}, ValueError, r"expected some of \['intercept', 'rate', 'weight'\], got \['rates'\]"),
        ({"variables": []}, ValueError, "expected at least one name"),
        ({"variables": "rate"}, TypeError, "expected a list of names"),
        ({"variables": ["rate", 3]}, (TypeError, ValueError), "variables"),
        ({"variables": ["rate"], "log_likelihood": True}, ValueError, "needs every draw"),
    ],
)
def test_bad_names_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        sampled(**options)


def test_draws_that_do_not_fit_are_refused_before_the_first(monkeypatch):
    """What they need is said; with a stop rule fewer may do."""
    one = 3 * 4 * (2 * P + 2)  # weights, rates, intercept and log density of three chains
    monkeypatch.setattr(_memory, "memory_limit", lambda: 1000 * one)
    with pytest.raises(
        ValueError, match=r"1,001 draws of 3 chains take 0.0961 MB, and this process may have 0.096 MB.*variables="
    ):
        sampled(draws=1001)
    with contextlib.suppress(TimeoutError), warnings.catch_warnings():  # it begins
        warnings.simplefilter("ignore")
        sampled(draws=1001, max_seconds=0.01, tune=1)
    monkeypatch.setattr(_memory, "memory_limit", lambda: 3 * one - 1)
    with pytest.raises(ValueError, match="one draw of 3 chains take"):
        sampled(draws=1001, max_seconds=0.01, tune=1)


# Long runs.


def test_a_checkpoint_has_what_is_kept_and_goes_on(tmp_path, monkeypatch, post):
    """Interrupted after any chunk; summaries are those of one run, to the bit."""
    monkeypatch.setattr(checkpoint.Checkpoint, "due", lambda self: True)
    names, saved = ["rate", "intercept"], []
    save = checkpoint.Checkpoint.save

    def last(self, *arguments):
        save(self, *arguments)
        saved.append(arguments[2])
        if len(saved) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, "save", last)
    first = sampled(variables=names, checkpoint=tmp_path / "run")
    assert 0 < group(first).sizes["draw"] < 150
    monkeypatch.setattr(checkpoint.Checkpoint, "save", save)
    for file in (tmp_path / "run").glob("draws-*.npz"):
        with np.load(file) as arrays:
            assert sorted(arrays) == ["intercept", "logit_rate", "lp"]
    with pytest.raises(ValueError, match="belongs to another run: variables was"):
        sampled(variables=["rate"], checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="belongs to another run: variables was"):
        sampled(checkpoint=tmp_path / "run")
    found = sampled(variables=names, checkpoint=tmp_path / "run")
    for name in ("posterior", "posterior_summary", "posterior_thinned"):
        for variable in group(post, name).data_vars:
            np.testing.assert_array_equal(group(found, name)[variable], group(post, name)[variable])
    with pytest.raises(ValueError, match="has summaries of 150 draws, which cannot be made those of 20"):
        sampled(variables=names, checkpoint=tmp_path / "run", draws=20)
    more = sampled(variables=names, checkpoint=tmp_path / "run", draws=170)
    assert group(more, "posterior_thinned")["draw"].values[-1] == 168
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    state = tmp_path / "run" / manifest["state"]["file"]
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is damaged"):
        sampled(variables=names, checkpoint=tmp_path / "run", draws=180)


def test_a_stop_rule_waits_for_what_is_not_kept():
    found = sampled(variables=["intercept"], draws=3000, stop=bd.Stop(ess=150, r_hat=1.2))
    assert found.attrs["stopped"] == "target"
    assert float(group(found, "posterior_summary")["weight"].sel(statistic="ess").min()) >= 150


@pytest.mark.skipif(os.name == "nt", reason="no such signals")
def test_an_interruption_waits_until_a_draw_is_in_the_summaries():
    done = []
    # A process in the background may have been told to ignore interruptions.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append(1)

    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert done == [1]
        with uninterrupted():
            done.append(2)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
