"""A killed run goes on with the draws it would have had; anything but its own checkpoint is refused, untouched.

Run as a program with a folder and a number of draws, this file is the run that gets killed.
"""

import contextlib
import hashlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.inference import checkpoint as module
from bayesdrop.inference import runner
from bayesdrop.inference.checkpoint import open_checkpoint
from bayesdrop.inference.runner import as_key, run

FINGERPRINT = {"X": "float64 (3, 2) sha256 ab", "model": "Model", "model.C": 1.0, "chains": 3.0}


class State(NamedTuple):
    place: Any
    masks: Any
    count: Any
    keys: Any


@dataclass(frozen=True)
class Walk:
    """Autoregressive chains, with a state of many kinds of leaves: truth values, bytes, nested tuples, several keys."""

    def init(self, operands, key, chains):
        masks = (jnp.ones((chains, 2), bool), {"packed": jnp.zeros(3, jnp.uint8), "empty": jnp.zeros((chains, 0))})
        return State(jnp.zeros(chains), masks, jnp.int32(0), jax.random.split(key, chains))

    def step(self, operands, state):
        keys = jax.vmap(jax.random.split)(state.keys)
        noise = jax.vmap(jax.random.normal)(keys[:, 1])
        flags, others = state.masks
        masks = (flags ^ (noise > 0)[:, None], others | {"packed": others["packed"] + jnp.uint8(1)})
        place = operands * state.place + noise + jnp.sum(flags, axis=1).astype(noise.dtype)
        return State(place, masks, state.count + 1, keys[:, 0])

    def record(self, operands, state):
        packed = jnp.broadcast_to(state.masks[1]["packed"][None], (state.place.shape[0], 3))
        return {
            "weight": state.place,
            "packed": packed,
            "count": jnp.full_like(state.place, state.count),
            "lp": -state.place,
        }


def walk(folder=None, seed=0, fingerprint=FINGERPRINT, **options):
    options = {"tune": 30, "draws": 200, "chains": 3, "progress": False} | options
    operands, key = jnp.asarray(0.5), as_key(seed)
    if folder is None:
        return run(Walk(), operands, key, **options)
    with open_checkpoint(folder, fingerprint) as checkpoint:
        return run(Walk(), operands, key, checkpoint=checkpoint, **options)


def same(found, expected):
    assert found.draws.keys() == expected.draws.keys()
    for name, value in expected.draws.items():
        np.testing.assert_array_equal(found.draws[name], value)
        assert found.draws[name].dtype == value.dtype


def content(folder):
    return {path.name: path.read_bytes() if path.is_file() else None for path in sorted(Path(folder).iterdir())}


@contextlib.contextmanager
def refused(message, folder):
    """The block raises this ValueError and changes nothing in the folder."""
    before = content(folder)
    with pytest.raises(ValueError, match=message):
        yield
    assert content(folder) == before


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every chunk."""
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    monkeypatch.setattr(module, "_SHARE", 0.0)


@pytest.fixture
def folder(tmp_path, often):
    """Checkpoint of a finished run, in several parts."""
    walk(tmp_path / "run")
    return tmp_path / "run"


def killed_after(folder, parts, draws):
    """Start the run in another process and kill it once that many parts have appeared; False if it was faster."""
    with open(folder.parent / "log", "w") as log:
        process = subprocess.Popen([sys.executable, __file__, str(folder), str(draws)], stderr=log)
    deadline = time.monotonic() + 120
    while process.poll() is None and len(list(folder.glob("draws-*.npz"))) < parts:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    process.kill()
    code = process.wait()
    assert code in (0, -signal.SIGKILL), (folder.parent / "log").read_text()
    return code != 0


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_killed_run_goes_on_with_the_same_draws(tmp_path, often):
    folder, draws = tmp_path / "run", 10_000
    assert killed_after(folder, 3, draws)
    done = json.loads((folder / "manifest.json").read_text())["done"]
    assert killed_after(folder, 30, draws)
    later = json.loads((folder / "manifest.json").read_text())["done"]
    assert 30 < done < later < draws
    same(walk(folder, draws=draws), walk(draws=draws))


def test_a_kill_at_any_write_leaves_a_whole_checkpoint(tmp_path, often, monkeypatch):
    """Copies of the folder before and after each rename, temporary files included, are what a kill would leave."""
    moments, replace = [], os.replace

    def copying(source, target):
        for when in ("before", "after"):
            copy = tmp_path / f"{len(moments):03d}-{when}"
            shutil.copytree(tmp_path / "run", copy)
            moments.append(copy)
            if when == "before":
                replace(source, target)

    expected = walk(draws=60)
    monkeypatch.setattr(os, "replace", copying)
    walk(tmp_path / "run", draws=60)
    monkeypatch.undo()
    assert len(moments) > 20
    for copy in moments:
        manifest = copy / "manifest.json"
        finished = manifest.exists() and json.loads(manifest.read_text())["done"] == 90
        same(walk(copy, draws=60), expected)
        assert not list(copy.glob(".*.tmp"))
        named = json.loads((copy / "manifest.json").read_text())
        files = {"lock", "manifest.json", named["state"]["file"], *(part["file"] for part in named["parts"])}
        extra = {path.name for path in copy.iterdir()} - files
        assert not extra or finished  # where nothing is left to draw, nothing is written and nothing removed


@pytest.mark.parametrize("call", [3, 4, 9, 12, 13, 14])
def test_an_interruption_while_writing_loses_nothing(tmp_path, often, monkeypatch, call):
    calls, replace = [], os.replace

    def interrupted(source, target):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with contextlib.suppress(KeyboardInterrupt):  # raised again if no draw was kept yet
        assert walk(tmp_path / "run").stopped == "interrupted"
    monkeypatch.undo()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["done"] > 0
    same(walk(tmp_path / "run"), walk())


def test_an_interrupted_tuning_is_kept(tmp_path, monkeypatch):
    chunk, calls = runner._chunk, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return chunk(*arguments)

    monkeypatch.setattr(runner, "_chunk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        walk(tmp_path / "run")
    monkeypatch.undo()
    assert 0 < json.loads((tmp_path / "run" / "manifest.json").read_text())["done"] < 30
    same(walk(tmp_path / "run"), walk())


def test_more_draws_extend_and_fewer_are_the_first_ones(folder, monkeypatch):
    longer, before = walk(folder, draws=500), content(folder)
    same(longer, walk(draws=500))
    monkeypatch.setattr(runner, "_chunk", None)  # what is finished is read and no more
    again = walk(folder, draws=500)
    same(again, longer)
    assert (again.stopped, again.complete) == ("draws", True)
    fewer = walk(folder, draws=40)
    np.testing.assert_array_equal(fewer.draws["weight"], longer.draws["weight"][:, :40])
    assert content(folder) == before


def test_each_draw_is_written_once(folder):
    before = content(folder)
    walk(folder, draws=2000)
    after = content(folder)
    kept = [name for name in before if name.startswith("draws-")]
    assert len(kept) >= 2
    assert all(after[name] == before[name] for name in kept)
    assert sum(name.startswith("state-") for name in after) == 1


def test_few_checkpoints_in_a_short_run(tmp_path):
    walk(tmp_path / "run")
    assert len(list((tmp_path / "run").glob("draws-*"))) == 1


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_double_precision_and_other_keys(tmp_path, often, kind):
    with jax.enable_x64(True):
        key = jax.random.key(3, impl=kind)
        walk(tmp_path / "run", key, draws=50)
        found, expected = walk(tmp_path / "run", key, draws=120), walk(seed=key, draws=120)
    same(found, expected)
    assert found.draws["weight"].dtype == np.float64


def test_a_budget_is_spent_call_by_call(tmp_path):
    options = {"draws": 12, "tune": 6}
    with pytest.raises(TimeoutError, match="the tuning so far is in .*run: call again with the same arguments"):
        walk(tmp_path / "run", max_seconds=1e-9, **options)
    stopped = []
    while "draws" not in stopped and len(stopped) < 30:
        try:
            found = walk(tmp_path / "run", max_seconds=1e-9, **options)
            stopped.append(found.stopped)
        except TimeoutError:
            stopped.append("no draw")
    assert stopped == ["no draw"] * 5 + ["budget"] * 11 + ["draws"]
    same(found, walk(**options))


def test_a_stop_rule_finds_the_same_end_after_a_kill(tmp_path, often):
    rule = bd.Stop(ess=400, rhat=1.1)
    statistics = ("lp", "count", "packed")
    expected = walk(draws=5000, stop=rule, statistics=statistics)
    kept = expected.draws["lp"].shape[1]
    assert expected.stopped == "target"
    walk(tmp_path / "run", draws=kept - 3)
    found = walk(tmp_path / "run", draws=5000, stop=rule, statistics=statistics)
    assert found.stopped == "target"
    same(found, expected)
    same(walk(tmp_path / "run", draws=5000, stop=rule, statistics=statistics), expected)
    same(walk(tmp_path / "run", draws=kept + 50), walk(draws=kept + 50))


@pytest.mark.parametrize("share", [0, 1, 30, 0.5, -1])
@pytest.mark.parametrize("kind", ["manifest", "draws", "state"])
def test_files_cut_short_are_refused(folder, kind, share):
    path = sorted(folder.glob(f"{kind}*"))[0]
    whole = path.read_bytes()
    cut = int(share * len(whole)) if isinstance(share, float) else share if share >= 0 else len(whole) - 1
    path.write_bytes(whole[:cut])
    with refused(rf"checkpoint: .*{path.name} is damaged.*give another path, or delete the folder", folder):
        walk(folder)


@pytest.mark.parametrize("kind", ["draws", "state"])
def test_changed_and_missing_files_are_refused(folder, kind):
    path = sorted(folder.glob(f"{kind}*"))[-1]
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with refused(rf"{path.name} is damaged: its checksum", folder):
        walk(folder)
    path.unlink()
    with refused(rf"{path.name} is missing", folder):
        walk(folder)


class Hostile:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def forge(folder, kind, write):
    """Rewrite a file by ``write(path, arrays)`` and make the manifest name its new checksum."""
    path = sorted(folder.glob(f"{kind}*"))[0]
    with np.load(path) as arrays:
        arrays = dict(arrays)
    write(path, arrays)
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in [manifest["state"], *manifest["parts"]]:
        if entry["file"] == path.name:
            entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("kind", ["draws", "state"])
def test_forged_arrays_are_refused(folder, tmp_path, kind):
    name = {"draws": "weight", "state": "leaf0"}[kind]
    marker = tmp_path / "hacked"
    hostile = np.array([Hostile(marker)], dtype=object)
    swollen = {"draws": (10**12, 3), "state": (3,)}[kind]

    def header_only(path, arrays):
        np.savez(path, **arrays)
        with zipfile.ZipFile(path, "w") as archive:
            for key, value in arrays.items():
                with archive.open(f"{key}.npy", "w") as member:
                    shape = swollen if key == name else value.shape
                    np.lib.format.write_array_header_1_0(
                        member, {"descr": "<f4", "fortran_order": False, "shape": shape}
                    )

    forgeries = {
        "holds .* object .*is expected": lambda path, arrays: np.savez(path, **arrays | {name: hostile}),
        "is compressed": lambda path, arrays: np.savez_compressed(path, **arrays),
        "float64 .* and float32 .* is expected": lambda p, a: np.savez(p, **a | {name: a[name].astype(np.float64)}),
        r"and float32 .* is expected": lambda path, arrays: np.savez(path, **arrays | {name: arrays[name][:1, None]}),
        "does not hold the arrays": lambda path, arrays: np.savez(path, other=np.zeros(1), **arrays),
        r"(is damaged|is expected|holds less)": header_only,
        r"is damaged \(File is not a zip": lambda path, arrays: path.write_bytes(pickle.dumps(Hostile(marker))),
    }
    whole = content(folder)
    for message, write in forgeries.items():
        forge(folder, kind, write)
        with refused(f"checkpoint: .*{kind}-.*{message}", folder):
            walk(folder)
        for file, data in whole.items():
            (folder / file).write_bytes(data)
    assert not marker.exists()
    assert walk(folder).complete


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "zarr"}, "was not written by bayesdrop"),
        ({"version": 2}, "is of version 2, and 1 is expected"),
        ({"done": -1}, "is damaged"),
        ({"done": 10**30}, "is damaged"),
        ({"done": True}, "is damaged"),
        ({"done": 229}, "does not hold as many draws as it says"),
        ({"seconds": float("nan")}, "is damaged"),
        ({"state": None}, "is damaged"),
        ({"state": {"file": "../secret.npz", "sha256": "0"}}, "is damaged"),
        ({"state": {"file": "state-000001.npz\n", "sha256": "0"}}, "is damaged"),
        ({"parts": [{"file": "/etc/passwd", "draws": 200, "sha256": "0"}]}, "is damaged"),
        ({"parts": [{"file": "draws-000001.npz", "draws": 100, "sha256": "0"}] * 2}, "is damaged"),
        ({"parts": {}}, "is damaged"),
        ({"fingerprint": []}, "is damaged"),
    ],
)
def test_forged_manifests_are_refused(folder, change, message):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | change))
    with refused(f"manifest.json {message}", folder):
        walk(folder)


@pytest.mark.parametrize("text", ["[]", "null", "[" * 100_000, "\udcff", '{"format": "bayesdrop checkpoint"}'])
def test_foreign_manifests_are_refused(folder, text):
    (folder / "manifest.json").write_text(text, errors="surrogateescape")
    with refused("manifest.json (is|was not)", folder):
        walk(folder)


def test_huge_claims_take_no_memory(folder):
    """A manifest that promises 10^12 draws, and an array header that agrees."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["parts"] = [manifest["parts"][0] | {"draws": 10**12}]
    manifest["done"] = 10**12 + 30
    (folder / "manifest.json").write_text(json.dumps(manifest))

    def write(path, arrays):
        with zipfile.ZipFile(path, "w") as archive:
            for key, value in arrays.items():
                with archive.open(f"{key}.npy", "w") as member:
                    header = np.lib.format.header_data_from_array_1_0(value)
                    np.lib.format.write_array_header_1_0(member, header | {"shape": (10**12, *value.shape[1:])})

    forge(folder, "draws", write)
    with refused("holds less of .* than it says", folder):
        walk(folder)


def test_what_is_no_checkpoint_is_left_alone(tmp_path):
    file, other = tmp_path / "notes.txt", tmp_path / "thesis"
    file.write_text("mine")
    other.mkdir()
    (other / "draws-000000.npz").write_text("mine")
    with refused("notes.txt is a file, and a checkpoint is a folder", tmp_path):
        walk(file)
    with refused("thesis is a folder with other content and no manifest.json", other):
        walk(other)
    with refused("the folder '.*absent' does not exist; make it first", tmp_path):
        walk(tmp_path / "absent" / "run")
    (tmp_path / "empty").mkdir()
    assert walk(tmp_path / "empty").complete


def test_another_run_is_refused_by_name(folder):
    changed = FINGERPRINT | {"X": "float64 (3, 2) sha256 cd", "model.C": 2.0}
    changed["method"] = changed.pop("chains")
    message = r"run belongs to another run: X differs; model.C was 1 and is 2; method was absent and is 3; chains was 3"
    with refused(message, folder):
        walk(folder, fingerprint=changed)


def test_one_run_at_a_time(folder):
    with open_checkpoint(folder, FINGERPRINT), refused("another run is writing to .*run; wait for it", folder):
        walk(folder)
    assert walk(folder).complete


def test_states_without_a_file_form_are_an_error(tmp_path):
    with open_checkpoint(tmp_path / "run", {}) as checkpoint, pytest.raises(TypeError, match="bfloat16"):
        checkpoint.save({"a": jnp.zeros(2, jnp.bfloat16)}, None, 1, 0.0)


if __name__ == "__main__":
    module._SECONDS = module._SHARE = 0.0
    walk(Path(sys.argv[1]), draws=int(sys.argv[2]))
