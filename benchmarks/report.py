"""Put the figures of the results files into the pages: ``python -m benchmarks.report [--check | --stale]``.

A page says where a figure comes from, between two comments that a reader does not see:

    <!-- figure: FILE; WORDS ...; COLUMN -->0.41<!-- / -->

``FILE`` is a file of ``benchmarks/results/``, ``WORDS`` are a table's title or cells of a row, or parts of them, that
only one row has, and ``COLUMN`` is the name of its column. A last word such as ``.2f`` rounds; ``A minus B`` in the
place of the last of ``WORDS`` is the difference of two rows. ``FILE; NAME`` with a
name of ``COMPUTED`` is a figure that is computed from the cells. A block between

    <!-- table: FILE; TITLE; rows: A; B; without: C; columns: D; E = NAME -->
    <!-- / -->

has a table, or one of ``COMPUTED``: all rows, or those with some words and without others, and all columns, or some,
which may be renamed. ``<!-- made: FILE -->`` has the command and the date, and whether the machine was idle. Tests hold
that pages are up to date.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from benchmarks.figures import why
from benchmarks.record import FOLDER, read

__all__ = ["COMPUTED", "PAGES", "main", "substitute"]

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md")))
Table = tuple[list[str], list[list[str]]]


def number(cell: str) -> float:
    """Return the first number of a cell: 1,234 of ``1,234 (48 %)``."""
    found = re.search(r"[-+−]?\d[\d,]*\.?\d*(e[-+]?\d+)?", cell.replace("−", "-"))
    if found is None:
        raise ValueError(f"expected a number, got {cell!r}.")
    return float(found[0].replace(",", ""))


def table_of(results: dict[str, Any], title: str = "") -> dict[str, Any]:
    """Return the first table with some words in its title."""
    found = [table for table in results["tables"] if title in table["title"]]
    if not found:
        raise ValueError(f"no table {title!r}; there are {[table['title'] for table in results['tables']]}.")
    return found[0]


def columns_of(results: dict[str, Any], names: Sequence[str]) -> np.ndarray:
    """Return numbers of some columns of the first table that has them, a row for each of its rows."""
    table = next(table for table in results["tables"] if set(names) <= set(table["columns"]))
    places = [table["columns"].index(name) for name in names]
    return np.array([[number(row[place]) for place in places] for row in table["rows"]])


def fit_ratios(results: dict[str, Any]) -> np.ndarray:
    """Return the times of fits over scikit-learn's."""
    return columns_of(results, [name for name in table_of(results)["columns"] if name.startswith("rate ")])


def fit_times(results: dict[str, Any]) -> Table:
    """Return the ratios of each data set as their median and their extremes."""
    rows: dict[str, list[float]] = {}
    for row, ratios in zip(table_of(results)["rows"], fit_ratios(results), strict=True):
        rows.setdefault(row[0], []).extend(ratios)
    return ["data", "median ratio", "least", "largest"], [
        [name, f"{np.median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}"] for name, ratios in rows.items()
    ]


def sets_of(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tables of the data sets, whose titles are bold, of the comparison with peers."""
    return [table for table in results["tables"] if table["title"].startswith("**")]


def by_chance(results: dict[str, Any], errors: float) -> str:
    """Return on how many data sets a level method is behind by more than some standard errors, on average.

    A difference over its standard error has Student's t distribution with a degree of freedom less than splits.
    """
    tables = sets_of(results)
    splits = int(number(tables[0]["title"].rsplit(", ", 1)[1]))
    return f"{len(tables) * t.sf(errors, splits - 1):.0f}"


def log_losses(results: dict[str, Any]) -> Table:
    """Return log losses of some methods, a row for each data set."""
    methods = {
        "ridge logistic, C = 1": "`LogisticRegression()`", "ridge logistic, C by log loss": "its CV class",
        "*dropout logistic*": "`DropoutLogisticRegression()`", "*dropout logistic CV*": "its CV class, with noise",
        "*dropout SVC*": "`DropoutSVC()`", "gradient boosting": "gradient boosting",
        "NBSVM, logistic, by log loss": "NBSVM",
    }  # fmt: skip
    rows = []
    for table in sets_of(results):
        place = table["columns"].index("log loss")
        losses = {row[0]: row[place] for row in table["rows"]}
        label = re.sub(r"\*\*|training rows |, 2 classes|, \d+ splits", "", table["title"])
        rows.append([label, *(f"{number(losses[key]):.3f}" if key in losses else "" for key in methods)])
    return ["data", *methods.values()], rows


def words(results: dict[str, Any], way: str, place: int) -> str:
    """Return the mean log loss over the sets of texts, of one way to make columns of words and one method."""
    return f"{np.mean([number(row[place]) for row in table_of(results)['rows'] if row[1].startswith(way)]):.3f}"


def leads(results: dict[str, Any]) -> str:
    """Return where the default is ahead of tuned ridge by more than a standard error, of all texts as all columns."""
    rows = [row for row in table_of(results)["rows"] if row[1] not in ("largest 1", "0 to 1")]
    gaps = [[number(part) for part in row[4].split("±")] for row in rows]
    return f"{sum(gap < -error for gap, error in gaps)} of {len(gaps)}"


def more_than_the_first(results: dict[str, Any], first: str) -> Table:
    """Return what each method adds to the log loss of the first, over all tables and ways to lose entries."""
    table = table_of(results)
    rows = []
    for place, name in enumerate(table["columns"][3:], 3):
        pairs = [[number(part) for part in row[place].split("±")] for row in table["rows"]]
        gaps, errors = np.array(pairs).T
        better, worse = np.sum(gaps < -2 * errors), np.sum(gaps > 2 * errors)
        rows.append([name, f"{gaps.mean():+.3f}", str(better), str(len(gaps) - better - worse), str(worse)])
    return [first, "log loss, mean difference", "better", "level", "worse"], rows


def deletion_gaps(results: dict[str, Any]) -> np.ndarray:
    """Return what fits that expect deleted entries add to the log loss of ridge on deleted copies."""
    return columns_of(results, ["copies", "expected"])[:, 1]


def deletion_time(results: dict[str, Any]) -> str:
    """Return the CPU time of a fit that expects deleted entries over that of ridge on deleted copies."""
    table = table_of(results, "CPU")
    places = [table["columns"].index(name) for name in ("expected", "copies")]
    return spread(np.array([float(f"{number(row[places[0]]) / number(row[places[1]]):.2g}") for row in table["rows"]]))


def against_nuts(double: dict[str, Any]) -> Table:
    """Return effective draws a second over those of NUTS, in double and in single precision."""
    kinds = {"float64": double, "float32": read("sampling_float32")}
    parts = [{row[0]: row[1:] for row in table_of(results)["rows"]} for results in kinds.values()]
    columns = ["what", *(f"{name}, {dtype}" for dtype in kinds for name in table_of(double)["columns"][1:])]
    return columns, [[what, *(cell.split(" (")[0] for part in parts for cell in part[what])] for what in parts[0]]


def ratios_to_nuts(results: dict[str, Any], rates: bool) -> str:
    """Return the least and the largest ratio of effective draws a second, of rows with or without learnt rates."""
    table = table_of(results)
    place = table["columns"].index("ratio")
    return spread(np.array([number(row[place]) for row in table["rows"] if ("rates" in row[0]) == rates]))


def largest_error(results: dict[str, Any], sampler: str) -> str:
    """Return the largest error of a sampler, over the problems that it does not refuse."""
    table = table_of(results)
    cells = [row[table["columns"].index(sampler)] for row in table["rows"]]
    return f"{max(number(cell) for cell in cells if cell != 'refused'):.2f}"


def cv_time(results: dict[str, Any]) -> str:
    """Return processor times of the CV class over those of scikit-learn's, over the data sets."""
    ratios = []
    for table in sets_of(results):
        times = {row[0]: number(row[table["columns"].index("CPU, s")]) for row in table["rows"]}
        ratios.append(times["*dropout logistic CV*"] / times["ridge logistic, C by log loss"])
    return f"{min(ratios):.1f} to {max(ratios):.1f} (median {np.median(ratios):.1f})"


def verdicts(results: dict[str, Any], method: str) -> str:
    """Return on how many data sets the log loss of a method is ahead, level and behind."""
    return (
        next(row[1] for row in table_of(results, "Ahead of the reference")["rows"] if row[0] == method)
        .replace(" / ", ", ", 1)
        .replace(" / ", " and ")
    )


def exponents(results: dict[str, Any]) -> str:
    """Return the smallest and the largest exponent of the time of a fit in the number of classes."""
    table = table_of(results)
    place = table["columns"].index("exponent from 20 on")
    found = [number(row[place]) for row in table["rows"] if row[0]]  # other rows are calls of the fit above
    return f"{min(found):.2f} to {max(found):.2f}"


def spread(values: np.ndarray) -> str:
    """Return the least and the largest of some values."""
    return f"{np.min(values):g} to {np.max(values):g}"


def share(values: np.ndarray, limit: float) -> str:
    """Return how many values of a hundred are at most a limit."""
    return f"{100 * np.mean(values <= limit):.0f}"


COMPUTED: dict[tuple[str, str], Callable[[dict[str, Any]], Any]] = {
    ("linear", "median"): lambda results: f"{np.median(fit_ratios(results)):.2f}",
    ("linear", "largest"): lambda results: f"{np.max(fit_ratios(results)):.2f}",
    ("linear", "number"): lambda results: str(fit_ratios(results).size),
    ("linear", "at most 1, %"): lambda results: share(fit_ratios(results), 1.0),
    ("linear", "by data"): fit_times,
    ("peers", "log losses"): log_losses,
    ("peers", "cv time"): cv_time,
    ("peers", "dropout logistic"): lambda results: verdicts(results, "*dropout logistic*"),
    ("peers", "dropout logistic CV"): lambda results: verdicts(results, "*dropout logistic CV*"),
    **{
        (f"sampling_{dtype}", what): partial(ratios_to_nuts, rates=what == "with rates")
        for dtype in ("float64", "float32")
        for what in ("no noise", "with rates")
    },
    ("peers_scalings", "leads"): leads,
    **{
        ("peers_scalings", f"{way}; {who}"): partial(words, way=way, place=place)
        for way in ("0/1", "counts", "log counts", "TF-IDF", "hashed")
        for who, place in (("tuned ridge", 2), ("default", 3))
    },
    ("peers", "sets"): lambda results: str(len(sets_of(results))),
    ("peers", "by chance, 1"): partial(by_chance, errors=1),
    ("peers", "by chance, 2"): partial(by_chance, errors=2),
    ("missing_8", "summary"): partial(more_than_the_first, first="instead of dropped entries"),
    ("missing_8", "by neighbours"): lambda results: more_than_the_first(results, "")[1][3][1].strip("-"),
    ("deletion_10", "summary"): partial(more_than_the_first, first="instead of ridge on deleted copies"),
    ("deletion_10", "largest gain"): lambda results: f"{-deletion_gaps(results).min():.3f}",
    ("deletion_10", "largest loss"): lambda results: f"{deletion_gaps(results).max():.3f}",
    ("deletion_10", "time"): deletion_time,
    ("fits_skip_mnist", "largest"): lambda results: f"{np.max(columns_of(results, ['per fixed'])):.2f}",
    ("fits_default", "range"): lambda results: spread(columns_of(results, ["times"])),
    ("dask_scale", "range"): lambda results: spread(columns_of(results, ["ratio"])),
    ("reproduce_factors", "distance"): lambda results: f"{np.max(columns_of(results, ['distance'])):.3f}",
    ("scaling_classes", "exponents"): exponents,
    ("sampling_float64", "both precisions"): against_nuts,
    ("small_truth", "Gibbs"): partial(largest_error, sampler="`bd.Gibbs()`"),
    ("small_truth", "normal scores"): partial(largest_error, sampler="`bd.HMC()`"),
    ("small_truth", "reweighted"): partial(largest_error, sampler="`bd.reweight`"),
    ("independent", "statistics"): lambda results: f"{np.sum(columns_of(results, ['statistics'])):.0f}",
    ("inclusion_calibration", "largest"): lambda results: f"{np.max(columns_of(results, ['errors apart'])):.1f}",
    ("independent", "largest z"): lambda results: f"{np.max(columns_of(results, ['largest z'])):.1f}",
}
_PAIR = re.compile(r"(<!-- (figure|table|made): (.+?) -->)(.*?)(<!-- / -->)", re.DOTALL)


def figure(words: Sequence[str]) -> str:
    """Return a figure: of ``COMPUTED``, or the cell that the words name."""
    name, *rest = words
    results = read(name)
    if (name, "; ".join(rest)) in COMPUTED:
        return str(COMPUTED[name, "; ".join(rest)](results))
    form = rest.pop() if re.fullmatch(r",?\.\d[f%]", rest[-1]) else ""
    *wanted, column = rest
    if wanted and " minus " in wanted[-1]:
        mine, other = (number(_cell(results, [*wanted[:-1], word], column)) for word in wanted[-1].split(" minus "))
        return f"{mine - other:.2f}"
    cell = _cell(results, wanted, column)
    return format(number(cell), form) if form else cell.replace("**", "")


def _cell(results: dict[str, Any], wanted: Sequence[str], column: str) -> str:
    """Return the cell of a column in the only row that has some words."""
    cells = []
    for table in results["tables"]:
        for row in table["rows"]:
            texts = [table["title"], *row]
            if column in table["columns"] and all(any(_has(text, word) for text in texts) for word in wanted):
                cells.append(row[table["columns"].index(column)])
    if len(cells) != 1:
        raise ValueError(f"figure: {wanted}, column {column}: expected words that one row has, got {len(cells)} rows.")
    return cells[0]


def _has(text: str, word: str) -> bool:
    """Return whether a word stands in a text; one in quotes is the whole text."""
    plain = text.strip("*")
    return plain == word[1:-1] if word[0] == word[-1] == '"' else word in plain


def block(words: Sequence[str]) -> str:
    """Return a table as Markdown."""
    name, *rest = words
    results = read(name)
    asked: dict[str, list[str]] = {"title": [], "rows": [], "without": [], "columns": []}
    kind = "title"
    for word in rest:
        head, _, tail = word.partition(": ")
        kind, word = (head, tail) if head in asked else (kind, word)
        asked[kind].append(word)
    title = "; ".join(asked["title"])
    if (name, title) in COMPUTED:
        columns, rows = COMPUTED[name, title](results)
    else:
        table = table_of(results, title)
        columns, rows = table["columns"], table["rows"]
    if asked["rows"]:
        rows = [row for row in rows if any(_has(cell, word) for cell in row for word in asked["rows"])]
    rows = [row for row in rows if not any(_has(cell, word) for cell in row for word in asked["without"])]
    if asked["columns"]:
        named = dict(word.split(" = ") if " = " in word else (word, word) for word in asked["columns"])
        places = [columns.index(column) for column in named]
        columns, rows = list(named.values()), [[row[place] for place in places] for row in rows]
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def made(name: str) -> str:
    """Return how a results file was made."""
    results = read(name)
    commit = f", {results['commit']}" if results["commit"] else ""
    return f"(`{results['command']}`, {results['date']}{commit}, {'idle' if results['idle'] else 'busy'})"


def substitute(text: str) -> str:
    """Return a page with the figures, tables and origins that its comments ask for."""

    def put(found: re.Match[str]) -> str:
        start, kind, words, _, end = found.groups()
        parts = [word.strip() for word in words.split(";")]
        if kind == "table":
            return f"{start}\n{block(parts)}\n{end}"
        return start + (figure(parts) if kind == "figure" else made(*parts)) + end

    return _PAIR.sub(put, text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description="Figures into the pages.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    parser.add_argument("--stale", action="store_true", help="list results that are not of today's code; fail if any")
    given = parser.parse_args(arguments)
    check = given.check
    if given.stale:
        stale = {path.stem: text for path in sorted(FOLDER.glob("*.json")) if (text := why(path.stem))}
        for name, text in stale.items():
            print(f"{name}: {text}")
        raise SystemExit(f"{len(stale)} stale; run `make figures`." if stale else 0)
    late = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        new = substitute(text)
        if new != text:
            late.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(new, encoding="utf-8")
    if check and late:
        raise SystemExit(f"{', '.join(late)}: out of date with {FOLDER}; run `python -m benchmarks.report`.")
    print("\n".join(late) or "All pages are up to date.")


if __name__ == "__main__":
    main()
