"""A kernel records what it says that it records: checked by shapes, before a draw is taken and could be lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax

from ..protocols import Kernel
from ..scales import natural_name

__all__ = ["check_declarations"]


def check_declarations(
    kernel: Kernel,
    recorded: Mapping[str, jax.ShapeDtypeStruct],
    chains: int,
    required: Sequence[str],
    sizes: Mapping[str, int],
) -> None:
    """Compare what a kernel declares with what a step of it records, what is required and the lengths of known dims.

    Raises
    ------
    TypeError
        With everything that does not fit.
    """
    shapes = {natural_name(name): tuple(value.shape) for name, value in recorded.items()}
    variables, statistics = dict(kernel.variables), tuple(kernel.statistics)
    wrong = [f"{name!r} is required and not declared" for name in required if name not in {*variables, *statistics}]
    wrong += [f"{name!r} is declared twice" for name in statistics if name in variables]
    wrong += [f"{name!r} is recorded and not declared" for name in shapes if name not in {*variables, *statistics}]
    known: dict[str, int] = {"chain": -1, "draw": -1, **sizes}  # the first two are nobody's to use
    for name, dims in {**variables, **dict.fromkeys(statistics, ())}.items():
        if name not in shapes:
            wrong.append(f"{name!r} is declared and not recorded")
            continue
        shape = shapes[name]
        lengths = [known.get(dim, size) for dim, size in zip(dims, shape[1:], strict=False)]
        if shape != (chains, *lengths) or len(dims) != len(shape) - 1 or len(set(dims)) < len(dims):
            wrong.append(f"{name!r} has shape {shape} on (chain, {', '.join(dims)}), of {chains} chains")
        else:
            known |= dict(zip(dims, lengths, strict=True))
    wrong += [f"{name!r} is the name of a dim as well" for name in (*variables, *statistics) if name in known]
    if wrong:
        raise TypeError(
            f"method: expected a kernel that records {list(required)} and all that it declares, got {shapes}: "
            f"{'; '.join(wrong)}; see bayesdrop.sampling.protocols.Kernel."
        )
