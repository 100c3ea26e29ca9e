"""The script of a newcomer runs for five families, from the prior to a process that loads the posterior."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("newcomer.txt")


@pytest.mark.slow
@pytest.mark.parametrize("response", ["time", "ill", "visits", "seizures", "days"])
def test_a_newcomer_comes_from_a_formula_to_an_answer(response, tmp_path):
    """Of numbers, classes, counts, overdispersed counts and a median."""
    done = subprocess.run(
        [sys.executable, SCRIPT, response], cwd=tmp_path, capture_output=True, text=True, env=os.environ, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "No problem was found with these draws" in done.stdout
    body = SCRIPT.read_text(encoding="utf-8").split("response = sys.argv[1]\n")[1]
    assert len(body.splitlines()) <= 40
