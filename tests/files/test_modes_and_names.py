"""Saving over a file keeps who may read it, and a name that cannot be written gets a sentence."""

import os
import stat
import sys

import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop._atomic_files import replacing

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="files have no modes there"),
    pytest.mark.filterwarnings("ignore::bayesdrop.warnings.MixingWarning"),
]

X = np.random.default_rng(0).normal(size=(30, 3))
y = X[:, 0] > 0
FIXED = bd.Model(rates=bd.Fixed(0.0))


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(scope="module")
def post():
    return bd.sample(FIXED, X, y, method=bd.HMC(), draws=10, tune=10, chains=2, progress=False)


@pytest.fixture
def writers(post):
    fit = bd.fit(FIXED, X, y)
    return {
        "fit": fit.save,
        "posterior": lambda path: bd.groups.save(post, path),
        "likelihood": lambda path: bd.log_likelihood(post, X, y, path=path),
    }


@pytest.mark.parametrize("rights", [0o600, 0o640, 0o444, 0o666])
def test_a_file_keeps_its_mode_and_its_owner(tmp_path, writers, rights):
    for name, write in writers.items():
        path = tmp_path / f"{name}.nc"
        write(path)
        path.chmod(rights)
        owner = (12345, 54321) if os.getuid() == 0 else (os.getuid(), os.getgid())
        os.chown(path, *owner)
        before = path.stat()
        write(path)
        after = path.stat()
        assert (mode(path), after.st_uid, after.st_gid) == (rights, *owner), name
        assert after.st_ino != before.st_ino
        path.unlink()


@pytest.mark.parametrize(("mask", "rights"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_mode_of_the_process(tmp_path, writers, mask, rights):
    before = os.umask(mask)
    try:
        for name, write in writers.items():
            write(tmp_path / name)
            assert mode(tmp_path / name) == rights, name
    finally:
        os.umask(before)


def test_nobody_else_may_read_what_is_being_written(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("")
    path.chmod(0o600)
    with replacing(path) as temporary:
        assert mode(temporary) == 0o600
    path.chmod(0o444)
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert (path.read_text(), mode(path)) == ("new", 0o444)


def test_where_the_group_cannot_be_kept_it_has_no_rights(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    path = tmp_path / "a.txt"
    path.write_text("")
    path.chmod(0o664)
    monkeypatch.setattr(os, "chown", refuse)
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert mode(path) == 0o604


def test_the_files_of_a_checkpoint_keep_the_mode_of_its_first(tmp_path):
    options = {"method": bd.HMC(), "tune": 10, "chains": 2, "progress": False, "checkpoint": tmp_path / "run"}
    bd.sample(FIXED, X, y, draws=10, **options)
    for path in (tmp_path / "run").iterdir():
        path.chmod(0o600)
    bd.sample(FIXED, X, y, draws=20, **options)
    assert {mode(path) for path in (tmp_path / "run").iterdir()} == {0o600}


@pytest.mark.parametrize("length", [240, 255])
def test_a_long_name_is_a_name(tmp_path, length):
    path = tmp_path / ("n" * length)
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"


def empty():
    return bd.groups.assemble({"posterior": xr.Dataset()})


def test_a_name_that_is_too_long_gets_a_sentence(tmp_path):
    with pytest.raises(OSError, match=r"path: '.*nnn' cannot be written: File name too long; give another name or"):
        bd.groups.save(empty(), tmp_path / ("n" * 256))


def test_a_link_to_itself_gets_a_sentence(tmp_path):
    link = tmp_path / "loop.nc"
    link.symlink_to(link)
    with pytest.raises(OSError, match=r"path: '.*loop.nc' cannot be written: Too many levels of symbolic links; give"):
        bd.groups.save(empty(), link)
    assert link.is_symlink()


def test_a_folder_that_refuses_gets_a_sentence(tmp_path, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match=r"path: '.*a.nc' cannot be written: Permission denied; give another"):
        bd.groups.save(empty(), tmp_path / "a.nc")
