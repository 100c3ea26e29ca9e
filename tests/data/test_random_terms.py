"""Random terms of formulas: what is read, encoded, kept, refused; and how results show their effects."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.data.formulas.encoder import FormulaEncoder
from bayesdrop.data.formulas.formula import encode_formula
from bayesdrop.data.formulas.random_terms import without_random_terms
from bayesdrop.data.frames import Limits
from bayesdrop.effects.contrasts import contrasts_of
from bayesdrop.priors import RandomEffects

GENERATOR = np.random.default_rng(4)
N = 60
TABLE = pd.DataFrame(
    {
        "a": GENERATOR.normal(size=N),
        "b": GENERATOR.normal(size=N) + 2,
        "kind": GENERATOR.choice(["u", "v"], N),
        "site": [f"s{k}" for k in np.arange(N) % 5],
        "year": 2000 + np.arange(N) // 5 % 3,
        "ill": GENERATOR.choice(["no", "yes"], N),
        "size": GENERATOR.normal(size=N),
    }
)
FORMULA = "ill ~ a + kind + (1 | site) + (0 + scale(b) | site) + (1 | year)"


def fitted(formula=FORMULA, model=None, **options):
    return bd.fit(bd.Model(rates=bd.Fixed(0.2)) if model is None else model, formula, TABLE, **options)


@pytest.fixture(scope="module")
def post():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        return bd.sample(bd.Model(rates=bd.Fixed(0.0)), FORMULA, TABLE, draws=40, tune=40, chains=2, progress=False)


def test_columns_are_indicators_and_products():
    design = encode_formula(FORMULA, TABLE)
    plain = bd.from_formula("ill ~ a + kind", TABLE)
    np.testing.assert_array_equal(design.X[:, : plain.X.shape[1]], plain.X)
    z = ((TABLE.b - TABLE.b.mean()) / TABLE.b.std(ddof=1)).to_numpy()
    sites = np.stack([(TABLE.site == f"s{k}").to_numpy() for k in range(5)], axis=1)
    years = np.stack([(TABLE.year == year).to_numpy() for year in (2000, 2001, 2002)], axis=1)
    expected = np.hstack([sites, sites * z[:, None], years])
    np.testing.assert_allclose(design.X[:, plain.X.shape[1] :], expected, rtol=0, atol=1e-12)
    assert design.n_effects == 13
    assert design.feature_names[-1] == "1|year[2002]"
    assert design.groups[-4:] == ["scale(b)|site", "1|year", "1|year", "1|year"]


def test_few_effects_leave_dense_features_dense_and_very_many_do_not():
    assert isinstance(encode_formula(FORMULA, TABLE).X, np.ndarray)
    sparse = encode_formula(FORMULA, TABLE, limits=Limits(effects=100))
    np.testing.assert_array_equal(sparse.X.toarray(), encode_formula(FORMULA, TABLE).X)
    np.testing.assert_array_equal(sparse.transform(TABLE).toarray(), sparse.X.toarray())


def test_columns_may_be_joined_and_are_no_part_of_the_dot():
    design = encode_formula("ill ~ . + (1 | site:year)", TABLE.drop(columns=["kind", "size"]))
    assert design.feature_names[:3] == ["a", "b", "1|site:year[s0:2000]"]
    np.testing.assert_array_equal(design.X[:, 2:].sum(axis=1), 1)


def test_known_levels_are_encoded_by_text_alone_and_new_ones_have_columns_behind():
    design = encode_formula(FORMULA, TABLE, unseen="population")
    again = FormulaEncoder.from_json(design.to_json())
    np.testing.assert_allclose(again.transform(TABLE), design.X, rtol=0, atol=1e-12)
    new = TABLE.iloc[:4].assign(site=["s0", "zz", "q", "zz"], year=[2000, 2001, 2007, 2001])
    assert again.new_levels(new) == [(0, ("zz",)), (0, ("q",)), (1, ("zz",)), (1, ("q",)), (2, (2007,))]
    plain = again.transform(new)
    np.testing.assert_array_equal(plain[1, -13:-3], 0)
    longer = again.with_levels(again.new_levels(new)).transform(new)
    np.testing.assert_array_equal(longer[:, :-5], plain)
    z = ((new.b - TABLE.b.mean()) / TABLE.b.std(ddof=1)).to_numpy()
    expected = [[0, 0, 0, 0, 0], [1, 0, z[1], 0, 0], [0, 1, 0, z[2], 1], [1, 0, z[3], 0, 0]]
    np.testing.assert_allclose(longer[:, -5:], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("(1 | site/year)", "(1 | site) + (1 | site:year)"),
        ("(a || site)", "(1 | site) + (0 + a | site)"),
        ("(a + b - 1 || site)", "(0 + a | site) + (0 + b | site)"),
        ("(a || site/year)", "(1 | site) + (0 + a | site) + (1 | site:year) + (0 + a | site:year)"),
        ("(a | site)", "(1 | site) + (0 + a | site)"),
    ],
)
def test_short_forms_stand_for_several_terms(short, long):
    found, expected = (encode_formula(f"ill ~ a + {terms}", TABLE) for terms in (short, long))
    assert found.feature_names == expected.feature_names
    np.testing.assert_array_equal(found.X, expected.X)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("ill ~ a * (1 | site)", "by itself"),
        ("ill ~ a - (1 | site)", "by itself"),
        ("ill ~ a + (1 | site):a", "by itself"),
        ("ill ~ a + (1 | site) + (1 | site)", "there twice"),
        ("ill ~ a + (1 | plot)", "'plot'"),
        ("ill ~ a + (0 + np.log(a) | site)", "not a number in some rows"),
    ],
)
def test_what_is_no_random_term_is_refused_with_advice(formula, words):
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=words):
        encode_formula(formula, TABLE)


def test_groups_need_values_and_two_levels():
    with pytest.raises(ValueError, match=r"'site' is missing in 1 of 60 rows.*dropna=True"):
        encode_formula("ill ~ a + (1 | site)", TABLE.assign(site=TABLE.site.where(TABLE.index > 0)))
    gone = TABLE.assign(site=TABLE.site.where(TABLE.index > 0))
    assert len(encode_formula("ill ~ a + (1 | site)", gone, dropna=True).X) == N - 1
    with pytest.raises(ValueError, match=r"missing values in 'b' \(1 of 60 rows\).*slopes of \(b\|site\)"):
        encode_formula("ill ~ a + (0 + b | site)", TABLE.assign(b=TABLE.b.where(TABLE.index > 0)), missing="nan")
    with pytest.raises(ValueError, match=r"'site' has one level, 's'.*leave \(1\|site\) out"):
        encode_formula("ill ~ a + (1 | site)", TABLE.assign(site="s"))
    design = encode_formula("ill ~ a + (1 | site)", TABLE)
    with pytest.raises(ValueError, match=r"missing in 1 of 2 rows"):
        design.transform({"a": [1.0, 2.0], "site": ["s0", None]})


def test_only_what_makes_a_model_of_the_formula_takes_random_terms():
    for take in (
        lambda: bd.from_formula(FORMULA, TABLE),
        lambda: bd.FormulaTransformer("a + (1 | site)").fit(TABLE),
    ):
        with pytest.raises(ValueError, match=r"bd.sample\(model, formula, data\)"):
            take()


def test_bars_elsewhere_are_no_random_terms():
    assert without_random_terms("y ~ a + I((b > 1) | (a > 0))") == ("y ~ a + I((b > 1) | (a > 0))", [])
    assert without_random_terms("y ~ 0 + (1 | g) + a") == ("y ~ 0 + a", [("1", ["g"], "")])
    assert without_random_terms("y ~ (x - 1 | g) + offset(np.log(t))")[1] == [("x", ["g"], "")]


@pytest.mark.parametrize("rates", [bd.Fixed(0.3), bd.PerFeature(), bd.PerGroup(), bd.Shared()])
def test_a_fit_is_that_of_the_columns_at_known_scales_and_rates(rates):
    """Effects have the rate 0 and their scale; the features what they would have alone."""
    fit = fitted(model=bd.Model(rates=rates), random_scale={"1|site": 0.5, "scale(b)|site": 0.3, "1 | year": 2.0})
    design = encode_formula(FORMULA, TABLE)
    known = np.repeat([1.0, 0.5, 0.3, 2.0], [3, 5, 5, 3])
    model = bd.Model(rates=bd.Fixed(fit.rates), weight_prior=bd.Normal(known))
    again = bd.fit(model, design.X, design.y, feature_names=design.feature_names)
    np.testing.assert_allclose(fit.weight, again.weight, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(fit.rates[3:], 0)
    if not isinstance(rates, bd.Fixed):
        assert np.all(fit.rates[:3] > 0)
        assert len(fit.rate_posterior.names) == {bd.PerFeature: 3, bd.PerGroup: 2, bd.Shared: 1}[type(rates)]
    assert fit.summary().loc["1|site[s0]", "rate"] == 0


def test_the_rates_of_features_are_learnt_as_if_effects_were_an_offset():
    fit = fitted(model=bd.Model(), random_scale=0.5)
    design = encode_formula(FORMULA, TABLE)
    p = len(fit.weight) - design.n_effects
    offset = design.X[:, p:] @ fit.weight[p:]
    alone = bd.fit(bd.Model(), design.X[:, :p], design.y, offset=offset)
    np.testing.assert_allclose(alone.rates, fit.rates[:p], rtol=0, atol=1e-5)
    np.testing.assert_allclose(alone.weight, fit.weight[:p], rtol=0, atol=1e-4)


def test_a_new_level_has_the_effect_zero_in_a_fit():
    fit = fitted(random_scale=0.5)
    new = TABLE.iloc[:1].assign(site="zz", year=1900)
    design = encode_formula(FORMULA, TABLE)
    row = design.X[:1].copy()
    row[:, -13:] = 0
    np.testing.assert_allclose(fit.predict(new, unseen="population").mean, fit.predict(row).mean, rtol=0, atol=1e-14)


def test_scales_have_defaults_and_are_checked():
    model = bd.Model(rates=bd.Fixed(0.1))
    with pytest.raises(ValueError, match=r"scale of '1\|site' is learnt.*random_scale=\{'1\|site': 0.5\}"):
        bd.fit(model, "ill ~ a + (1 | site)", TABLE)
    with pytest.raises(ValueError, match=r"'1\|plot' is not a term of the formula; the terms are '1\|site'"):
        bd.fit(model, "ill ~ a + (1 | site)", TABLE, random_scale={"1|plot": 1.0})
    with pytest.raises(ValueError, match="has no term such as"):
        bd.fit(model, "ill ~ a", TABLE, random_scale=1.0)
    with pytest.raises(ValueError, match="random_scale: it says how a formula is encoded"):
        bd.fit(model, [[1.0], [2.0]], [0, 1], random_scale=1.0)
    with pytest.raises(ValueError, match=r"random_scale\['1\|site'\]"):
        bd.fit(model, "ill ~ a + (1 | site)", TABLE, random_scale=-1.0)
    with pytest.raises(TypeError, match=r"random_scale\['1\|site'\].*'wide'"):
        bd.fit(model, "ill ~ a + (1 | site)", TABLE, random_scale="wide")
    for prior in (bd.Laplace(1.0), bd.Horseshoe()):
        with pytest.raises(ValueError, match="with random terms a point fit takes bd.Normal"):
            bd.fit(bd.Model(weight_prior=prior), "ill ~ a + (1 | site)", TABLE, random_scale=1.0)
    with pytest.raises(ValueError, match="priors of one kind"):
        RandomEffects(bd.Normal(bd.HalfNormal(1.0)), ["1|site"], [["a", "b"]], [bd.HalfCauchy(1.0)])
    with pytest.raises(ValueError, match=r"bd.GaussianNoise.*moves every column|moves every column"):
        bd.fit(bd.Model(noise=bd.GaussianNoise(0.1)), "ill ~ a + (1 | site)", TABLE, random_scale=1.0)
    with pytest.raises(ValueError, match="bd.Tuned takes no random terms"):
        bd.fit(bd.Model(rates=bd.Tuned()), "ill ~ a + (1 | site)", TABLE, random_scale=1.0)
    found, X = fitted(random_scale=0.5), encode_formula(FORMULA, TABLE).X
    with pytest.raises(ValueError, match="expected a normal prior .* got RandomEffects"):
        bd.variational(found.model, X, TABLE.ill, feature_names=found.feature_names)


@pytest.mark.slow
def test_scales_of_numbers_are_in_their_units(post):
    from bayesdrop.fitting.by_formula import read_formula

    terms = read_formula("size ~ a + (1 | site)", TABLE, None, None).model.weight_prior
    assert terms.scale[0].scale == pytest.approx(TABLE["size"].std(ddof=0), rel=1e-12)
    assert read_formula("ill ~ a + (1 | site)", TABLE, None, None).model.weight_prior.scale == [bd.HalfNormal(1.0)]
    constant = bd.groups.dataset(post, "constant_data")
    assert float(constant["1|site|scale_half_normal"]) == 1.0
    assert constant["weight_precision"].sizes == {"feature": 3}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("formula", ["size ~ a + offset(far) + (1 | site)", "size ~ a + (1 | site)"])
def test_scales_of_numbers_are_those_of_the_response_minus_the_offset(formula):
    """As those of the other default priors, also with row weights."""
    weight, far = np.arange(N) % 3 + 0.5, 100 * TABLE.b
    table = TABLE.assign(size=TABLE["size"] + far, far=far)
    options = {"sample_weight": weight, "offset": None if "offset" in formula else far}
    spread = pytest.approx(np.sqrt(np.cov(TABLE["size"], aweights=weight, ddof=0)))
    priors = bd.priors_table(formula, table, **options)
    assert priors.sd["a"] == spread
    assert float(priors.scale["1|site[s0]"].removeprefix("HalfNormal(scale=").removesuffix(")")) == spread
    post = bd.sample(formula, table, draws=20, tune=20, chains=2, progress=False, **options)
    assert float(bd.groups.dataset(post, "constant_data")["1|site|scale_half_normal"]) == spread
    assert bd.groups.dataset(post, "posterior").attrs["response_spread"] == spread


@pytest.mark.slow
def test_a_posterior_has_effects_by_level_apart_from_the_weights(post):
    found = bd.groups.dataset(post, "posterior")
    assert found["weight"].dims == ("chain", "draw", "feature")
    assert found["feature"].values.tolist() == ["a", "kind[u]", "kind[v]"]
    assert found["1|site"].dims == ("chain", "draw", "site|level")
    assert found["scale(b)|site"].dims == ("chain", "draw", "site|level")
    assert found["site|level"].values.tolist() == [f"s{k}" for k in range(5)]
    assert found["1|year"]["year|level"].values.tolist() == ["2000", "2001", "2002"]
    for term in ("1|site", "scale(b)|site", "1|year"):
        assert found[f"{term}|scale"].dims == ("chain", "draw")
        assert np.all(found[f"{term}|scale"] > 0)


def test_scores_are_of_all_columns(post):
    """What is read of a posterior multiplies the columns that the formula makes."""
    found, design = bd.groups.dataset(post, "posterior"), encode_formula(FORMULA, TABLE)
    parts = [found[name].values for name in ("weight", "1|site", "scale(b)|site", "1|year")]
    score = np.concatenate(parts, axis=-1).reshape(80, -1).astype(float) @ design.X.T
    score += found["intercept"].values.reshape(80, 1)
    chance = 1 / (1 + np.exp(-score))
    np.testing.assert_allclose(bd.predict(post, TABLE).mean, chance.mean(axis=0), rtol=0, atol=1e-6)
    logs = bd.groups.dataset(bd.log_likelihood(post, TABLE), "log_likelihood")["y"].values.reshape(80, -1)
    expected = np.log(np.where(TABLE.ill == "yes", chance, 1 - chance))
    np.testing.assert_allclose(logs, expected, rtol=0, atol=1e-5)


def test_tables_of_weights_leave_effects_out_and_effects_hold_them(post):
    fit = fitted(model=bd.Model(rates=bd.Fixed(0.0)), random_scale=0.5)
    for result in (post, fit):
        table = bd.weights_table(result)
        assert table.index.tolist() == ["a", "kind[v] vs kind[u]"]
        assert bd.weights_table(result, contrasts=None).index.tolist() == ["a", "kind[u]", "kind[v]"]
        effects = bd.marginal_effects(result, TABLE)
        changed = TABLE.assign(a=TABLE.a + 1.0)
        step = bd.comparisons(result, TABLE, ["a"])["effect"].iloc[0]
        assert effects.index.get_level_values(0)[0] == "a"
        if result is fit:
            expected = fit.predict(changed).mean.mean() - fit.predict(TABLE).mean.mean()
            assert step == pytest.approx(expected, abs=1e-10)
    with pytest.raises(ValueError, match="not seen: zz"):
        bd.marginal_effects(post, TABLE.assign(site="zz"))
    assert contrasts_of(encode_formula(FORMULA, TABLE), None).matrix.shape == (3, 16)


def test_a_level_that_was_not_sampled_is_drawn_from_the_scale(post):
    """Its effect is normal with the standard deviation of each draw, the same wherever the level stands."""
    from bayesdrop.posterior.draws.draws import read_draws
    from bayesdrop.posterior.draws.new_rows import for_rows, with_unseen

    new = TABLE.iloc[:3].assign(site=["s0", "zz", "zz"])
    draws = for_rows(with_unseen(read_draws(post), "draw"), new)
    assert draws.feature_names[-2:] == ["1|site[zz]", "scale(b)|site[zz]"]
    scale = bd.groups.dataset(post, "posterior")["1|site|scale"].values.ravel()
    levels = TABLE.iloc[[0] * 200].assign(site=[f"new{k}" for k in range(200)])
    many = for_rows(with_unseen(read_draws(post), "draw"), levels)
    number = [k for k, name in enumerate(many.feature_names) if name.startswith("1|site[new")]
    z = many.weight[:, number] / scale[:, None]
    # 16,000 standard normal numbers: mean, variance and dependence between levels within 5 standard errors.
    assert abs(z.mean()) < 5 / np.sqrt(z.size)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / z.size)
    assert abs(np.mean(z[:, ::2] * z[:, 1::2])) < 5 / np.sqrt(z.size / 2)
    again = bd.predict(post, new.iloc[[2, 1]], unseen="draw")
    whole = bd.predict(post, new, unseen="draw")
    np.testing.assert_allclose(again.mean[::-1], whole.mean[1:], rtol=0, atol=1e-14)
    assert np.any(bd.predict(post, new, unseen="draw", seed=1).mean[1:] != whole.mean[1:])
    known = bd.predict(post, new, unseen="draw", seed=1).mean[0]
    assert known == pytest.approx(whole.mean[0], abs=1e-14)
    assert bd.posterior_predictive(post, new, new=True, unseen="draw") is not None
    assert np.isfinite(bd.elpd(post, new, unseen="draw").elpd)


@pytest.mark.slow
def test_results_say_the_same_in_another_process(post, tmp_path):
    new = TABLE.iloc[:6].assign(site=["s0", "zz", "s3", "s1", "s4", "zz"])
    fit = fitted(random_scale=0.5)
    fit.save(tmp_path / "fit.nc")
    bd.groups.save(post, tmp_path / "post.nc")
    (tmp_path / "new.pkl").write_bytes(pickle.dumps(new.to_dict("list")))
    code = (
        "import pickle, sys, numpy as np, bayesdrop as bd\n"
        "new = pickle.load(open(sys.argv[1] + '/new.pkl', 'rb'))\n"
        "fit, post = bd.Fit.load(sys.argv[1] + '/fit.nc'), bd.groups.load(sys.argv[1] + '/post.nc')\n"
        "results = (fit, 'population'), (post, 'draw')\n"
        "np.save(sys.argv[1] + '/mean.npy', [bd.predict(result, new, unseen=how).mean for result, how in results])\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    found = np.load(tmp_path / "mean.npy")
    expected = [bd.predict(result, new, unseen=how).mean for result, how in ((fit, "population"), (post, "draw"))]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_folds_take_the_formula_with_its_scale():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws
        found = bd.kfold(
            bd.Model(rates=bd.Fixed(0.0)), "ill ~ a + (1 | site)", TABLE, cv=2, draws=30, tune=30, chains=2,
            progress=False, random_scale=bd.HalfNormal(0.5),
        )  # fmt: skip
    assert found.pointwise.shape == (N,)
