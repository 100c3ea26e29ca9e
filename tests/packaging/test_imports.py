"""The rooms of the package stand on floors: imports go down, and never in a circle.

Every ``from`` inside the package counts, those inside functions and those for type checkers too.
"""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bayesdrop

PACKAGE = Path(bayesdrop.__file__).parent
FLOORS = (
    ("_progress",),
    ("_typing", "_validation", "_arviz", "_display", "warnings"),
    ("_atomic_files", "_memory", "_stored", "distributions"),
    ("_netcdf", "program_cache"),
    ("priors",),
    ("noise", "losses", "rates"),
    ("designs",),
    ("data",),
    ("moments", "model", "linalg"),
    ("description",),
    ("fitting",),
    ("sampling",),
    ("hmc",),
    ("gibbs",),
    ("posterior",),
    ("estimators", "variational_bayes"),
    ("baselines", "effects", "factorization", "latent", "selection"),
    ("plots",),
    ("cli",),
)
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}


def modules(folder):
    """Dotted names below the package, with their files; a package is its ``__init__``."""
    found = {}
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name, path, known):
    """Modules of the package that a file imports."""
    home = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            place = home[: len(home) - node.level + 1] + (node.module or "").split(".")
            module = ".".join(part for part in place if part)
            found |= {full if (full := f"{module}.{a.name}".strip(".")) in known else module for a in node.names}
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            found |= {full.removeprefix("bayesdrop").strip(".") for full in names if full.split(".")[0] == "bayesdrop"}
    return found - {"", name}


@cache
def arrows(folder):
    known = modules(folder)
    return {name: imports(name, path, known) for name, path in known.items() if name}


def upward(graph):
    room = lambda name: name.split(".")[0]  # noqa: E731
    return sorted(
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if room(name) != room(other) and FLOOR[room(other)] >= FLOOR[room(name)]
    )


def test_every_room_has_a_floor():
    assert {name.split(".")[0] for name in arrows(PACKAGE)} <= set(FLOOR)


def test_no_import_goes_up():
    assert upward(arrows(PACKAGE)) == []


def test_no_modules_import_each_other_in_a_circle():
    """A package's ``__init__`` re-exports its modules, which may import their siblings: files alone are nodes."""
    known = modules(PACKAGE)
    graph = arrows(PACKAGE)
    files = {name: {other for other in others if known[other].name != "__init__.py"} for name, others in graph.items()}
    TopologicalSorter(files).prepare()


def test_no_folders_import_each_other_in_a_circle():
    """Beside each other: a folder and those within it are one room."""
    folder = lambda name, path: name if path.name == "__init__.py" else name.rpartition(".")[0] or name  # noqa: E731
    known = modules(PACKAGE)
    graph: dict[str, set[str]] = {}
    for name, others in arrows(PACKAGE).items():
        mine = folder(name, known[name])
        there = {folder(other, known[other]) for other in others}
        graph.setdefault(mine, set()).update(
            other
            for other in there
            if not f"{other}.".startswith(f"{mine}.") and not f"{mine}.".startswith(f"{other}.")
        )
    TopologicalSorter(graph).prepare()


def test_an_arrow_that_runs_back_is_found(tmp_path):
    for name, text in {
        "fitting/__init__": "",
        "fitting/fit": "def late():\n    from ..posterior.draws import read\n",
        "posterior/__init__": "",
        "posterior/draws": "from ..fitting import fit\n",
    }.items():
        (tmp_path / f"{name}.py").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text)
    graph = arrows(tmp_path)
    assert upward(graph) == ["fitting.fit imports posterior.draws"]
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def asks_where_rows_lie(folder):
    """Places outside ``designs/`` that ask what holds the rows, instead of asking the design for what they want."""
    question = re.compile(
        r"\b(is_dask|is_elsewhere|keeps_rows|on_this_machine)\b|hasattr\([^)]*\"(tocsr|tocsc|indptr)\""
        r"|isinstance\([^)]*(\w+Design|Blocks)\b"
    )
    return sorted(
        f"{path.relative_to(folder)}:{number}"
        for path in folder.rglob("*.py")
        if path.relative_to(folder).parts[0] != "designs"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if question.search(line)
    )


def test_nobody_but_designs_asks_where_the_rows_lie(tmp_path):
    assert asks_where_rows_lie(PACKAGE) == []
    (tmp_path / "fit.py").write_text('if hasattr(X, "tocsr"):\n    pass\nelif isinstance(X, DaskDesign):\n    pass\n')
    assert asks_where_rows_lie(tmp_path) == ["fit.py:1", "fit.py:3"]
