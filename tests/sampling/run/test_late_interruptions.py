"""The keyboard interrupts what follows the last draw: every draw is returned, and a warning says what is missing."""

import signal
import warnings
from functools import cache

import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups.groups import dataset, group_names

X = np.random.default_rng(0).normal(size=(40, 3))
Y = np.where(X[:, 0] + np.random.default_rng(1).normal(size=40) > 0, "up", "down")
SHORT = {"draws": 6, "tune": 3, "chains": 2, "seed": 7, "progress": False}
SAMPLERS = {
    "sample": lambda: bd.sample(bd.Model(), X, Y, method=bd.HMC(), log_likelihood=True, **SHORT),
    "latent": lambda: bd.sample_latent(bd.Model(), X, Y, n_hidden=2, **SHORT),
    "factorization": lambda: bd.sample_factorization(X, 2, **SHORT),
}


def drawn(name):
    # NumPyro's kernels ask for JAX's own rules of promotion.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore", (bd.MixingWarning, bd.ApproximationWarning))
        return SAMPLERS[name]()


@cache
def as_drawn(correct):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bd.sample(bd.Model(), X, Y, method=bd.HMC(correct=correct), **SHORT)


@pytest.fixture(scope="module")
def whole():
    return {name: drawn(name) for name in SAMPLERS}


@pytest.fixture(autouse=True)
def handler():
    # Which a shell's background processes ignore.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "words", "without"),
    [
        ("posterior.sampling.judged", "without the error of the approximation", {"log_likelihood"}),
        ("posterior.sampling.rows_group", "without log likelihoods", {"log_likelihood"}),
        ("posterior.sampling.warn_of_run", r"all draws are returned without the diagnosis \(bd.diagnose\)\.", set()),
        (
            "sampling.run.runner.joined",
            "without the spread of responses, the error of the approximation",
            {"log_likelihood"},
        ),
        (
            "posterior.sampling.build_groups",
            "without the spread of responses, the error of the approximation",
            {"log_likelihood"},
        ),
        ("posterior.sampling.parted", r"all draws are returned without the diagnosis", set()),
        ("posterior.sampling.assemble", r"all draws are returned\.", set()),
    ],
)
def test_an_interruption_keeps_every_draw(monkeypatch, whole, place, words, without):
    module, _, function = place.rpartition(".")
    made = getattr(__import__(f"bayesdrop.{module}", fromlist=[function]), function)

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return made(*arguments, **options)

    monkeypatch.setattr(f"bayesdrop.{place}", interrupted)
    with pytest.warns(bd.warnings.IncompleteWarning, match=f"interrupted after the last draw.*{words}"):
        found = drawn("sample")
    assert set(group_names(found)) == set(group_names(whole["sample"])) - without
    assert dataset(found, "posterior").equals(dataset(as_drawn("reweighted" in found.attrs), "posterior"))
    assert found.attrs["complete"] == 1
    assert bd.predict(found, X).mean.shape == (40,)
    assert "integrated" in str(bd.diagnose(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["latent", "factorization"])
@pytest.mark.parametrize("function", ["build_groups", "warn_of_run", "assemble"])
def test_other_samplers_keep_every_draw_too(monkeypatch, whole, name, function):
    place = f"bayesdrop.{name}.sampling"
    made = getattr(__import__(place, fromlist=[function]), function)

    def interrupted(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        return made(*arguments, **options)

    monkeypatch.setattr(f"{place}.{function}", interrupted)
    with pytest.warns(bd.warnings.IncompleteWarning, match="interrupted after the last draw: all draws are returned"):
        found = drawn(name)
    assert dataset(found, "posterior").equals(dataset(whole[name], "posterior"))


@pytest.mark.parametrize("name", ["sample", "latent"])
def test_what_cannot_be_described_is_refused_before_the_chains_run(name, monkeypatch):
    def refuse(*_):
        raise TypeError("not JSON serializable")

    module = {"sample": "posterior.sampling", "latent": "latent.sampling"}[name]
    monkeypatch.setattr(f"bayesdrop.{module}.attributes", refuse)
    monkeypatch.setattr(f"bayesdrop.{module}._run", lambda *_, **__: pytest.fail("the chains ran"))
    with pytest.raises(TypeError, match="JSON"):
        SAMPLERS[name]()
