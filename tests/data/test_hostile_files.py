"""Files of features that lie about their size, or are damaged: an error, and no memory that they only claim."""

import gzip
import re
import subprocess
import sys

import numpy as np
import pytest

import bayesdrop as bd

ROWS = b"".join(b"%d 1:%d 3:0.5\n" % (row % 2, row) for row in range(40))


def damaged(whole):
    """Packed rows of which a part is another's."""
    packed = bytearray(gzip.compress(whole * 50))
    packed[60:90] = bytes(30)
    return bytes(packed)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.svm.gz", damaged(ROWS), "rows.svm.gz cannot be read, it may be truncated"),
        ("rows.svm.gz", gzip.compress(ROWS)[:-9], "rows.svm.gz cannot be read, it may be truncated"),
        ("rows.svm.gz", ROWS, "Not a gzipped file"),
        ("rows.svm", ROWS.replace(b"0.5", b"0\x005", 1), "expected index:value, finite numbers"),
        ("rows.svm", ROWS + b"1 99999999999999999999:1\n", "it declares 99,999,999,999,999,999,999 rows or columns"),
        ("rows.svm", ROWS + b"1 -5:1\n", "-5"),
        ("rows.svm", ROWS.replace(b"0.5", b"1e999", 1), "expected index:value, finite numbers"),
        ("rows.svm", b"", "source: there are no rows"),
    ],
)
def test_damaged_rows_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        bd.fit(bd.Model(rates=bd.Fixed(0.1)), bd.Blocks(tmp_path / name), np.arange(40) % 2)


# In a process that may have half a gigabyte more than it takes to begin.
LIMITED = """
import resource, sys
import bayesdrop as bd, bayesdrop.designs.blocks.sources, sklearn.datasets
with open("/proc/self/status") as file:
    mapped = next(1024 * int(line.split()[1]) for line in file if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**29, resource.RLIM_INFINITY))
bd.Blocks("rows.svm.gz").shape
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is Linux's to tell")
def test_a_line_of_a_gigabyte_is_not_read(tmp_path):
    """Packed it takes a megabyte."""
    with gzip.open(tmp_path / "rows.svm.gz", "wb", 1) as file:
        file.write(ROWS + b"1 1:")
        for _ in range(200):
            file.write(b"0" * 5_000_000)
    done = subprocess.run([sys.executable, "-c", LIMITED], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "it is longer than 67,108,864 bytes" in done.stderr.splitlines()[-1], done.stderr


def read(source):
    return [load() for _, load in source.pieces()]


def test_lines_are_gathered_into_blocks(tmp_path):
    """The same matrix, however its lines are gathered."""
    from bayesdrop.designs.blocks import sources

    (tmp_path / "rows.svm").write_bytes(ROWS)
    whole = np.concatenate([block.toarray() for block in read(sources.Files([tmp_path / "rows.svm"], None, None))])
    few = sources.Files([tmp_path / "rows.svm"], 7, None)
    assert [block.shape[0] for block in read(few)] == [7] * 5 + [5]
    np.testing.assert_array_equal(np.concatenate([block.toarray() for block in read(few)]), whole)
    assert bd.Blocks(str(tmp_path / "rows.svm")).shape == (40, 3)
