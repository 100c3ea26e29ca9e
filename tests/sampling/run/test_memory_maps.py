"""Compiled programs are dropped before a process runs out of memory maps."""

import mmap
from pathlib import Path

import jax
import numpy as np
import pytest

from bayesdrop._memory import Limits, drop_programs_if_maps_run_short, map_share


@pytest.mark.slow
@pytest.mark.parametrize(("most", "traces"), [(0.95, 2), (-1.0, 4)])
def test_programs_are_dropped_where_the_process_has_few_memory_maps_left(most, traces):
    """What is dropped is compiled again."""
    traced = []

    @jax.jit
    def double(x):
        traced.append(x.shape)
        return 2 * x

    for n in (1, 2, 2, 1):
        drop_programs_if_maps_run_short(Limits(most))
        np.testing.assert_array_equal(double(np.ones(n)), 2 * np.ones(n))
    assert len(traced) == traces


def test_the_share_of_memory_maps_counts_those_of_this_process():
    most = Path("/proc/sys/vm/max_map_count")
    if not most.exists():
        assert map_share() == 0
        return
    before = map_share()
    more = [mmap.mmap(-1, 1) for _ in range(500)]
    share = map_share()
    for part in more:
        part.close()
    assert 450 < (share - before) * int(most.read_text()) < 550
