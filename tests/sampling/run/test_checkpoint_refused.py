"""Anything but a run's own whole checkpoint is refused with the reason, and left as it is."""

import contextlib
import hashlib
import json
import pickle
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bayesdrop.sampling.run.checkpoint import open_checkpoint


@pytest.mark.parametrize("share", [0, 30, -1])
@pytest.mark.parametrize("kind", ["manifest", "draws", "state"])
def test_files_cut_short_are_refused(folder, kind, share, walk, refused):
    path = sorted(folder.glob(f"{kind}*"))[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:share])
    with refused(rf"checkpoint: .*{path.name} is damaged.*give another path, or delete the folder", folder):
        walk(folder)


@pytest.mark.parametrize("kind", ["draws", "state"])
def test_changed_and_missing_files_are_refused(folder, kind, walk, refused):
    path = sorted(folder.glob(f"{kind}*"))[-1]
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    with refused(rf"{path.name} is damaged .its checksum", folder):
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
def test_forged_arrays_are_refused(folder, tmp_path, kind, walk, content, refused):
    name = {"draws": "weight", "state": "leaf0"}[kind]
    marker = tmp_path / "hacked"
    hostile = np.array([Hostile(marker)], dtype=object)
    forgeries = {
        r"is damaged \(Object arrays": lambda path, arrays: np.savez(path, **arrays | {name: hostile}),
        "float64 .* and float32 .* is expected": lambda p, a: np.savez(p, **a | {name: a[name].astype(np.float64)}),
        r"and float32 .* is expected": lambda path, arrays: np.savez(path, **arrays | {name: arrays[name][:1, None]}),
        "is damaged .*not a file in the archive": lambda path, arrays: np.savez(path, other=np.zeros(1)),
        r"is damaged \((Cannot load|This file contains) pickled": lambda p, arrays: p.write_bytes(
            pickle.dumps(Hostile(marker))
        ),
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
        ({"format": "zarr"}, "is damaged or was not written by bayesdrop"),
        ({"done": -1}, "is damaged"),
        ({"done": 10**30}, "is damaged"),
        ({"done": 229}, "does not hold as many draws as it says"),
        ({"seconds": 10**400}, "is damaged"),
        ({"state": None}, "is damaged"),
        ({"state": {"file": "../secret.npz", "sha256": "0"}}, "is damaged"),
        ({"parts": [{"file": "/etc/passwd", "draws": 200, "sha256": "0"}]}, "is damaged"),
        ({"parts": {}}, "does not hold as many"),
        ({"fingerprint": []}, "is damaged"),
    ],
)
def test_forged_manifests_are_refused(folder, change, message, walk, refused):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | change))
    with refused(f"manifest.json {message}", folder):
        walk(folder)


def test_what_is_no_checkpoint_is_left_alone(tmp_path, walk, refused):
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


def test_another_run_is_refused_by_name(folder, walk, fingerprint, refused):
    changed = fingerprint | {"X": "float64 (3, 2) sha256 cd", "model.C": 2.0}
    changed["method"] = changed.pop("chains")
    message = r"run belongs to another run: X differs; model.C was 1 and is 2; method was absent and is 3; chains was 3"
    with refused(message, folder):
        walk(folder, fingerprint=changed)


def test_one_run_at_a_time(folder, walk, fingerprint, refused):
    with open_checkpoint(folder, fingerprint), refused("another run is writing to .*run; wait for it", folder):
        walk(folder)
    assert walk(folder).complete


POOL = [None, True, -1, 0.5, 1e300, 10**400, float("nan"), "", "x", "../a", [], [1], {}, {"file": "/dev/zero"}, 2**63]


def mutated(value, chance):
    """One part of a JSON value is another, missing, or there twice."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(sorted(value))
        rest = {name: part for name, part in value.items() if name != key}
        return rest if chance.random() < 0.1 else rest | {key: mutated(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        place = chance.randrange(len(value))
        return value[:place] + ([] if chance.random() < 0.2 else [mutated(value[place], chance)]) + value[place:]
    return chance.choice(POOL)


@contextlib.contextmanager
def words():
    """A ValueError of the block has the words of a checkpoint."""
    said = "checkpoint: "
    try:
        yield
    except ValueError as error:
        said = str(error)
        raise
    finally:
        assert said.startswith("checkpoint: ")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_mutated_manifests_are_the_same_or_refused(folder, seed, walk, content):
    """And files with other bytes: refused with words, whatever they hold."""
    whole, expected = content(folder), walk(folder)
    chance = random.Random(seed)
    for _ in range(25):
        name = chance.choice(sorted(whole))
        if name == "manifest.json":
            changed = json.dumps(mutated(json.loads(whole[name]), chance)).encode()
        else:
            changed = bytearray(whole[name])
            for _ in range(chance.choice([1, 4]) if changed else 0):
                changed[chance.randrange(len(changed))] = chance.randrange(256)
        (folder / name).write_bytes(changed)
        with contextlib.suppress(ValueError), words():
            np.testing.assert_array_equal(walk(folder).draws["weight"], expected.draws["weight"])
        for file, data in whole.items():
            (folder / file).write_bytes(data)


@pytest.mark.slow
def test_two_processes_on_one_checkpoint(tmp_path, walk, walk_program):
    """One of them draws, and the other one is told; nothing of the first is lost."""
    folder = tmp_path / "run"
    both = [subprocess.Popen([*walk_program, str(folder), "3000"], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate()[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes)[0] == 0, said
    for code, text in zip(codes, said, strict=True):
        assert code == 0 or "another run is writing to" in text, text
    expected, found = walk(draws=3000), walk(folder, draws=3000)
    np.testing.assert_array_equal(found.draws["weight"], expected.draws["weight"])
