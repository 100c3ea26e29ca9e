"""Anything but a run's own whole checkpoint is refused with the reason, and left as it is."""

import contextlib
import hashlib
import json
import os
import pickle
import random
import subprocess
import zipfile
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from bayesdrop.sampling.run.checkpoint import open_checkpoint


def content(folder):
    found = {}
    for path in sorted(Path(folder).iterdir()):
        found[path.name] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


@contextlib.contextmanager
def refused(message, folder):
    """The block raises this ValueError and changes nothing in the folder."""
    before = content(folder)
    with pytest.raises(ValueError, match=message):
        yield
    assert content(folder) == before


@pytest.mark.parametrize("share", [0, 1, 30, 0.5, -1])
@pytest.mark.parametrize("kind", ["manifest", "draws", "state"])
def test_files_cut_short_are_refused(folder, kind, share, walk):
    path = sorted(folder.glob(f"{kind}*"))[0]
    whole = path.read_bytes()
    cut = int(share * len(whole)) if isinstance(share, float) else share if share >= 0 else len(whole) - 1
    path.write_bytes(whole[:cut])
    with refused(rf"checkpoint: .*{path.name} is damaged.*give another path, or delete the folder", folder):
        walk(folder)


@pytest.mark.parametrize("kind", ["draws", "state"])
def test_changed_and_missing_files_are_refused(folder, kind, walk):
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
def test_forged_arrays_are_refused(folder, tmp_path, kind, walk):
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
        ({"seconds": 10**400}, "is damaged"),
        ({"seconds": 1e300}, "is damaged"),
        ({"fingerprint": {"X": [10**400]}}, "is damaged"),
        ({"state": None}, "is damaged"),
        ({"state": {"file": "../secret.npz", "sha256": "0"}}, "is damaged"),
        ({"state": {"file": "state-000001.npz\n", "sha256": "0"}}, "is damaged"),
        ({"parts": [{"file": "/etc/passwd", "draws": 200, "sha256": "0"}]}, "is damaged"),
        ({"parts": [{"file": "draws-000001.npz", "draws": 100, "sha256": "0"}] * 2}, "is damaged"),
        ({"parts": {}}, "is damaged"),
        ({"fingerprint": []}, "is damaged"),
    ],
)
def test_forged_manifests_are_refused(folder, change, message, walk):
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | change))
    with refused(f"manifest.json {message}", folder):
        walk(folder)


@pytest.mark.parametrize("text", ["[]", "null", "[" * 100_000, "\udcff", '{"format": "bayesdrop checkpoint"}'])
def test_foreign_manifests_are_refused(folder, text, walk):
    (folder / "manifest.json").write_text(text, errors="surrogateescape")
    with refused("manifest.json (is|was not)", folder):
        walk(folder)


def test_huge_claims_take_no_memory(folder, walk):
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


def test_what_is_no_checkpoint_is_left_alone(tmp_path, walk):
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


def test_another_run_is_refused_by_name(folder, walk, fingerprint):
    changed = fingerprint | {"X": "float64 (3, 2) sha256 cd", "model.C": 2.0}
    changed["method"] = changed.pop("chains")
    message = r"run belongs to another run: X differs; model.C was 1 and is 2; method was absent and is 3; chains was 3"
    with refused(message, folder):
        walk(folder, fingerprint=changed)


def test_one_run_at_a_time(folder, walk, fingerprint):
    with open_checkpoint(folder, fingerprint), refused("another run is writing to .*run; wait for it", folder):
        walk(folder)
    assert walk(folder).complete


def test_states_without_a_file_form_are_an_error(tmp_path):
    with open_checkpoint(tmp_path / "run", {}) as checkpoint, pytest.raises(TypeError, match="bfloat16"):
        checkpoint.save({"a": jnp.zeros(2, jnp.bfloat16)}, None, 1, 0.0)


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


@pytest.mark.parametrize("seed", range(4))
def test_mutated_manifests_are_the_same_or_refused(folder, seed, walk):
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


def link(path, target):
    path.symlink_to(target)


def pipe(path, target):
    os.mkfifo(path)


def a_folder(path, target):
    path.mkdir()


def device(path, target):
    path.symlink_to("/dev/zero")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("make", [link, pipe, a_folder, device])
@pytest.mark.parametrize("kind", ["lock", "manifest", "draws", "state"])
def test_only_files_are_read(folder, tmp_path, kind, make, walk):
    """A pipe would be read for ever, and what a link leads to is not ours: not even emptied, as a lock was."""
    target = tmp_path / "mine.txt"
    path = sorted(folder.glob(f"{kind}*"))[0]
    target.write_bytes(path.read_bytes() or b"mine")
    before = target.read_bytes()
    path.unlink()
    make(path, target)
    with refused(f"checkpoint: .*{path.name} (cannot be locked|is damaged|is missing)", folder):
        walk(folder)
    assert target.read_bytes() == before
    path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    path.write_bytes(b"" if kind == "lock" else before)
    assert walk(folder).complete


@pytest.mark.parametrize("kind", ["draws", "state"])
def test_files_that_are_too_large_are_not_read(folder, kind, walk):
    """A hole of a terabyte, which takes no room on the disk and an hour to sum."""
    path = sorted(folder.glob(f"{kind}*"))[0]
    whole = path.read_bytes()
    os.truncate(path, 2**40)
    with pytest.raises(ValueError, match=rf"checkpoint: .*{path.name} is larger than the arrays that it should hold"):
        walk(folder)
    path.write_bytes(whole)


def test_leftovers_that_are_no_files_stay(folder, walk):
    (folder / "draws-999999.npz").mkdir()
    (folder / "state-999999.npz").symlink_to(folder / "manifest.json")
    assert walk(folder, draws=400).complete
    assert (folder / "draws-999999.npz").is_dir()
    assert (folder / "manifest.json").is_file()


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
