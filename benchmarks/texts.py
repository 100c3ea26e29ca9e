"""Texts of the experiments: reviews of films, Usenet posts and news, as 0/1 words or counts."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.data import read_packed

__all__ = ["imdb_texts", "narrow", "newsgroups", "reuters", "subjects", "words"]


def _json_lines(relative: str, where: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in read_packed(relative, where).splitlines()]


@cache
def imdb_texts(part: str) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Film reviews: ``train_labelled``, ``test_labelled`` or ``train_unsup``, their labels and numbers.

    Labels are 1, 0, and −1 where there are none. Reviews of one film have numbers in a row, at most 30 of a label.
    Maas et al. (2011).
    """
    rows = _json_lines(f"imdb/{part}.jsonl.xz", "The large movie review data set, one JSON object a line.")
    code = {"pos": 1, "neg": 0, "unsup": -1}
    return (
        [row["text"] for row in rows],
        np.array([code[row["label"]] for row in rows]),
        np.array([row["id"] for row in rows]),
    )


@cache
def _posts() -> list[dict[str, Any]]:
    return _json_lines("newsgroups20/20news_bydate.jsonl.xz", "20 Newsgroups by date, one JSON object a line.")


@cache
def subjects() -> tuple[list[str], np.ndarray]:
    """Subjects of Usenet posts of 20 groups, without ``Re:``, and the group of each."""
    found = [re.search(r"^Subject:\s*(?:re:\s*)*(.*)$", row["text"], re.MULTILINE | re.IGNORECASE) for row in _posts()]
    _, group = np.unique([row["group"] for row in _posts()], return_inverse=True)
    return [one[1] if one else "" for one in found], group


@cache
def newsgroups(headers: bool = True) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Usenet posts of 20 groups, the sorted-by-date version: texts, group of each, and True where it is for training.

    ``headers=False`` leaves out all above the first empty line, which names the group all but openly.
    """
    rows = _posts()
    texts = [row["text"] if headers else row["text"].partition("\n\n")[2] for row in rows]
    _, group = np.unique([row["group"] for row in rows], return_inverse=True)
    return texts, group, np.array([row["split"] == "train" for row in rows])


@cache
def reuters() -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """Reuters-21578, documents of one topic: counts of 18,933 words, topics, and True where it is for training."""
    from scipy.io import loadmat

    where = "Reuters-21578 as counts in MATLAB's format (fea, gnd, trainIdx, testIdx)."
    held = loadmat(io.BytesIO(read_packed("reuters/Reuters21578.mat", where)), spmatrix=False)
    X = sparse.csr_array(held["fea"], dtype=np.float64)
    training = np.zeros(X.shape[0], dtype=bool)
    training[held["trainIdx"].ravel().astype(int) - 1] = True
    return narrow(X), held["gnd"].ravel().astype(int), training


def narrow(X: Any) -> sparse.csr_array:
    """The same matrix with 32-bit indices, which scikit-learn's own linear models need."""
    X = sparse.csr_array(X)
    return sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def words(
    fitted: Sequence[str], *others: Sequence[str], length: int = 1, min_count: int = 2, counts: bool = False
) -> tuple[sparse.csr_array, ...]:
    """0/1 words, and runs of up to ``length`` words, that occur in ``min_count`` of the ``fitted`` texts or more.

    With ``counts`` how often each occurs. A word is a run of letters, digits and apostrophes, or a single mark such as
    ``!`` and ``?``, in lower case.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(
        binary=not counts,
        min_df=min_count,
        ngram_range=(1, length),
        token_pattern=r"[\w']+|[!?.,:;()\"]",
        dtype=np.float64,
    )
    first = narrow(vectorizer.fit_transform(fitted))
    return first, *(narrow(vectorizer.transform(texts)) for texts in others)
