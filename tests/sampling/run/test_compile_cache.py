"""Compiled programs are kept between processes; what the user has set stays, and nothing that fails is in the way."""

import mmap
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesdrop import _compile_cache
from bayesdrop._compile_cache import Program, cache_folder, map_share, program

SETTINGS = ("jax_compilation_cache_dir", "jax_enable_compilation_cache")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """JAX as it is where nobody has set a cache, and a folder for ours."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    _compile_cache.prepare.cache_clear()
    monkeypatch.setenv("BAYESDROP_CACHE", str(tmp_path / "kept"))
    yield tmp_path
    for name, value in before.items():
        jax.config.update(name, value)
    _compile_cache.prepare.cache_clear()


@pytest.fixture(scope="module")
def compilations():
    """Names of what XLA compiles from here on; what is read from a folder is not among them."""
    names = []

    def heard(event, duration, **about):
        if event.endswith("backend_compile_duration"):
            names.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(heard)
    return names


def line(slope, level, x):
    return {"line": slope * x + level}


def kept(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def new(seconds=0.0):
    """The program of ``line`` as a new process has it: nothing is compiled."""
    jax.clear_caches()
    return Program(line, 1, seconds)


def test_another_process_reads_what_one_compiled(cache, compilations):
    before = {name: jax.config.values[name] for name in jax.config.values}
    x = jnp.arange(3.0)
    first = new()(2.0, 1.0, x)["line"]
    assert len(kept(cache)) == 1
    compilations.clear()
    np.testing.assert_array_equal(new()(2.0, 1.0, x)["line"], first)
    np.testing.assert_array_equal(first, [1.0, 3.0, 5.0])
    assert compilations == []
    assert len(kept(cache)) == 1
    assert {name: jax.config.values[name] for name in jax.config.values} == before
    assert all(part.stat().st_mode & 0o077 == 0 for part in (cache_folder(), *list(cache_folder().parents)[:2]))


def test_it_is_compiled_once_for_each_kind_of_arguments(cache, compilations, monkeypatch):
    """In a process and between them: constants, shapes, dtypes, weak types and XLA's flags tell programs apart."""
    x = jnp.arange(3.0)
    calls = [(2.0, jnp.float32(1), x), (3.0, jnp.float32(1), x), (2.0, jnp.float32(1), jnp.arange(4.0)), (2.0, 1.0, x)]
    calls.append((2.0, jnp.float16(1), jnp.arange(3, dtype="float16")))
    one = new()
    compilations.clear()
    for number, call in enumerate(calls * 2):
        np.testing.assert_array_equal(one(*call)["line"], call[0] * np.asarray(call[2]) + 1.0)
        assert len(kept(cache)) == len(compilations) == min(number + 1, len(calls))
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", "") + " ")
    new()(*calls[0])
    assert len(kept(cache)) == len(calls) + 1


def test_what_is_traced_first_is_traced_once(cache):
    traces = []

    @program(constants=1)
    def doubled(name, x):
        traces.append(name)
        return 2 * x

    assert jax.eval_shape(lambda x: doubled.traced("a", x), jnp.ones(3)).shape == (3,)
    doubled.lower("a", jnp.ones(3))
    assert [float(doubled("a", jnp.float32(number) * jnp.ones(3))[0]) for number in (1, 2)] == [2.0, 4.0]
    assert traces == ["a"]


def test_threads_may_call_one_program_at_a_time(cache):
    one, x = new(), jnp.arange(3.0)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: one(2.0, 1.0, x)["line"][2].item(), range(16)))
    assert found == [5.0] * 16


def test_nothing_is_compiled_where_the_user_forbids_it(cache):
    with jax.disable_jit():
        assert new()(2.0, 1.0, jnp.arange(3.0))["line"][2] == 5.0
    assert kept(cache) == []


def test_what_is_quickly_compiled_is_not_kept(cache):
    new(60.0)(2.0, 1.0, jnp.arange(3.0))
    assert kept(cache) == []


@pytest.mark.parametrize("content", [b"", b"something else", None])
def test_a_damaged_file_is_made_anew(cache, content):
    x = jnp.arange(3.0)
    new()(2.0, 1.0, x)
    (file,) = (path for path in cache.rglob("*") if path.is_file())
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    np.testing.assert_array_equal(new()(2.0, 1.0, x)["line"], [1.0, 3.0, 5.0])
    assert len(file.read_bytes()) > len(whole) // 2
    assert kept(cache) == [file.name]


def test_what_xla_cannot_write_down_is_compiled_in_each_process(cache):
    def heard(x):
        return jax.pure_callback(lambda value: np.asarray(value) + 1, jax.ShapeDtypeStruct((), jnp.float32), x)

    assert float(Program(heard, 0, 0.0)(jnp.float32(1.0))) == 2.0
    assert kept(cache) == []


def test_a_cache_of_the_user_is_used_instead(cache):
    jax.config.update("jax_compilation_cache_dir", str(cache / "own"))
    new()(2.0, 1.0, jnp.arange(3.0))
    jax.config.update("jax_compilation_cache_dir", None)
    jax.config.update("jax_enable_compilation_cache", False)
    new()(2.0, 1.0, jnp.arange(3.0))
    assert not (cache / "kept").exists()


def test_it_is_switched_off(cache, monkeypatch):
    monkeypatch.setenv("BAYESDROP_CACHE", "0")
    new()(2.0, 1.0, jnp.arange(3.0))
    assert kept(cache) == []


def test_an_interrupted_write_leaves_nothing(cache, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        new()(2.0, 1.0, jnp.arange(3.0))
    assert kept(cache) == []
    monkeypatch.undo()


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
        assert new()(2.0, 1.0, jnp.arange(3.0))["line"][0] == 1.0
    assert caplog.text.count("compiled programs are not kept") == 1
    assert "BAYESDROP_CACHE=PATH names another folder" in caplog.text


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no users here")
def test_the_folder_of_another_user_is_refused(cache, caplog, monkeypatch):
    cache_folder().mkdir(parents=True, mode=0o700)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    new()(2.0, 1.0, jnp.arange(3.0))
    assert mine == 0 or "others may write to" in caplog.text


def test_the_oldest_go_where_there_are_too_many(cache):
    assert _compile_cache.prepare(cache_folder())
    for number, name in enumerate(("old", "middle", "new")):
        with open(cache_folder() / name, "wb") as file:
            os.truncate(file.fileno(), 2**28 - 1)
        os.utime(cache_folder() / name, ns=(number, number))
    _compile_cache.prepare.cache_clear()
    assert _compile_cache.prepare(cache_folder())
    assert kept(cache) == ["middle", "new"]


PROGRAM = """
import jax
compiled = []
def heard(event, _, fun_name="", **__):
    if event.endswith("backend_compile_duration"):
        compiled.append("run_chunk" in fun_name)
jax.monitoring.register_event_duration_secs_listener(heard)
import numpy as np, bayesdrop as bd
from jax.sharding import NamedSharding, PartitionSpec
X = np.random.default_rng(0).normal(size=(20, 2))
y = X[:, 0] > 0
if len(jax.devices()) > 1:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[1:]), "rows")
    X, y = (jax.device_put(np.float32(part), NamedSharding(mesh, PartitionSpec("rows"))) for part in (X, y))
post = bd.sample(bd.Model(rates=bd.Fixed(0.0)), X, y, draws=20, tune=20, chains=2, progress=False)
print(sum(compiled), float(bd.groups.dataset(post, "posterior")["weight"].sum()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 3])
def test_processes_share_what_they_compile(tmp_path, devices):
    """Two at a time in an empty folder, and one after them, which compiles no sampler; all draw the same."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    environment |= {"BAYESDROP_CACHE": str(tmp_path), "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    start = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    both = [subprocess.Popen(start, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = (process.communicate()[0].split() for process in both)
    later = subprocess.run(start, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert first[1] == second[1] == later[1]
    assert int(first[0]) >= 1
    assert int(later[0]) == 0


@pytest.mark.parametrize(("most_maps", "again"), [(0.95, 0), (-1.0, 1)])
def test_programs_are_dropped_where_the_process_has_few_memory_maps_left(most_maps, again):
    """What is dropped is compiled again; what was compiled last is there."""
    traced = []

    def double(x):
        traced.append(x.shape)
        return 2 * x

    doubled = Program(double, 0, 0.2, most_maps)
    for n in (1, 2, 2, 1, 1):
        np.testing.assert_array_equal(doubled(np.ones(n)), 2 * np.ones(n))
    assert traced == [(1,), (2,), (1,)][: 2 + again]


def test_the_share_of_memory_maps_counts_those_of_this_process():
    most = Path("/proc/sys/vm/max_map_count")
    if not most.exists():
        assert map_share() == 0
        return
    before = map_share()
    more = [mmap.mmap(-1, 1) for _ in range(500)]
    share = map_share()
    for part in more:
        part.close()
    assert 450 < (share - before) * int(most.read_text()) < 550
