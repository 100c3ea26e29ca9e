"""Files of features that lie about their size, or are damaged: one line, and no memory that they only claim."""

import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
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
        ("rows.svm", b"nan 1:1\n" + ROWS, "label"),
        ("rows.svm", b"", "expected two classes"),
    ],
)
def test_damaged_rows_are_one_line(command, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    result = command("fit", name, "--rates", "0.1")
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


# In a process that may not have the memory that is claimed.
LIMITED = """
import resource, sys
from bayesdrop.cli.app import main
import bayesdrop.cli.fit_table, bayesdrop.cli.report, bayesdrop.designs.blocks.sources, sklearn.datasets
import matplotlib.pyplot, pandas, pyarrow.parquet
with open("/proc/self/status") as file:
    mapped = next(1024 * int(line.split()[1]) for line in file if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**29, resource.RLIM_INFINITY))
main()
"""


def limited(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, *arguments], cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    return done


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is Linux's to tell")
def test_a_line_of_a_gigabyte_is_not_read(tmp_path):
    """Packed it takes a megabyte."""
    with gzip.open(tmp_path / "rows.svm.gz", "wb", 1) as file:
        file.write(ROWS + b"1 1:")
        for _ in range(200):
            file.write(b"0" * 5_000_000)
    done = limited(tmp_path, "fit", "rows.svm.gz", "--rates", "0.1")
    assert (done.returncode, "it is longer than 67,108,864 bytes" in done.stderr) == (2, True), done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is Linux's to tell")
@pytest.mark.parametrize("options", [(), ("--memory", "2GB")])
def test_a_parquet_file_that_packs_gigabytes_is_not_read(tmp_path, options):
    import pyarrow as pa
    from pyarrow import parquet

    n = 1_000_000
    part = pa.table({"y": pa.array(np.zeros(n, np.int64)), "a": pa.array(np.zeros(n))})
    with parquet.ParquetWriter(tmp_path / "rows.parquet", part.schema) as writer:
        for _ in range(60):
            writer.write_table(part)
    done = limited(tmp_path, "fit", "rows.parquet", "--target", "y", *options)
    assert done.returncode in (1, 2)
    assert "and this process may have" in done.stderr


def test_lines_are_gathered_into_blocks(tmp_path):
    """The same matrix, however its lines are gathered."""
    from bayesdrop.designs.blocks import sources

    (tmp_path / "rows.svm").write_bytes(ROWS)
    whole = np.concatenate([block.toarray() for _, block in sources.Files([tmp_path / "rows.svm"], None, None).read()])
    few = sources.Files([tmp_path / "rows.svm"], 7, None)
    assert [block.shape[0] for _, block in few.read()] == [7] * 5 + [5]
    np.testing.assert_array_equal(np.concatenate([block.toarray() for _, block in few.read()]), whole)
    assert bd.Blocks(str(tmp_path / "rows.svm")).shape == (40, 3)


def test_parquet_of_another_kind_is_one_line(command, tmp_path):
    pd.DataFrame({"y": [0, 1] * 9, "a": np.arange(18.0)}).to_parquet(tmp_path / "rows.parquet")
    whole = (tmp_path / "rows.parquet").read_bytes()
    for content in (whole[:-20], whole[:60] + bytes(40) + whole[100:], b"PAR1" + bytes(20) + b"PAR1"):
        (tmp_path / "rows.parquet").write_bytes(content)
        for options in ((), ("--memory", "2GB")):
            result = command("fit", "rows.parquet", "--target", "y", *options)
            assert result.exit_code == 2, result.stderr
            assert len(result.stderr.splitlines()) == 1
