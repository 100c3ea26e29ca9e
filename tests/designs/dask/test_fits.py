"""Fits of Dask collections are those of the data in memory, also when workers are lost on the way."""

import os
import signal

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import bayesdrop as bd
from bayesdrop.designs.dask import design as backend
from bayesdrop.designs.dask import design as dask_design
from bayesdrop.designs.dask import rows as dask_rows
from bayesdrop.fitting.solvers.preconditioners import Jacobi

MODELS = {
    "logistic": bd.Model(rates=bd.Fixed(0.3)),
    "hinge": bd.Model(bd.Hinge(), rates=bd.Fixed(0.2), C=0.5),
    "gaussian form, groups": bd.Model(bd.Logistic("gaussian"), rates=bd.PerGroup(["a"] * 4 + ["b"] * 8)),
    "learnt rates": bd.Model(rates=bd.PerFeature(bd.Beta(2, 2))),
    "no noise": bd.Model(rates=bd.Fixed(0.0)),
    "noise with a mean": bd.Model(noise=bd.LaplaceNoise(0.5)),
}


def cut(X, rows=250):
    return da.from_array(X, chunks=(rows, -1))


def cut_sparse(X, rows=250):
    return cut(X, rows).map_blocks(sparse.csr_array)


# The same steps on both sides, so that weights agree far beyond the square root of round-off.
STEPS = bd.Newton(tol=1e-15, preconditioner=Jacobi())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "place"), [*((name, cut) for name in MODELS), ("hinge", cut_sparse), ("learnt rates", cut_sparse)]
)
def test_the_optimum_is_that_in_memory(two_classes, name, place):
    X, y = two_classes
    method = STEPS
    here, there = (bd.fit(MODELS[name], data, y, method=method) for data in (X, place(X)))
    np.testing.assert_allclose(there.objective_trace[-1], here.objective_trace[-1], rtol=1e-13)
    # Energies that agree to 1e-13 say no more of the weights than the root of that.
    np.testing.assert_allclose(there.weight, here.weight, rtol=0, atol=1e-7 * np.abs(here.weight).max())
    np.testing.assert_allclose(there.intercept, here.intercept, rtol=0, atol=1e-8)
    np.testing.assert_allclose(there.rates, here.rates, rtol=1e-12)
    np.testing.assert_array_equal(there.classes, here.classes)
    if here.rate_posterior is not None:
        np.testing.assert_allclose(there.rate_posterior.law.a, here.rate_posterior.law.a, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", [bd.EM(tol=1e-9), bd.Newton(tol=1e-13)])
def test_minimisers_and_weights(two_classes, method):
    """Weights as a Dask array, one of them zero; labels as a Dask array cut otherwise; the default preconditioners."""
    X, y = two_classes
    weight = np.linspace(0, 2, len(y))
    model = bd.Model(rates=bd.Fixed(0.3))
    here = bd.fit(model, X, y, method=method, sample_weight=weight)
    there = bd.fit(
        model, cut(X), da.from_array(y, chunks=77), method=method, sample_weight=da.from_array(weight, chunks=100)
    )
    np.testing.assert_allclose(there.objective_trace[-1], here.objective_trace[-1], rtol=10 * method.tol)


@pytest.mark.slow
def test_squared_loss(two_classes):
    X, _ = two_classes
    y = X @ np.arange(12.0) + 1
    here, there = (bd.DropoutRidge(0.2, method=STEPS).fit(data, y) for data in (X, cut(X)))
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=0, atol=1e-8)
    np.testing.assert_allclose(there.predict(cut(X)).compute(), there.predict(X), rtol=1e-12)


ESTIMATORS = {
    "one against the rest": bd.DropoutLogisticRegression(bd.PerFeature(), tol=1e-12),
    "balanced": bd.DropoutSVC(0.3, class_weight="balanced", tol=1e-12),
    "class weights": bd.DropoutSVC(0.3, class_weight={0: 2.0}, tol=1e-12),
    "softmax": bd.DropoutLogisticRegression(0.3, multiclass="softmax", tol=1e-12),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_three_classes_and_lazy_predictions(two_classes, name):
    """One of the classes is in the last block alone."""
    X, _ = two_classes
    y = np.where(np.arange(len(X)) > 500, 2, (X[:, 0] > 0).astype(int))
    here, there = clone(ESTIMATORS[name]).fit(X, y), clone(ESTIMATORS[name]).fit(cut(X), cut(y[:, None])[:, 0])
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=0, atol=1e-5)
    assert there.classes_.tolist() == [0, 1, 2]
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        lazy = getattr(there, method)(cut_sparse(X))
        expected = getattr(there, method)(X)
        assert dask.is_dask_collection(lazy)
        assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_data_frames_keep_their_names(two_classes):
    X, y = two_classes
    frame = pd.DataFrame(X, columns=[f"c{d}" for d in range(12)])
    parts = dd.from_pandas(frame, npartitions=4)
    model = bd.Model(rates=bd.PerGroup({"a": ["c0", "c5"], "b": [f"c{d}" for d in range(12) if d not in (0, 5)]}))
    here, there = bd.fit(model, frame, y), bd.fit(model, parts, dd.from_pandas(pd.Series(y), npartitions=4))
    assert there.feature_names == here.feature_names
    np.testing.assert_allclose(there.rates, here.rates)
    fitted = bd.DropoutLogisticRegression(0.2).fit(parts, y)
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    np.testing.assert_array_equal(fitted.predict(parts).compute(), fitted.predict(frame))


@pytest.mark.filterwarnings("ignore:Sending large graph:UserWarning")  # the rows go once, from an array of this process
@pytest.mark.parametrize("workers", ["threads", pytest.param("processes", marks=pytest.mark.slow)])
def test_only_sums_travel(two_classes, workers, request, monkeypatch):
    """Whatever comes back to the one who fits has p numbers a class, or p² of few columns, however many the rows."""
    if workers == "processes":
        request.getfixturevalue("client")
    X, y = two_classes
    sizes = []
    computed = dask_design.computed

    def sizes_of(part):
        return [size for one in part for size in sizes_of(one)] if isinstance(part, list | tuple) else [np.size(part)]

    def watched(parts):
        result = computed(parts)
        sizes.extend(sizes_of(result))
        return result

    for module in (dask_design, dask_rows):
        monkeypatch.setattr(module, "computed", watched)
    wide = np.column_stack([X, np.random.default_rng(1).normal(size=(len(X), 600))])
    for rows, few in ((X, True), (wide, False)):
        sizes.clear()
        data = da.from_array(np.tile(rows, (5, 1)), chunks=(500, -1))
        bd.fit(MODELS["learnt rates"], data, da.from_array(np.tile(y, 5), chunks=500), method=bd.Newton(tol=1e-4))
        assert len(sizes) > 30
        assert max(sizes) == rows.shape[1] ** 2 if few else max(sizes) <= 2 * rows.shape[1]


@pytest.mark.slow
def test_a_worker_that_is_lost_costs_time_only(two_classes, client, monkeypatch):
    X, y = two_classes
    model, method = MODELS["logistic"], STEPS
    expected = bd.fit(model, X, y, method=method)
    backward, calls = backend.DaskDesign.sum_over_parts, []

    def deadly(self, name, *rows):
        calls.append(name)
        if len(calls) == 6:
            victim = next(iter(client.run(os.getpid).values()))
            os.kill(victim, signal.SIGKILL)
        return backward(self, name, *rows)

    monkeypatch.setattr(backend.DaskDesign, "sum_over_parts", deadly)
    found = bd.fit(model, cut(X, 100), y, method=method)
    assert len(calls) > 6
    np.testing.assert_allclose(found.weight, expected.weight, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_a_scheduler_that_is_lost_is_told(two_classes, monkeypatch):
    X, y = two_classes
    with bd.cluster(workers=1) as client:
        backward, calls = backend.DaskDesign.sum_over_parts, []

        def deadly(self, name, *rows):
            calls.append(name)
            if len(calls) == 3:
                client.cluster.close()
            return backward(self, name, *rows)

        monkeypatch.setattr(backend.DaskDesign, "sum_over_parts", deadly)
        with pytest.raises(RuntimeError, match=r"lost.*Start a cluster, as with bd.cluster\(\)"):
            bd.fit(MODELS["logistic"], cut(X), y)


def test_no_scheduler_at_the_address():
    with pytest.raises(TimeoutError, match="no Dask scheduler answered at 'tcp://127.0.0.1:9' within 0.5 s"):
        bd.cluster("tcp://127.0.0.1:9", timeout=0.5)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"address": "tcp://127.0.0.1:9", "workers": 2}, "leave them out with an address"),
        ({"address": "tcp://127.0.0.1:9", "memory": "1GB"}, "leave them out with an address"),
    ],
)
def test_bad_clusters(keywords, words):
    with pytest.raises(ValueError, match=words):
        bd.cluster(**keywords)


@pytest.mark.parametrize(
    ("y", "keywords", "words"),
    [
        (np.ones(600), {}, r"two classes, got \[1.0\]"),
        (np.arange(600) % 3, {}, "two classes, got 3"),
        (np.linspace(0, 1, 600), {}, "Unknown label type|two classes"),
        (np.ones(599), {}, "y: expected 600 entries"),
        (np.arange(600) % 2, {"sample_weight": -np.ones(600)}, "finite numbers >= 0"),
        (np.arange(600) % 2, {"sample_weight": np.zeros(600)}, "all weights are zero"),
        (np.arange(600) % 2, {"sample_weight": np.full(600, 1e306)}, "sample_weight: .*got a sum that overflows"),
        (np.arange(600) % 2, {"sample_weight": np.arange(600) % 2}, "every row of class 0 has weight zero"),
        (np.arange(600) % 2, {"feature_names": ["a"]}, "expected 12 different names"),
    ],
)
def test_bad_labels_and_weights(two_classes, y, keywords, words):
    with pytest.raises(ValueError, match=words):
        bd.fit(MODELS["logistic"], cut(two_classes[0]), y, **keywords)


@pytest.mark.parametrize("period", [1, 300])
def test_labels_without_an_order(two_classes, period):
    """Within a block, and of blocks that are each in order."""
    y = np.resize(np.repeat(np.array(["a", 1], dtype=object), period), 600)
    with pytest.raises(TypeError, match="y: expected labels that are all numbers or all text"):
        bd.fit(MODELS["logistic"], cut(two_classes[0]), y)


def test_bad_numbers(two_classes):
    with pytest.raises(ValueError, match="y: expected (finite numbers|a value in each row)"):
        bd.DropoutRidge().fit(cut(two_classes[0]), np.full(600, np.nan))


def test_what_needs_the_data_in_memory_says_so(two_classes):
    X, y = two_classes
    data = cut(X)
    for call in (
        lambda: bd.sample(MODELS["logistic"], data, y),
        lambda: bd.variational(bd.Model(rates=bd.PerFeature()), data, y),
        lambda: bd.LatentDropoutSVC(0.1).fit(data, y),
        lambda: bd.DropoutSVCCV().fit(data, y),
        lambda: bd.DropoutLogisticRegression(0.1).partial_fit(data, y, classes=["no", "yes"]),
        lambda: bd.DropoutLogisticRegression(0.1).fit(data, y, unlabelled=X),
        lambda: bd.DropoutLogisticRegression(0.1).fit(X, y, unlabelled=data),
    ):
        with pytest.raises(TypeError, match=r"X.compute\(\)|an array or a scipy sparse"):
            call()


def test_an_offset_is_refused():
    X, y = np.arange(8.0)[:, None] % 3, np.arange(8) % 2
    with pytest.raises(ValueError, match="offset: expected rows that this process holds"):
        bd.fit(bd.Model(), da.from_array(X, chunks=(4, 1)), da.from_array(y, chunks=4), offset=1.0)
