"""The examples of the pages run and print what they say; links lead somewhere; the API lists every public name once."""

import doctest
import importlib
import importlib.util
import re
from collections import Counter
from pathlib import Path

import pytest

import bayesdrop as bd

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.glob("*.md"))
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# Pages whose sampler takes long to compile.
SLOW = {"numpyro", "posteriors"}
# Its blocks run with the rows of its tables.
WITH_ROWS = DOCS / "coming_from.md"


def blocks(path):
    """Fenced blocks of Python of a page."""
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


def example_pages():
    for path in PAGES:
        if blocks(path) and path != WITH_ROWS:
            yield pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])


@pytest.mark.slow_cases("check_a_model", "large_data", "which_features", "production")
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # ArviZ 0.23 and pandas 3.1, in az.compare
@pytest.mark.parametrize("path", list(example_pages()))
def test_the_examples_of_a_page_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names_of_blocks(path)


def names_of_blocks(path):
    """Run the blocks of a page, one after the other, in one namespace, as a reader would paste them."""
    import jax

    text = "\n".join(blocks(path))
    assert all(line.startswith((">>>", "...")) for block in blocks(path) for line in block.splitlines()[:1])
    test = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
    said = []
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        failed = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.append, clear_globs=False).failed
    assert not failed, "".join(said)
    return test.globs


def rows_that_run(path):
    """Spans of code in the last cell of each row of a page's tables that have two columns."""
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if line.startswith("| ") and len(cells) == 4 and cells[2].strip() != "here":
            yield line, [code.replace("\\|", "|") for _, code in re.findall(r"(`+)(.+?)\1(?!`)", cells[2])]


def every_tenth_draw(tree):
    """A posterior of fewer draws, in which the rows take a third of the time."""
    groups = {name: bd.groups.dataset(tree, name) for name in bd.groups.group_names(tree)}
    groups = {name: group.isel(draw=slice(None, None, 10), missing_dims="ignore") for name, group in groups.items()}
    return bd.groups.assemble(groups, tree.attrs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bayesdrop.warnings.InfluenceWarning")
def test_every_row_of_the_page_for_users_of_other_packages_runs(tmp_path, monkeypatch):
    """In the names that its blocks make, from the first row to the last."""
    import jax
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    names, ran = names_of_blocks(WITH_ROWS), set()
    for name in ("post", "checked", "scored", "clinics"):
        names[name] = every_tenth_draw(names[name])
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for line, codes in rows_that_run(WITH_ROWS):
            assert codes, line
            for code in [code for code in codes if not code.isidentifier() and code not in ran]:
                exec(code, names)
                plt.close("all")
                ran.add(code)
    assert len(ran) > 50


def contents():
    """Pages of each part of the documentation."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    parts = re.findall(r"```{toctree}\n:hidden:\n:caption: (.+?)\n\n(.+?)\n```", text, re.S)
    return {caption: [DOCS / f"{name}.md" for name in names.split()] for caption, names in parts}


def test_pages_beside_the_reference_are_short_and_say_what_a_reader_will_be_able_to_do():
    parts = contents()
    assert list(parts) == ["Start", "How-to guides", "Explanation", "Reference"]
    pages = [path for caption, paths in parts.items() if caption != "Reference" for path in paths]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in [DOCS / "index.md", *pages]) <= 1350
    for path in [*pages, DOCS / "command_line.md", DOCS / "algorithms_and_costs.md", DOCS / "results.md"]:
        assert path.read_text(encoding="utf-8").split("\n\n")[1].startswith("After "), path


def anchor(heading):
    """What GitHub and MyST make of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    return {anchor(line.lstrip("#")) for line in text.splitlines() if re.match(r"#{1,3} ", line)}


def dead_links(path):
    """Links of a Markdown file to files or headings that are not there."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.S | re.M)
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, heading = link.partition("#")
        target = path.parent / name if name else path
        if target.parent == DOCS / "notebooks":  # the pages have copies
            target = ROOT / "notebooks" / target.name
        if not target.exists() or (heading and target.suffix == ".md" and heading not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("path", [*PAGES, *ROOT.glob("*.md")], ids=lambda p: p.stem)
def test_links_lead_somewhere(path):
    assert dead_links(path) == []


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n[a](#a-title) [b](page.md#a-title) [c](gone.md) [d](#gone) [e](https://example.org/x)\n"
    )
    assert dead_links(page) == ["gone.md", "#gone"]


def listed(folder=DOCS / "api"):
    """Names of the API pages: those in the tables, the modules and the data."""
    names = []
    for path in sorted(folder.glob("*.rst")):
        module, inside = "", False
        for line in path.read_text(encoding="utf-8").splitlines():
            directive = re.match(r"\.\. (currentmodule|module|autosummary|data):: ?(.*)", line)
            if directive:
                kind, value = directive.groups()
                inside = kind == "autosummary"
                module = value if "module" in kind else module
                names += [f"bayesdrop.{value}"] if kind == "data" else []
            elif inside and re.match(r"   \w", line):
                names.append(f"{module}.{line.strip()}")
    return Counter(names)


def public():
    """All public names; of the programs each is a module."""
    rooms = {"plots", "baselines", "distributions", "models"}
    names = {f"bayesdrop.{name}" for name in [*bd.__all__, "__version__"] if name not in rooms | {"losses"}}
    names.add("bayesdrop.losses.from_function")  # the others are public by themselves
    for room in sorted(rooms - {"models"}):
        names |= {f"bayesdrop.{room}.{name}" for name in importlib.import_module(f"bayesdrop.{room}").__all__}
    return names | {f"bayesdrop.models.{path.stem}" for path in (ROOT / "models").glob("[a-z]*.py")}


def test_the_api_pages_list_every_public_name_and_no_other():
    found = listed()
    assert sorted(public() - set(found)) == []
    assert sorted(set(found) - public()) == []
    assert [name for name, times in found.items() if times > 1] == []


@pytest.mark.parametrize("room", ["fitting.solvers", "gibbs", "hmc.approximations"])
def test_the_page_of_algorithms_has_the_table_of_choices(room):
    choices = importlib.import_module(f"bayesdrop.{room}.choices").CHOICES
    page = (DOCS / "algorithms_and_costs.md").read_text(encoding="utf-8")
    assert "\n".join(f"| `{choice.name}` | {choice.what} | {choice.because} |" for choice in choices) in page


def test_every_api_page_is_in_the_index():
    index = (DOCS / "api" / "index.rst").read_text(encoding="utf-8").split()
    assert {path.stem for path in (DOCS / "api").glob("*.rst")} - {"index"} <= set(index)


def extension(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / "_extensions" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_formulas_of_docstrings_keep_their_lines():
    """Those before the first section only: the indented descriptions of parameters are no formulas."""
    module = extension("formulas")
    head = ["A loss.", "", "    a = b", "", "    c = d", "", "with more.", ""]
    rest = ["Parameters", "----------", "x : float", "    One.", "", "    Two."]
    assert module.literal_formulas(head + rest) == [*head[:2], "::", "", *head[2:], *rest]
    assert module.literal_formulas(rest) == rest


def test_what_a_page_would_fetch_is_found():
    """Links that a reader follows are no such thing."""
    text = '<script src="https://cdn.x/y.js"></script><a href="https://x">x</a><img src="x.png"> url(https://x/f.woff)'
    assert extension("offline").loaded_from_elsewhere(text) == ["https://cdn.x/y.js", "https://x/f.woff"]
