"""Ten thousand stored formulas that a stranger made, in a process that may do nothing but compute.

``python formula_attacker.py SEED COUNT`` reads formulas with parts exchanged, encodes a
table whose columns are called like functions, modules and builtins, and prints how many were encoded and refused, as
JSON. Any effect besides numbers, any error but ValueError, and more than 200 MB of memory end it.
"""

import builtins
import json
import random
import re
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from bayesdrop import from_formula
from bayesdrop.data.formulas.encoder import StoredFormula
from bayesdrop.data.formulas.formula import encode_formula
from bayesdrop.data.formulas.language.limits import FUNCTIONS

NAMES = [
    "np", "contr", "os", "sys", "subprocess", "pickle", "builtins", "log", "C", "I", "Q", "bs", "poly", "hashed",
    "scale", "self", "__class__", "__import__", "__builtins__", "__subclasses__", "__globals__", "to_csv",
    "map", "eval",
    "query",
    "numbers", "Apply", "Column", "Outside", "system", "popen", "load", "fromfile", "memmap", "loads", "a",
    "b", "`", "'",
]  # fmt: skip
NAMES += [name for name in dir(builtins) if name.islower()]
CODE = [
    'I(a + 0*(("`", __import__("os").system("touch harm"), "`") == 0))', 'contr.to_csv("harm")', "contr.map(eval)",
    "np.power(9, np.power(9, 9, dtype=object), dtype=object)", "1 << 10**10", "[0] * 10**9", "poly(a, degree=10**6)",
    "poly(a, 1000000)", "bs(a, df=10**7)", "bs(a, df=10000000)", "hashed(a, levels=10**9)",
    "hashed(a, levels=1000000000)",
    "np.load('harm')", "np.save('harm', a)", "np.memmap('harm', mode='w+', shape=9)", "a.to_pickle('harm')",
    "9**9**9",
    "().__class__.__base__.__subclasses__()", "(lambda: 1)()", "[x for x in a]", "f'{a}'", "'a' * 10**9",
    "a" + " + a" * 900,
    "(" * 150 + "a" + ")" * 150, "-" * 900 + "a", "np." + "log(" * 90 + "a" + ")" * 90, "`a`", "`", "``",
    '"`"', "\\", "\0",
    "a := 3", "a; b", "np.lib.npyio.np.load", "np.add(a, a, a)", "np.add(a, a, out=a)", "np.add.at(a, 0, 1)",
    "Q('harm')",
    "np.exp(a, where=a)", "np.ones(10**10)", "np.where(a)", "np.clip(a, 0, 1, out=a)", "a[0]", "a @ a",
    "1e999", "0x" + "9" * 400,
]  # fmt: skip
NUMBERS = [
    0, -1, 1, 2, 3, 0.5, 1e308, -1e308, 5e-324, 10**9, 2**31, 2**63, 10**400, float("nan"), float("inf"), True, False,
]  # fmt: skip


def table(n, rng):
    """Numbers under every name, and columns that the formulas take."""
    columns = {name: rng.normal(size=n) for name in [*NAMES, *FUNCTIONS]}
    columns |= {
        "age": rng.normal(40, 3, n), "dose": rng.gamma(2, size=n) + 0.1, "two words": rng.normal(size=n),
        "site": rng.choice(["north", "south"], n).tolist(), "grade": rng.integers(1, 4, n),
    "days": rng.integers(1, 9, n),
        "ill": rng.choice(["no", "yes"], n).tolist(),
    }  # fmt: skip
    return pd.DataFrame(columns)


def seeds(frame):
    """Stored formulas to change."""
    frame = frame[["age", "dose", "two words", "site", "grade", "days", "ill"]]
    formulas = (
        "ill ~ center(age) + scale(dose)*site + bs(age, df=5) + poly(dose, 2) + C(grade)*site + `two words`:site",
        "{ill == 'yes'} ~ np.log(dose)*site + I(age**2) + cr(age, df=4) + cc(dose, df=3) + hashed(site, levels=3)",
        "days ~ np.where(age > 40, dose, 1) + np.clip(dose, 0, 1) + offset(np.log(days)) + (1 | site) + "
        "(0 + dose | grade)",
    )
    made = [encode_formula(formula, frame).to_json() for formula in formulas]
    made.append(from_formula("~ age*C(site, contr.sum) + C(grade, contr.poly)", frame, full_rank=True).to_json())
    return [json.loads(text) for text in made]


def places(value, found):
    """Every part of a JSON value, by the object that has it and its place there."""
    for key in value if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], dict | list):
            places(value[key], found)
    return found


def changed(known, chance, others):
    """The text of a formula with some parts exchanged."""
    known = json.loads(json.dumps(known))
    for _ in range(chance.choice([1, 1, 2, 5])):
        found = places(known, [])
        if not found:
            break
        owner, key = chance.choice(found)
        value, how = owner[key], chance.randrange(10)
        if isinstance(value, str) and how < 8:
            owner[key] = chance.choice(
                [NAMES, list(FUNCTIONS), CODE, ["Apply", "Column", "Outside", "Levels"]][how % 4]
            )
        elif isinstance(value, int | float) and how < 8:
            owner[key] = chance.choice(NUMBERS)
        elif isinstance(value, list) and how < 3:
            value.extend(value * chance.choice([1, 1, 2000 // (1 + len(str(value)))]))
        elif isinstance(value, list) and how == 3:
            value.reverse()
        elif isinstance(value, list) and how == 4:
            owner[key] = f"nested {chance.choice([3, 40, 900, 50_000])}"
        elif how == 5 and isinstance(owner, dict):
            del owner[key]
        elif how == 6:
            owner[key] = chance.choice([None, [], {}, "", 7, [[]], {"array": [1]}, {"dict": [[1, 2]]}])
        else:
            other, place = chance.choice(others)
            owner[key] = json.loads(json.dumps(other[place]))
    text = json.dumps(known)
    opening, closing = chance.choice(
        [("[", "]"), ('["Apply", "exp", [', "]]"), ('{"array":', "}"), ('{"dict":[[1,', "]]}")]
    )
    return re.sub(r'"nested (\d+)"', lambda found: opening * int(found[1]) + "1" + closing * int(found[1]), text)


def forbid(event, arguments):
    """End the process at anything but arithmetic."""
    quiet = event in (
        "object.__getattr__",
        "object.__setattr__",
        "sys._getframe",
        "time.sleep",
        "builtins.id",
        "gc.get_objects",
    )
    if WATCHED and not quiet:
        WATCHED.clear()
        raise SystemExit(f"{event} {arguments!r}")


def encode(text, frame):
    """What every reader of a file calls."""
    encoder = StoredFormula("a formula", text).encoder
    for part in (encoder.transform, encoder.offset_of, encoder.response_of):
        found = part(frame)
        assert found is None or hasattr(found, "nnz") or found.dtype.kind in "bfiU", found.dtype
    return encoder.levels


WATCHED = []

if __name__ == "__main__":
    chance, count = random.Random(int(sys.argv[1])), int(sys.argv[2])
    frame = table(12, np.random.default_rng(0))
    known = seeds(table(60, np.random.default_rng(1)))
    for one in known:  # imports happen before the watch
        try:
            encode(json.dumps(one), frame)
        except ValueError:
            pass
    others = [place for one in known for place in places(one, [])]
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 200 * 2**20,) * 2)
    sys.addaudithook(forbid)
    result, tried = {"encoded": 0, "refused": 0, "slowest": 0.0}, 0
    WATCHED.append(True)
    while tried < count:
        try:
            text = changed(chance.choice(known), chance, others) if chance.random() < 0.99 else chance.choice(CODE)
        except MemoryError:  # copies of nested lists, whose text would be gigabytes
            continue
        tried += 1
        start = time.process_time()
        try:
            encode(text, frame)
            result["encoded"] += 1
        except ValueError as error:
            result["refused"] += bool(str(error))
        result["slowest"] = max(result["slowest"], time.process_time() - start)
    WATCHED.clear()
    print(json.dumps(result))
