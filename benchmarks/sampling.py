"""Effective draws a second, against NumPyro's NUTS on the same density, in one run.

    python -m benchmarks.sampling [logistic] [hinge] [insensitive] [float64] [float32]
    python -m benchmarks.sampling rates [float64] [float32]
    python -m benchmarks.sampling shapes [none] [rates]
    python -m benchmarks.sampling words [books] [kitchen] [films] [imdb] [topics] [few] [none] [fixed] [shared] [each]
                                        [learnt] [nuts] [300] [150]

Steady state: both samplers are compiled and warmed up, then two lengths are timed and their difference counts, so that
compilation and NumPyro's tracing at each call drop out; results are waited for. The figure is the smallest bulk
effective sample size over all weights, the intercept and the rates, per second, median of three seeds, seeds
interleaved between the samplers.

``shapes`` are 240 rows of five columns with a scale or a dispersion that is learnt, without noise by ``bd.HMC()`` and
with learnt rates by ``bd.Gibbs()``, against NUTS on the density with all masks summed: effective draws of the slowest
number, the logarithm of what is learnt included, per second of processor time, one seed, single precision.

``words`` are posteriors of 5,000 words given 2,000 reviews: the time of a whole call, compilation included, and what it
draws; a number is that of the draws of a chain, a second one of its warm-up. ``imdb``, if named, are 27,273 words given
25,000 reviews, ``films`` the 3,000 commonest of them given 8,000, no noise unless named: ``fixed`` is a rate of 0.3;
``topics``, if named, the five commonest topics of Reuters-21578 by softmax regression, 1,000 texts and the 2,000
commonest words, and ``few`` 500 and 600 of them. ``learnt`` takes a scale of the weights that is learnt, of which there
is a line then. GB is the most memory that the process had, ``expected`` the median of the largest R-hat of independent
chains with these effective sample sizes. ``nuts`` compares the steady state with NumPyro's NUTS on the dense matrix of
those without noise.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from resource import RUSAGE_SELF, getrusage
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import bayesdrop as bd
from bayesdrop._arviz import arviz
from bayesdrop.data.dataset import as_dataset
from bayesdrop.models import count_laws, counts, logistic, normal_scores, ridge, svm, svr
from bayesdrop.models.masks import observe_summed
from bayesdrop.models.scales import sample_linear
from bayesdrop.sampling.run.driving import CHUNK, driver_of
from bayesdrop.sampling.run.runner import as_key, run
from benchmarks.data import amazon, imdb
from benchmarks.texts import reuters

CHAINS, SEEDS = 4, (0, 1, 2)
RECORDED = ("weight", "intercept", "rate", "sigma", "dispersion", "log_sigma", "log_dispersion")


def breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), np.where(y == 1, 1.0, -1.0)


def synthetic(n: int = 20_000, p: int = 100) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, p))
    score = X @ generator.normal(size=p) / np.sqrt(p) * 2
    return X, np.where(generator.random(n) < 1 / (1 + np.exp(-score)), 1.0, -1.0)


def real_target(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    generator = np.random.default_rng(1)
    return y + 0.5 * X[:, 0] + 0.3 * generator.normal(size=len(y))


def least_ess(draws: dict[str, np.ndarray]) -> float:
    """Smallest bulk ESS over everything; ``draws`` (chains, draws, …)."""
    ess = arviz().ess
    sizes = []
    for value in draws.values():
        flat = np.asarray(value, dtype=float).reshape(*np.shape(value)[:2], -1)
        sizes += [float(ess(flat[:, :, j])) for j in range(flat.shape[2])]
    return min(sizes)


Sampler = Callable[[int], tuple[dict[str, np.ndarray], float]]


def ours(model: bd.Model, method: Any, X: Any, y: Any, marginalised: bool, seed: int, tune: int = 500) -> Sampler:
    data = as_dataset(X, y, binary=model.loss.binary)
    kernel, operands = method.bind(model, data, model.bind(data.feature_names), tune, marginalised=marginalised)

    def draw(count: int) -> tuple[dict[str, np.ndarray], float]:
        warm = run(kernel, operands, as_key(seed), tune=tune - 1, draws=1, chains=CHAINS, progress=False)
        driver, state, parts = driver_of(kernel, operands), warm.state, []
        start = time.perf_counter()
        for _ in range(count // CHUNK):
            state, record = driver.chunk(state, CHUNK)
            parts.append({k: v for k, v in record.items() if k in RECORDED})
        seconds = time.perf_counter() - start
        return {k: np.swapaxes(np.concatenate([part[k] for part in parts]), 0, 1) for k in parts[0]}, seconds

    return draw


def nuts(program: Any, arguments: dict[str, Any], seed: int, tune: int = 500) -> Sampler:
    kernel = NUTS(program)
    warm = MCMC(
        kernel, num_warmup=tune, num_samples=1, num_chains=CHAINS, chain_method="vectorized", progress_bar=False
    )
    warm.warmup(jax.random.key(seed), **arguments)
    state = warm.post_warmup_state

    def draw(count: int) -> tuple[dict[str, np.ndarray], float]:
        mcmc = MCMC(
            kernel, num_warmup=tune, num_samples=count, num_chains=CHAINS, chain_method="vectorized",
            progress_bar=False,
        )  # fmt: skip
        mcmc.post_warmup_state = state
        start = time.perf_counter()
        mcmc.run(state.rng_key, **arguments)
        samples = mcmc.get_samples(group_by_chain=True)
        jax.block_until_ready((samples, mcmc.last_state))
        seconds = time.perf_counter() - start
        return {k: np.asarray(v) for k, v in samples.items() if k in RECORDED}, seconds

    return draw


def per_second(sampler: Sampler, short: int, long: int) -> tuple[float, float, float]:
    """(ESS a second, ESS share of the draws, milliseconds a draw) in the steady state."""
    sampler(short)  # compilation
    _, first = sampler(short)
    draws, second = sampler(long)
    per_draw = max(second - first, 1e-9) / (long - short)
    share = least_ess(draws) / (CHAINS * long)
    return share * CHAINS / per_draw, share, 1e3 * per_draw


def compare(name: str, our: Callable[[int], Sampler], peer: Callable[[int], Sampler], sizes: Any) -> None:
    (our_short, our_long), (peer_short, peer_long) = sizes
    ratios, mine, theirs = [], [], []
    for seed in SEEDS:
        a, b = per_second(our(seed), our_short, our_long), per_second(peer(seed), peer_short, peer_long)
        mine.append(a)
        theirs.append(b)
        ratios.append(a[0] / b[0])
    cells = [
        f"{np.median([r[0] for r in rows]):,.0f} ({100 * np.median([r[1] for r in rows]):.0f} %, "
        f"{np.median([r[2] for r in rows]):.2f} ms)"
        for rows in (mine, theirs)
    ]
    print(f"| {name} | {cells[0]} | {cells[1]} | {np.median(ratios):.1f} |", flush=True)


def plain(dtype: str, chosen: list[str]) -> None:
    for label, (X, y), sizes in (
        ("breast cancer", breast_cancer(), ((1000, 5000), (500, 2000))),
        ("20,000 × 100", synthetic(), ((200, 1200), (50, 250))),
    ):
        for name, loss, response, program in (
            ("logistic", bd.Logistic(), y, logistic.program),
            ("hinge", bd.Hinge(), y, svm.program),
            ("insensitive", bd.EpsilonInsensitive(), real_target(X, y), svr.program),
        ):
            if chosen and name not in chosen:
                continue
            # Trees differ in depth where a loss has kinks: the difference of two lengths needs more draws.
            lengths = (sizes[0], (50, 350)) if len(X) > 10_000 and name != "logistic" else sizes
            model, method = bd.Model(loss, rates=bd.Fixed(0.0)), bd.HMC(dtype=dtype)
            coded = response > 0 if model.loss.binary else response
            arguments = {"X": jnp.asarray(X, dtype), "y": jnp.asarray(coded, dtype), "intercept_scale": None}
            compare(
                f"{name}, {label}",
                partial(ours, model, method, X, response, True),
                partial(nuts, program, arguments),
                lengths,
            )


def rates(dtype: str) -> None:
    X, y = breast_cancer()
    for name, loss, likelihood in (
        ("logistic", bd.Logistic(), normal_scores.logistic),
        ("hinge", bd.Hinge(), normal_scores.hinge),
    ):
        coded = jnp.asarray(y > 0, dtype)
        arguments = {"X": jnp.asarray(X, dtype), "y": coded, "log_likelihood": likelihood, "intercept_scale": None}
        compare(
            f"{name}, rates per feature, breast cancer",
            partial(ours, bd.Model(loss), bd.HMC(dtype=dtype, correct=False), X, y, False),
            partial(nuts, normal_scores.program, arguments),
            ((400, 1600), (100, 400)),
        )


def with_masks(X: Any, y: Any, counted: bool) -> None:
    """NumPyro's program of numbers or counts with learnt rates and a learnt scale or dispersion, masks summed."""
    rate = numpyro.sample("rate", dist.Beta(1.0, 1.0).expand([X.shape[1]]).to_event(1))
    weight, intercept = sample_linear(X.shape[1], 1.0, None)
    law = count_laws.overdispersed().response if counted else None
    sigma = None if counted else numpyro.sample("sigma", dist.HalfNormal(1.0))
    observe_summed(X, y, weight, intercept, rate, lambda s, _: law(s) if law else dist.Normal(s, sigma), 1.0)


def shapes(chosen: list[str]) -> None:
    """Effective draws per second of processor time."""
    generator = np.random.default_rng(31)
    X = generator.normal(size=(240, 5))
    score = (X * (generator.random(X.shape) > [0.1, 0.3, 0.0, 0.2, 0.5])) @ [1.0, -0.8, 0.5, 0.0, 0.7] + 0.3
    numbers = score + 0.6 * generator.normal(size=len(X))
    counted = generator.poisson(np.exp(score) * generator.gamma(2.0, size=len(X)))
    print("| what | rates | sampler | bayesdrop, ESS a CPU second (ESS a draw) | NUTS (ESS a draw) | ratio |")
    print("|---|---|---|---|---|---|")
    for with_rates in [kind == "rates" for kind in ("none", "rates") if kind in chosen or len(chosen) == 1]:
        for name, loss, y in (
            ("learnt sigma", bd.Squared(), numbers / numbers.std()),
            ("learnt dispersion", bd.NegativeBinomial(), 1.0 * counted),
        ):
            arguments = {"X": jnp.asarray(X, "float32"), "y": jnp.asarray(y, "float32")}
            law, options = name == "learnt dispersion", {"intercept_scale": None}
            program: Any = with_masks if with_rates else counts.program if law else ridge.program
            options |= {"law": count_laws.overdispersed} if law else {"sigma": dist.HalfNormal(1.0)}
            arguments |= {"counted": law} if with_rates else options
            method: Any = bd.Gibbs() if with_rates else bd.HMC()
            model = bd.Model(loss, bd.Dropout(centre=None), bd.PerFeature() if with_rates else bd.Fixed(0.0))
            cells, found = [], []
            for sampler, (short, long) in (
                (ours(model, method, X, y, not with_rates, 0), (1000, 5000)),
                (nuts(program, arguments, 0), (50, 250) if with_rates else (500, 2500)),
            ):
                sampler(short)  # compilation
                marks = [time.process_time()]
                sampler(short)
                marks.append(time.process_time())
                draws, _ = sampler(long)
                seconds = time.process_time() - marks[1] - (marks[1] - marks[0])
                draws = {k: np.log(v) if k in ("sigma", "dispersion") else v for k, v in draws.items()}
                share = least_ess(draws) / (CHAINS * long)
                found.append(share * CHAINS * (long - short) / seconds)
                cells.append(f"{found[-1]:,.0f} ({100 * share:.0f} %)")
            kind = "per feature" if with_rates else "none"
            print(
                f"| {name} | {kind} | {type(method).__name__} | {cells[0]} | {cells[1]} | {found[0] / found[1]:.1f} |",
                flush=True,
            )


WORD_NAMES = ("weight", "intercept", "logit_rate", "log_weight_scale")
WORDS = {"none": bd.Fixed(0.0), "fixed": bd.Fixed(0.3), "shared": bd.Shared(), "each": bd.PerFeature()}
LABELS = {"each": "per feature"}
TOPICS = {"topics": (1000, 2000), "few": (500, 600)}


def quality(draws: dict[str, np.ndarray]) -> tuple[float, float, float, float]:
    """Smallest and middle bulk ESS, largest R-hat and what chains that agree are expected to have, of these ESS.

    Of weights, intercept and rates; ``draws`` (chains, draws, …).
    """
    flat = [np.asarray(draws[k], float).reshape(*np.shape(draws[k])[:2], -1) for k in WORD_NAMES if k in draws]
    both = np.concatenate(flat, axis=2)
    found = [(float(arviz().ess(both[..., j])), float(arviz().rhat(both[..., j]))) for j in range(both.shape[2])]
    ess, rhat = np.array(found).T
    chains, count = both.shape[:2]
    # Chains that forget so slowly have no law; they count as if they forgot a little sooner.
    expected = bd.largest_r_hat(np.maximum(ess, 4 * chains + 1), chains=chains, draws=count, probability=0.5)
    return float(ess.min()), float(np.median(ess)), float(rhat.max()), expected


def reviews(domain: str) -> tuple[Any, np.ndarray]:
    """Words, of films those of five reviews or more, and labels."""
    if domain in TOPICS:
        texts, words = TOPICS[domain]
        X, y, _ = reuters()
        rows = np.flatnonzero(np.isin(y, np.argsort(-np.bincount(y))[:5]))
        rows = np.random.default_rng(0).permutation(rows)[:texts]
        common = np.argsort(-np.asarray((X[rows] > 0).sum(axis=0)).ravel())[:words]
        return np.log1p(X[rows][:, common]), y[rows]
    if domain == "films":
        X, y = imdb(least=5)
        rows = np.random.default_rng(0).permutation(len(y))[:8000]
        common = np.argsort(-np.asarray(X[rows].sum(axis=0)).ravel(), kind="stable")[:3000]
        return X[rows][:, common], y[rows]
    return imdb(least=5) if domain == "imdb" else amazon(domain, "train")


def words(chosen: list[str], tune: int = 150, draws: int = 700) -> None:
    """The time of a whole call, and what it draws."""
    method = bd.HMC()
    print(
        "| data | rates | draws a chain | seconds | CPU seconds | GB | leapfrog steps | smallest ESS | median ESS | "
        "largest R-hat | expected | ESS/s | accepted |"
    )
    print("|" + 13 * "---|")
    domains = [domain for domain in ("books", "kitchen", "films", "imdb", *TOPICS) if domain in chosen]
    for domain in domains or ["books", "kitchen"]:
        topics, plain = domain in TOPICS, domain in ("films", "imdb")
        (X, y), kinds = reviews(domain), ["none"] if plain else ["none", "shared", "each"]
        kinds = ["none", "fixed"] if topics else kinds
        for name in [kind for kind in WORDS if kind in chosen] or kinds:
            prior = bd.Normal(bd.HalfNormal(1.0)) if "learnt" in chosen else bd.Normal(1.0)
            model = bd.Model(bd.Softmax() if topics else bd.Logistic(), rates=WORDS[name], weight_prior=prior)
            start, cpu = time.perf_counter(), time.process_time()
            data = as_dataset(X, y, binary=not topics, multiclass=topics).with_weight()
            rate_map = model.bind(data.feature_names)
            kernel, operands = method.bind(model, data, rate_map, tune, marginalised=topics or name == "none")
            found = run(kernel, operands, as_key(0), tune=tune, draws=draws, chains=CHAINS, progress=False)
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            memory = getrusage(RUSAGE_SELF).ru_maxrss / 2**20
            least, middle, rhat, expected = quality(found.draws)
            steps, accepted = int(found.draws["n_steps"][0, -1]), float(np.mean(found.draws["acceptance_rate"]))
            print(
                f"| {domain} | {LABELS.get(name, name)} | {draws} | {seconds:.0f} | {cpu:.0f} | {memory:.1f} | {steps} "
                f"| {least:.0f} | {middle:.0f} | {rhat:.4f} | {expected:.4f} | {least / seconds:.1f} "
                f"| {accepted:.2f} |",
                flush=True,
            )
            if "learnt" in chosen:
                log_scale = found.draws["log_weight_scale"]
                size, _, rhat, _ = quality({"log_weight_scale": log_scale})
                print(f"scale: mean {np.exp(log_scale).mean():.3f}, ESS {size:.0f}, R-hat {rhat:.4f}")


def words_by_nuts(domain: str, tune: int = 80, draws: int = 40) -> None:
    """Steady state without noise, beside NumPyro's NUTS on the dense matrix: least ESS a second."""
    X, y = amazon(domain, "train")
    dense, coded = jnp.asarray(X.toarray(), "float32"), jnp.asarray(y > 0, "float32")
    mcmc = MCMC(
        NUTS(logistic.program), num_warmup=tune, num_samples=draws, num_chains=CHAINS, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    arguments: dict[str, Any] = {"X": dense, "y": coded, "intercept_scale": None}
    mcmc.warmup(jax.random.key(0), **arguments)
    jax.block_until_ready(mcmc.post_warmup_state)
    begun = time.perf_counter(), time.process_time()
    mcmc.run(mcmc.post_warmup_state.rng_key, extra_fields=("num_steps",), **arguments)
    peer = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    theirs = time.perf_counter() - begun[0], time.process_time() - begun[1]
    steps = np.mean(mcmc.get_extra_fields()["num_steps"])
    sampler = ours(bd.Model(rates=bd.Fixed(0.0)), bd.HMC(), X, y, True, 0, tune)
    sampler(CHUNK)  # compilation
    # The warm-up that a call begins with is taken off by a short one.
    marks = [time.process_time()]
    short = sampler(CHUNK)[1]
    marks.append(time.process_time())
    found, long = sampler(700 // CHUNK * CHUNK)
    marks.append(time.process_time())
    count = 700 // CHUNK * CHUNK - CHUNK
    own = long - short, (marks[2] - marks[1]) - (marks[1] - marks[0])
    own_share, peer_share = least_ess(found) / (count + CHUNK), least_ess(peer) / draws
    print("| data | sampler | ESS a draw | ms a draw of four chains | CPU ms | ESS a second | a CPU second |")
    print("|---|---|---|---|---|---|---|")
    for name, share, number, (wall, cpu) in (
        ("bd.HMC()", own_share, count, own), (f"NUTS, {steps:.0f} steps", peer_share, draws, theirs)
    ):  # fmt: skip
        print(
            f"| {domain} | {name} | {100 * share / CHAINS:.0f} % | {1e3 * wall / number:.0f} "
            f"| {1e3 * cpu / number:.0f} | {share * number / wall:.1f} | {share * number / cpu:.1f} |",
            flush=True,
        )


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)
    chosen = sys.argv[1:]
    if "shapes" in chosen:
        shapes(chosen)
        return
    if "words" in chosen:
        if "nuts" in chosen:
            words_by_nuts("kitchen" if "kitchen" in chosen else "books")
        else:
            numbers = [int(part) for part in chosen if part.isdigit()]
            words(chosen, **dict(zip(("draws", "tune"), numbers, strict=False)))
        return
    losses = [name for name in chosen if name in ("logistic", "hinge", "insensitive")]
    for dtype in [name for name in ("float64", "float32") if name in chosen] or ["float64", "float32"]:
        print(f"\n{dtype}\n\n| what | `bd.HMC()` | NUTS | ratio |\n|---|---|---|---|")
        with jax.enable_x64(dtype == "float64"):
            if "rates" not in chosen:
                plain(dtype, losses)
            if not losses:
                rates(dtype)


if __name__ == "__main__":
    main()
