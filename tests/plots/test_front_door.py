"""Every picture stands under ``bd.plots`` with an example, and takes from the other files what is public there."""

import ast
from pathlib import Path

import pytest

import bayesdrop as bd

FOLDER = Path(bd.plots.__file__).parent
SHARED = {"__init__", "style", "replicated"}  # the last reads observed and replicated responses


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_pictures_share_the_style_and_nothing_else(path):
    taken = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
    near = [node for node in taken if node.level == 1]
    assert {node.module for node in near} <= SHARED
    assert not [alias.name for node in taken if node.level for alias in node.names if alias.name.startswith("_")]


def test_no_picture_is_left_in_its_file():
    public = set()
    for path in FOLDER.glob("*.py"):
        if path.stem not in SHARED:
            module = ast.parse(path.read_text())
            public |= {node.name for node in module.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"}
    assert public == set(bd.plots.__all__)
