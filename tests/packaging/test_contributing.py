"""Every recipe of CONTRIBUTING.md runs as it stands there, calls all of its parts, and has at most forty lines."""

import ast
import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def recipes():
    """Title and code of each example."""
    parts = PAGE.read_text(encoding="utf-8").split("\n### ")[1:]
    return [(part.split("\n")[0], code) for part in parts for code in re.findall(r"```python\n(.*?)```", part, re.S)]


def test_every_axis_has_a_recipe():
    wanted = {
        "noise",
        "loss",
        "rate structure",
        "prior of the rates",
        "weight prior",
        "storage",
        "minimiser",
        "sampler",
    }
    wanted |= {"plot", "option of a sampler"}
    assert wanted <= {title.removeprefix("A ").removeprefix("An ") for title, _ in recipes()}


class Noting(ast.NodeTransformer):
    """Every function says that it is called: a profiler would hear of all calls, and tracing takes twice the time."""

    def __init__(self):
        self.parts = []

    def note(self, node, name):
        self.parts.append((name, node.lineno))
        return ast.parse(f"_called.add({self.parts[-1]!r})").body[0]

    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.body.insert(0, self.note(node, node.name))
        return node

    def visit_Lambda(self, node):
        self.generic_visit(node)
        both = ast.Tuple([self.note(node, "lambda").value, node.body], ast.Load())
        node.body = ast.Subscript(both, ast.Constant(1), ast.Load())
        return node


@pytest.mark.default_cases("A noise", "A loss1", "A storage", "A minimiser")
@pytest.mark.parametrize(("title", "code"), recipes(), ids=[title for title, _ in recipes()])
def test_a_recipe_runs(title, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = [line for line in code.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    assert len(body) <= 40, f"{title}: {len(body)} lines"
    noting, called = Noting(), set()
    tree = ast.fix_missing_locations(noting.visit(ast.parse(code)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few draws, for show
        exec(compile(tree, f"CONTRIBUTING.md, {title}", "exec"), {"__name__": "recipe", "_called": called})
    assert [part for part in noting.parts if part not in called] == []


@pytest.mark.parametrize(
    "title",
    [
        "A noise",
        "A loss",
        "A loss with auxiliary variables",
        "A rate structure",
        "A prior of the rates",
        "A weight prior",
    ],
)
def test_a_component_goes_on_to_its_posterior_a_prediction_and_leave_one_out(title):
    code = next(code for one, code in recipes() if one == title)
    for call in ("bd.sample(", "bd.predict(post, X)", "bd.loo(bd.log_likelihood(post, X, y))"):
        assert call in code
