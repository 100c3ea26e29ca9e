"""The demonstration: three acts, each on data where noise pays, with what was gained, and one picture of them.

1. Rare words, simulated: every document has a subject, and every subject words of its own that tell the class; common
   words tell nothing. Compared with ridge whose ``C`` was chosen by cross-validation, and with the true weights.
2. The digits of scikit-learn, of which pixels go missing when the model is used; for every model a missing pixel is
   the mean of its column. Compared with ridge tuned on complete digits, and on five copies of each with deleted pixels.
3. The posterior of dropout rates: of simulated sensors of four kinds, whose signals are lost at known rates, and of one
   rate for a table of scikit-learn, with their prior and the plug-in rule.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Float, Int
from .output import console, show, write_results

__all__ = ["Pixels", "Rate", "Words", "draw", "pixels", "run_demo", "sensors", "words"]


@dataclass(frozen=True)
class Words:
    """Log loss (nats a document) and errors (%) on new documents, of ridge, of dropout and of the true weights."""

    log_loss: dict[str, float]
    error: dict[str, float]


@dataclass(frozen=True)
class Pixels:
    """Errors (%) on test digits by the share of pixels that are missing: of ridge, of ridge fitted to copies with half
    of the pixels deleted, and of dropout that expects the deletion of half.
    """

    share: tuple[float, ...]
    ridge: list[float]
    copies: list[float]
    dropout: list[float]


@dataclass(frozen=True)
class Rate:
    """A dropout rate: plug-in, both ends and the median of the posterior and, where it is known, the truth."""

    name: str
    plug_in: float
    low: float
    median: float
    high: float
    truth: float | None = None


def documents(
    n: int, seed: int = 0, *, common: int = 3000, subjects: int = 50, telling: int = 20
) -> tuple[Any, Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Draw documents: 0/1 words (n, common + subjects · telling), classes and their true probabilities.

    Common words occur at Zipf's frequencies, 60 a document, and have no weight. A document has a fifth of the telling
    words of its subject, each of which moves the log-odds by 2 towards the class of the subject.
    """
    from scipy import sparse

    generator = np.random.default_rng(seed)
    frequency = 1 / (np.arange(common) + 10.0)
    occurs = generator.random((n, common)) < np.minimum(60 * frequency / frequency.sum(), 0.5)
    subject = generator.integers(0, subjects, n)
    own = (generator.random((n, 1, telling)) < 0.2) & (subject[:, None] == np.arange(subjects))[:, :, None]
    X = np.hstack([occurs, own.reshape(n, -1)]).astype(float)
    weight = np.concatenate([np.zeros(common), np.repeat(np.where(np.arange(subjects) % 2, 2.0, -2.0), telling)])
    chance = 1 / (1 + np.exp(-(X @ weight)))
    rows = sparse.csr_array(X)
    # scikit-learn's own linear models take indices of 32 bits.
    narrow = (rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32))
    return sparse.csr_array(narrow, shape=X.shape), (generator.random(n) < chance).astype(int), chance


def _ridge(folds: Any = 5) -> Any:
    """Ridge with ``C`` chosen by the log loss of folds."""
    from sklearn.linear_model import LogisticRegressionCV

    # The default of later releases of scikit-learn.
    return LogisticRegressionCV(
        cv=folds, scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=1000
    )


def words(n: int = 600) -> Words:
    """Compare on documents that no model has seen, as many as train and 2,000."""
    from sklearn.metrics import log_loss

    from ..estimators import DropoutLogisticRegression

    X, y, chance = documents(n + 2000)
    chances = {"the true weights": chance[n:]}
    for name, model in (("ridge, tuned", _ridge()), ("dropout", DropoutLogisticRegression())):
        chances[name] = model.fit(X[:n], y[:n]).predict_proba(X[n:])[:, 1]
    return Words(
        {name: float(log_loss(y[n:], probability)) for name, probability in chances.items()},
        {name: 100 * float(np.mean((probability > 0.5) != y[n:])) for name, probability in chances.items()},
    )


def pixels(share: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75), repeats: int = 5) -> Pixels:
    """Compare on the half of the digits that no model has seen, means over ``repeats`` choices of the pixels."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import StratifiedGroupKFold, train_test_split

    from ..estimators import DropoutLogisticRegression

    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
    ridge = _ridge().fit(X, y)
    # Copies of a row are held out together.
    row, deletion = np.tile(np.arange(len(y)), 5), np.random.default_rng(1)
    rows, labels = np.where(deletion.random((len(row), X.shape[1])) < 0.5, X.mean(axis=0), X[row]), y[row]
    copies = _ridge(list(StratifiedGroupKFold(5).split(rows, labels, row))).fit(rows, labels)
    dropout = DropoutLogisticRegression(expected_deletion=0.5).fit(X, y)
    generator, errors = np.random.default_rng(0), np.zeros((3, len(share), repeats))
    for s, part in enumerate(share):
        for k in range(repeats):
            rows = np.where(generator.random(X_test.shape) < part, np.nan, X_test)
            filled = np.where(np.isnan(rows), X.mean(axis=0), rows)
            guesses = ridge.predict(filled), copies.predict(filled), dropout.predict(rows)
            errors[:, s, k] = [np.mean(guess != y_test) for guess in guesses]
    return Pixels(share, *(100 * errors.mean(axis=2)).tolist())


_LOST = {"new": 0.05, "worn": 0.2, "old": 0.4, "broken": 0.7}


def sensors(n: int, seed: int = 2) -> tuple[Float[np.ndarray, "n p"], Int[np.ndarray, " n"], list[str]]:
    """Draw alarms of 16 sensors, four of each kind, what happened, and the kind of each sensor.

    An alarm is raised in a tenth of the rows and moves the log-odds of the event by 4 up or down, but is lost, as if it
    had not been raised, at the rate of its kind.
    """
    generator = np.random.default_rng(seed)
    lost = np.repeat(list(_LOST.values()), 4)
    X = (generator.random((n, len(lost))) < 0.1).astype(float)
    score = (X * (generator.random(X.shape) >= lost)) @ np.where(np.arange(len(lost)) % 2, -4.0, 4.0)
    y = (generator.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return X, y, [kind for kind in _LOST for _ in range(4)]


def _rates(fit: Any, post: Any, names: list[str], truth: list[float | None]) -> list[Rate]:
    from ..posterior.arviz_groups.groups import dataset

    draws = dataset(post, "posterior")["rate"].values
    low, median, high = np.quantile(draws.reshape(-1, draws.shape[-1]), [0.05, 0.5, 0.95], axis=0)
    plug_in = fit.rate_posterior.mode
    return [
        Rate(name, float(plug_in[k]), float(low[k]), float(median[k]), float(high[k]), truth[k])
        for k, name in enumerate(names)
    ]


def draw(acts: tuple[Words, Pixels, list[Rate]], path: Any) -> None:
    """Draw the three acts side by side and write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from ..plots.style import BLUE, GREY, LIGHT_GREY, VERMILLION, plain_frame

    act, digits, rates = acts
    figure, (one, two, three) = plt.subplots(
        1, 3, figsize=(12.6, 3.9), width_ratios=(0.8, 1, 1.25), layout="constrained"
    )
    names = ["ridge, tuned", "dropout", "the true weights"]
    bars = one.bar(["ridge,\ntuned", "dropout", "the true\nweights"], [act.error[name] for name in names],
                   color=[VERMILLION, BLUE, GREY], width=0.62)  # fmt: skip
    one.bar_label(bars, fmt="%.1f %%", fontsize=9, padding=2)
    one.set(ylabel="errors on new documents, %", title="1. Rare words, simulated")
    share = [100 * part for part in digits.share]
    two.plot(share, digits.ridge, "s-", color=VERMILLION, label="ridge, tuned")
    two.plot(share, digits.copies, "^--", color=GREY, label="ridge, 5 deleted copies")
    two.plot(share, digits.dropout, "o-", color=BLUE, label="dropout")
    two.set(
        xlabel="pixels that are missing, %", ylabel="errors on new digits, %", title="2. Digits with missing pixels"
    )
    two.set(ylim=(0, None), xticks=share)
    two.legend(frameon=False, fontsize=9)
    place = np.arange(len(rates))[::-1]
    three.barh(place, 0.9, left=0.05, height=0.8, color=LIGHT_GREY, alpha=0.55, zorder=0, label="prior, 90 %")
    three.hlines(place, [one.low for one in rates], [one.high for one in rates], color=BLUE, linewidth=2.2)
    three.plot([one.median for one in rates], place, "o", color="white", markeredgecolor=BLUE, markeredgewidth=1.6,
               label="posterior: median, 90 %")  # fmt: skip
    three.plot([one.plug_in for one in rates], place, "D", color=VERMILLION, markersize=4.5, label="plug-in rule")
    known = [(one.truth, at) for one, at in zip(rates, place, strict=True) if one.truth is not None]
    three.plot(*zip(*known, strict=True), "|", color="black", markersize=15, markeredgewidth=2, label="truth")
    three.set_yticks(place, [one.name for one in rates])
    three.set(
        xlim=(0, 1), ylim=(-0.6, len(rates) + 0.35), xlabel="dropout rate", title="3. How far features can be relied on"
    )
    three.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
    for ax in (one, two, three):
        ax.title.set_fontsize(11)
        plain_frame(ax)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def run_demo(stage: Path, *, quick: bool = False) -> Callable[[], None]:
    """Run the three acts, print what each gained, and write the picture and the files of the third to ``stage``.

    Returns
    -------
    callable
        Prints what the three acts say together.
    """
    screen, begin = console(), time.perf_counter()
    acts = (
        "a minute" if quick else "more than two minutes: a quarter of one, half of one, and more than one for the draws"
    )
    screen.print(f"Three acts, {acts}. Every model is scored on rows that it has not seen.\n")
    scores = _first(screen, 300 if quick else 600), _second(screen, 1 if quick else 5)
    rates = _third(screen, stage, quick)
    draw((*scores, rates), stage / "demo.png")

    def report() -> None:
        _conclude(screen, *scores, rates)
        screen.print(f"({time.perf_counter() - begin:.0f} s)")

    return report


def _begins(screen: Any, title: str, text: str) -> float:
    screen.print(f"[bold]{title}[/bold]\n{text}")
    return time.perf_counter()


def _first(screen: Any, n: int) -> Words:
    began = _begins(
        screen, "1. Rare words",
        f"{n} documents, 4,000 words; common words tell nothing, the rare words of a subject tell the class …",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        act = words(n)
    for name in ("ridge, tuned", "dropout", "the true weights"):
        screen.print(f"  {name:18} {act.error[name]:5.1f} % errors, log loss {act.log_loss[name]:.3f}")
    gained = act.error["ridge, tuned"] - act.error["dropout"]
    screen.print(
        f"Gained: {_points(gained)} of error. Noise charges a word for the rows that it occurs in, and ridge charges "
        f"all words equally. ({time.perf_counter() - began:.0f} s)\n"
    )
    return act


def _points(gained: float) -> str:
    return f"{gained:.1f} points" if gained > 0 else f"nothing ({gained:.1f} points)"


def _second(screen: Any, repeats: int) -> Pixels:
    began = _begins(
        screen, "2. Pixels that go missing",
        "Ten digits, half of the 1,797 to train; a missing pixel is the mean of its column for every model …",
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        digits = pixels(repeats=repeats)
    screen.print(f"  {'pixels missing':18}" + "".join(f"{100 * part:8.0f} %" for part in digits.share))
    named = (("ridge, tuned", digits.ridge), ("ridge, 5 copies", digits.copies), ("dropout", digits.dropout))
    for name, errors in named:
        screen.print(f"  {name:18}" + "".join(f"{error:8.1f} %" for error in errors))
    half = digits.share.index(0.5)
    price = digits.dropout[0] - digits.ridge[0]
    screen.print(
        f"Gained: {_points(digits.ridge[half] - digits.dropout[half])} of error where half of the pixels are missing, "
        f"at {f'a price of {price:.1f} points' if price > 0 else 'no price'} where none is; "
        f"{_points(digits.copies[half] - digits.dropout[half])} over ridge that is fitted to five copies of each digit "
        f"with half of the pixels deleted, by one fit without copies. "
        f"({time.perf_counter() - began:.0f} s)\n"
    )
    return digits


def _third(screen: Any, stage: Path, quick: bool) -> list[Rate]:
    from sklearn.datasets import load_breast_cancer

    from ..fitting.fit import fit as fit_model
    from ..gibbs.method import Gibbs
    from ..model import Model
    from ..noise import Dropout
    from ..posterior.diagnostics.diagnosis import diagnose
    from ..posterior.sampling import sample
    from ..priors import Normal
    from ..rates import PerGroup, Shared

    X, y, kinds = sensors(300 if quick else 800)
    cancer = load_breast_cancer()
    table = (cancer.data - cancer.data.mean(axis=0)) / cancer.data.std(axis=0)
    began = _begins(
        screen, "3. How far features can be relied on",
        f"{len(y)} rows of 16 sensors of four kinds, whose alarms are lost at rates that we know and the model does "
        "not; then one rate for the 30 columns of the breast-cancer table …",
    )  # fmt: skip
    options: dict[str, Any] = (
        {"draws": 60, "tune": 60, "chains": 2} if quick else {"draws": 500, "tune": 300, "chains": 4}
    )
    model = Model(rates=PerGroup(kinds), noise=Dropout(centre=None), weight_prior=Normal(4.0))
    names = [f"{kind} {k}" for kind in _LOST for k in range(1, 5)]
    fit = fit_model(model, X, y, feature_names=names)
    # Two sweeps a draw, for weights and rates of sensors that are often lost move slowly together.
    sweeps = Gibbs(sweeps_per_draw=2)
    post = sample(model, X, y, feature_names=names, method=sweeps, **options)
    show(write_results(stage, post, fit)[["rate", "rate_low", "rate_high"]].drop_duplicates())
    rates = _rates(fit, post, [f"{kind} sensors" for kind in _LOST], list(_LOST.values()))
    inside = sum(one.low <= one.truth <= one.high for one in rates if one.truth is not None)
    if not diagnose(post).ok:
        screen.print("These chains are short: take more draws before you quote an interval of your own.")
    shared = Model(rates=Shared())
    fit = fit_model(shared, table, cancer.target, feature_names=cancer.feature_names)
    post = sample(shared, table, cancer.target, **options)
    rates += _rates(fit, post, ["breast cancer,\none rate"], [None])
    real = rates[-1]
    screen.print(
        f"\nGained: an interval. {inside} of 4 intervals of 90 % hold the true rate, and the {real.median:.2f} "
        f"({real.low:.2f} to {real.high:.2f}) of the real table says that little of it is noise. The plug-in rule, "
        f"{', '.join(f'{one.plug_in:.2f}' for one in rates)}, sets the noise of a fit and is no estimate. "
        f"({time.perf_counter() - began:.0f} s)\n"
    )
    return rates


def _conclude(screen: Any, act: Words, digits: Pixels, rates: list[Rate]) -> None:
    half = digits.share.index(0.5)
    before, after = act.error["ridge, tuned"], act.error["dropout"]
    widest = max(one.high - one.low for one in rates)
    screen.print(
        "[bold]In three sentences[/bold]\n"
        f"Where many words are rare, noise instead of a tuned ridge takes the errors from {before:.1f} to "
        f"{after:.1f} %. Where half of the features go missing, training for it takes them from "
        f"{digits.ridge[half]:.1f} to {digits.dropout[half]:.1f} %. And where features differ in how reliable they "
        f"are, the posterior says how much, and how sure that is: its intervals are at most {widest:.2f} wide, those "
        "of the prior 0.90."
    )
