"""The example of the README runs, and the README stays short."""

import re
import warnings
from pathlib import Path

import jax
import pytest
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def test_the_readme_is_a_screen_and_a_half():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 85


@pytest.mark.slow
def test_the_example_of_the_readme_runs_and_prints_what_it_says(capsys):
    code = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    assert len(code) == 1
    names = {"__name__": "readme"}
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = code[0].replace("bd.sample(model, X, y,", "bd.sample(model, X, y, draws=50, tune=50, progress=False,")
        assert few != code[0]
        exec(compile(few, "README.md", "exec"), names)
        ridge = LogisticRegressionCV(scoring="neg_log_loss").fit(names["X"], names["y"])  # X is standardised by then
        new = names["classifier"][0].transform(names["X_new"])
    ours, theirs = re.search(r"# (0\.\d+), and (0\.\d+) for LogisticRegressionCV", code[0]).groups()
    assert f"{float(capsys.readouterr().out.split()[0]):.2f}" == ours
    assert f"{log_loss(names['y_new'], ridge.predict_proba(new)):.2f}" == theirs
