"""Laws of the design whose rows lie on devices; :mod:`test_sharded` runs them where JAX has four."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import bayesdrop as bd
from bayesdrop.data.dataset import as_dataset
from bayesdrop.designs import DenseDesign, Design, ShardedDesign, as_design
from bayesdrop.designs.sharded import is_sharded
from bayesdrop.designs.sharded import products as sharded_products
from bayesdrop.warnings import NarrowIntervalsWarning

SAME = {"rtol": 1e-12, "atol": 1e-12}


def _mesh(shape, names):
    return Mesh(np.array(jax.devices()).reshape(shape), names)


def _put(X, mesh, spec):
    with jax.enable_x64(True):
        return jax.device_put(X, NamedSharding(mesh, spec))


def _explicit(X):
    mesh = jax.make_mesh((4,), ("data",), axis_types=(AxisType.Explicit,))
    return _put(X, mesh, P("data", None))


def _backwards(X):
    return _put(X, Mesh(np.array(jax.devices()[::-1]), ("r",)), P("r"))


PLACES = {
    "rows": lambda X: _put(X, _mesh(4, "r"), P("r", None)),
    "backwards": _backwards,
    "explicit": _explicit,
    "two axes": lambda X: _put(X, _mesh((2, 2), ("a", "b")), P(("a", "b"), None)),
    "copies": lambda X: _put(X, _mesh((2, 2), ("chains", "rows")), P("rows", None)),
    "same everywhere": lambda X: _put(X, _mesh(4, "chains"), P()),
    "one device": lambda X: _put(X, Mesh(np.array(jax.devices()[2:3]), "r"), P("r")),
}


@pytest.fixture(name="X")
def _matrix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 7)) * (rng.random((24, 7)) < 0.4)
    X[3], X[:, 2] = 0, 0
    return X


def products(design, X):
    """Every product with vectors, blocks and blocks without columns, as pairs (got, expected)."""
    rng = np.random.default_rng(1)
    w, r, dense = rng.normal(size=(X.shape[1], 3)), rng.normal(size=(X.shape[0], 3)), DenseDesign(X)
    few = np.where(np.arange(X.shape[0]) % 9 == 4, np.abs(r[:, 1]), 0.0)
    calls = [
        ("matvec", w), ("matvec", w[:, 0]), ("rmatvec", r), ("rmatvec", r[:, 0]),
        ("sq_matvec", w), ("sq_matvec", w[:, 1]), ("sq_rmatvec", r), ("sq_rmatvec", r[:, 1]),
        ("pair_matvec", w, w[:, :2]), ("pair_matvec", w, w[:, :0]),
        ("pair_rmatvec", r, r[:, :1]), ("pair_rmatvec", r[:, :0], r),
        ("sampled_products", r, w, np.abs(w[:, 0]), w[:, 1]),
        ("gram", np.abs(r[:, 0])), ("gram", few), ("gram", 0 * few),
        ("outer_gram", np.abs(w[:, 0])), ("sign_sums", r), ("total", r), ("minimum",),
    ]  # fmt: skip
    for name, *arguments in calls:
        yield name, getattr(design, name)(*arguments), getattr(dense, name)(*arguments)


def check_products(design, X):
    for name, got, expected in products(design, X):
        pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
        for one, other in pairs:
            assert np.shape(one) == np.shape(other), name
            assert isinstance(one, np.ndarray | float), name
            np.testing.assert_allclose(one, other, **SAME, err_msg=name)


# Each place compiles programs of its own; those of one array by rows and of copies run by default, in one precision.
@pytest.mark.default_cases("rows-float64", "copies-float32")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("place", PLACES)
def test_products(X, place, dtype, check_normal_product, check_product_sums, check_each_block):
    X = X.astype(dtype)
    design = ShardedDesign(PLACES[place](X))
    assert isinstance(design, Design)
    assert (design.shape, design.rows, design.processes) == (X.shape, len(X), 1)
    X = X.astype(np.float64)
    check_products(design, X)
    w = np.random.default_rng(2).normal(size=(7, 3))
    check_normal_product(design, X, w, w[::-1] ** 2)
    check_product_sums(design, X)
    check_each_block(design, X)
    np.testing.assert_array_equal(np.asarray(design), X)
    rows, columns, values = (np.concatenate(part) for part in zip(*design.entries(), strict=True))
    again = np.zeros_like(X)
    again[rows, columns] = values
    np.testing.assert_array_equal(again, X)
    assert np.all(np.diff(rows) >= 0)
    for part, some in design.parts(5):
        np.testing.assert_array_equal(some.matvec(np.eye(7)), X[part])


@pytest.mark.default_cases("float32")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_of_a_device_and_the_rows_that_remain(X, dtype, monkeypatch):
    """Six rows a device, in blocks of four and two, then one by one; single precision is summed in double."""
    X = 1e4 + X.astype(dtype)
    for entries in (28, 1):
        monkeypatch.setattr(sharded_products, "BLOCK", entries)
        jax.clear_caches()  # the size is fixed where it is compiled
        check_products(ShardedDesign(PLACES["rows"](X)), X.astype(np.float64))
    monkeypatch.undo()
    jax.clear_caches()


@pytest.mark.default_cases("bfloat16")
@pytest.mark.parametrize("dtype", [np.int32, np.bool_, jnp.bfloat16], ids=["int32", "bool", "bfloat16"])
def test_other_types_of_numbers(X, dtype):
    array = _put(jnp.asarray(3 * X, dtype=dtype), _mesh(4, "r"), P("r"))
    check_products(ShardedDesign(array), np.asarray(array.astype(np.float32)).astype(np.float64))


def test_single_precision_stays_so_on_the_devices(X):
    design = ShardedDesign(PLACES["rows"](X.astype(np.float32)))
    assert np.asarray(design).dtype == np.float32


def test_nothing_is_compiled_twice(X):
    design = ShardedDesign(PLACES["rows"](X))
    list(products(design, X))
    with jax.log_compiles(False), jax.check_tracer_leaks(False):
        before = [getattr(sharded_products, name)._cache_size() for name in sharded_products.__all__]
        list(products(ShardedDesign(PLACES["rows"](2 * X)), 2 * X))
        assert [getattr(sharded_products, name)._cache_size() for name in sharded_products.__all__] == before


def test_what_stays_on_its_devices(X):
    """An array on one CPU goes on as NumPy's, wherever it can."""
    assert all(is_sharded(PLACES[name](X)) for name in PLACES if name != "one device")
    assert not is_sharded(PLACES["one device"](X))
    assert not is_sharded(jnp.asarray(X, dtype=jnp.float32))
    assert isinstance(as_design(PLACES["rows"](X)), ShardedDesign)


def test_preferences_are_those_of_the_dense_design(X):
    for matrix in (X, X.T.reshape(4, 42), np.zeros((4, 60)), np.zeros((4, 3000))):
        design, dense = ShardedDesign(PLACES["rows"](matrix)), DenseDesign(matrix)
        assert (design.prefers_gram, design.prefers_outer_gram) == (dense.prefers_gram, dense.prefers_outer_gram)


def test_columns_on_several_devices_are_refused(X):
    with pytest.raises(ValueError, match="columns lie on different devices"):
        ShardedDesign(_put(X[:, :4], _mesh(4, "c"), P(None, "c")))


def test_checks_are_those_of_other_arrays(X):
    """The same words as for the same matrix in memory."""
    y = np.arange(len(X)) % 2
    with_nan, with_infinity = X.copy(), X.copy()
    with_nan[5, 1], with_infinity[20, 6] = np.nan, -np.inf
    for bad in (with_nan, with_infinity, with_nan.astype(np.float32), X[:, :0], X + 1j):
        messages = []
        for matrix in (bad, PLACES["rows"](bad)):
            with pytest.raises(ValueError) as caught:  # noqa: PT011
                as_dataset(matrix, y, wrap=as_design)
            messages.append(str(caught.value).split("\n")[0])
        assert messages[0] == messages[1]
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        as_dataset(PLACES["backwards"](X[:, 0]), y, wrap=as_design)
    with pytest.raises(ValueError, match="y: expected 24 entries"):
        as_dataset(PLACES["rows"](X), y[:-1], wrap=as_design)
    with pytest.raises(ValueError, match="all weights are zero"):
        as_dataset(PLACES["rows"](X), y, 0.0, wrap=as_design)
    with pytest.raises(ValueError, match="every row of class 1 has weight zero"):
        as_dataset(PLACES["rows"](X), y, 1.0 - y, wrap=as_design)
    with pytest.raises(ValueError, match="expected two classes, got 3"):
        as_dataset(PLACES["rows"](X), np.arange(24) % 3, wrap=as_design)


def test_what_needs_arrays_gets_one(X):
    data = as_dataset(PLACES["rows"](X), np.arange(24) % 2)
    np.testing.assert_array_equal(data.X, X)
    assert isinstance(data.X, np.ndarray)
    with pytest.warns(NarrowIntervalsWarning):
        bd.variational(bd.Model(), PLACES["rows"](X), np.arange(24) % 2)
