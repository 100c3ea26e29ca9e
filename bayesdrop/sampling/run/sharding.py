"""How the state of the chains lies on the devices that hold the data.

The samplers are the same programs on one device and on many: XLA cuts the work up as the arrays lie. The data say where
the rows are; what is left to say is that the chains are divided between devices with the same rows, and that what a
chain keeps for each row lies with the row. It changes where numbers are, and the order of some sums, but no draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import PRNGKeyArray

if TYPE_CHECKING:
    from ..protocols import Kernel

__all__ = ["Layout", "layout_of"]


@dataclass(frozen=True)
class Layout:
    """Where each leaf of the state lies.

    Attributes
    ----------
    shardings : tuple of Sharding
        Of the leaves, in their order.
    """

    shardings: tuple[NamedSharding, ...]

    def place(self, state: Any) -> Any:
        """Bring a state to its devices."""
        leaves, tree = jax.tree.flatten(state)
        return jax.tree.unflatten(tree, jax.device_put(leaves, list(self.shardings)))

    def constrain(self, state: Any) -> Any:
        """Keep a state there, in a compiled function."""
        leaves, tree = jax.tree.flatten(state)
        return jax.tree.unflatten(tree, jax.lax.with_sharding_constraint(leaves, list(self.shardings)))


def layout_of(kernel: Kernel, operands: Any, key: PRNGKeyArray, chains: int) -> Layout | None:
    """Layout of the state of ``chains`` chains; None if the data are on one device.

    Raises
    ------
    ValueError
        If the devices cannot share the chains equally.
    """
    for data in jax.tree.leaves(operands):
        sharding = getattr(data, "sharding", None)
        if isinstance(sharding, NamedSharding) and sharding.mesh.size > 1 and "rows" in sharding.spec:
            break
    else:
        return None
    mesh, n = sharding.mesh, data.shape[sharding.spec.index("rows")]
    copies = mesh.shape["chains"]
    if chains % copies:
        raise ValueError(
            f"chains: {copies} devices hold the same rows of X and share the chains, so that expected a multiple of "
            f"{copies}, got {chains}; change chains, or spread the rows over more devices."
        )

    def shapes(chains: int) -> list[Any]:
        return jax.tree.leaves(jax.eval_shape(lambda operands, key: kernel.init(operands, key, chains), operands, key))

    def sharding_of(leaf: Any, more: Any) -> NamedSharding:
        # An axis of the chains is one that grows with their number.
        axes = ["chains" if a != b else None for a, b in zip(leaf.shape, more.shape, strict=True)]
        by_row = [axis for axis, size in enumerate(leaf.shape) if size == n and axes[axis] is None]
        if by_row:
            axes[by_row[-1]] = "rows"
        return NamedSharding(mesh, PartitionSpec(*axes))

    return Layout(tuple(map(sharding_of, shapes(chains), shapes(chains + 1))))
