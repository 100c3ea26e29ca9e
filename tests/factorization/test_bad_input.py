"""Errors say what was expected, what came and what to do."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bayesdrop as bd

MF = bd.DropoutMatrixFactorization
X = np.random.default_rng(0).normal(size=(6, 4))


def holed(value=np.nan):
    broken = X.copy()
    broken[1, 2] = value
    return broken


@pytest.mark.parametrize(
    ("settings", "data", "match"),
    [
        ({"n_components": 5}, X, r"n_components: expected at most min\(n, p\) = 4, got 5"),
        ({"adaptive": False}, X, "n_components: expected a number, got None; at a fixed retain probability"),
        ({"retain": 1.0}, X, "retain: .* plain singular value decomposition"),
        ({}, holed(), 'contains NaN, which is not marked as missing; use missing="nan"'),
        ({"missing": "nan", "solver": "deterministic"}, holed(np.inf), "infinity"),
        ({}, holed(np.inf), "infinity"),
        ({"missing": "nan"}, holed(), '"closed_form" needs every entry.* use solver="deterministic"'),
        ({"missing": "zeros"}, sparse.csr_array(np.eye(4)), '"closed_form" needs every entry'),
        ({"missing": "nan"}, sparse.csr_array(X), 'missing="nan" marks the entries of a dense array'),
        ({"missing": "zeros", "solver": "deterministic"}, sparse.csr_array(holed()), "contains NaN"),
    ],
)  # fmt: skip
def test_errors(settings, data, match):
    with pytest.raises(ValueError, match=match):
        MF(**settings).fit(data)


def test_what_was_never_observed_is_named():
    broken = X.copy()
    broken[[1, 4]] = np.nan
    model = MF(solver="deterministic", missing="nan")
    with pytest.raises(ValueError, match=r"got none in 2 rows \(1, 4\); leave out"):
        model.fit(broken)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    frame["c"] = np.nan
    with pytest.raises(ValueError, match=r"got none in 1 column \(c\)"):
        model.fit(frame)
    empty = sparse.csr_array(np.diag([1.0, 0.0, 2.0]))
    with pytest.raises(ValueError, match=r"got none in 1 row \(1\)"):
        MF(solver="stochastic", missing="zeros").fit(empty)


def test_scores_of_another_width():
    model = MF(2).fit(X)
    with pytest.raises(ValueError, match="expected 2 columns of scores, got 3"):
        model.inverse_transform(X[:, :3])


def test_divergence_names_the_rate():
    with pytest.raises(ValueError, match="learning_rate: the factors diverged at 1000; try 250"):
        MF(solver="stochastic", learning_rate=1000, random_state=0).fit(X)


def test_an_unfinished_fit_says_so():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="Stopped after 2 sweeps"):
        MF(solver="deterministic", max_iter=2, random_state=0, tol=1e-14).fit(X)
    with pytest.warns(ConvergenceWarning, match="The rank learnt is all of the 50 columns"):
        MF(solver="deterministic", retain=1 - 1e-6, tol=1e-2, random_state=0).fit(
            np.random.default_rng(0).normal(size=(70, 60))
        )
