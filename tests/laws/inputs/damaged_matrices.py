"""Run by ``test_structure.py`` in a process of its own, since what it does would end it if a check were missing."""

import faulthandler
import sys
import warnings

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import bayesdrop as bd

faulthandler.enable()
warnings.simplefilter("ignore")
N, P = 30, 4
RNG = np.random.default_rng(0)
X = np.where(RNG.random((N, P)) < 0.5, RNG.normal(size=(N, P)), 0.0)
Y = np.arange(N) % 2


def beyond(matrix):
    matrix.indices[3] = 10**6


def negative(matrix):
    matrix.indices[3] = -(10**6)


def falling(matrix):
    matrix.indptr[2] = matrix.indptr[-1]


def long(matrix):
    matrix.indptr[-1] += 10**6


def late(matrix):
    matrix.indptr[0] = 5


def short(matrix):
    matrix.data = matrix.data[:3]


DAMAGE = (beyond, negative, falling, long, late, short)


def latent():
    return bd.LatentDropoutSVC(0.1, n_hidden=2, n_init=1, tol=0.1, max_iter=5, random_state=0)


def posterior():
    import xarray as xr

    from bayesdrop.description import attributes

    draws = xr.Dataset(
        {"weight": (("chain", "draw", "feature"), RNG.normal(size=(1, 3, P)))},
        coords={"chain": [0], "draw": [0, 1, 2], "feature": [f"x{d}" for d in range(P)]},
    )
    observed = xr.Dataset({"y": ("obs_id", Y)}, coords={"obs_id": np.arange(N)})
    model = bd.Model(rates=bd.Fixed(0.5), fit_intercept=False)
    return bd.groups.assemble({"posterior": draws, "observed_data": observed}, attributes(model, np.array([0, 1])))


MODEL = bd.Model(fit_intercept=False)
TRAINED = {kind: kind(0.2).fit(X, Y) for kind in (bd.DropoutSVC, bd.DropoutLogisticRegression)}
CALLS = {
    "fit": lambda X: bd.fit(MODEL, X, Y),
    "sample": lambda X: bd.sample(MODEL, X, Y, draws=2, tune=2, chains=1, progress=False),
    "sample_latent": lambda X: bd.sample_latent(MODEL, X, Y, draws=2, tune=2, chains=1, progress=False),
    "variational": lambda X: bd.variational(MODEL, X, Y),
    "NumpyroKernel": lambda X: bd.NumpyroKernel(MODEL, X, Y),
    "WeightsBlock": lambda X: bd.WeightsBlock(bd.Model(rates=bd.Fixed(0.0)), X, Y),
    "Blocks": lambda X: bd.fit(MODEL, bd.Blocks([X]), Y),
    "DropoutSVC.fit": lambda X: bd.DropoutSVC().fit(X, Y),
    "DropoutSVC.partial_fit": lambda X: bd.DropoutSVC().partial_fit(X, Y, [0, 1]),
    "DropoutSVC.predict": lambda X: TRAINED[bd.DropoutSVC].predict(X),
    "DropoutLogisticRegression.predict_proba": lambda X: TRAINED[bd.DropoutLogisticRegression].predict_proba(X),
    "unlabelled": lambda D: bd.DropoutLogisticRegression().fit(X, Y, unlabelled=D),
    "DropoutRidge.fit": lambda X: bd.DropoutRidge().fit(X, Y),
    "LatentDropoutSVC.fit": lambda X: latent().fit(X, Y),
    "LatentDropoutSVC.predict": lambda D: latent().fit(X, Y).predict(D),
    "DropoutSVCCV.fit": lambda X: bd.DropoutSVCCV([0.2], cv=2).fit(X, Y),
    "RatePath.fit": lambda X: bd.RatePath(bd.DropoutSVC(), [0.1]).fit(X, Y),
    "DropoutMatrixFactorization.fit": lambda X: bd.DropoutMatrixFactorization(missing="zeros").fit(X),
    "DropoutMatrixFactorization.transform": lambda D: bd.DropoutMatrixFactorization(2).fit(X).transform(D),
    "ExplicitCorruption": lambda X: bd.baselines.ExplicitCorruption(LogisticRegression()).fit(X, Y),
    "FDROP": lambda X: bd.baselines.FDROP().fit(X, Y),
    "FDROP.predict": lambda D: bd.baselines.FDROP().fit(X, Y).predict(D),
    "MCFLogistic": lambda X: bd.baselines.MCFLogistic().fit(X, Y),
    "predict": lambda X: bd.predict(posterior(), X),
    "posterior_predictive": lambda X: bd.posterior_predictive(posterior(), X),
    "log_likelihood": lambda X: bd.log_likelihood(posterior(), X, Y),
    "prior_draws": lambda X: bd.prior_draws(MODEL, X, draws=3),
    "delete_features": lambda X: bd.delete_features(X, 0.5, 0),
    "hidden_units": lambda D: bd.plots.hidden_units(latent().fit(X, Y), D),
}


def main():
    for name, call in CALLS.items():
        for kind in (sparse.csr_array, sparse.csc_array):
            for damage in DAMAGE:
                matrix = kind(X)
                damage(matrix)
                where = f"{name}, {kind.__name__}, {damage.__name__}"
                print(where, flush=True)
                try:
                    call(matrix)
                except ValueError as error:
                    if "sparse matrix is damaged" not in str(error):
                        sys.exit(f"{where}: {error}")
                else:
                    sys.exit(f"{where}: no error")
        coo = sparse.coo_array(X)
        coo.coords[1][0] = 99
        try:
            call(coo)
        except ValueError as error:
            if "sparse matrix is damaged" not in str(error):
                sys.exit(f"{name}: {error}")
        else:
            sys.exit(f"{name}: no error for coordinates out of range")
    print("all refused")


if __name__ == "__main__":
    main()
