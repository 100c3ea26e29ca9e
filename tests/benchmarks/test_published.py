"""Every model of the published tables takes a few rows, with each setting that its table chooses from."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from benchmarks.published import imdb, mnist, thirds, topics
from benchmarks.published.cells import stored

RNG = np.random.default_rng(0)
WORDS = np.array([f"w{number}" for number in range(12)])


def texts(y):
    """Texts of words, of which a class prefers some."""
    chances = [np.where(np.arange(12) % 3 == label % 3, 0.8, 0.3) for label in y]
    return [" ".join(WORDS[RNG.random(12) < chance]) + " all" for chance in chances]


def films(part):
    y = np.tile([0, 1], 10)
    return texts(y), y, np.repeat(imdb.HELD, 4)


def posts(headers=False):
    y = np.tile([0, 1, 2], 20)
    return texts(y), y, np.arange(60) < 40


def news():
    y = np.tile([0, 1, 2], 20)
    counts = RNG.poisson(np.where(np.arange(6)[None] % 3 == y[:, None], 3.0, 0.5)).astype(float)
    return sparse.csr_array(counts), y, np.arange(60) < 40


def images(part):
    y = np.tile(np.arange(3), 10)
    return RNG.random((30, 9)) * (np.arange(9) % 3 == y[:, None]) + 0.1 * RNG.random((30, 9)), y


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Loaders of a few rows, and nothing kept of them."""
    loaders = {imdb: {"imdb_texts": films}, mnist: {"mnist": images, "PART": 15}}
    loaders |= {module: {"newsgroups": posts, "reuters": news} for module in (topics, thirds)}
    for module, names in loaders.items():
        for name, value in names.items():
            monkeypatch.setattr(module, name, value)
    kept = (imdb._reviews, topics._documents, thirds._topics, mnist._images)
    for one in kept:
        one.cache_clear()
    yield
    for one in kept:
        one.cache_clear()


ENDS = {imdb: "no end", topics: ("learnt", " 0.5"), thirds: "Reuters-21578 0", mnist: " 0.9"}
CELLS = [
    pytest.param(module, cell, id=f"{module.__name__.rsplit('.')[-1]}: {cell.key}")
    for module in (imdb, topics, thirds, mnist)
    for cell in module.cells()
    # Of cells that differ by a number or by the length of words one is enough.
    if cell.key.endswith(ENDS[module]) or (module is imdb and cell.key.startswith("words: "))
]


@pytest.mark.filterwarnings("ignore")  # few rows do not converge, or leave out classes
@pytest.mark.parametrize(("module", "cell"), CELLS)
def test_a_cell_of_a_published_table_runs_on_a_few_rows(module, cell, tmp_path):
    result = cell.run()
    numbers = [value for value in result.values() if isinstance(value, float)]
    assert np.isfinite(numbers).all()
    assert stored(tmp_path / "none.jsonl", module) == {}
    assert module.report({cell.key: {**result, "seconds": 1.0}})


def test_learnt_rates_are_those_of_the_published_rule():
    """Without rates an estimator searches for their strength, which is another method, and many fits."""
    makes = {name: make for name, (make, *_) in imdb.METHODS.items()} | thirds.METHODS
    for name, make in makes.items():
        assert isinstance(make(1.0).rates, bd.PerFeature if "learnt" in name else float), name
    assert isinstance(topics.LEARNT["learnt"], bd.PerFeature)
