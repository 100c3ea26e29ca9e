"""Bad input: the error names the argument, says what came and what to do."""

import os
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.objective.softmax_energy import SoftmaxEnergy
from bayesdrop.moments import ScoreMoments

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = np.arange(20) % 2


def _with(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


FITS = {
    "estimator": lambda X, y, **kw: bd.DropoutSVC().fit(X, y, **kw),
    "function": lambda X, y, **kw: bd.fit(bd.Model(), X, y, **kw),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (_with(np.nan), Y, "X contains NaN"),
        (_with(np.inf), Y, "X contains infinity"),
        (sparse.csr_array(_with(np.nan)), Y, "X contains NaN"),
        (X.astype(complex) + 1j, Y, "[Cc]omplex"),
        (X[:, :0], Y, "0 feature"),
        (X[:0], Y[:0], "0 sample"),
        (X[:1], Y[:1], "class"),
        (X, np.zeros(20), "class"),
        (X, X[:, 0], "Unknown label type|continuous"),
    ],
)
def test_data(fit, features, labels, message):
    with pytest.raises(ValueError, match=message):
        fit(features, labels)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_labels_without_an_order(fit):
    with pytest.raises(TypeError, match=r"y: expected labels that are all numbers or all text, got array\(\['a', 1"):
        fit(X, np.array(["a", 1] * 10, dtype=object))


def test_three_classes_where_two_are_asked():
    with pytest.raises(ValueError, match="y: expected two classes, got 3.*one against the rest"):
        bd.fit(bd.Model(), X, np.arange(20) % 3)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (-np.ones(20), "sample_weight.*>= 0"),
        (np.zeros(20), "all weights are zero"),
        (np.full(20, np.nan), "finite"),
        (np.ones(3), "expected 20 numbers"),
        (Y.astype(float), "every row of class 0 has weight zero"),
    ],
)
def test_sample_weight(fit, weight, message):
    with pytest.raises(ValueError, match=message):
        fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("rate", [1.0, [0.2, 1.0, 0.1]])
def test_rates_outside_the_unit_interval(rate):
    with pytest.raises(ValueError, match=r"rate: expected .*\[0, 1\)"):
        bd.Fixed(rate)
    for kind in (bd.PerFeature, bd.Shared):
        with pytest.raises(ValueError, match=r"start: expected .*\[0, 1\)"):
            kind(start=rate if np.ndim(rate) == 0 else 1.0)


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (bd.Fixed([0.1, 0.2]), "expected one number or 3"),
        (bd.PerGroup(["a", "b"]), "one group label per feature, 3 in all, got 2"),
        (bd.PerGroup({"a": ["x0", "x1"], "b": ["nope"]}), "unknown column 'nope'"),
        (bd.PerGroup({"a": ["x0", "x1"]}), "in no group, such as \\['x2'\\]"),
        (bd.PerGroup({"a": ["x0", "x1"], "b": ["x1", "x2"]}), "exactly one group"),
        (bd.PerFeature(bd.Beta([1.0, 2.0], 1.0)), "one value per rate, 3 in all, got 2"),
    ],
)
def test_rates_that_do_not_fit(rates, message):
    with pytest.raises(ValueError, match=message):
        bd.fit(bd.Model(rates=rates), X, Y)
    with pytest.raises(ValueError, match=message):
        bd.DropoutLogisticRegression(rates).fit(X, Y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bd.Beta.from_mode(0.5), "exactly one of strength and relative_strength"),
        (lambda: bd.Normal(np.inf), r"Normal scale: expected finite numbers above 0, got inf; .*bd.Normal\(1e4\)"),
        (lambda: bd.Hinge("gaussian"), "margin: expected a finite number above 0"),
        (lambda: bd.DropoutQuantileRegressor(quantile=0.0).fit(X, X[:, 0]), "quantile: expected .* got 0"),
        (lambda: bd.Newton(max_iter=2.5), "max_iter: expected a whole number"),
        (lambda: bd.EM(tol=float("nan")), "tol: expected a finite number >= 0"),
        (lambda: bd.Model(noise=bd.PoissonNoise(), rates=bd.Fixed(0.3)), "takes no rates"),
    ],
)
def test_components(make, message):
    with pytest.raises(ValueError, match=message):
        make()


class Still:
    """A minimiser of one's own that may take no step."""

    tol, max_iter = 1e-8, 0

    def init(self, energy, weights, earlier=None):
        raise AssertionError

    def step(self, energy, point, goal):
        raise AssertionError


@pytest.mark.parametrize("rates", [bd.Fixed(0.3), bd.PerFeature()], ids=["fixed", "learnt"])
@pytest.mark.parametrize(
    ("method", "kind", "message"),
    [
        (bd.HMC(), TypeError, r"method: expected a minimiser such as bd.Newton\(\).*samplers go to bd.sample"),
        (bd.LBFGS(), TypeError, "method: expected a minimiser"),
        (Still(), ValueError, "max_iter: expected a whole number of at least 1, got 0"),
    ],
    ids=["sampler", "hidden layer's", "no steps"],
)
def test_what_is_no_minimiser(method, kind, message, rates):
    with pytest.raises(kind, match=message):
        bd.fit(bd.Model(rates=rates), X, Y, method=method)
    with pytest.raises(kind, match=message):
        bd.DropoutSVC(rates, method=method).fit(X, Y)


def test_negative_data_under_poisson_noise():
    with pytest.raises(ValueError, match="Poisson noise needs x >= 0"):
        bd.DropoutSVC(noise=bd.PoissonNoise()).fit(X, Y)


def test_feature_names():
    with pytest.raises(ValueError, match="expected 3 different names"):
        bd.fit(bd.Model(), X, Y, feature_names=["a", "a", "b"])


@pytest.mark.parametrize("kind", ["DropoutLogisticRegression", "DropoutSVC", "DropoutLogisticRegressionCV"])
def test_more_classes_than_there_is_memory_for(kind, monkeypatch):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.arange(60) // 2
    # Of 30 classes, 60 rows and two features: 8 × 30 × (2 × 60 + 4 × 3) bytes.
    known = os.sysconf
    sizes = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 31_679}
    monkeypatch.setattr(os, "sysconf", lambda name: sizes[name] if name in sizes else known(name))
    message = r"y: a fit of 30 classes takes at least 0.0317 MB, and this process may have 0.0317 MB; join rare classes"
    with pytest.raises(ValueError, match=message):
        getattr(bd, kind)().fit(X, y)


def test_a_softmax_of_many_classes_has_no_pairs_of_them():
    """Twenty thousand classes have 200 million pairs; a fit asks for what their weights and scores take."""
    X = np.random.default_rng(0).normal(size=(8, 2))
    energy = SoftmaxEnergy(
        moments=ScoreMoments(as_design(X), bd.Dropout(), np.full((2, 1), 0.3), True),
        form="taylor",
        n_classes=20_000,
        code=np.arange(8),
        loss_weight=np.ones(8),
        noise_weight=np.ones(8),
        precision=np.array([[1.0], [1.0], [0.0]]),
    )
    tracemalloc.start()
    value = energy.value(np.zeros((3, 20_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert value == pytest.approx(8 * np.log(20_000))
    assert peak < 60 * 8 * 20_000 * 8
