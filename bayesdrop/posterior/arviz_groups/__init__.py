"""Conversion to ArviZ: groups, the stored model, and the response in ArviZ's form."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["groups"])
