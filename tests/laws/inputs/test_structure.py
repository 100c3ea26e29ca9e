"""Sparse matrices whose indices lie, files whose headers lie: refused before anything is read or made for them."""

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd
from bayesdrop.designs import admit


@pytest.mark.slow
def test_damaged_matrices_end_no_process():
    """Every entry point, in one process: an index that is believed ends it with a segmentation fault."""
    script = Path(__file__).with_name("damaged_matrices.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]}, {done.returncode}: {done.stderr[-900:]}"


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (0, 3), (4, 0), (300, 40)])
def test_whole_matrices_are_admitted_as_they_are(kind, shape):
    if kind == "dia" and shape == (300, 40):
        shape = (30, 4)  # SciPy warns of many diagonals
    whole = sparse.random_array(shape, density=0.3, format="csr", rng=np.random.default_rng(0)).asformat(kind)
    before = whole.toarray()
    assert admit(whole) is whole
    np.testing.assert_array_equal(whole.toarray(), before)


def _npy(path, shape):
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
        file.write(np.ones(6).tobytes())
    return path


def test_headers_that_promise_too_much(tmp_path):
    """7 TiB in a header, in a raw file and in an archive: an error, at once and without the memory."""
    raw = _npy(tmp_path / "raw.npy", (10**6, 10**6))
    with pytest.raises(ValueError, match="its header declares 8,000,000,000,000 bytes of numbers and 48 are there"):
        bd.Blocks(raw)
    packed = tmp_path / "packed.npz"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(raw, "data.npy")
    with pytest.raises(ValueError, match=r"its header declares 8,000,000,000,000 bytes"):
        bd.Blocks(packed)


@pytest.mark.parametrize("axis", [0, 1])
def test_shapes_that_a_file_cannot_mean(tmp_path, axis):
    path = tmp_path / "wide.npz"
    shape = [2, 2]
    shape[axis] = 10**12
    matrix = sparse.coo_array((np.ones(2), ([0, 1], [1, 0])), shape=shape)
    sparse.save_npz(path, matrix)
    with pytest.raises(ValueError, match="it declares 1,000,000,000,000 rows or columns"):
        bd.Blocks(path)


def test_an_index_of_a_billion_in_a_line(tmp_path):
    path = tmp_path / "rows.svmlight"
    path.write_text("1 1:0.5 1000000000:1\n-1 2:1\n")
    with pytest.raises(ValueError, match="it declares 1,000,000,000 rows or columns, and holds 28 bytes"):
        bd.Blocks(path)
    path.write_text("1 1:0.5 1000:1\n-1 2:1\n")
    assert bd.Blocks(path).shape == (2, 1000)


def test_an_archive_that_swells(tmp_path):
    """What deflate cannot have packed."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        with archive.open("data.npy", "w") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (10**6,)}
            np.lib.format.write_array_header_1_0(file, header)
            file.write(bytes(8 * 10**6))
    with pytest.raises(ValueError, match="claims 8,000,128 bytes and has"):
        bd.Blocks(path)
