"""What is not installed is named with the extra that has it."""

import subprocess
import sys

CALLS = {
    "plot": ("matplotlib", "bd.plots.rates_forest(None, bd.fit(bd.Model(), [[0.0], [1.0], [2.0]], [0, 1, 0]))"),
    "formula": ("formulaic", "bd.fit('y ~ x', {'y': [0, 1, 0], 'x': [1.0, 2.0, 3.0]})"),
    "dask": ("distributed", "bd.cluster()"),
    "parquet": ("pyarrow", "bd.Blocks('rows.parquet')"),
}


def test_an_extra_that_is_missing_is_named(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    code = (
        f"import sys; sys.modules |= dict.fromkeys({[module for module, _ in CALLS.values()]})\nimport bayesdrop as bd"
    )
    for _, call in CALLS.values():
        code += f"\ntry: {call}\nexcept ImportError as error: print(error)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    for (extra, (module, _)), said in zip(CALLS.items(), done.stdout.splitlines(), strict=True):
        assert f"needs {module}" in said.replace("need ", "needs ")
        assert said.endswith(f"{module}, which is not installed; pip install 'bayesdrop[{extra}]'.")
