"""Posteriors of Dask collections are those of the same blocks read one after another, also when workers are lost."""

import os
import signal
import warnings

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.hmc import streamed as streamed_kernel
from bayesdrop.hmc.kernels.density import Loadings

MODEL = bd.Model(rates=bd.Fixed(0.0))
OPTIONS = {"draws": 12, "tune": 15, "chains": 2, "progress": False}


def cut(X, rows=170):
    return da.from_array(X, chunks=(rows, *X.shape[1:]))


def sample(X, y, model=MODEL, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return bd.sample(model, X, y, **OPTIONS | options)


def weights(post):
    return bd.groups.dataset(post, "posterior")["weight"].values


@pytest.mark.slow
@pytest.mark.parametrize("place", ["dense", "sparse"])
def test_a_pass_is_that_of_blocks_read_one_after_another(two_classes, place):
    """To the last digit but that of another order of the sums, given the same approximation."""
    X, y = two_classes
    parts = np.split(X, range(170, 600, 170))
    blocks = bd.Blocks([sparse.csr_array(part) for part in parts] if place == "sparse" else parts)
    lazy = cut(X).map_blocks(sparse.csr_array) if place == "sparse" else cut(X)
    passes = []

    def kept(density, rows, loadings, one_pass=streamed_kernel.one_pass):
        passes.append((rows, density))
        return one_pass(density, rows, loadings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed_kernel, "one_pass", kept)
        posts = [sample(data, y, draws=2, tune=1) for data in (blocks, lazy)]
    density, load = passes[0][1], np.random.default_rng(0).normal(size=(3, 12))
    level, nothing = np.arange(3.0), np.zeros(3)
    loadings = Loadings(load, level, 0 * load, 0 * load, nothing)
    here, there = (streamed_kernel.one_pass(density, rows, loadings) for rows, _ in (passes[0], passes[-1]))
    np.testing.assert_allclose(there.cost, here.cost, rtol=1e-12)
    np.testing.assert_allclose(there.slopes.mean, here.slopes.mean, rtol=1e-10, atol=1e-10)
    # The point fits stop where their preconditioners let them.
    np.testing.assert_allclose(weights(posts[1]), weights(posts[0]), rtol=0, atol=0.02)


def test_draws_predictions_and_scores(two_classes):
    """Same seed, same draws; predictions are made by the workers, and data frames keep their names."""
    X, y = two_classes
    frame = pd.DataFrame(X, columns=[f"c{d}" for d in range(12)])
    lazy = dd.from_pandas(frame, npartitions=4)
    post = sample(lazy, dd.from_pandas(pd.Series(y), npartitions=4), log_likelihood=True)
    np.testing.assert_allclose(weights(sample(lazy, y)), weights(post), rtol=0, atol=1e-8)
    assert bd.groups.dataset(post, "posterior")["feature"].values.tolist() == list(frame.columns)
    assert not any(dask.is_dask_collection(value.data) for value in bd.groups.dataset(post, "observed_data").values())
    here = bd.predict(post, frame)
    for there in (bd.predict(post, lazy), bd.predict(post, lazy[list(frame.columns[::-1])]), bd.predict(post, cut(X))):
        np.testing.assert_allclose(there.mean, here.mean, rtol=1e-10)
        np.testing.assert_array_equal(there.label, here.label)
    expected = bd.elpd(post, frame, y).pointwise
    np.testing.assert_allclose(bd.elpd(post, lazy, y).pointwise, expected, rtol=1e-10)
    np.testing.assert_allclose(bd.elpd(post, cut(X), cut(y)).pointwise, expected, rtol=1e-10)
    found = bd.groups.dataset(post, "log_likelihood")["y"]
    again = bd.groups.dataset(bd.log_likelihood(post, frame, y), "log_likelihood")["y"]
    np.testing.assert_allclose(found, again, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("model", [bd.Model(bd.Hinge(), rates=bd.Fixed(0.0)), bd.Model(rates=bd.PerFeature())])
def test_kinks_rates_and_checkpoints(two_classes, tmp_path, model):
    """The same draws but for round-off: the last digit of a product may tell how its blocks lie in memory."""
    X, y = two_classes
    options = {"model": model, "method": bd.HMC()}
    whole = sample(cut(X), y, **options)
    short = sample(cut(X), y, draws=5, checkpoint=tmp_path / "run", **options)
    np.testing.assert_allclose(weights(short), weights(whole)[:, :5], rtol=0, atol=1e-8)
    found = sample(cut(X), y, checkpoint=tmp_path / "run", **options)
    np.testing.assert_allclose(weights(found), weights(whole), rtol=0, atol=1e-8)
    with pytest.raises(ValueError, match="X differs"):
        sample(cut(X + 1e-9), y, checkpoint=tmp_path / "run", **options)


@pytest.mark.slow
def test_refusals(two_classes):
    X, y = two_classes
    with pytest.raises(TypeError, match=r"got Gibbs.*take method=bd.HMC\(\)"):
        sample(cut(X), y, method=bd.Gibbs())
    weight = np.ones(len(y))
    weight[3] = 0
    with pytest.raises(ValueError, match="rows of weight zero.*on a cluster do not allow"):
        sample(cut(X), y, sample_weight=weight)
    with pytest.raises(TypeError, match=r"bd.sample with bd.HMC\(\)"):
        bd.posterior_predictive(sample(cut(X), y, draws=2), cut(X))


@pytest.mark.slow
def test_a_worker_killed_while_sampling_changes_no_draw(two_classes, monkeypatch):
    """But for round-off: its blocks are made anew where they came from, and the pass is taken again."""
    X, y = two_classes
    passes = []

    def deadly(density, rows, loadings, one_pass=streamed_kernel.one_pass):
        passes.append(1)
        if len(passes) == 20 and len(victims):
            os.kill(victims.pop(), signal.SIGKILL)
        return one_pass(density, rows, loadings)

    monkeypatch.setattr(streamed_kernel, "one_pass", deadly)
    draws = []
    for killed in (0, 1):
        with bd.cluster(workers=2) as client:
            victims = list(client.run(os.getpid).values())[:killed]
            passes.clear()
            draws.append(weights(sample(cut(X), y)))
            assert not victims
    # Blocks that were sent lie otherwise in memory, and the last digit of a product may tell.
    np.testing.assert_allclose(*draws, rtol=0, atol=1e-8)
