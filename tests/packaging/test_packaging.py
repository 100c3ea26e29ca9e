"""The wheel holds every package, imports in a clean environment, and importing stays light."""

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import bayesdrop as bd

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_folder_is_a_listed_package():
    """A forgotten sub-package would be missing from the wheel while the editable install still imports it."""
    folders = {"bayesdrop"} | {
        "bayesdrop." + ".".join(path.parent.relative_to(ROOT / "bayesdrop").parts)
        for path in (ROOT / "bayesdrop").rglob("__init__.py")
        if path.parent != ROOT / "bayesdrop"
    }
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == folders | {"bayesdrop.models"}


def test_the_wheel_holds_every_module(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    expected = {str(path.relative_to(ROOT)) for path in (ROOT / "bayesdrop").rglob("*.py")}
    expected |= {f"bayesdrop/models/{path.name}" for path in (ROOT / "models").glob("*.py")}
    assert held == expected
    assert "bayesdrop/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_the_wheel_installs_and_imports_elsewhere(installed, tmp_path):
    code = (
        "import bayesdrop as bd, bayesdrop.models.feature_noising as m\n"
        "assert 'env' in bd.__file__ and 'env' in m.__file__, (bd.__file__, m.__file__)\n"
        "for name in bd.__all__: getattr(bd, name)\n"
        "for name in bd.distributions.__all__: getattr(bd.distributions, name)\n"
        "print(bd.fit(bd.Model(), [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [0, 1, 1, 0]).status.name)\n"
    )
    done = subprocess.run([str(installed), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "CONVERGED"


def test_the_makefile_names_tests_that_exist():
    """A name that is gone would stop the last part of the continuous integration, after an hour."""
    named = re.findall(r"(tests/[\w/.]+)(?:::(\w+))?", (ROOT / "Makefile").read_text())
    assert len(named) > 10
    for path, function in named:
        assert (ROOT / path).exists(), path
        assert not function or f"def {function}(" in (ROOT / path).read_text(), f"{path}::{function}"


def test_lower_bounds_are_read_from_the_project():
    """Each core dependency has one, and that of JAX has what the samplers call: enable_x64 came with 0.8."""
    spec = importlib.util.spec_from_file_location("lowest", Path(__file__).with_name("lowest.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pins = dict(pin.split("==") for pin in module.pins())
    assert len(pins) == len(PROJECT["project"]["dependencies"]) + 2
    assert tuple(map(int, pins["jax"].split("."))) >= (0, 8)
    for text in ("numpy", "numpy<3", "numpy==2.0"):
        with pytest.raises(ValueError, match="lower bound"):
            module.lowest(text)


STAGES = """
import sys
def none(*names):
    assert not [name for name in names if name in sys.modules], [name for name in names if name in sys.modules]

import bayesdrop as bd
none("jax", "arviz", "sklearn", "matplotlib", "dask", "pandas")
import numpy as np
X = np.random.default_rng(0).normal(size=(40, 3))
bd.fit(bd.Model(rates=bd.PerFeature(bd.Beta(1, 1))), X, X[:, 0] > 0).predict(X)
none("jax", "arviz", "sklearn", "pandas", "scipy.stats", "scipy.optimize")
import bayesdrop.sampling.run.runner, bayesdrop.gibbs.method
from bayesdrop.distributions import polya_gamma_one, reciprocal_inverse_gaussian
none("numpyro")
import bayesdrop.posterior.sampling, bayesdrop.hmc.method
none("arviz", "sklearn", "pandas", "scipy.stats", "scipy.optimize")
from bayesdrop.distributions import InverseGaussian
assert "numpyro" in sys.modules
import bayesdrop.distributions, bayesdrop.models.feature_noising, jax
for name in bd.__all__: getattr(bd, name)
assert not jax.live_arrays() and not jax.config.jax_enable_x64
"""


def test_each_stage_imports_no_more_than_it_needs():
    """The package, a first fit, the exact sampler, the others; and all of it puts no array on a device."""
    done = subprocess.run([sys.executable, "-c", STAGES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(version("arviz").startswith("0."), reason="ArviZ before 1 has no stand-ins")
@pytest.mark.slow_cases("Kernel")
@pytest.mark.parametrize("part", ["bayesdrop.distributions import PolyaGamma", "bayesdrop import NumpyroKernel"])
def test_numpyro_is_whole_where_arviz_came_first(part):
    # ArviZ 1.3 puts a lazy stand-in for numpyro among the modules, whose parts Python would otherwise load twice.
    code = f"import arviz\nfrom {part}\nimport numpyro as n\nn.infer.initialization, n.distributions.distribution"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_public_names():
    assert len(set(bd.__all__)) == len(bd.__all__) > 60
    assert set(bd.__all__) <= set(dir(bd))
    for name in bd.__all__:
        assert getattr(bd, name) is not None
    with pytest.raises(AttributeError, match="bayesdrop attribute Nope"):
        bd.Nope
    with pytest.raises(AttributeError, match=r"attribute sampel; did you mean bd\.sample\?"):
        bd.sampel
