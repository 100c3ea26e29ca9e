"""Seconds from starting Python to the first fit and the first kept draw on breast cancer.

``python -m benchmarks.first_draw [WORD …]`` prints wall and processor seconds until the call returns, without and with
the cache of what is compiled, for all cases or those that have one of the words. The data are read from a file of
NumPy, so that scikit-learn, which a first fit or draw does not need, is not imported for their sake; what its import
takes is a row of its own. Bytecode is there, as it is where a package is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DATA = """
import warnings
warnings.simplefilter("ignore")
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
"""
PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import numpy as np
with np.load({path!r}) as data:
    X, y = data["X"], data["y"]
import bayesdrop as bd
{call}
"""
SAID = """
import os, time
now = os.times()
print(time.time() - float(os.environ["STARTED"]), now.user + now.system)
"""
SAMPLE = "bd.sample({model}, X, y, draws=1, tune={tune}, method={method}, progress=False)"

CASES = (
    ("plain logistic, HMC, 500 of warm-up", "bd.Model(rates=bd.Fixed(0.0))", 500, "bd.HMC()"),
    ("rates, HMC (approximate), 500 of warm-up", "bd.Model()", 500, "bd.HMC()"),
    ("rates, Gibbs, 100 of warm-up", "bd.Model()", 100, "bd.Gibbs()"),
    ("rates, Gibbs, 300 of warm-up (the default)", "bd.Model()", None, "bd.Gibbs()"),
    ("rates, Gibbs, 1,000 of warm-up", "bd.Model()", 1000, "bd.Gibbs()"),
)


def seconds(program: str, cache: str | None) -> str:
    """Wall and processor seconds until the end of a program, as text."""
    left_out = ("JAX_", "PYTHONDONTWRITEBYTECODE")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
    environment |= {"BAYESDROP_CACHE": "0" if cache is None else cache, "STARTED": repr(time.time())}
    command = [sys.executable, "-c", program + SAID]
    wall, cpu = map(float, subprocess.run(command, check=True, env=environment, capture_output=True).stdout.split())
    return f"{wall:.1f} ({cpu:.1f})"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        space: dict[str, np.ndarray] = {}
        exec(DATA, space)
        path = str(Path(folder) / "data.npz")
        np.savez(path, X=space["X"], y=space["y"])
        fit = PROGRAM.format(path=path, call="bd.fit(bd.Model(), X, y)")
        seconds(fit, None)  # bytecode
        print("| what | cold: wall (processor), s | cached |")
        print("|---|---|---|")
        print(f"| scikit-learn, its data and StandardScaler | {seconds(DATA, None)} | |")
        print(f"| `bd.fit` | {seconds(fit, None)} | |", flush=True)
        wanted = sys.argv[1:]
        for name, model, tune, method in CASES:
            if wanted and not any(word in name for word in wanted):
                continue
            call = SAMPLE.format(model=model, tune=tune, method=method)
            program = PROGRAM.format(path=path, call=call)
            with tempfile.TemporaryDirectory() as cache:
                cold = seconds(program, None)
                seconds(program, cache)
                print(f"| {name} | {cold} | {seconds(program, cache)} |", flush=True)


if __name__ == "__main__":
    main()
