"""Linear models regularised by feature noise, with the noise learnt and its posterior known.

>>> import bayesdrop as bd
>>> bd.Model(loss=bd.Hinge(), rates=bd.PerFeature(bd.Beta(1, 1)), C=0.1).C
0.1

The public names stand in ``__init__.pyi``, once, and are imported when first used: ``import bayesdrop`` is light.
"""

import logging
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any

import lazy_loader

from ._progress import uninterrupted

__version__ = version("bayesdrop")
# Silent until the user's own logging asks for it.
logging.getLogger("bayesdrop").addHandler(logging.NullHandler())
_import, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and name not in __all__ and (close := get_close_matches(name, __all__, n=1)):
        raise AttributeError(f"No bayesdrop attribute {name}; did you mean bd.{close[0]}?")
    with uninterrupted():
        return _import(name)
