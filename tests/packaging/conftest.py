"""The wheel, and an environment that it is installed in."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Built from a copy: setuptools keeps what it built in ``build/``, modules that are gone included."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("bayesdrop", "models"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(target), str(source)],
        check=True,
        capture_output=True,
        text=True,
    )
    return next(target.glob("*.whl"))


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory):
    """Python of a clean environment that borrows the dependencies from this one, and nothing else: not the checkout."""
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    options = ["--no-deps", "--no-index", "--no-compile", "--quiet"]
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)]
    subprocess.run(install, check=True, capture_output=True, text=True)
    # Paths of a .pth file are taken as they are: what lies there is importable, and no .pth file of theirs is run.
    (own,) = folder.glob("lib/python*/site-packages")
    (own / "borrowed.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    return python
