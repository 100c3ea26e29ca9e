"""A design on a Dask cluster: its rows stay on the workers."""

from .design import NOT_IN_MEMORY, DaskDesign
from .rows import is_dask, is_frame

__all__ = ["NOT_IN_MEMORY", "DaskDesign", "is_dask", "is_frame"]
