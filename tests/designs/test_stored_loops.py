"""Loops compiled by Numba work where its files cannot be written or read, and files of others are not read."""

import os
import pickle
import subprocess
import sys

import pytest

pytest.importorskip("numba")

CHILD = """
import sys
{first}
import numpy as np
from bayesdrop.designs.kernels import compiled
from stored_loop import add_products
total = np.zeros(1)
for _ in range(2):
    compiled(add_products)(np.array([1.0, 2.0]), np.array([10.0, 100.0]), total)
assert total[0] == 420
"""


def run(folder, first="", **environment):
    """Run a loop in a new process, with Numba's files in a folder; nothing may be printed."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": os.path.dirname(__file__), **environment}
    command = [sys.executable, "-W", "error", "-c", CHILD.format(first=first)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Folder with the files of one process."""
    folder = tmp_path_factory.mktemp("numba")
    run(folder)
    assert files(folder, "nbi")
    assert files(folder, "nbc")
    return folder


@pytest.fixture
def copy(stored, tmp_path):
    subprocess.run(["cp", "-a", f"{stored}/.", str(tmp_path)], check=True)
    return tmp_path


def files(folder, suffix):
    return sorted(folder.rglob(f"*.{suffix}"))


@pytest.mark.slow
def test_a_process_without_a_folder_compiles_for_itself(tmp_path):
    (tmp_path / "file").write_text("")
    run(tmp_path / "file", NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator")


@pytest.mark.slow
def test_a_full_disk_is_not_in_the_way(tmp_path):
    full = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    run(tmp_path, f"{full}; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))", PYTHONDONTWRITEBYTECODE="1")
    assert not files(tmp_path, "nbc")


@pytest.mark.slow
def test_damaged_files_are_not_in_the_way(copy):
    for suffix, left in (("nbi", 0), ("nbc", 40)):
        for file in files(copy, suffix):
            os.truncate(file, left)
        run(copy)


class Trap:
    """What unpickles as a new folder, to be found."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def links(file, elsewhere):
    os.replace(file, elsewhere)
    file.symlink_to(elsewhere)


def open_folder(file, _):
    file.parent.chmod(0o777)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the folders of users are apart")
@pytest.mark.parametrize("become", [None, links, open_folder])
def test_files_that_another_user_may_have_laid_are_not_read(copy, become):
    """The file runs something if it is read: that of the user does, which shows that the trap works."""
    trap = copy / "sprung"
    for number, file in enumerate(files(copy, "nbi")):
        file.write_bytes(pickle.dumps(Trap(trap)))
        if become is not None:
            become(file, copy / f"elsewhere{number}")
    run(copy)
    assert trap.exists() == (become is None)
