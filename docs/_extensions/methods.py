"""Every public name in one line, with its source, from the docstrings: ``python docs/_extensions/methods.py``."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from numpydoc.docscrape import get_doc_object

__all__ = ["page", "sections"]

DOCS = Path(__file__).parents[1]
HEAD = """# Methods

After this page you know every public name, what it does, and the paper that it comes from.
[The API reference](api/index.rst) has parameters and examples; `python docs/_extensions/methods.py` makes this page.
"""


def sections() -> dict[str, list[str]]:
    """Return the names of each section of the API pages, in their order."""
    found: dict[str, list[str]] = {}
    order = re.findall(r"^   (\w+)$", (DOCS / "api" / "index.rst").read_text(encoding="utf-8"), re.MULTILINE)
    for page_name in order:
        lines = (DOCS / "api" / f"{page_name}.rst").read_text(encoding="utf-8").splitlines()
        title, module, inside = "", "", False
        for line, under in zip(lines, [*lines[1:], ""], strict=True):
            if re.fullmatch(r"=+|-+", under) and line.strip():
                title, inside = line, False
            elif line.startswith(".. currentmodule:: "):
                module = line.split()[-1]
            elif line.startswith(".. autosummary::"):
                inside = True
            elif inside and re.match(r"   \w", line):
                found.setdefault(title, []).append(f"{module}.{line.strip()}")
    return found


def line_of(name: str) -> str:
    """Return the row of a name: its summary and its sources, by authors and year."""
    module, _, short = name.rpartition(".")
    try:
        thing = getattr(import_module(module), short)
    except AttributeError:
        thing = import_module(name)
    doc = get_doc_object(thing)
    what = " ".join(doc["Summary"]).rstrip(".").replace("``", "`").replace("|", "\\|")
    what = re.sub(r":\w+:`~?\.?(?:\w+\.)*(\w+)`", r"`\1`", what)
    entries = re.split(r"\n- |^- ", "\n".join(doc["References"]))
    source = "; ".join(found[0] for entry in entries if (found := re.match(r".*?\(\d{4}\)", entry)))
    return f"| `{name.replace('bayesdrop', 'bd', 1)}` | {what} | {source} |"


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for title, names in sections().items():
        rows = "\n".join(map(line_of, names))
        parts.append(f"## {title}\n\n| name | what it does | source |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (DOCS / "methods.md").write_text(page(), encoding="utf-8")
