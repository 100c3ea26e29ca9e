"""A statistician's first week with the installed package: each day's work as a short script, in an empty folder.

The scripts run in one process, one after the other and without the extras that they do not name, and what became of
each is a test.
"""

import json
import os
import subprocess

import pytest

EXTRAS = ("matplotlib", "formulaic", "dask", "distributed", "numba", "polars", "pyarrow", "typer", "rich")
START = """
import numpy as np
import pandas as pd
import bayesdrop as bd
rng = np.random.default_rng(0)
X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["age", "dose", "size"])
y = np.where(X["age"] - X["dose"] + rng.logistic(size=80) > 0, "ill", "well")
few = {"draws": 60, "tune": 60, "chains": 2, "progress": False}
plain = bd.Model(rates=bd.Fixed(0.0))
"""
# Extras that a script needs, and the script. ArviZ before 1 needs matplotlib itself.
SCRIPTS = {
    "fit, predict, summary, save and load": (
        (),
        """
fit = bd.fit(bd.Model(), X, y)
assert "age" in str(fit) and list(fit.summary().index) == list(X)
fit.save("fit.nc")
again = bd.Fit.load("fit.nc").predict(X)
assert np.array_equal(again.mean, fit.predict(X).mean)
assert set(again.to_frame()["label"]) <= {"ill", "well"}
""",
    ),
    "weights and marginal effects": (
        (),
        """
fit = bd.fit(bd.Model(), X, y)
table = bd.weights_table(fit)
assert set(table["interval"]) == {"use bd.sample"} and "odds_ratio" in table
table = bd.weights_table(bd.fit(bd.Model(rates=bd.Fixed(0.0)), X, y))
assert (table["low"] < table["weight"]).all() and "odds_ratio_low" in table
effects = bd.marginal_effects(fit, X, features=["age"])
assert len(effects) == 1
""",
    ),
    "missing values": (
        (),
        """
holes = X.where(rng.random(X.shape) > 0.1)
try:
    bd.DropoutLogisticRegression(0.2).fit(holes, y)
except ValueError as error:
    assert 'missing="nan"' in str(error)
else:
    raise AssertionError
chance = bd.DropoutLogisticRegression(0.2, missing="nan").fit(holes, y).predict_proba(holes)
assert np.isfinite(chance).all()
""",
    ),
    "a formula": (
        ("formulaic",),
        """
data = X.assign(outcome=y, site=rng.choice(["north", "south"], 80))
fit = bd.fit("outcome ~ scale(age) + dose + C(site)", data)
assert len(fit.predict(data[:3]).label) == 3
""",
    ),
    "a formula that travels": (
        ("formulaic", "matplotlib"),
        """
import matplotlib, subprocess, sys
matplotlib.use("Agg")
data = X.assign(outcome=y, site=rng.choice(["north", "south", "west"], 80), days=rng.integers(1, 40, 80))
data["events"] = rng.poisson(0.1 * data["days"])
fit = bd.fit(plain, "outcome ~ scale(age) * site + bs(dose, df=4)", data)
post = bd.sample(bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)), "events ~ age + site + offset(np.log(days))", data, **few)
fit.save("fit.nc")
bd.groups.save(post, "post.nc")
data.to_csv("rows.csv", index=False)
code = (
    "import pandas as pd, bayesdrop as bd; rows = pd.read_csv('rows.csv'); "
    "print(repr([bd.predict(r, rows).mean.tolist() for r in (bd.Fit.load('fit.nc'), bd.groups.load('post.nc'))]))"
)
done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
assert done.returncode == 0, done.stderr
for result, told in zip((fit, post), eval(done.stdout)):
    assert np.allclose(bd.predict(result, data).mean, told, rtol=0, atol=1e-12)
table = bd.weights_table(fit)
assert "site[south] vs site[north]" in table.index and "odds_ratio_low" in table
assert "rate_ratio" in bd.weights_table(post)
assert "site[west] vs site[north]" in bd.marginal_effects(post, data).index
assert len(bd.comparisons(fit, data, {"age": "sd", "site": "pairwise"})) == 4
bd.plots.effects(bd.predictions_grid(fit, data, {"dose": 8, "site": None})).figure.savefig("effects.png")
assert "rows of the posterior itself" in str(bd.elpd(post, data))
holes = data.assign(age=data["age"].where(data.index > 3))
assert len(bd.fit("outcome ~ age + site", holes, dropna=True).feature_names) == 4
assert np.isfinite(bd.fit(bd.Model(missing="nan"), "outcome ~ scale(age) + site", holes).predict(holes).mean).all()
""",
    ),
    "a posterior, its scores and its prior": (
        ("matplotlib",),
        """
post = bd.sample(plain, X, y, **few)
assert "R-hat" in str(bd.diagnose(post))
assert bd.elpd(post, X, y).elpd < 0
assert "log_prior" in bd.groups.group_names(bd.log_prior(post))
bd.groups.save(post, "post.nc")
bd.groups.load("post.nc")
""",
    ),
    "folds": (("matplotlib",), "assert bd.kfold(plain, X, y, cv=2, **few).elpd < 0"),
    "the command line": (
        ("typer", "rich", "pyarrow", "matplotlib", "formulaic"),
        """
import matplotlib
from typer.testing import CliRunner
from bayesdrop.cli.app import build_app
matplotlib.use("Agg")
X.where(rng.random(X.shape) > 0.1).assign(outcome=y).to_csv("table.csv", index=False)
def run(*arguments):
    done = CliRunner().invoke(build_app(), arguments)
    assert done.exit_code == 0, done.output
run("fit", "table.csv", "--target", "outcome", "--missing", "--out", "model")
run("predict", "model", "table.csv")
assert len(pd.read_csv("predictions.csv")) == 80
""",
    ),
    "the log and the cache": (
        ("matplotlib",),
        """
import logging
lines = []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
log = logging.getLogger("bayesdrop")
log.addHandler(handler)
log.setLevel(logging.INFO)
kept = bd.cache_programs("kept")
bd.fit(bd.Model(), X, y)
bd.sample(plain, X, y, **few)
assert any("fit after" in line for line in lines) and any("2 chains, draw 120 of 120" in line for line in lines)
assert kept.is_dir()
""",
    ),
    "a classifier that chooses": (
        (),
        """
model = bd.DropoutLogisticRegressionCV().fit(X, y)
assert "Chosen by" in str(model.selection_) and model.predict_proba(X).shape == (80, 2)
""",
    ),
    "pictures": (
        ("matplotlib",),
        """
import matplotlib
matplotlib.use("Agg")
fit = bd.fit(bd.Model(), X, y)
bd.plots.weights_forest(bd.weights_table(fit)).figure.savefig("weights.png")
bd.plots.rates_forest(None, fit).figure.savefig("rates.png")
""",
    ),
    "no pictures": (
        (),
        """
try:
    bd.plots.objective_trace(bd.fit(bd.Model(), X, y))
except ImportError as error:
    assert "pip install 'bayesdrop[plot]'" in str(error)
else:
    raise AssertionError
""",
    ),
    "tables, and models of scikit-learn": (
        ("matplotlib", "polars"),
        """
model = bd.DropoutSVC(0.3).fit(X, y)
assert (model.to_sklearn().predict(X) == model.predict(X)).mean() > 0.9
post = bd.sample(plain, X, y, **few)
assert list(bd.draws_table(post, "weight")) == ["chain", "draw", *(f"weight[{name}]" for name in X)]
assert bd.draws_table(post, backend="polars").height == 120
""",
    ),
}
RUNNER = """
import json, os, sys, traceback
given = json.load(sys.stdin)
became, absent = {}, set()

class Hiding:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in absent else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Hiding, sys.meta_path)
for number, (name, (needed, code)) in enumerate(given["scripts"].items()):
    absent |= set(given["extras"]) - set(needed)
    kept = {module: sys.modules.pop(module) for module in list(sys.modules) if module.partition(".")[0] in absent}
    os.makedirs(f"day{number}")
    os.chdir(f"day{number}")
    try:
        exec(compile(given["start"] + code, name, "exec"), {"__name__": name})
        became[name] = ""
    except BaseException:
        became[name] = traceback.format_exc()
    os.chdir("..")
    absent.clear()
    sys.modules.update(kept)
json.dump(became, open("became.json", "w"))
"""
LONG = {"folds"}


def run(installed, folder, scripts):
    """What became of each script: nothing, or its traceback."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    given = json.dumps({"scripts": scripts, "start": START, "extras": EXTRAS})
    command = [str(installed), "-W", "ignore", "-c", RUNNER]
    done = subprocess.run(
        command, input=given, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "became.json").read_text())


@pytest.fixture(scope="module")
def week(installed, tmp_path_factory):
    return run(
        installed, tmp_path_factory.mktemp("week"), {name: SCRIPTS[name] for name in SCRIPTS if name not in LONG}
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in LONG])
def test_a_day(week, name):
    assert week[name] == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LONG))
def test_a_long_day(installed, tmp_path, name):
    assert run(installed, tmp_path, {name: SCRIPTS[name]}) == {name: ""}
