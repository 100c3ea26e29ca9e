"""Docstrings of public names are complete by numpydoc's rules, and the page of methods is made from them."""

import importlib.util
import inspect
import re
import tomllib
from pathlib import Path

import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import ERROR_MSGS, validate

import bayesdrop as bd

ROOT = Path(__file__).parents[2]
ROOMS = ("baselines", "distributions", "plots")
NAMES = [name for name in bd.__all__ if name not in (*ROOMS, "groups", "losses", "models")] + ["losses.from_function"]
NAMES += [f"{room}.{name}" for room in ROOMS for name in getattr(bd, room).__all__]
# Made by functions of the package, never by a user: they document their attributes.
RESULTS = {"Diagnosis", "Elpd", "Fit", "FormulaDesign", "Prediction", "Projection", "Variational"}


def get(name):
    thing = bd
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def checks():
    """The codes that pyproject.toml asks for: all but those that it lists after "all"."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["numpydoc_validation"]
    first, *left_out = listed["checks"]
    assert first == "all"
    return set(ERROR_MSGS) - set(left_out)


def faults(name):
    """Faults of a docstring; a warning has no parameters and no example of its own."""
    exempt = {"PR01"} if name in RESULTS else {"EX01"} if name.endswith("Warning") else set()
    return [fault for fault in validate(f"bayesdrop.{name}")["errors"] if fault[0] in checks() - exempt]


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_are_complete(name):
    assert faults(name) == []


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("Warning") and name not in RESULTS])
def test_parameters_say_their_default(name):
    signature = inspect.signature(get(name)).parameters
    for parameter in get_doc_object(get(name))["Parameters"]:
        for part in parameter.name.split(", "):
            default = signature[part.lstrip("*")].default
            if default is not inspect.Parameter.empty and not parameter.type.startswith("see "):
                assert re.search("default|optional", parameter.type), parameter
            found = re.search(r"default=([-\d.e]+|True|False|\"[^\"]*\")$", parameter.type)
            if found and "(" not in found[1]:
                assert eval(found[1]) == default, parameter


def test_a_fault_is_found(monkeypatch):
    monkeypatch.setattr(bd.Stop, "__doc__", "stops.\n\n    Parameters\n    ----------\n    ess\n        A size.\n")
    assert {"SS02", "SS05", "PR01", "PR04", "SA01", "EX01"} & {code for code, _ in faults("Stop")}


def test_the_page_of_methods_is_made_from_the_docstrings():
    """Run `python docs/_extensions/methods.py` where this fails."""
    path = ROOT / "docs" / "_extensions" / "methods.py"
    spec = importlib.util.spec_from_file_location("methods", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "methods.md").read_text(encoding="utf-8") == module.page()
