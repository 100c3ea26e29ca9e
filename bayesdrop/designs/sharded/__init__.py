"""A design on JAX devices, its rows spread over several of them."""

from .design import ShardedDesign
from .rows import is_sharded

__all__ = ["ShardedDesign", "is_sharded"]
