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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .._typing import Float, Int
from .output import console, show, write_results

__all__ = ["run_demo"]

_SHARES = (0.0, 0.25, 0.5, 0.75)
_HALF = 2
_LOST = {"new": 0.05, "worn": 0.2, "old": 0.4, "broken": 0.7}


def run_demo(stage: Path, *, quick: bool = False) -> Callable[[], None]:
    """Run the three acts, print what each gained, and write the picture and the files of the third to ``stage``.

    Returns
    -------
    callable
        Prints what the three acts say together.
    """
    screen, begin = console(), time.perf_counter()
    length = "half a minute" if quick else "two minutes: a quarter of one, half of one, and more than one for the draws"
    screen.print(f"Three acts, {length}. Every model is scored on rows that it has not seen.\n")
    errors = _words(screen, 300 if quick else 600)
    digits = _pixels(screen, 1 if quick else 5)
    rates = _rates(screen, stage, quick)
    _draw(errors, digits, rates, stage / "demo.png")

    def report() -> None:
        widest = max(high - low for _, low, _, high in rates.values())
        screen.print(
            "[bold]In three sentences[/bold]\n"
            f"Where many words are rare, noise instead of a tuned ridge takes the errors from "
            f"{errors['ridge, tuned']:.1f} to {errors['dropout']:.1f} %. Where half of the features go missing, "
            f"training for it takes them from {digits['ridge, tuned'][_HALF]:.1f} to {digits['dropout'][_HALF]:.1f} %. "
            "And where features differ in how reliable they are, the posterior says how much, and how sure that is: "
            f"its intervals are at most {widest:.2f} wide, those of the prior 0.90.\n"
            f"({time.perf_counter() - begin:.0f} s)"
        )

    return report


@contextmanager
def _act(screen: Any, title: str, text: str) -> Iterator[None]:
    """Print the title of an act before it, and the seconds that it took after it; the models do not warn."""
    screen.print(f"[bold]{title}[/bold]\n{text}")
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    screen.print(f"({time.perf_counter() - begin:.0f} s)\n")


def _documents(n: int) -> tuple[Any, Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Draw documents: 0/1 words (n, 4000), classes and their true probabilities.

    3,000 common words occur at Zipf's frequencies, 60 a document, and have no weight. A document has a fifth of the 20
    telling words of its subject, one of 50, each of which moves the log-odds by 2 towards the class of the subject.
    """
    from scipy import sparse

    generator, subjects = np.random.default_rng(0), np.arange(50)
    frequency = 1 / (np.arange(3000) + 10.0)
    occurs = generator.random((n, 3000)) < np.minimum(60 * frequency / frequency.sum(), 0.5)
    subject = generator.integers(0, 50, n)
    telling = (generator.random((n, 1, 20)) < 0.2) & (subject[:, None] == subjects)[:, :, None]
    X = np.hstack([occurs, telling.reshape(n, -1)]).astype(float)
    weight = np.concatenate([np.zeros(3000), np.repeat(np.where(subjects % 2, 2.0, -2.0), 20)])
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


def _words(screen: Any, n: int) -> dict[str, float]:
    """Errors (%) on 2,000 new documents of models that are fitted to ``n``."""
    from sklearn.metrics import log_loss

    from ..estimators import DropoutLogisticRegression

    text = f"{n} documents, 4,000 words; common words tell nothing, the rare words of a subject tell the class …"
    with _act(screen, "1. Rare words", text):
        X, y, chance = _documents(n + 2000)
        models = {"ridge, tuned": _ridge(), "dropout": DropoutLogisticRegression()}
        chances = {name: model.fit(X[:n], y[:n]).predict_proba(X[n:])[:, 1] for name, model in models.items()}
        chances["the true weights"] = chance[n:]
        errors = {name: 100 * float(np.mean((part > 0.5) != y[n:])) for name, part in chances.items()}
        for name, part in chances.items():
            screen.print(f"  {name:18} {errors[name]:5.1f} % errors, log loss {log_loss(y[n:], part):.3f}")
        screen.print(
            f"Gained: {_points(errors['ridge, tuned'] - errors['dropout'])} of error. Noise charges a word for the "
            "rows that it occurs in, and ridge charges all words equally."
        )
    return errors


def _points(gained: float) -> str:
    return f"{gained:.1f} points" if gained > 0 else f"nothing ({gained:.1f} points)"


def _pixels(screen: Any, repeats: int) -> dict[str, list[float]]:
    """Errors (%) on new digits by the share of pixels that are missing, means over ``repeats`` choices of them."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import StratifiedGroupKFold, train_test_split

    from ..estimators import DropoutLogisticRegression

    text = "Ten digits, half of the 1,797 to train; a missing pixel is the mean of its column for every model …"
    with _act(screen, "2. Pixels that go missing", text):
        X, y = load_digits(return_X_y=True)
        X, X_test, y, y_test = train_test_split(X / 16, y, test_size=0.5, random_state=0, stratify=y)
        # Copies of a row are held out together.
        row, deletion = np.tile(np.arange(len(y)), 5), np.random.default_rng(1)
        rows, labels = np.where(deletion.random((len(row), X.shape[1])) < 0.5, X.mean(axis=0), X[row]), y[row]
        models = {
            "ridge, tuned": _ridge().fit(X, y),
            "ridge, 5 copies": _ridge(list(StratifiedGroupKFold(5).split(rows, labels, row))).fit(rows, labels),
            "dropout": DropoutLogisticRegression(expected_deletion=0.5).fit(X, y),
        }
        generator, wrong = np.random.default_rng(0), np.zeros((len(models), len(_SHARES), repeats))
        for place in np.ndindex(wrong.shape[1:]):
            rows = np.where(generator.random(X_test.shape) < _SHARES[place[0]], np.nan, X_test)
            filled = np.where(np.isnan(rows), X.mean(axis=0), rows)
            for k, (name, model) in enumerate(models.items()):
                wrong[k, *place] = np.mean(model.predict(rows if name == "dropout" else filled) != y_test)
        errors = dict(zip(models, (100 * wrong.mean(axis=2)).tolist(), strict=True))
        screen.print(f"  {'pixels missing':18}" + "".join(f"{100 * share:8.0f} %" for share in _SHARES))
        for name, numbers in errors.items():
            screen.print(f"  {name:18}" + "".join(f"{error:8.1f} %" for error in numbers))
        ridge, copies, dropout = errors.values()
        price = dropout[0] - ridge[0]
        screen.print(
            f"Gained: {_points(ridge[_HALF] - dropout[_HALF])} of error where half of the pixels are missing, at "
            f"{f'a price of {price:.1f} points' if price > 0 else 'no price'} where none is; "
            f"{_points(copies[_HALF] - dropout[_HALF])} over ridge that is fitted to five copies of each digit with "
            "half of the pixels deleted, by one fit without copies."
        )
    return errors


def _sensors(n: int) -> tuple[Float[np.ndarray, "n p"], Int[np.ndarray, " n"]]:
    """Draw alarms of 16 sensors, four of each kind, and what happened.

    An alarm is raised in a tenth of the rows and moves the log-odds of the event by 4 up or down, but is lost, as if it
    had not been raised, at the rate of its kind.
    """
    generator, lost = np.random.default_rng(2), np.repeat(list(_LOST.values()), 4)
    X = (generator.random((n, len(lost))) < 0.1).astype(float)
    score = (X * (generator.random(X.shape) >= lost)) @ np.where(np.arange(len(lost)) % 2, -4.0, 4.0)
    return X, (generator.random(n) < 1 / (1 + np.exp(-score))).astype(int)


def _rates(screen: Any, stage: Path, quick: bool) -> dict[str, tuple[float, ...]]:
    """Dropout rates by name: plug-in, and the 5 %, 50 % and 95 % quantiles of the posterior."""
    from sklearn.datasets import load_breast_cancer

    from ..fitting.fit import fit as fit_model
    from ..gibbs.method import Gibbs
    from ..model import Model
    from ..noise import Dropout
    from ..posterior.arviz_groups.groups import dataset
    from ..posterior.diagnostics.diagnosis import diagnose
    from ..posterior.sampling import sample
    from ..priors import Normal
    from ..rates import PerGroup, Shared

    options: dict[str, Any] = (
        {"draws": 60, "tune": 60, "chains": 2} if quick else {"draws": 500, "tune": 300, "chains": 4}
    )
    rates: dict[str, tuple[float, ...]] = {}

    def add(fit: Any, post: Any, names: list[str]) -> None:
        draws = dataset(post, "posterior")["rate"].values
        ends = np.quantile(draws.reshape(-1, draws.shape[-1]), [0.05, 0.5, 0.95], axis=0)
        rates.update(zip(names, zip(fit.rate_posterior.mode.tolist(), *ends.tolist(), strict=True), strict=True))

    X, y = _sensors(300 if quick else 800)
    text = (
        f"{len(y)} rows of 16 sensors of four kinds, whose alarms are lost at rates that we know and the model does "
        "not; then one rate for the 30 columns of the breast-cancer table …"
    )
    with _act(screen, "3. How far features can be relied on", text):
        model = Model(
            rates=PerGroup([kind for kind in _LOST for _ in range(4)]), noise=Dropout(centre=None),
            weight_prior=Normal(4.0),
        )  # fmt: skip
        names = [f"{kind} {k}" for kind in _LOST for k in range(1, 5)]
        fit = fit_model(model, X, y, feature_names=names)
        # Two sweeps a draw, for weights and rates of sensors that are often lost move slowly together.
        post = sample(model, X, y, feature_names=names, method=Gibbs(sweeps_per_draw=2), **options)
        show(write_results(stage, post, fit)[["rate", "rate_low", "rate_high"]].drop_duplicates())
        add(fit, post, [f"{kind} sensors" for kind in _LOST])
        inside = sum(
            low <= truth <= high for truth, (_, low, _, high) in zip(_LOST.values(), rates.values(), strict=True)
        )
        if not diagnose(post).ok:
            screen.print("These chains are short: take more draws before you quote an interval of your own.")
        cancer, model = load_breast_cancer(), Model(rates=Shared())
        table = (cancer.data - cancer.data.mean(axis=0)) / cancer.data.std(axis=0)
        add(
            fit_model(model, table, cancer.target), sample(model, table, cancer.target, **options),
            ["breast cancer,\none rate"],
        )  # fmt: skip
        _, low, median, high = list(rates.values())[-1]
        screen.print(
            f"\nGained: an interval. {inside} of 4 intervals of 90 % hold the true rate, and the {median:.2f} "
            f"({low:.2f} to {high:.2f}) of the real table says that little of it is noise. The plug-in rule, "
            f"{', '.join(f'{plug_in:.2f}' for plug_in, *_ in rates.values())}, sets the noise of a fit and is no "
            "estimate."
        )
    return rates


def _draw(
    errors: dict[str, float], digits: dict[str, list[float]], rates: dict[str, tuple[float, ...]], path: Path
) -> None:
    """Draw the three acts side by side and write the picture."""
    import matplotlib.pyplot as plt

    from ..plots.style import BLUE, GREY, LIGHT_GREY, VERMILLION, plain_frame

    figure, (one, two, three) = plt.subplots(
        1, 3, figsize=(12.6, 3.9), width_ratios=(0.8, 1, 1.25), layout="constrained"
    )
    bars = one.bar(["ridge,\ntuned", "dropout", "the true\nweights"], list(errors.values()),
                   color=[VERMILLION, BLUE, GREY], width=0.62)  # fmt: skip
    one.bar_label(bars, fmt="%.1f %%", fontsize=9, padding=2)
    one.set(ylabel="errors on new documents, %", title="1. Rare words, simulated")
    share = [100 * part for part in _SHARES]
    marks = zip(digits.items(), ("s-", "^--", "o-"), (VERMILLION, GREY, BLUE), strict=True)
    for (name, numbers), mark, colour in marks:
        two.plot(share, numbers, mark, color=colour, label=name.replace("copies", "deleted copies"))
    two.set(
        xlabel="pixels that are missing, %", ylabel="errors on new digits, %", title="2. Digits with missing pixels",
        ylim=(0, None), xticks=share,
    )  # fmt: skip
    two.legend(frameon=False, fontsize=9)
    place, (plug_in, low, median, high) = np.arange(len(rates))[::-1], zip(*rates.values(), strict=True)
    three.barh(place, 0.9, left=0.05, height=0.8, color=LIGHT_GREY, alpha=0.55, zorder=0, label="prior, 90 %")
    three.hlines(place, low, high, color=BLUE, linewidth=2.2)
    three.plot(median, place, "o", color="white", markeredgecolor=BLUE, markeredgewidth=1.6,
               label="posterior: median, 90 %")  # fmt: skip
    three.plot(plug_in, place, "D", color=VERMILLION, markersize=4.5, label="plug-in rule")
    three.plot(
        list(_LOST.values()), place[: len(_LOST)], "|", color="black", markersize=15, markeredgewidth=2, label="truth"
    )
    three.set_yticks(place, list(rates))
    three.set(
        xlim=(0, 1), ylim=(-0.6, len(rates) + 0.35), xlabel="dropout rate", title="3. How far features can be relied on"
    )
    three.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
    for ax in (one, two, three):
        ax.title.set_fontsize(11)
        plain_frame(ax)
    figure.savefig(path, dpi=110)
    plt.close(figure)
