"""Many classes: digits 0 to 4 with a rate for every pixel, without masks beside NumPyro's NUTS, and learnt rates.

``python -m benchmarks.many_classes`` runs its parts, ``masks``, ``plain``, ``learnt``, ``rest``, ``joint``, ``search``
and ``posterior``, each a process of its own, so that a time has all of its compilation.
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

import bayesdrop as bd
from benchmarks.peers.scores import paired
from benchmarks.texts import newsgroups, reuters, words

__all__ = ["digits", "main"]

ROWS, K, CHAINS, SPLITS = 900, 5, 4, 10


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


def predicted(model: bd.Model, X: Any, y: np.ndarray, test: Any) -> np.ndarray:
    """Class probabilities of new rows by a point fit, averaged over the masks as by ``bd.predict``."""
    return bd.predict(bd.fit(model, X, y, method=bd.Newton(tol=1e-4)), test).mean


def rest() -> None:
    """Learnt rates of a softmax beside those of one class against the rest, in random halves.

    All ten digits, and 1,500 rows of the ten largest topics of Reuters-21578 as log(1 + count) of words in ten or more.
    ``C`` is that of least log loss in a fifth of the training half; differences are paired by split.
    """
    digits_X, digits_y = load_digits(return_X_y=True)
    counts, topic, _ = reuters()
    chosen = np.flatnonzero(np.isin(topic, np.argsort(-np.bincount(topic))[:10]))
    chosen = np.random.default_rng(0).permutation(chosen)[:1500]
    counts = sparse.csr_array(counts[chosen])
    counts = sparse.csr_array(counts[:, np.bincount(counts.indices, minlength=counts.shape[1]) >= 10])
    counts.data = np.log1p(counts.data)
    methods = {
        "one against the rest": lambda C, X, y, test: (
            bd.DropoutLogisticRegression(bd.PerFeature(), C=C, multiclass="one_vs_rest", tol=1e-4)
            .fit(X, y)
            .predict_proba(test)
        ),
        "softmax": lambda C, X, y, test: predicted(bd.Model(bd.Softmax(), C=C), X, y, test),
    }
    print("\n| data | learnt rates | error, % | difference | log loss | difference |\n|---|---|---|---|---|---|")
    for data, X, y in (("digits", digits_X / 16, digits_y), ("Reuters-21578", counts, topic[chosen])):
        found = {name: np.array([one_split(method, X, y, seed) for seed in range(SPLITS)])
                 for name, method in methods.items()}  # fmt: skip
        first = found["one against the rest"]
        for name, values in found.items():
            cells = [f"{values[:, 0].mean():.2f}", "", f"{values[:, 1].mean():.4f}", ""]
            if values is not first:
                gap = values - first
                error = gap.std(axis=0, ddof=1) / np.sqrt(SPLITS)
                cells[1::2] = f"{gap[:, 0].mean():+.2f} ± {error[0]:.2f}", f"{gap[:, 1].mean():+.4f} ± {error[1]:.4f}"
            print(f"| {data} | {name} | {' | '.join(cells)} |", flush=True)


def one_split(method: Callable[..., np.ndarray], X: Any, y: np.ndarray, seed: int) -> tuple[float, float]:
    """Error in per cent and log loss on one half of the rows, fitted to the other."""
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.array_split(order, 2)
    held, kept = train[: len(train) // 5], train[len(train) // 5 :]
    labels = np.unique(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = [log_loss(y[held], method(C, X[kept], y[kept], X[held]), labels=labels) for C in (0.3, 1.0, 3.0)]
        chance = method((0.3, 1.0, 3.0)[int(np.argmin(losses))], X[train], y[train], X[test])
    return 100 * float(np.mean(labels[chance.argmax(axis=1)] != y[test])), float(
        log_loss(y[test], chance, labels=labels)
    )


def joint() -> None:
    """Fit all topics of a third of the news jointly, at the rate 0.5 and with learnt rates, beside scikit-learn."""
    from sklearn.linear_model import LogisticRegression

    bd.DropoutLogisticRegression(0.5, multiclass="softmax").fit(sparse.eye_array(400).tocsr(), np.arange(400) % 7)
    texts, groups, _ = newsgroups(headers=False)
    counts, topic, _ = reuters()
    counts = counts.copy()
    counts.data = np.log1p(counts.data)
    print("| data | classes | fit | CPU, s | over LogisticRegression | accuracy, % |\n|---|---|---|---|---|---|")
    for data, X, y in (("Reuters-21578", counts, topic), ("20 Newsgroups", words(texts)[0], groups)):
        train, test, _ = np.array_split(np.random.default_rng(0).permutation(len(y)), 3)
        first = None
        for name, model in {
            "LogisticRegression()": LogisticRegression(max_iter=1000),
            "softmax, rate 0.5": bd.DropoutLogisticRegression(0.5, multiclass="softmax", tol=1e-4),
            "softmax, learnt rates": bd.DropoutLogisticRegression(bd.PerFeature(), multiclass="softmax", tol=1e-4),
            "one against the rest, learnt rates": bd.DropoutLogisticRegression(
                bd.PerFeature(), multiclass="one_vs_rest", tol=1e-4
            ),
        }.items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X[train], y[train])
            cpu = time.process_time() - start
            first = cpu if first is None else first
            cells = f"{len(np.unique(y[train]))} | {name} | {cpu:.1f} | {cpu / first:.1f}"
            print(f"| {data}, {len(train):,} × {X.shape[1]:,} | {cells} | {100 * model.score(X[test], y[test]):.2f} |")


def search() -> None:
    """Choose C and the strength of joint fits of three tables, beside cross-validated ridge, eight splits each."""
    from sklearn import datasets
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.preprocessing import StandardScaler

    options = {"l1_ratios": (0.0,), "use_legacy_attributes": False, "max_iter": 1000}
    methods = {
        "ridge logistic CV": lambda: LogisticRegressionCV(scoring="neg_log_loss", **options),
        "dropout logistic": bd.DropoutLogisticRegression,
        "dropout logistic CV": bd.DropoutLogisticRegressionCV,
    }
    print("| data | method | log loss | less ridge | CPU, s, median | most |\n|---|---|---|---|---|---|")
    for data in ("iris", "wine", "digits"):
        X, y = getattr(datasets, f"load_{data}")(return_X_y=True)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
        for number in range(9):
            # The first one is thrown away: it imports and compiles.
            way, part = divmod(max(number - 1, 0), 4)
            train, test = list(StratifiedKFold(4, shuffle=True, random_state=way).split(X, y))[part]
            scaler = StandardScaler().fit(X[train])
            for name, make in methods.items():
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    chance = make().fit(scaler.transform(X[train]), y[train]).predict_proba(scaler.transform(X[test]))
                found[name].append((log_loss(y[test], chance), time.process_time() - start))
        first = np.array(found["ridge logistic CV"])[1:, 0]
        for name, results in found.items():
            loss, cpu = np.array(results)[1:].T
            # Splits share rows (Nadeau & Bengio 2003): a correlation of a quarter.
            error = (loss - first).std(ddof=1) * np.sqrt(1 / 8 + 1 / 3)
            gap = f"{np.mean(loss - first):+.4f} ± {error:.4f}" if error > 0 else ""
            print(
                f"| {data} | {name} | {loss.mean():.4f} | {gap} | {np.median(cpu):.2f} | {cpu.max():.2f} |", flush=True
            )


def _loss_of(y: np.ndarray) -> Any:
    return bd.Softmax() if len(np.unique(y)) > 2 else bd.Logistic()


def posterior() -> None:
    """Posterior means by what ``sample`` draws by default, and by flat rates and unit-normal weights, beside ridge."""
    from sklearn import datasets
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.preprocessing import StandardScaler

    ridge: dict[str, Any] = {
        "scoring": "neg_log_loss",
        "l1_ratios": (0.0,),
        "use_legacy_attributes": False,
        "max_iter": 1000,
    }
    options: dict[str, Any] = {"draws": 250, "tune": 200, "chains": 4, "progress": False}
    methods = {
        "ridge logistic CV": lambda X, y, test: LogisticRegressionCV(**ridge).fit(X, y).predict_proba(test),
        "posterior, flat rates, unit-normal": lambda X, y, test: (
            bd.predict(bd.sample(bd.Model(_loss_of(y)), X, y, **options), test).mean
        ),
        "posterior, default": lambda X, y, test: (
            bd.predict(bd.DropoutLogisticRegression().sample(X, y, **options), test).mean
        ),
    }
    print("| data | method | log loss | less ridge | CPU, s |\n|---|---|---|---|---|")
    sets = {name: getattr(datasets, f"load_{name}")(return_X_y=True) for name in ("iris", "wine", "digits")}
    X, y = sets.pop("digits")
    sets["digits 0 to 4, 600 rows"] = X[y < K][:600], y[y < K][:600]
    sets["digits, odd or even, 600 rows"] = X[:600], y[:600] % 2
    for data, (X, y) in sets.items():
        splits = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))[:3]
        first = None
        for name, chances in methods.items():
            start, losses = time.process_time(), []
            for train, test in splits:
                scaler = StandardScaler().fit(X[train])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    chance = chances(scaler.transform(X[train]), y[train], scaler.transform(X[test]))
                losses.append(log_loss(y[test], chance))
            first = losses if first is None else first
            gap, error = paired(losses, first, 1 / 4)
            cells = f"{np.mean(losses):.4f} | {f'{gap:+.4f} ± {error:.4f}' if error > 0 else ''}"
            print(f"| {data} | {name} | {cells} | {(time.process_time() - start) / 3:.1f} |", flush=True)


def main() -> None:
    """Run all parts, or the one that is named."""
    parts: dict[str, Callable[[], None]] = {
        "masks": masks, "plain": plain, "learnt": learnt, "rest": rest, "joint": joint, "search": search,
        "posterior": posterior,
    }  # fmt: skip
    for name in sys.argv[1:] or parts:
        if len(sys.argv) > 1:
            parts[name]()
        else:
            subprocess.run([sys.executable, "-m", "benchmarks.many_classes", name], check=True)


if __name__ == "__main__":
    main()
