"""The design whose rows lie on devices, in a process of its own: JAX takes the number of its devices at its start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("marked", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_on_four_devices(marked):
    tests = Path(__file__).with_name("sharded_on_four_devices.py")
    flags = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marked, str(tests)],
        env=os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "passed" in run.stdout
    assert "skipped" not in run.stdout
