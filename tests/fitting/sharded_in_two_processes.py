"""What one of two processes does with its half of the rows: ``python … rank port folder``; started by the test.

Each has two devices. Whatever is asked of it is asked of the other at the same time, and both write what they got.
"""

import sys
import warnings

import numpy as np

import bayesdrop as bd
from bayesdrop.designs import ShardedDesign
from bayesdrop.fitting.solvers.preconditioners import Woodbury

TIGHT = bd.Newton(tol=1e-14)


def problem():
    """Rows in the order of the classes, so that no process has them all; the last row is there to fill up."""
    rng = np.random.default_rng(0)
    n, p = 240, 6
    X = rng.normal(size=(n, p))
    target = X @ rng.normal(size=p) + 0.5 * rng.normal(size=n)
    order = np.argsort(target)
    X, target = X[order], target[order]
    weight = rng.integers(1, 4, n).astype(float)
    X[-1], weight[-1] = 50.0, 0.0
    many = np.array(["high", "low", "middle"])[np.digitize(target, [-1, 1])]
    return X, target, (target > 0.3).astype(int), many, weight


def estimators():
    options = {"method": bd.Newton(tol=1e-14)}
    return {
        "one against the rest": bd.DropoutLogisticRegression(
            bd.PerFeature(), multiclass="one_vs_rest", class_weight="balanced", **options
        ),
        "support vectors": bd.DropoutSVC(bd.PerGroup(["a", "a", "b", "b", "b", "c"], bd.Beta(2, 2)), **options),
        "softmax": bd.DropoutLogisticRegression(0.3, multiclass="softmax", tol=1e-14),
        "tube": bd.DropoutSVR(0.2, **options),
        "ridge": bd.DropoutRidge(0.2, **options),
    }


MODELS = {
    "learnt": bd.Model(),
    "hinge": bd.Model(bd.Hinge(), rates=bd.Fixed(0.3)),
    "gaussian": bd.Model(bd.Logistic(expectation="gaussian"), rates=bd.Fixed(0.4)),
    "other noise": bd.Model(noise=bd.LaplaceNoise(0.3)),
    "regression": bd.Model(bd.Squared(), rates=bd.Fixed(0.2)),
}


def run(X, rows, numbers):
    """Everything that is compared, by name; ``rows`` are those whose labels are given."""
    _, target, y, many, weight = numbers
    found = {}
    for name, model in MODELS.items():
        labels = y if model.loss.binary else target
        fit = bd.fit(model, X, labels[rows], method=TIGHT, sample_weight=weight[rows])
        parts = {"weight": fit.weight, "objective": fit.objective_trace[-1], "rates": fit.rates}
        found |= {f"{name} {part}": value for part, value in parts.items()}
    fit = bd.fit(MODELS["learnt"], X, y[rows], method=bd.EM(tol=1e-14), sample_weight=weight[rows])
    found["EM objective"] = fit.objective_trace[-1]
    for name, estimator in estimators().items():
        labels = target if name in ("tube", "ridge") else many
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tube's last digits are round-off
            estimator.fit(X, labels[rows], sample_weight=weight[rows])
        found |= {f"{name} coef": estimator.coef_, f"{name} intercept": estimator.intercept_}
        found[f"{name} predicted"] = estimator.predict(X)
        if hasattr(estimator, "predict_proba"):
            found[f"{name} chances"] = estimator.predict_proba(X)
            found[f"{name} classes"] = estimator.classes_
    return found


def refusals(X, rows, numbers, rank):
    """Messages of what is wrong in one process or cannot be done in several."""
    y = numbers[2]
    spoilt = y[rows].copy() if rank == 0 else y[rows][:-1]
    calls = {
        "labels": lambda: bd.fit(bd.Model(), X, spoilt),
        "no weight": lambda: bd.fit(bd.Model(), X, y[rows], sample_weight=0.0),
        "one class": lambda: bd.fit(bd.Model(), X, 0 * y[rows]),
        "estimator": lambda: bd.DropoutSVC(0.3).fit(X, spoilt),
        "sample": lambda: bd.sample(bd.Model(), X, y[rows]),
        "path": lambda: bd.variational(bd.Model(), X, y[rows]),
        "unlabelled": lambda: bd.DropoutLogisticRegression(0.3).fit(X, y[rows], unlabelled=X),
        "partial": lambda: bd.DropoutSVC(0.3).partial_fit(X, y[rows], [0, 1]),
        "pairs": lambda: bd.fit(bd.Model(), X, y[rows], method=bd.Newton(preconditioner=Woodbury())),
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
            found[name] = "nothing was raised"
        except Exception as error:  # noqa: BLE001
            found[name] = f"{type(error).__name__}: {error}"
    return found


def main(rank, port, folder):
    import jax

    jax.config.update("jax_num_cpu_devices", 2)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=rank)
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    warnings.simplefilter("error")
    numbers = problem()
    n = len(numbers[0])
    rows = slice(rank * n // 2, (rank + 1) * n // 2)
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    with jax.enable_x64(True):
        X = jax.make_array_from_process_local_data(NamedSharding(mesh, P("rows", None)), numbers[0][rows])
    design = ShardedDesign(X)
    assert (design.shape, design.rows, design.processes) == ((n, 6), n // 2, 2)
    found = run(X, rows, numbers)
    r = np.arange(2.0 * n).reshape(n, 2)[rows]
    found |= {
        "gram": design.gram(r[:, 0]),
        "rmatvec": design.rmatvec(r),
        "above": design.sign_sums(r)[0],
        "total": design.total(r),
        "minimum": design.minimum(),
        "matvec": design.matvec(np.ones(6)),
    }
    np.savez(f"{folder}/found{rank}.npz", **found)
    said = refusals(X, rows, numbers, rank)
    np.savez(f"{folder}/refused{rank}.npz", **{name: np.array(text) for name, text in said.items()})


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
