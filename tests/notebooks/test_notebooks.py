"""What the notebooks show is what their code gives; those marked ``notebook`` run them.

`make test` runs those without long chains, `make test-slow` the others. Of all of them `make test` compares the stored
code with the outputs, and what they call of the package with what there is.
"""

import ast
import copy
import importlib.util
import inspect
import os
import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager

import bayesdrop

FOLDER = Path(__file__).parents[2] / "notebooks"
_spec = importlib.util.spec_from_file_location("execute", FOLDER / "execute.py")
execute = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(execute)

PATHS = [pytest.param(path, id=path.stem) for path in execute.notebooks()]
MOST_BYTES = 300_000
PLACE = re.compile(r"TqdmWarning|site-packages|/root/|/home/|/tmp/| at 0x[0-9a-f]")
STALE = "run `make notebooks` and commit what it writes"


def complaints(notebook, size=0):
    """What is wrong with the stored outputs, as far as can be seen without running the code."""
    found = []
    if notebook.metadata.get("bayesdrop", {}).get("code") != execute.code_hash(notebook):
        found.append("the code is not that of the outputs")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in code] != list(range(1, len(code) + 1)):
        found.append("not every cell has run, once and in order")
    for cell in code:
        for output in cell.outputs:
            text = str({name: part for name, part in output.get("data", {}).items() if "image" not in name})
            text += output.get("text", "")
            if output.output_type == "error" or PLACE.search(text):
                found.append(f"an error, a place or a progress bar: {text[:80]}")
        if "execution" in cell.metadata:
            found.append("times of execution")
    return found + ([f"{size} bytes"] if size >= MOST_BYTES else [])


@pytest.mark.parametrize("path", PATHS)
def test_the_outputs_are_stored_and_current(path):
    assert complaints(nbformat.read(path, as_version=4), path.stat().st_size) == [], f"{path.name}: {STALE}"


def test_a_stale_notebook_is_found():
    notebook = copy.deepcopy(nbformat.read(execute.notebooks()[0], as_version=4))
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    code[0].source += "\n"
    code[1].execution_count = None
    code[2].outputs.append(nbformat.v4.new_output("stream", name="stderr", text="x.py:1: TqdmWarning: IProgress"))
    assert [complaint[:10] for complaint in complaints(notebook, MOST_BYTES)] == [
        "the code i",
        "not every ",
        "an error, ",
        f"{MOST_BYTES} byt",
    ]


def named(node):
    """What an expression such as ``bd.plots.ranks`` stands for, or None of another; raise AttributeError if nothing."""
    if isinstance(node, ast.Name):
        return bayesdrop if node.id == "bd" else None
    owner = named(node.value) if isinstance(node, ast.Attribute) else None
    return None if owner is None else getattr(owner, node.attr)


def check_calls(code):
    """Raise if code imports or names what the package lacks, or calls it with arguments that it does not take."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "bayesdrop":
            module = importlib.import_module(node.module)
            for part in node.names:
                if not hasattr(module, part.name):
                    importlib.import_module(f"{node.module}.{part.name}")
        called = named(node.func) if isinstance(node, ast.Call) else named(node)
        if isinstance(node, ast.Call) and called is not None:
            starred = any(isinstance(part, ast.Starred) for part in node.args) or any(
                k.arg is None for k in node.keywords
            )
            signature = inspect.signature(called)
            bind = signature.bind_partial if starred else signature.bind
            plain = [part for part in node.args if not isinstance(part, ast.Starred)]
            bind(*plain, **{keyword.arg: None for keyword in node.keywords if keyword.arg is not None})


@pytest.mark.parametrize("path", PATHS)
def test_what_is_called_of_the_package_is_there_and_takes_the_arguments(path):
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert any("bd." in cell for cell in cells)
    for cell in cells:
        check_calls(cell)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("bd.fits(model)", AttributeError),
        ("bd.plots.ranking", AttributeError),
        ("bd.fit(model, X, y, bogus=1)", TypeError),
        ("bd.fit(model, *rows, bogus=1)", TypeError),
        ("bd.fit(**settings, bogus=1)", TypeError),
        ("bd.fit(model)", TypeError),
        ("from bayesdrop.models import feature_noises", ImportError),
    ],
)
def test_what_is_not_there_is_found(code, error):
    check_calls("fit = bd.fit(model, X, y)")
    with pytest.raises(error):
        check_calls(code)


def test_the_gallery_has_every_notebook():
    """In the order in which a reader should see them, which is not that of the numbers."""
    page = (FOLDER.parent / "docs" / "notebooks.md").read_text(encoding="utf-8")
    contents = page[page.index("{toctree}") :].split()
    assert sorted(name.partition("/")[2] for name in contents if "/" in name) == [p.stem for p in execute.notebooks()]
    assert re.findall(r"\(notebooks/(\w+)\.ipynb\)", page) == [n.partition("/")[2] for n in contents if "/" in n]


@pytest.fixture(scope="module")
def kernel():
    """One process for all notebooks, which takes the imports of the others off each."""
    manager = KernelManager(kernel_name="python3")
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.notebook
@pytest.mark.slow_cases("02", "03", "06", "08", "12", "13")  # chains, three quarters of the time of all
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", PATHS)
def test_a_notebook_runs_and_shows_what_is_stored(path, kernel, monkeypatch):
    """Its assertions hold, and each cell shows what it is stored with: tables, pictures and text."""
    # Long chains pay for programs that are compiled with more care than those of tests.
    flags = os.environ.get("XLA_FLAGS", "")
    monkeypatch.setenv(
        "XLA_FLAGS", flags.replace("xla_backend_optimization_level=0", "xla_backend_optimization_level=1")
    )
    stored, found = nbformat.read(path, as_version=4), execute.execute(path, kernel)
    assert execute.kinds(found) == execute.kinds(stored), f"{path.name}: {STALE}"
