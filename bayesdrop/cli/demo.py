"""The demonstration: bundled data, test errors with and without dropout, and the posterior of the rates.

Errors are counted by stratified cross-validation, so that every row is tested once by a fit that has not seen it;
features are standardised on the training rows. "Half missing" sets a random half of each test row to its mean, the
same half for every model.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from .report import Output, print_rates, print_sample, sample_quietly, write_fit, write_posterior
from .screen import console

__all__ = ["Problem", "compare", "problems", "run_demo"]

_SEED = 0


@dataclass(frozen=True)
class Problem:
    """A bundled two-class problem: features (n, p), labels (n,), names and what was done to the columns."""

    title: str
    X: np.ndarray
    y: np.ndarray
    feature_names: list[str]
    note: str

    @property
    def standardized(self) -> np.ndarray:
        """All rows, with mean 0 and standard deviation 1 in each column."""
        return np.asarray((self.X - self.X.mean(axis=0)) / self.X.std(axis=0))


def problems() -> list[Problem]:
    """The breast-cancer data, and the digits 3 and 8, of scikit-learn."""
    from sklearn.datasets import load_breast_cancer, load_digits

    cancer = load_breast_cancer()
    digits = load_digits()
    chosen = np.isin(digits.target, (3, 8))
    pixels, labels = digits.data[chosen], digits.target[chosen]
    varies = pixels.std(axis=0) > 0
    names = [f"row {d // 8} column {d % 8}" for d in range(64)]
    return [
        Problem(
            "Breast cancer: malignant or benign",
            cancer.data,
            cancer.target_names[cancer.target],
            [str(name) for name in cancer.feature_names],
            "30 measurements of cell nuclei",
        ),
        Problem(
            "Handwritten digits: 3 or 8",
            pixels[:, varies],
            labels,
            [name for name, kept in zip(names, varies, strict=True) if kept],
            f"64 pixels, {int(np.sum(~varies))} of which never vary and are left out",
        ),
    ]


def compare(problem: Problem, settings: dict[str, Any], folds: int) -> dict[tuple[str, str, str], np.ndarray]:
    """Count test errors by cross-validation.

    Returns
    -------
    dict of bool arrays (n,)
        Which rows were misclassified, by loss (``"hinge"``, ``"logistic"``), test rows (``"complete"``,
        ``"half missing"``) and name of the setting.
    """
    from sklearn.preprocessing import StandardScaler

    from ..estimators import DropoutLogisticRegression, DropoutSVC
    from ..fitting.tuning.folds import shuffled_folds

    wrong: dict[tuple[str, str, str], np.ndarray] = {}
    splits = list(shuffled_folds(folds, classes=True, seed=_SEED).split(problem.X, problem.y))
    present = np.random.default_rng(_SEED).random(problem.X.shape) >= 0.5
    for loss, estimator in (("hinge", DropoutSVC), ("logistic", DropoutLogisticRegression)):
        for name, rates in settings.items():
            complete, missing = np.zeros(len(problem.y), bool), np.zeros(len(problem.y), bool)
            for train, test in splits:
                scaler = StandardScaler().fit(problem.X[train])
                model = estimator(rates).fit(scaler.transform(problem.X[train]), problem.y[train])
                rows = scaler.transform(problem.X[test])
                complete[test] = model.predict(rows) != problem.y[test]
                model.set_params(corrupted_inputs=True)
                missing[test] = model.predict(rows * present[test]) != problem.y[test]
            wrong[loss, "complete", name] = complete
            wrong[loss, "half missing", name] = missing
    return wrong


def _settings(quick: bool) -> dict[str, Any]:
    from ..rates import PerFeature, Shared

    grid = (0.5,) if quick else (0.1, 0.3, 0.5, 0.7)
    return {
        "0 (no dropout)": 0.0,
        **{f"fixed at {rate:g}": rate for rate in grid},
        "learnt, one for all": Shared(),
        "learnt, one per feature": PerFeature(),
    }


def _print_errors(screen: Any, problem: Problem, wrong: dict[tuple[str, str, str], np.ndarray], folds: int) -> None:
    from rich import box
    from rich.table import Table

    n = len(problem.y)
    columns = list(dict.fromkeys((loss, rows) for loss, rows, _ in wrong))
    names = list(dict.fromkeys(name for _, _, name in wrong))
    screen.print(f"[bold]{problem.title}[/bold]: {n} rows; {problem.note}.")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("\ndropout rate")
    for loss, rows in columns:
        table.add_column(f"{loss},\n{rows}", no_wrap=True)
    fewest = {column: min(int(wrong[(*column, name)].sum()) for name in names) for column in columns}
    for name in names:
        cells = []
        for column in columns:
            count = int(wrong[(*column, name)].sum())
            cells.append(f"{count:3d} ({100 * count / n:4.1f} %){'*' if count == fewest[column] else ''}")
        table.add_row(name, *cells)
    screen.print(table)
    screen.print(f"Test errors among {n} rows in {folds}-fold cross-validation, * fewest; C = 1.")
    learnt, none = "learnt, one per feature", "0 (no dropout)"
    for column in columns:
        first, second = wrong[(*column, learnt)], wrong[(*column, none)]
        difference, spread = int(first.sum()) - int(second.sum()), np.sqrt(np.sum(first != second))
        screen.print(
            f"  {column[0]}, {column[1]}: learnt per feature minus no dropout {difference:+d} ± {spread:.1f} errors"
        )
    screen.print("  (± one standard error, from the rows on which the two disagree)\n")


def run_demo(out: Output, *, quick: bool = False, progress: bool = True) -> None:
    """Run everything, print it and write the files of the breast-cancer posterior to ``out``."""
    from ..gibbs.method import Gibbs
    from ..rates import PerFeature, Shared

    screen = console()
    folds = 3 if quick else 10
    screen.print("[bold]1. Test errors with and without dropout[/bold]\n")
    begin = time.perf_counter()
    found = problems()
    for problem in found:
        _print_errors(screen, problem, compare(problem, _settings(quick), folds), folds)
    screen.print(
        "Dropout asks that the answer survive missing features. It should pay where test rows are incomplete, and may "
        "cost a little where they are complete: the differences above say by how much. "
        f"({time.perf_counter() - begin:.0f} s)\n"
    )
    problem = found[0]
    screen.print(
        f"[bold]2. Posterior of one rate per feature[/bold]: {problem.title.lower()}, logistic loss, all rows\n"
    )
    draws, tune, chains = (50, 50, 2) if quick else (400, 200, 4)
    method = Gibbs()
    options = {
        "draws": draws,
        "tune": tune,
        "chains": chains,
        "seed": _SEED,
        "method": method,
        "progress": progress,
    }
    advice = "Run it without --quick." if quick else "Ask bd.sample for more draws."
    fit, post = _posterior(screen, problem, PerFeature(), options, advice)
    write_fit(out, fit, post)
    write_posterior(out, post)
    screen.print("\n[bold]3. Posterior of one rate for all features[/bold]\n")
    if quick:
        screen.print("Left out with --quick.")
        return
    _posterior(screen, problem, Shared(), options, advice)
    screen.print(
        "\nPooled, the rate is learnt from every entry of the table. Compare its posterior with the fixed rates that "
        "made the fewest errors on complete rows in part 1."
    )


def _posterior(screen: Any, problem: Problem, rates: Any, options: dict[str, Any], advice: str) -> tuple[Any, Any]:
    """Fit and sample on all rows, print both, and return them."""
    from ..fitting.fit import fit as fit_model
    from ..losses import Logistic
    from ..model import Model

    model = Model(loss=Logistic(), rates=rates)
    X, names = problem.standardized, problem.feature_names
    fit = fit_model(model, X, problem.y, feature_names=names)
    screen.print(f"Fit: {fit.status.value} ({fit.n_iter} iterations)")
    begin = time.perf_counter()
    post = sample_quietly(model, X, problem.y, feature_names=names, **options)
    screen.print(
        f"MCMC: {options['chains']} chains of {options['draws']} draws after {options['tune']} of tuning, "
        f"{time.perf_counter() - begin:.0f} s, compilation included."
    )
    print_rates(screen, fit, post, most=len(names))
    print_sample(screen, fit, post, options["draws"], advice)
    return fit, post
