"""Every example of the tables of methods runs, and the README's own, and the README stays short."""

import contextlib
import re
import warnings
from pathlib import Path

import dask.array
import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.warnings import NarrowIntervalsWarning

ROOT = Path(__file__).parents[2]
README, METHODS = (ROOT / name for name in ("README.md", "docs/methods.md"))


def examples():
    lines = METHODS.read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| what | here |")]
    return [code for row in rows for code in re.findall(r"`([^`]+)`", row.split(" | ")[1])]


def by_hand(X, y):
    """A posterior of a few draws."""
    import xarray as xr

    from bayesdrop.description import attributes

    rng = np.random.default_rng(1)
    dims = ("chain", "draw", "feature")
    parts = {"weight": (dims, rng.normal(scale=0.1, size=(2, 100, 6))), "intercept": (dims[:2], np.zeros((2, 100)))}
    parts["rate"] = (dims, rng.beta(1, 9, size=(2, 100, 6)))
    coords = {"chain": [0, 1], "draw": np.arange(100), "feature": [f"x{d}" for d in range(6)]}
    groups = {"posterior": xr.Dataset(parts, coords), "observed_data": xr.Dataset({"y": ("obs_id", y)})}
    return bd.groups.assemble(groups, attributes(bd.Model(), [0, 1]))


def test_the_tables_are_found():
    assert len(examples()) >= 80


def test_the_readme_is_a_screen_and_a_half():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 75


@pytest.mark.slow
def test_the_example_of_the_readme_runs():
    code = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(code) == 1
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = code[0].replace("bd.sample(model, X, y,", "bd.sample(model, X, y, draws=50, tune=50, progress=False,")
        assert few != code[0]
        exec(compile(few, "README.md", "exec"), {"__name__": "readme"})


def cases():
    """The examples; those that sample are slow but for one: each sampler has an example that runs in its docstring."""
    for k, code in enumerate(examples()):
        long = ("bd.sample", "bd.reweight(bd.sample", "bd.kfold", "bd.log_prior")
        sampled = code.startswith(long) and not code.startswith("bd.sample(bd.Model(), X, y, draws")
        yield pytest.param(code, marks=[pytest.mark.slow] if sampled else [], id=f"{k}: {code}")


@pytest.mark.parametrize("code", list(cases()))
def test_example_runs(code, breast_cancer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # one writes a checkpoint
    X, y = breast_cancer[0][:200, :6], breast_cancer[1][:200]
    rng = np.random.default_rng(0)
    names = {"bd": bd, "X": X, "y": y, "more": rng.normal(size=(50, 6)), "groups": ["a", "a", "b", "b", "c", "c"]}
    names |= {"da": dask.array, "jnp": jax.numpy, "np": np}
    names |= {"target": X @ np.ones(6) + rng.normal(size=200), "many": np.arange(200) % 3}
    if "post" in code:
        names["post"] = by_hand(X, y)
    allowed = contextlib.ExitStack()
    if "NUTS" in code or "sample_latent" in code:  # NumPyro's own code promotes dtypes and ranks
        allowed.enter_context(jax.numpy_dtype_promotion("standard"))
        allowed.enter_context(jax.numpy_rank_promotion("allow"))
    with allowed, warnings.catch_warnings():
        if "bd.sample" in code or "bd.kfold" in code:
            warnings.simplefilter("ignore")  # a few draws, for show
        if "bd.variational" in code:
            warnings.simplefilter("ignore", NarrowIntervalsWarning)
        assert eval(code, names) is not None
