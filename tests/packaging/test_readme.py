"""The example of the README runs, and the README stays short."""

import re
import warnings
from pathlib import Path

import jax
import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def test_the_readme_is_a_screen_and_a_half():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 75


@pytest.mark.slow
def test_the_example_of_the_readme_runs():
    code = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(code) == 1
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = code[0].replace("bd.sample(model, X, y,", "bd.sample(model, X, y, draws=50, tune=50, progress=False,")
        assert few != code[0]
        exec(compile(few, "README.md", "exec"), {"__name__": "readme"})
