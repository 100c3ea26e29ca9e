"""Compiled programs are kept between processes; what the user has set stays, and nothing that fails is in the way."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from bayesdrop import _compile_cache
from bayesdrop._compile_cache import cache_folder, compile_cache

SETTINGS = (
    "jax_compilation_cache_dir", "jax_compilation_cache_max_size", "jax_persistent_cache_min_compile_time_secs",
    "jax_enable_compilation_cache",
)  # fmt: skip


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """JAX as it is where nobody has set a cache, and a folder for ours; a set of the cache's hits and misses."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    jax_cache.reset_cache()
    _compile_cache._is_ready.cache_clear()
    monkeypatch.setattr(_compile_cache, "_SECONDS", 0.0)
    monkeypatch.setenv("BAYESDROP_CACHE", str(tmp_path / "kept"))
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    jax_cache.reset_cache()
    _compile_cache._is_ready.cache_clear()


def settings():
    return {name: getattr(jax.config, name) for name in SETTINGS}


def compiled(number):
    """Compile a program of its own."""
    jax.jit(lambda x: jnp.sin(x) * number)(jnp.ones(3)).block_until_ready()


def kept(folder):
    return sorted(path.name for path in folder.rglob("*-cache"))


def test_programs_are_kept_within_the_context_alone(cache):
    before = settings()
    compiled(1.5)
    with compile_cache(), compile_cache():  # as the samplers of a fold within one
        compiled(2.5)
    assert any("lambda" in name for name in kept(cache))
    assert settings() == before
    there = kept(cache)
    compiled(3.5)
    assert kept(cache) == there
    with compile_cache():
        compiled(4.5)
    assert len(kept(cache)) > len(there)
    assert cache_folder().stat().st_mode & 0o077 == 0


def test_a_cache_of_the_user_is_used_instead(cache, monkeypatch):
    own = cache / "own"
    jax.config.update("jax_compilation_cache_dir", str(own))
    before = settings()
    with compile_cache():
        assert settings() == before
    jax.config.update("jax_compilation_cache_dir", None)
    with compile_cache():
        jax.config.update("jax_compilation_cache_dir", str(own))
    assert settings() == before
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    with compile_cache():
        assert jax.config.jax_compilation_cache_dir is None


def test_it_is_switched_off(cache, monkeypatch):
    monkeypatch.setenv("BAYESDROP_CACHE", "0")
    with compile_cache():
        assert jax.config.jax_compilation_cache_dir is None
    assert kept(cache) == []


def test_the_folder_is_the_users(cache, monkeypatch):
    assert cache_folder().is_relative_to(cache / "kept")
    monkeypatch.delenv("BAYESDROP_CACHE")
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "xdg"))
        assert cache_folder().is_relative_to(cache / "xdg" / "bayesdrop")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: cache.relative_to("/"))
    assert cache_folder() is None


@pytest.mark.parametrize("what", ["a file in its place", "no lock"])
def test_a_folder_that_cannot_be_written_to_is_none(cache, caplog, monkeypatch, what):
    if what == "no lock":

        def refuse(*_, **__):
            raise NotImplementedError("flock")

        monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    else:
        (cache / "kept").write_text("")
    for _ in range(2):
        with compile_cache():
            assert jax.config.jax_compilation_cache_dir is None
            compiled(5.5)
    assert caplog.text.count("compiled programs are not kept") == 1


def test_what_a_kill_left_half_written_is_removed(cache):
    with compile_cache():
        compiled(6.5)
    folder = cache_folder()
    (name,) = [name for name in kept(cache) if "lambda" in name]
    (folder / name).write_bytes(b"half")
    (folder / name.replace("-cache", "-atime")).unlink()
    _compile_cache._is_ready.cache_clear()
    jax.clear_caches()
    with compile_cache():
        compiled(6.5)
    assert len((folder / name).read_bytes()) > 100


PROGRAM = """
import jax, collections
events = collections.Counter()
jax.monitoring.register_event_listener(lambda event, **_: events.update([event.rpartition("/")[2]]))
import numpy as np, bayesdrop as bd
X = np.random.default_rng(0).normal(size=(20, 2))
post = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, X[:, 0] > 0, draws=20, tune=20, chains=2, progress=False)
print(events["cache_hits"], float(bd.groups.dataset(post, "posterior")["weight"].sum()))
"""


@pytest.mark.slow
def test_processes_share_what_they_compile(tmp_path):
    """Two at a time in an empty folder, and one after them, which compiles no sampler; all draw the same."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    environment |= {"BAYESDROP_CACHE": str(tmp_path)}
    start = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    both = [subprocess.Popen(start, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0].split() for process in both)
    later = subprocess.run(start, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert first[1] == second[1] == later[1]
    assert int(later[0]) >= 1
