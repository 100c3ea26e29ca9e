"""The commands: files that load again, one clear line after an error, and nothing half-written."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.posterior.arviz_groups.groups import assemble, dataset, load

FIT_FILES = {"fit.nc", "rates.csv", "weights.csv", "rates.png", "rate_against_weight.png", "objective.png"}


def _files(folder):
    return {path.name for path in folder.iterdir()}


@pytest.fixture
def table(shop, tmp_path):
    shop.to_csv(tmp_path / "shop.csv", index=False)
    return "shop.csv"


def test_fit_writes_what_it_says(command, table, tmp_path, shop):
    result = command("fit", table, "--target", "bought", "--rates", "group", "--out", "result")
    assert result.exit_code == 0
    assert "Converged" in result.stdout
    assert "positive weights support yes" in result.stdout
    assert _files(tmp_path / "result") == FIT_FILES
    fit = xr.load_dataset(tmp_path / "result" / "fit.nc")
    rates = pd.read_csv(tmp_path / "result" / "rates.csv")
    weights = pd.read_csv(tmp_path / "result" / "weights.csv")
    assert rates["group"].tolist() == ["age", "visits", "color", "member"]
    np.testing.assert_allclose(weights["weight"], fit["weight"])
    np.testing.assert_allclose(weights["rate"], rates.set_index("group")["learnt_rate"][weights["group"]])
    assert (rates["plug_in_low"] < rates["learnt_rate"]).all()
    for name in FIT_FILES:
        if name.endswith(".png"):
            assert (tmp_path / "result" / name).read_bytes().startswith(b"\x89PNG")
            assert (tmp_path / "result" / name).stat().st_size > 5000


def test_fit_is_the_fit_of_the_library(command, table, tmp_path, shop):
    left_out = ["--drop", "color", "--drop", "member"]
    command("fit", table, "--target", "bought", "--loss", "hinge", "--C", "0.2", "--rates", "feature", *left_out)
    written = xr.load_dataset(tmp_path / "bayesdrop-output" / "fit.nc")
    X = shop[["age", "visits"]]
    fit = bd.fit(bd.Model(loss=bd.Hinge(), C=0.2), (X - X.mean()) / X.std(ddof=0), shop["bought"].to_numpy(dtype=str))
    np.testing.assert_allclose(written["weight"], fit.weight, rtol=1e-6)
    np.testing.assert_allclose(written["rate"], fit.rates)


@pytest.mark.parametrize(("rates", "shown"), [("shared", "all"), ("0.3", "Fixed dropout rate: 0.3")])
def test_other_rates(command, table, tmp_path, rates, shown):
    result = command("fit", table, "--target", "bought", "--rates", rates, "--no-standardize")
    assert shown in result.stdout
    written = pd.read_csv(tmp_path / "bayesdrop-output" / "rates.csv")
    assert len(written) == (1 if rates == "shared" else 7)
    assert ("rates.png" in _files(tmp_path / "bayesdrop-output")) == (rates == "shared")


def test_constant_columns_are_reported(command, table, tmp_path, shop):
    shop.assign(unit=1.0).to_parquet(tmp_path / "shop.parquet")
    result = command("fit", "shop.parquet", "--target", "bought", "--rates", "feature")
    assert "constant, so without weight and with the rate at its prior: 'unit'" in result.stdout
    unit = pd.read_csv(tmp_path / "bayesdrop-output" / "weights.csv").set_index("feature").loc["unit"]
    assert abs(unit["weight"]) < 1e-12
    assert unit["rate"] == 0.5


def test_sample_writes_a_posterior_that_loads(command, table, tmp_path):
    options = ["--sample", "--draws", 30, "--tune", 10, "--chains", 2, "--seed", 3]
    result = command("fit", table, "--target", "bought", *options)
    assert result.exit_code == 0
    assert "Raise --draws and --tune" in " ".join(result.stdout.split())
    folder = tmp_path / "bayesdrop-output"
    assert _files(folder) == FIT_FILES | {"posterior.nc", "ranks.png"}
    post = dataset(load(folder / "posterior.nc"), "posterior")
    assert post["weight"].sizes == {"chain": 2, "draw": 30, "feature": 7}
    rates = pd.read_csv(folder / "rates.csv")
    assert rates["feature"].tolist() == post["feature"].values.tolist()
    np.testing.assert_allclose(rates["posterior_median"], post["rate"].median(("chain", "draw")), rtol=1e-5)
    assert {"posterior_low", "posterior_high", "r_hat", "ess_bulk", "ess_tail"} <= set(rates)
    weights = pd.read_csv(folder / "weights.csv")
    np.testing.assert_allclose(weights["posterior_median"], post["weight"].median(("chain", "draw")), rtol=1e-5)
    np.testing.assert_allclose(weights["scaled_weight"], (1 - weights["rate"]) * weights["weight"])


@pytest.mark.parametrize("kept", ["rate", pytest.param("intercept", marks=pytest.mark.slow)])
def test_draws_of_some_variables_alone(command, table, tmp_path, shop, kept):
    """The same draws: what is kept one by one is as without the option, the rest is from its summaries."""
    options = ["--sample", "--draws", 30, "--tune", 10, "--chains", 2, "--seed", 3]
    some = [*options, "--variables", kept, "--report", "--out", "some"]
    assert command("fit", table, "--target", "bought", *some).exit_code == 0
    assert command("fit", table, "--target", "bought", *options, "--out", "all").exit_code == 0
    whole, part = (load(tmp_path / folder / "posterior.nc") for folder in ("all", "some"))
    assert set(dataset(part, "posterior").data_vars) == {kept}
    xr.testing.assert_allclose(dataset(part, "posterior")[kept], dataset(whole, "posterior")[kept])
    few = dataset(part, "posterior_thinned")["weight"]
    weights, every = (pd.read_csv(tmp_path / folder / "weights.csv") for folder in ("some", "all"))
    np.testing.assert_allclose(weights["posterior_median"], few.median(("chain", "draw")), rtol=1e-5)
    np.testing.assert_allclose(weights["posterior_median"], every["posterior_median"], atol=0.5)
    rates, wide = (pd.read_csv(tmp_path / folder / "rates.csv") for folder in ("some", "all"))
    same = {"rate": list(wide), "intercept": ["feature", "posterior_median"]}[kept]
    pd.testing.assert_frame_equal(rates[same], wide[same])
    assert {"report.html", "rates.png", "ranks.png"} <= _files(tmp_path / "some")
    shop.head(5).to_csv(tmp_path / "new.csv", index=False)
    assert command("predict", "some", "new.csv", "--posterior").exit_code == 0


def _fake_sample(draws_there=None):
    """A stand-in for the sampler that draws from normals, or was interrupted after ``draws_there`` draws."""

    def sample(model, X, y, *, draws, chains, seed, feature_names, **_):
        generator = np.random.default_rng(seed)
        steps = (chains, draws_there or draws)
        rate_map = model.bind(feature_names)
        data = {"weight": (("chain", "draw", "feature"), generator.normal(size=(*steps, X.shape[1])))}
        coords = {"feature": feature_names}
        if rate_map.is_free:
            coords[rate_map.dim] = rate_map.names
            data["rate"] = (("chain", "draw", rate_map.dim), generator.random((*steps, rate_map.size)))
        return assemble({"posterior": xr.Dataset(data, coords=coords)})

    return sample


@pytest.mark.parametrize("rates", ["group", pytest.param("shared", marks=pytest.mark.slow), "0.2"])
def test_posterior_of_other_rates(command, table, tmp_path, monkeypatch, rates):
    monkeypatch.setattr("bayesdrop.posterior.sampling.sample", _fake_sample())
    result = command("fit", table, "--target", "bought", "--rates", rates, "--sample", "--draws", 500)
    said = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "largest R-hat 1.00" in said
    assert "No problem was found with these draws." in said
    assert "Raise --draws and --tune" not in said
    assert ("plug-in interval" in said) == (rates != "0.2")
    assert {"posterior.nc", "ranks.png", "rates.csv"} <= _files(tmp_path / "bayesdrop-output")


def test_an_interrupted_sample_is_kept_and_said_to_be_partial(command, table, tmp_path, monkeypatch):
    monkeypatch.setattr("bayesdrop.posterior.sampling.sample", _fake_sample(draws_there=15))
    result = command("fit", table, "--target", "bought", "--sample", "--draws", 500)
    assert result.exit_code == 0
    assert "the 15 of 500 draws of each chain that were finished are kept: partial" in " ".join(result.stdout.split())
    post = dataset(load(tmp_path / "bayesdrop-output" / "posterior.nc"), "posterior")
    assert post.sizes["draw"] == 15
    assert "ranks.png" not in _files(tmp_path / "bayesdrop-output")


@pytest.mark.slow
def test_demo(command, tmp_path):
    result = command("demo", "--quick", "--out", "here")
    assert result.exit_code == 0
    printed = " ".join(result.stdout.split())
    for phrase in ("Three acts, half a minute", "ridge, tuned", "pixels missing", "R-hat", "In three sentences"):
        assert phrase in printed
    # No act on data where nothing is gained.
    assert printed.count("Gained: ") == 3
    assert "Gained: nothing" not in printed
    assert _files(tmp_path / "here") == FIT_FILES | {"posterior.nc", "ranks.png", "demo.png"}
    post = dataset(load(tmp_path / "here" / "posterior.nc"), "posterior")
    assert post.sizes["feature"] == 16


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.csv", "--target", "bought"], "TABLE: absent.csv does not exist"),
        (["shop.csv", "--target", "boght"], "did you mean 'bought'"),
        (["shop.csv", "--target", "bought", "--drop", "nothing"], "--drop: no column 'nothing'"),
        (["shop.csv", "--target", "color", "--loss", "hinge"], "--loss: a hinge has two classes, and 'color' has 3"),
        (["shop.csv", "--target", "bought", "--rates", "some"], "--rates: expected tuned, feature, group"),
        (["shop.csv", "--target", "age", "--rates", "feature"], "--rates: rates are learnt from classes, and 'age'"),
        (["shop.csv", "--target", "bought", "--rates", "tuned", "--sample"], "with --sample take feature"),
        (["shop.csv", "--target", "bought", "--keep", "nothing"], "--keep: no column 'nothing'"),
        (["shop.csv", "--target", "bought", "--rates", "1"], "--rates: expected"),
        (["shop.csv", "--target", "bought", "--rates", "nan"], "--rates: expected"),
        (["shop.csv", "--target", "bought", "--C", "0"], "--C: expected a finite number above 0, got 0.0"),
        (["shop.csv", "--target", "bought", "--C", "nan"], "--C: expected a finite number above 0, got nan"),
        (["shop.csv", "--target", "bought", "--sample", "--seed", 2**32], "--seed: expected a whole number below"),
        (
            ["shop.csv", "--target", "bought", "--sample", "--checkpoint", "shop.csv"],
            "--checkpoint: shop.csv is a file",
        ),
        (
            ["shop.csv", "--target", "bought", "--sample", "--variables", "noise"],
            "--variables: expected some of ['intercept', 'rate', 'weight'], got ['noise'] as well",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(command, table, tmp_path, arguments, message):
    result = command("fit", *arguments, "--out", "new/folder")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.startswith("bayesdrop fit: ")
    assert len(result.stderr.splitlines()) == 1
    assert _files(tmp_path) == {"shop.csv"}


@pytest.mark.parametrize(
    "arguments",
    [["shop.csv"], ["--target", "bought"], ["shop.csv", "--target", "bought", "--loss", "cubic"],
     ["shop.csv", "--target", "bought", "--chains", "0"], ["shop.csv", "--target", "bought", "--C", "much"]],
)  # fmt: skip
def test_wrong_usage(command, table, tmp_path, arguments):
    result = command("fit", *arguments)
    assert result.exit_code == 2
    assert "Error: " in result.stderr or "--target: expected" in result.stderr
    assert _files(tmp_path) == {"shop.csv"}


def test_output_that_cannot_be_written_is_found_before_the_work(command, table, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("worked before the folder was checked")

    monkeypatch.setattr("bayesdrop.fitting.fit.fit", never)
    for out in ("shop.csv", "shop.csv/below"):
        for arguments in (["fit", table, "--target", "bought"], ["demo"]):
            result = command(*arguments, "--out", out)
            assert result.exit_code == 2
            assert f"--out: cannot write to {out}" in result.stderr
    assert _files(tmp_path) == {"shop.csv"}


@pytest.mark.slow_cases("130")
@pytest.mark.parametrize(("error", "code"), [(OSError(28, "No space left on device"), 1), (KeyboardInterrupt(), 130)])
def test_failure_late_leaves_earlier_results_as_they_were(command, table, tmp_path, monkeypatch, error, code):
    command("fit", table, "--target", "bought", "--rates", "feature")
    before = {path.name: path.read_bytes() for path in (tmp_path / "bayesdrop-output").iterdir()}

    def broken(*_, **__):
        raise error

    monkeypatch.setattr("bayesdrop.plots.objective_trace", broken)
    result = command("fit", table, "--target", "bought", "--C", "0.01")
    assert result.exit_code == code
    assert "Traceback" not in result.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "bayesdrop-output").iterdir()} == before
    result = command("fit", table, "--target", "bought", "--out", "new")
    assert not (tmp_path / "new").exists()


def test_files_of_an_earlier_run_are_named(command, table, tmp_path):
    command("fit", table, "--target", "bought", "--rates", "feature")
    result = command("fit", table, "--target", "bought", "--rates", "0.1")
    assert "Left there from an earlier run: rate_against_weight.png, rates.png" in result.stdout


def test_a_fit_that_stops_early_says_what_to_do(command, table, monkeypatch):
    from bayesdrop.fitting.fit import fit

    plain = fit
    monkeypatch.setattr("bayesdrop.fitting.fit.fit", lambda *a, **k: plain(*a, method=bd.Newton(max_iter=1), **k))
    result = command("fit", table, "--target", "bought", "--rates", "0.1")
    assert "Stopped at max_iter" in result.stdout


def test_help_and_version(command):
    assert command("--version").stdout.strip() == bd.__version__
    for arguments in (["--help"], ["fit", "--help"], ["demo", "--help"]):
        result = command(*arguments)
        assert result.exit_code == 0
        assert "<" not in result.stdout.replace("<path>", "")


@pytest.mark.parametrize("absent", [["typer"], ["pandas", "matplotlib"]])
def test_missing_extra_gives_advice(absent):
    program = (
        f"import sys\nfor name in {absent!r}: sys.modules[name] = None\nfrom bayesdrop.cli.app import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f'bayesdrop: the command line needs {", ".join(absent)}: pip install "bayesdrop[cli]"\n'


def test_runs_as_a_module():
    command = [sys.executable, "-W", "error", "-m", "bayesdrop.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == bd.__version__
