"""A run in chunks: draws do not depend on the cuts, rules and budgets end it, and bad starts are named."""

import gc
import io
import re
import signal
import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop.sampling.run import driving, runner
from bayesdrop.sampling.run.runner import as_key, run


class State(NamedTuple):
    place: Any
    key: Any


@dataclass(frozen=True)
class Walk:
    """Autoregressive chains; the operand is the correlation of neighbours."""

    fails_at_start: bool = False
    variables: ClassVar = {"weight": ("feature",)}
    statistics: ClassVar = ("lp",)

    def init(self, operands, key, chains):
        start = jnp.full(chains, jnp.inf if self.fails_at_start else 0.0)
        return State(start, key)

    def step(self, operands, state):
        key, key_noise = jax.random.split(state.key)
        noise = jax.random.normal(key_noise, state.place.shape)
        state = State(operands["correlation"] * state.place + noise, key)
        return state, {
            "weight": jnp.stack([state.place, jnp.full_like(state.place, 3.0)], axis=1),
            "lp": -state.place * state.place,
        }


def walk(correlation=0.5, kernel=None, **options):
    defaults = {"tune": 20, "draws": 300, "chains": 4, "progress": False}
    kernel = Walk() if kernel is None else kernel
    return run(kernel, {"correlation": jnp.float32(correlation)}, as_key(0), **defaults | options)


@pytest.mark.parametrize("seconds", [1e-9, 100.0])
def test_draws_do_not_depend_on_chunks(monkeypatch, seconds):
    expected = walk()
    counts, chunk = [], driving.run_chunk

    def counting(*arguments):
        counts.append(int(arguments[-1]))
        return chunk(*arguments)

    monkeypatch.setattr(runner.Runner, "chunk_seconds", seconds)
    monkeypatch.setattr(driving, "run_chunk", counting)
    found = walk()
    assert sum(counts) == 320
    assert len(counts) > 310 if seconds < 1e-8 else len(counts) < 100
    for name, value in expected.draws.items():
        np.testing.assert_array_equal(found.draws[name], value)
    assert found.stopped == "draws"
    assert found.complete


def test_no_tuning_is_a_run_of_its_own():
    np.testing.assert_array_equal(walk(tune=0, draws=320).draws["weight"][:, 20:], walk().draws["weight"])


def test_stop_rule_ends_an_easy_run_at_the_same_draw_whatever_the_chunks(monkeypatch):
    rule = bd.Stop(ess=500)
    found = walk(draws=5000, stop=rule)
    kept = found.draws["lp"].shape[1]
    assert found.stopped == "target"
    assert found.complete
    assert 100 < kept < 5000
    assert rule.next_check(kept - 1) == kept
    assert rule.assess({"weight": found.draws["weight"]}).reached
    np.testing.assert_array_equal(walk(draws=kept).draws["weight"], found.draws["weight"])
    monkeypatch.setattr(runner.Runner, "chunk_seconds", 1e-9)
    assert walk(draws=5000, stop=rule).draws["lp"].shape[1] == kept


def test_stop_rule_is_not_met_by_a_hard_run():
    found = walk(0.9999, draws=400, stop=bd.Stop(ess=100))
    assert found.stopped == "draws"
    assert found.draws["lp"].shape == (4, 400)


def test_stop_rule_asks_for_agreement_too():
    apart = np.random.default_rng(0).normal(size=(4, 4000)) + 0.3 * np.arange(4)[:, None]
    found = bd.Stop(ess=10).assess({"weight": apart})
    assert found.ess > 10
    assert found.r_hat > 1.01
    assert not found.reached
    stuck = np.repeat(np.arange(4.0)[:, None], 100, axis=1)
    assert not bd.Stop(ess=1).assess({"weight": stuck}).reached
    assert not bd.Stop(ess=1).assess({"weight": np.zeros((4, 100))}).reached  # nothing varies, nothing is known


def test_the_end_is_checked_even_between_two_checks():
    assert walk(draws=110, stop=bd.Stop(ess=20, r_hat=1.5, min_draws=100)).stopped == "target"
    assert walk(draws=90, stop=bd.Stop(ess=20, r_hat=1.5, min_draws=100)).stopped == "target"


def test_statistics_are_not_monitored():
    seen = []

    class Rule(bd.Stop):
        def assess(self, draws):
            seen.append(sorted(draws))
            return super().assess(draws)

    walk(draws=120, stop=Rule(ess=20, r_hat=1.5))
    assert seen[0] == ["weight"]


def test_time_budget_keeps_the_finished_draws():
    found = walk(tune=0, draws=10**8, max_seconds=0.3)
    kept = found.draws["lp"].shape[1]
    assert found.stopped == "budget"
    assert not found.complete
    assert 0 < kept < 10**8
    some = min(kept, 300)
    np.testing.assert_array_equal(walk(tune=0, draws=some).draws["lp"], found.draws["lp"][:, :some])


def test_time_budget_without_a_draw_says_how_far_it_got():
    with pytest.raises(TimeoutError, match=r"1e-09 s were used up after 1 of 20 tuning draws.*checkpoint=PATH"):
        walk(max_seconds=1e-9)


def test_interruption_keeps_whole_chunks(monkeypatch):
    chunk, calls = driving.run_chunk, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return chunk(*arguments)

    monkeypatch.setattr(driving, "run_chunk", interrupted)
    found = walk(draws=5000)
    kept = found.draws["lp"].shape[1]
    assert found.stopped == "interrupted"
    assert 0 < kept < 5000
    monkeypatch.undo()
    np.testing.assert_array_equal(walk(draws=kept).draws["lp"], found.draws["lp"])


def test_interruption_between_a_part_and_its_state(monkeypatch):
    """What goes beyond the last state is dropped: a part and its state belong together."""

    class Interrupting(runner.Runner):
        def advance(self, count):
            before = self.position
            super().advance(count)
            if self.done > 200:
                self.position = before
                raise KeyboardInterrupt

    monkeypatch.setattr(runner, "Runner", Interrupting)
    found = walk()
    kept = found.draws["lp"].shape[1]
    assert 0 < kept <= 180
    monkeypatch.undo()
    np.testing.assert_array_equal(walk(draws=kept).draws["lp"], found.draws["lp"])


@pytest.mark.parametrize(
    ("kernel", "correlation", "message"),
    [
        (
            Walk(fails_at_start=True),
            0.5,
            r"after draw 1 of each chain \(chains \[0, 1, 2, 3\], float32\); not finite are state\.place",
        ),
        (Walk(), np.inf, r"after draw 1 of each chain .*not finite are data\['correlation'\], state\.place"),
        (Walk(), 1e30, r"after draw [23] of each chain"),
    ],
)
def test_broken_density_is_named(kernel, correlation, message):
    with pytest.raises(ValueError, match=message):
        walk(correlation, kernel)


def test_progress_says_what_is_going_on(capsys, monkeypatch):
    monkeypatch.setattr(runner, "is_watched", lambda stream: True)
    walk(draws=120, progress=True, stop=bd.Stop(ess=20, r_hat=1.5))
    said = capsys.readouterr().err
    for text in ("compiling (once)", "tuning", "drawing", "smallest ESS", "of 20", "largest R-hat"):
        assert text in said
    walk(draws=120, stop=bd.Stop(ess=20))
    out = capsys.readouterr()
    assert out.out + out.err == ""


def test_where_nobody_looks_a_run_is_one_line(capsys):
    """Of a log or a stored notebook."""
    walk(progress=True)
    out = capsys.readouterr()
    assert out.out == ""
    assert re.fullmatch(r"4 chains, draw 320 of 320 in [\d.]+ s: draws\n", out.err)


@pytest.mark.slow
def test_an_interruption_in_a_callback_of_the_collector_stops_a_run(monkeypatch):
    """Python prints and forgets what is raised there, and a run that compiles spends much of its time there."""
    chunk, came = driving.run_chunk, []
    # Which a shell's background processes ignore.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def collected(phase, _):
        if not came:
            came.append(phase)
            signal.raise_signal(signal.SIGINT)

    def collecting(*arguments):
        if not came:
            gc.callbacks.append(collected)
            gc.collect()
            time.sleep(0.1)
        return chunk(*arguments)

    monkeypatch.setattr(driving, "run_chunk", collecting)
    try:
        with pytest.raises(KeyboardInterrupt):  # before the first draw
            walk()
    finally:
        gc.callbacks.remove(collected)
        signal.signal(signal.SIGINT, before)
    assert came == ["start"]


def test_the_clock_of_the_bar_begins_when_all_is_compiled(monkeypatch):
    """Compilation takes an hour of a clock that stands still otherwise: none of it is in the time that draws take."""
    import tqdm

    now, bars, chunk = [0.0], [], runner.Runner.advance

    class Bar(tqdm.tqdm):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self._time, self.start_t, self.last_print_t = lambda: now[0], 0.0, 0.0
            bars.append(self)

    def compiling(self, count):
        now[0] = 3600.0
        chunk(self, count)

    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(runner, "is_watched", lambda stream: True)
    monkeypatch.setattr(runner.Runner, "advance", compiling)
    walk(progress=True)
    assert bars[0].n == 320
    assert bars[0].start_t == 3600.0


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"stop": 400}, TypeError, r"stop: expected a rule such as bd\.Stop\(ess=400\), got 400"),
        ({"stop": bd.Stop(), "chains": 1}, ValueError, "stop: one chain cannot show"),
    ],
)
def test_senseless_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        bd.sample(bd.Model(), [[0.0], [1.0]], [0, 1], progress=False, **options)


def test_a_notebook_is_watched_unless_it_is_executed_to_be_stored(monkeypatch):
    from bayesdrop._progress import is_watched

    output = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    assert is_watched(output)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    assert not is_watched(output)
    assert not is_watched(io.StringIO())
