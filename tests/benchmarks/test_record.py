from benchmarks import record
from benchmarks.published.cells import THREADS


def test_a_benchmark_has_all_cores_where_its_caller_is_bound_to_one(tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    source = f"import os\nprint(*(name for name in {THREADS} if name in os.environ), 'end')\n"
    (tmp_path / "benchmarks" / "bound.py").write_text(source, encoding="utf-8")
    for name in THREADS:
        monkeypatch.setenv(name, "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(record, "facts", lambda command: {"command": command})
    record.main(["bound"])
    assert record.read("bound", tmp_path / "results")["text"] == ["end"]
