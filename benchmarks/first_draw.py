"""Seconds from starting Python to the first kept draw on breast cancer, without and with the cache of what is compiled.

``python -m benchmarks.first_draw``
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import bayesdrop as bd
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
bd.sample({model}, X, y, draws=1, tune={tune}, method={method}, progress=False)
"""

CASES = (
    ("plain logistic, HMC, 500 of warm-up", "bd.Model(rates=bd.Fixed(0.0))", 500, "bd.HMC()"),
    ("rates, HMC (approximate), 500 of warm-up", "bd.Model()", 500, "bd.HMC()"),
    ("rates, Gibbs, 100 of warm-up", "bd.Model()", 100, "bd.Gibbs()"),
    ("rates, Gibbs, 300 of warm-up (the default)", "bd.Model()", None, "bd.Gibbs()"),
    ("rates, Gibbs, 1,000 of warm-up", "bd.Model()", 1000, "bd.Gibbs()"),
)


def seconds(program: str, cache: str | None) -> float:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
    environment["BAYESDROP_CACHE"] = "0" if cache is None else cache
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    print("| what | cold, s | cached, s |")
    print("|---|---|---|")
    for name, model, tune, method in CASES:
        program = PROGRAM.format(model=model, tune=tune, method=method)
        with tempfile.TemporaryDirectory() as cache:
            cold = seconds(program, None)
            seconds(program, cache)
            print(f"| {name} | {cold:.1f} | {seconds(program, cache):.1f} |", flush=True)


if __name__ == "__main__":
    main()
