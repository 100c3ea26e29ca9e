"""Many classes: digits 0 to 4 with a rate for every pixel, without masks beside NumPyro's NUTS, and learnt rates.

``python -m benchmarks.many_classes`` runs its parts, ``masks``, ``plain`` and ``learnt``, each in a process of its own,
so that a time has all of its compilation.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings

import arviz as az
import numpy as np
import xarray as xr
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import bayesdrop as bd

__all__ = ["digits", "main"]

ROWS, K, CHAINS = 900, 5, 4


def digits() -> tuple[np.ndarray, np.ndarray]:
    """The first 900 digits from 0 to 4: pixels in [0, 1] (900, 64) and labels."""
    X, y = load_digits(n_class=K, return_X_y=True)
    return X[:ROWS] / 16, y[:ROWS]


def summary(posterior: xr.Dataset, names: list[str]) -> dict[str, tuple[float, float]]:
    """Largest R-hat and smallest bulk effective sample size of each variable; pixels that never vary have none."""
    chosen = posterior[names]
    r_hat, size = az.rhat(chosen), az.ess(chosen)
    return {name: (float(np.nanmax(r_hat[name])), float(np.nanmin(size[name]))) for name in names}


def line(what: str, wall: float, cpu: float, found: dict[str, tuple[float, float]]) -> None:
    """One row of a table."""
    cells = " | ".join(f"{r_hat:.4f} | {size:,.0f}" for r_hat, size in found.values())
    least = min(size for _, size in found.values())
    print(f"| {what} | {wall:.0f} | {cpu:.0f} | {cells} | {least / cpu:.1f} |", flush=True)


def timed(model: bd.Model, **options: object) -> tuple[xr.Dataset, float, float]:
    """Draws of ``bd.sample`` with wall and processor time, compilation included."""
    X, y = digits()
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        post = bd.sample(model, X, y, chains=CHAINS, progress=False, **options)
    return bd.groups.dataset(post, "posterior"), time.perf_counter() - wall, time.process_time() - cpu


def masks() -> None:
    """Rates per feature, exact Gibbs sampling."""
    print("| | wall, s | CPU, s | R-hat weight | ESS | R-hat rate | ESS | least ESS a CPU second |")
    print("|---|---|---|---|---|---|---|---|")
    posterior, wall, cpu = timed(bd.Model(bd.Softmax()), draws=1500)
    line("rates per feature, 4 × 1,500 draws", wall, cpu, summary(posterior, ["weight", "rate"]))


def plain() -> None:
    """Without masks: HMC beside NumPyro's NUTS on the same posterior."""
    print("\n| | wall, s | CPU, s | R-hat weight | ESS | R-hat intercept | ESS | least ESS a CPU second |")
    print("|---|---|---|---|---|---|---|---|")
    posterior, wall, cpu = timed(bd.Model(bd.Softmax(), rates=bd.Fixed(0.0)))
    line("bd.HMC, 4 × 1,000 draws", wall, cpu, summary(posterior, ["weight", "intercept"]))
    posterior, wall, cpu = nuts()
    line("NumPyro NUTS, 4 × 500 draws after 500", wall, cpu, summary(posterior, ["weight", "intercept"]))


def nuts() -> tuple[xr.Dataset, float, float]:
    """The same posterior by NumPyro: flat contrasts of the intercepts, normal weights of all classes, then centred."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    X, y = (jnp.asarray(part) for part in digits())

    def program() -> None:
        weight = numpyro.sample("weight", dist.Normal(0, 1).expand((X.shape[1], K)).to_event(2))
        rise = numpyro.sample("intercept", dist.ImproperUniform(dist.constraints.real_vector, (), (K - 1,)))
        score = X @ weight + jnp.append(rise, 0.0)
        numpyro.sample("y", dist.Categorical(logits=score), obs=y)

    wall, cpu = time.perf_counter(), time.process_time()
    mcmc = MCMC(
        NUTS(program), num_warmup=500, num_samples=500, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(0))
    drawn = {name: np.asarray(value) for name, value in mcmc.get_samples(group_by_chain=True).items()}
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    weight = drawn["weight"] - drawn["weight"].mean(axis=3, keepdims=True)
    rise = np.concatenate([drawn["intercept"], np.zeros((CHAINS, 500, 1))], axis=2)
    variables = {
        "weight": (("chain", "draw", "feature", "class"), weight),
        "intercept": (("chain", "draw", "class"), rise - rise.mean(axis=2, keepdims=True)),
    }
    return xr.Dataset(variables), wall, cpu


def learnt() -> None:
    """Point fits of all ten digits: one softmax, its rates fixed or learnt, beside one class against the rest."""
    X, y = load_digits(return_X_y=True)
    print("\n| fit | CPU, s | error, % | log loss |\n|---|---|---|---|")
    for rates in (bd.Fixed(0.1), bd.Fixed(0.5), bd.PerFeature()):
        for multiclass in ("softmax", "one_vs_rest"):
            model, cpu = bd.DropoutLogisticRegression(rates, multiclass=multiclass), time.process_time()
            chance = cross_val_predict(model, X / 16, y, cv=StratifiedKFold(5), method="predict_proba")
            error = 100 * np.mean(chance.argmax(axis=1) != y)
            cells = f"| {multiclass}, {rates!r} | {time.process_time() - cpu:.1f} | {error:.2f} "
            print(cells + f"| {log_loss(y, chance):.4f} |", flush=True)


def main() -> None:
    """Run all parts, or the one that is named."""
    parts = {"masks": masks, "plain": plain, "learnt": learnt}
    for name in sys.argv[1:] or parts:
        if len(sys.argv) > 1:
            parts[name]()
        else:
            subprocess.run([sys.executable, "-m", "benchmarks.many_classes", name], check=True)


if __name__ == "__main__":
    main()
