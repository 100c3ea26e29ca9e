"""What a fit, a search and a run say in the log, and on a terminal where they take long."""

import io
import logging
import subprocess
import sys

import numpy as np
import pytest

import bayesdrop as bd
from bayesdrop import _progress

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.where(X[:, 0] + 0.5 * np.random.default_rng(1).normal(size=60) > 0, "yes", "no")


def messages(caplog, level):
    return [record.getMessage() for record in caplog.records if record.levelno == level and record.name == "bayesdrop"]


@pytest.mark.parametrize(
    ("fit", "steps"),
    [
        (lambda: bd.fit(bd.Model(), X, Y), "n_iter"),
        (lambda: bd.fit(bd.Model(bd.Softmax(), rates=bd.Fixed(0.1)), X, np.arange(60) % 3), "n_iter"),
        (lambda: bd.DropoutLogisticRegression(0.1).fit(X, Y), "n_iter_"),
        (lambda: bd.DropoutLogisticRegression(0.1).fit(X, np.arange(60) % 3), "n_iter_"),
        (lambda: bd.LatentDropoutSVC(0.1, n_hidden=2, n_init=1, random_state=0).fit(X, Y), "n_iter_"),
    ],
)
def test_every_fit_says_how_it_ended_and_if_asked_each_iteration(caplog, fit, steps):
    with caplog.at_level(logging.DEBUG, "bayesdrop"):
        result = fit()
    (ended,) = messages(caplog, logging.INFO)
    count = getattr(result, steps)
    assert ended.startswith(f"fit after {count} iterations: Converged")
    assert sum(line.startswith("iteration ") for line in messages(caplog, logging.DEBUG)) >= count
    assert "relative suboptimality" in messages(caplog, logging.DEBUG)[0]


def test_a_search_says_what_it_tried_and_chose(caplog):
    with caplog.at_level(logging.DEBUG, "bayesdrop"):
        fit = bd.fit(bd.Model(rates=bd.Tuned(cv=2)), X, Y)
    chosen, ended = messages(caplog, logging.INFO)
    assert chosen == f"chosen of {len(fit.selection.candidates)} candidates: {fit.selection!r}"
    assert ended.startswith("fit after")
    tried = [line for line in messages(caplog, logging.DEBUG) if line.startswith("C = 1, ")]
    assert len(tried) >= len(fit.selection.candidates)


def test_nothing_is_said_unasked():
    code = "import bayesdrop as bd; bd.fit(bd.Model(), [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


def impatient(monkeypatch):
    """A terminal, and nothing is too short to be shown; not as a fixture, after which pytest sets its own stream."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(_progress, "PATIENCE", 0.0)
    return terminal


def test_a_long_fit_and_a_long_search_show_in_a_terminal(monkeypatch):
    slow = impatient(monkeypatch)
    bd.fit(bd.Model(), X, Y)
    assert "fit: " in slow.getvalue()
    bd.DropoutLogisticRegressionCV([0.0, 0.3], Cs=(1.0,), cv=2).fit(X, Y)
    assert "search: " in slow.getvalue()


def test_parts_of_a_task_and_other_processes_show_nothing(monkeypatch):
    slow = impatient(monkeypatch)
    with _progress.waiting("whole", "step"):
        with _progress.waiting("part", "step"):
            _progress.step()
        _progress.step()
    assert "whole" in slow.getvalue()
    assert "part" not in slow.getvalue()
    before = slow.getvalue()
    with _progress.quietly(), _progress.waiting("fit", "step"):
        _progress.step()
    assert slow.getvalue() == before
