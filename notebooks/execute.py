"""Run the notebooks and store what they show: ``make notebooks``, or ``python notebooks/execute.py 04 05`` for some.

A notebook is stored with its outputs and, in its metadata, with the hash of the code that made them. Output that
differs from run to run or from place to place is not kept: times, progress bars, warnings of missing widgets,
addresses in memory. Pictures are stored with few colours. ``tests/notebooks`` holds the stored outputs to all of this.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from unittest import mock

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

__all__ = ["FOLDER", "code_hash", "execute", "kinds", "notebooks", "store"]

FOLDER = Path(__file__).parent
# An address in memory, or the place of a warning.
_PLACE = re.compile(r" at 0x[0-9a-f]+|^/\S+\.py:\d+: (?=\w+Warning: )", re.MULTILINE)
# Of the place and not of the code: progress bars that want widgets, or none, and the store of compiled programs.
_IGNORED = ("IProgress not found", "Disabling progress bar", "Error writing persistent", "Error reading persistent")
_SETTINGS = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYTHONWARNINGS": ",".join(f"ignore:{start}" for start in _IGNORED),
    "OMP_NUM_THREADS": "1",
    "TQDM_DISABLE": "1",
}


def notebooks() -> list[Path]:
    """Files of all notebooks, in order."""
    return sorted(FOLDER.glob("*.ipynb"))


def _code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def code_hash(notebook: NotebookNode) -> str:
    """Hash of the code of all cells: where it is not the stored one, the outputs are of other code."""
    text = "\n# next cell\n".join(cell.source for cell in _code(notebook))
    return hashlib.sha256(text.encode()).hexdigest()


def kinds(notebook: NotebookNode) -> list[list[tuple[str, ...]]]:
    """What each code cell shows: types of output with their formats, warnings apart."""
    return [
        [(o.output_type, *sorted(o.get("data", {}))) for o in cell.outputs if o.get("name") != "stderr"]
        for cell in _code(notebook)
    ]


def execute(path: Path, kernel: KernelManager | None = None) -> NotebookNode:
    """Run a notebook in an empty folder, and return it with its outputs, tidied.

    In a process of its own, or in that of a kernel that has run others: emptied first of their names, and with what
    they imported loaded.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        If a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        style = Path(folder) / "matplotlibrc"
        style.write_text("figure.dpi: 80\nsavefig.dpi: 80\n", encoding="utf-8")
        options = {"timeout": 1200, "kernel_name": "python3", "resources": {"metadata": {"path": folder}}}
        options |= {"coalesce_streams": True} | ({} if kernel is None else {"km": kernel})
        with mock.patch.dict(os.environ, {**_SETTINGS, "MATPLOTLIBRC": str(style)}):
            whole = [notebook] if kernel is None else [_emptied(folder), notebook, _emptied(tempfile.gettempdir())]
            for cells in whole:
                client = NotebookClient(cells, **options)
                try:
                    client.execute()
                finally:
                    # A client leaves the sockets to a kernel that is not its own open.
                    if kernel is not None and client.kc is not None:
                        client.kc.stop_channels()
    return _tidy(notebook)


def _emptied(folder: str) -> NotebookNode:
    """What a kernel runs between two notebooks."""
    code = f"%reset -f\nimport os\nos.chdir({folder!r})\ndel os"
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])


def _tidy(notebook: NotebookNode) -> NotebookNode:
    for cell in _code(notebook):
        cell.metadata.pop("execution", None)
        for output in cell.outputs:
            data = output.get("data", {})
            if "text" in output:
                output.text = _PLACE.sub("", output.text)
            if "text/plain" in data:
                data["text/plain"] = _PLACE.sub("", data["text/plain"])
            if "image/png" in data:
                data["image/png"] = _few_colours(data["image/png"])
    notebook.metadata = NotebookNode(
        kernelspec=dict(display_name="Python 3", language="python", name="python3"),
        language_info=dict(name="python"),
        bayesdrop=dict(code=code_hash(notebook)),
    )
    return notebook


def _few_colours(encoded: str) -> str:
    from PIL import Image

    picture = Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB")
    written = io.BytesIO()
    picture.quantize(128, dither=Image.Dither.NONE).save(written, "PNG", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def store(path: Path, target: Path | None = None) -> None:
    """Run one notebook and write it, to its own place or to another."""
    nbformat.write(execute(path), target or path)


if __name__ == "__main__":
    wanted = sys.argv[1:] or [""]
    for path in notebooks():
        if any(path.name.startswith(start) for start in wanted):
            print(path.name, flush=True)
            store(path)
