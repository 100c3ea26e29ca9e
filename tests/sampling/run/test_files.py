"""Files of posteriors and fits are whole or absent, and what is no posterior file is refused by name."""

import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop._atomic_files import replacing

DRAWS = np.random.default_rng(0).normal(size=(2, 300, 4))


@pytest.fixture
def tree():
    posterior = xr.Dataset({"weight": (("chain", "draw", "feature"), DRAWS)}, attrs={"stopped": "draws"})
    stats = xr.Dataset({"diverging": (("chain", "draw"), np.zeros((2, 100_000), np.int8))})
    return bd.groups.assemble({"posterior": posterior, "sample_stats": stats}, {"seed": 0})


@pytest.fixture
def path(tree, tmp_path):
    bd.groups.save(tree, tmp_path / "posterior.nc")
    return tmp_path / "posterior.nc"


def test_what_was_saved_is_loaded(path):
    posterior = bd.groups.dataset(bd.groups.load(path), "posterior")
    np.testing.assert_array_equal(posterior["weight"], DRAWS)
    assert posterior.attrs["stopped"] == "draws"
    assert [entry.name for entry in path.parent.iterdir()] == ["posterior.nc"]


def test_a_file_that_was_loaded_is_closed(path):
    """Under ArviZ 0.23 it was open as long as the draws were there, and could not be replaced on Windows."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("no list of open files here")
    tree = bd.groups.load(path)
    opened = {os.path.realpath(descriptor) for descriptor in folder.iterdir()}
    assert str(path) not in opened
    path.unlink()
    np.testing.assert_array_equal(bd.groups.dataset(tree, "posterior")["weight"], DRAWS)


@pytest.mark.parametrize("when", ["while it is written", "at the end"])
def test_a_failed_save_of_a_fit_leaves_the_old_one(tmp_path, monkeypatch, when):
    X, path = np.random.default_rng(0).normal(size=(20, 3)), tmp_path / "fit.nc"
    first, second = (bd.fit(bd.Model(rates=bd.Fixed(rate)), X, np.arange(20) % 2) for rate in (0.1, 0.5))
    first.save(path)
    old = path.read_bytes()

    def half(self, store, **options):
        raise OSError(28, "No space left on device")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    if when == "at the end":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(xr.Dataset, "dump_to_store", half)
    with pytest.raises(OSError, match="No space left"):
        second.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["fit.nc"]
    xr.testing.assert_identical(xr.load_dataset(path, engine="h5netcdf")["weight"], first.to_dataset()["weight"])
    second.save(path)
    xr.testing.assert_identical(xr.load_dataset(path, engine="h5netcdf")["weight"], second.to_dataset()["weight"])
    with pytest.raises(IsADirectoryError, match="add a file name"):
        second.save(tmp_path)


def test_saving_needs_a_folder_and_a_name(tree, tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder '.*absent' does not exist; make it first"):
        bd.groups.save(tree, tmp_path / "absent" / "posterior.nc")
    with pytest.raises(IsADirectoryError, match="add a file name"):
        bd.groups.save(tree, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_saving_through_a_link_keeps_the_link(path, tree):
    link = path.with_name("link.nc")
    link.symlink_to(path)
    path.write_bytes(b"")
    bd.groups.save(tree, link)
    assert link.is_symlink()
    assert bd.groups.group_names(bd.groups.load(path)) == ["posterior", "sample_stats"]


def test_temporary_files_vanish_after_an_error(tmp_path):
    with pytest.raises(TypeError), replacing(tmp_path / "a") as temporary:
        temporary.write_text("half") + "and no more"
    assert list(tmp_path.iterdir()) == []


def soft_link(path):
    with h5py.File(path, "w") as file:
        file["posterior"] = h5py.SoftLink("/")


def ring(path):
    with h5py.File(path, "w") as file:
        file.create_group("posterior")["posterior"] = file["/"]


def no_groups(path):
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros(3)


def pickled(path):
    path.write_bytes(pickle.dumps({"posterior": DRAWS}))


def text(path):
    path.write_text("weight,rate\n1,2\n")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (soft_link, "'posterior' is a link to another place"),
        (ring, "hold one another"),
        (no_groups, "has no dimension"),
        (pickled, ""),
        (text, ""),
    ],
)
def test_foreign_files_are_refused(tmp_path, make, message):
    """Variables that link elsewhere or claim too much are in tests/files/test_strangers.py."""
    make(tmp_path / "file.nc")
    with pytest.raises(ValueError, match=rf"path: '.*file\.nc' cannot be read as a posterior \(.*{message}"):
        bd.groups.load(tmp_path / "file.nc")


def test_what_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file '.*absent.nc'"):
        bd.groups.load(tmp_path / "absent.nc")
