"""A process that was forked from one that had sampled is told so; before, it waited for ever."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
import arviz  # with what it imports: a child would do so again
import numpy as np
import bayesdrop as bd

X = np.random.default_rng(0).normal(size=(20, 2))
# The quickest to compile.
model, squared = bd.Model(rates=bd.Fixed(0.0)), bd.Model(bd.Squared(variance=1.0), rates=bd.Fixed(0.0))


def draw():
    return bd.sample(squared, X, X.sum(axis=1), draws=10, tune=10, chains=2, progress=False)


def in_a_child(work):
    if (child := os.fork()) == 0:
        try:
            work()
            print("drawn", flush=True)
        except RuntimeError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)


in_a_child(draw)
draw()
in_a_child(draw)
in_a_child(lambda: bd.sample_factorization(np.eye(4), n_components=1, draws=4, tune=4, chains=1, progress=False))
in_a_child(lambda: bd.sample_latent(model, X, X[:, 0] > 0, draws=4, tune=4, chains=1, progress=False))
in_a_child(lambda: bd.fit(model, X, X[:, 0] > 0))
draw()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_refuses_to_sample():
    """Unless it was forked before the first sample; fits need no threads of JAX."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=True
    )
    first, *refused, fitted = done.stdout.splitlines()
    assert first == fitted == "drawn"
    assert len(refused) == 3
    assert all("this process was forked" in line and 'get_context("spawn")' in line for line in refused)
