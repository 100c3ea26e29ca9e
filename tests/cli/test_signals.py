"""A command that a signal ends leaves nothing behind, as one that the keyboard interrupts."""

import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from bayesdrop._progress import Ended, ended_by_signals, heard, uninterrupted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
NUMBERS = [signal.SIGTERM, signal.SIGHUP] if sys.platform != "win32" else []


@pytest.fixture(autouse=True)
def _signals_are_not_ignored():
    """Under nohup, processes begin with a hang-up that is ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def start(folder, **options):
    """A command that samples for minutes, once it has made its hidden folder."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    pd.DataFrame(X).assign(y=np.where(X[:, 0] > 0, "a", "b")).to_csv(folder / "table.csv", index=False)
    command = [sys.executable, "-m", "bayesdrop.cli", "fit", "table.csv", "--target", "y", "--sample"]
    command += ["--draws", "1000000", "--out", "new/out"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    while process.poll() is None and not list(folder.glob("new/out/.bayesdrop-*")):
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [*NUMBERS[:1], *(pytest.param(one, marks=pytest.mark.slow) for one in NUMBERS[1:])])
def test_a_signal_leaves_no_hidden_folder(tmp_path, number):
    process = start(tmp_path)
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 128 + number, said
    assert "nothing was written" in said
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


@pytest.mark.parametrize("number", NUMBERS)
def test_handlers_are_there_for_the_block(number):
    before = signal.getsignal(number)
    with pytest.raises(Ended) as raised, ended_by_signals():
        signal.raise_signal(number)
    assert raised.value.code == 128 + number
    assert signal.getsignal(number) is before is signal.SIG_DFL


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_that_is_ignored_stays_ignored(number):
    """As under nohup."""
    signal.signal(number, signal.SIG_IGN)
    try:
        with ended_by_signals():
            signal.raise_signal(number)
            assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_waits_for_what_must_be_whole(number):
    whole = []

    def work():
        with uninterrupted():
            signal.raise_signal(number)
            whole.append(True)

    with pytest.raises(Ended), ended_by_signals():
        work()
    assert whole


class Finalised:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.slow
def test_a_signal_in_a_finaliser_is_raised_again():
    def work():
        Finalised()
        time.sleep(5)

    with pytest.raises(Ended), ended_by_signals(), heard():
        work()
