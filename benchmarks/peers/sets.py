"""Data of two classes or more, cut into training and test rows five times.

Real data are cut into five stratified folds: four train, the fifth tests. Of words with a given split into training and
test rows, four folds of the training rows go with the fifth fold of the test rows. Columns of tables are standardised,
and words of short texts counted, by the training rows. Simulated tables are drawn anew for each split, so that their
splits share no row. Large sets are cut to a stated number of rows, drawn with a fixed seed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.data import amazon, ratings, read_packed
from benchmarks.peers.recipes import RECIPES
from benchmarks.texts import imdb_texts, narrow, newsgroups, reuters, subjects, words

__all__ = ["FAMILIES", "SETS", "SPLITS", "Set", "Split", "split"]

Rows = tuple[Any, np.ndarray]
SPLITS = 5
FAMILIES = ("tables", "words", "short texts", "many classes", "simulated")


@dataclass(frozen=True)
class Split:
    """Training rows ``X`` (n, p) with classes ``y`` (n,), 0 to K − 1, and test rows."""

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


@dataclass(frozen=True)
class Set:
    """A set of data.

    Attributes
    ----------
    label : str
        What it is, for people.
    load : callable
        Rows of a table, training rows and test rows of words, or texts with their classes. Of a simulated table it
        takes the number of a split and returns training rows and test rows.
    family : str
        One of ``FAMILIES``.
    words : bool
        True if its features are words.
    vectorizer : callable or None
        Makes the features of texts.
    simulated : bool
        True if each split is drawn anew.
    """

    label: str
    load: Callable[..., Any]
    family: str = "tables"
    words: bool = False
    vectorizer: Callable[[], Any] | None = None
    simulated: bool = False

    @property
    def correlation(self) -> float:
        """Of the results of two splits, about: what the standard error of their mean has to allow for.

        For folds it is the share of the test rows (Nadeau & Bengio 2003). Simulated tables share nothing.
        """
        return 0.0 if self.simulated else 1 / SPLITS


def _bundled(name: str, classes: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> Rows:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    kept, positive = classes(y)
    return X[kept], positive[kept].astype(int)


def _all(y: np.ndarray) -> np.ndarray:
    return np.ones(len(y), dtype=bool)


def _chosen(n: int, limit: int) -> np.ndarray:
    """Which rows a large set is cut to."""
    return np.sort(np.random.default_rng(0).permutation(n)[:limit])


def _table(name: str) -> Rows:
    """A table of numbers and categories, the class in the last column, its larger label the positive one."""
    from sklearn.preprocessing import OneHotEncoder

    raw = read_packed(f"tables/{name}.csv", "A data set of the UCI repository, without a header.")
    cells = np.loadtxt(io.BytesIO(raw), dtype=str, delimiter=",")
    columns, y = cells[:, :-1], cells[:, -1]
    text = np.array([not column[0].lstrip("-").replace(".", "").isdigit() for column in columns.T])
    parts = [columns[:, ~text].astype(float)]
    if text.any():
        parts.append(OneHotEncoder(sparse_output=False).fit_transform(columns[:, text]))
    return np.hstack(parts), (y == np.unique(y)[-1]).astype(int)


def _digits(limit: int) -> Rows:
    X, y = _bundled("digits", lambda y: (_all(y), y))
    rows = _chosen(len(y), limit)
    return X[rows], y[rows]


def _amazon(domain: str) -> tuple[Rows, Rows]:
    (X, y), (X_test, y_test) = (amazon(domain, part) for part in ("train", "test"))
    return (X, (y > 0).astype(int)), (X_test, (y_test > 0).astype(int))


def _imdb(limit: int) -> tuple[Rows, Rows]:
    parts = []
    for part in ("train_labelled", "test_labelled"):
        texts, y, _ = imdb_texts(part)
        rows = _chosen(len(y), limit)
        parts.append(([texts[row] for row in rows], y[rows]))
    (first, y), (second, y_test) = parts
    X, X_test = words(first, second)
    return (X, y), (X_test, y_test)


def _groups(negative: int, positive: int) -> tuple[Rows, Rows]:
    """Two groups of the 20, by their numbers in the order of the alphabet."""
    texts, group, training = newsgroups(headers=False)
    masks = [use & np.isin(group, (negative, positive)) for use in (training, ~training)]
    X, X_test = words(*([text for text, use in zip(texts, mask, strict=True) if use] for mask in masks))
    y, y_test = ((group[mask] == positive).astype(int) for mask in masks)
    return (X, y), (X_test, y_test)


def _reuters(masks: Sequence[np.ndarray], classes: np.ndarray) -> tuple[Rows, Rows]:
    """Words, 0/1, of training and test documents, of those in two training documents or more."""
    X = reuters()[0].copy()
    X.data[:] = 1.0
    X = narrow(X[:, np.flatnonzero(np.bincount(X[masks[0]].indices, minlength=X.shape[1]) >= 2)])
    first, second = ((X[mask], classes[mask]) for mask in masks)
    return first, second


def _topic(topic: int) -> tuple[Rows, Rows]:
    _, y, training = reuters()
    return _reuters((training, ~training), (y == topic).astype(int))


def _topics(count: int, limit: int) -> tuple[Rows, Rows]:
    """The largest topics, cut to so many training documents and as many test documents."""
    _, y, training = reuters()
    largest = np.argsort(-np.bincount(y[training]), kind="stable")[:count]
    place = np.full(y.max() + 1, -1)
    place[largest] = np.arange(count)
    classes = place[y]
    rows = (np.flatnonzero(use & (classes >= 0)) for use in (training, ~training))
    return _reuters([which[_chosen(len(which), limit)] for which in rows], classes)


def _reviews(domain: str, field: str) -> tuple[list[str], np.ndarray]:
    """Titles or first sentences of reviews, each once, and whether the reviewer gave four stars or more."""
    texts, stars = ratings(domain, "title" if field == "title" else "review_text")
    return _once([text if field == "title" else _sentence(text) for text in texts], (stars > 3).astype(int))


def _films(limit: int) -> tuple[list[str], np.ndarray]:
    """First sentences of film reviews, each once, cut to so many reviews."""
    texts, y, _ = imdb_texts("train_labelled")
    rows = _chosen(len(y), limit)
    return _once([_sentence(texts[row]) for row in rows], y[rows])


def _subjects(negative: int, positive: int) -> tuple[list[str], np.ndarray]:
    """Subjects of two groups of the 20, each once."""
    texts, group = subjects()
    use = np.isin(group, (negative, positive))
    return _once([text for text, kept in zip(texts, use, strict=True) if kept], (group[use] == positive).astype(int))


def _sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", text.strip(), maxsplit=1)[0]


def _once(texts: Sequence[str], y: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Each text of a word or more once, as it is first met."""
    first = {}
    for place, text in enumerate(texts):
        plain = " ".join(re.findall(r"\w\w+", text.lower()))
        if plain:
            first.setdefault(plain, place)
    rows = np.array(list(first.values()))
    return [texts[row] for row in rows], y[rows]


def _tfidf() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer()


def _counts() -> Any:
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(dtype=np.float64)


_short = partial(Set, family="short texts", words=True)
_words = partial(Set, family="words", words=True)
SETS = {
    "breast-cancer": Set("breast cancer", lambda: _bundled("breast_cancer", lambda y: (_all(y), y == 1))),
    "wine": Set("wine, cultivar 1 or another", lambda: _bundled("wine", lambda y: (_all(y), y == 1))),
    "digits-3-8": Set("digits, 3 or 8", lambda: _bundled("digits", lambda y: (np.isin(y, (3, 8)), y == 8))),
    "digits-odd": Set("digits, odd or even", lambda: _bundled("digits", lambda y: (_all(y), y % 2 == 1))),
    "banknote": Set("banknote authentication", lambda: _table("banknote_authentication")),
    "pima": Set("Pima diabetes", lambda: _table("pima-indians-diabetes")),
    "sonar": Set("sonar", lambda: _table("sonar")),
    "german": Set("German credit", lambda: _table("german")),
    "books": _words("Amazon books", lambda: _amazon("books")),
    "kitchen": _words("Amazon kitchen", lambda: _amazon("kitchen")),
    "religion": _words("newsgroups, atheism or religion", lambda: _groups(0, 19)),
    "graphics": _words("newsgroups, graphics or X windows", lambda: _groups(1, 5)),
    "reuters": _words("Reuters-21578, topic 2 or another", lambda: _topic(2)),
    "imdb": _words("IMDB, 5,000 reviews", lambda: _imdb(5000)),
    "book-titles": _short("titles of book reviews, TF-IDF", lambda: _reviews("books", "title"), vectorizer=_tfidf),
    "kitchen-titles": _short(
        "titles of kitchen reviews, counts", lambda: _reviews("kitchen", "title"), vectorizer=_counts
    ),
    "book-sentences": _short(
        "first sentences of book reviews, counts", lambda: _reviews("books", "sentence"), vectorizer=_counts
    ),
    "film-sentences": _short("first sentences of 2,000 film reviews, TF-IDF", lambda: _films(2000), vectorizer=_tfidf),
    "sport-subjects": _short("subjects, baseball or hockey, TF-IDF", lambda: _subjects(9, 10), vectorizer=_tfidf),
    "science-subjects": _short("subjects, medicine or space, counts", lambda: _subjects(13, 14), vectorizer=_counts),
    "digits": Set("digits, ten classes, 1,000 rows", lambda: _digits(1000), "many classes"),
    "topics": Set(
        "Reuters-21578, ten topics, 1,250 documents", lambda: _topics(10, 1250), "many classes", words=True
    ),
}  # fmt: skip
for _name, _recipe in RECIPES.items():
    _family = "simulated" if _recipe.classes == 2 else "many classes"
    SETS[_name] = Set(_recipe.label, _recipe.split, _family, simulated=True)


@cache
def _loaded(name: str) -> Any:
    return SETS[name].load()


def split(name: str, number: int) -> Split:
    """One of the splits of a set, the same every time.

    Raises
    ------
    FileNotFoundError
        If the data are absent; the message says where to get them.
    """
    from sklearn.preprocessing import StandardScaler

    chosen = SETS[name]
    if chosen.simulated:
        (X, y), (X_test, y_test) = chosen.load(number)
    else:
        data = _loaded(name)
        training, test = data if isinstance(data[0], tuple) else (data, data)
        (X, y), (X_test, y_test) = _fold(training, number, 0), _fold(test, number, 1)
    if chosen.words and chosen.vectorizer is None:
        return Split(X, y, X_test, y_test)
    scaler = chosen.vectorizer() if chosen.vectorizer else StandardScaler()
    X, X_test = scaler.fit_transform(X), scaler.transform(X_test)
    return Split(narrow(X), y, narrow(X_test), y_test) if chosen.words else Split(X, y, X_test, y_test)


def _fold(rows: Rows, number: int, part: int) -> Rows:
    """The rows outside a fold (part 0) or within it (part 1)."""
    from sklearn.model_selection import StratifiedKFold

    X, y = rows
    which = list(StratifiedKFold(SPLITS, shuffle=True, random_state=0).split(y, y))[number][part]
    return [X[row] for row in which] if isinstance(X, list) else X[which], y[which]
