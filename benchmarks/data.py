"""Data of the benchmarks: the real sets where they are present, and seeded synthetic ones."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import re
from pathlib import Path

import numpy as np
from scipy import sparse

__all__ = ["DATA", "amazon", "bag_of_words", "imdb", "mnist", "ratings", "read_packed", "splice"]

DATA = Path(os.environ.get("BAYESDROP_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def read_packed(relative: str, where: str) -> bytes:
    """The bytes of a file of the data folder, unpacked if its name says so; ``where`` tells what to get if absent."""
    path = DATA / relative
    if not path.exists():
        raise FileNotFoundError(f"{path} is absent; set BAYESDROP_DATA to the folder with it. {where}")
    opened = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opened(path, "rb") as file:
        return file.read()


def amazon(domain: str, split: str, *, counts: bool = False) -> tuple[sparse.csr_array, np.ndarray]:
    """Amazon reviews (books, kitchen), 0/1 words or counts, labels −1 and +1 (Blitzer, Dredze & Pereira 2007)."""
    from sklearn.datasets import load_svmlight_file

    raw = read_packed(f"amazon/{domain}_{split}.svmlight.xz", "The multi-domain sentiment data set, unigram counts.")
    X, y = load_svmlight_file(io.BytesIO(raw), n_features=5000, zero_based=True)
    if not counts:
        X.data[:] = 1.0
    shape, index, pointer = X.shape, X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sparse.csr_array((X.data, index, pointer), shape=shape), y


def imdb(least: int = 2) -> tuple[sparse.csr_array, np.ndarray]:
    """IMDB reviews, training split, 0/1 unigrams of so many reviews or more, labels −1 and +1 (Maas et al. 2011)."""
    from sklearn.feature_extraction.text import CountVectorizer

    raw = read_packed("imdb/train_labelled.jsonl.xz", "The large movie review data set, one JSON object a line.")
    rows = [json.loads(line) for line in raw.splitlines()]
    X = CountVectorizer(binary=True, min_df=least, dtype=np.float64).fit_transform([row["text"] for row in rows])
    return sparse.csr_array(X), np.where([row["label"] == "pos" for row in rows], 1, -1)


def mnist(split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """MNIST digits, pixels in [0, 1] (LeCun et al. 1998)."""
    name = {"train": "train", "test": "t10k"}[split]
    where = "The MNIST database of handwritten digits, idx files."
    pixels = np.frombuffer(read_packed(f"mnist/{name}-images-idx3-ubyte.gz", where), np.uint8, offset=16)
    labels = np.frombuffer(read_packed(f"mnist/{name}-labels-idx1-ubyte.gz", where), np.uint8, offset=8)
    return pixels.reshape(-1, 784) / 255.0, labels


def bag_of_words(
    n: int = 20_000, p: int = 50_000, length: int = 100, seed: int = 0
) -> tuple[sparse.csr_array, np.ndarray]:
    """Synthetic 0/1 bag of words: about ``length`` words a row, Zipf frequencies, 1 % of the words informative."""
    generator = np.random.default_rng(seed)
    frequency = 1 / (np.arange(p) + 10.0)
    words = generator.choice(p, size=(n, length), p=frequency / frequency.sum())
    rows = np.repeat(np.arange(n), length)
    X = sparse.csr_array((np.ones(n * length), (rows, words.ravel())), shape=(n, p))
    X.sum_duplicates()
    X.data[:] = 1.0
    weight = np.where(generator.random(p) < 0.01, generator.normal(scale=2.0, size=p), 0.0)
    score = X @ weight
    y = np.where(generator.random(n) < 1 / (1 + np.exp(-(score - np.median(score)))), 1, -1)
    return X, y


def ratings(domain: str, field: str = "review_text") -> tuple[list[str], np.ndarray]:
    """Amazon reviews (books, kitchen) with 1, 2, 4 or 5 stars, each text once (Blitzer, Dredze & Pereira 2007).

    With ``field="title"`` their titles.
    """
    stars: dict[str, float] = {}
    for half in ("negative", "positive"):
        packed = f"amazon/ratings/{domain}_{half}.review.xz"
        raw = read_packed(packed, "The multi-domain sentiment data set, unprocessed.")
        for review in raw.decode("utf-8").split("<review>")[1:]:
            rating = re.search(r"<rating>\s*([\d.]+)", review)
            text = re.search(rf"<{field}>\s*(.*?)\s*</{field}>", review, re.DOTALL)
            if rating and text:
                stars.setdefault(text[1], float(rating[1]))
    return list(stars), np.array(list(stars.values()))


def splice() -> tuple[np.ndarray, np.ndarray]:
    """Donor splice sites, seven positions with a letter each, labels −1 and +1 (Meier, van de Geer & Bühlmann 2008)."""
    raw = read_packed("splice/splice.csv", "The data `splice` of the R package grplasso, as comma-separated values.")
    rows = np.loadtxt(io.BytesIO(raw), dtype=str, delimiter=",", skiprows=1)
    return rows[:, 1:], np.where(rows[:, 0].astype(float) > 0, 1, -1)
