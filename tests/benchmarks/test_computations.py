"""What the benchmarks compute themselves: scores, splits, kept results, and what their tables conclude."""

import importlib.util
import lzma
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

from benchmarks import data
from benchmarks.peers import methods, scores, sets, table
from benchmarks.peers.methods import METHODS, REFERENCE, applies
from benchmarks.peers.sets import SETS, Set
from benchmarks.published import cells

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 3)) + 5.0
Y = (X[:, 0] - 5 + 0.7 * RNG.normal(size=64) > 0).astype(int)
COUNTS = RNG.poisson(np.where(Y[:, None], [1.5, 0.3, 0.6], [0.3, 1.5, 0.6])).astype(float)
TINY = {"tiny": Set("tiny", lambda: (X, Y)), "words": Set("words", lambda: ((COUNTS, Y), (COUNTS, Y)), words=True)}
QUICK = {name: METHODS[name] for name in ("dropout logistic", "ridge logistic, C = 1", "multinomial naive Bayes")}
QUICK |= {REFERENCE: methods.Method(lambda: LogisticRegression(C=0.3)), "linear SVC": methods.Method(LinearSVC)}


@pytest.fixture
def tiny(monkeypatch):
    """Two tiny sets and a quick choice of methods."""
    for held, instead in ((SETS, TINY), (METHODS, QUICK)):
        for name in list(held):
            monkeypatch.delitem(held, name)
        for name, value in instead.items():
            monkeypatch.setitem(held, name, value)
    sets._loaded.cache_clear()
    yield
    sets._loaded.cache_clear()


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
def test_the_standard_error_is_that_of_the_mean_of_correlated_splits(tiny, name):
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


def test_folds_of_a_table_share_no_row_and_scale_by_the_training_rows(tiny):
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


def test_halves_of_words_share_no_row(tiny):
    numbered = np.arange(64.0)[:, None]
    SETS["words"] = replace(TINY["words"], load=lambda: ((numbered, Y), (numbered + 100, Y)))
    for way in (0, 2):
        first, second = (sets.split("words", way + half) for half in (0, 1))
        for part in ("X", "X_test"):
            both = np.concatenate([getattr(first, part), getattr(second, part)]).ravel()
            assert np.array_equal(np.sort(both) % 100, np.arange(64))
        assert np.array_equal(first.y, Y[first.X.ravel().astype(int)])
    assert not np.array_equal(sets.split("words", 0).X, sets.split("words", 2).X)


def test_nothing_is_chosen_on_test_rows(tiny, monkeypatch):
    """Without knowing it no method can tell that the labels of the test rows are the other ones."""
    plain = sets.split("tiny", 0)
    for method in METHODS:
        if applies(method, "tiny"):
            monkeypatch.setattr(table, "split", lambda *_: plain)
            straight = table._cell("tiny", method, 0)
            monkeypatch.setattr(table, "split", lambda *_: replace(plain, y_test=1 - plain.y_test))
            assert table._cell("tiny", method, 0)["error"] == pytest.approx(100 - straight["error"])


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
def published(tmp_path):
    return fake(tmp_path / "fake_table.py")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store" / "fake.jsonl"


def complete(module, store):
    return cells.complete(module, store, show=False)


def test_a_second_run_takes_everything_from_the_store(published, store):
    first = complete(published, store)
    assert published.RAN == ["one", "three", "fourteen"]
    assert complete(published, store) == first
    assert len(published.RAN) == 3
    assert first["three"]["value"] == 5
    assert first["three"]["seconds"] >= 0


def test_results_of_other_code_are_not_taken(published, store, tmp_path):
    complete(published, store)
    changed = fake(tmp_path / "fake_table.py", SOURCE.replace("len(key)", "-len(key)"))
    assert cells.stored(store, changed) == {}
    assert complete(changed, store)["three"]["value"] == -5


def test_time_is_counted_once_where_cells_ran_side_by_side():
    spans = [{"began": 10.0, "seconds": 5.0}, {"began": 12.0, "seconds": 1.0}, {"began": 14.0, "seconds": 3.0}]
    assert cells.elapsed([{"seconds": 2.0}, {"began": 30.0, "seconds": 1.0}, *spans]) == 2 + 1 + 7
    assert cells.elapsed([]) == 0


def test_means_have_their_errors():
    assert cells.mean_and_error([1.0, 3.0], 1) == "2.0 ± 1.0"
    assert cells.mean_and_error([1.25], 2) == "1.25"


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
    for degree, (n_groups, n_columns) in {1: (7, 28), 2: (28, 364), 3: (63, 2604)}.items():
        X, groups, _ = module._factors.__wrapped__(degree)
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


def test_the_reconstruction_differs_from_the_closed_form_by_the_width(monkeypatch):
    from sklearn.datasets import load_digits

    module = import_module("benchmarks.published.factors")
    monkeypatch.setattr(module, "mnist", lambda split: (load_digits().data / 16, None))
    wide = {theta: module._reconstruction(theta) for theta in module.IMAGE_RETAIN}
    assert wide[0.5]["needed"] <= module.IMAGE_WIDTH
    assert wide[0.5]["distance"] < 1e-6
    monkeypatch.setattr(module, "IMAGE_WIDTH", 2)
    found = module._reconstruction(0.8)
    assert found["needed"] > found["rank"] == 2
    assert found["distance"] > 1e-3
    text = module.report({"reconstruction, 0.8": {"needed": 96, "rank": 40, "distance": 1.08e-3}})
    assert "| 0.8 | 96 | 40 | 1.1e-03 | about 1e-3 |" in text
