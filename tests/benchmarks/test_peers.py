"""The comparison with peers: its scores, its splits, and a run of it on tiny sets."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

from benchmarks import record
from benchmarks.peers import __main__ as peers
from benchmarks.peers import methods, scores, sets, table
from benchmarks.peers.methods import METHODS, REFERENCE, applies
from benchmarks.peers.report import compare
from benchmarks.peers.sets import SETS, Set

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 3)) + 5.0
Y = (X[:, 0] - 5 + 0.7 * RNG.normal(size=64) > 0).astype(int)
COUNTS = RNG.poisson(np.where(Y[:, None], [1.5, 0.3, 0.6], [0.3, 1.5, 0.6])).astype(float)
TINY = {"tiny": Set("tiny", lambda: (X, Y)), "words": Set("words", lambda: ((COUNTS, Y), (COUNTS, Y)), words=True)}
NAMES = (*METHODS, *SETS)
FEW = ("dropout logistic", "ridge logistic, C = 1", "multinomial naive Bayes")
SVC = "linear SVC, C by accuracy"


@pytest.fixture(autouse=True)
def _tiny(monkeypatch, tmp_path):
    """Two tiny sets and one that is absent, a quick choice of methods, and nothing written outside."""

    def absent():
        raise FileNotFoundError("nowhere is absent; set BAYESDROP_DATA to the folder with it.")

    monkeypatch.chdir(tmp_path)
    quick = {REFERENCE: methods.Method(lambda: LogisticRegression(C=0.3)), SVC: methods.Method(LinearSVC)}
    few = {name: METHODS[name] for name in FEW} | quick
    for held, instead in ((SETS, TINY | {"absent": Set("absent", absent)}), (METHODS, few)):
        for name in list(held):
            monkeypatch.delitem(held, name)
        for name, value in instead.items():
            monkeypatch.setitem(held, name, value)
    monkeypatch.setattr(record, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(peers, "PICTURE", tmp_path / "docs" / "peers.png")
    sets._loaded.cache_clear()
    yield
    sets._loaded.cache_clear()


def run(*arguments):
    peers.main(["--jobs", "1", *arguments])


def test_scores_by_their_definitions():
    chance = RNG.random(64)
    found = scores.scores(Y, (chance > 0.5).astype(int), chance)
    assert found["log_loss"] == pytest.approx(log_loss(Y, chance), rel=1e-12)
    assert found["error"] == pytest.approx(100 * np.mean((chance > 0.5) != Y))
    by_hand = sum(
        abs(sum(chance[i] - Y[i] for i in range(64) if b / 10 <= chance[i] < (b + 1) / 10)) / 64 for b in range(10)
    )
    halves = [scores.scores(Y[rows], Y[rows], chance[rows]) for rows in (slice(0, 20), slice(20, None))]
    for parts in ([found], halves):
        assert scores.calibration_error(parts) == pytest.approx(100 * by_hand, rel=1e-12)
    sure = scores.scores(np.array([0, 1]), np.array([0, 1]), np.array([0.0, 1.0]))
    assert sure["log_loss"] == pytest.approx(0, abs=1e-14)
    assert scores.scores(Y, Y, None) == {"error": 0.0}


@pytest.mark.parametrize("name", ["tiny", "words"])
def test_the_standard_error_is_that_of_the_mean_of_correlated_splits(name):
    """Variance of the mean over the expected sample variance, from the covariance of the splits."""
    J, rho = SETS[name].splits, SETS[name].correlation
    if name == "words":  # two ways of halving: halves of one share no row, those of two share half of theirs
        covariance = np.kron(np.eye(2), np.eye(2)) + np.kron(1 - np.eye(2), np.full((2, 2), 0.5))
    else:
        covariance = (1 - rho) * np.eye(J) + rho
    centred = np.eye(J) - 1 / J
    ratio = covariance.mean() / (np.trace(centred @ covariance) / (J - 1))
    values = RNG.normal(size=(2, J))
    gap, error = scores.paired(values[0], values[1], rho)
    assert gap == pytest.approx(values[0].mean() - values[1].mean())
    assert error**2 == pytest.approx(ratio * (values[0] - values[1]).var(ddof=1), rel=1e-12)
    assert np.isnan(scores.paired([1.0], [2.0], rho)[1])


def test_folds_of_a_table_share_no_row_and_scale_by_the_training_rows():
    seen = []
    for number in range(8):
        one = sets.split("tiny", number)
        np.testing.assert_allclose(one.X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(one.X.std(axis=0), 1)
        # Undo the scale by two rows that are known: every test row is one of the table, and none a training row.
        rows = {tuple(np.round(row, 8)) for row in one.X}
        assert not rows & {tuple(np.round(row, 8)) for row in one.X_test}
        seen.append(len(one.y_test))
    assert sum(seen[:4]) == sum(seen[4:]) == len(Y)


def test_halves_of_words_share_no_row():
    numbered = np.arange(64.0)[:, None]
    SETS["words"] = replace(TINY["words"], load=lambda: ((numbered, Y), (numbered + 100, Y)))
    for way in (0, 2):
        first, second = (sets.split("words", way + half) for half in (0, 1))
        for part in ("X", "X_test"):
            both = np.concatenate([getattr(first, part), getattr(second, part)]).ravel()
            assert np.array_equal(np.sort(both) % 100, np.arange(64))
        assert np.array_equal(first.y, Y[first.X.ravel().astype(int)])
    assert not np.array_equal(sets.split("words", 0).X, sets.split("words", 2).X)


def test_a_table_has_numbers_and_categories(monkeypatch):
    monkeypatch.setattr(sets, "read_packed", lambda *_: b"A1,-2.5,1\nA2,3,2\nA1,0,2\n")
    found, y = sets._table("any")
    assert found.tolist() == [[-2.5, 1, 0], [3, 0, 1], [0, 1, 0]]
    assert y.tolist() == [0, 1, 1]


def test_nothing_is_chosen_on_test_rows(monkeypatch):
    """Without knowing it no method can tell that the labels of the test rows are the other ones."""
    plain = sets.split("tiny", 0)
    for method in METHODS:
        if applies(method, "tiny"):
            monkeypatch.setattr(table, "split", lambda *_: plain)
            straight = table._cell("tiny", method, 0)
            monkeypatch.setattr(table, "split", lambda *_: replace(plain, y_test=1 - plain.y_test))
            assert table._cell("tiny", method, 0)["error"] == pytest.approx(100 - straight["error"])


def test_a_run_is_printed_written_and_kept(tmp_path, capsys, monkeypatch):
    run("--write")
    printed = capsys.readouterr()
    assert "absent is skipped: nowhere is absent; set BAYESDROP_DATA" in printed.err
    assert "**tiny**, 48 training rows × 3, 8 splits" in printed.out
    assert "**words**, 32 training rows × 3, 4 splits" in printed.out
    tables = record.read("peers")["tables"]
    assert tables[0]["columns"] == ["ahead / level / behind, sets", "log loss", "error"]
    assert [table["title"].split("**")[1] for table in tables[1:]] == ["tiny", "words"]
    assert "*dropout logistic*" in [row[0] for row in tables[1]["rows"]]
    assert (tmp_path / "docs" / "peers.png").read_bytes().startswith(b"\x89PNG")

    def again(*_):
        raise AssertionError("run again")

    monkeypatch.setattr(table, "_cell", again)
    run("--stored")
    assert "| *dropout logistic* |" in capsys.readouterr().out
    run("tiny", "words")


def test_differences_are_pairs_of_splits():
    run("tiny")
    known = peers.stored(peers.STORE / "tiny.jsonl", table)
    method = "ridge logistic, C = 1"
    mine, theirs = ([known[table.key("tiny", one, k)]["log_loss"] for k in range(8)] for one in (method, REFERENCE))
    gap, error = compare(known, "tiny", method, "log_loss")
    assert (gap, error) == scores.paired(mine, theirs, 0.25)
    assert compare(known, "tiny", REFERENCE, "log_loss") is None
    assert compare(known, "tiny", SVC, "log_loss") is None
    assert compare(known, "tiny", SVC, "error") is not None


def test_what_is_forgotten_is_made_again():
    run("tiny", "--methods", "C = 1")
    path = peers.STORE / "tiny.jsonl"
    before = path.read_text(encoding="utf-8").splitlines()
    assert len(before) == 16  # and the reference
    run("tiny", "--methods", "C = 1", "--again", "C = 1")
    after = path.read_text(encoding="utf-8").splitlines()
    assert len(after) == 16
    keep = [line for line in before if "C = 1" not in json.loads(line)["key"]]
    assert after[:8] == keep
    assert not set(after[8:]) & set(before)


def test_long_methods_wait_until_asked(monkeypatch):
    monkeypatch.setitem(METHODS, "posterior", methods.Method(object, long_on="words"))
    assert applies("posterior", "tiny", long=False)
    assert not applies("posterior", "words", long=False)
    assert applies("posterior", "words")
    assert not applies("multinomial naive Bayes", "tiny")


def test_wrong_requests_say_what_there_is(capsys):
    for arguments, words in (
        (["nonsense"], "choose from tiny"),
        (["--methods", "nonsense"], "choose from dropout logistic"),
        (["--jobs", "0"], "at least 1"),
    ):
        with pytest.raises(SystemExit):
            run(*arguments)
        assert words in capsys.readouterr().err
    run("--list")
    assert "tiny" in capsys.readouterr().out


def test_the_picture_needs_no_results_of_all(tmp_path):
    peers.picture.draw({}, tmp_path / "none.png")
    assert (tmp_path / "none.png").exists()


@pytest.mark.parametrize("name", NAMES)
def test_names_are_fit_for_keys(name):
    assert " | " not in name
