"""Projections: exact identities of fits, gains and variances, the search beside an exhaustive one, and bad input."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

import bayesdrop as bd
from bayesdrop.description import attributes
from bayesdrop.losses import Binomial, Logistic, NegativeBinomial, Poisson, Squared
from bayesdrop.posterior.projection.search import _gains, clusters_of, forward
from bayesdrop.posterior.projection.submodel import RULES, Columns, ExpectedLoss, Submodel
from bayesdrop.priors import InverseGamma

RNG = np.random.default_rng


def _problem(loss, mean, X, intercept=True):
    return Submodel(ExpectedLoss(loss), Columns.of(X, intercept), mean, np.linspace(-0.2, 0.3, X.shape[0]))


def _project(post, X, **options):
    return bd.project(post, X, **{"draws": 800, **options})


def _logistic_table(seed=0, n=120, weight=(1.0, -1.0, 0.8, 0.0, 0.0, 0.0), correlation=0.5):
    generator, p = RNG(seed), len(weight)
    shared = generator.normal(size=(n, 1))
    X = np.sqrt(1 - correlation) * generator.normal(size=(n, p)) + np.sqrt(correlation) * shared
    return X, (generator.random(n) < expit(X @ np.array(weight))).astype(int)


def _normal_draws(build, X, y, *, rate=0.0, count=400, seed=1, **model):
    """Posterior of two chains about the fit without noise, by its normal approximation."""
    model = bd.Model(rates=bd.Fixed(rate), **model)
    fit = bd.fit(model, X, y)
    generator = RNG(seed)
    root = np.linalg.cholesky(np.linalg.inv(X.T @ (X * 0.2) + np.eye(X.shape[1])))
    weight = fit.weight + generator.normal(size=(2, count, X.shape[1])) @ root.T
    return build(model, weight, intercept=fit.intercept, y=2 * y - 1, classes=[0, 1])


@pytest.mark.parametrize("intercept", [True, False])
def test_a_projection_minimises_the_divergence(intercept):
    """Cross-entropy of Bernoulli laws, written out and minimised by SciPy, with the ridge on standardised weights."""
    X, _ = _logistic_table()
    mean = expit(RNG(3).normal(size=(len(X), 2)) + X[:, :2])
    problem = _problem(Logistic(), mean, X, intercept)
    centre = X[:, [0, 4]].mean(axis=0) if intercept else 0.0
    Z = (X[:, [0, 4]] - centre) / np.sqrt(np.mean((X[:, [0, 4]] - centre) ** 2, axis=0))
    found, energies = problem.project([0, 4])
    for s in range(2):

        def divergence(v, s=s):
            score = Z @ v[-2:] + (v[0] if intercept else 0.0) + problem.offset
            cross = -np.sum(mean[:, s] * np.log(expit(score)) + (1 - mean[:, s]) * np.log(expit(-score)))
            return cross + 0.5 * RULES.ridge * len(X) * np.sum(v[-2:] ** 2)

        best = minimize(divergence, np.zeros(2 + intercept), method="BFGS", options={"gtol": 1e-9})
        assert np.allclose(found[s], best.x, atol=1e-5)
        assert energies[s] == pytest.approx(best.fun, rel=1e-9)


def test_a_projection_of_numbers_is_least_squares():
    X, _ = _logistic_table()
    mean = RNG(3).normal(size=(len(X), 3))
    problem = _problem(Squared(), mean, X)
    found, _ = problem.project([1, 2, 5])
    weight, intercept = problem.columns.original([1, 2, 5], found)
    Z = np.hstack([np.ones((len(X), 1)), X[:, [1, 2, 5]]])
    penalty = RULES.ridge * len(X) * np.diag([0.0, *X[:, [1, 2, 5]].var(axis=0)])
    centred = Z.copy()
    centred[:, 1:] -= Z[:, 1:].mean(axis=0)
    solved = np.linalg.solve(centred.T @ centred + penalty, centred.T @ (mean - problem.offset[:, None]))
    assert np.allclose(weight[:, [1, 2, 5]], solved[1:].T, rtol=1e-9)
    assert np.array_equal(weight[:, [0, 3, 4]], np.zeros((3, 3)))
    assert np.allclose(intercept, solved[0] - X[:, [1, 2, 5]].mean(axis=0) @ solved[1:])


@pytest.mark.parametrize("unit", [1e-9, 1e-5, 1e9])
def test_a_projection_does_not_depend_on_the_unit_of_numbers(unit):
    X, _ = _logistic_table()
    mean = X[:, [1]] + 0.5 * X[:, [2]] + 3 + RNG(3).normal(size=(len(X), 2))
    plain, scaled = (Submodel(ExpectedLoss(Squared()), Columns.of(X, True), u * mean, np.zeros(120)) for u in (1, unit))
    assert np.allclose(scaled.project([1, 2])[0], unit * plain.project([1, 2])[0], rtol=1e-9, atol=0)
    orders = [forward(one, [[d] for d in range(6)], [], 4, clusters=2, seed=0) for one in (plain, scaled)]
    assert orders[0] == orders[1]


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_the_gain_of_a_quadratic_loss_is_what_the_energy_falls_by(storage):
    """One Newton step is exact there: of single columns and of terms of several, whatever is in already."""
    X, _ = _logistic_table(correlation=0.7)
    mean = RNG(4).normal(size=(len(X), 2))
    problem = _problem(Squared(), mean, storage(X))
    terms = [[0], [1, 2], [5]]
    weight, before = problem.project([3, 4])
    gains = _gains(problem, [3, 4], weight, terms)
    for place, term in enumerate(terms):
        _, after = problem.project([3, 4, *term])
        assert np.allclose(gains[place], before - after, rtol=1e-8)


def test_sparse_rows_are_projected_as_dense_ones():
    X = np.where(RNG(0).random((80, 5)) < 0.6, 0.0, RNG(1).normal(size=(80, 5)))
    mean = expit(X[:, :2])
    found = [_problem(Logistic(), mean, kind(X), False).project([0, 3])[0] for kind in (np.asarray, sp.csr_array)]
    assert np.allclose(*found, rtol=1e-10)


@pytest.mark.parametrize(
    ("loss", "mean"), [(Poisson(), 2.5), (NegativeBinomial(3.0), 2.5), (Binomial(8), 2.5), (Squared(), -1.5)]
)
def test_expected_losses_are_averages_over_responses(loss, mean):
    """Two responses about the mean, equally likely: the average of their losses less that of the mean is no score's."""
    score = np.linspace(-1, 1, 5)
    spread = [0.5 * (loss.plain.value(np.full(5, mean - 1.5), score, 0 * score)
                     + loss.plain.value(np.full(5, mean + 1.5), score, 0 * score))]  # fmt: skip
    expected = ExpectedLoss(loss)
    expected.check(np.full(5, abs(mean)))
    assert np.allclose(np.ptp(spread[0] - expected.value(np.full(5, mean), score)), 0.0, atol=1e-12)
    slope, curvature = expected.derivatives(np.full(5, mean), score)
    step = 1e-5
    values = [expected.value(np.full(5, mean), score + shift) for shift in (-step, 0.0, step)]
    assert np.allclose(slope, (values[2] - values[0]) / (2 * step), rtol=1e-6)
    assert np.allclose(curvature, (values[2] - 2 * values[1] + values[0]) / step**2, rtol=1e-3)


def test_a_loss_that_is_not_linear_in_the_response_is_refused():
    class Cauchy(Squared):
        def derivatives(self, y, mean, var):
            found = super().derivatives(y, mean, var)
            return found._replace(mean=2 * (mean - y) / (1 + (mean - y) ** 2))

    with pytest.raises(ValueError, match="linear in the response"):
        ExpectedLoss(Cauchy()).check(np.array([0.5]))


def test_clusters_average_the_draws_they_stand_for():
    mean = RNG(0).random((6, 40))
    centre, share = clusters_of(mean, 5, 0)
    assert share.sum() == pytest.approx(1.0)
    assert np.allclose(centre @ share, mean.mean(axis=1))
    assert clusters_of(mean, 40, 0)[0] is mean


@pytest.mark.parametrize("seed", range(5))
def test_forward_search_needs_no_more_terms_than_an_exhaustive_one(seed):
    """Seven columns, every submodel fitted: the same number of terms loses at most 0.005 nats a row."""
    X, y = _logistic_table(seed, weight=(1.2, -1.0, 0.8, 0.6, 0.0, 0.0, 0.0), correlation=0.3)
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, y)
    problem = _problem(Logistic(), expit(X @ fit.weight + fit.intercept)[:, None], X)
    order = forward(problem, [[j] for j in range(7)], [], 7, clusters=1, seed=0)

    def energy(columns):
        return problem.project(list(columns))[1][0] / len(X)

    ours = [energy(order[:size]) for size in range(8)]
    best = [min(map(energy, itertools.combinations(range(7), size))) for size in range(8)]
    needed = [next(size for size in range(8) if path[size] <= best[-1] + 0.005) for path in (ours, best)]
    assert needed[0] == needed[1]
    assert ours[needed[0]] <= best[-1] + 0.005


def test_all_columns_without_noise_are_the_model(build):
    """Nothing is lost but what the ridge takes, and leave-one-out scores are those of bd.loo."""
    X, y = _logistic_table()
    post = _normal_draws(build, X, y)
    path = _project(post, X, sizes=6, cv=None)
    assert np.allclose(path.pointwise[-1], path.reference, atol=1e-4)
    scored = bd.loo(bd.log_likelihood(post, X, y))
    elpd_i = np.asarray(getattr(scored, "loo_i", None) if hasattr(scored, "loo_i") else scored.elpd_i)
    assert np.allclose(path.reference, elpd_i, atol=0.02)
    drawn = bd.groups.dataset(path.posterior(6), "posterior")["weight"].values
    assert np.allclose(drawn, bd.groups.dataset(post, "posterior")["weight"].values, atol=1e-3)


@pytest.mark.slow
def test_noise_is_averaged_into_what_is_projected(build):
    """Under noise the projection is nearest to E σ(s): its predictions have no mean error, by the intercept."""
    X, y = _logistic_table()
    post = _normal_draws(build, X, y, rate=0.5)
    path = _project(post, X, sizes=2, cv=None)
    ours, noised = (bd.predict(one, X) for one in (path.posterior(2), post))
    assert ours.mean.mean() == pytest.approx(noised.mean.mean(), abs=1e-6)
    clean = bd.predict(post, X, corrupted_inputs=True)
    assert abs(clean.mean - noised.mean).max() > 0.02


@pytest.mark.slow
def test_scores_of_folds_know_nothing_of_the_rows(build):
    """By hand: the search and the projection of the other rows, then the weighted average over draws."""
    X, y = _logistic_table()
    post = _normal_draws(build, X, y)
    folds = [(np.arange(0, 120, 2), np.arange(1, 120, 2)), (np.arange(1, 120, 2), np.arange(0, 120, 2))]
    path = _project(post, X, sizes=[0, 2], cv=folds, clusters=100)
    posterior = bd.groups.dataset(post, "posterior")
    weight, intercept = posterior["weight"].values.reshape(-1, 6), posterior["intercept"].values.ravel()
    score = X @ weight.T + intercept
    logs = np.where(y[:, None] == 1, np.log(expit(score)), np.log(expit(-score)))
    for train, test in folds:
        problem = Submodel(
            ExpectedLoss(Logistic()), Columns.of(X, True).rows(train), expit(score[train]), np.zeros(len(train))
        )
        order = forward(problem, [[j] for j in range(6)], [], 2, clusters=100, seed=0)
        found, _ = problem.project(order)
        own, base = problem.columns.original(order, found)
        away = X[test] @ own.T + base
        lpd = np.where(y[test, None] == 1, np.log(expit(away)), np.log(expit(-away)))
        raw = -logs[test] - logsumexp(-logs[test], axis=1, keepdims=True)  # weights before smoothing
        assert np.allclose(path.pointwise[1, test], logsumexp(raw + lpd, axis=1), atol=0.01)
    assert path.n_folds == 2
    assert np.all((path.fold_share >= 0) & (path.fold_share <= 1))


def test_the_variance_of_a_projection_is_the_nearest(build):
    """Divergence of normal laws, summed over rows, minimised over the variance on a grid."""
    generator = RNG(0)
    X = generator.normal(size=(60, 3))
    y = X @ [1.0, 0.5, 0.0] + generator.normal(size=60)
    model = bd.Model(Squared(variance=InverseGamma(2.0, 1.0)), rates=bd.Fixed(0.3), C=1.0)
    weight = np.array([1.0, 0.5, 0.0]) + 0.1 * generator.normal(size=(2, 300, 3))
    post = build(model, weight, intercept=0.0, sigma=0.9, y=y)
    path = _project(post, X, sizes=1, cv=None)
    drawn = bd.groups.dataset(path.posterior(1), "posterior")
    mean, noise = 0.7 * X @ weight[0, 0], (X**2 * 0.3 * 0.7) @ weight[0, 0] ** 2
    own = drawn["intercept"].values[0, 0] + X @ drawn["weight"].values[0, 0]
    grid = np.linspace(0.5, 3.0, 250_001)
    total = np.sum(0.81 + noise + (mean - own) ** 2)
    best = grid[np.argmin(0.5 * (60 * np.log(grid**2) + total / grid**2))]
    assert drawn["sigma"].values[0, 0] == pytest.approx(best, abs=2e-5)


def test_masks_about_a_centre_do_not_see_where_the_columns_lie(build):
    generator = RNG(0)
    X, weight = generator.normal(size=(60, 2)), [1.0, 0.0] + 0.03 * generator.normal(size=(2, 200, 2))
    y, found = X[:, 0] + 0.5 * generator.normal(size=60), []
    for shift in (0.0, 10.0):
        model = bd.Model(Squared(), noise=bd.Dropout(centre=(shift, shift)), rates=bd.Fixed(0.3))
        post = build(model, weight, intercept=-shift * weight.sum(axis=-1), sigma=0.5, y=y)
        path = _project(post, X + shift, sizes=2, cv=None)
        found.append([bd.groups.dataset(path.posterior(2), "posterior")["sigma"].values.ravel(), *path.pointwise])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_terms_of_a_formula_enter_whole_and_stay_when_included():
    generator = RNG(0)
    table = {
        "age": generator.normal(size=90), "dose": generator.normal(size=90),
        "site": generator.choice(["n", "s", "w"], size=90),
    }  # fmt: skip
    level = {"n": 0.0, "s": 2.0, "w": -2.0}
    score = table["dose"] + np.array([level[site] for site in table["site"]])
    table["ill"] = (generator.random(90) < expit(score)).astype(int)
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.0)), "ill ~ age + dose + site", table)
    parts = {"weight": (("chain", "draw", "feature"), fit.weight + 0.1 * generator.normal(size=(2, 100, 5)))}
    parts["intercept"] = (("chain", "draw"), fit.intercept + 0.1 * generator.normal(size=(2, 100)))
    coords = {"chain": [0, 1], "draw": np.arange(100), "feature": fit.feature_names}
    groups = {"posterior": xr.Dataset(parts, coords), "observed_data": xr.Dataset({"y": ("obs_id", table["ill"])})}
    post = bd.groups.assemble(groups, attributes(fit.model, fit.classes, fit.facts, fit.feature_names))
    path = bd.project(post, table, cv=None)
    assert sorted(path.terms) == ["age", "dose", "site"]
    assert path.terms[0] == "site"
    kept = bd.project(post, table, cv=None, include="age", sizes=2)
    assert kept.terms[0] == "age"
    assert kept.sizes.tolist() == [1, 2]
    drawn = bd.groups.dataset(kept.posterior(1), "posterior")["weight"]
    assert np.all(drawn.sel(feature=[name for name in drawn.feature.values if name != "age"]) == 0)
    assert len(bd.predict(kept.posterior(2), table).mean) == 90


def test_new_levels_have_no_scale_to_draw_an_effect_from():
    generator = RNG(0)
    table = pd.DataFrame({"age": generator.normal(size=60), "site": ["n", "s", "w"] * 20, "ill": [0, 1] * 30})
    model = bd.Model(rates=bd.Fixed(0.0))
    fit = bd.fit(model, "ill ~ age + (1 | site)", table, random_scale=0.5, unseen="population")
    parts = {"weight": (("chain", "draw", "feature"), fit.weight + 0.1 * generator.normal(size=(2, 100, 4)))}
    parts["intercept"] = (("chain", "draw"), np.full((2, 100), fit.intercept))
    coords = {"chain": [0, 1], "draw": np.arange(100), "feature": fit.feature_names}
    groups = {"posterior": xr.Dataset(parts, coords), "observed_data": xr.Dataset({"y": ("obs_id", table["ill"])})}
    post = bd.groups.assemble(groups, attributes(fit.model, fit.classes, fit.facts, fit.feature_names))
    small, new = bd.project(post, table, cv=None).posterior(2), table.assign(site="e")
    assert len(bd.predict(small, table, unseen="draw").mean) == 60
    assert len(bd.predict(small, new).mean) == 60
    assert np.all(bd.predict(post, new, unseen="draw").sd > bd.predict(post, new).sd)
    with pytest.raises(ValueError, match=r"levels of the fit in \(1\|site\), got 'e'.*unseen=\"population\""):
        bd.predict(small, new, unseen="draw")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")
def test_a_fold_may_be_sampled_again(tmp_path):
    X, y = _logistic_table(n=60)
    post = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, y, draws=150, tune=100, chains=2, progress=False)
    path = _project(post, X, sizes=2, cv=2, refit=True)
    scored = bd.kfold(bd.Model(rates=bd.Fixed(0.0)), X, y, cv=2, draws=150, tune=100, chains=2, progress=False)
    assert np.allclose(path.reference, scored.pointwise, atol=1e-3)
    assert "sampled again" in str(path)
    bd.groups.save(path.posterior(2), tmp_path / "small.nc")
    read = bd.groups.load(tmp_path / "small.nc")
    assert np.allclose(bd.predict(read, X[:5]).mean, bd.predict(path.posterior(2), X[:5]).mean)
    assert bd.loo(bd.log_likelihood(read, X, y)).n_data_points == 60
    with pytest.raises(ValueError, match="projections"):
        bd.diagnose(read)


@pytest.mark.slow
def test_what_is_printed_names_both_rules(build):
    X, y = _logistic_table()
    path = _project(_normal_draws(build, X, y), X, sizes=6)
    table = path.to_frame()
    assert table.index.tolist() == list(range(7))
    assert table["term"].tolist() == ["(none)", *path.terms]
    assert "Within one standard error of the model" in str(path)
    assert "nats a row" in str(path)
    assert "optimistic" in repr(_project(_normal_draws(build, X, y), X, sizes=1, cv=None))
    assert path.size_within(10.0) == 0
    with pytest.raises(ValueError, match="loss"):
        path.size_within(0.0)
    axes = bd.plots.projection_path(path)
    assert len(axes.get_xticklabels()) == 7


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (bd.Model(bd.Hinge(), rates=bd.Fixed(0.1)), "no likelihood"),
        (bd.Model(C=2.0, rates=bd.Fixed(0.1)), "C = 2 raises the likelihood"),
        (bd.Model(rates=bd.Fixed(0.1), missing="nan"), "missing entries"),
    ],
)
def test_what_has_no_divergence_is_refused(build, model, message):
    X, y = _logistic_table()
    post = build(model, RNG(0).normal(size=(2, 5, 6)), intercept=0.0, y=2 * y - 1, classes=[0, 1])
    with pytest.raises(ValueError, match=message):
        _project(post, X)


def test_a_learnt_dispersion_is_refused(build):
    X = RNG(0).normal(size=(30, 2))
    post = build(bd.Model(NegativeBinomial(), rates=bd.Fixed(0.0)), np.zeros((2, 5, 2)), intercept=0.0, y=np.arange(30))
    dispersion = {"dispersion": (("chain", "draw"), np.full((2, 5), 2.5))}
    post = bd.groups.extend(post, {"posterior": bd.groups.dataset(post, "posterior").assign(dispersion)})
    with pytest.raises(ValueError, match=r"bd\.project takes .* sample bd\.NegativeBinomial\(2\.5\)"):
        _project(post, X)


def test_row_weights_are_refused(build):
    X, y = _logistic_table()
    post = build(bd.Model(rates=bd.Fixed(0.1)), RNG(0).normal(size=(2, 5, 6)), intercept=0.0, y=2 * y - 1,
                 classes=[0, 1], row_weight=np.full(120, 2.0))  # fmt: skip
    with pytest.raises(ValueError, match="row weights"):
        _project(post, X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"include": "size"}, "include: expected terms among .* got"),
        ({"terms": {"a": ["x0", "x9"]}}, "terms: expected features among"),
        ({"terms": {"a": ["x0"], "b": ["x0", "x1", "x2", "x3", "x4", "x5"]}}, "'x0'.* in several"),
        ({"terms": {"a": ["x0"]}}, "in none"),
        ({"sizes": [7]}, "sizes"),
        ({"sizes": []}, "sizes"),
        ({"cv": None, "refit": True}, "refit"),
    ],
)
def test_bad_input_names_the_place(build, options, message):
    X, y = _logistic_table()
    post = _normal_draws(build, X, y, count=10)
    with pytest.raises(ValueError, match=message):
        _project(post, X, **options)


def test_other_rows_are_refused(build):
    X, y = _logistic_table()
    post = _normal_draws(build, X, y, count=10)
    with pytest.raises(ValueError, match="120 rows"):
        _project(post, X[:50])
