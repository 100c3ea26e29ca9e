"""A results file says what made it, and a change of what it measures makes it stale."""

import json
import subprocess

import pytest

from benchmarks import figures, record, report, stale


def test_every_results_file_has_a_script_and_a_commit():
    names = {path.stem for path in record.FOLDER.glob("*.json")}
    assert names == set(figures.FIGURES)
    found = {name: record.read(name) for name in names}
    assert [name for name in names if not stale.has_script(found[name])] == []
    assert [name for name in names if not (found[name]["commit"] and found[name]["rooms"])] == []
    # Those of other machines say which, and when.
    apart = {name for name, figure in figures.FIGURES.items() if figure.apart}
    assert all(found[name]["machine"] and found[name]["date"] for name in apart)
    assert {name for name in names if "2 cores" not in found[name]["machine"]} == apart


def test_figures_measure_rooms_that_are_there_and_pages_name_figures():
    rooms = {room for figure in figures.FIGURES.values() for room in figures.rooms_of(figure.command)}
    assert [room for room in rooms if not (stale.ROOT / room).exists()] == []
    named = set()
    for path in report.PAGES:
        for found in report._PAIR.finditer(path.read_text(encoding="utf-8")):
            named.add(found[3].split(";")[0].strip())
    assert named <= set(figures.FIGURES)
    usual = [figure.minutes for figure in figures.FIGURES.values() if figure.minutes <= figures.LONG]
    assert sum(usual) <= 3.5 * 60


@pytest.fixture
def repository(tmp_path):
    """A small repository, and a function that commits texts and returns the commit."""

    def git(*arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
        call = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(call, check=True, capture_output=True, text=True).stdout.strip()

    def commit(**texts):
        for name, text in texts.items():
            path = tmp_path / "room" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.unlink() if text is None else path.write_text(text, encoding="utf-8")
        git("add", "--all")
        git("commit", "--allow-empty", "-m", "a")
        return git("rev-parse", "--short", "HEAD")

    git("init", "-q")
    return tmp_path, commit


CODE = '''"""Words."""


class A:
    """Words."""

    x: int = 1
    """Words."""

    def f(self):
        """Words."""
        return "b"
'''


@pytest.mark.parametrize(
    ("later", "is_stale"),
    [
        ({}, False),
        ({"one": CODE.replace("Words", "Other words") + "# why\n"}, False),
        ({"one": CODE.replace("= 1", "= 2")}, True),
        ({"one": CODE.replace('"b"', '"c"')}, True),
        ({"new": "a = 1\n"}, True),
        ({"one": None}, True),
    ],
)
def test_code_that_changed_is_told_from_words(repository, later, is_stale):
    root, commit = repository
    first = commit(one=CODE, two="a = 1\n")
    results = {"command": "python -m benchmarks.linear", "commit": first, "rooms": ["room"]}
    assert stale.reason(results, root) is None
    commit(**later)
    assert (stale.reason(results, root) is not None) == is_stale


def test_each_part_of_a_file_is_compared_with_its_own_commit(repository):
    root, commit = repository
    first = commit(one="a = 1\n", two="a = 1\n")
    second = commit(two="a = 2\n")
    results = {"command": "python -m benchmarks.peers", "commit": f"{first}, {second}"}
    assert stale.reason({**results, "rooms": {first: ["room/one.py"], second: ["room/two.py"]}}, root) is None
    found = stale.reason({**results, "rooms": {first: ["room"], second: ["room/two.py"]}}, root)
    assert found == f"room/two.py changed since {first}"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"commit": None}, "no commit"),
        ({"command": "python -m benchmarks.gone"}, "no script"),
        ({"left": ["tests/test_a.py", "tests/test_b.py"]}, "2 parts are left, first tests/test_a.py"),
        ({"commit": "0123456789"}, "not in the repository"),
    ],
)
def test_a_file_that_nobody_can_make_again_is_stale(repository, change, words):
    root, commit = repository
    results = {"command": "python -m benchmarks.linear", "commit": commit(one="a = 1\n"), "rooms": ["room"], **change}
    assert words in stale.reason(results, root)


def test_figures_are_made_one_after_the_other_and_only_what_is_stale(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "FOLDER", tmp_path)
    monkeypatch.setattr(figures, "reason", lambda results: results["reason"])
    monkeypatch.setattr(figures, "uncommitted", lambda *_: [])
    calls = []

    def run(call, **_):
        calls.append(call)
        name = figures.stem(" ".join(["benchmarks." + call[3], *call[4:]]))
        fails = name == "fits_small"
        (tmp_path / f"{name}.json").write_text(json.dumps({"reason": "code" if fails else None}))
        return subprocess.CompletedProcess(call, int(fails))

    monkeypatch.setattr(subprocess, "run", run)
    (tmp_path / "linear.json").write_text('{"reason": null}')
    figures.main(["linear", "scaling_classes"])
    assert [call[2:] for call in calls] == [["benchmarks.record", "scaling", "classes"]]
    assert "1 of 2 figures" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="Not made: fits_small"):
        figures.main(["fits_small", "growth", "linear"])
    assert [call[3] for call in calls[1:]] == ["fits", "growth"]
    with pytest.raises(SystemExit):
        figures.main(["growht"])
    assert "no figure growht" in capsys.readouterr().err
    monkeypatch.setattr(figures, "uncommitted", lambda *_: ["bayesdrop/model.py"])
    with pytest.raises(SystemExit):
        figures.main(["fits_small"])
    assert "commit bayesdrop/model.py first" in capsys.readouterr().err
    calls.clear()
    figures.main(["--list"])
    assert "growth" in capsys.readouterr().out
    assert calls == []
