"""Every benchmark runs to its end on a few rows, and prints the tables of its results file."""

import re
import sys
from functools import partial
from importlib import import_module
from inspect import signature

import jax
import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from benchmarks import report
from benchmarks.figures import FIGURES, stem
from benchmarks.inclusion import calibration
from benchmarks.independent import cases, exact
from benchmarks.record import FOLDER, parse
from benchmarks.report import PAGES

RNG = np.random.default_rng(0)


def words(n=60, p=40):
    """Words, of which each of two classes prefers some."""
    y = np.where(np.arange(n) % 2, 1, -1)
    chance = np.where((np.arange(p) % 2 == 1) == (y[:, None] > 0), 0.5, 0.2)
    return sparse.csr_array((RNG.random((n, p)) < chance).astype(float)), y


def some_words(*sizes, **options):
    return words()


def images(split="train"):
    y = np.tile([1, 2, 3], 20).astype(np.uint8)
    return RNG.random((60, 9)) * (0.2 + (np.arange(9) % 3 + 1 == y[:, None])), y


def numbers(*sizes):
    X = RNG.normal(size=(60, 3))
    return X, np.where(X[:, 0] + RNG.normal(size=60) > 0, 1.0, -1.0)


def tables():
    X, y = numbers()
    yield "few rows", X, (y > 0).astype(int)


def classes(count):
    y = np.arange(600) % count
    return RNG.normal(size=(600, 4)) + 3.0 * (np.arange(4) == y[:, None]), y


def texts(*_, **__):
    y = np.tile([0, 1, 19], 40)
    found = [" ".join(f"w{word}" for word in RNG.integers(12, size=6)) for _ in y]
    return found, y, np.arange(len(y)) < 60


def stars(domain):
    found, _, _ = texts()
    return found, RNG.choice([1.0, 2.0, 4.0, 5.0], len(found))


def letters():
    return RNG.choice(list("acgt"), size=(60, 4)), np.tile([-1, 1], 30)


class FewDraws:
    """The package, whose ``sample`` takes few draws."""

    def __getattr__(self, name):
        return getattr(bd, name)

    def sample(self, *data, **options):
        return bd.sample(*data, **options | {"draws": 40, "tune": 40, "chains": 4})


def steady(sampler, short, long):
    draws, seconds = sampler(100)
    assert all(np.isfinite(value).all() for value in draws.values())
    return 100 / seconds, 1.0, 1000 * seconds / 100


def peer_draws(*_):
    return lambda count: ({"weight": RNG.normal(size=(4, count, 1))}, 1.0)


SETS = {"amazon": some_words, "bag_of_words": some_words, "imdb": some_words, "mnist": images}
DRAWN = {"bd": FewDraws()}
PAIRS = {"breast_cancer": numbers, "synthetic": numbers, "SEEDS": (0,), "per_second": steady}
# Of a figure, or a benchmark without one: its arguments, and what stands in the place of its data and sizes.
CASES = {
    "linear": ([], SETS | {"seconds": lambda job, budget=0.0: float(job() is not None)}),
    "fits --default": (["--default"], SETS),
    "fits --skip-mnist": (["--skip-mnist"], SETS),
    "fits --path": (["--path"], SETS),
    "fits --small": (["--small"], {"clock": lambda *jobs, repeats: [float(job() is not None) for job in jobs]}),
    "deletion 10": (2, {"tables": tables, "CHANCES": ("30 %", "by column")}),
    "missing 8": (2, {"tables": tables}),
    "unscaled": (1, {"tables": tables}),
    "factorization": (1, SETS),
    "inclusion calibration": (["calibration"], {"CELLS": {"calibration": partial(calibration, 2)}}),
    "scaling": ([], {"bag_of_words": lambda n, *_: words(max(n // 2000, 30))}),
    "scaling classes": (["classes"], {"topics": classes, "centres": classes}),
    "latent": (["3"], {"mnist": images, "ROWS": 30, "HELD_OUT": 15, "SEEDS": (0, 1)}),
    "sampling float64": (["float64"], PAIRS),
    "sampling float32": (["float32"], PAIRS),
    "sampling shapes none": (["shapes", "none"], {"nuts": peer_draws}),
    "sampling words": (["words", "20", "20"], SETS),
    "sampling words imdb 700": (["words", "imdb", "20", "20"], SETS),
    "sampling words books nuts": (["words", "books", "nuts"], SETS),
    "independent": (
        [],
        DRAWN
        | {
            "BLOCK": 1000,
            "cases": lambda: cases()[:1],
            "exact": lambda case, pilot, size=0: exact(case, pilot, size=2000),
        },
    ),
    "small_truth": (["20 × 2"], DRAWN | {"TRUTH_DRAWS": 40, "on_a_grid": lambda case: (0.5, 0.1)}),
    "projection": (["--sets", "1"], DRAWN),
    "growth": (["--sets", "2", "--file", "kept.jsonl"], DRAWN | {"SUBJECTS": 4}),
    # A fit of so few rows ends before a worker is killed.
    "dask_scale": (["--rows", "800"], {"PASSES": 1, "fits": lambda rows: (0.0, 0.0)}),
    "dask_scale sampling": (["--rows", "800", "--sampling"], {"PASSES": 1}),
    "out_of_core": (["--rows", "1000"], {}),
    "out_of_core sampling": (["sampling", "--rows", "1000", "--columns", "3", "--draws", "20", "--tune", "20"], {}),
    "peers.scalings": (["religion", "books"], {"newsgroups": texts, "amazon": some_words}),
    "gpu": (["--cpu", "--share", "0.001"], {}),
    "quick": (
        ["--out", "quick.json"],
        SETS
        | DRAWN
        | {"newsgroups": texts, "table": lambda *_: next(tables())[1:], "breast_cancer": lambda: next(tables())[1:]},
    ),
}


def of_pages(name):
    """Figures and tables that the pages have of a results file."""
    found = [found for page in PAGES for found in report._PAIR.finditer(page.read_text(encoding="utf-8"))]
    kinds = [(kind, [word.strip() for word in words.split(";")]) for _, kind, words, *_ in map(re.Match.groups, found)]
    return [(kind, words) for kind, words in kinds if words[0] == name and kind != "made"]


@pytest.fixture(autouse=True)
def promotion():
    """That of a user's process: the other tests of the suite have a stricter one."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # few rows and few draws do not converge, and peers warn as they like
@pytest.mark.parametrize("name", CASES)
def test_a_benchmark_prints_its_tables(name, monkeypatch, tmp_path, capsys):
    words, replaced = CASES[name]
    module = import_module(f"benchmarks.{name.split()[0]}")
    for place, value in replaced.items():
        if hasattr(module, place):
            monkeypatch.setattr(module, place, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(FOLDER.parents[1]))
    monkeypatch.setattr(sys, "argv", [name, *(words if isinstance(words, list) else [])])
    module.main(*([words] if signature(module.main).parameters else []))
    found = parse(capsys.readouterr().out)
    assert found["tables"] or found["text"]
    for table in found["tables"]:
        assert table["rows"]
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    if name in ("gpu", "inclusion calibration"):  # pages have a second run of the one; few features leave bins empty
        return
    # What the pages name is there, so that they can be made anew.
    monkeypatch.setattr(report, "read", lambda name: found)
    for kind, words in of_pages(stem(f"benchmarks.{name}")):
        assert (report.block if kind == "table" else report.figure)(words)


TABLES = {
    "amazon": ({"amazon": some_words}, (" rate 0.5", "from 0.5", "Beta prior", " 2 copies")),
    "ratings": ({"ratings": stars}, ("half 0",)),
    "splice": ({"splice": letters}, ("repetition 0",)),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TABLES)
def test_cells_of_a_published_table_run(name, monkeypatch):
    replaced, ends = TABLES[name]
    module = import_module(f"benchmarks.published.{name}")
    kept = [value for value in vars(module).values() if hasattr(value, "cache_clear")]
    for place, value in replaced.items():
        monkeypatch.setattr(module, place, value)
    for one in kept:
        one.cache_clear()
    try:
        results = {cell.key: {**cell.run(), "seconds": 1.0} for cell in module.cells() if cell.key.endswith(ends)}
    finally:
        for one in kept:
            one.cache_clear()
    found = parse(module.report(results))
    assert found["tables"]
    monkeypatch.setattr(report, "read", lambda name: found)
    for kind, words in of_pages(f"reproduce_{name}"):
        # A table of learnt rates is there once all their starts are.
        assert kind == "figure" or words[1:2] == ["Rates learnt"] or report.block(words)


def test_every_figure_is_tried_on_few_rows():
    elsewhere = {
        "reproduce_factors",
        "peers",
        "slow_suite",
        *(f"reproduce_{name}" for name in ("imdb", "mnist", "thirds", "topics")),
    }
    here = {stem(f"benchmarks.{name}") for name in CASES} | {f"reproduce_{name}" for name in TABLES}
    assert set(FIGURES) <= here | elsewhere
