"""``bayesdrop fit`` and ``predict`` on tables as people have them: what was found in the first holds for the second."""

import numpy as np
import pandas as pd
import pytest

N = 90


@pytest.fixture
def clean():
    generator = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "Umsatz": (3000 * generator.normal(size=N)).round(2),
            "Alter": generator.integers(18, 90, N),
            "Region": generator.choice(["NA", "EU", "None"], N),
            "PLZ": generator.choice(["01067", "80331"], N),
        }
    )
    frame["Kauf"] = np.where(frame["Umsatz"] / 3000 + generator.logistic(size=N) > 0, "ja", "nein")
    return frame


def _german(frame):
    """What a German Excel exports: cp1252, semicolons, decimal commas and points between the thousands."""
    numbers = frame["Umsatz"].map(lambda v: f"{v:,.2f} €".translate(str.maketrans(",.", ".,")))
    return ("sep=;\r\n" + frame.assign(Umsatz=numbers).to_csv(index=False, sep=";")).encode("cp1252")


def _american(frame):
    numbers = frame["Umsatz"].map(lambda v: f"${v:,.2f}".replace("$-", "-$"))
    return frame.assign(Umsatz=numbers).to_csv(index=False).encode("utf-8-sig")


def _plain(frame):
    return frame.to_csv(index=False).encode()


def _fit(command, tmp_path, content, *options, target="Kauf", out="model"):
    (tmp_path / "old.csv").write_bytes(content)
    result = command("fit", "old.csv", "--target", target, "--rates", "0.1", "--out", out, *options)
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


def _predicted(command, tmp_path, content, out="model"):
    (tmp_path / "new.csv").write_bytes(content)
    result = command("predict", out, "new.csv")
    assert result.exit_code == 0, result.stderr
    return pd.read_csv(tmp_path / "predictions.csv").iloc[:, 1].to_numpy()


@pytest.mark.parametrize("write", [_german, _american])
def test_the_same_predictions_from_however_the_tables_are_written(command, clean, tmp_path, write):
    _fit(command, tmp_path, _plain(clean[:60]))
    expected = _predicted(command, tmp_path, _plain(clean[60:]))
    said = _fit(command, tmp_path, write(clean[:60]), out="ugly")
    assert "column taken for values" in said
    assert "Umsatz number" in said
    assert "PLZ categories 2 levels: '01067', '80331'; codes such as '01067'" in said
    assert "Kauf target: 2 classes" in said
    np.testing.assert_allclose(_predicted(command, tmp_path, write(clean[60:]), "ugly"), expected, rtol=1e-8)
    # From a file with types there is nothing to read.
    clean[60:].to_parquet(tmp_path / "new.parquet")
    assert command("predict", "ugly", "new.parquet").exit_code == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "predictions.csv").iloc[:, 1], expected, rtol=1e-8)


@pytest.mark.parametrize(("first", "second"), [(_german, _american), (_german, _plain), (_plain, _german)])
def test_numbers_that_are_written_in_another_way_are_refused_by_their_lines(command, clean, tmp_path, first, second):
    _fit(command, tmp_path, first(clean[:60]))
    (tmp_path / "new.csv").write_bytes(second(clean[60:]))
    result = command("predict", "model", "new.csv")
    assert result.exit_code == 2
    assert "column 'Umsatz' was a number" in result.stderr
    assert "in 30 of 30 cells: line " in result.stderr


def test_missing_values_travel(command, clean, tmp_path):
    rows = clean.astype(str)
    rows.loc[[3, 70], "Alter"], rows.loc[[5, 71], "Alter"], rows.loc[[7, 72], "Region"] = "refused", "-", "refused"
    _fit(command, tmp_path, _plain(rows[:60]), "--na", "refused", "--missing")
    found = _predicted(command, tmp_path, _plain(rows[60:]))
    rows.loc[[70, 71], "Alter"], rows.loc[72, "Region"] = "", ""
    np.testing.assert_array_equal(found, _predicted(command, tmp_path, _plain(rows[60:])))


def test_tables_without_names(command, clean, tmp_path):
    bare = [part.to_csv(index=False, header=False).encode() for part in (clean[:60], clean[60:])]
    (tmp_path / "old.csv").write_bytes(bare[0])
    result = command("fit", "old.csv", "--target", "Kauf")
    assert result.exit_code == 2
    assert "the first line of old.csv looks like a row" in result.stderr
    _fit(command, tmp_path, _plain(clean[:60]))
    expected = _predicted(command, tmp_path, _plain(clean[60:]))
    _fit(command, tmp_path, bare[0], "--header", "none", target="x4", out="bare")
    np.testing.assert_allclose(_predicted(command, tmp_path, bare[1], "bare"), expected, rtol=1e-8)


def test_rows_without_target(command, clean, tmp_path):
    holes = clean.assign(Kauf=clean["Kauf"].where(clean.index % 5 > 0))
    (tmp_path / "old.csv").write_bytes(_plain(holes))
    result = command("fit", "old.csv", "--target", "Kauf")
    assert result.exit_code == 2
    assert "missing values in 'Kauf' (18 of 90); remove those rows, as --drop-missing-target does" in result.stderr
    said = _fit(command, tmp_path, _plain(holes), "--drop-missing-target")
    assert "18 of 90 rows without a value of 'Kauf' left out" in said
    (tmp_path / "new.csv").write_bytes(_plain(holes))
    assert "of 72 of 90 rows, where it is known predicted wrong" in command("predict", "model", "new.csv").stdout


def test_types_travel(command, clean, tmp_path):
    _fit(command, tmp_path, _plain(clean), "--types", "Alter=categories", "--types", "PLZ=number")
    names = pd.read_csv(tmp_path / "model" / "weights.csv")["feature"].tolist()
    assert "PLZ" in names
    assert f"Alter[{clean['Alter'][0]}]" in names
    clean.to_parquet(tmp_path / "new.parquet")
    result = command("predict", "model", "new.parquet")
    assert "no row had before" not in result.stdout


def test_labels_that_are_no_numbers_any_more(command, clean, tmp_path):
    _fit(command, tmp_path, _plain(clean.assign(Kauf=(clean["Kauf"] == "ja").astype(int))))
    (tmp_path / "new.csv").write_bytes(_plain(clean))
    result = command("predict", "model", "new.csv")
    assert result.exit_code == 0
    assert "Not compared with 'Kauf', for that was a number" in " ".join(result.stdout.split())
    assert pd.read_csv(tmp_path / "predictions.csv").columns.tolist() == ["row", "probability_1", "predicted_Kauf"]


def test_truth_values_of_other_programs(command, clean, tmp_path):
    rows = clean.assign(Kauf=clean["Kauf"] == "ja", member=np.arange(N) % 3 == 0)
    _fit(command, tmp_path, _plain(rows))
    expected = _predicted(command, tmp_path, _plain(rows[60:61]))
    shouted = _plain(rows[60:61]).replace(b"True", b"TRUE").replace(b"False", b"FALSE")
    np.testing.assert_array_equal(_predicted(command, tmp_path, shouted), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--types", "Alter"], "--types: expected COLUMN=KIND, where KIND is number, categories, identifier"),
        (["--types", "Alter=date"], "--types: expected COLUMN=KIND"),
        (["--types", "alter=number"], "--types: no column 'alter'; did you mean 'Alter'?"),
        (["--types", "Region=number"], "column 'Region' holds numbers, but not in"),
        (["--decimal", ";"], "--decimal: expected . or , got ';'"),
        (["--decimal", ","], "column 'Umsatz' holds numbers (decimal commas), but not in"),
    ],
)
def test_options_that_cannot_be_met(command, clean, tmp_path, options, message):
    (tmp_path / "old.csv").write_bytes(_plain(clean))
    result = command("fit", "old.csv", "--target", "Kauf", *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_file_that_does_not_say_how_tables_are_read(command, clean, tmp_path):
    import h5py

    _fit(command, tmp_path, _plain(clean))
    (tmp_path / "new.csv").write_bytes(_plain(clean))
    for bad in ("[", "[]", '{"numerals": {"Alter": [";", ""]}}', '{"numerals": {"Alter": 1}}', '{"header": "second"}'):
        with h5py.File(tmp_path / "model" / "fit.nc", "r+") as file:
            file.attrs["table_reading"] = bad
        result = command("predict", "model", "new.csv")
        assert result.exit_code == 2
        assert "MODEL: the encoding of the table is damaged" in result.stderr
