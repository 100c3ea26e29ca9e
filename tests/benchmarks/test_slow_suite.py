"""The long tests are run file by file, and what did not pass is run again."""

import pytest

from benchmarks import record, slow_suite

REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_one" time="60"/>
<testcase classname="tests.a" name="test_two[x]" time="30"><failure message="no"/></testcase>
<testcase classname="tests.a" name="test_three" time="0"><skipped message="no"/></testcase>
<testcase classname="tests.a" name="test_four" time="0"><error message="no"/></testcase>
</testsuite></testsuites>"""


def test_a_report_of_pytest_is_counted(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    cells, failed = slow_suite.outcome(tmp_path / "report.xml")
    assert cells == ["4", "2", "1", "1.5", "1.0"]
    assert failed == ["tests.a::test_two[x]", "tests.a::test_four"]


def test_the_rooms_that_tests_load_are_noted(tmp_path, monkeypatch):
    import bayesdrop.model  # noqa: F401

    monkeypatch.setenv(slow_suite.NOTE, str(tmp_path / "note"))
    monkeypatch.setattr(slow_suite, "OTHERS", float("inf"))
    slow_suite.pytest_sessionfinish()
    missing = (tmp_path / "note").read_text().split(", ")
    assert "model.py" not in missing
    assert set(missing) - {""} < slow_suite.all_rooms()
    monkeypatch.setattr(slow_suite, "OTHERS", -1.0)  # other processes may have loaded the rest
    slow_suite.pytest_sessionfinish()
    assert (tmp_path / "note").read_text() == ""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """The runner with files a and b, none of which starts pytest, and what it was asked to run."""
    ran, fails = [], set()

    def run(file):
        ran.append(file)
        failed = [f"{file}::test"] if file in fails else []
        return file, ["3", str(len(failed)), "0", "1.0", "0.5", "plots, cli"], failed

    read, write = record.read, record.write
    for module in (slow_suite, record):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(slow_suite, "read", lambda name: read(name, tmp_path))
    monkeypatch.setattr(slow_suite, "write", lambda *given: write(*given, folder=tmp_path))
    monkeypatch.setattr(slow_suite, "files", lambda: ["tests/a.py", "tests/b.py"])
    monkeypatch.setattr(slow_suite, "reason", lambda made: None)
    monkeypatch.setattr(slow_suite, "uncommitted", lambda *_: [])
    monkeypatch.setattr(slow_suite, "_run", run)
    return ran, fails


def stored():
    return slow_suite.read(slow_suite.NAME)


@pytest.mark.slow
def test_what_passed_is_not_run_again_and_what_failed_is(suite):
    ran, fails = suite
    fails.add("tests/b.py")
    with pytest.raises(SystemExit, match="Some tests failed"):
        slow_suite.main([])
    assert sorted(ran) == ["tests/a.py", "tests/b.py"]
    assert stored()["left"] == ["tests/b.py::test"]
    fails.clear()
    ran.clear()
    slow_suite.main([])
    assert ran == ["tests/b.py"]
    assert stored()["left"] == []
    assert [row[:3] for row in stored()["tables"][0]["rows"]] == [["tests/a.py", "3", "0"], ["tests/b.py", "3", "0"]]
    (paths,) = stored()["rooms"].values()
    assert {"tests/a.py", "tests/b.py", "bayesdrop/hmc", "bayesdrop/model.py"} < set(paths)
    assert not {"bayesdrop/plots", "bayesdrop/cli"} & set(paths)


@pytest.mark.slow
def test_files_that_were_not_run_are_left(suite, capsys):
    ran, _ = suite
    slow_suite.main(["tests/a.py"])
    assert ran == ["tests/a.py"]
    assert stored()["left"] == ["tests/b.py"]
    with pytest.raises(SystemExit):
        slow_suite.main(["tests/c.py"])
    assert "tests/c.py has no slow test" in capsys.readouterr().err


@pytest.mark.slow
def test_a_file_that_changed_since_it_passed_is_run_again(suite, monkeypatch):
    ran, _ = suite
    slow_suite.main([])
    monkeypatch.setattr(slow_suite, "reason", lambda made: "changed" if "tests/a.py" in made["rooms"] else None)
    ran.clear()
    slow_suite.main([])
    assert ran == ["tests/a.py"]


def test_changes_are_committed_first(suite, monkeypatch, capsys):
    monkeypatch.setattr(slow_suite, "uncommitted", lambda *_: ["tests/a.py"])
    with pytest.raises(SystemExit):
        slow_suite.main([])
    assert "commit tests/a.py first" in capsys.readouterr().err
