"""A fit to blocks of rows is the fit to the matrix in memory."""

import numpy as np
import pytest
from scipy import sparse

import bayesdrop as bd


def problem(n=400, p=12, few=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    if few:
        X *= rng.random(X.shape) < 0.3
    w = rng.normal(size=p)
    return X, (X @ w + rng.normal(size=n) > 0).astype(int), X @ w + 0.3 * rng.normal(size=n)


def cut(X, size=73):
    return [X[start : start + size] for start in range(0, X.shape[0], size)]


def same_fit(got, expected):
    np.testing.assert_allclose(got.objective_trace[-1], expected.objective_trace[-1], rtol=1e-8)
    np.testing.assert_allclose(got.weight, expected.weight, rtol=1e-3, atol=3e-4)
    np.testing.assert_allclose(got.rates, expected.rates, rtol=1e-12)
    assert got.status is expected.status


def test_wide_data_take_products_alone(monkeypatch):
    from bayesdrop.designs.blocks import design as blocks

    monkeypatch.setattr(blocks.Blocks, "gram_columns", 5)
    X, y, _ = problem(few=True)
    model = bd.Model(rates=bd.PerFeature(bd.Beta(1, 1)))
    design = bd.Blocks(cut(sparse.csr_array(X)))
    assert not design.prefers_gram
    same_fit(bd.fit(model, design, y), bd.fit(model, X, y))


@pytest.mark.slow
def test_other_noise_and_em_and_row_weights():
    X, y, _ = problem()
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    X[weight == 0] = -1e6  # rows without weight are no data
    model = bd.Model(noise=bd.LaplaceNoise(0.3))
    got = bd.fit(model, bd.Blocks(cut(X)), y, sample_weight=weight, method=bd.EM(tol=1e-9))
    same_fit(got, bd.fit(model, X, y, sample_weight=weight, method=bd.EM(tol=1e-9)))


def test_passes_a_newton_step():
    """The data are read a handful of times for each step; a change that reads them more often should be seen."""
    X, y, _ = problem()
    design = bd.Blocks(cut(X))
    fit = bd.fit(bd.Model(rates=bd.Fixed(0.3)), design, y)
    assert design.passes <= 2 + 9 * fit.n_iter


@pytest.mark.slow
def test_names_of_the_columns():
    X, y, _ = problem()
    names = [f"f{d}" for d in range(12)]
    design = bd.Blocks(cut(X), columns=names)
    assert bd.fit(bd.Model(), design, y).feature_names == names
    estimator = bd.DropoutSVC(0.2).fit(design, y)
    assert estimator.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="in the same order as they were in fit"):
        estimator.predict(bd.Blocks(cut(X), columns=names[::-1]))
    with pytest.raises(ValueError, match="fitted to 12 features, and these rows have 11"):
        estimator.predict(bd.Blocks(cut(X[:, :11])))
    assert not hasattr(estimator.fit(bd.Blocks(cut(X)), y), "feature_names_in_")


def test_labels_that_do_not_fit():
    X, y, target = problem()
    design = bd.Blocks(cut(X))
    for call in (lambda: bd.fit(bd.Model(), design, y[:-1]), lambda: bd.DropoutSVC().fit(design, y[:-1])):
        with pytest.raises(ValueError, match="expected [0-9]+ values, one for each row"):
            call()
    target[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        bd.DropoutRidge(0.1).fit(design, target)


def test_data_that_change_in_the_middle_of_a_fit():
    X, y, _ = problem()
    reads = 0

    def read():
        nonlocal reads
        reads += 1
        return iter(cut(X if reads < 6 else X + 1e-6))

    estimator = bd.DropoutSVC(0.2)
    with pytest.raises(ValueError, match="has changed: the source no longer yields"):
        estimator.fit(bd.Blocks(read), y)
    assert not hasattr(estimator, "coef_")
