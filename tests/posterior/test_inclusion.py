"""Answers about draws under a spike-and-slab prior: tables, credible sets, diagnosis, files, prediction."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import betaln

import bayesdrop as bd
from bayesdrop.data.column_facts import ColumnFacts
from bayesdrop.description import attributes


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    X[:, 1] = X[:, 0] + 0.05 * X[:, 1]
    return X, 1.5 * X[:, 0] - X[:, 3] + rng.normal(size=120)


@pytest.fixture(scope="module")
def post(data):
    prior = bd.SpikeSlab(expected_size=2, slab=bd.Normal(bd.HalfNormal(1.0)))
    model = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), weight_prior=prior)
    return bd.sample(model, *data, draws=300, tune=50, progress=False)


def test_variables_agree(post):
    draws = bd.groups.dataset(post, "posterior")
    np.testing.assert_array_equal(draws["included"], draws["weight"] != 0)
    np.testing.assert_array_equal(draws["model_size"], draws["included"].sum("feature"))
    for name in ("inclusion_probability", "inclusion_prior"):
        assert np.all((draws[name] >= 0) & (draws[name] <= 1))
    assert draws["weight_scale"].dims == draws["sigma"].dims == ("chain", "draw")


def test_weights_have_inclusion_probabilities(post):
    table, draws = bd.weights_table(post), bd.groups.dataset(post, "posterior")
    chance = draws["inclusion_probability"].mean(("chain", "draw")).values
    np.testing.assert_allclose(table["inclusion_probability"], chance, rtol=1e-6)
    weight = draws["weight"].where(draws["included"] > 0).mean(("chain", "draw")).values
    np.testing.assert_allclose(table["weight_if_included"], weight, rtol=1e-5)
    for d in range(5):
        selected = chance >= chance[d]
        np.testing.assert_allclose(table["expected_false_discoveries"].iloc[d], np.sum(1 - chance[selected]), rtol=1e-6)
    assert bd.plots.inclusion(table).get_xlabel() == "Inclusion probability"
    with pytest.raises(TypeError, match="inclusion_probability"):
        bd.plots.inclusion([1.0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")  # a few draws
def test_credible_sets_hold_one_effect_each(post, data):
    sets = bd.credible_sets(post, data[0])
    assert set(sets["features"]) == {("x0", "x1"), ("x3",)}
    assert np.all(sets["probability"] >= 0.95)
    twins = sets["features"].tolist().index(("x0", "x1"))
    # 1.391 is the sum over all 32 models on a grid of the scales of slab and noise. The twins' two small weights cost
    # little more than one. False-alarm rate 1e-4, by 20 batches.
    size = bd.groups.dataset(post, "posterior")["included"].values[..., :2].sum(axis=2).reshape(20, -1).mean(axis=1)
    np.testing.assert_allclose(sets["expected_size"][twins], size.mean(), rtol=1e-6)
    assert abs(size.mean() - 1.391) < stats.t.isf(0.5e-4, 19) * stats.sem(size)
    assert sets["least_correlation"][twins] > 0.9
    plain = bd.Model(rates=bd.Fixed(0.0))
    with pytest.raises(ValueError, match="SpikeSlab"):
        bd.credible_sets(bd.sample(plain, data[0], data[1] > 0, draws=4, tune=4, progress=False), data[0])
    with pytest.raises(ValueError, match="expected 5 columns"):
        bd.credible_sets(post, data[0][:, :4])


def test_sets_of_planted_draws():
    """Twins that replace each other are one set; both in all draws are two; a set that is rarely in is none."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 6))
    X[:, 1], X[:, 3] = X[:, 0] + 0.1 * X[:, 1], X[:, 2] + 0.1 * X[:, 3]
    first = rng.random(1000) < 0.5
    included = np.column_stack([first, ~first, np.ones(1000), np.ones(1000), rng.random(1000) < 0.6, np.zeros(1000)])
    model = bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab())
    names = [f"x{d}" for d in range(6)]
    posterior = xr.Dataset(
        {
            "weight": (("chain", "draw", "feature"), included[None].astype(float)),
            "intercept": (("chain", "draw"), np.zeros((1, 1000))),
        },
        coords={"feature": names},
    )
    draws = bd.groups.assemble({"posterior": posterior}, attributes(model, ["no", "yes"], feature_names=names))
    sets = bd.credible_sets(draws, X)
    assert set(sets["features"]) == {("x0", "x1"), ("x2",), ("x3",)}
    assert set(bd.credible_sets(draws, X, probability=0.5)["features"]) >= {("x4",)}


def _either(model, names, facts=None):
    """Draws that include one of two features each, as a posterior under a model."""
    weight = np.zeros((1, 100, 2))
    weight[0, ::2, 0] = weight[0, 1::2, 1] = 1.0
    parts = {"weight": (("chain", "draw", "feature"), weight), "intercept": (("chain", "draw"), np.zeros((1, 100)))}
    groups = {"posterior": xr.Dataset(parts, coords={"feature": names})}
    return bd.groups.assemble(groups, attributes(model, None, facts, names))


@pytest.mark.parametrize("storage", [np.asarray, csr_array])
def test_missing_entries_are_at_the_mean_of_their_column(storage):
    model = bd.Model(bd.Squared(1.0), rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(), missing="nan")
    X = 50 + np.random.default_rng(0).normal(size=(200, 2))
    X[:40] = np.nan
    draws = _either(model, ["x0", "x1"])
    assert len(bd.credible_sets(draws, storage(X))) == 0
    X[40:, 1] = X[40:, 0] + 0.5 * (X[40:, 1] - 50)
    found = bd.credible_sets(draws, storage(X))
    assert found["features"].tolist() == [("x0", "x1")]
    assert found["least_correlation"][0] == pytest.approx(np.corrcoef(X[40:].T)[0, 1])


def test_correlations_of_columns_far_from_zero_keep_their_digits():
    model = bd.Model(bd.Squared(1.0), rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab())
    seconds = 60 * np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 0.01]
    X = 1.7e9 + np.cumsum(seconds, axis=1)
    found = bd.credible_sets(_either(model, ["x0", "x1"]), X)
    assert found["least_correlation"][0] == pytest.approx(np.corrcoef(X.T)[0, 1])


def test_rows_that_were_dropped_are_dropped_from_the_table():
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.normal(size=(60, 2)), columns=["a", "b"]).assign(y=generator.normal(size=60))
    table["b"] = table.a + 0.1 * table.b
    table.loc[:5, "a"] = table.loc[6:9, "y"] = np.nan
    model = bd.Model(bd.Squared(1.0), rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab())
    design = bd.from_formula("y ~ a + b", table, dropna=True)
    draws = _either(model, ["a", "b"], ColumnFacts(formula=design.encoder))
    found = bd.credible_sets(draws, table)
    assert found["least_correlation"][0] == pytest.approx(np.corrcoef(table.dropna()[["a", "b"]].T)[0, 1])


def test_chains_that_disagree_are_found(post):
    assert "inclusion" not in bd.diagnose(post).advice
    draws = bd.groups.dataset(post, "posterior").copy(deep=True)
    chance = draws["inclusion_probability"].values
    chance[0, :, 2], chance[1:, :, 2] = 0.9, 0.1
    draws["included"].values[:, :, 2] = chance[:, :, 2] > 0.5
    text = bd.diagnose(bd.groups.extend(post, {"posterior": draws})).advice
    assert "the inclusion probability of x2 is 0.10 in one chain and 0.90 in another" in text
    assert "the indicator of x2 never moves in some chain" in text


@pytest.mark.slow
def test_files_prediction_and_scores_need_no_more(post, data, tmp_path):
    bd.groups.save(post, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    X, y = data
    np.testing.assert_allclose(bd.predict(again, X).mean, bd.predict(post, X).mean)
    assert bd.weights_table(again).equals(bd.weights_table(post))
    scored = bd.loo(bd.log_likelihood(post, X, y))
    assert np.isfinite(scored.elpd_loo if hasattr(scored, "elpd_loo") else scored.elpd)
    assert len(bd.marginal_effects(post, X)) == 5


def test_the_prior_is_drawn_from():
    prior = bd.prior_draws(
        bd.Model(rates=bd.Fixed(0.0), weight_prior=bd.SpikeSlab(expected_size=2)), np.zeros((3, 8)), draws=2000,
        intercept_scale=1.0,
    )  # fmt: skip
    draws = bd.groups.dataset(prior, "prior")
    assert draws["included"].dims == ("chain", "draw", "feature")
    # Mean 2, standard deviation 2.2: four standard errors.
    assert abs(float(draws["model_size"].mean()) - 2) < 0.2
    np.testing.assert_array_equal(draws["included"], draws["weight"] != 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")  # a few draws
def test_random_terms_stand_beside_it(tmp_path):
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "y"])
    table = table.assign(
        kind=rng.choice(["n", "s", "w"], 60), site=rng.choice(["n", "s", "w"], 60), y=table.y + 2 * table.a
    )
    prior = bd.SpikeSlab(0.3, slab=bd.Normal(bd.HalfNormal(1.0)), groups="terms")
    model, formula = bd.Model(bd.Squared(), rates=bd.Fixed(0.0), weight_prior=prior), "y ~ a + b + kind + (1 | site)"
    post = bd.sample(model, formula, table, draws=100, tune=50, chains=2, progress=False)
    draws = bd.groups.dataset(post, "posterior")
    assert draws["included"].sizes["feature"] == 5
    assert draws["1|site"].dims == ("chain", "draw", "site|level")
    assert draws["1|site|scale"].dims == draws["weight_scale"].dims == ("chain", "draw")
    assert np.all(draws["1|site"] != 0)
    rows = bd.weights_table(post)
    assert rows.index.tolist() == ["a", "b", "kind[s] vs kind[n]", "kind[w] vs kind[n]"]
    kind = draws["inclusion_probability"].sel(feature="kind[s]").mean()
    np.testing.assert_allclose(rows["inclusion_probability"].iloc[2:], float(kind), rtol=1e-5)
    assert rows["inclusion_probability"]["a"] > 0.99
    assert ("a",) in set(bd.credible_sets(post, table)["features"])
    assert not any("|" in name for one in bd.credible_sets(post, table, probability=0.01)["features"] for name in one)
    bd.groups.save(post, tmp_path / "post.nc")
    again, new = bd.groups.load(tmp_path / "post.nc"), table.assign(site="north")
    for one in (table, new):
        options = {"unseen": "draw"} if one is new else {}
        np.testing.assert_allclose(bd.predict(again, one, **options).mean, bd.predict(post, one, **options).mean)
    drawn = bd.groups.dataset(bd.prior_draws(model, formula, table, draws=50, intercept_scale=1.0), "prior")
    np.testing.assert_array_equal(drawn["model_size"], (drawn["weight"] != 0).sum("feature"))
    assert np.all(drawn["1|site"] != 0)
    known = replace(model, weight_prior=bd.SpikeSlab(0.3))
    few = bd.sample(known, formula, table, draws=10, tune=5, chains=1, random_scale=0.5, progress=False)
    one = bd.groups.dataset(few, "posterior")
    features, effects = one["weight"].values[0].astype(float), one["1|site"].values[0].astype(float)
    law = known.weight_prior.of_responses(table.y.std(ddof=0))
    expected = law.log_density(features) - 2 * np.sum(effects**2, axis=1)
    found = bd.groups.dataset(bd.log_prior(few), "log_prior")["weight"].values[0]
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-4, atol=1e-4)
    for refused in (bd.HMC(), bd.NUTS()):
        with pytest.raises(ValueError, match="method: .* of mixtures"):
            bd.sample(model, formula, table, method=refused, progress=False)
    with pytest.raises(ValueError, match="no closed form"):
        bd.log_prior(post)
    with pytest.raises(ValueError, match=r"bd\.SpikeSlab draws which features"):
        bd.fit(model, formula, table, random_scale=0.5)
    with pytest.raises(ValueError, match=r"correlated, which bd\.Gibbs\(\) does not draw.*\|\|"):
        bd.sample(model, "y ~ b + (a | site)", table, progress=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")  # a few draws
def test_rates_stand_beside_it(data, tmp_path):
    X, y = data[0], data[1] > 0
    rates = bd.PerFeature(bd.Beta(1, 3))
    model = bd.Model(rates=rates, weight_prior=bd.SpikeSlab(expected_size=2))
    post = bd.sample(model, X, y, draws=100, tune=50, chains=2, log_likelihood=True, progress=False)
    draws, table = bd.groups.dataset(post, "posterior"), bd.weights_table(post)
    np.testing.assert_array_equal(draws["included"], draws["weight"] != 0)
    np.testing.assert_array_equal(draws["model_size"], draws["included"].sum("feature"))
    rate = draws["rate"].where(draws["included"] > 0).mean(("chain", "draw"))
    np.testing.assert_allclose(table["rate_if_included"], rate, rtol=1e-5)
    both = ((1 - draws["rate"]) * draws["weight"]).mean(("chain", "draw"))
    np.testing.assert_allclose(table["scaled_weight"], both, rtol=1e-4, atol=1e-6)
    bd.groups.save(post, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    np.testing.assert_allclose(bd.predict(again, X).mean, bd.predict(post, X).mean)
    assert bd.weights_table(again).equals(table)
    scored = bd.loo(bd.log_likelihood(again, X, y))
    assert np.isfinite(scored.elpd_loo if hasattr(scored, "elpd_loo") else scored.elpd)
    assert len(bd.marginal_effects(post, X)) == 5
    assert len(bd.credible_sets(post, X, probability=0.5)) > 0
    diagnosis = bd.diagnose(post)
    assert diagnosis.n_rates == 0
    assert "PerGroup" not in str(diagnosis)
    prior = np.asarray(bd.groups.dataset(bd.log_prior(post), "log_prior")["rate"])
    np.testing.assert_allclose(prior, 2 * np.log1p(-draws["rate"]).sum("feature"), rtol=1e-5)
    drawn = bd.groups.dataset(bd.prior_draws(model, X, draws=50, intercept_scale=1.0), "prior")
    assert drawn["rate"].dims == drawn["included"].dims == ("chain", "draw", "feature")
    fixed = bd.Model(rates=bd.Fixed(0.3), weight_prior=bd.SpikeSlab(expected_size=2))
    few = bd.sample(fixed, X, y, draws=10, tune=5, chains=1, progress=False)
    assert "rate_if_included" not in bd.weights_table(few)
    np.testing.assert_allclose(bd.weights_table(few)["rate"], 0.3, rtol=1e-12)
    for refused in (bd.HMC(), bd.NUTS()):
        with pytest.raises(ValueError, match="method: .* of mixtures"):
            bd.sample(model, X, y, method=refused, progress=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")  # a few draws
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.InfluenceWarning")
def test_each_class_has_its_indicators(tmp_path):
    rng = np.random.default_rng(3)
    table = pd.DataFrame(rng.normal(size=(150, 3)), columns=["a", "b", "c"])
    table["b"] = table["a"] + 0.05 * table["b"]
    table["site"] = rng.choice(["n", "s"], 150)
    score = np.column_stack([2 * table["a"], -2 * table["a"], np.zeros(150)])
    table["y"] = np.array(["high", "low", "none"])[np.argmax(score + rng.gumbel(size=(150, 3)), axis=1)]
    prior = bd.SpikeSlab(slab=bd.Normal(bd.HalfNormal(1.0)), groups="terms")
    model, formula = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=prior), "y ~ a + b + c + site"
    post = bd.sample(model, formula, table, draws=100, tune=50, chains=2, log_likelihood=True, progress=False)
    draws, rows = bd.groups.dataset(post, "posterior"), bd.weights_table(post)
    assert draws["included"].dims == draws["weight"].dims == ("chain", "draw", "class", "feature")
    assert draws["weight_scale"].dims == draws["inclusion_prior"].dims == ("chain", "draw")
    np.testing.assert_array_equal(draws["included"], draws["weight"] != 0)
    np.testing.assert_array_equal(draws["model_size"], draws["included"].sum("feature"))
    chance, any_class = draws["inclusion_probability"].mean(("chain", "draw")), draws["included"].max("class")
    for label in ("high", "low", "none"):
        one = rows.loc[label]
        np.testing.assert_allclose(one["inclusion_probability"].iloc[:3], chance.sel({"class": label})[:3], rtol=1e-5)
        np.testing.assert_allclose(one["inclusion_in_any_class"].iloc[:3], any_class.mean(("chain", "draw"))[:3])
        weight = draws["weight"].where(draws["included"] > 0).sel({"class": label}).mean(("chain", "draw"))
        np.testing.assert_allclose(one["weight_if_included"].iloc[:3], weight[:3], rtol=1e-4)
    assert rows["expected_false_discoveries"].max() == pytest.approx(np.sum(1 - rows["inclusion_probability"]))
    assert "high: a" in [label.get_text() for label in bd.plots.inclusion(rows).get_yticklabels()]
    sets = bd.credible_sets(post, table, probability=0.9)
    assert {"a", "b"} & set(sets["features"][0])
    for features, probability in zip(sets["features"], sets["probability"], strict=True):
        assert any_class.sel(feature=list(features)).max("feature").mean() == pytest.approx(probability)
    bd.groups.save(post, tmp_path / "post.nc")
    again = bd.groups.load(tmp_path / "post.nc")
    np.testing.assert_allclose(bd.predict(again, table).mean, bd.predict(post, table).mean)
    assert bd.weights_table(again).equals(rows)
    scored = bd.loo(post)
    assert np.isfinite(scored.elpd_loo if hasattr(scored, "elpd_loo") else scored.elpd)
    assert len(bd.marginal_effects(post, table)) > 0
    other = draws.copy(deep=True)
    other["inclusion_probability"].values[:, :, 1, 2] = [[0.9], [0.1]]
    text = bd.diagnose(bd.groups.extend(post, {"posterior": other})).advice
    assert "the inclusion probability of c of class low is 0.10 in one chain and 0.90 in another" in text
    with pytest.raises(ValueError, match=r"baseline: under bd\.SpikeSlab"):
        bd.weights_table(post, baseline="none")
    with pytest.raises(ValueError, match="project"):
        bd.project(post, table)
    with pytest.raises(ValueError, match="random terms where rows have one score"):
        bd.sample(model, f"{formula} + (1 | site)", table, progress=False)
    with pytest.raises(ValueError, match="random terms where rows have one score"):
        bd.prior_draws(model, f"{formula} + (1 | site)", table, intercept_scale=1.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning")  # a few draws
def test_draws_of_classes_have_the_density():
    """Prior frequencies of models of two classes against their probability, of false-alarm rate 1e-6."""
    prior = bd.SpikeSlab(bd.Beta(2.0, 3.0), slab=bd.Normal(2.0))
    model = bd.Model(bd.Softmax(), rates=bd.Fixed(0.0), weight_prior=prior)
    options = {"classes": ["no", "yes"], "intercept_scale": 1.0}
    draws = bd.groups.dataset(bd.prior_draws(model, np.zeros((3, 2)), draws=20_000, **options), "prior")
    assert draws["included"].dims == ("chain", "draw", "class", "feature")
    assert draws["inclusion_prior"].dims == ("chain", "draw")
    np.testing.assert_array_equal(draws["included"], draws["weight"] != 0)
    models, counts = np.unique(draws["included"].values.reshape(-1, 2, 2), axis=0, return_counts=True)
    size = models.sum(axis=(1, 2))
    chance = np.exp(betaln(2 + size, 7 - size) - betaln(2, 3))
    assert stats.chisquare(counts, 20_000 * chance).pvalue > 1e-6
    normal = stats.norm.logpdf(1.0, scale=2.0) * size
    np.testing.assert_allclose(np.exp(prior.log_density(1.0 * models) - normal), chance)
    few = bd.sample(model, np.eye(4, 2), ["no", "yes"] * 2, draws=10, tune=5, chains=1, progress=False)
    weight = bd.groups.dataset(few, "posterior")["weight"].values[0]
    found = bd.groups.dataset(bd.log_prior(few), "log_prior")["weight"].values[0]
    np.testing.assert_allclose(found, prior.log_density(weight), rtol=1e-6)
