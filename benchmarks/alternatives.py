"""What the closed forms replace: the papers' own algorithm, sampled corruption and a grid of rates.

``python -m benchmarks.alternatives``, on the Amazon books and kitchen reviews.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy import optimize

import bayesdrop as bd
from bayesdrop.baselines import ExplicitCorruption
from bayesdrop.designs import as_design
from bayesdrop.moments import ScoreMoments
from benchmarks.data import amazon
from benchmarks.linear import seconds

__all__ = ["em_by_lbfgs", "main"]


def em_by_lbfgs(X, y, loss, rate: float, C: float, best: float, tol: float = 1e-6) -> tuple[float, int]:
    """EM with L-BFGS M-steps (Chen, Zhu, Chen & Chen 2015) until within ``tol`` of ``best``: seconds and E-steps."""
    start = time.perf_counter()
    design, p = as_design(X), X.shape[1]
    sign = np.where(y > 0, 1.0, -1.0)[:, None]
    moments = ScoreMoments(design, bd.Dropout(), np.full((p, 1), rate))
    weight = np.full_like(sign, C)
    w = np.zeros((p + 1, 1))
    for step in range(2000):
        mean, var = moments.scores(w)
        energy = 0.5 * np.sum(w[:-1] ** 2) + C * loss.value(sign, mean, var).sum()
        if energy <= best * (1 + tol):
            return time.perf_counter() - start, step
        omega, kappa = loss.pseudo(sign, mean, var + 1e-12, weight)

        def both(flat, omega=omega, kappa=kappa):
            u = flat[:, None]
            m, v = moments.scores(u)
            value = 0.5 * np.sum(u[:-1] ** 2) + np.sum(0.5 * omega * (m * m + v) - kappa * m)
            gradient, _ = moments.adjoint(u, omega * m - kappa, 0.5 * omega)
            gradient[:-1] += u[:-1]
            return value, gradient[:, 0]

        w = optimize.minimize(both, w[:, 0], jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x[:, None]
    return time.perf_counter() - start, 2000


def papers() -> None:
    """Against EM with L-BFGS M-steps."""
    print("| data | loss | rate | ours, s | EM, s | E-steps | EM / ours |\n|---|---|---|---|---|---|---|")
    X, y = amazon("books", "train")
    for loss, kind in ((bd.Logistic(), bd.DropoutLogisticRegression), (bd.Hinge(), bd.DropoutSVC)):
        for rate in (0.1, 0.5, 0.9):
            best = kind(rate, tol=1e-11).fit(X, y).objective_trace_[-1]
            ours = seconds(lambda: kind(rate, tol=1e-6).fit(X, y))  # noqa: B023
            theirs, steps = em_by_lbfgs(X, y, loss, rate, 1.0, best)
            cells = f"| books | {type(loss).__name__} | {rate} | {ours:.3f} | {theirs:.2f} | {steps} "
            print(cells + f"| **{theirs / ours:.0f}** |", flush=True)


def corruption() -> None:
    """Against 256 sampled copies of the data, solved by the same Newton method (the hinge of the copies to 1e-3)."""
    print("\n| data | estimator | ours, s | 256 copies, s | ratio | test error, % | of the copies |")
    print("|---|---|---|---|---|---|---|")
    for domain in ("books", "kitchen"):
        X, y = amazon(domain, "train")
        X_test, y_test = amazon(domain, "test")
        for kind in (bd.DropoutLogisticRegression, bd.DropoutSVC):
            model = kind(0.5, C=0.1, tol=1e-6)
            ours = seconds(lambda: model.fit(X, y))  # noqa: B023
            # Kind to the copies: a plain hinge without noise is the hardest to solve to the end.
            loose = 1e-6 if kind is bd.DropoutLogisticRegression else 1e-3
            copies = ExplicitCorruption(kind(0.0, C=0.1, tol=loose), 0.5, copies=256, random_state=0)
            start = time.perf_counter()
            copies.fit(X, y)
            theirs = time.perf_counter() - start
            errors = [100 * (1 - m.score(X_test, y_test)) for m in (model, copies)]
            cells = f"| {domain} | {kind.__name__} | {ours:.3f} | {theirs:.1f} | **{theirs / ours:.0f}** "
            print(cells + f"| {errors[0]:.2f} | {errors[1]:.2f} |", flush=True)


def grid() -> None:
    """Learnt rates against the best of ten fixed rates by five-fold cross-validation, at one C."""
    print("\n| data | learnt, s | grid, s | ratio | test error learnt, % | grid, % | its rate |")
    print("|---|---|---|---|---|---|---|")
    for domain in ("books", "kitchen"):
        X, y = amazon(domain, "train")
        X_test, y_test = amazon(domain, "test")
        for kind, many in (
            (bd.DropoutLogisticRegression, bd.DropoutLogisticRegressionCV),
            (bd.DropoutSVC, bd.DropoutSVCCV),
        ):
            learnt = kind(bd.PerFeature(), C=0.1, tol=1e-6)
            ours = seconds(lambda: learnt.fit(X, y))  # noqa: B023
            search = many(rates=tuple(np.linspace(0.0, 0.9, 10)), Cs=(0.1,), cv=5, tol=1e-6)
            start = time.perf_counter()
            search.fit(X, y)
            theirs = time.perf_counter() - start
            errors = [100 * (1 - m.score(X_test, y_test)) for m in (learnt, search)]
            cells = f"| {domain}, {kind.__name__} | {ours:.3f} | {theirs:.2f} | **{theirs / ours:.0f}** "
            print(cells + f"| {errors[0]:.2f} | {errors[1]:.2f} | {search.best_rates_} |", flush=True)


def main() -> None:
    """Print the three tables."""
    warnings.simplefilter("ignore")
    papers()
    corruption()
    grid()


if __name__ == "__main__":
    main()
