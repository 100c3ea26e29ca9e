"""Files that a stranger changed: read to the same thing, or refused with words, and nothing beside them is read."""

import json
import os
import random
import subprocess
import sys
import warnings

import h5py
import numpy as np
import pytest
import xarray as xr

import bayesdrop as bd
from bayesdrop.description import attributes

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 4)), np.where(RNG.random(40) < 0.5, "yes", "no")


def fits():
    """Fits whose files hold every kind of part."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "learnt": bd.fit(bd.Model(rates=bd.PerFeature()), X, Y, feature_names=list("abcd")),
            "group": bd.fit(bd.Model(bd.Hinge(), rates=bd.PerGroup(["u", "u", "v", "v"])), X, Y),
            "classes": bd.fit(bd.Model(bd.Softmax(), rates=bd.PerFeature()), X, np.arange(40) % 3),
            "offset": bd.fit(bd.Model(bd.Squared(), rates=bd.Fixed(0.2)), X, X[:, 0] + X[:, 1], offset=np.ones(40)),
            "centred": bd.fit(bd.Model(rates=bd.Fixed(0.2)), X + 5, Y),
        }


FITS = fits()


def posterior():
    draws = xr.Dataset(
        {
            "weight": (("chain", "draw", "feature"), RNG.normal(size=(2, 30, 4))),
            "intercept": (("chain", "draw"), RNG.normal(size=(2, 30))),
            "rate": (("chain", "draw", "feature"), RNG.random((2, 30, 4))),
        },
        coords={"chain": [0, 1], "draw": range(30), "feature": list("abcd")},
    )
    observed = xr.Dataset({"y": ("obs_id", (Y == "yes").astype(np.int8))}, coords={"obs_id": range(40)})
    attrs = {"inference_library": "bayesdrop", **attributes(bd.Model(rates=bd.PerFeature()), np.array(["no", "yes"]))}
    return bd.groups.assemble({"posterior": draws.assign_attrs(attrs), "observed_data": observed}, attrs)


POSTERIOR = posterior()
LOADERS = {
    "fit": (FITS["learnt"].save, bd.Fit.load),
    "posterior": (lambda path: bd.groups.save(POSTERIOR, path), bd.groups.load),
    "likelihood": (
        lambda path: bd.log_likelihood(POSTERIOR, X, Y, path=path),
        lambda path: bd.log_likelihood(POSTERIOR, path=path),
    ),
}


def content(kind, loaded):
    """What was loaded, as text."""
    if kind == "fit":
        return repr(loaded.to_dataset().to_dict())
    return repr([bd.groups.dataset(loaded, name).to_dict() for name in bd.groups.group_names(loaded)])


@pytest.mark.parametrize("kind", LOADERS)
def test_any_byte_that_is_changed_is_noticed(kind, tmp_path):
    """Bytes exchanged, inserted and cut out, anywhere: the same, or a ValueError with the name of the file."""
    save, load = LOADERS[kind]
    path, chance = tmp_path / "file.nc", random.Random(0)
    save(path)
    whole = path.read_bytes()
    expected = content(kind, load(path))
    refused = 0
    for number in range(120):
        changed = bytearray(whole)
        for _ in range(chance.choice([1, 2, 50])):
            place = chance.randrange(len(changed))
            how = chance.randrange(3)
            if how == 0:
                changed[place] ^= 1 << chance.randrange(8)
            elif how == 1:
                changed[place:place] = chance.randbytes(chance.choice([1, 8]))
            else:
                del changed[place : place + chance.choice([1, 100])]
        other = tmp_path / f"{number}.nc"  # one that no cache knows
        other.write_bytes(changed)
        try:
            found = content(kind, load(other))
        except ValueError as error:
            refused += 1
            found = expected if str(other) in str(error) and " or written by another program; " in str(error) else error
        assert found == expected
    assert refused > 100


UNSEALED = """
import random, sys, warnings
import h5py
import bayesdrop as bd

warnings.simplefilter("ignore")
kind, path, other = sys.argv[1:]
load = {"fit": bd.Fit.load, "posterior": bd.groups.load}[kind]
with open(path, "rb") as file:
    whole = file.read()[:-48]  # without the checksum, as other programs leave it
chance = random.Random(1)
for _ in range(30):
    changed = bytearray(whole)
    for _ in range(chance.choice([1, 2, 20])):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    with open(other, "wb") as file:
        file.write(changed)
    try:
        load(other)
    except ValueError:
        pass
print("alive")
"""


@pytest.mark.parametrize("kind", ["fit", "posterior"])
def test_without_a_checksum_it_is_an_answer_or_a_refusal(kind, tmp_path):
    """In a process of its own, for what HDF5 makes of damaged files might end it."""
    LOADERS[kind][0](tmp_path / "file.nc")
    done = subprocess.run(
        [sys.executable, "-c", UNSEALED, kind, str(tmp_path / "file.nc"), str(tmp_path / "other.nc")],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr[-2000:]


@pytest.mark.parametrize("kind", LOADERS)
def test_a_file_that_another_program_changed_is_read(kind, tmp_path):
    """Who writes to it removes the checksum."""
    save, load = LOADERS[kind]
    save(tmp_path / "file.nc")
    with h5py.File(tmp_path / "file.nc", "r+") as file:
        file.attrs["note"] = "mine"
        for group in file.values():
            if isinstance(group, h5py.Group):
                group.attrs["note"] = "mine"
    load(tmp_path / "file.nc")


# Structure.


def external(file, where, name, folder):
    """A dataset whose numbers are another file's bytes."""
    (folder / "secret.txt").write_bytes(b"secret!!" * 240)
    shape, dtype = file[where][name].shape, file[where][name].dtype
    replace(file[where], name, shape=shape, dtype=dtype, external=[(str(folder / "secret.txt"), 0, 1920)])


def virtual(file, where, name, folder):
    """A dataset that is put together from another file's."""
    shape = file[where][name].shape
    with h5py.File(folder / "secret.h5", "w") as other:
        other["x"] = np.full(shape, 0.5)
    layout = h5py.VirtualLayout(shape, "f8")
    layout[...] = h5py.VirtualSource(str(folder / "secret.h5"), "x", shape)
    old = dict(file[where][name].attrs)
    del file[where][name]
    file[where].create_virtual_dataset(name, layout).attrs.update(plain(old))


def external_link(file, where, name, folder):
    """A name that leads to another file."""
    with h5py.File(folder / "secret.h5", "w") as other:
        other["x"] = np.full(file[where][name].shape, 0.5)
    del file[where][name]
    file[where][name] = h5py.ExternalLink(str(folder / "secret.h5"), "x")


def soft_link(file, where, name, folder):
    """A name that leads nowhere."""
    del file[where][name]
    file[where][name] = h5py.SoftLink("/nowhere")


def claim(file, where, name, folder):
    """A few bytes that say to be terabytes."""
    replace(file[where], name, shape=(2**32, 1000)[: file[where][name].ndim] or (2**40,), dtype="f8", chunks=True)


def claim_packed(file, where, name, folder):
    """The same, compressed."""
    shape = (2**40,)
    replace(file[where], name, shape=shape, dtype="f8", chunks=(2**27,), compression="gzip")


def claim_whole(file, where, name, folder):
    """The same in one piece that was never written."""
    replace(file[where], name, shape=(2**33,), dtype="f8")


def complex_numbers(file, where, name, folder):
    replace(file[where], name, data=file[where][name][...].astype(complex))


def texts(file, where, name, folder):
    replace(file[where], name, data=np.full(file[where][name].shape, b"1.5"))


def references(file, where, name, folder):
    data = np.full(file[where][name].shape, file.ref, dtype=h5py.ref_dtype)
    replace(file[where], name, data=data, dtype=h5py.ref_dtype)


def lists(file, where, name, folder):
    replace(file[where], name, shape=file[where][name].shape, dtype=h5py.vlen_dtype(np.float64))


def plain(attrs):
    """Attributes that may be copied from one dataset to another."""
    return {key: value for key, value in attrs.items() if key not in ("DIMENSION_LIST", "REFERENCE_LIST")}


def replace(group, name, **new):
    """Another dataset in the place of one, on the same dims."""
    old = group[name]
    scales = [[dim[number] for number in range(len(dim))] for dim in old.dims]
    attrs = plain(old.attrs)
    del group[name]
    made = group.create_dataset(name, **new)
    made.attrs.update(attrs)
    for dim, known in zip(made.dims, scales, strict=False):
        for scale in known:
            dim.attach_scale(scale)


STRUCTURE = [
    external, virtual, external_link, soft_link, claim, claim_packed, claim_whole, complex_numbers, texts, references,
    lists,
]  # fmt: skip


@pytest.mark.parametrize("damage", STRUCTURE)
@pytest.mark.parametrize(("kind", "where", "name"), [("fit", "/", "weight"), ("posterior", "posterior", "weight")])
def test_parts_of_another_kind_are_refused(kind, where, name, damage, tmp_path):
    """Before, the bytes of another file came back as ``weight``."""
    save, load = LOADERS[kind]
    path = tmp_path / "file.nc"
    save(path)
    with h5py.File(path, "r+") as file:
        damage(file, where, name, tmp_path)
    with pytest.raises(ValueError, match=r"cannot be read as a|not a fit as Fit\.save writes it") as caught:
        load(path)
    assert "secret" not in str(caught.value).replace(str(tmp_path), "")


def test_a_text_that_stands_in_many_places_is_not_read_in_all_of_them(tmp_path):
    """Ten thousand pointers to one text of a megabyte are ten gigabytes in memory."""
    path = tmp_path / "file.nc"
    bd.groups.save(POSTERIOR, path)
    with h5py.File(path, "r+") as file:
        texts = file["posterior"].create_dataset("texts", (10_000,), h5py.string_dtype())
        texts[0] = "x" * 10**6
        place = texts.id.get_offset()
    with open(path, "r+b") as file:
        file.seek(place)
        pointer = file.read(16)
        file.seek(place)
        file.write(pointer * 10_000)
    with pytest.raises(ValueError, match=r"it claims \d+ bytes of text and has"):
        bd.groups.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
@pytest.mark.parametrize("kind", LOADERS)
def test_only_files_are_read(kind, make, tmp_path):
    make(tmp_path / "file.nc")
    with pytest.raises(ValueError, match="it is a (folder|device, a pipe or a socket)"):
        LOADERS[kind][1](tmp_path / "file.nc")


# Values, in memory as from a file.

POOL = [None, True, -1, 0.5, 1e308, 10**400, float("nan"), float("inf"), "", "x", [], [1], [1, "a"], {}, "a" * 100]


def mutated_json(value, chance):
    if isinstance(value, dict) and value and chance.random() < 0.85:
        key = chance.choice(sorted(value))
        rest = {name: part for name, part in value.items() if name != key}
        return rest if chance.random() < 0.1 else rest | {key: mutated_json(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        middle = [] if chance.random() < 0.2 else [mutated_json(value[place], chance)]
        return value[:place] + middle + value[place + chance.randrange(2) :]
    return chance.choice(POOL)


def mutated(data, chance):
    """A dataset with one variable, label or attribute that is another, elsewhere, or gone."""
    if chance.random() < 0.5:
        attrs = dict(data.attrs)
        name = chance.choice(sorted(attrs))
        if name in ("model_description", "classes"):
            attrs[name] = json.dumps(mutated_json(json.loads(attrs[name]), chance))
        elif chance.random() < 0.3:
            del attrs[name]
        else:
            attrs[name] = chance.choice(POOL)
        changed = data.copy()
        changed.attrs = attrs
        return changed
    name = chance.choice(sorted(map(str, data.variables)))
    values, dims = data[name].values, data[name].dims
    how = chance.randrange(6)
    if how == 0:
        return data.drop_vars(name)
    if how == 1 and dims:
        return data.isel({dims[0]: slice(chance.randrange(3))})
    if how == 2 and dims:
        return data.rename({dims[0]: "other"})
    if how == 3 or values.dtype.kind not in "iuf":
        same = {
            "complex": values.astype(str) == "",
            "text": np.full(values.shape, "a"),
            "number": np.zeros(values.shape),
        }
        new = same[chance.choice(sorted(same))]
    else:
        new = values.astype(float if how == 4 else complex)
        new.reshape(-1)[: chance.randrange(1, 3)] = chance.choice([np.nan, np.inf, -1.0, 7.0, 1e300])
    return data.assign_coords({name: (dims, new)}) if name in data.coords else data.assign({name: (dims, new)})


@pytest.mark.parametrize("name", FITS)
def test_mutated_fits_are_fits_or_refused(name):
    """Whatever is read can be shown and predicts."""
    chance = random.Random(name)
    read, refused = [], []
    for _ in range(150):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers near the largest
            try:
                fit = bd.Fit.from_dataset(mutated(FITS[name].to_dataset(), chance))
            except ValueError as error:
                refused.append(str(error))
                continue
            read.append(str(fit))
            assert np.all((fit.rates >= 0) & (fit.rates <= 1))
            assert np.all(np.isfinite(fit.weight))
    assert len(read) > 10
    assert len(refused) > 50
    assert all("this is not a fit as Fit.save writes it: " in message for message in refused)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": np.nan}, "expected finite numbers .* in 'weight', got nan"),
        ({"intercept": np.inf}, "in 'intercept', got inf"),
        ({"rate": 7.0}, "expected finite numbers from 0 to 1 in 'rate', got 7"),
        ({"rate": -0.1}, "in 'rate', got -0.1"),
        ({"objective": np.nan}, "in 'objective'"),
        ({"rate_occurrences": -1.0}, "in 'rate_occurrences'"),
        ({"rate_a": 0.0}, "expected numbers above 0"),
        ({"n_iter": np.inf}, "expected a whole number in 'n_iter', got inf"),
        ({"n_iter": -3}, "expected a whole number in 'n_iter', got -3"),
        ({"classes": '["yes", "yes"]'}, "expected different labels"),
        ({"classes": "[NaN, 1.0]"}, "expected different labels"),
        ({"classes": '[1, "1"]'}, "expected a JSON list of two labels"),
        ({"status": "SPLENDID"}, "SPLENDID"),
    ],
)
def test_each_part_has_its_range(change, message):
    data = FITS["learnt"].to_dataset()
    for name, value in change.items():
        if name in data:
            data[name] = data[name].copy(data=np.full(data[name].shape, value))
        else:
            data.attrs[name] = value
    with pytest.raises(ValueError, match=f"this is not a fit as Fit.save writes it: .*{message}"):
        bd.Fit.from_dataset(data)


def test_a_feature_twice_is_refused():
    data = FITS["learnt"].to_dataset().assign_coords(feature=list("abca"))
    with pytest.raises(ValueError, match=r"expected 4 labels on 'feature', each once .* repeated: \['a'\]"):
        bd.Fit.from_dataset(data)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("weight", np.nan, "in 'weight', got nan"), ("rate", 1.5, "from 0 to 1 in 'rate', got 1.5")],
)
def test_draws_that_cannot_be_are_refused(name, value, message, tmp_path):
    group = bd.groups.dataset(POSTERIOR, "posterior").copy(deep=True)
    group[name][0, 3] = value
    bd.groups.save(bd.groups.extend(POSTERIOR, {"posterior": group}), tmp_path / "posterior.nc")
    with pytest.raises(ValueError, match=message):
        bd.groups.load(tmp_path / "posterior.nc")


def test_what_memory_has_no_room_for_is_refused(tmp_path, monkeypatch):
    bd.groups.save(POSTERIOR, tmp_path / "posterior.nc")
    monkeypatch.setattr("bayesdrop._memory.memory_limit", lambda: 3000)
    with pytest.raises(ValueError, match=r"its numbers take 0\.\d+ MB, and this process may have 0.003 MB"):
        bd.groups.load(tmp_path / "posterior.nc")
