"""No setting of the process is other than before, once a fit or a sampler has ended, in whatever way it did."""

import os
import signal
import warnings
from contextlib import nullcontext

import jax
import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

import bayesdrop as bd

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 400))
Y = X[:, 0] + RNG.normal(size=400) > 0


class InterruptedLogistic(bd.Logistic):
    """A loss at whose first derivatives the user has had enough, or something is wrong."""

    def derivatives(self, y, mean, var):
        raise self.raised


class Interrupted(InterruptedLogistic):
    raised = KeyboardInterrupt()


class Broken(InterruptedLogistic):
    raised = ZeroDivisionError("planted")


def sample(**options):
    return bd.sample(bd.Model(), X[:60, :3], Y[:60], tune=20, draws=20, chains=2, progress=False, **options)


def stopped_sampler():
    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)  # again, for Python ignores one in a finaliser
    try:
        bd.sample(bd.Model(), X[:, :50], Y, tune=50_000, draws=50_000, chains=2, progress=False)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


CALLS = {
    "a fit": (lambda: bd.fit(bd.Model(), X, Y), None),
    "a fit by an estimator": (lambda: bd.DropoutSVC(0.3).fit(X[:, :20], Y), None),
    "a fit of classes": (
        lambda: bd.DropoutLogisticRegression(0.3, multiclass="softmax").fit(X[:, :5], np.arange(400) % 3),
        None,
    ),
    "a posterior by Gibbs": (lambda: sample(method=bd.Gibbs()), None),
    "a posterior by HMC": (lambda: sample(method=bd.HMC()), None),
    "an interrupted fit": (
        lambda: bd.fit(bd.Model(Interrupted(), rates=bd.Fixed(0.3)), X, Y, method=bd.Newton()),
        KeyboardInterrupt,
    ),
    "a fit with an error": (
        lambda: bd.fit(bd.Model(Broken(), rates=bd.Fixed(0.3)), X, Y, method=bd.Newton()),
        ZeroDivisionError,
    ),
    "an interrupted sampler": (stopped_sampler, KeyboardInterrupt),
    "input that is refused": (lambda: bd.fit(bd.Model(), np.full((3, 2), np.nan), [0, 1, 1]), ValueError),
}


def state():
    signals = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)]
    blas = ThreadpoolController().select(user_api="blas").info()
    return {
        "threads of BLAS": {one["filepath"]: one["num_threads"] for one in blas},
        "JAX": dict(jax.config.values),
        "signals": signals,
        "NumPy": np.geterr(),
        "warnings": list(warnings.filters),
        "environment": dict(os.environ),
    }


@pytest.mark.slow_cases("HMC", "an interrupted sampler")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_no_setting_is_left_changed(name):
    # What is loaded when it is first used, and sets what it likes, has been.
    sample()
    bd.DropoutSVC(0.3).fit(X[:, :2], Y)
    call, error = CALLS[name]
    with threadpool_limits(2, "blas"):  # so that one would be a change
        before = state()
        with pytest.raises(error) if error else nullcontext():
            call()
        after = state()
    assert set(before["threads of BLAS"].values()) == {2}
    for setting, value in before.items():
        assert after[setting] == value, setting
