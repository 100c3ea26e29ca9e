"""A run that ended at any moment goes on with the draws it would have had; tests/files interrupts processes."""

import contextlib
import json
import os
import shutil

import jax
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.sampling.run import driving
from bayesdrop.warnings import IncompleteWarning


def same(found, expected):
    assert found.draws.keys() == expected.draws.keys()
    for name, value in expected.draws.items():
        np.testing.assert_array_equal(found.draws[name], value)
        assert found.draws[name].dtype == value.dtype


def test_a_kill_at_any_write_leaves_a_whole_checkpoint(tmp_path, often, monkeypatch, walk):
    """Copies of the folder before and after each rename, temporary files included, are what a kill would leave."""
    moments, replace = [], os.replace

    def copying(source, target):
        for when in ("before", "after"):
            copy = tmp_path / f"{len(moments):03d}-{when}"
            shutil.copytree(tmp_path / "run", copy)
            moments.append(copy)
            if when == "before":
                replace(source, target)

    expected = walk(draws=60)
    monkeypatch.setattr(os, "replace", copying)
    walk(tmp_path / "run", draws=60)
    monkeypatch.undo()
    assert len(moments) > 20
    for copy in moments:
        manifest = copy / "manifest.json"
        finished = manifest.exists() and json.loads(manifest.read_text())["done"] == 90
        same(walk(copy, draws=60), expected)
        assert not list(copy.glob(".*.tmp"))
        named = json.loads((copy / "manifest.json").read_text())
        files = {"lock", "manifest.json", named["state"]["file"], *(part["file"] for part in named["parts"])}
        extra = {path.name for path in copy.iterdir()} - files
        assert not extra or finished  # where nothing is left to draw, nothing is written and nothing removed


@pytest.mark.parametrize("call", [3, 4, 9, 12, 13, 14])
def test_an_interruption_while_writing_loses_nothing(tmp_path, often, monkeypatch, call, walk):
    calls, replace = [], os.replace

    def interrupted(source, target):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with contextlib.suppress(KeyboardInterrupt):  # raised again if no draw was kept yet
        assert walk(tmp_path / "run").stopped == "interrupted"
    monkeypatch.undo()
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["done"] > 0
    same(walk(tmp_path / "run"), walk())


def test_a_full_disk_costs_the_checkpoint_and_no_draw(tmp_path, often, monkeypatch, walk):
    """The run goes on in memory, the folder is as it was at the last good write, and a later call goes on from it."""
    calls, flush = [], os.fsync

    def full(descriptor):
        calls.append(1)
        if len(calls) > 12:
            raise OSError(28, "No space left on device")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(IncompleteWarning, match=r"No space left on device.*stays at draw \d+; the run continues"):
        found = walk(tmp_path / "run")
    assert found.stopped == "draws"
    monkeypatch.undo()
    same(found, walk())
    assert 0 < json.loads((tmp_path / "run" / "manifest.json").read_text())["done"] < 230
    same(walk(tmp_path / "run"), walk())


def test_an_interrupted_tuning_is_kept(tmp_path, monkeypatch, walk):
    chunk, calls = driving.run_chunk, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return chunk(*arguments)

    monkeypatch.setattr(driving, "run_chunk", interrupted)
    with pytest.raises(KeyboardInterrupt):
        walk(tmp_path / "run")
    monkeypatch.undo()
    assert 0 < json.loads((tmp_path / "run" / "manifest.json").read_text())["done"] < 30
    same(walk(tmp_path / "run"), walk())


def test_more_draws_extend_and_fewer_are_the_first_ones(folder, monkeypatch, walk, content):
    longer, before = walk(folder, draws=500), content(folder)
    same(longer, walk(draws=500))
    monkeypatch.setattr(driving, "run_chunk", None)  # what is finished is read and no more
    again = walk(folder, draws=500)
    same(again, longer)
    assert (again.stopped, again.complete) == ("draws", True)
    fewer = walk(folder, draws=40)
    np.testing.assert_array_equal(fewer.draws["weight"], longer.draws["weight"][:, :40])
    assert content(folder) == before


def test_each_draw_is_written_once(folder, walk, content):
    before = content(folder)
    walk(folder, draws=2000)
    after = content(folder)
    kept = [name for name in before if name.startswith("draws-")]
    assert len(kept) >= 2
    assert all(after[name] == before[name] for name in kept)
    assert sum(name.startswith("state-") for name in after) == 1


def test_few_checkpoints_in_a_short_run(tmp_path, walk):
    walk(tmp_path / "run")
    assert len(list((tmp_path / "run").glob("draws-*"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["threefry2x32", "rbg"])
def test_double_precision_and_other_keys(tmp_path, often, kind, walk):
    with jax.enable_x64(True):
        key = jax.random.key(3, impl=kind)
        walk(tmp_path / "run", key, draws=50)
        found, expected = walk(tmp_path / "run", key, draws=120), walk(seed=key, draws=120)
    same(found, expected)
    assert found.draws["weight"].dtype == np.float64


@pytest.mark.slow
def test_a_budget_is_spent_call_by_call(tmp_path, walk):
    options = {"draws": 12, "tune": 6}
    with pytest.raises(TimeoutError, match="the tuning so far is in .*run: call again with the same arguments"):
        walk(tmp_path / "run", max_seconds=1e-9, **options)
    stopped = []
    while "draws" not in stopped and len(stopped) < 30:
        try:
            found = walk(tmp_path / "run", max_seconds=1e-9, **options)
            stopped.append(found.stopped)
        except TimeoutError:
            stopped.append("no draw")
    assert stopped == ["no draw"] * 5 + ["budget"] * 11 + ["draws"]
    same(found, walk(**options))


def test_a_stop_rule_finds_the_same_end_after_a_kill(tmp_path, often, walk):
    rule = bd.Stop(ess=400, r_hat=1.1)
    expected = walk(draws=5000, stop=rule)
    kept = expected.draws["lp"].shape[1]
    assert expected.stopped == "target"
    walk(tmp_path / "run", draws=kept - 3)
    found = walk(tmp_path / "run", draws=5000, stop=rule)
    assert found.stopped == "target"
    same(found, expected)
    same(walk(tmp_path / "run", draws=5000, stop=rule), expected)
    same(walk(tmp_path / "run", draws=kept + 50), walk(draws=kept + 50))
