"""Reading a table: encoding, names, groups, and what is refused."""

import gzip

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from bayesdrop.data.table_files import InputError
from bayesdrop.data.tables import encode, read_table


def test_columns_become_features_and_groups(shop):
    table = encode(shop, "bought")
    assert table.feature_names == [
        "age", "visits", "color[blue]", "color[green]", "color[red]", "member[False]", "member[True]",
    ]  # fmt: skip
    assert table.groups == ["age", "visits", "color", "color", "color", "member", "member"]
    np.testing.assert_allclose(table.X[:, :2].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(table.X[:, :2].std(axis=0), 1)
    np.testing.assert_array_equal(table.X[:, 4], shop["color"] == "red")
    np.testing.assert_array_equal(table.X[:, 2:5].sum(axis=1), 1)
    assert set(table.y) == {"no", "yes"}


def test_factors_are_those_of_a_formula(shop):
    """One name and one order of levels, whether a table or a formula makes the columns."""
    pytest.importorskip("formulaic")
    from bayesdrop.data.formulas.formula import from_formula

    table, design = encode(shop, "bought"), from_formula("bought ~ color", shop)
    assert design.feature_names == table.feature_names[2:5]
    np.testing.assert_array_equal(np.asarray(design.X), table.X[:, 2:5])


def test_standardising_can_be_undone(shop):
    table = encode(shop, "bought")
    np.testing.assert_allclose(table.X[:, 0] * table.scale[0] + table.centre[0], shop["age"])
    plain = encode(shop, "bought", standardize=False)
    np.testing.assert_array_equal(plain.X[:, 0], shop["age"])


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "pq"])
def test_formats_hold_the_same(shop, tmp_path, suffix):
    path = tmp_path / f"shop.{suffix}"
    if suffix in ("parquet", "pq"):
        shop.to_parquet(path)
    else:
        text = shop.to_csv(index=False, sep="\t" if suffix == "tsv" else ",")
        path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    table, expected = read_table(path, "bought"), encode(shop, "bought")
    assert table.feature_names == expected.feature_names
    np.testing.assert_allclose(table.X, expected.X, atol=1e-12)
    np.testing.assert_array_equal(table.y, expected.y)


def test_polars_writes_what_is_read(shop, tmp_path):
    pl = pytest.importorskip("polars")
    pl.DataFrame({name: shop[name].tolist() for name in shop}).write_parquet(tmp_path / "shop.parquet")
    assert read_table(tmp_path / "shop.parquet", "bought").groups == encode(shop, "bought").groups


def test_categories_keep_their_order(shop):
    shop["size"] = pd.Categorical(["large", "small"] * 60, categories=["small", "large", "never"], ordered=True)
    names = encode(shop, "bought").feature_names
    assert names[-2:] == ["size[small]", "size[large]"]


def test_nullable_and_boolean_targets(shop):
    shop["age"] = shop["age"].round().astype("Int64")
    shop["bought"] = shop["bought"] == "yes"
    table = encode(shop, "bought")
    assert set(table.y) == {"False", "True"}
    assert table.X.dtype == np.float64


@pytest.mark.parametrize("standardize", [True, False])
def test_constant_columns_enter_as_zeros(shop, standardize):
    shop["unit"], shop["country"] = 7.0, "here"
    table = encode(shop, "bought", standardize=standardize)
    assert table.constant == ["unit", "country[here]"]
    chosen = [table.feature_names.index(name) for name in table.constant]
    assert not table.X[:, chosen].any()
    assert any("constant" in note for note in table.notes)


def test_many_levels_stay_sparse_and_are_remarked(shop):
    shop["customer"] = [f"c{i}" for i in range(len(shop))]
    assert encode(shop, "bought").identifiers == ["customer"]
    shop["customer"] = [f"c{max(i, 5)}" for i in range(len(shop))]
    table = encode(shop, "bought", dense_cells=1000)
    assert sparse.issparse(table.X)
    assert table.X.nnz <= 5 * len(shop)
    assert any("--drop 'customer'" in note for note in table.notes)
    np.testing.assert_allclose(encode(shop, "bought").X, table.X.toarray())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(age=f["age"].where(f.index > 2), color=f["color"].where(f.index > 0)),
         "missing values in 'age' \\(3 of 120\\), 'color' \\(1 of 120\\)"),
        (lambda f: f.assign(bought=f["bought"].where(f.index > 4)), "'bought' \\(5 of 120\\)"),
        (lambda f: f.assign(age=f["age"].where(f.index > 0, np.inf)), "'age' has 1 infinite value;"),
        (lambda f: f.assign(bought="yes"), "got 1: yes \\(120 rows\\); give a table"),
        (lambda f: f.assign(bought=[f"b{k}" for k in range(120)]), "got 120: .* nearly every row is a class"),
        (lambda f: f.assign(bought=1.5), "got 1: 1.5 \\(120 rows\\); give a table"),
        (lambda f: f[["bought"]].assign(who=[f"b{k}" for k in range(120)]), "'who' only tell rows apart"),
        (lambda f: f.iloc[:0], "no rows"),
        (lambda f: f[["bought"]], "no column is left"),
        (lambda f: f.assign(wait=pd.Timedelta(days=1)), "'wait' holds timedelta64 values"),
        (lambda f: f[["bought"]].assign(day=pd.Timestamp("2020-01-01")), "'day' only tell rows apart or hold dates"),
        (lambda f: f.assign(pair=[[1, 2]] * 120), "'pair' holds mixed values"),
        (lambda f: f.assign(z=1j), "'z' holds complex"),
        (lambda f: f.assign(**{"color[red]": f["age"]}), r"two features would both be called 'color\[red\]'"),
        (lambda f: f[["bought"]].assign(a=1, b="x"), "every feature is constant"),
    ],
)  # fmt: skip
def test_bad_columns(shop, change, message):
    with pytest.raises(InputError, match=message):
        encode(change(shop), "bought")


def test_unknown_columns(shop):
    with pytest.raises(InputError, match="--target: no column 'boght'.*did you mean 'bought'"):
        encode(shop, "boght")
    with pytest.raises(InputError, match="--drop: no column 'zzz'. The columns"):
        encode(shop, "bought", ["zzz"])
    with pytest.raises(InputError, match="--drop: 'bought' is the target"):
        encode(shop, "bought", ["bought"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.xlsx", "a,b\n", "unknown format of t.xlsx"),
        ("t", "a,b\n", "unknown format of t;"),
        ("t.csv", "", "t.csv is empty"),
        ("t.csv", "a,b,a\n1,2,3\n", "the column name 'a' occurs more than once"),
        ("t.csv", "a,b\n1,2,3\n4,5,6\n", "more fields than its header"),
        ("t.csv", "a,b\n1,2\n4,5,6\n", "line 3 of t.csv has more fields than its header, 3 instead of 2"),
        ("t.csv", "a,b\n1,2\n\n4\n", "line 4 of t.csv has less fields than its header, 1 instead of 2"),
        ("t.csv", 'a,b\n1,"2\n4,5\n', "cannot be read as csv: line 3: .*a quote that is not closed"),
        ("t.csv", "a,b\n1,yes\n\x002,no\n", "line 3 of t.csv holds a NUL byte"),
        ("t.csv.gz", "a,b\n", "cannot be read as csv"),
        ("t.parquet", "no parquet", "cannot be read as parquet"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name, "b")


def test_absent_file_and_folder(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_table(tmp_path / "absent.csv", "b")
    with pytest.raises(InputError, match="is a folder"):
        read_table(tmp_path, "b")


@pytest.mark.parametrize(
    ("values", "apart"),
    [
        ([f"p{k}" for k in range(120)], True),
        (list(range(500, 620))[::-1], True),
        ([2 * k for k in range(120)], False),
        ([k / 2 for k in range(120)], False),
        ([f"p{k}" for k in range(119)] + ["p0"], False),
    ],
)
def test_columns_that_tell_rows_apart_are_left_out_unless_kept(shop, values, apart):
    shop["who"] = values
    table = encode(shop, "bought")
    assert table.identifiers == (["who"] if apart else [])
    assert ("who" in table.groups) != apart
    assert any("'who' left out" in note for note in table.notes) == apart
    assert "who" in encode(shop, "bought", keep=["who"]).groups


@pytest.mark.parametrize(
    ("target", "response", "classes"),
    [
        ("color", "auto", 3),
        ("visits", "auto", -1),
        ("age", "auto", 0),
        ("visits", "number", 0),
        ("member", "classes", 2),
    ],
)
def test_kinds_of_responses(shop, target, response, classes):
    table = encode(shop, target, response=response)
    wanted = shop[target].nunique() if classes == -1 else classes
    assert table.classes == wanted
    assert any("whole numbers: classes" in note for note in table.notes) == (classes == -1)
    np.testing.assert_array_equal(table.y, shop[target].astype(str) if target in ("color", "member") else shop[target])


def test_a_text_is_no_number(shop):
    with pytest.raises(InputError, match="a loss for numbers needs a column of numbers, got 'color'"):
        encode(shop, "color", response="number")


@pytest.mark.parametrize(("separator", "decimal"), [(";", ","), (";", "."), ("\t", "."), ("|", ".")])
def test_separators_are_found(shop, tmp_path, separator, decimal):
    shop.assign(note="a, b; c").to_csv(tmp_path / "shop.csv", index=False, sep=separator, decimal=decimal)
    table, expected = read_table(tmp_path / "shop.csv", "bought", ["note"]), encode(shop, "bought")
    assert table.feature_names == expected.feature_names
    np.testing.assert_allclose(table.X, expected.X, atol=1e-12)


@pytest.mark.parametrize("standardize", [True, False])
def test_an_encoding_makes_the_same_features_of_the_same_rows(shop, standardize):
    import xarray as xr

    from bayesdrop.data.encoding import Encoding

    table = encode(shop.assign(unit=2.0), "bought", standardize=standardize)
    kept = Encoding.of(table.encoding.add_to(xr.Dataset(coords={"feature": table.feature_names})))
    X, notes = kept.apply(shop.assign(unit=2.0)[["unit", *shop.columns[::-1]]].astype({"color": "category"}))
    np.testing.assert_allclose(X, table.X, atol=1e-12)
    assert notes == []
    with pytest.raises(InputError, match="TABLE: no column 'unit'"):
        kept.apply(shop)
    with pytest.raises(InputError, match="missing values in 'age' \\(1 of 120\\)"):
        kept.apply(shop.assign(unit=2.0, age=shop["age"].where(shop.index > 0)))
    with pytest.raises(InputError, match="'age' was a number when the model was fitted"):
        kept.apply(shop.assign(unit=2.0, age="old"))
