"""What the benchmarks compute themselves: scores, splits, kept results, and what their tables conclude."""

import importlib.util
import lzma
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

from benchmarks import data
from benchmarks.peers import methods, report, scores, sets, table
from benchmarks.peers.methods import METHODS, REFERENCE, applies
from benchmarks.peers.recipes import RECIPES, TEST_ROWS
from benchmarks.peers.sets import SETS, Set
from benchmarks.published import cells

RNG = np.random.default_rng(0)
X = RNG.normal(size=(64, 3)) + 5.0
Y = (X[:, 0] - 5 + 0.7 * RNG.normal(size=64) > 0).astype(int)
COUNTS = RNG.poisson(np.where(Y[:, None], [1.5, 0.3, 0.6], [0.3, 1.5, 0.6])).astype(float)
TINY = {
    "tiny": Set("tiny", lambda: (X, Y)),
    "words": Set("words", lambda: ((COUNTS, Y), (COUNTS, Y)), "words", words=True),
    "three": Set("three", lambda: (X, Y + (X[:, 1] > 5.5)), "many classes"),
}
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
    both = np.column_stack([1 - chance, chance])
    found = scores.scores(Y, (chance > 0.5).astype(int), both)
    assert found["log_loss"] == pytest.approx(log_loss(Y, chance), rel=1e-12)
    assert found["error"] == pytest.approx(100 * np.mean((chance > 0.5) != Y))
    by_hand = sum(
        abs(sum(chance[i] - Y[i] for i in range(64) if b / 10 <= chance[i] < (b + 1) / 10)) / 64 for b in range(10)
    )
    halves = [scores.scores(Y[rows], Y[rows], both[rows]) for rows in (slice(0, 20), slice(20, None))]
    for parts in ([found], halves):
        assert scores.calibration_error(parts) == pytest.approx(100 * by_hand, rel=1e-12)
    sure = scores.scores(np.array([0, 1]), np.array([0, 1]), np.eye(2))
    assert sure["log_loss"] == pytest.approx(0, abs=1e-14)
    assert scores.scores(Y, Y, None) == {"error": 0.0}


def test_scores_of_many_classes_by_their_definitions():
    y, chance = RNG.integers(0, 4, 50), RNG.dirichlet(np.ones(4), 50)
    found = scores.scores(y, chance.argmax(axis=1), chance)
    assert found["log_loss"] == pytest.approx(log_loss(y, chance), rel=1e-12)
    of_class = [scores.calibration_error([scores.scores(*two)]) for two in _one_class_or_not(y, chance)]
    assert scores.calibration_error([found]) == pytest.approx(np.mean(of_class), rel=1e-12)


def _one_class_or_not(y, chance):
    for k in range(chance.shape[1]):
        inside = (y == k).astype(int)
        yield inside, inside, np.column_stack([1 - chance[:, k], chance[:, k]])


@pytest.mark.parametrize("simulated", [False, True])
def test_the_standard_error_is_that_of_the_mean_of_correlated_splits(simulated):
    """Variance of the mean over the expected sample variance, from the covariance of the splits."""
    J, rho = sets.SPLITS, Set("", lambda: None, simulated=simulated).correlation
    assert rho == (0.0 if simulated else 1 / J)
    covariance = (1 - rho) * np.eye(J) + rho
    centred = np.eye(J) - 1 / J
    ratio = covariance.mean() / (np.trace(centred @ covariance) / (J - 1))
    values = RNG.normal(size=(2, J))
    gap, error = scores.paired(values[0], values[1], rho)
    assert gap == pytest.approx(values[0].mean() - values[1].mean())
    assert error**2 == pytest.approx(ratio * (values[0] - values[1]).var(ddof=1), rel=1e-12)
    assert scores.ahead(gap, error) == pytest.approx(-gap / error)
    assert scores.ahead(0.0, 0.0) == 0
    assert np.isnan(scores.paired([1.0], [2.0], rho)[1])


@pytest.mark.usefixtures("tiny")
def test_folds_of_a_table_share_no_row_and_scale_by_the_training_rows():
    for name in ("tiny", "three"):
        seen = []
        for number in range(sets.SPLITS):
            one = sets.split(name, number)
            np.testing.assert_allclose(one.X.mean(axis=0), 0, atol=1e-12)
            np.testing.assert_allclose(one.X.std(axis=0), 1)
            assert len(one.y) + len(one.y_test) == len(Y)
            # A test row is a row of the table, in the scale of the training rows, and none of them.
            rows = {tuple(np.round(row, 8)) for row in one.X}
            assert not rows & {tuple(np.round(row, 8)) for row in one.X_test}
            seen.append(len(one.y_test))
        assert sum(seen) == len(Y)


@pytest.mark.usefixtures("tiny")
def test_words_train_on_four_folds_of_the_training_rows_and_test_on_the_fifth_of_the_test_rows():
    numbered = np.arange(64.0)[:, None]
    SETS["words"] = replace(TINY["words"], load=lambda: ((numbered, Y), (numbered + 100, Y)))
    tested = []
    for number in range(sets.SPLITS):
        one = sets.split("words", number)
        places = one.X.ravel().astype(int)
        assert np.array_equal(one.y, Y[places])
        assert not set(places) & set(one.X_test.ravel().astype(int) - 100)
        tested.extend(one.X_test.ravel())
    assert np.array_equal(np.sort(tested), np.arange(64) + 100)


@pytest.mark.usefixtures("tiny")
def test_short_texts_have_the_words_of_the_training_rows(monkeypatch):
    texts = [f"word{number} common" for number in range(64)]
    short = Set("texts", lambda: (texts, Y), "short texts", words=True, vectorizer=sets._counts)
    monkeypatch.setitem(SETS, "texts", short)
    one = sets.split("texts", 0)
    assert one.X.shape == (len(one.y), len(one.y) + 1)
    assert one.X_test.sum() == len(one.y_test)
    assert one.X.indices.dtype == np.int32


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_draws_what_it_states(name):
    recipe, drawn = RECIPES[name], []
    assert SETS[name].simulated
    assert SETS[name].label == recipe.label != ""
    for number in range(sets.SPLITS):
        one = sets.split(name, number)
        assert one.X.shape == (recipe.rows, recipe.columns)
        assert one.X_test.shape == (TEST_ROWS, recipe.columns)
        assert np.isfinite(one.X).all()
        assert np.isfinite(one.X_test).all()
        for y in (one.y, one.y_test):
            assert np.array_equal(np.unique(y), np.arange(recipe.classes))
        np.testing.assert_array_equal(one.X, sets.split(name, number).X)
        drawn.append(one.X)
    assert not any(np.array_equal(drawn[0], other) for other in drawn[1:])
    share = np.mean([sets.split(name, number).y_test.mean() for number in range(sets.SPLITS)])
    # The shares of 5,000 rows are within five standard errors.
    if recipe.classes == 2:
        assert abs(share - (0.05 if name == "rare" else 0.5)) < 5 * 0.5 / np.sqrt(5 * TEST_ROWS)


@pytest.mark.slow_cases("books", "religion", "graphics", "imdb")
@pytest.mark.parametrize("name", [name for name, one in SETS.items() if not one.simulated])
def test_every_set_has_all_classes_in_every_split(name):
    try:
        splits = [sets.split(name, number) for number in (0, sets.SPLITS - 1)]
    except FileNotFoundError as absent:
        assert "BAYESDROP_DATA" in str(absent)  # noqa: PT017
        return
    for one in splits:
        assert one.X.shape[1] == one.X_test.shape[1]
        assert np.isfinite(one.X.sum())
        for y in (one.y, one.y_test):
            assert np.array_equal(np.unique(y), np.arange(one.y.max() + 1))


def test_there_are_as_many_sets_of_each_family_as_the_page_says():
    families = [one.family for one in SETS.values()]
    assert [families.count(family) for family in sets.FAMILIES] == [8, 6, 6, 4, 10]
    assert len({one.label for one in SETS.values()}) == len(SETS)


@pytest.mark.slow
def test_nothing_is_chosen_on_test_rows(tiny, monkeypatch):
    """Without knowing it no method can tell that the labels of the test rows are the other ones."""
    plain = sets.split("tiny", 0)
    for method in METHODS:
        if applies(method, "tiny"):
            monkeypatch.setattr(table, "split", lambda *_: plain)
            straight = table._cell("tiny", method, 0)
            monkeypatch.setattr(table, "split", lambda *_: replace(plain, y_test=1 - plain.y_test))
            assert table._cell("tiny", method, 0)["error"] == pytest.approx(100 - straight["error"])


@pytest.mark.usefixtures("tiny")
def test_leads_count_what_the_splits_say(monkeypatch):
    """Of two sets the first is ahead by three standard errors, the second behind by one and a half."""
    monkeypatch.setattr(report, "OURS", ("dropout logistic",))
    monkeypatch.setattr(report, "PEERS", (REFERENCE, "linear SVC"))
    spread = np.array([-1.0, 1.0, -1.0, 1.0, 0.0])
    unit = scores.paired(spread, np.zeros(5), 1 / 5)[1]
    results = {}
    for name, lead in (("tiny", 3.0), ("words", -1.5)):
        for number in range(5):
            for method, loss in (
                (REFERENCE, 0.0),
                ("linear SVC", 0.0),
                ("dropout logistic", spread[number] - lead * unit),
            ):
                chances = {} if method == "linear SVC" else {"log_loss": loss}
                results[table.key(name, method, number)] = {"error": loss, "cpu": 1.0, "shape": [9, 3, 2], **chances}
    rows = [line.strip("| ").split(" | ") for line in report.against(results).splitlines()[2:]]
    counts = ["2", "1", "1", "0", "1", "0", "+0.75", "+0.75", "1", "1"]
    assert rows == [
        ["*dropout logistic*", REFERENCE, "log loss", *counts],
        ["*dropout logistic*", "linear SVC", "error", *counts],
    ]
    named = report.wins(results).splitlines()[2].strip("| ").split(" | ")
    assert named[2:] == ["none", f"words ({1.5 * unit:.3f})"]
    assert "1 / 1 / 0" in report.summary(results)


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


def test_results_of_another_source_are_not_taken(published, store, monkeypatch):
    complete(published, store)
    plain = published.cells
    monkeypatch.setattr(published, "cells", lambda: (replace(cell, source="new") for cell in plain()))
    assert cells.stored(store, published) == {}
    assert complete(published, store)["one"]["value"] == 3
    assert len(published.RAN) == 6
    assert set(cells.stored(store, published)) == {"one", "three", "fourteen"}


def test_the_source_of_a_method_changes_with_the_code_it_fits_with(monkeypatch, tmp_path):
    (tmp_path / "losses").mkdir()
    path = tmp_path / "losses" / "one.py"
    monkeypatch.setattr(table, "_PACKAGE", tmp_path)
    marks = []
    for code in ("a = 1", '"""Words."""\na = 1  # why', "a = 2"):
        path.write_text(code, encoding="utf-8")
        marks.append(table._digest.__wrapped__(("losses",)))
    assert marks[0] == marks[1] != marks[2]
    rooms = {name for method in METHODS.values() for name in method.rooms}
    package = table.Path(table.bayesdrop.__file__).parent
    assert all((package / room).exists() for room in rooms)


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


@pytest.mark.parametrize("path", sorted(Path(data.__file__).parent.rglob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_imports(path):
    """What a benchmark takes from the package exists: a name that is gone fails here, and not after hours."""
    parts = path.relative_to(Path(data.__file__).parents[1]).with_suffix("").parts
    if parts[-1] != "__main__":
        import_module(".".join(parts).removesuffix(".__init__"))


@pytest.mark.slow
def test_film_reviews_run_with_and_without_unlabelled_rows(monkeypatch):
    module = import_module("benchmarks.published.imdb")
    X = sparse.csr_array(COUNTS > 0, dtype=float)
    reviews = X, Y, 200 * np.arange(64), X, Y, X[:20]
    monkeypatch.setattr(module, "_reviews", lambda length: reviews)
    names = [name for name in module.METHODS if "quadratic" in name or name == "logistic, learnt rates, + unlabelled"]
    assert len(names) == 3
    for cell in module.cells():
        if cell.key.startswith("words:") and cell.key.removeprefix("words: ") in names:
            assert cell.run()["accuracy"] > 50, cell.key


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


@pytest.mark.slow
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
