"""Memory is what this process may have: of the machine, of the containers around it, of its address space."""

import subprocess
import sys

import pytest

from bayesdrop._memory import memory_limit

GB = 2**30


def tree(root, cgroup, limits):
    """A file system in which a process is in a control group, and groups have limits."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for path, limit in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{limit}\n")
    return root


@pytest.fixture
def machine(monkeypatch):
    """One of 64 GB."""
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 64 * GB // 4096}
    monkeypatch.setattr("os.sysconf", lambda name: sizes[name], raising=False)


@pytest.mark.parametrize(
    ("cgroup", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": 4 * GB}, 4 * GB),  # in a container, version 2
        ("0::/\n", {"memory.max": "max"}, 64 * GB),
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": 3 * GB}, 3 * GB),  # the group around it has one
        ("0::/a/b\n", {"a/b/memory.max": 2 * GB, "a/memory.max": 3 * GB}, 2 * GB),
        ("5:cpu,memory:/d/x\n1:name=systemd:/\n", {"memory/d/x/memory.limit_in_bytes": GB}, GB),  # version 1
        ("5:memory:/docker/77\n0::/\n", {"memory/memory.limit_in_bytes": GB}, GB),  # the path is that outside
        ("5:memory:/\n", {"memory/memory.limit_in_bytes": 9223372036854771712}, 64 * GB),  # which stands for none
        ("5:cpu:/d\n", {"memory/d/memory.limit_in_bytes": GB}, 64 * GB),  # of another controller
        ("", {}, 64 * GB),
        ("nonsense\n::\n0::/\n", {"memory.max": "a lot"}, 64 * GB),
    ],
)
def test_the_smallest_limit_of_the_containers(machine, tmp_path, cgroup, limits, expected):
    assert memory_limit(tree(tmp_path, cgroup, limits)) == expected


PROGRAM = """
import resource, sys
import numpy as np
import bayesdrop as bd
from bayesdrop._memory import memory_limit

bd.DropoutLogisticRegression  # what takes address space is there
with open("/proc/self/status") as file:
    mapped = next(1024 * int(line.split()[1]) for line in file if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**28, resource.RLIM_INFINITY))
assert 2**27 < memory_limit() <= 2**28, memory_limit()
X, y = np.zeros((20_000, 1)), np.arange(20_000) // 10
try:
    bd.DropoutLogisticRegression().fit(X, y)
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is Linux's to tell")
def test_what_ulimit_leaves():
    """2,000 classes of 20,000 rows take 640 MB; before, they were compared with the machine's memory alone."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "y: a fit of 2,000 classes takes at least 640 MB, and this process may have 2" in done.stdout
