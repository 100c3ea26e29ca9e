"""What a column is, told by its values: one table, written as people write theirs, gives the same features."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayesdrop.data.columns import Reading
from bayesdrop.data.encoding import Encoding
from bayesdrop.data.numerals import Numerals, writing
from bayesdrop.data.table_files import InputError
from bayesdrop.data.tables import encode, read_table

N = 60


@pytest.fixture(scope="module")
def clean():
    """Numbers with two decimals, some of them beyond a thousand, whole numbers, categories and codes."""
    generator = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "price": (3000 * generator.normal(size=N)).round(2),
            "age": generator.integers(18, 90, N),
            "color": generator.choice(["grün", "red", "NA", "None"], N),
            "zip": generator.choice(["01067", "80331", "10115"], N),
            "sold": generator.choice(["yes", "no"], N),
        }
    )


def _written(value, decimal, group, pattern="{}"):
    text = f"{value:,.2f}".replace(",", "_").replace(".", decimal).replace("_", group)
    return pattern.format(text)


PRICES = {
    "plain": lambda v: f"{v}",
    "German": lambda v: _written(v, ",", "."),
    "American": lambda v: _written(v, ".", ","),
    "French": lambda v: _written(v, ",", "\u202f"),
    "Swiss": lambda v: _written(v, ".", "\u2019"),
    "decimal comma alone": lambda v: _written(v, ",", ""),
    "euro before": lambda v: _written(v, ",", ".", "€ {}"),
    "euro after": lambda v: _written(v, ",", ".", "{} €"),
    "dollar": lambda v: _written(v, ".", ",", "${}").replace("$-", "-$"),
    "code of a currency": lambda v: _written(v, ".", "'", "CHF {}"),
    "percent": lambda v: _written(v, ".", "", "{} %"),
    "percent at once": lambda v: _written(v, ",", "", "{}%"),
    "unit": lambda v: _written(v, ".", "", "{} kg"),
    "unit with a power": lambda v: _written(v, ".", ",", "{}m²"),
    "accounts": lambda v: _written(v, ".", ",") if v >= 0 else f"({_written(-v, '.', ',')})",
    "minus sign": lambda v: _written(v, ".", "").replace("-", "\u2212"),
    "blanks around": lambda v: f"  {v} ",
    "powers of ten": lambda v: f"{v / 100:.4f}e2",
}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("style", PRICES)
def test_numbers_are_numbers_however_they_are_written(clean, tmp_path, style, separator):
    """The features are those of the plain table, and those of other rows are read in the same way."""
    ugly = clean.assign(price=clean["price"].map(PRICES[style]))
    ugly.to_csv(tmp_path / "ugly.csv", index=False, sep=separator)
    table, expected = read_table(tmp_path / "ugly.csv", "sold"), encode(clean, "sold")
    assert table.feature_names == expected.feature_names
    np.testing.assert_allclose(table.X, expected.X, atol=1e-9)
    kept = Encoding.of(table.encoding.add_to(xr.Dataset(coords={"feature": table.feature_names})))
    X, notes = kept.apply(ugly.drop(columns="sold"))
    np.testing.assert_allclose(X, expected.X, atol=1e-9)
    assert notes == []
    # Rows whose price shows no decimals are read by what the others showed.
    ugly[2:3].assign(price=PRICES[style](1234.5)).to_csv(tmp_path / "new.csv", index=False, sep=separator)
    fresh, _ = kept.apply(ugly[2:3].assign(price=PRICES[style](1234.5)))
    np.testing.assert_allclose(fresh[0, 0], (1234.5 - expected.centre[0]) / expected.scale[0], atol=1e-9)


@pytest.mark.parametrize("mark", ["-", "?", "#N/A", "NA", "n/a", "None", "#DIV/0!", "", "..", "\u2013"])
def test_a_few_marks_among_numbers_are_missing_values(clean, mark):
    texts = clean["price"].map(str)
    texts[[3, 30]] = mark
    with pytest.raises(InputError, match=r"missing values in 'price' \(2 of 60"):
        encode(clean.assign(price=texts), "sold")
    table = encode(clean.assign(price=texts), "sold", missing="nan")
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(table.X[:, 0])), [3, 30])
    plain = clean["price"].where(~clean.index.isin([3, 30]))
    np.testing.assert_allclose(table.X[:, 0], (plain - plain.mean()) / plain.std(ddof=0))
    assert np.isnan(table.encoding.apply(clean.assign(price=texts), "nan")[0][3, 0])


def test_cells_that_are_no_numbers_are_named(clean, tmp_path):
    ugly = clean.assign(age=clean["age"].map(str))
    ugly.loc[[4, 9], "age"] = "prefer not to say"
    ugly.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="'age' holds numbers, but not in 2 of 60 cells: line 6 'prefer not to say'"):
        read_table(tmp_path / "t.csv", "sold")
    table = read_table(tmp_path / "t.csv", "sold", missing="nan", reading=Reading(na=("prefer not to say",)))
    assert np.isnan(table.X[[4, 9], 1]).all()
    assert np.isnan(table.encoding.apply(ugly, "nan")[0][[4, 9], 1]).all()
    as_levels = read_table(tmp_path / "t.csv", "sold", reading=Reading({"age": "categories"}))
    assert "age[prefer not to say]" in as_levels.feature_names
    with pytest.raises(InputError, match="'age' was a number when the model was fitted, .* row 3 'old'"):
        encode(clean, "sold").encoding.apply(clean.assign(age=["4", "5", "old"] * 20))


def test_levels_that_look_like_missing_values_are_levels_unless_said_otherwise(clean, tmp_path):
    clean.to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", "sold")
    assert [name for name in table.feature_names if "color" in name] == [
        "color[NA]", "color[None]", "color[grün]", "color[red]"
    ]  # fmt: skip
    assert any("'NA', 'None' of 'color' is a level as others; --na NA" in note for note in table.notes)
    marked = read_table(tmp_path / "t.csv", "sold", reading=Reading(na=("NA",)), missing="nan")
    gone = (clean["color"] == "NA").to_numpy()
    columns = [name.startswith("color") for name in marked.feature_names]
    assert np.array_equal(np.isnan(marked.X[:, columns]).all(axis=1), gone)
    np.testing.assert_array_equal(marked.encoding.apply(clean, "nan")[0], marked.X)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1.5", "2", "-3e4"], "number"),
        (["01067", "80331", "10115"], "categories"),
        (["4111111111111111", "4111111111111129", "4111111111111111"], "categories"),
        (["yes", "no", "yes"], "categories"),
        (["TRUE", "false", "TRUE"], "categories"),
        (["18-25", "26-35", "65+"], "categories"),
        (["Q1", "Q2", "Q3"], "categories"),
        (["1 child", "2 children", "3 or more"], "categories"),
        ([f"{k % 28 + 1}.0{k % 9 + 1}.2024" for k in range(40)], "left out"),
        ([f"2024-0{k % 9 + 1}-{k % 28 + 1:02d}" for k in range(40)], "left out"),
        ([f"2024-0{k % 9 + 1}-{k % 28 + 1:02d}T10:{k:02d}:00Z" for k in range(40)], "left out"),
        ([f"{k % 12 + 1}/{k % 28 + 1}/2024" for k in range(40)], "left out"),
        ([f"{k % 28 + 1:02d}-Jan-2024" for k in range(40)], "left out"),
        ([f"{k % 24:02d}:{k % 60:02d}" for k in range(40)], "left out"),
        (pd.date_range("2024-01-01", periods=40), "left out"),
        (["2024-01-01", "2024-02-01", "2024-01-01"], "categories"),
        ([f"R_{k:03d}" for k in range(40)], "left out"),
        ([f"{k * k} " for k in range(40)], "number"),
        ([str(k) for k in range(40)], "left out"),
        ([f"{k} kg" if k % 2 else f"{100 * k} g" for k in range(40)], "refused"),
        (["1,5", "2.5"] * 20, "refused"),
        ([f"{k}" for k in range(19)] + ["old"], "refused"),
    ],
)
def test_kinds(cells, kind):
    frame = pd.DataFrame(
        {"x": pd.Series(cells), "other": 1.5, "y": ["a", "b"] * (len(cells) // 2) + ["b"] * (len(cells) % 2)}
    )
    frame.loc[0, "other"] = 2.0
    if kind == "refused":
        with pytest.raises(InputError, match="column 'x' holds numbers .*in 'k?g'|column 'x' holds numbers"):
            encode(frame, "y")
        return
    told = {name: taken for name, taken, _ in encode(frame, "y").column_types}
    assert told["x"] == kind


@pytest.mark.parametrize("typed", [True, False])
def test_what_is_said_of_a_column_decides(clean, typed):
    frame = clean if typed else clean.astype(str)
    as_levels = encode(frame, "sold", reading=Reading({"age": "categories", "zip": "number"}))
    assert "zip" in as_levels.numeric
    assert f"age[{clean['age'][0]}]" in as_levels.feature_names
    X, notes = as_levels.encoding.apply(clean.astype({"age": "Int64"}))
    assert notes == []
    np.testing.assert_array_equal(X, as_levels.X)
    left = encode(frame, "sold", reading=Reading({"age": "identifier"}))
    assert left.identifiers == ["age"]
    with pytest.raises(InputError, match="column 'color' holds numbers, but not in 60 of 60 cells"):
        encode(frame.assign(color="red"), "sold", reading=Reading({"color": "number"}))
    with pytest.raises(InputError, match="--types: no column 'agee'; did you mean 'age'"):
        encode(frame, "sold", reading=Reading({"agee": "number"}))


def test_a_mark_that_may_be_either_is_settled_by_the_other_columns_or_asked_for():
    y = ["a", "b"] * 5
    either = pd.DataFrame({"x": [f"{k}.{k}00" for k in range(1, 10)] + ["7"], "y": y})
    with pytest.raises(InputError, match=r"'x', row 1: '1.100' may be 1.1 or 1100; say which .* --decimal"):
        encode(either, "y", separator=";")
    thousands = [1100.0 * k for k in range(1, 10)] + [7.0]
    for mark, values in ((",", thousands), (".", [1.1 * k for k in range(1, 10)] + [7.0])):
        table = encode(either, "y", standardize=False, separator=";", reading=Reading(decimal=mark))
        np.testing.assert_allclose(table.X[:, 0], values)
        told = [f"{k}{mark}5" for k in range(10)]
        table = encode(either.assign(z=told), "y", standardize=False, separator=";")
        np.testing.assert_allclose(table.X[:, 0], values)
        assert table.encoding.numerals["x"] == Numerals(mark)
    # A comma between the columns is none for decimals.
    quoted = either.assign(x=either["x"].str.replace(".", ","))
    np.testing.assert_allclose(encode(quoted, "y", standardize=False, separator=",").X[:, 0], thousands)
    with pytest.raises(InputError, match="but not in 1 of 10 cells: row 10 '2.55'"):
        encode(either.assign(x=["1,5"] * 9 + ["2.55"]), "y")


@pytest.mark.parametrize(
    ("labels", "known"),
    [
        (["yes", "no", "NA"], 2),
        (["yes", "no", None], 2),
        (["yes", "no", "?"], 2),
        (["1", "0", "-"], 2),
        (["+", "-", ""], 2),
    ],
)
def test_rows_without_a_response_can_be_left_out(clean, labels, known):
    frame = clean.assign(sold=labels * 20)
    with pytest.raises(InputError, match=r"'sold' \(20 of 60.*--drop-missing-target"):
        encode(frame, "sold")
    table = encode(frame, "sold", drop_missing_target=True)
    assert len(table.X) == 40
    assert table.classes == known
    assert any("20 of 60 rows without a value of 'sold' left out" in note for note in table.notes)
    np.testing.assert_array_equal(table.X, encode(frame[np.arange(60) % 3 < 2].astype(str), "sold").X)
    assert set(map(str, table.y)) == set(labels[:2])


def test_labels_that_look_like_missing_values():
    frame = pd.DataFrame({"x": range(1, 61), "pain": ["None", "mild", "NA"] * 20})
    frame["x"] = frame["x"] ** 2
    with pytest.raises(InputError, match=r"'pain' \(20 of 60, 'NA'\)"):
        encode(frame, "pain")
    assert encode(frame, "pain", reading=Reading({"pain": "categories"})).classes == 3


def test_decimals_of_arrow_are_numbers(clean, tmp_path):
    from decimal import Decimal

    frame = clean.assign(price=[Decimal(f"{value:.2f}") for value in clean["price"]])
    frame.to_parquet(tmp_path / "t.parquet")
    np.testing.assert_allclose(read_table(tmp_path / "t.parquet", "sold").X, encode(clean, "sold").X)


@pytest.mark.parametrize("number", [0.0, 7.0, -12.25, 1234.5, 1234567.0, 0.125, 12.0])
def test_every_writing_of_a_number_is_that_number(number):
    """A statement of its own of the marks: what Python writes, with its marks exchanged."""
    for decimal, groups in ((".", [",", " ", "'", "\u00a0", ""]), (",", [".", " ", "\u2019", ""])):
        for group in groups:
            text = f"{number:,.3f}".replace(",", "_").replace(".", decimal).replace("_", group)
            for unit, pattern in (("", "{}"), ("€", "€{}"), ("%", "{} %"), ("km/h", "{} km/h"), ("US$", "US$ {}")):
                cell = pattern.format(text)
                assert Numerals(decimal, unit).number(cell) == number, cell
                assert writing({cell: 1}).unit == unit
                other = Numerals(decimal, unit + "x").number(cell)
                assert other is None
