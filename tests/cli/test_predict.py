"""``bayesdrop predict``: other rows by a model that ``bayesdrop fit`` wrote, for every kind of response."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import bayesdrop as bd
from bayesdrop.data.tables import encode


@pytest.fixture
def fitted(command, shop, tmp_path):
    """A folder with a fit of the first rows, and the other rows in a file."""
    shop = shop.assign(who=[f"p{k}" for k in range(len(shop))])
    shop[:90].to_csv(tmp_path / "old.csv", index=False)
    shop[90:].to_csv(tmp_path / "new.csv", index=False)

    def fit(target, *options):
        result = command("fit", "old.csv", "--target", target, "--out", "model", *options)
        assert result.exit_code == 0, result.stderr
        return shop

    return fit


def test_probabilities_are_those_of_the_library(command, fitted, tmp_path):
    shop = fitted("bought")
    result = command("predict", "model", "new.csv")
    written = pd.read_csv(tmp_path / "predictions.csv")
    assert result.exit_code == 0, result.stderr
    assert written.columns.tolist() == ["who", "probability_yes", "predicted_bought"]
    assert written["who"].tolist() == shop["who"][90:].tolist()
    old = shop[:90].drop(columns="who")
    table = encode(old, "bought")
    fit = bd.fit(bd.Model(rates=bd.Tuned()), table.X, table.y, feature_names=table.feature_names)
    X, _ = table.encoding.apply(shop[90:])
    np.testing.assert_allclose(written["probability_yes"], fit.predict(X).mean, rtol=1e-10)
    wrong = np.mean(written["predicted_bought"].to_numpy() != shop["bought"][90:].astype(str).to_numpy())
    assert f"{100 * wrong:.2f} % of 30 rows predicted wrong" in result.stdout


def test_classes_and_numbers(command, fitted, tmp_path, shop):
    fitted("color")
    assert command("predict", "model/fit.nc", "new.csv", "--out", "colors.csv").exit_code == 0
    written = pd.read_csv(tmp_path / "colors.csv")
    names = ["probability_blue", "probability_green", "probability_red"]
    assert written.columns.tolist() == ["who", *names, "predicted_color"]
    np.testing.assert_allclose(written[names].sum(axis=1), 1)
    fitted("age")
    shop[90:].drop(columns="age").to_csv(tmp_path / "new.csv", index=False)
    result = command("predict", "model", "new.csv")
    assert "Beside" not in result.stdout
    assert pd.read_csv(tmp_path / "predictions.csv").columns.tolist() == ["row", "predicted_age"]


def test_draws_are_averaged_over(command, fitted, tmp_path):
    fitted("age", "--sample", "--draws", 40, "--tune", 20, "--chains", 2)
    assert command("predict", "model", "new.csv", "--posterior").exit_code == 0
    written = pd.read_csv(tmp_path / "predictions.csv")
    assert (written["response_low"] < written["low"]).all()
    assert (written["low"] < written["predicted_age"]).all()


def test_levels_that_are_new_are_refused_or_count_as_none(command, fitted, tmp_path):
    fitted("bought")
    shop = pd.read_csv(tmp_path / "new.csv").assign(color="mauve")
    shop.to_csv(tmp_path / "new.csv", index=False)
    refused = command("predict", "model", "new.csv")
    assert refused.exit_code == 2
    assert "'color' has levels that no row had when the model was fitted: 'mauve' (30 rows)" in refused.stderr
    result = command("predict", "model", "new.csv", "--unseen", "population")
    assert "'color' has levels that no row had before, taken for none: 'mauve' (30 rows)." in result.stdout


@pytest.mark.parametrize("sparse", [False, True])
def test_missing_values_are_those_of_the_library(command, shop, tmp_path, monkeypatch, sparse):
    """A number as NaN, a factor as NaN in all of its indicators; the rest is standardised by what is there."""
    if sparse:
        monkeypatch.setattr("bayesdrop.data.tables.encode", partial(encode, dense_cells=0))
        monkeypatch.setattr("bayesdrop.data.tables.few_filled", lambda entries, cells: True)
    generator = np.random.default_rng(1)
    for name in ("age", "color", "member"):
        shop[name] = shop[name].astype(object).where(generator.random(len(shop)) > 0.2)
    shop.iloc[90, shop.columns.get_loc("color")] = "mauve"
    shop[:90].to_csv(tmp_path / "old.csv", index=False)
    shop[90:].to_csv(tmp_path / "new.csv", index=False)
    fitted = command(
        "fit", "old.csv", "--target", "bought", "--rates", "0.2", "--missing", "--report", "--out", "model"
    )
    assert fitted.exit_code == 0, fitted.stderr
    gone = shop[:90].isna().sum()
    assert f"missing entries, taken for dropped ones: 'age' ({gone['age']} of 90)" in " ".join(fitted.stdout.split())
    result = command("predict", "model", "new.csv", "--unseen", "population")
    assert result.exit_code == 0, result.stderr
    assert "'mauve' (1 row)" in result.stdout
    assert "'nan'" not in result.stdout
    written = pd.read_csv(tmp_path / "predictions.csv")

    def features(rows):
        age = rows["age"].astype(float)
        visits, known = rows["visits"], shop[:90]
        parts = [(age - known["age"].astype(float).mean()) / known["age"].astype(float).std(ddof=0)]
        parts += [(visits - known["visits"].mean()) / known["visits"].std(ddof=0)]
        for name, levels in (("color", ["blue", "green", "red"]), ("member", [False, True])):
            parts += [(rows[name] == level).astype(float).where(rows[name].notna()) for level in levels]
        return np.column_stack(parts)

    X, model = features(shop[:90]), bd.Model(rates=bd.Fixed(0.2), missing="nan")
    fit = bd.fit(model, csr_array(X) if sparse else X, shop["bought"][:90])
    np.testing.assert_allclose(written["probability_yes"], fit.predict(features(shop[90:])).mean, rtol=1e-8)


def test_missing_values_are_refused_with_the_option_that_takes_them(command, fitted, shop, tmp_path):
    fitted("bought", "--rates", "0.1")
    holes = shop.assign(age=shop["age"].where(shop.index > 3), bought=shop["bought"].where(shop.index < 99))
    holes.to_csv(tmp_path / "holes.csv", index=False)
    result = command("fit", "holes.csv", "--target", "member")
    assert "missing values in 'age' (4 of 120), 'bought' (21 of 120); --missing takes them for dropped" in result.stderr
    result = command("fit", "holes.csv", "--target", "bought", "--missing")
    assert "missing values in 'bought' (21 of 120); remove those rows" in result.stderr
    result = command("predict", "model", "holes.csv")
    assert (
        "missing values in 'age' (4 of 120); fill them in or remove those rows; what was fitted with" in result.stderr
    )
    holes.assign(age=np.nan).to_csv(tmp_path / "holes.csv", index=False)
    result = command("fit", "holes.csv", "--target", "member", "--missing")
    assert "column 'age' has no value in any row; leave it out with --drop" in result.stderr
    np.save(tmp_path / "x.npy", np.eye(4))
    result = command("fit", "x.npy", "--missing")
    assert "--missing: features that are read in blocks have" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "new.csv"], "MODEL: there is no nowhere; give the folder that bayesdrop fit wrote"),
        (["new.csv", "new.csv"], "MODEL: new.csv was not written by bayesdrop fit"),
        (["plain.nc", "new.csv"], "MODEL: expected a fit that the command line wrote"),
        (["model", "absent.csv"], "TABLE: absent.csv does not exist"),
        (["model", "few.csv"], "TABLE: no column 'age'"),
        (["model", "new.csv", "--posterior"], "--posterior: there is no model/posterior.nc"),
        (["model", "new.csv", "--out", "p.txt"], "--out: expected a .csv file, got 'p.txt'"),
        (["model", "new.csv", "--out", "no/p.csv"], "--out: the folder no does not exist"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(command, fitted, tmp_path, arguments, message):
    fitted("bought", "--rates", "0.1")
    bd.fit(bd.Model(rates=bd.Fixed(0.1)), np.eye(4), [0, 1, 0, 1]).save(tmp_path / "plain.nc")
    (tmp_path / "few.csv").write_text("color\nred\n")
    before = {path.name for path in tmp_path.iterdir()}
    result = command("predict", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == before
