"""Small tables and a runner of the commands."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def shop():
    """A table with numbers, text, truth values and a two-class target."""
    generator = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {
            "age": generator.normal(50, 12, n).round(1),
            "visits": generator.poisson(2, n),
            "color": generator.choice(["red", "green", "blue"], n),
            "member": generator.random(n) < 0.3,
        }
    )
    score = (frame["age"] - 50) / 12 + 2 * (frame["color"] == "red") - 0.7 + generator.logistic(size=n)
    frame["bought"] = np.where(score > 0, "yes", "no")
    return frame


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run a command in an empty folder; returns typer's result."""
    from typer.testing import CliRunner

    from bayesdrop.cli import build_app

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        result = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
