"""Duplicate columns are found, and none that differ."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from bayesdrop.designs import as_design
from bayesdrop.designs.sparse import first_of_duplicates


def text(values=(1.0,)):
    """Rows with many columns of few entries, some of which are alike; some columns are empty."""
    generator = np.random.default_rng(0)
    X = (generator.uniform(size=(30, 300)) < 0.03) * generator.choice(values, size=(30, 300))
    return sparse.csr_array(X)


@pytest.mark.parametrize("values", [(1.0,), (1.0, 2.0, -0.5)])
def test_sets_are_those_of_equal_columns(values):
    X = text(values)
    first, index = first_of_duplicates(X)
    columns = [tuple(column) for column in X.toarray().T]
    assert [columns.index(column) for column in columns] == first[index].tolist()
    assert np.all(np.diff(first) > 0)


def test_equal_signatures_are_not_taken_at_their_word(monkeypatch):
    """With one number for all rows every two columns with as many ones have one signature."""
    X = text()
    monkeypatch.setattr(np.random, "default_rng", lambda seed: SimpleNamespace(random=np.ones))
    first, index = first_of_duplicates(X)
    np.testing.assert_array_equal(X.toarray()[:, first][:, index], X.toarray())


def test_a_design_has_its_distinct_columns():
    X = text((1.0, 3.0))
    found = as_design(X).distinct
    np.testing.assert_array_equal(found.design.matrix().toarray()[:, found.index], X.toarray())
    np.testing.assert_array_equal(found.copies, np.bincount(found.index))
    assert found.design.shape[1] == len(found.first) < 0.8 * X.shape[1]


def test_few_that_are_alike_are_left():
    assert as_design(sparse.random_array((200, 300), density=0.2, rng=1, format="csr")).distinct is None
    assert as_design(np.zeros((5, 4))).distinct is None
