"""Checkpoints: a run that was killed resumes, with the draws of an uninterrupted run.

A checkpoint is a folder:

    manifest.json       what run it is, how far it got, and the names and SHA-256 checksums of the other files
    draws-000000.npz    kept draws of each checkpoint, time first, in the order of the manifest
    state-000007.npz    the sampler's last state, key included, as the flat list of its leaves
    lock                held while a process writes

A folder and not one HDF5 file, because a file that is killed while it grows is lost with all that it held, and one
that is written afresh at each checkpoint costs quadratic time. Here each draw is written once. New files come first
and the manifest last, by one atomic rename; files that no manifest names are leftovers of a kill and are removed.

Nothing in the folder is trusted. Files are JSON and NumPy arrays, read without pickle; names are matched against
a pattern, so that none leads out of the folder; links are not followed, and pipes and devices not opened; checksums,
sizes, array names, dtypes and shapes are compared with what the kernel itself would make, before memory is taken for
them. All that a damaged or hostile file can cause is an error,
and that error leaves the folder unchanged.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from jaxtyping import PRNGKeyArray

from ..._atomic_files import open_regular, replacing
from ..._typing import Shaped
from ..._validation import check_path
from .fingerprint import differences
from .state_files import DamagedFile, locked, pack, read_arrays, stored_shapes, unpack, write_arrays

__all__ = ["Checkpoint", "Saved", "open_checkpoint"]

# Seconds between two checkpoints at least, and how many times longer than writing the last one took.
_SECONDS, _SHARE = 30.0, 20.0
_FORMAT, _VERSION = "bayesdrop checkpoint", 1
_MANIFEST, _LOCK = "manifest.json", "lock"
_PART, _STATE = re.compile(r"draws-\d{6,12}\.npz"), re.compile(r"state-\d{6,12}\.npz")
_NUMBERED = re.compile(r"(draws|state)-\d{6,12}\.npz")
_TEMPORARY = re.compile(r"\.bayesdrop-[0-9a-f]{12}\.tmp")
_FIRST = re.compile(rf"lock|{_TEMPORARY.pattern}")
_LARGEST_MANIFEST, _MOST_SECONDS = 2**26, 1e12


@dataclass(frozen=True)
class Saved:
    """What a checkpoint holds.

    Attributes
    ----------
    state : state
        Last state, as the kernel made it.
    done : int
        Draws of each chain that the state has seen, tuning included.
    seconds : float
        Wall time of the run so far.
    draws : dict of arrays (draws, C, …) or None
        Kept draws; None if there is none yet.
    """

    state: Any
    done: int
    seconds: float
    draws: dict[str, Shaped[np.ndarray, "draws C ..."]] | None


class Checkpoint:
    """The folder of one run, locked; made by :func:`open_checkpoint`.

    Attributes
    ----------
    path : pathlib.Path
        Folder.
    """

    def __init__(self, path: Path, fingerprint: Mapping[str, Any], manifest: dict[str, Any] | None) -> None:
        self.path = path
        self._last, self._cost = time.perf_counter(), 0.0
        if manifest is None:
            # At once, so that a folder without a manifest is never one of ours with draws in it.
            self._write_manifest(
                {
                    "format": _FORMAT,
                    "version": _VERSION,
                    "fingerprint": dict(fingerprint),
                    "done": 0,
                    "seconds": 0.0,
                    "state": None,
                    "parts": [],
                }
            )
        else:
            self._manifest = manifest

    @property
    def done(self) -> int:
        """Draws of each chain behind the stored state, tuning included; 0 if there is none."""
        return int(self._manifest["done"])

    def due(self) -> bool:
        """True if the last checkpoint is long enough ago; the time spent on them stays below a twentieth."""
        return time.perf_counter() - self._last >= max(_SECONDS, _SHARE * self._cost)

    def restore(self, state: Any, record: Mapping[str, Any], key: PRNGKeyArray, tune: int, thin: int) -> Saved | None:
        """Read what there is, or None if that is nothing.

        Parameters
        ----------
        state : pytree of jax.ShapeDtypeStruct
            What ``kernel.init`` makes.
        record : dict of jax.ShapeDtypeStruct
            What is kept of a step of the kernel, chains first.
        key : key
            Typed key, for the kind of the keys in the state.
        tune, thin : int
            Draws of the warm-up, which are not kept, and draws per kept draw after it.

        Raises
        ------
        ValueError
            If a file is missing, damaged or not of this run's shapes.
        """
        manifest = self._manifest
        if manifest["state"] is None:
            return None
        parts = manifest["parts"]
        if sum(part["draws"] for part in parts) != max(manifest["done"] - tune, 0) // thin:
            _refuse(self.path, _MANIFEST, "does not hold as many draws as it says")
        restored = unpack(self._read(manifest["state"], stored_shapes(state)), state, key)
        draws = None
        if parts:
            pieces = []
            for part in parts:
                shapes = {n: ((part["draws"], *leaf.shape), np.dtype(leaf.dtype)) for n, leaf in record.items()}
                pieces.append(self._read(part, shapes))
            draws = {name: np.concatenate([piece[name] for piece in pieces]) for name in record}
        return Saved(restored, manifest["done"], manifest["seconds"], draws)

    def _read(self, entry: Mapping[str, Any], expected: Mapping[str, tuple[Sequence[int], np.dtype]]) -> Any:
        try:
            return read_arrays(self.path / entry["file"], entry["sha256"], expected)
        except DamagedFile as error:
            _refuse(self.path, entry["file"], str(error))

    def save(
        self,
        state: Any,
        draws: Mapping[str, Shaped[np.ndarray, "draws ..."]] | None,
        done: int,
        seconds: float,
    ) -> None:
        """Add draws (time first) and replace the state; whoever kills this leaves the old checkpoint or the new one."""
        begin = self._last = time.perf_counter()
        manifest = {**self._manifest, "done": int(done), "seconds": float(seconds)}
        # New names, for until the manifest is replaced it must find the files that it names.
        known = [int(path.name[6:-4]) for path in self.path.iterdir() if _NUMBERED.fullmatch(path.name)]
        number = max(known, default=-1) + 1
        like = self.path / _MANIFEST
        if draws is not None:
            name = f"draws-{number:06d}.npz"
            checksum = write_arrays(self.path / name, draws, like)
            entry = {"file": name, "draws": len(next(iter(draws.values()))), "sha256": checksum}
            manifest["parts"] = [*manifest["parts"], entry]
        name = f"state-{number:06d}.npz"
        manifest["state"] = {"file": name, "sha256": write_arrays(self.path / name, pack(state), like)}
        self._write_manifest(manifest)
        self._remove_leftovers()
        self._last = time.perf_counter()
        self._cost = self._last - begin

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        with replacing(self.path / _MANIFEST) as temporary:
            temporary.write_text(json.dumps(manifest), encoding="utf-8")
        self._manifest = manifest

    def _remove_leftovers(self) -> None:
        """Remove the last state, and what a kill left behind: files of these names that the manifest does not name."""
        known = {self._manifest["state"]["file"], *(part["file"] for part in self._manifest["parts"])}
        for path in self.path.iterdir():
            ours = _NUMBERED.fullmatch(path.name) or _TEMPORARY.fullmatch(path.name)
            if ours and path.name not in known and (path.is_symlink() or path.is_file()):
                path.unlink(missing_ok=True)


@contextmanager
def open_checkpoint(path: Any, fingerprint: Mapping[str, Any]) -> Iterator[Checkpoint]:
    """Open the checkpoint of a run, or make it, and lock it for the block.

    Parameters
    ----------
    path : path
        A folder that an earlier call made, or one that does not exist yet or is empty.
    fingerprint : mapping
        What the draws depend on; see :mod:`bayesdrop.sampling.run.fingerprint`.

    Raises
    ------
    ValueError
        If there is something else at ``path``, if it is damaged, if it belongs to another run (the message says in
        what it differs) or if another process is writing to it. Nothing is changed then.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> with open_checkpoint(folder, {"chains": 4.0}) as checkpoint:
    ...     checkpoint.save({"weight": np.zeros(4)}, {"weight": np.zeros((10, 4))}, done=10, seconds=0.5)
    >>> with open_checkpoint(folder, {"chains": 2.0}) as checkpoint:
    ...     pass
    Traceback (most recent call last):
    ...
    ValueError: checkpoint: .../run belongs to another run: chains was 4 and is 2. Call with the data and ...
    """
    folder = check_path(path, "checkpoint")
    manifest = _find(folder, fingerprint)
    if manifest is None and not folder.is_dir():
        if not folder.absolute().parent.is_dir():
            raise ValueError(
                f"checkpoint: the folder {str(folder.absolute().parent)!r} does not exist; make it first, or give a "
                "path in one that does."
            )
        folder.mkdir()
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(folder / _LOCK))
        except BlockingIOError:
            raise ValueError(
                f"checkpoint: another run is writing to {folder}; wait for it, or give another path."
            ) from None
        except OSError as error:
            _refuse(folder, _LOCK, f"cannot be locked ({error})")
        # Once more: another process may have written between the look and the lock.
        yield Checkpoint(folder, fingerprint, _find(folder, fingerprint))


def _find(folder: Path, fingerprint: Mapping[str, Any]) -> dict[str, Any] | None:
    """Checked manifest of a folder, or None where a checkpoint may be made."""
    if not folder.exists() and not folder.is_symlink():
        return None
    if not folder.is_dir():
        raise ValueError(
            f"checkpoint: {folder} is a file, and a checkpoint is a folder; give a path that does not exist yet."
        )
    try:
        with open_regular(folder / _MANIFEST, follow_links=False) as file:
            text = file.read(_LARGEST_MANIFEST + 1)
        if len(text) > _LARGEST_MANIFEST:
            raise ValueError("it is too large")
        manifest = json.loads(text.decode("utf-8"))
    except FileNotFoundError:
        if all(_FIRST.fullmatch(entry.name) for entry in folder.iterdir()):
            return None  # empty, or killed before the first manifest
        raise ValueError(
            f"checkpoint: {folder} is a folder with other content and no {_MANIFEST}; give a path that does not "
            "exist yet, and the folder is made."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        _refuse(folder, _MANIFEST, f"is damaged or was not written by bayesdrop ({str(error)[:100]})")
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        _refuse(folder, _MANIFEST, "was not written by bayesdrop")
    if manifest.get("version") != _VERSION:
        _refuse(folder, _MANIFEST, f"is of version {str(manifest.get('version'))[:20]}, and {_VERSION} is expected")
    if not _well_formed(manifest):
        _refuse(folder, _MANIFEST, "is damaged")
    different = differences(manifest["fingerprint"], fingerprint)
    if different:
        raise ValueError(
            f"checkpoint: {folder} belongs to another run: {'; '.join(different)}. Call with the data and settings of "
            "that run to continue it, or give another path for this one."
        )
    return manifest


def _well_formed(manifest: dict[str, Any]) -> bool:
    """True if all entries are there and of their types, and all names are this module's."""

    def count(value: Any, least: int) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**62

    def names(entry: Any, pattern: re.Pattern[str]) -> bool:
        if not isinstance(entry, dict):
            return False
        return all(isinstance(entry.get(key), str) for key in ("file", "sha256")) and bool(
            pattern.fullmatch(entry["file"])
        )

    parts, state, seconds = manifest.get("parts"), manifest.get("state"), manifest.get("seconds")
    return (
        isinstance(manifest.get("fingerprint"), dict)
        and all(isinstance(value, str | float | int | None) for value in manifest["fingerprint"].values())
        and count(manifest.get("done"), 0)
        and isinstance(seconds, int | float)
        and 0 <= seconds <= _MOST_SECONDS
        and isinstance(parts, list)
        and (names(state, _STATE) if manifest["done"] else state is None and not parts)
        and all(names(part, _PART) and count(part.get("draws"), 1) for part in parts)
        and len({part["file"] for part in parts}) == len(parts)
    )


def _refuse(folder: Path, name: str, what: str) -> NoReturn:
    raise ValueError(
        f"checkpoint: {folder / name} {what}. Nothing was changed; give another path, or delete the folder {folder} "
        "to start again."
    ) from None
