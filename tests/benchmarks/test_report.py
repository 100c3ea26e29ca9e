"""Figures of the pages are those of the results files, and results files are what benchmarks printed."""

import json
import re

import pytest

from benchmarks import record, report

NAMES = sorted(path.stem for path in record.FOLDER.glob("*.json"))
OUTPUT = """Some words.

A title
| data | seconds, s |
|---|---|
| books | **0.25** (48 %) |
| films | 1,250 |

The end.
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A folder of results with one file."""
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    made = {"command": "python -m benchmarks.linear", "date": "2026-01-02", "commit": "abc1234", "idle": False}
    record.write("fake", made, OUTPUT)
    return tmp_path


@pytest.mark.parametrize("path", report.PAGES, ids=lambda path: path.stem)
def test_pages_have_the_figures_of_the_results_files(path):
    """Run `python -m benchmarks.report` where this fails."""
    text = path.read_text(encoding="utf-8")
    assert report.substitute(text) == text
    # A line that begins with a comment is HTML, in which Markdown is not read.
    assert re.findall(r"^ *<!-- (?:figure|made).*", text, re.MULTILINE) == []


def test_the_page_of_results_is_short_and_every_file_says_how_it_was_made():
    assert len((report.ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()) <= 300
    for name in NAMES:
        results = record.read(name)
        assert {"command", "machine", "date", "commit", "idle", "tables"} <= set(results)
        for table in results["tables"]:
            assert {len(row) for row in table["rows"]} == {len(table["columns"])}


def test_tables_and_paragraphs_are_told_apart():
    found = record.parse(OUTPUT)
    assert found["text"] == ["Some words.", "The end."]
    assert found["tables"] == [
        {
            "title": "A title",
            "columns": ["data", "seconds, s"],
            "rows": [["books", "**0.25** (48 %)"], ["films", "1,250"]],
        }
    ]


@pytest.mark.slow
def test_a_benchmark_is_run_and_kept(tmp_path, monkeypatch, capsys):
    (tmp_path / "benchmarks").mkdir()
    source = f"import sys\nprint({OUTPUT!r})\nsys.exit('wrong' in sys.argv)\n"
    # Without it, a `benchmarks` on PYTHONPATH is found before this folder.
    (tmp_path / "benchmarks" / "__init__.py").touch()
    (tmp_path / "benchmarks" / "fake.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "FOLDER", tmp_path / "results")
    record.main(["fake", "--quick", "words"])
    assert "| books |" in capsys.readouterr().out
    kept = json.loads((tmp_path / "results" / "fake_quick_words.json").read_text(encoding="utf-8"))
    assert kept["command"] == "python -m benchmarks.fake --quick words"
    assert kept["tables"] == record.parse(OUTPUT)["tables"]
    with pytest.raises(SystemExit):
        record.main(["fake", "wrong"])
    assert not (tmp_path / "results" / "fake_wrong.json").exists()


@pytest.mark.usefixtures("fake")
def test_figures_tables_and_origins_are_put_into_a_page(monkeypatch):
    text = "It takes <!-- figure: fake; books; seconds, s -->old<!-- / --> s"
    text += ", or <!-- figure: fake; films; seconds, s; ,.1f --><!-- / -->."
    assert re.sub("<!--.*?-->", "", report.substitute(text)) == "It takes 0.25 (48 %) s, or 1,250.0."
    text = '<!-- figure: fake; A title; "films" minus books; seconds, s --><!-- / -->'
    assert "-->1249.75<!--" in report.substitute(text)
    table = "<!-- table: fake; without: films; columns: seconds, s = time -->\nold\n<!-- / -->"
    assert report.substitute(table).splitlines()[1:-1] == ["| time |", "| --- |", "| **0.25** (48 %) |"]
    assert report.substitute(report.substitute(table)) == report.substitute(table)
    rows = report.substitute('<!-- table: fake; A title; rows: "films" -->\n<!-- / -->')
    assert "films" in rows
    assert "books" not in rows
    made = report.substitute("<!-- made: fake --><!-- / -->")
    assert "(`python -m benchmarks.linear`, 2026-01-02, abc1234, busy)" in made
    monkeypatch.setitem(report.COMPUTED, ("fake", "rows"), lambda results: len(results["tables"][0]["rows"]))
    assert "-->2<!--" in report.substitute("<!-- figure: fake; rows --><!-- / -->")


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("figure: fake; seconds, s", "one row has, got 2 rows"),
        ("figure: fake; theatre; seconds, s", "got 0 rows"),
        ("figure: gone; books; seconds, s", "there are fake"),
        ("table: fake; no such title", "no table 'no such title'"),
    ],
)
def test_a_marker_that_names_nothing_is_refused(marker, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        report.substitute(f"<!-- {marker} --><!-- / -->")


def test_a_page_out_of_date_is_found_and_mended(tmp_path, monkeypatch, fake, capsys):
    page = tmp_path / "page.md"
    page.write_text("A <!-- figure: fake; films; seconds, s -->7<!-- / -->.", encoding="utf-8")
    monkeypatch.setattr(report, "PAGES", (page,))
    monkeypatch.setattr(report, "ROOT", tmp_path)
    with pytest.raises(SystemExit, match="page.md: out of date"):
        report.main(["--check"])
    report.main([])
    assert page.read_text(encoding="utf-8").endswith("-->1,250<!-- / -->.")
    report.main(["--check"])
    assert "up to date" in capsys.readouterr().out
