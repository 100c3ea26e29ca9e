"""One matrix, one model: the same numbers give the same fit, centre and warnings, however they are stored."""

import tracemalloc
import warnings
from functools import cache

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.posterior.noise_average.quadrature import RULES

NAMES = ["height", "year", "debt", "visits", "word", "rare", "dummy", "balance", "constant"]
TIGHT = bd.Newton(tol=1e-13)


@pytest.fixture(scope="module")
def table():
    """X (160, 9) of columns far from zero, counts, words and a column that does not vary; labels of three classes."""
    rng = np.random.default_rng(5)
    n = 160
    X = np.column_stack(
        [
            rng.normal(170.0, 9.0, n),
            rng.integers(1990, 2020, n),
            -rng.gamma(2.0, 40.0, n),
            rng.poisson(1.3, n),
            (rng.random(n) < 0.8) * rng.integers(1, 6, n),
            (rng.random(n) < 0.1) * rng.gamma(2.0, 1.0, n),
            rng.random(n) < 0.9,
            rng.normal(size=n),
            np.full(n, 3.3),
        ]
    ).astype(float)
    signs = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1.0) @ rng.normal(size=9)
    return X, np.digitize(signs + rng.logistic(size=n), [-1.0, 1.0])


def dask(X):
    return pytest.importorskip("dask.array").from_array(X, chunks=(90, X.shape[1]))


def on_devices(X):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        return jax.numpy.asarray(X)


STORAGES = {
    "csr": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_array,
    "float32 csr": lambda X: sparse.csr_array(X).astype(np.float32),
    "blocks": lambda X: bd.Blocks([X[:70], X[70:71], X[71:]]),
    "sparse blocks": lambda X: bd.Blocks([sparse.csr_array(X[:70]), sparse.csc_array(X[70:])]),
    "dask": dask,
    "devices": on_devices,
}
MODELS = {
    "learnt": bd.Model(rates=bd.PerFeature(bd.Beta(2, 2))),
    "about means": bd.Model(noise=bd.Dropout(centre="mean"), rates=bd.Fixed(0.3)),
    "about numbers": bd.Model(bd.Hinge(), bd.Dropout(centre=np.linspace(-3.0, 3.0, 9)), bd.Fixed(0.4)),
    "unbiased hinge": bd.Model(bd.Hinge(), bd.Dropout(unbiased=True), bd.Shared(bd.Beta(2, 2))),
    "least squares": bd.Model(bd.Squared(), rates=bd.Fixed(0.2)),
    "multiplicative": bd.Model(noise=bd.MultiplicativeNoise(0.7, centre="mean")),
    "quadratic": bd.Model(bd.Logistic("taylor"), rates=bd.Fixed(0.2)),
    "softmax": bd.Model(bd.Softmax(), bd.Dropout(centre="mean"), bd.Fixed(0.2)),
    "softmax learnt": bd.Model(bd.Softmax(), rates=bd.PerFeature(bd.Beta(2, 2))),
    "counts": bd.Model(bd.Poisson("exact"), bd.Dropout(centre="mean"), bd.Fixed(0.1)),
    "relative": bd.Model(weight_prior=bd.Normal(1.0, relative=True), rates=bd.Fixed(0.2)),
    "warned of": bd.Model(noise=bd.Dropout(centre=None), rates=bd.PerFeature(bd.Beta(2, 2))),
}


def fitted(model, X, y):
    """Numbers of a fit, and what was warned of."""
    if not model.loss.multiclass:
        y = (y > 0).astype(float)
    weight = np.where(np.arange(len(y)) % 7 == 0, 2.0, 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = bd.fit(model, X, y, method=TIGHT, sample_weight=weight, feature_names=NAMES)
    centre = np.zeros(9) if fit.centre is None else fit.centre
    return (
        fit,
        np.hstack([fit.weight.ravel(), np.ravel(fit.intercept), fit.rates.ravel(), centre]),
        [str(one.message) for one in caught],
    )


@pytest.fixture(scope="module")
def dense(table):
    return {name: fitted(model, *table) for name, model in MODELS.items()}


FEW = ("learnt", "about means", "least squares", "relative", "warned of", "softmax")
CASES = [
    (storage, model)
    for storage in STORAGES
    for model in (MODELS if storage == "csr" else FEW)
]  # fmt: skip


@pytest.mark.slow_cases("dask", "sparse blocks-softmax")
@pytest.mark.parametrize(("storage", "model"), CASES)
def test_fits_are_the_same(table, dense, model, storage):
    fit, found, said = fitted(MODELS[model], STORAGES[storage](table[0]), table[1])
    expected, numbers, told = dense[model]
    size = np.abs(numbers).max() * (1e-5 if storage == "float32 csr" else 1e-8)
    np.testing.assert_allclose(found, numbers, atol=size, rtol=1e-7)
    assert (fit.centre is None) == (expected.centre is None)
    assert said == told
    assert len(said) == (model == "warned of")


def reweighted(post, X, y):
    """Log densities of the reweighted draws, or the words by which so few of them are refused."""
    try:
        return bd.groups.dataset(bd.reweight(post, X, y), "sample_stats")["lp"].values
    except ValueError as error:
        return str(error)


@pytest.fixture(scope="module")
def sampled(table):
    """Draws of the dense rows, or of others."""

    @cache
    def draw(centre, storage=None):
        X = table[0] if storage is None else STORAGES[storage](table[0])
        model = bd.Model(noise=bd.Dropout(centre=centre), rates=bd.Shared(bd.Beta(2, 2)))
        options = {"method": bd.HMC(dtype="float64"), "draws": 20, "tune": 20, "chains": 2, "progress": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few draws
            return bd.sample(model, X, (table[1] > 0).astype(int), **options)

    return draw


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["csr", "sparse blocks", "blocks", "dask"])
@pytest.mark.parametrize("centre", ["auto", "mean"])
def test_posteriors_are_the_same(table, sampled, storage, centre):
    """The draws, where the sampler is the same; likelihoods, predictions and weights of any posterior."""
    X, y = table[0], (table[1] > 0).astype(int)
    rows, here = STORAGES[storage](X), sampled(centre)
    there = sampled(centre, storage) if storage == "csr" else here
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        one, two = (bd.groups.dataset(post, "constant_data")["centre"].values for post in (here, there))
        np.testing.assert_allclose(one, two, rtol=1e-12)
        if storage == "csr":
            for name in ("weight", "intercept", "rate"):
                draws = (bd.groups.dataset(post, "posterior")[name].values for post in (here, there))
                np.testing.assert_allclose(*draws, rtol=1e-6, atol=1e-8)
        # Dense rows have a way of their own; sparse ones differ by no more than what each may be off.
        most = {"atol": 2 * RULES.probability, "rtol": 0} if "sparse" in storage or storage == "csr" else {"rtol": 1e-9}
        np.testing.assert_allclose(bd.predict(there, rows).mean, bd.predict(there, X).mean, **most)
        found = [reweighted(there, given, y) for given in (rows, X)]
    assert isinstance(found[0], str) == isinstance(found[1], str)
    if not isinstance(found[0], str):
        np.testing.assert_allclose(*found, rtol=1e-9)
    if storage != "dask":
        likelihood = (bd.log_likelihood(there, given, y) for given in (rows, X))
        np.testing.assert_allclose(
            *(bd.groups.dataset(post, "log_likelihood")["y"].values for post in likelihood), rtol=1e-9
        )


@pytest.mark.slow
@pytest.mark.parametrize("target", ["noising", "marginalised"])
def test_gibbs_draws_from_the_same_density(table, target):
    """Masks of dense and of sparse rows: one false alarm in 10⁷ runs, where 6,000 draws are worth 500."""
    X, y = table[0], (table[1] > 0).astype(int)
    model = bd.Model(noise=bd.Dropout(centre="mean"), rates=bd.Fixed(0.3))
    found = []
    for rows in (X, sparse.csr_array(X)):
        post = bd.sample(model, rows, y, method=bd.Gibbs(), target=target, draws=1500, tune=200, progress=False)
        found.append(bd.groups.dataset(post, "posterior")["weight"].values)
    draws = np.stack(found)
    error = draws.std(axis=(1, 2)) / np.sqrt(500)
    apart = np.abs(np.diff(draws.mean(axis=(1, 2)), axis=0))[0]
    assert np.all(apart < 6 * np.sqrt((error**2).sum(axis=0)))


@pytest.mark.slow
def test_a_centre_does_not_fill_sparse_rows():
    rng = np.random.default_rng(2)
    n, p = 4500, 3000
    X = sparse.random_array((n, p), density=0.01, format="csr", rng=rng)
    y = (rng.random(n) < 0.5).astype(int)
    model = bd.Model(noise=bd.Dropout(centre="mean"), rates=bd.Fixed(0.3))
    bd.fit(model, X[:50], y[:50])  # what is loaded and compiled
    bd.DropoutLogisticRegression(0.3, noise=model.noise).fit(X, y).predict_proba(X)
    tracemalloc.start()
    try:
        fit = bd.fit(model, X, y)
        bd.DropoutLogisticRegression(0.3, noise=model.noise).fit(X, y).predict_proba(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(fit.centre, X.mean(axis=0), rtol=1e-12)
    assert peak < 8 * n * p / 2
