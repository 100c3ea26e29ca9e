"""Checkpoints: a run that was killed resumes, with the draws of an uninterrupted run.

A checkpoint is a folder:

    manifest.json             the run's fingerprint, how far it got, and names and SHA-256 checksums of the other files
    draws-000000000130.npz    kept draws up to a checkpoint after 130 draws, time first
    state-000000000130.npz    the sampler's last state, key included, as the flat list of its leaves
    lock                      held while a process writes

Each draw is written once, and a file that is killed while it grows loses nothing else. New files come first and the
manifest last, by one atomic rename; files that no manifest names are leftovers of a kill and are removed.

Files are JSON and NumPy arrays, read without pickle; names are matched against a pattern, so that none leads out of the
folder; checksums, array names, dtypes and shapes are compared with those of the kernel. A damaged file causes an error
and leaves the folder unchanged.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
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
from .state_files import Shapes, locked, pack, read_arrays, stored_shapes, unpack, write_arrays

__all__ = ["Checkpoint", "Saved", "open_checkpoint"]

# Minimum number of seconds between two checkpoints.
_SECONDS = 30.0
# Bound on the numbers of draws and seconds in a manifest.
_LARGEST = 1e12
_FORMAT = "bayesdrop checkpoint, draws by number"
_MANIFEST, _LOCK = "manifest.json", "lock"
_NUMBERED = re.compile(r"(draws|state)-\d{12}\.npz")
_TEMPORARY = re.compile(r"\.bayesdrop-[0-9a-f]{12}\.tmp")


@dataclass(frozen=True)
class Saved:
    """Content of a checkpoint.

    Attributes
    ----------
    state : state
        Last state, as the kernel made it.
    done : int
        Draws of each chain up to this state, tuning included.
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
        self.path, self._last = path, time.perf_counter()
        if manifest is None:
            manifest = {"format": _FORMAT, "fingerprint": dict(fingerprint), "done": 0, "seconds": 0.0, "parts": []}
            # Written first, so that a folder without a manifest is never a checkpoint with draws.
            self._write_manifest(manifest)
        self._manifest = manifest

    @property
    def done(self) -> int:
        """Draws of each chain up to the stored state, tuning included; 0 if there is none."""
        return int(self._manifest["done"])

    def due(self) -> bool:
        """True if the last checkpoint is long enough ago."""
        return time.perf_counter() - self._last >= _SECONDS

    def restore(self, state: Any, record: Mapping[str, Any], key: PRNGKeyArray, tune: int, thin: int) -> Saved | None:
        """Read the stored state and draws; None if there are none.

        Parameters
        ----------
        state : pytree of jax.ShapeDtypeStruct
            Shapes of ``kernel.init``.
        record : dict of jax.ShapeDtypeStruct
            Shapes of the record of a step of the kernel, chains first.
        key : key
            Typed key, for the kind of the keys in the state.
        tune, thin : int
            Draws of the warm-up, which are not kept, and draws per kept draw after it.

        Raises
        ------
        ValueError
            If a file is missing, damaged or not of this run's shapes.
        """
        if not self.done:
            return None
        parts = self._manifest["parts"]
        if sum(part["draws"] for part in parts) != max(self.done - tune, 0) // thin:
            _refuse(self.path, _MANIFEST, "does not hold as many draws as it says")
        restored = unpack(self._read(self._manifest["state"], stored_shapes(state)), state, key)
        pieces = [
            self._read(part, {n: ((part["draws"], *leaf.shape), np.dtype(leaf.dtype)) for n, leaf in record.items()})
            for part in parts
        ]
        draws = {name: np.concatenate([piece[name] for piece in pieces]) for name in record} if pieces else None
        return Saved(restored, self.done, self._manifest["seconds"], draws)

    def _read(self, entry: Mapping[str, Any], expected: Shapes) -> Any:
        try:
            return read_arrays(self.path / entry["file"], entry["sha256"], expected)
        except FileNotFoundError:
            _refuse(self.path, entry["file"], "is missing")
        except Exception as error:  # a damaged archive can fail anywhere in zipfile
            _refuse(self.path, entry["file"], f"is damaged ({str(error)[:100]})")

    def save(
        self, state: Any, draws: Mapping[str, Shaped[np.ndarray, "draws ..."]] | None, done: int, seconds: float
    ) -> None:
        """Add draws (time first) and replace the state; a kill leaves the old checkpoint or the new one."""
        self._last = time.perf_counter()
        manifest = {**self._manifest, "done": int(done), "seconds": float(seconds)}
        like = self.path / _MANIFEST
        # The old manifest does not have these names, because they contain the number of draws.
        if draws is not None:
            name = f"draws-{done:012d}.npz"
            entry = {"draws": len(next(iter(draws.values()))), "sha256": write_arrays(self.path / name, draws, like)}
            manifest["parts"] = [*manifest["parts"], {"file": name, **entry}]
        name = f"state-{done:012d}.npz"
        manifest["state"] = {"file": name, "sha256": write_arrays(self.path / name, pack(state), like)}
        self._write_manifest(manifest)
        named = {entry["file"] for entry in (manifest["state"], *manifest["parts"])}
        for path in self.path.iterdir():
            is_ours = _NUMBERED.fullmatch(path.name) or _TEMPORARY.fullmatch(path.name)
            if is_ours and path.name not in named and path.is_file():
                path.unlink(missing_ok=True)

    def _write_manifest(self, manifest: dict[str, Any]) -> None:
        with replacing(self.path / _MANIFEST) as temporary:
            temporary.write_text(json.dumps(manifest), encoding="utf-8")
        self._manifest = manifest


@contextmanager
def open_checkpoint(path: Any, fingerprint: Mapping[str, Any]) -> Iterator[Checkpoint]:
    """Open the checkpoint of a run, or make it, and lock it for the block.

    Parameters
    ----------
    path : path
        A folder that an earlier call made, or one that does not exist yet or is empty.
    fingerprint : mapping
        Everything that the draws depend on; see :mod:`bayesdrop.sampling.run.fingerprint`.

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
        # Again: another process may have written in between.
        yield Checkpoint(folder, fingerprint, _find(folder, fingerprint))


def _find(folder: Path, fingerprint: Mapping[str, Any]) -> dict[str, Any] | None:
    """Checked manifest of a folder, or None if a checkpoint may be made there."""
    if not folder.exists():
        return None
    if not folder.is_dir():
        raise ValueError(
            f"checkpoint: {folder} is a file, and a checkpoint is a folder; give a path that does not exist yet."
        )
    try:
        with open_regular(folder / _MANIFEST, follow_links=False) as file:
            manifest: dict[str, Any] = json.loads(file.read().decode("utf-8"))
        if manifest["format"] != _FORMAT:
            raise ValueError("it is not of this version")
        numbers = [manifest["seconds"], manifest["done"], *(part["draws"] for part in manifest["parts"])]
        if not all(isinstance(number, int | float) and 0 <= number < _LARGEST for number in numbers):
            raise ValueError("its numbers are out of range")
        entries = [*manifest["parts"], *([manifest["state"]] if manifest["done"] else [])]
        if not all(_NUMBERED.fullmatch(entry["file"]) for entry in entries):
            raise ValueError("it names other files")
        different = differences(manifest["fingerprint"], fingerprint)
    except FileNotFoundError:
        if all(entry.name == _LOCK or _TEMPORARY.fullmatch(entry.name) for entry in folder.iterdir()):
            return None  # empty, or killed before the first manifest
        raise ValueError(
            f"checkpoint: {folder} is a folder with other content and no {_MANIFEST}; give a path that does not "
            "exist yet, and the folder is made."
        ) from None
    except Exception as error:  # the file may hold any JSON
        _refuse(folder, _MANIFEST, f"is damaged or was not written by bayesdrop ({str(error)[:100]})")
    if different:
        raise ValueError(
            f"checkpoint: {folder} belongs to another run: {'; '.join(different)}. Call with the data and settings of "
            "that run to continue it, or give another path for this one."
        )
    return manifest


def _refuse(folder: Path, name: str, reason: str) -> NoReturn:
    raise ValueError(
        f"checkpoint: {folder / name} {reason}. Nothing was changed; give another path, or delete the folder {folder} "
        "to start again."
    ) from None
