"""Strictness for the whole suite: no implicit promotion of dtypes or ranks.

The examples of docstrings run after it, as users run them, for NumPyro's own samplers promote.
"""

import gc
import os
from pathlib import Path

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")

# What imports and collected tests hold is never garbage, and to walk over it again and again takes a tenth of the time.
gc.disable()


def pytest_collection_finish():
    """From here on garbage is collected, among what is made later and less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test with ``default_cases`` the other cases are slow: each of them compiles a program of its own.

    So are those of a test with ``slow_cases`` whose names hold one of the words. Notebooks come first, for the longest
    test would keep one process busy at the end.
    """
    items.sort(key=lambda item: item.get_closest_marker("notebook") is None)
    for item in items:
        case = getattr(item, "callspec", None)
        for words in item.iter_markers("slow_cases"):
            if any(word in case.id for word in words.args):
                item.add_marker(pytest.mark.slow)
        chosen = item.get_closest_marker("default_cases")
        if chosen is not None and (case is None or case.id not in chosen.args):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module", autouse=True)
def _strict_jax():
    import jax

    jax.config.update("jax_numpy_dtype_promotion", "strict")
    jax.config.update("jax_numpy_rank_promotion", "raise")
    yield
    jax.config.update("jax_numpy_dtype_promotion", "standard")
    jax.config.update("jax_numpy_rank_promotion", "allow")


_MAPS, _MOST_MAPS, _MANY = Path("/proc/self/maps"), 40_000, 20


@pytest.fixture(scope="session")
def _compiled():
    """What was compiled, or read as compiled, since the maps were counted, which takes a while itself."""
    import jax

    found = []

    def heard(event, seconds, **details):
        if event.endswith("backend_compile_duration"):
            found.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(heard)
    return found


@pytest.fixture(autouse=True)
def _few_compiled_programs(_compiled):
    """Compiled programs are dropped before their memory maps reach Linux's usual limit, 65,530, and XLA crashes.

    A sampler has up to a thousand maps, most programs few.
    """
    yield
    if len(_compiled) >= _MANY and _MAPS.exists():
        _compiled.clear()
        with _MAPS.open("rb") as maps:
            if sum(1 for _ in maps) > _MOST_MAPS:
                import jax

                jax.clear_caches()


@pytest.fixture(scope="session")
def breast_cancer():
    """Standardised bundled data: X (569, 30), y (569,)."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture
def shop():
    """A table with numbers, text, truth values and a two-class target."""
    import numpy as np
    import pandas as pd

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

    from bayesdrop.cli.app import build_app

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        result = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run
