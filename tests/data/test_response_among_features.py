"""A response among the features: taken out by its name, or refused, never learnt from."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bayesdrop as bd

N = 60
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RNG.normal(size=N), "ill": RNG.integers(0, 2, N), "b": RNG.normal(size=N)})
MODEL = bd.Model(rates=bd.Fixed(0.1))
STORAGES = {
    "frame": lambda table: table,
    "array": lambda table: table.to_numpy(),
    "sparse": lambda table: sparse.csr_matrix(table.to_numpy()),
    "blocks": lambda table: bd.Blocks([table.to_numpy()[:25], table.to_numpy()[25:]], columns=list(table.columns)),
}
DOORS = {
    "fit": lambda X, y: bd.fit(MODEL, X, y),
    "sample": lambda X, y: bd.sample(MODEL, X, y, draws=2, tune=2, chains=1, progress=False, method=bd.HMC()),
    "classifier": lambda X, y: bd.DropoutLogisticRegression(0.1).fit(X, y),
    "regressor": lambda X, y: bd.DropoutRidge(0.1).fit(X, y),
    "squared": lambda X, y: bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.1)), X, y),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("door", DOORS)
def test_a_column_that_equals_the_response_is_refused(storage, door):
    name = "ill" if storage in ("frame", "blocks") else "x1"
    y = TABLE["ill"].to_numpy()
    with pytest.raises(ValueError, match=f"column '{name}' equals the response in every row"):
        DOORS[door](STORAGES[storage](TABLE), y)
    other = y.copy()
    other[-1] = 1 - other[-1]
    DOORS[door](STORAGES[storage](TABLE), other)


def test_few_rows_are_refused_by_name_and_value_alone():
    few = TABLE[:10]
    with pytest.raises(ValueError, match="column 'ill' equals the response"):
        bd.fit(MODEL, few, few["ill"])
    bd.fit(MODEL, few, few["ill"].to_numpy())
    # Yesterday's value of what is predicted goes by its name too.
    bd.fit(MODEL, few, few["ill"][::-1].reset_index(drop=True))
    words = np.where(TABLE["ill"] == 1, "yes", "no")
    with pytest.raises(ValueError, match="column 'ill' equals the response"):
        bd.fit(MODEL, TABLE, words)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["numbers", "words"])
def test_blocks_take_their_response_by_name(tmp_path, kind):
    pytest.importorskip("pyarrow")
    table = TABLE if kind == "numbers" else TABLE.assign(ill=np.where(TABLE["ill"] == 1, "yes", "no"))
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    for path, part in zip(paths, (table[:25], table[25:]), strict=True):
        part.to_parquet(path)
    if kind == "numbers":
        with pytest.raises(ValueError, match="column 'ill' equals the response"):
            bd.fit(MODEL, bd.Blocks(paths), table["ill"].to_numpy())
    X = bd.Blocks(paths, target="ill")
    assert X.columns == ["a", "b"]
    whole = bd.fit(MODEL, table[["a", "b"]], table["ill"])
    for fit in (bd.fit(MODEL, X), bd.fit(MODEL, X, X.response), bd.fit(MODEL, bd.Blocks(paths, target="ill"))):
        np.testing.assert_allclose(fit.weight, whole.weight, rtol=1e-6)
        assert fit.classes.tolist() == whole.classes.tolist()
    drawn = bd.sample(MODEL, X, draws=2, tune=2, chains=1, progress=False, method=bd.HMC())
    assert bd.groups.dataset(drawn, "posterior")["weight"].shape[-1] == 2
    with pytest.raises(ValueError, match="no column 'sick'"):
        bd.Blocks(paths, target="sick")
    with pytest.raises(ValueError, match="target: expected Parquet files"):
        bd.Blocks([TABLE.to_numpy()], target="ill")
    kept = X[np.arange(N) % 2 == 0]
    half = bd.fit(MODEL, table[["a", "b"]][::2], table["ill"][::2])
    np.testing.assert_allclose(bd.fit(MODEL, kept).weight, half.weight, rtol=1e-6)


def test_a_formula_over_blocks_says_what_to_do():
    X = bd.Blocks([TABLE[["a", "b"]].to_numpy()], columns=["a", "b"])
    for call in (lambda: bd.fit("ill ~ a", X), lambda: bd.fit(MODEL, "ill ~ a", X), lambda: bd.sample("ill ~ a", X)):
        with pytest.raises(TypeError, match=r"bd\.from_formula.*bd\.Blocks\(lambda"):
            call()
    pytest.importorskip("formulaic")
    design = bd.from_formula("~ a + b", TABLE[:20])
    blocks = bd.Blocks(
        lambda: (design.transform(TABLE[start : start + 20]) for start in range(0, N, 20)),
        columns=design.feature_names,
    )
    whole = bd.fit(MODEL, "ill ~ a + b", TABLE)
    np.testing.assert_allclose(bd.fit(MODEL, blocks, TABLE["ill"]).weight, whole.weight, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [None, "row"])
def test_the_index_of_a_stored_table_is_no_feature(tmp_path, name):
    pa = pytest.importorskip("pyarrow")
    table = TABLE.sample(frac=1, random_state=0).rename_axis(name)
    table.to_parquet(tmp_path / "rows.parquet")
    whole = bd.fit(MODEL, table[["a", "b"]], table["ill"])
    blocks = bd.Blocks(tmp_path / "rows.parquet", target="ill")
    for fit in (bd.fit(MODEL, blocks), bd.fit(MODEL, pa.Table.from_pandas(table[["a", "b"]]), table["ill"])):
        assert fit.feature_names == ["a", "b"]
        np.testing.assert_allclose(fit.weight, whole.weight, rtol=1e-6)
    index = name or "__index_level_0__"
    assert bd.Blocks(tmp_path / "rows.parquet", columns=["a", index]).columns == ["a", index]
