"""How large the package may be, room by room: whoever needs more edits the table here, in the open.

Lines of code are those that are no blanks, comments or docstrings. Constants are numbers in capitals at the head of a
module: a size that decides between algorithms belongs into the argument of one.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest

import bayesdrop

PACKAGE = Path(bayesdrop.__file__).parent
# Files, lines of code and constants of each room; "." has the modules of the package itself.
# Priors by name, about means and of the intercept, and their table, are in each room that solves, samples or draws.
ROOMS = {
    "fitting": (43, 5255, 12),
    "posterior": (48, 5422, 7),  # projections; weights of the draws without a row; refusals of rows, responses by name
    "hmc": (24, 3055, 4),
    "designs": (20, 2192, 1),
    "data": (25, 3279, 6),  # a formula is data for an interpreter, so that a file runs nothing
    "gibbs": (25, 3561, 14),  # indicators beside dropped entries
    "sampling": (15, 1167, 6),
    "latent": (13, 925, 2),
    "losses": (14, 1428, 3),  # one cost of a noised score for all smooth losses, about the mode of its row
    ".": (14, 1240, 5),
    "estimators": (10, 1141, 1),
    "effects": (15, 1519, 0),  # statements, read and answered; functions that compare; names of events; baselines
    "priors": (14, 1467, 5),
    "factorization": (8, 978, 6),
    "plots": (11, 1333, 9),  # checks of a posterior: data sets, rootograms, transforms of rows left out
    "distributions": (9, 721, 4),
    "variational_bayes": (6, 691, 0),
    "baselines": (7, 683, 1),
    "_validation": (6, 697, 4),
    "selection": (5, 414, 0),
    "rates": (5, 276, 5),
    "noise": (5, 238, 1),
    "cli": (6, 698, 5),
    "linalg": (2, 97, 0),
}
LARGEST_FOLDER, LONGEST_FILE, LONGEST_PROTOCOL = 15, 400, 22
# What a reader cannot check: machine code by hand, memory of another library by address, its caches thrown away.
FORBIDDEN = re.compile(r"llvmlite|inttoptr|carray\(")


def docstrings(tree):
    """Numbers of the lines of docstrings."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                found |= set(range(first.lineno, first.end_lineno + 1))
    return found


def numbers(node):
    """Numbers in a literal."""
    match node:
        case ast.Constant(value=bool()):
            return 0
        case ast.Constant(value=int() | float()):
            return 1
        case ast.UnaryOp():
            return numbers(node.operand)
        case ast.Tuple():
            return sum(map(numbers, node.elts))
        case ast.BinOp():
            return int(bool(numbers(node.left) and numbers(node.right)))
    return 0


def constants(tree):
    """Numbers that a module gives to names in capitals."""
    total = 0
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [n for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t])]
        if (
            getattr(node, "value", None)
            and names
            and all(isinstance(n, ast.Name) and n.id.strip("_").isupper() for n in names)
        ):
            total += numbers(node.value)
    return total


def sizes(folder):
    """Files, lines of code and constants of each room."""
    found = defaultdict(Counter)
    for path in folder.rglob("*.py"):
        parts, text = path.relative_to(folder).parts, path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        told = docstrings(tree)
        code = [
            line
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.strip().startswith("#") and number not in told
        ]
        found[parts[0] if len(parts) > 1 else "."].update(files=1, code=len(code), constants=constants(tree))
    return {room: (size["files"], size["code"], size["constants"]) for room, size in found.items()}


def test_no_room_grows_unseen():
    found = sizes(PACKAGE)
    assert sorted(found) == sorted(ROOMS)
    larger = {room: size for room, size in found.items() if any(a > b for a, b in zip(size, ROOMS[room], strict=True))}
    assert larger == {}, "make it smaller, or edit ROOMS and say why: files, lines of code, constants"


def test_the_table_is_no_larger_than_the_rooms():
    """What was deleted is not to be filled again: five lines of leeway, and what is a hundredth."""
    slack = {
        room: size
        for room, size in sizes(PACKAGE).items()
        if ROOMS[room][0] > size[0] or ROOMS[room][1] > 1.01 * size[1] + 5 or ROOMS[room][2] > size[2]
    }
    assert slack == {}, "lower ROOMS to these"


def test_files_folders_and_protocols_are_no_larger_than_a_reader_takes_in():
    folders, protocols = Counter(), {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= LONGEST_FILE, path
        folders[path.parent] += path.name != "__init__.py"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Protocol") for base in node.bases):
                protocols[node.name] = sum(isinstance(part, ast.FunctionDef | ast.AnnAssign) for part in node.body)
    assert {folder: count for folder, count in folders.items() if count > LARGEST_FOLDER} == {}
    assert {name: count for name, count in protocols.items() if count > LONGEST_PROTOCOL} == {}


def test_nothing_that_a_reader_cannot_check():
    places = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert places == []


def test_sizes_are_counted(tmp_path):
    (tmp_path / "room").mkdir()
    text = '"""Head."""\n\n_A, _B = 1, 2.0\nTEXT = "no"\nflag = 3\n\n\n'
    text += 'def f():\n    """One\n    two."""\n    # why\n    return 1\n'
    (tmp_path / "room" / "one.py").write_text(text)
    assert sizes(tmp_path) == {"room": (1, 5, 2)}


@pytest.mark.parametrize(
    ("fit", "most"),
    [
        (lambda X, y: bayesdrop.fit(bayesdrop.Model(), X, y), 38),
        (lambda X, y: bayesdrop.DropoutLogisticRegression().fit(X, y), 51),
    ],
    ids=["function", "classifier"],
)
def test_a_small_fit_runs_through_few_files(fit, most):
    """What a reader has to open who follows the default fit of a table, imports apart."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 5))
    y = (X[:, 0] + generator.normal(size=200) > 0).astype(int)
    root, files = str(Path(bayesdrop.__file__).parent), set()

    def called(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(root) and frame.f_code.co_name != "<module>":
            files.add(name)

    fit(X, y)
    sys.setprofile(called)
    try:
        fit(X, y)
    finally:
        sys.setprofile(None)
    assert len(files) <= most, sorted(files)
