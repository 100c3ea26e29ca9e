"""Text that holds numbers but for a few cells, or a level for nearly every row, is refused unless someone insists."""

import numpy as np
import pandas as pd
import pytest

import bayesdrop as bd

N = 60
GENERATOR = np.random.default_rng(1)


def _spoilt(*places, mark="-"):
    cells = GENERATOR.normal(size=N).round(3).astype(str).astype(object)
    cells[list(places)] = mark
    return cells


TABLE = pd.DataFrame(
    {
        "ill": GENERATOR.choice(["no", "yes"], N),
        "size": GENERATOR.normal(size=N),
        "one": _spoilt(7),
        "four": _spoilt(1, 20, 30, 40, mark="n/a"),
        "all": _spoilt(),
        "id": [f"p{k}" for k in range(N)],
        "grade": [("1", "2", "3")[k % 3] for k in range(N)],
        "zip": [f"{1000 + k % 20:05d}" for k in range(N)],
        "town": [f"t{k % 30}" for k in range(N)],
    }
)
REFUSED = {
    "one": r"'one' is text, and holds numbers but for 1 of 60 cells, row 7 '-'; .*pd.to_numeric\(data\['one'\], errors",
    "four": r"4 of 60 cells, row 1 'n/a', row 20 'n/a', row 30 'n/a' and 1 more; .*pd.to_numeric",
    "all": r"holds numbers; make numbers of it by pd.to_numeric\(data\['all'\]\)",
    "id": r"has 60 levels in 60 rows, such as row 0 'p0', row 1 'p1'; .*C\(id\) or make it a pandas.Categorical",
}


@pytest.mark.parametrize("name", REFUSED)
def test_text_that_is_no_factor_is_refused(name):
    for formula in (f"ill ~ {name}", f"ill ~ size * {name}", "ill ~ ."):
        table = TABLE[["ill", "size", name]]
        with pytest.raises(ValueError, match=REFUSED[name]):
            bd.from_formula(formula, table)
    with pytest.raises(ValueError, match=rf"column '{name}' is text"):
        bd.fit(f"{name} ~ size", TABLE)
    insisted = bd.from_formula(f"ill ~ C({name})", TABLE)
    assert insisted.X.shape == (N, TABLE[name].nunique())
    declared = bd.from_formula(f"ill ~ {name}", TABLE.assign(**{name: pd.Categorical(TABLE[name])}))
    assert declared.X.shape == insisted.X.shape
    # What the message says to do is taken.
    if name != "id":
        numbers = pd.to_numeric(TABLE[name], errors="coerce")
        assert bd.from_formula(f"ill ~ {name}", TABLE.assign(**{name: numbers}), dropna=True).feature_names == [name]


@pytest.mark.parametrize("name", ["grade", "zip", "town"])
def test_codes_and_few_levels_are_factors(name):
    assert bd.from_formula(f"ill ~ {name}", TABLE).X.shape[1] == TABLE[name].nunique()


def test_small_tables_and_random_terms_are_left_alone():
    data = {"ill": ["no", "yes", "no"], "site": ["a", "b", "c"], "age": ["1", "2", "3"]}
    assert len(bd.from_formula("ill ~ site + age", data).feature_names) == 6
    bd.fit("ill ~ size + (1 | id)", TABLE, random_scale=1.0)


@pytest.mark.parametrize("name", ["one", "four"])
def test_a_frame_of_features_names_the_cells_too(name):
    for call in (
        lambda: bd.fit(bd.Model(), TABLE[["size", name]], TABLE["ill"]),
        lambda: bd.DropoutLogisticRegression().fit(TABLE[["size", name]], TABLE["ill"]),
        lambda: bd.fit(bd.Model(), TABLE[["size", name]].to_numpy(), TABLE["ill"]),
    ):
        with pytest.raises(ValueError, match=r"got text in \d of 60 cells: row \d '.*pd.to_numeric\(column, errors="):
            call()


def test_other_text_in_a_frame_is_to_be_encoded():
    with pytest.raises(ValueError, match="OneHotEncoder"):
        bd.fit(bd.Model(), TABLE[["size", "id"]], TABLE["ill"])


def test_numbers_stored_as_objects_are_numbers():
    """They were levels, one for each row of a measurement."""
    table = pd.DataFrame(
        {"y": np.arange(6.0), "a": [1.5, 2, 3, 4, 5, 6], "k": [1, 2, 1, 2, 1, 2], "f": [True, False] * 3}
    )
    for formula in ("y ~ a + k + f", "y ~ I(a**2) + center(k) + a:f", "y ~ C(k)"):
        design, other = bd.from_formula(formula, table), bd.from_formula(formula, table.astype(object))
        assert other.feature_names == design.feature_names
        np.testing.assert_array_equal(other.X, design.X)
        np.testing.assert_array_equal(other.y, design.y)
    ids = pd.DataFrame({"y": np.arange(4.0), "id": pd.Series([2**60, 2**60 + 1, None, 2**60], dtype=object)})
    assert bd.from_formula("y ~ C(id)", ids, dropna=True).X.shape == (3, 2)
