"""The seam to ArviZ: groups, the model stored beside them, and the response as ArviZ has it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["groups"])
