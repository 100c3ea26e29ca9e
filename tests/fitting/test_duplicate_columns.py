"""A fit in which one column stands for all that are equal to it is the fit to all of them."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import as_design
from bayesdrop.fitting.problems import duplicate_columns as module
from bayesdrop.fitting.problems.block import fit_block
from bayesdrop.fitting.problems.duplicate_columns import duplicate_columns
from bayesdrop.selection.scoring import fits_along

TOL = 1e-11
P = 260


def corpus(values=(1.0,)):
    """Rare words, many of them alike, and a few frequent ones; scores and what follows from them."""
    generator = np.random.default_rng(3)
    rare = (generator.uniform(size=(60, P - 12)) < 0.02) * generator.choice(values, size=(60, P - 12))
    X = sparse.csr_array(np.hstack([rare, 1.0 * (generator.uniform(size=(60, 12)) < 0.4)]))
    score = 0.7 * (X @ generator.normal(size=P))
    return X, score, generator


def response(kind):
    X, score, generator = corpus()
    if kind == "classes":
        return np.where(score > 0.8, 2, np.where(score + generator.normal(size=60) > 0, 1, 0))
    if kind == "numbers":
        return score + generator.normal(size=60)
    return np.where(score + generator.normal(size=60) > 0, 1, -1)


def both(monkeypatch, fit):
    """What a fit says with columns that are alike as one, and with all of them."""
    found = []
    for least in (1, 10**12):
        monkeypatch.setattr(module, "_LARGE", least)
        found.append(fit())
    return found


def within(one, other, energy, tol=TOL):
    """Both are within ``tol`` of the optimum, and ``U(w) − U* >= ½‖w − w*‖²``."""
    assert np.linalg.norm(one - other) <= 2 * np.sqrt(2 * tol * abs(energy))


LAWS = {
    "fixed": bd.Fixed(0.4),
    "none": bd.Fixed(0.0),
    "own": bd.PerFeature(bd.Beta(2, 3)),
    "logit-normal": bd.PerFeature(bd.LogitNormal(-1.0, 0.5)),
    "shared": bd.Shared(),
}
LOSSES = {
    "logistic": (bd.Logistic(), "signs"),
    "logistic, gaussian": (bd.Logistic(expectation="gaussian"), "signs"),
    "hinge": (bd.Hinge(), "signs"),
    "ridge": (bd.Squared(), "numbers"),
    "quantile": (bd.Quantile(0.3), "numbers"),
}


# A sign rule needs classes.
CASES = [
    (loss, law)
    for loss, (_, kind) in LOSSES.items()
    for law in LAWS
    if kind == "signs" or isinstance(LAWS[law], bd.Fixed)
]


@pytest.mark.parametrize("values", [(1.0,), (1.0, 2.0, -1.0)], ids=["binary", "real"])
@pytest.mark.parametrize(("loss", "rates"), CASES)
def test_one_stands_for_all(monkeypatch, loss, rates, values):
    loss, kind = LOSSES[loss]
    law = LAWS[rates]
    X, y = corpus(values)[0], response(kind)
    model = bd.Model(loss, rates=law)
    names = [str(d) for d in range(P)]
    design = as_design(X)
    found = design.distinct
    assert duplicate_columns(design, model.bind(names), 10**6, np.ones((P + 1, 1))) is not None
    few, whole = both(monkeypatch, lambda: bd.fit(model, X, y, method=bd.Newton(tol=TOL, max_iter=400)))
    within(few.weight, whole.weight, whole.objective_trace[-1])
    np.testing.assert_array_equal(few.weight, few.weight[found.first][found.index])
    np.testing.assert_allclose(few.rates, whole.rates, rtol=1e-12)
    assert few.objective_trace[-1] == pytest.approx(whole.objective_trace[-1], rel=2 * TOL)
    assert few.rates.shape == (P,)
    if model.bind(names).is_free:
        one, other = few.rate_posterior, whole.rate_posterior
        assert one.names == other.names
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
        np.testing.assert_allclose(one.occurrences, other.occurrences, rtol=1e-12)


@pytest.mark.parametrize(
    "noise", [bd.GaussianNoise(0.5), bd.PoissonNoise(), bd.LaplaceNoise(0.3), bd.Dropout(unbiased=True)], ids=str
)
def test_noise_of_every_kind(monkeypatch, noise):
    """Independent noises of columns that are alike add, those of zeros among them."""
    X, y = corpus()[0], response("signs")
    rates = bd.Fixed(0.3) if noise.has_rate else None
    model = bd.Model(noise=noise, rates=rates)
    few, whole = both(monkeypatch, lambda: bd.fit(model, X, y, method=bd.Newton(tol=TOL)))
    within(few.weight, whole.weight, whole.objective_trace[-1])


def test_em_too(monkeypatch):
    X, y = corpus()[0], response("signs")
    model = bd.Model(rates=bd.Fixed(0.4))
    few, whole = both(monkeypatch, lambda: bd.fit(model, X, y, method=bd.EM(tol=1e-10)))
    within(few.weight, whole.weight, whole.objective_trace[-1], 1e-9)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("rates", ["fixed", "own"])
def test_classes_jointly(monkeypatch, rates, own):
    """Energies of a softmax with noise are not convex: weights are compared where both say that they have ended."""
    X, y = corpus()[0], response("classes")
    model = bd.Model(bd.Softmax(class_rates=own), rates=LAWS[rates], C=0.3)
    few, whole = both(monkeypatch, lambda: bd.fit(model, X, y, method=bd.Newton(tol=TOL, max_iter=400)))
    assert few.objective_trace[-1] == pytest.approx(whole.objective_trace[-1], rel=1e-8)
    np.testing.assert_allclose(few.weight, whole.weight, atol=1e-4)
    np.testing.assert_allclose(few.rates, whole.rates, rtol=1e-12)


def test_rows_without_labels_and_one_class_against_the_rest(monkeypatch):
    X, y = corpus()[0], response("classes")
    estimator = bd.DropoutLogisticRegression(bd.PerFeature(bd.Beta(2, 3)), multiclass="one_vs_rest", tol=1e-9, C=0.3)
    few, whole = both(
        monkeypatch,
        lambda: bd.DropoutLogisticRegression(**estimator.get_params()).fit(X[:40], y[:40], unlabelled=X[40:]),
    )
    assert np.array_equal(few.rates_, whole.rates_)
    np.testing.assert_allclose(few.objective_trace_[-1], whole.objective_trace_[-1], rtol=1e-8)
    np.testing.assert_allclose(few.coef_, whole.coef_, atol=1e-4)
    assert few.rate_posterior_.mean.shape == whole.rate_posterior_.mean.shape


def test_a_strength_is_chosen_among_the_same(monkeypatch):
    X, y = corpus()[0], response("signs")
    few, whole = both(monkeypatch, lambda: bd.DropoutLogisticRegression(tol=1e-9).fit(X, y))
    assert few.selection_.chosen.strength == whole.selection_.chosen.strength
    within(few.coef_, whole.coef_, whole.objective_trace_[-1], 1e-9)


def test_paths_and_warm_starts(monkeypatch):
    X, y = corpus()[0], response("signs")
    estimator = bd.DropoutLogisticRegression(tol=1e-9)
    few, whole = both(monkeypatch, lambda: dict(fits_along(estimator, np.array([0.1, 0.0, 0.3, 0.5]), X, y, None)))
    for place, fit in whole.items():
        within(few[place].coef_, fit.coef_, fit.objective_trace_[-1], 1e-9)
    monkeypatch.setattr(module, "_LARGE", 1)
    warm = bd.DropoutLogisticRegression(0.3, tol=1e-9, warm_start=True).fit(X, y)
    coef = warm.coef_.copy()
    within(warm.fit(X, y).coef_, coef, warm.objective_trace_[-1], 1e-9)
    assert warm.n_iter_ <= 2


def test_what_tells_columns_apart_is_heeded(monkeypatch):
    """Columns are no more alike to a model that has a rate, a prior or a group for one of them alone."""
    monkeypatch.setattr(module, "_LARGE", 1)
    X, y = corpus()[0], response("signs")
    design, names, ones = as_design(X), [str(d) for d in range(P)], np.ones((P + 1, 1))
    two = design.distinct.index
    # A word that occurs, and is not the only one of its kind.
    one = int(np.flatnonzero((np.bincount(two)[two] > 1) & (X.sum(axis=0) > 0))[0])
    own = np.full(P, 0.3)
    own[one] = 0.6
    groups = np.zeros(P, dtype=int)
    groups[one] = 1
    for rates in (bd.Fixed(own), bd.PerGroup(groups.tolist()), bd.PerFeature(bd.Beta(2.0 + own, 3.0))):
        assert duplicate_columns(design, rates.bind(names), 1, ones) is None
    scale = ones.copy()
    scale[one] = 2.0
    assert duplicate_columns(design, bd.Fixed(0.3).bind(names), 1, scale) is None
    assert duplicate_columns(design, bd.Fixed(0.3).bind(names), 2, ones, np.stack([own, own], axis=1)) is None
    together = np.where(np.arange(P) % 2, 1, 0)[two]
    assert duplicate_columns(design, bd.PerGroup(together.tolist()).bind(names), 1, ones) is not None
    fitted = bd.fit(bd.Model(rates=bd.Fixed(own)), X, y)
    assert fitted.weight[one] != fitted.weight[np.flatnonzero(two == two[one])[1]]


def test_groups_count_every_feature(monkeypatch):
    """A group's rate goes by the entries of all of its features, not of the distinct ones."""
    X, y = corpus()[0], response("signs")
    groups = np.where(np.arange(P) % 2, "odd", "even")[as_design(X).distinct.index]
    model = bd.Model(rates=bd.PerGroup(groups.tolist(), bd.Beta(2, 3)))
    few, whole = both(monkeypatch, lambda: bd.fit(model, X, y, method=bd.Newton(tol=TOL)))
    np.testing.assert_allclose(few.rate_posterior.occurrences, whole.rate_posterior.occurrences, rtol=1e-12)
    np.testing.assert_allclose(few.rates, whole.rates, rtol=1e-12)
    within(few.weight, whole.weight, whole.objective_trace[-1])


def test_what_a_block_says_is_of_all_columns(monkeypatch):
    X, y = corpus()[0], response("signs")
    model = bd.Model(rates=bd.PerFeature(bd.Beta(2, 3)))
    design, names = as_design(X), [str(d) for d in range(P)]
    one = fit_block, (model, design, model.bind(names), y[:, None].astype(float), np.ones(60), bd.Newton(tol=TOL))
    few, whole = both(monkeypatch, lambda: one[0](*one[1]))
    for counted in ("above", "below", "total"):
        np.testing.assert_array_equal(getattr(few.counts, counted), getattr(whole.counts, counted))
    np.testing.assert_allclose(few.occurrences, whole.occurrences)
    smoothing = np.zeros(1)
    for found in (few, whole):
        mean, var = found.energy.moments.scores(found.weights)
        np.testing.assert_allclose(mean, found.mean, atol=1e-10)
        np.testing.assert_allclose(var, found.var, atol=1e-10)
        value = found.energy.value(found.weights, mean, var, smoothing)
        np.testing.assert_allclose(value, found.trace[-1], rtol=1e-12)
