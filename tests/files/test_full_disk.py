"""A disk that is full is an error with words: the process goes on, and what it has can be saved elsewhere."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop._netcdf import _Sink, new_netcdf

resource = pytest.importorskip("resource")  # not on Windows

# A process of its own, for a fault ends it. The largest file that it may write takes the part of a full disk.
PROGRAM = """
import gc, os, resource, sys
import numpy as np, xarray as xr
import bayesdrop as bd
from bayesdrop.description import attributes

folder = sys.argv[1]
rng = np.random.default_rng(0)
X = rng.normal(size=(40, 6))
y = X[:, 0] > 0
model = bd.Model(rates=bd.Fixed(0.2))
fit = bd.fit(model, X, y)
draws = xr.Dataset(
    {"weight": (("chain", "draw", "feature"), rng.normal(size=(2, 20, 6))),
     "intercept": (("chain", "draw"), rng.normal(size=(2, 20)))},
    coords={"feature": fit.feature_names, "chain": [0, 1], "draw": range(20)},
)
observed = xr.Dataset({"y": ("obs_id", y.astype(np.int8))}, coords={"obs_id": range(40)})
post = bd.groups.assemble({"posterior": draws, "observed_data": observed}, attributes(model, [False, True]))
writers = {
    "fit": fit.save,
    "posterior": lambda path: bd.groups.save(post, path),
    "likelihood": lambda path: bd.log_likelihood(post, X, y, path=path),
}
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for name, write in writers.items():
    path = f"{folder}/{name}.nc"
    write(path)
    with open(path, "rb") as file:
        whole = file.read()
    for share in np.linspace(0, 1, 5, endpoint=False):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * len(whole)), hard))
        try:
            write(path)
        except OSError as error:
            assert "cannot be written" in str(error) and "still in memory" in str(error), error
        else:
            raise AssertionError(f"{name} was written to {share:.0%} of a file")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        gc.collect()
        with open(path, "rb") as file:
            assert file.read() == whole
    os.remove(path)
    write(path)
    assert os.listdir(folder) == [f"{name}.nc"], os.listdir(folder)
    if name == "fit":
        assert np.array_equal(bd.Fit.load(path).weight, fit.weight)
    os.remove(path)
print("alive")
"""


@pytest.mark.slow
def test_the_process_lives_and_saves_elsewhere(tmp_path):
    """Before, it died by a fault once it had reported the error."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]


def test_a_link_to_a_device_is_not_replaced(tmp_path):
    link = tmp_path / "fit.nc"
    link.symlink_to(os.devnull)
    with pytest.raises(FileExistsError, match="'/dev/null' is a device, a pipe or a socket; give the name of a file"):
        bd.groups.save(bd.groups.assemble({"posterior": xr.Dataset()}), link)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileExistsError, match="pipe"), new_netcdf(tmp_path / "pipe"):
        pass


class FullDisk(io.FileIO):
    """A file that takes 300 bytes."""

    def write(self, data):
        room = 300 - self.tell()
        if room <= 0:
            raise OSError("the disk is full")
        return super().write(bytes(data)[:room])


def test_what_is_written_is_read_again(tmp_path):
    """By HDF5, which took for addresses in memory what lay in the buffer that was not filled."""
    (tmp_path / "file").touch()
    rng = np.random.default_rng(0)
    with FullDisk(tmp_path / "file", "r+b") as file:
        sink, expected = _Sink(file), io.BytesIO()
        for _ in range(200):
            data, place = rng.bytes(rng.integers(1, 60)), int(rng.integers(500))
            for one in (sink, expected):
                one.seek(place)
                assert one.write(data) == len(data)
                assert one.tell() == place + len(data)
            assert sink.seek(0, os.SEEK_END) == expected.seek(0, os.SEEK_END)
            first = int(rng.integers(expected.tell()))
            sink.seek(first)
            room = bytearray(b"?" * int(rng.integers(1, 100)))
            assert sink.readinto(room) == len(room)
            assert room == expected.getvalue()[first : first + len(room)].ljust(len(room), b"\0")
        with pytest.raises(OSError, match="the disk is full"):
            sink.check()
