"""What the E-step says of each row at a fit: the M-step's fixed point, the published formulas, the support vectors."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import SVC

import bayesdrop as bd

LOSSES = [bd.Logistic(), bd.Hinge(2.0), bd.EpsilonInsensitive(0.3), bd.Quantile(0.8), bd.Squared()]
RATE, C = np.array([0.1, 0.3, 0.6]), 1.7


def problem(binary=True, n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * (rng.random((n, 3)) < 0.9)
    score = X @ [1.5, -1.0, 0.3] + rng.normal(size=n)
    return X, np.where(score > 0, "yes", "no") if binary else score, np.tile([1.0, 2.0, 0.0, 0.5], n // 4)


@pytest.mark.parametrize("method", [bd.Newton(tol=1e-13), bd.EM(tol=1e-13, max_iter=5000)], ids=["Newton", "EM"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_weights_are_the_m_step_of_it(loss, method):
    """``(P + MᵀΩM + diag q(ω)) w = Mᵀκ``, written out, at the optimum of either minimiser; dense and sparse."""
    X, y, weight = problem(loss.binary)
    model = bd.Model(loss, rates=bd.Fixed(RATE), C=C)
    for storage in (np.asarray, sparse.csr_array):
        fit = bd.fit(model, storage(X), y, sample_weight=weight, method=method)
        found = fit.auxiliary
        np.testing.assert_array_equal(found.row, np.flatnonzero(weight))
        rows = X[found.row]
        M = np.column_stack([rows * (1 - RATE), np.ones(len(rows))])
        matrix = M.T @ (found.omega[:, None] * M)
        matrix[range(3), range(3)] += 1 + RATE * (1 - RATE) * ((rows**2).T @ found.omega)
        expected = np.linalg.solve(matrix, M.T @ found.kappa)
        np.testing.assert_allclose(np.append(fit.weight, fit.intercept), expected, atol=1e-5)
        np.testing.assert_allclose(found.mean, M @ np.append(fit.weight, fit.intercept), atol=1e-12)
        np.testing.assert_allclose(found.dual, found.kappa - found.omega * found.mean, atol=1e-12)


def test_support_vectors_are_scikit_learns():
    """Without noise; its machine has the same intercept. Of those on the margin the one that hardly pulls is left."""
    X, y, _ = problem(n=200)
    theirs = SVC(kernel="linear", C=C, tol=1e-8).fit(X, y)
    pulls = np.zeros(200)
    pulls[theirs.support_] = np.abs(theirs.dual_coef_[0])
    found = bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(0.0), C=C), X, y, method=bd.Newton(tol=1e-10)).auxiliary
    differ = np.flatnonzero(found.support != (pulls > 0))
    assert np.all((pulls[differ] < 0.5 * C) & (np.abs(1 - found.target * found.mean)[differ] < 1e-4))
    assert len(differ) <= 2
    beyond = np.setdiff1d(np.arange(200), np.flatnonzero((pulls > 0) & (pulls < C * (1 - 1e-6))))
    np.testing.assert_allclose(np.abs(found.dual)[beyond], pulls[beyond], atol=1e-4)


def test_support_is_within_two_standard_deviations_of_the_kink():
    X, y, _ = problem()
    found = bd.fit(bd.Model(bd.Hinge(), rates=bd.Fixed(0.05), C=5.0), X, y).auxiliary
    np.testing.assert_array_equal(found.support, 1 - found.target * found.mean > -2 * np.sqrt(found.var))
    assert 0 < found.support.sum() < len(y)
    X, y, _ = problem(binary=False)
    assert np.all(bd.fit(bd.Model(bd.Quantile(0.1), rates=bd.Fixed(0.0)), X, y).auxiliary.support[np.abs(y) > 9])


def test_what_there_is_not_is_refused():
    X, y, _ = problem()
    with pytest.raises(ValueError, match=r'auxiliary: Logistic.*without auxiliary.*expectation="augmentation"'):
        _ = bd.fit(bd.Model(bd.Logistic(expectation="gaussian"), rates=bd.Fixed(0.3)), X, y).auxiliary
    with pytest.raises(ValueError, match="auxiliary: .*taylor"):
        bd.plots.row_weights(bd.fit(bd.Model(bd.Logistic(expectation="taylor"), rates=bd.Fixed(0.3)), X, y))
    with pytest.raises(ValueError, match=r"support: every row pulls under Logistic"):
        _ = bd.fit(bd.Model(), X, y).auxiliary.support
    # Without noise all forms are one, and that with auxiliary variables is fitted.
    assert bd.fit(bd.Model(bd.Hinge(expectation="gaussian"), rates=bd.Fixed(0.0)), X, y).auxiliary.omega.shape == (40,)


def test_as_a_dataset():
    X, y, weight = problem()
    found = bd.fit(bd.Model(bd.Hinge()), X, y, sample_weight=weight).auxiliary.to_dataset()
    assert found["omega"].dims == ("obs_id",)
    np.testing.assert_array_equal(found["obs_id"], np.flatnonzero(weight))
    assert set(found.data_vars) == {"omega", "kappa", "dual", "mean", "variance", "support"}


def test_row_weights_are_drawn():
    X, y, _ = problem()
    fit = bd.fit(bd.Model(bd.Hinge()), X, y)
    ax = bd.plots.row_weights(fit)
    found = fit.auxiliary
    assert f"support vectors: {found.support.sum()} of 40" in [text.get_text() for text in ax.get_legend().get_texts()]
    drawn = np.concatenate([line.get_xydata() for line in ax.lines])
    expected = np.column_stack([found.target * found.mean, found.omega])
    np.testing.assert_allclose(drawn[np.lexsort(drawn.T)], expected[np.lexsort(expected.T)])
    ax.figure.clear()
