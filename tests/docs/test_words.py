"""Pages and public docstrings use the words of the field: each word here was once a private one of this package."""

import importlib.util
import inspect
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *(DOCS / "api").glob("*.rst")])
# What to write instead: leapfrog steps; equal, duplicate; reported; converged, centred; piecewise linear; contradicts,
# supports; the API; instead of; unchanged; compared with, next to, besides; its own; untrusted; in parallel.
PRIVATE = re.compile(
    r"\bkicks?\b|\balike\b|\btold\b|\bsettled?\b|\bkink(?:s|ed)?\b|\bspeaks? (?:against|for)\b|\bspoken\b|\bmanners\b"
    r"|\bin (?:the )?place of\b|\bnext to nothing\b|\bthrown away\b|\b(?:is|be) had\b|\bdoes not arrive\b|\bbeside\b"
    r"|\bof (?:its|their) own\b|\bas (?:it is|they are)\b|\bstrangers?\b|\bun-noised\b|\bleft aside\b|\bis asked\b"
)


def names():
    spec = importlib.util.spec_from_file_location("test_docstrings", Path(__file__).with_name("test_docstrings.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [(name, module.get(name)) for name in module.NAMES]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pages_have_no_private_words(path):
    assert PRIVATE.findall(path.read_text(encoding="utf-8")) == []


def test_public_docstrings_have_no_private_words():
    found = {name: PRIVATE.findall(inspect.getdoc(thing)) for name, thing in names()}
    assert {name: words for name, words in found.items() if words} == {}


def test_a_private_word_is_found():
    assert PRIVATE.findall("What is told of kinks.") == ["told", "kinks"]
