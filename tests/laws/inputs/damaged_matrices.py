"""Run by ``test_structure.py`` in a process of its own, since what it does would end it if a check were missing.

Every call of the catalogue that takes a sparse matrix refuses one whose indices lie.
"""

import faulthandler
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

import bayesdrop as bd

CATALOGUE = runpy.run_path(str(Path(__file__).with_name("test_values.py")))
CALLS, GOOD, start, parameters, target = (
    CATALOGUE[name] for name in ("CALLS", "GOOD", "_start", "_parameters", "_target")
)
TABLES = ("X", "unlabelled", "source")


def beyond(matrix):
    matrix.indices[3] = 10**6


def negative(matrix):
    matrix.indices[3] = -(10**6)


def falling(matrix):
    matrix.indptr[1] = matrix.indptr[-1]


def long(matrix):
    matrix.indptr[-1] += 10**6


def late(matrix):
    matrix.indptr[0] = 5


def short(matrix):
    matrix.data = matrix.data[:3]


def damaged():
    """Copies of a matrix, each damaged in its own way."""
    X = np.where(np.arange(72).reshape(24, 3) % 2, GOOD["X"](), 0.0)
    for kind in (sparse.csr_array, sparse.csc_array):
        for damage in (beyond, negative, falling, long, late, short):
            matrix = kind(abs(X))
            damage(matrix)
            yield f"{kind.__name__}, {damage.__name__}", matrix
    matrix = sparse.coo_array(abs(X))
    matrix.coords[1][0] = 99
    yield "coordinates out of range", matrix


def said(where, parameter, matrix):
    """What a call says of a matrix."""
    function, call = CALLS[where]
    arguments = {**start(where, function), parameter: [matrix] if parameter == "source" else matrix}
    if "." in where and "y" in arguments:
        arguments["y"] = target(getattr(bd, where.split(".")[0], bd.baselines))
    try:
        call(**arguments)
    except (TypeError, ValueError, AttributeError) as error:
        return str(error)
    return "no error"


def main():
    faulthandler.enable()
    warnings.simplefilter("ignore")
    refused, faults = 0, []
    for where, (function, _) in CALLS.items():
        for parameter in set(TABLES) & set(parameters(function)):
            for words, matrix in damaged():
                print(f"{where}, {parameter}, {words}", flush=True)
                found = said(where, parameter, matrix)
                if "sparse matrix is damaged" in found:
                    refused += 1
                elif found != "no error" and said(where, parameter, sparse.csr_array(abs(GOOD["X"]()))) == found:
                    break  # it takes no sparse matrix, whole or damaged
                elif where != "loo":  # which reads rows only where it samples without them
                    faults.append(f"{where}, {parameter}, {words}: {found}")
    sys.exit("\n".join(faults) or None if refused > 700 else f"only {refused} were refused")


if __name__ == "__main__":
    main()
