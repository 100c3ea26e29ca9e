"""Means against grids; and a sampler with a state of many kinds of leaves, which tests of checkpoints stop and kill.

Run as a program with a folder and a number of draws, this file is the run that gets killed.
"""

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bayesdrop.sampling.run.checkpoint import Checkpoint, open_checkpoint
from bayesdrop.sampling.run.runner import as_key, run

FINGERPRINT = {"X": "float64 (3, 2) sha256 ab", "model": "Model", "model.C": 1.0, "chains": 3.0}


class State(NamedTuple):
    place: Any
    masks: Any
    count: Any
    keys: Any


@dataclass(frozen=True)
class Walk:
    """Autoregressive chains, with a state of many kinds of leaves: truth values, bytes, nested tuples, several keys."""

    variables: ClassVar = {"weight": ()}
    statistics: ClassVar = ("lp", "count", "packed")

    def init(self, operands, key, chains):
        masks = (jnp.ones((chains, 2), bool), {"packed": jnp.zeros(3, jnp.uint8), "empty": jnp.zeros((chains, 0))})
        return State(jnp.zeros(chains), masks, jnp.int32(0), jax.random.split(key, chains))

    def step(self, operands, state):
        keys = jax.vmap(jax.random.split)(state.keys)
        noise = jax.vmap(jax.random.normal)(keys[:, 1])
        flags, others = state.masks
        masks = (flags ^ (noise > 0)[:, None], others | {"packed": others["packed"] + jnp.uint8(1)})
        place = operands * state.place + noise + jnp.sum(flags, axis=1).astype(noise.dtype)
        state = State(place, masks, state.count + 1, keys[:, 0])
        packed = jnp.broadcast_to(state.masks[1]["packed"][0], state.place.shape)
        return state, {
            "weight": state.place,
            "packed": packed,
            "count": jnp.full_like(state.place, state.count),
            "lp": -state.place,
        }


def run_walk(folder=None, seed=0, fingerprint=FINGERPRINT, **options):
    options = {"tune": 30, "draws": 200, "chains": 3, "progress": False} | options
    operands, key = jnp.asarray(0.5), as_key(seed)
    if folder is None:
        return run(Walk(), operands, key, **options)
    with open_checkpoint(folder, fingerprint) as checkpoint:
        return run(Walk(), operands, key, checkpoint=checkpoint, **options)


def _averages(log_density, *values):
    chance = np.exp(log_density - logsumexp(log_density))
    return [float(np.sum(chance * value)) for value in values]


@pytest.fixture(scope="session")
def averages():
    """``averages(log_density, *values)``: means of values over a grid of log densities up to a constant."""
    return _averages


@pytest.fixture(scope="session")
def assert_means():
    """``assert_means(post, expected)``: means of draws by name are within 4.5 Monte Carlo standard errors of these."""

    import arviz as az

    def check(post, expected):
        for name, value in expected.items():
            draws = np.asarray(post[name], float)
            flat = draws.reshape(*draws.shape[:2], -1)
            errors = np.asarray(az.mcse(az.convert_to_dataset({"x": flat}))["x"])
            z = (flat.mean((0, 1)) - np.ravel(value)) / errors
            assert np.max(np.abs(z)) < 4.5, (name, z)

    return check


def _least(ranks, draws):
    """Least p value of uniform ranks among so many draws, times the number of p values.

    In 16 cells, and against a shift or another spread by the first two Legendre polynomials (Neyman 1937).
    """
    middle, found = np.arange(draws + 1) - draws / 2, []
    polynomials = [part / np.sqrt(np.mean(part**2)) for part in (middle, middle**2 - np.mean(middle**2))]
    for column in ranks:
        found.append(stats.chisquare(np.bincount(column * 16 // (draws + 1), minlength=16)).pvalue)
        smooth = len(column) * sum(np.mean(polynomial[column]) ** 2 for polynomial in polynomials)
        found.append(stats.chi2(2).sf(smooth))
    return min(found) * len(found)


@pytest.fixture(scope="session")
def least():
    """``least(ranks, draws)``: of simulation-based calibration, by quantity (Talts et al. 2018)."""
    return _least


@pytest.fixture(scope="session")
def walk():
    """``walk(folder, ...)``: the run, with a checkpoint if there is a folder; of a ``fingerprint`` of its own."""
    return run_walk


@pytest.fixture(scope="session")
def walk_program():
    """Command that runs it: to be followed by a folder and a number of draws."""
    return [sys.executable, __file__]


@pytest.fixture(scope="session")
def fingerprint():
    """What the checkpoints of ``walk`` say that they belong to."""
    return FINGERPRINT


def _content(folder):
    return {path.name: path.read_bytes() if path.is_file() else None for path in sorted(Path(folder).iterdir())}


@contextlib.contextmanager
def _refused(message, folder):
    before = _content(folder)
    with pytest.raises(ValueError, match=message):
        yield
    assert _content(folder) == before


@pytest.fixture(scope="session")
def content():
    """``content(folder)``: the bytes of its files by name."""
    return _content


@pytest.fixture(scope="session")
def refused():
    """``with refused(message, folder)``: the block raises this ValueError and changes nothing in the folder."""
    return _refused


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every chunk."""
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)


@pytest.fixture
def folder(tmp_path, often):
    """Checkpoint of a finished run, in several parts."""
    run_walk(tmp_path / "run")
    return tmp_path / "run"


if __name__ == "__main__":
    Checkpoint.due = lambda self: True
    run_walk(Path(sys.argv[1]), draws=int(sys.argv[2]))
