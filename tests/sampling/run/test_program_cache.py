"""Compiled programs are kept for later processes if the user asks, where nobody else can write, and by JAX."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import bayesdrop as bd

SETTING = "jax_compilation_cache_dir"


@pytest.fixture(autouse=True)
def _setting():
    before = jax.config.values[SETTING]
    jax.config.update(SETTING, None)
    compilation_cache.reset_cache()
    yield
    jax.config.update(SETTING, before)
    compilation_cache.reset_cache()


def kept(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_jax_keeps_what_it_compiles_from_then_on(tmp_path):
    """Also where it has compiled something before."""
    before = {**jax.config.values}
    jax.block_until_ready(jax.jit(lambda x: x + 1)(1.0))
    assert bd.cache_programs(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    changed = {name for name, value in jax.config.values.items() if value != before[name]}
    assert changed == {SETTING}
    seconds = jax.config.values["jax_persistent_cache_min_compile_time_secs"]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.block_until_ready(jax.jit(lambda x: x + 2)(1.0))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", seconds)
    assert kept(tmp_path)


def test_the_default_folder_is_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for system, variable, value, place in (
        ("linux", "XDG_CACHE_HOME", str(tmp_path / "xdg"), "xdg/bayesdrop"),
        ("linux", "XDG_CACHE_HOME", "relative/folder", ".cache/bayesdrop"),
        ("linux", "XDG_CACHE_HOME", "", ".cache/bayesdrop"),
        ("win32", "LOCALAPPDATA", str(tmp_path / "local"), "local/bayesdrop"),
        ("darwin", "XDG_CACHE_HOME", "", "Library/Caches/bayesdrop"),
    ):
        monkeypatch.setattr(sys, "platform", system)
        monkeypatch.setenv(variable, value)
        jax.config.update(SETTING, None)
        assert bd.cache_programs() == tmp_path / place
        assert jax.config.values[SETTING] == str(tmp_path / place)


def test_one_process_has_one_cache(tmp_path):
    first = bd.cache_programs(tmp_path / "first")
    assert bd.cache_programs() == bd.cache_programs(first) == first
    with pytest.raises(ValueError, match=r"folder: JAX has one cache for a process, and it is '.*first' already"):
        bd.cache_programs(tmp_path / "second")


def test_there_is_none_without_a_home(monkeypatch):
    def homeless(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", classmethod(homeless))
    with pytest.raises(OSError, match=r"home directory\.; give a folder"):
        bd.cache_programs()


def a_file(folder):
    folder.parent.mkdir()
    folder.parent.joinpath("private").write_text("")


def anybody(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def a_group(folder):
    folder.mkdir(parents=True)
    folder.chmod(0o770)


def above(folder):
    folder.mkdir(parents=True)
    folder.parent.chmod(0o777)


def a_link(folder):
    folder.parent.mkdir()
    folder.symlink_to(tempfile.mkdtemp(dir=folder.parent))


def above_a_link(folder):
    """Of a folder that a link above leads to the parents count."""
    elsewhere = folder.parent.parent / "open" / "elsewhere"
    elsewhere.mkdir(parents=True)
    elsewhere.parent.chmod(0o777)
    folder.parent.symlink_to(elsewhere)


def a_link_inside(folder):
    folder.mkdir(parents=True)
    (folder / "program").symlink_to("elsewhere")


def a_pipe(folder):
    folder.mkdir(parents=True)
    os.mkfifo(folder / "program")


STATES = [a_file, anybody, a_group, above, a_link, above_a_link, a_link_inside, a_pipe]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users here")
@pytest.mark.parametrize("make", STATES)
def test_a_folder_that_is_not_the_users_alone_is_refused(tmp_path, make):
    """What lies there is run. The setting stays."""
    before = jax.config.values[SETTING]
    folder = tmp_path / "mine" / "private"
    make(folder)
    with pytest.raises(OSError, match="^folder: compiled programs cannot be kept: .*; give a folder that you, and"):
        bd.cache_programs(folder)
    assert jax.config.values[SETTING] == before


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users here")
@pytest.mark.parametrize("name", ["folder", "file"])
def test_what_belongs_to_another_user_is_refused(tmp_path, monkeypatch, name):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    (folder / "file").write_text("")
    if os.getuid() == 0:
        os.chown(folder if name == "folder" else folder / "file", 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(OSError, match="belongs to another user"):
        bd.cache_programs(folder)


@pytest.mark.parametrize("folder", ["/dev/null/folder", "/proc/self/folder"])
@pytest.mark.skipif(sys.platform != "linux", reason="these places are Linux's")
def test_a_folder_that_cannot_be_made_is_an_error(folder):
    with pytest.raises(OSError, match=r"^folder: compiled programs cannot be kept"):
        bd.cache_programs(folder)
    with pytest.raises(TypeError, match=r"^folder: expected the name of a file or folder, got 3"):
        bd.cache_programs(3)


PROGRAM = """
import sys
import jax
compiled = []
jax.monitoring.register_event_listener(lambda event, **_: compiled.append(event.endswith("cache_misses")))
import numpy as np, bayesdrop as bd
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
bd.cache_programs(sys.argv[1])
X = np.random.default_rng(0).normal(size=(20, 2))
options = dict(method=bd.HMC(), draws=20, tune=20, chains=2, progress=False)
post = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, X[:, 0] > 0, **options)
print(sum(compiled), float(bd.groups.dataset(post, "posterior")["weight"].sum()))
"""


@pytest.fixture
def environment(tmp_path):
    """Of a user who has set nothing of JAX, and whose home is here."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    return own | {"XDG_CACHE_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path), "JAX_PLATFORMS": "cpu"}


@pytest.mark.slow
def test_processes_share_what_they_compile_if_asked(tmp_path, environment):
    """A second process compiles nothing, and draws the same."""
    start = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "kept")]
    first, second = (
        subprocess.run(start, env=environment, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    assert kept(tmp_path / "kept")
    assert int(second[0]) == 0 < int(first[0])
    assert first[1] == second[1]


THREADS = """
from concurrent.futures import ThreadPoolExecutor
import jax, numpy as np, bayesdrop as bd
X = np.random.default_rng(0).normal(size=(20, 2))
options = dict(method=bd.HMC(), draws=5, tune=5, chains=2, progress=False)
def weight(_):
    post = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, X[:, 0] > 0, **options)
    return bd.groups.dataset(post, "posterior")["weight"].to_numpy()
for _ in range(100):
    jax.clear_caches()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(weight, range(4)))
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=1e-3)
"""
BUSY = "import numpy as np\nwhile True: np.random.default_rng(0).normal(size=10**6).sort()"


@pytest.mark.slow
def test_threads_that_sample_for_the_first_time_together_are_safe(tmp_path, environment):
    """In a process that has compiled nothing, or forgotten it; beside two busy processes. Nothing is kept unasked."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    try:
        start = [sys.executable, "-W", "ignore", "-c", THREADS]
        subprocess.run(start, env=environment, check=True, capture_output=True, text=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert not (tmp_path / "xdg" / "bayesdrop").exists()
