"""Fits of sharded data, in processes of their own: JAX takes the number of its devices, and its peers, at its start."""

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bayesdrop as bd

HERE = Path(__file__).parent


def four_devices(marked):
    """Run the tests of the file that needs four devices; what they compile runs once, so that little is optimised."""
    flags = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"
    flags += " --xla_llvm_disable_expensive_passes=true"
    tests = str(HERE / "sharded_on_four_devices.py")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marked, tests],
        env=os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "passed" in run.stdout
    assert "skipped" not in run.stdout


@pytest.mark.slow
def test_on_four_devices():
    four_devices("not slow")


@pytest.mark.slow
def test_more_samplers_on_four_devices():
    four_devices("slow")


@pytest.fixture(scope="module", name="worker")
def _worker():
    spec = importlib.util.spec_from_file_location("sharded_worker", HERE / "sharded_in_two_processes.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory):
    """What two processes wrote, which talk to each other over gloo."""
    folder = tmp_path_factory.mktemp("processes")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(HERE / "sharded_in_two_processes.py")]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(port), str(folder)],
            env=os.environ | {"PYTHONPATH": str(Path(bd.__file__).parents[1])},  # the same package as here
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(said)
    return folder


def _ones_of(folder, name):
    return [dict(np.load(folder / f"{name}{rank}.npz")) for rank in range(2)]


@pytest.mark.slow
def test_two_processes_are_one(worker, folder):
    """Fits of halves in two processes are those of the whole in one, and are the same bits in both processes."""
    numbers = worker.problem()
    X, n = numbers[0], len(numbers[0])
    expected = worker.run(X, slice(None), numbers)
    r = np.arange(2.0 * n).reshape(n, 2)
    expected |= {
        "gram": X.T @ (r[:, :1] * X),
        "rmatvec": X.T @ r,
        "above": (X > 0).T @ r,
        "total": r.sum(axis=0),
        "minimum": X.min(),
        "matvec": X @ np.ones(6),
    }
    first, second = _ones_of(folder, "found")
    assert set(first) == set(second) == set(expected)
    for name, value in expected.items():
        one, other = first[name], second[name]
        if name == "matvec" or name.endswith(("predicted", "chances")):
            one = np.concatenate([one, other])
        else:
            np.testing.assert_array_equal(one, other, err_msg=name)
        if np.asarray(value).dtype.kind == "U":
            np.testing.assert_array_equal(one, value, err_msg=name)
        elif name.endswith("objective"):
            np.testing.assert_allclose(one, value, rtol=1e-12, err_msg=name)
        elif name.startswith(("softmax", "hinge", "support", "tube")):
            # Rows that are here go by another method, or are held to a bound, and a distance is the root of the
            # suboptimality, 1e-14.
            np.testing.assert_allclose(one, value, rtol=1e-7, atol=1e-7, err_msg=name)
        else:
            # The energy is flat to its last digits at a distance of their root.
            np.testing.assert_allclose(one, value, rtol=1e-10, atol=1e-10, err_msg=name)


REFUSED = {
    "labels": "ValueError: process 1: y: expected 120 entries, one for each row of X that this process holds, got 119.",
    "no weight": "ValueError: sample_weight: all weights are zero",
    "one class": "ValueError: y: expected at least two classes, got",
    "estimator": "ValueError: process 1: y: expected 120 entries",
    "sample": "ValueError: X: 2 processes hold its rows, and bd.sample takes those of one",
    "path": "TypeError: X: 2 processes hold its rows, and this needs them all in one.",
    "unlabelled": "TypeError: unlabelled: rows without labels join rows in memory only",
    "partial": "TypeError: X: 2 processes hold its rows, and this needs them all in one.",
    "pairs": "ValueError: X: 2 processes hold its rows, and a matrix of all pairs of rows would not fit one",
}


@pytest.mark.slow
def test_an_error_in_one_process_is_one_in_both(folder):
    for said in _ones_of(folder, "refused"):
        assert set(said) == set(REFUSED)
        for name, start in REFUSED.items():
            assert str(said[name]).startswith(start), name
