"""Threads that sum over blocks: no more than the blocks leave memory for."""

import numpy as np

import bayesdrop as bd
from bayesdrop.designs.blocks import design as blocks
from bayesdrop.designs.threads import Limits


def test_large_blocks_are_not_held_by_many_threads(monkeypatch):
    monkeypatch.setattr(blocks, "cores", lambda: 8)
    design = bd.Blocks([np.ones((50, 4))] * 3)
    assert design._threads() == 8
    monkeypatch.setattr(blocks, "LIMITS", Limits(block_bytes=3 * 16 * 200))
    assert design._threads() == 3
    monkeypatch.setattr(blocks, "LIMITS", Limits(block_bytes=0))
    assert design._threads() == 1
