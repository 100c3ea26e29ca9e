"""Compiled programs are kept between processes; what the user has set stays, and nothing that fails is in the way."""

import contextlib
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
    "jax_persistent_cache_min_entry_size_bytes", "jax_enable_compilation_cache",
)  # fmt: skip


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """JAX as it is where nobody has set a cache, and a folder for ours; a set of the cache's hits and misses."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_compilation_cache_max_size", -1)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0)
    jax_cache.reset_cache()
    begin()
    monkeypatch.setenv("BAYESDROP_CACHE", str(tmp_path / "kept"))
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    jax_cache.reset_cache()
    begin()


def begin():
    """As if a process began."""
    _compile_cache.prepare.cache_clear()
    jax.clear_caches()


def settings():
    return {name: getattr(jax.config, name) for name in SETTINGS}


def compiled(number):
    """Compile a program of its own."""

    def program(x):
        return jnp.sin(x) * number

    return jax.jit(program)(jnp.ones(3)).block_until_ready()


def kept(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_programs_are_kept_within_the_context_alone(cache):
    before = settings()
    compiled(1.5)
    with compile_cache(0.0), compile_cache(0.0):  # as the samplers of a fold within one
        compiled(2.5)
    assert any("program" in name for name in kept(cache))
    assert settings() == before
    there = kept(cache)
    compiled(3.5)
    assert kept(cache) == there
    with compile_cache(0.0):
        compiled(4.5)
    assert len(kept(cache)) > len(there)
    assert all(part.stat().st_mode & 0o077 == 0 for part in (cache_folder(), *list(cache_folder().parents)[:2]))


def test_a_cache_of_the_user_is_used_instead(cache):
    own = cache / "own"
    jax.config.update("jax_compilation_cache_dir", str(own))
    before = settings()
    with compile_cache(0.0):
        assert settings() == before
    jax.config.update("jax_compilation_cache_dir", None)
    with compile_cache(0.0):
        jax.config.update("jax_compilation_cache_dir", str(own))
    assert settings() == before
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    with compile_cache(0.0):
        assert jax.config.jax_compilation_cache_dir is None


def test_it_is_switched_off(cache, monkeypatch):
    monkeypatch.setenv("BAYESDROP_CACHE", "0")
    with compile_cache(0.0):
        assert jax.config.jax_compilation_cache_dir is None
    assert kept(cache) == []


def test_the_folder_is_the_users(cache, monkeypatch):
    assert cache_folder().is_relative_to(cache / "kept")
    monkeypatch.delenv("BAYESDROP_CACHE")
    for system, variable, place in (
        ("linux", "XDG_CACHE_HOME", "bayesdrop"),
        ("win32", "LOCALAPPDATA", "bayesdrop"),
        ("darwin", "HOME", "Library/Caches/bayesdrop"),
    ):
        monkeypatch.setattr(sys, "platform", system)
        monkeypatch.setenv(variable, str(cache / system))
        assert cache_folder().is_relative_to(cache / system / place)


def test_there_is_none_without_a_home(cache, monkeypatch):
    """The path would begin with ~ and be made where the user happens to be."""
    for variable in ("BAYESDROP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert cache_folder() is None


def a_file(folder):
    folder.parent.parent.write_text("")


def anybody(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def a_group(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o770)


def above(folder):
    folder.mkdir(parents=True)
    folder.parent.parent.chmod(0o777)


def a_link(folder):
    folder.parent.mkdir(parents=True)
    (folder.parent / "elsewhere").mkdir()
    folder.symlink_to(folder.parent / "elsewhere")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users here")
@pytest.mark.parametrize("make", [a_file, anybody, a_group, above, a_link])
def test_a_folder_that_is_not_the_users_alone_is_refused(cache, caplog, make):
    """What lies there is run. Told once; the programs are compiled as ever."""
    make(cache_folder())
    for _ in range(2):
        with compile_cache(0.0):
            assert jax.config.jax_compilation_cache_dir is None
            compiled(5.5)
    assert caplog.text.count("compiled programs are not kept") == 1
    assert "BAYESDROP_CACHE=PATH names another folder" in caplog.text


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users here")
def test_the_folder_of_another_user_is_refused(cache, caplog, monkeypatch):
    cache_folder().mkdir(parents=True, mode=0o700)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with compile_cache(0.0):
        assert jax.config.jax_compilation_cache_dir is None or mine == 0
    assert mine == 0 or "others may write to" in caplog.text


def test_an_interrupted_run_keeps_nothing_half_written(cache):
    """Neither in the folder nor in the settings of JAX."""
    before = settings()
    with contextlib.suppress(KeyboardInterrupt), compile_cache(0.0):
        (cache_folder() / "half").write_bytes(b"half")
        raise KeyboardInterrupt
    assert settings() == before
    begin()
    with compile_cache(0.0):
        assert kept(cache) == []


def test_the_oldest_go_where_there_are_too_many(cache):
    with compile_cache(0.0):
        for number, name in enumerate(("old", "middle", "new")):
            with open(cache_folder() / name, "wb") as file:
                os.truncate(file.fileno(), 2**28 - 1)
            os.utime(cache_folder() / name, ns=(number, number))
    begin()
    with compile_cache(0.0):
        assert kept(cache) == ["middle", "new"]


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
