"""What is not installed is named with the extra that has it."""

import subprocess
import sys

import pytest

CALLS = {
    "plot": ("matplotlib", "bd.plots.rates_forest(None, bd.fit(bd.Model(), [[0.0], [1.0], [2.0]], [0, 1, 0]))"),
    "formula": ("formulaic", "bd.fit('y ~ x', {'y': [0, 1, 0], 'x': [1.0, 2.0, 3.0]})"),
    "dask": ("distributed", "bd.cluster()"),
    "parquet": ("pyarrow", "bd.Blocks('rows.parquet')"),
}


@pytest.mark.parametrize("extra", CALLS)
def test_an_extra_that_is_missing_is_named(extra, tmp_path):
    module, call = CALLS[extra]
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    code = f"import sys; sys.modules[{module!r}] = None\nimport bayesdrop as bd\n{call}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"needs {module}" in done.stderr.replace("need ", "needs ")
    assert done.stderr.endswith(f"{module}, which is not installed; pip install 'bayesdrop[{extra}]'.\n")
