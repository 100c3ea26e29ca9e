"""The oldest releases that the project says it works with, read from its own ``pyproject.toml``.

Run as a program it prints them as pins for pip, ``jax==0.8 numpy==2.0 …``, without a second list that could differ.
"""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]


def lowest(requirement):
    """Pin of the lower bound: ``"arviz>=0.23,<2"`` to ``"arviz==0.23"``.

    Examples
    --------
    >>> lowest("arviz>=0.23,<2"), lowest("dask[array,dataframe]>=2025.1")
    ('arviz==0.23', 'dask[array,dataframe]==2025.1')
    """
    found = re.fullmatch(r"([A-Za-z0-9_.-]+(?:\[[a-z,]+\])?)>=([0-9.]+)(?:,<[0-9.]+)?", requirement)
    if found is None:
        raise ValueError(f"{requirement!r}: expected a name with a lower bound, as in 'numpy>=2.0'.")
    return f"{found[1]}=={found[2]}"


def pins():
    """Pins of the core dependencies, of what draws pictures and of what compiles loops."""
    extras = PROJECT["optional-dependencies"]
    return [lowest(text) for text in [*PROJECT["dependencies"], *extras["plot"], *extras["fast"]]]


if __name__ == "__main__":
    print(*pins())
