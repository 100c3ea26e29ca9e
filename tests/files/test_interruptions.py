"""An interruption at any moment leaves whole files, a checkpoint that goes on, and a library that works."""

import subprocess
import sys

import pytest

# SIGINT at moments drawn with a fixed seed, in a process of its own; the first ones come while libraries are imported.
PROGRAM = """
import os, pathlib, random, signal, sys, tempfile, threading, time, warnings
import numpy as np
import jax, bayesdrop as bd

warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background processes ignore
chance, rounds = random.Random(int(sys.argv[1])), int(sys.argv[2])
X = np.random.default_rng(0).normal(size=(40, 3))
y = X[:, 0] + np.random.default_rng(1).normal(size=40) > 0
model = bd.Model(rates=bd.Fixed(0.0))
options = {"draws": 40, "tune": 20, "chains": 2, "progress": False}
settings = ("jax_compilation_cache_dir", "jax_compilation_cache_max_size", "jax_enable_x64")

def after():
    return [getattr(jax.config, name) for name in settings], signal.getsignal(signal.SIGINT), list(warnings.filters)


def interrupted(work, seconds):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    try:
        try:
            timer.start()  # within, for the moment may come before it returns
            work()
        finally:
            timer.cancel()
            timer.join()
            time.sleep(0.01)
    except KeyboardInterrupt:
        return 1
    return 0


fit, came = bd.fit(model, X, y), 0
came += interrupted(lambda: fit.save(tempfile.mkdtemp() + "/fit.nc"), 0.05)
came += interrupted(lambda: bd.sample(model, X, y, **options), 0.3)
post = bd.sample(model, X, y, **options)
whole = bd.groups.dataset(post, "posterior")
bd.log_likelihood(post, X, y, path=tempfile.mkdtemp() + "/likelihood.nc")  # libraries add filters as they are imported
before = after()
for _ in range(rounds):
    folder = pathlib.Path(tempfile.mkdtemp())
    works = {
        "fit": lambda: bd.fit(model, X, y),
        "sample": lambda: bd.sample(model, X, y, checkpoint=folder / "run", **options),
        "save": lambda: [fit.save(folder / "fit.nc") for _ in range(20)],
        "groups": lambda: [bd.groups.save(post, folder / "posterior.nc") for _ in range(5)],
        "likelihood": lambda: bd.log_likelihood(post, X, y, path=folder / "likelihood.nc"),
    }
    kind = chance.choice(sorted(works))
    came += interrupted(works[kind], chance.random() * chance.choice([0.01, 0.1, 0.5]))
    assert after() == before, kind
    files = {path.name for path in folder.iterdir()}
    assert files <= {"run", "fit.nc", "posterior.nc", "likelihood.nc"}, files
    if "fit.nc" in files:
        assert np.array_equal(bd.Fit.load(folder / "fit.nc").weight, fit.weight)
    if "posterior.nc" in files:
        bd.groups.load(folder / "posterior.nc")
    if "likelihood.nc" in files:
        bd.log_likelihood(post, path=folder / "likelihood.nc")
    if kind == "sample":
        again = bd.groups.dataset(bd.sample(model, X, y, checkpoint=folder / "run", **options), "posterior")
        assert all(np.array_equal(again[name], whole[name]) for name in whole)
    assert np.array_equal(bd.fit(model, X, y).weight, fit.weight)
assert came > rounds // 5, came
print("alive")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_interrupted_at_any_moment():
    call = [sys.executable, "-W", "ignore", "-c", PROGRAM, "1", "200"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-3000:]
