"""The frame of the published tables, and what their modules promise, without any of the data."""

import importlib.util
import itertools
import json
import lzma
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from benchmarks import data, record, reproduce
from benchmarks.published import cells

SOURCE = """
from benchmarks.published.cells import Cell, markdown
TITLE = "Fake"
SOURCE = "Nobody (1900), figure 0."
RAN = []
def once(key):
    RAN.append(key)
    return {"value": len(key), "curve": [0.5, 1.0]}
def cells():
    for key in ("one", "three", "fourteen"):
        yield Cell(key, lambda key=key: once(key))
def report(results):
    return markdown(["key", "value"], [[key, result["value"]] for key, result in results.items()])
"""


def fake(path, source=SOURCE):
    """A table module made from source."""
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("fake_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def table(tmp_path):
    return fake(tmp_path / "fake_table.py")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store" / "fake.jsonl"


def complete(module, store):
    return cells.complete(module, store, show=False)


def test_a_second_run_takes_everything_from_the_store(table, store):
    first = complete(table, store)
    assert table.RAN == ["one", "three", "fourteen"]
    assert complete(table, store) == first
    assert len(table.RAN) == 3
    assert first["three"]["value"] == 5
    assert first["three"]["seconds"] >= 0


def test_a_stopped_run_goes_on_where_it_was(table, store):
    def stopped():
        raise KeyboardInterrupt

    whole, table.cells = table.cells, lambda: [*itertools.islice(whole(), 1), cells.Cell("three", stopped)]
    with pytest.raises(KeyboardInterrupt):
        complete(table, store)
    table.cells = whole
    assert list(complete(table, store)) == ["one", "three", "fourteen"]
    assert table.RAN == ["one", "three", "fourteen"]


def test_a_line_cut_short_is_done_again_and_spoils_no_other(table, store):
    complete(table, store)
    lines = store.read_text(encoding="utf-8").splitlines()
    store.write_text("\n".join([lines[0], lines[1][: len(lines[1]) // 2]]), encoding="utf-8")
    assert list(cells.stored(store, table)) == ["one"]
    complete(table, store)
    assert table.RAN == ["one", "three", "fourteen", "three", "fourteen"]
    assert set(cells.stored(store, table)) == {"one", "three", "fourteen"}


def test_results_of_other_code_are_not_taken(table, store, tmp_path):
    complete(table, store)
    changed = fake(tmp_path / "fake_table.py", SOURCE.replace("len(key)", "-len(key)"))
    assert cells.stored(store, changed) == {}
    assert complete(changed, store)["three"]["value"] == -5


def test_results_of_other_parts_are_not_taken(table, store, tmp_path):
    table.PARTS = (fake(tmp_path / "part.py", "VALUE = 1\n"),)
    first = complete(table, store)
    (tmp_path / "part.py").write_text("VALUE = 1  # in other words\n", encoding="utf-8")
    assert cells.stored(store, table) == first
    (tmp_path / "part.py").write_text("VALUE = 2\n", encoding="utf-8")
    assert cells.stored(store, table) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"Fake"', '"Faked"'),
        ("figure 0", "figure 1"),
        ('["key", "value"]', '["name", "value"]'),
        ("\nfrom", "\n# A\nfrom"),
    ],
)
def test_results_outlive_a_change_of_words(table, store, tmp_path, before, after):
    first = complete(table, store)
    reworded = fake(tmp_path / "fake_table.py", SOURCE.replace(before, after))
    assert complete(reworded, store) == first
    assert reworded.RAN == []


def test_results_survive_numbers_of_numpy(table, store):
    table.cells = lambda: [cells.Cell("a", lambda: {"mean": np.float64(0.5), "count": np.int64(3)})]
    assert complete(table, store)["a"]["count"] == 3
    assert complete(table, store)["a"]["mean"] == 0.5


@pytest.fixture
def importable(tmp_path, monkeypatch):
    """A table of three cells that other processes can import, which says where its cells ran."""
    source = SOURCE.replace('return {"value"', 'import os; return {"process": os.getpid(), "value"')
    (tmp_path / "side_by_side_table.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield import_module("side_by_side_table")
    del sys.modules["side_by_side_table"]


def test_cells_side_by_side_give_the_same(importable, store, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    found = cells.complete(importable, store, jobs=2, show=False)
    assert list(found) == ["one", "three", "fourteen"]
    assert [result["value"] for result in found.values()] == [3, 5, 8]
    assert os.getpid() not in {result["process"] for result in found.values()}
    assert os.environ["OMP_NUM_THREADS"] == "5"
    assert cells.stored(store, importable) == found


def test_cells_that_are_timed_run_one_by_one(importable, store, monkeypatch):
    monkeypatch.setattr(importable, "ALONE", True, raising=False)
    found = cells.complete(importable, store, jobs=2, show=False)
    assert {result["process"] for result in found.values()} == {os.getpid()}


def test_an_error_in_another_process_is_raised_and_what_was_done_is_kept(tmp_path, monkeypatch, store):
    source = SOURCE.replace("RAN.append(key)", "1 / (key != 'fourteen')")
    (tmp_path / "table_with_an_error.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = import_module("table_with_an_error")
    with pytest.raises(ZeroDivisionError):
        cells.complete(module, store, jobs=2, show=False)
    assert set(cells.stored(store, module)) <= {"one", "three"}


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks processes up in /proc")
def test_no_process_outlives_a_run_that_is_killed(tmp_path, store):
    """A cell that is under way ends with the run, and so does a process that waits for one."""
    started = tmp_path / "started"
    source = SOURCE.replace(
        "RAN.append(key)",
        f"import os, time; open({str(started)!r} + key, 'w').write(str(os.getpid())); time.sleep(300 * (key == 'one'))",
    )
    (tmp_path / "endless_table.py").write_text(source, encoding="utf-8")
    program = (
        "if __name__ == '__main__':\n"
        "    from pathlib import Path; import endless_table; from benchmarks.published import cells\n"
        f"    cells.complete(endless_table, Path({str(store)!r}), jobs=2, show=False)\n"
    )
    (tmp_path / "run.py").write_text(program, encoding="utf-8")
    root = Path(cells.__file__).parents[2]
    path = os.pathsep.join([str(tmp_path), str(root)])
    run = subprocess.Popen([sys.executable, str(tmp_path / "run.py")], env=os.environ | {"PYTHONPATH": path})
    files = [Path(f"{started}{key}") for key in ("one", "fourteen")]
    try:
        wait_for(lambda: all(file.exists() and file.read_text() for file in files))
    finally:
        run.kill()
        run.wait()
    wait_for(lambda: not any(Path(f"/proc/{file.read_text()}").exists() for file in files))


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_time_is_counted_once_where_cells_ran_side_by_side():
    spans = [{"began": 10.0, "seconds": 5.0}, {"began": 12.0, "seconds": 1.0}, {"began": 14.0, "seconds": 3.0}]
    assert cells.elapsed([{"seconds": 2.0}, {"began": 30.0, "seconds": 1.0}, *spans]) == 2 + 1 + 7
    assert cells.elapsed([]) == 0


def test_two_cells_of_one_name_are_refused(table, store):
    table.cells = lambda: [cells.Cell("a", dict), cells.Cell("a", dict)]
    with pytest.raises(ValueError, match="same key"):
        complete(table, store)


def test_means_have_their_errors():
    assert cells.mean_and_error([1.0, 3.0], 1) == "2.0 ± 1.0"
    assert cells.mean_and_error([1.25], 2) == "1.25"


def run(monkeypatch, *arguments):
    """In this process, for what a test has put in the place of something is not there in another."""
    monkeypatch.setattr(sys, "argv", ["reproduce", "--jobs", "1", *arguments])
    reproduce.main()


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Data and store in an empty folder."""
    monkeypatch.setattr(data, "DATA", tmp_path / "nothing")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def as_published(monkeypatch, table):
    """The fake module under the name of a table."""
    monkeypatch.setattr(reproduce, "import_module", lambda name: table)


def test_a_table_is_printed_and_written_with_how_it_was_made(monkeypatch, elsewhere, as_published, tmp_path, capsys):
    monkeypatch.setattr(record, "FOLDER", tmp_path / "results")
    run(monkeypatch, "factors", "--write")
    printed = capsys.readouterr().out
    assert "### Fake" in printed
    assert "| three | 5 |" in printed
    assert "`python -m benchmarks.reproduce factors`" in printed
    kept = record.read("reproduce_factors")
    assert kept["command"] == "python -m benchmarks.reproduce factors"
    assert kept["tables"][0]["columns"] == ["key", "value"]
    assert ["three", "5"] in kept["tables"][0]["rows"]
    entries = (tmp_path / "bayesdrop-output/reproduce/factors.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(entry)["key"] for entry in entries] == ["one", "three", "fourteen"]


def test_a_report_sees_what_its_cells_return_and_their_seconds_alone(monkeypatch, as_published, table, tmp_path):
    monkeypatch.setattr(table, "report", lambda results: " ".join(sorted(results["one"])), raising=False)
    assert reproduce.table("factors", tmp_path).endswith("curve seconds value\n")


def test_what_is_stored_is_shown_without_a_run(monkeypatch, elsewhere, as_published, table, tmp_path, capsys):
    path = tmp_path / "bayesdrop-output/reproduce/factors.jsonl"
    cells.complete(table, path, show=False)
    whole = path.read_text(encoding="utf-8").splitlines()
    path.write_text(whole[0] + "\n", encoding="utf-8")
    table.RAN.clear()
    run(monkeypatch, "factors", "--stored")
    printed = capsys.readouterr().out
    assert "Not over: 1 of 3 cells." in printed
    assert "| one | 3 |" in printed
    assert "three" not in printed
    assert table.RAN == []
    run(monkeypatch, "factors")
    assert "Not over" not in capsys.readouterr().out


def test_the_list_names_every_table(monkeypatch, as_published, capsys):
    run(monkeypatch, "--list")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(reproduce.TABLES)


def test_no_jobs_at_all_are_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--jobs", "0")
    assert "at least 1" in capsys.readouterr().err


def test_an_unknown_table_is_refused(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "nonsense")
    assert "choose from amazon" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in reproduce.TABLES if name != "factors"])
def test_a_table_without_its_data_is_skipped_and_says_where_they_are(monkeypatch, elsewhere, capsys, name):
    run(monkeypatch, name)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{name} is skipped" in printed.err
    assert "BAYESDROP_DATA" in printed.err


@pytest.mark.parametrize("name", reproduce.TABLES)
def test_every_table_keeps_its_promises(monkeypatch, elsewhere, name):
    """Its cells are named without any data, and its report bears that nothing is there yet."""
    module = import_module(f"benchmarks.published.{name}")
    assert module.TITLE
    assert any(character.isdigit() for character in module.SOURCE)
    keys = [cell.key for cell in module.cells()]
    assert keys
    assert len(set(keys)) == len(keys)
    assert isinstance(module.report({}), str)


@pytest.mark.parametrize(("behind", "verdict"), [(0.5, "missed"), (0.2, "reached")])
def test_amazon_says_what_its_numbers_say(behind, verdict):
    module = import_module("benchmarks.published.amazon")
    rng = np.random.default_rng(0)

    def result(key):
        bits = np.packbits(rng.random(1000) < 0.1).tobytes().hex()
        learnt = "learnt" in key
        return {
            "test": [12.0] if "copies" in key else 10.0 + (behind if learnt else 0.0),
            **{"validation": 10.0, "wrong": bits, "reviews": 1000, "fit": 0.1, "strength": 3.0},
            **{"rates": [0.5, 0.5], "quartiles": [0.4, 0.5, 0.6]},
        }

    text = module.report({cell.key: result(cell.key) for cell in module.cells()})
    assert text.count(verdict) == 4 + 4 * (verdict == "reached")  # the spread over starts is none
    assert f"best fixed rate in {4 * (verdict == 'reached')} of 4" in text
    some = [cell.key for cell in module.cells()][::7]
    assert "rate" in module.report({key: result(key) for key in some})


def test_ratings_compare_noise_with_none():
    module = import_module("benchmarks.published.ratings")
    rising = {"validation": np.linspace(0, 1, 10), "squared_correlation": np.full(10, 0.3)}
    keys = [cell.key for cell in module.cells()]
    rng = np.random.default_rng(0)
    falls = {key: {**rising, "test": np.linspace(0.3, 0.1, 10) + 0.01 * rng.normal(size=10)} for key in keys}
    text = module.report(falls)
    assert text.count("noise is behind") == 4
    assert "largest at rate 0.0" in text
    assert isinstance(module.report({keys[0]: falls[keys[0]]}), str)


def test_reviews_are_read_once_with_their_stars(monkeypatch, tmp_path):
    review = "<review>\n<rating>\n{}\n</rating>\n<review_text>\n{}\n</review_text>\n</review>\n"
    (tmp_path / "amazon" / "ratings").mkdir(parents=True)
    for half, stars in (("negative", 1.0), ("positive", 5.0)):
        path = tmp_path / "amazon" / "ratings" / f"books_{half}.review.xz"
        path.write_bytes(lzma.compress("".join(review.format(stars, t) for t in ("Same.", half, "Same.")).encode()))
    monkeypatch.setattr(data, "DATA", tmp_path)
    texts, stars = data.ratings("books")
    assert texts == ["Same.", "negative", "positive"]
    assert stars.tolist() == [1.0, 1.0, 5.0]


def test_splice_has_the_groups_of_the_paper(monkeypatch):
    module = import_module("benchmarks.published.splice")
    letters = np.random.default_rng(0).choice(list("acgt"), size=(20, 7))
    monkeypatch.setattr(module, "splice", lambda: (letters, np.tile([-1, 1], 10)))
    monkeypatch.setattr(module, "_factors", module._factors.__wrapped__)
    for degree, (n_groups, n_columns) in {1: (7, 28), 2: (28, 364), 3: (63, 2604)}.items():
        X, groups, _ = module._factors(degree)
        assert (len(set(groups)), X.shape) == (n_groups, (20, n_columns))
        per_group = np.stack([X[:, np.array(groups) == group].sum(axis=1) for group in dict.fromkeys(groups)])
        assert np.all(per_group == 1)
    pair = [letter + other for letter, other in zip(letters[:, 0], letters[:, 1], strict=True)]
    columns = np.flatnonzero(np.array(groups) == "12")
    held = [int(column) for column in X[:, columns].toarray().argmax(axis=1)]
    assert held == ["acgt".index(a) * 4 + "acgt".index(b) for a, b in pair]


def test_the_largest_correlation_is_that_over_all_thresholds():
    module = import_module("benchmarks.published.splice")
    rng = np.random.default_rng(0)
    y = np.where(rng.random(60) < 0.3, 1, -1)
    score = np.round(y + rng.normal(size=60), 1)  # with ties
    by_hand = max(np.corrcoef(y, score >= cut)[0, 1] for cut in np.unique(score)[1:])
    assert module._largest_correlation(y, score) == pytest.approx(by_hand, abs=1e-12)


def test_splice_says_who_is_ahead():
    module = import_module("benchmarks.published.splice")
    rng = np.random.default_rng(0)

    def result(key):
        gain = 3.0 * ("per group" in key)
        return {"accuracy": 90 + gain + rng.normal(), "area": 0.9, "correlation": 0.8 + 0.001 * rng.normal()}

    text = module.report({cell.key: result(cell.key) for cell in module.cells()})
    assert text.count("(ahead)") >= 8
    assert "ahead somewhere in 8 of these 8" in text


def test_factors_says_what_its_numbers_say():
    module = import_module("benchmarks.published.factors")
    text = module.report({"sampled, 10, 0.5": {"gap": 0.02, "excess": 0.1}})
    assert "**2.00 %** (wanted: at most 1; missed)" in text
    pathology = module._pathology(20)
    assert pathology["adaptive"]["rank"] < pathology["fixed"]["rank"]
    recovered = {**module._recovery("deterministic", 10, None), "seconds": 1.0}
    text = module.report({"pathology, 20": pathology, "recovery, deterministic, 10": recovered})
    assert "by 1 of 1" in text
    assert "reached" in text
