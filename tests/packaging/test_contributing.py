"""Every recipe of CONTRIBUTING.md runs as it stands there, calls all of its parts, and has at most forty lines."""

import re
import sys
import threading
import types
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


def parts_of(code):
    """All functions and classes in a compiled text, at any depth."""
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield part
            yield from parts_of(part)


@pytest.mark.parametrize(("title", "code"), recipes(), ids=[title for title, _ in recipes()])
def test_a_recipe_runs(title, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = [line for line in code.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    assert len(body) <= 40, f"{title}: {len(body)} lines"
    whole, called = compile(code, f"CONTRIBUTING.md, {title}", "exec"), set()

    def note(frame, event, argument):
        called.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a few draws, for show
            exec(whole, {"__name__": "recipe"})
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert [(part.co_qualname, part.co_firstlineno) for part in parts_of(whole) if part not in called] == []
