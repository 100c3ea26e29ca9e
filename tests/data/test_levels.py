"""The rule of levels: the same value is the same level, whatever its type, in fixed and in random factors."""

from datetime import date, datetime
from decimal import Decimal
from hashlib import md5

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd
from bayesdrop.data.formulas.encoder import FormulaEncoder
from bayesdrop.data.formulas.formula import encode_formula
from bayesdrop.data.levels import KnownLevels, level_text, plain_level

SAME = [
    (1, ["1", " 1", "1.0", "1e0", 1.0, np.int32(1), np.float32(1), True, np.True_, "True", "true"]),
    ("1", [1, 1.0, True, " 1 "]),
    (True, [1, 1.0, "True", "TRUE", "1", np.True_]),
    (0.1, ["0.1", "1e-1", ".1", "0.10"]),
    ("west", [" west", "west ", np.str_("west")]),
    ("2020-01-01", ["2020-01-01 00:00:00", pd.Timestamp("2020-01-01"), date(2020, 1, 1), np.datetime64("2020-01-01")]),
    (2**53, [2.0**53, str(2**53), f"{2**53}.0"]),
    (10**20, [1e20, "1e20"]),
    (datetime(2020, 1, 1, 12, 30), ["2020-01-01 12:30", "2020-01-01T12:30:00", pd.Timestamp("2020-01-01 12:30:00")]),
]
DIFFERENT = [
    ("01067", 1067), ("1.10", "1.1"), ("1.0", "1"), (1, 2), ("a", "A"), (0.1, 0.1 + 1e-16 * 2**4), ("1,5", 1.5),
    ("2020-01-01", "2020-01-02"), (1e300, "1e301"), ("nan", "inf"), ("", 0), (2**53, 2**53 + 1),
    (2**53, str(2**53 + 1)), (2.0**53, str(2**53 + 1)), (2.0**60, 2**60 + 1), (str(2**64 - 1), 2**64 - 2),
]  # fmt: skip


@pytest.mark.parametrize(("level", "others"), SAME)
def test_the_same_value_is_the_same_level(level, others):
    for other in others:
        assert KnownLevels([level]).find(other) == 0, other
        assert KnownLevels([other]).find(level) == 0, other


@pytest.mark.parametrize(("level", "other"), DIFFERENT)
def test_other_values_are_other_levels(level, other):
    assert KnownLevels([level]).find(other) == KnownLevels([other]).find(level) == -1


def test_a_number_is_the_plainest_of_texts_that_read_as_it():
    for levels in (["1.10", "1.1"], ["1.1", "1.10"]):
        assert KnownLevels(levels).levels[KnownLevels(levels).find(1.1)] == "1.1"


def test_every_level_is_found_again_as_it_was_stored():
    levels = [plain_level(value) for value in (3, 2.5, "a", True, "01", "1.10", pd.Timestamp("2020-05-05 01:02:03"))]
    known = KnownLevels(levels)
    assert known.levels == levels
    assert known.codes(levels).tolist() == list(range(len(levels)))
    assert len({level_text(level) for level in levels}) == len(levels)


N = 40
GENERATOR = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "y": GENERATOR.normal(size=N),
        "x": GENERATOR.normal(size=N),
        "code": np.arange(N) % 3,
        "flag": np.arange(N) % 2 == 0,
        "word": [("a", "b", "c")[k % 3] for k in range(N)],
        "day": pd.to_datetime("2020-01-01") + pd.to_timedelta(np.arange(N) % 4, "D"),
        "left": np.where(np.arange(N) % 2 == 0, "x:y", "x"),
        "right": np.where(np.arange(N) % 2 == 0, "z", "y:z"),
    }
)
FORMS = {
    "code": [lambda c: c.astype(float), lambda c: c.astype(str), lambda c: c.map(" {}.0".format), pd.Categorical],
    "flag": [lambda c: c.astype(int), lambda c: c.astype(float), lambda c: c.astype(str), lambda c: c.astype(object)],
    "word": [lambda c: " " + c, lambda c: c + " ", pd.Categorical],
    "day": [lambda c: c.astype(str), lambda c: c.dt.strftime("%Y-%m-%dT%H:%M:%S"), lambda c: c.dt.date],
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("random", [False, True])
def test_fixed_and_random_factors_know_their_levels_in_every_form(name, random):
    formula = f"y ~ x + (1 | {name})" if random else f"y ~ x + C({name})"
    design = encode_formula(formula, TABLE)
    assert design.X.shape[1] == 1 + TABLE[name].nunique()
    again = FormulaEncoder.from_json(design.to_json())
    for form in FORMS[name]:
        other = TABLE.assign(**{name: form(TABLE[name])})
        for encoder in (design, again):
            np.testing.assert_array_equal(encoder.transform(other), design.X)
        learnt = encode_formula(formula, other)
        np.testing.assert_array_equal(learnt.transform(TABLE)[:, 1:].sum(axis=1), 1)
        order = [np.flatnonzero((learnt.transform(TABLE) == column[:, None]).all(axis=0))[0] for column in design.X.T]
        assert sorted(order) == list(range(design.X.shape[1]))


def test_levels_of_several_columns_are_not_joined():
    design = encode_formula("y ~ x + (1 | left:right)", TABLE)
    assert design.feature_names[1:] == ["1|left:right[x:'y:z']", "1|left:right['x:y':z]"]
    np.testing.assert_array_equal(design.X[:, 1:].sum(axis=0), [N / 2, N / 2])
    again = FormulaEncoder.from_json(design.to_json())
    np.testing.assert_array_equal(again.transform(TABLE), design.X)


def test_blanks_around_texts_make_no_levels():
    table = TABLE.assign(word=np.where(np.arange(N) < 9, TABLE.word + " ", TABLE.word))
    for formula in ("y ~ word", "y ~ C(word)", "y ~ x + (1 | word)", "y ~ x:word"):
        assert encode_formula(formula, table).feature_names == encode_formula(formula, TABLE).feature_names


@pytest.mark.parametrize("formula", ["y ~ {}", "y ~ 0 + (1 | id)"])
@pytest.mark.parametrize("kind", [str, np.int64])
def test_long_ids_are_compared_exactly(formula, kind):
    ids = [1234567890123456780, 1234567890123456789, 2**53, 2**53 + 1]
    table = pd.DataFrame({"id": ids * 3, "y": np.arange(12.0)})
    design = encode_formula(formula.format("id" if kind is str else "C(id)"), table.astype({"id": kind}), sparse=False)
    for encoder in (design, FormulaEncoder.from_json(design.to_json())):
        for other in (str, np.int64, object, "category"):
            np.testing.assert_array_equal(encoder.transform(table.astype({"id": other})), design.X)
        for unknown in (1234567890123456785, "1234567890123456785", float(ids[1]), 2**53 + 2):
            with pytest.raises(ValueError, match="not seen"):
                encoder.transform(pd.DataFrame({"id": [unknown]}))
        np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"id": [2.0**53]})), design.X[[2]])
    np.testing.assert_array_equal(design.X.sum(axis=0), 3)


VALUES = {
    "intervals": (pd.cut(TABLE.code, [-1, 0, 1, 10]), ["(-1, 0]", "(0, 1]", "(1, 10]"]),
    "wide intervals": (pd.cut(TABLE.code * 10, [-1, 9, 10, 20]), ["(-1, 9]", "(9, 10]", "(10, 20]"]),
    "dates": (TABLE.day, ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"]),
    "dates of Python": (TABLE.day.dt.date, ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"]),
    "periods": (TABLE.day.dt.to_period("D"), ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"]),
    "durations": (TABLE.day - TABLE.day[0], [f"{k} days 00:00:00" for k in range(4)]),
    "decimals": (TABLE.code.map(Decimal), ["0", "1", "2"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_kind_are_levels_and_go_into_files(kind, tmp_path):
    values, texts = VALUES[kind]
    table = TABLE.assign(k=values.astype("category"))
    for formula, data in (("y ~ k", table), ("y ~ C(k)", table), ("y ~ C(k)", table.assign(k=values.astype(object)))):
        fit = bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.1)), formula, data)
        assert fit.feature_names == [f"{formula[4:]}[{text}]" for text in texts]
        fit.save(tmp_path / "fit.nc")
        for result in (fit, bd.Fit.load(tmp_path / "fit.nc")):
            for other in (data, table, data.assign(k=values.map(plain_level).astype(str))):
                np.testing.assert_array_equal(bd.predict(result, other).mean, bd.predict(fit, data).mean)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_columns_of_every_kind_in_python_code_do_not_lose_the_draws():
    post = bd.sample(
        bd.Model(bd.Squared(variance=1.0)), "y ~ {day.dt.day} + x", TABLE, draws=20, tune=20, chains=2, progress=False
    )
    assert np.isfinite(bd.predict(post, TABLE).mean).all()


@pytest.fixture(scope="module")
def post():
    return bd.sample(
        bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.1)), "y ~ x + word + (1 | code)", TABLE, draws=50, tune=50,
        chains=2, progress=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_level_that_was_never_seen_is_an_error_unless_unseen_says_otherwise(post):
    new, strange = TABLE.iloc[:4].assign(code=[0, 7, 7, 8]), TABLE.iloc[:4].assign(word=["a", "b", "c", "q"])
    functions = [
        lambda **how: bd.predict(post, new, **how),
        lambda **how: bd.posterior_predictive(post, new, new=True, **how),
        lambda **how: bd.elpd(post, new, **how),
    ]
    for function in functions:
        with pytest.raises(ValueError, match=r"levels of \(1\|code\).* not seen: 7, 8; .*unseen=\"population\".*draw"):
            function()
        function(unseen="population")
        function(unseen="draw")
    for others in (
        lambda: bd.comparisons(post, new),
        lambda: bd.marginal_effects(post, new),
        lambda: bd.elpd(post, new),
        lambda: encode_formula("y ~ x + (1 | code)", TABLE).transform(new),
    ):
        with pytest.raises(ValueError, match="not seen"):
            others()
    mean = bd.predict(post, new, unseen="population").mean
    known = encode_formula("y ~ x + word + (1 | code)", TABLE, unseen="population")
    assert not known.transform(new)[1, -3:].any()
    drawn = bd.predict(post, new, unseen="draw")
    assert drawn.sd[1] > bd.predict(post, new, unseen="population").sd[1]
    np.testing.assert_allclose(mean[0], drawn.mean[0])
    with pytest.raises(ValueError, match="not seen"):
        bd.predict(post, strange)
    with pytest.raises(ValueError, match=r"a fixed factor has no scale.*\(1 \| site\)"):
        bd.predict(post, strange, unseen="draw")
    np.testing.assert_array_equal(known.transform(strange)[3, 1:4], [0, 0, 0])


CODE = {"C(word.str.upper())": "word", "word.str.upper()": "word", "{word + '!'}:x": "word:x"}


@pytest.mark.parametrize("text", CODE)
@pytest.mark.parametrize("missing", [None, "nan"])
def test_unseen_levels_of_python_code_are_treated_as_those_of_columns(text, missing):
    code, column = (
        bd.from_formula(f"y ~ {term}", TABLE, unseen="population", missing=missing, sparse=False)
        for term in (text, CODE[text])
    )
    new = TABLE.iloc[:3].assign(word=["q", "b", "c"])
    np.testing.assert_array_equal(code.transform(new), column.transform(new))
    assert not code.transform(new)[0].any()
    gap = new.assign(word=["q", None, "c"])
    if missing == "nan":
        np.testing.assert_array_equal(code.transform(gap), column.transform(gap))
    else:
        with pytest.raises(ValueError, match="missing values in 'word'"):
            code.transform(gap)
    strict = bd.from_formula(f"y ~ {text}", TABLE, missing=missing)
    with pytest.raises(ValueError, match='not seen.*[qQ].*unseen="population"'):
        strict.transform(new)


def test_a_point_fit_has_no_draws_of_new_levels():
    model = bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0))
    fit = bd.fit(model, "y ~ x + (1 | code)", TABLE, random_scale=0.5)
    new = TABLE.iloc[:2].assign(code=9)
    with pytest.raises(ValueError, match="not seen"):
        fit.predict(new)
    expected = fit.intercept + new.x * fit.weight[0]
    np.testing.assert_allclose(fit.predict(new, unseen="population").mean, expected, rtol=1e-12)
    for call in (
        lambda: fit.predict(new, unseen="draw"),
        lambda: bd.fit(model, "y ~ x + (1 | code)", TABLE, random_scale=0.5, unseen="draw"),
    ):
        with pytest.raises(ValueError, match="bd.sample"):
            call()


LABELS = {
    "word['b']": (["not b", "b"], lambda t: np.where(t.word == "b", "b", "not b")),
    "flag[1]": ([False, True], lambda t: t.flag),
    "two['no']": (["yes", "no"], lambda t: t.two),
    "code['2']": (["not 2", "2"], lambda t: np.where(t.code == 2, "2", "not 2")),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("left", LABELS)
def test_a_label_names_the_classes(left, tmp_path):
    table = TABLE.assign(two=np.where(np.arange(N) % 3 == 0, "no", "yes"))
    names, labels = LABELS[left]
    fit = bd.fit(f"{left} ~ x", table)
    assert fit.classes.tolist() == names
    reference = bd.fit(bd.Model(), table[["x"]], labels(table) == names[1])
    np.testing.assert_allclose(fit.weight, reference.weight, rtol=1e-6)
    post = bd.sample(bd.Model(), f"{left} ~ x", table, draws=30, tune=30, chains=2, progress=False)
    fit.save(tmp_path / "fit.nc")
    post.to_netcdf(tmp_path / "post.nc")
    for result in (fit, post, bd.Fit.load(tmp_path / "fit.nc"), bd.groups.load(tmp_path / "post.nc")):
        found = bd.predict(result, table)
        assert found.classes.tolist() == names
        assert set(found.label.tolist()) <= set(names)
        scores = bd.elpd(result, table).pointwise
        np.testing.assert_array_equal(scores, bd.elpd(result, table, labels(table)).pointwise)
        # A table may have no row with the label.
        one = table[np.asarray(labels(table)) == names[0]]
        np.testing.assert_allclose(
            bd.elpd(result, one).pointwise, scores[np.asarray(labels(table)) == names[0]], rtol=1e-9
        )
    weighted = bd.fit(bd.Model(), f"{left} ~ x", table, class_weight={names[1]: 3.0})
    assert weighted.class_weight == {names[0]: 1.0, names[1]: 3.0}
    assert weighted.intercept > fit.intercept


@pytest.mark.parametrize("term", ["hashed(code, levels=8)", "hashed(I(code), levels=8)", "C(hashed(code, levels=8))"])
def test_a_hash_is_that_of_the_level(term):
    data = pd.DataFrame({"code": np.arange(40) % 20, "y": np.arange(40.0)})
    design = bd.from_formula(f"y ~ {term}", data, sparse=False)
    texts = data.code.astype(str)
    for other in (data.code.astype(float), texts, " " + texts, data.code.astype("Int64")):
        np.testing.assert_array_equal(design.transform({"code": other}), design.X)
    gap = data.assign(code=data.code.where(data.index != 7))
    X = bd.from_formula(f"y ~ {term}", gap, missing="nan").X
    np.testing.assert_array_equal(X[np.arange(40) != 7], design.X[np.arange(40) != 7])
    days = pd.DataFrame({"code": pd.date_range("2020-01-01", periods=40), "y": np.arange(40.0)})
    design = bd.from_formula(f"y ~ {term}", days, sparse=False)
    for other in (days.code.astype(str), days.code.dt.date):
        np.testing.assert_array_equal(design.transform({"code": other}), design.X)


def test_texts_and_integers_keep_their_hashes():
    for value in ("n", "2.0", 17, 2.5, True):
        data = pd.DataFrame({"code": [value, value], "y": [0.0, 1.0]})
        design = bd.from_formula("y ~ hashed(code, levels=7)", data, sparse=False)
        place = int(md5(str(value).encode(), usedforsecurity=False).hexdigest(), 16) % 7
        assert design.X[0].tolist() == np.eye(7)[place].tolist()
        assert not design.outside


@pytest.mark.parametrize("values", [["n ", "s"], [" 2020-01-01", "2020-01-02"]])
def test_factors_have_the_same_blanks_in_expressions_on_other_rows(values):
    first = values[0].strip()
    data = pd.DataFrame({"site": values * 6, "age": np.arange(12.0) + 1, "y": np.arange(12.0)})
    for term in (f"I(site == '{first}'):age", f"site.isin(['{first}']):age", f"np.where(site == '{first}', age, 0)"):
        design = bd.from_formula(f"y ~ site + {term}", data, sparse=False)
        for table in (data, data.assign(site=pd.Categorical(data.site))):
            np.testing.assert_array_equal(design.transform(table), design.X)
        assert design.X[:, -1].sum() > 0
    design = bd.from_formula(f"{{site == '{first}'}} ~ C(site)", data)
    np.testing.assert_array_equal(design.response_of(data), design.y)
    declared = data.assign(site=pd.Categorical(data.site))
    design = bd.from_formula(f"y ~ site + I(site == '{values[0]}')", declared, sparse=False)
    for table in (declared, data):
        np.testing.assert_array_equal(design.transform(table), design.X)


def test_dates_that_are_factors_are_texts_in_expressions_on_other_rows():
    data = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=3).repeat(4), "y": np.arange(12.0)})
    design = bd.from_formula("y ~ C(day) + I(day == '2020-01-02')", data, sparse=False)
    np.testing.assert_array_equal(design.transform(data), design.X)


@pytest.mark.parametrize("term", ["C(id)", "hashed(id, levels=3)", "(1 | id)", "y2:C(`id`)"])
def test_long_ids_with_gaps_are_no_levels(term):
    """As doubles, neighbouring ids would be one level."""
    ids = pd.array([2**60, 2**60 + 1, None, 2**60 + 2], dtype="Int64")
    data = pd.DataFrame({"id": ids, "y2": np.arange(1.0, 5), "y": np.arange(4.0)})
    for options in ({"missing": "nan"}, {"dropna": True}):
        with pytest.raises(ValueError, match="levels of 'id' such as 1152921504606846976 are doubles"):
            encode_formula(f"y ~ {term}", data, **options)
    assert bd.from_formula("y ~ id", data, dropna=True).X.shape == (3, 1)
    whole = encode_formula(f"y ~ {term}", data.dropna().astype({"id": int}))
    assert whole.X.shape[1] == 3
