"""Protocols of samplers: settings of the user, and the kernel bound to a model and data.

A kernel has ``init`` and ``step``, and declares the variables that it records. The runner, the builder of results and
the adapter for NumPyro read this declaration and have no other list of names: a user's sampler may record any variable.

A rate near 1 has no digits left in single precision, and one near 0 may underflow. Samplers record logits and
logarithms, in their own precision; a posterior stores the variables themselves, in double precision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from .._typing import AnyArray, Shaped
from ..data.dataset import Dataset
from ..model import Model
from ..rates import RateMap

__all__ = ["HostKernel", "Kernel", "Sampler", "StreamingSampler", "natural", "natural_name"]


@runtime_checkable
class Kernel(Protocol):
    """Protocol of a kernel: the transition of all chains at once, hashable, with the data as operands.

    It holds the settings that are fixed at compilation and no data. Equal kernels share a compiled program; a class
    without an ``__eq__`` of its own is compiled for every run. The state is a pytree of arrays with everything that the
    next draw depends on, random key included.

    Attributes
    ----------
    variables : mapping of str to tuples of str
        Posterior variables of every draw, each with its dims after (chain, draw), as in
        ``{"weight": ("feature",), "intercept": (), "rate": ("group",)}``. Dims are those of the result: ``"feature"``,
        ``rate_map.dim`` for ``"rate"``, or other names, whose entries are then numbered from 0. No dim shares
        a variable's name. Variables are declared by their names in the posterior, also if they are recorded on
        another scale (:func:`natural_name`: ``logit_rate`` is ``rate``).
    statistics : tuple of str
        Numbers of every draw that are not posterior variables, one per chain; ``"lp"``, the joint log density up
        to a constant, is one of them.
    """

    @property
    def variables(self) -> Mapping[str, tuple[str, ...]]:
        """Dims of the posterior variables by name."""

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the sample statistics."""

    def init(self, operands: Any, key: PRNGKeyArray, chains: int) -> Any:
        """State of ``chains`` chains before the first draw."""

    def step(self, operands: Any, state: Any) -> tuple[Any, dict[str, jax.Array]]:
        """Take one draw; return the new state and all declared variables and statistics, (chains, …) on their dims."""


@runtime_checkable
class HostKernel(Kernel, Protocol):
    """A kernel whose data lie outside JAX: Python calls ``init`` and ``step``, which read them and are not compiled."""

    def shapes(self, operands: Any, key: PRNGKeyArray, chains: int) -> tuple[Any, dict[str, jax.ShapeDtypeStruct]]:
        """Shapes of the state of ``chains`` chains, and of the record of a step."""


@runtime_checkable
class Sampler(Protocol):
    """Protocol of what a user chooses as ``method``: settings, and a kernel made from them for a model and data.

    Attributes
    ----------
    dtype : str
        ``"float32"`` or ``"float64"``: precision of the draws.
    warm_up : int
        Draws that are discarded by default, at least 1.
    integrates_masks : bool
        True if the masks of a model are integrated approximately, which the posterior then reports.

    Further attributes are optional. ``takes_offset = True``: the sampler adds ``data.offset`` to the scores; without it
    an offset raises an error. ``takes_correlation = True``: it draws correlated effects of random terms, and random
    terms with features under a mixture such as ``bd.Laplace``. ``correct = True``: it integrates masks as if scores
    were normal, from the prior of the model, and ``bd.sample`` corrects its draws if rows are few.
    """

    dtype: str
    warm_up: int
    integrates_masks: bool

    def bind(
        self, model: Model, data: Dataset, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[Kernel, Any]:
        """Kernel and operands for ``tune`` draws of warm-up, called with JAX in the precision of ``dtype``.

        The kernel has the statistic ``lp`` and the variables ``weight`` (p,), ``intercept`` () if the model has one,
        and ``rate`` (k,) if rates are free. ``marginalised`` asks for the pseudo-posterior ``exp(−U)``.
        """


@runtime_checkable
class StreamingSampler(Sampler, Protocol):
    """A sampler that also accepts rows that are read when needed or lie on a cluster (``design.is_streamed``)."""

    def bind_streamed(
        self, model: Model, data: Dataset, rate_map: RateMap, tune: int, marginalised: bool = False
    ) -> tuple[HostKernel, Any]:
        """Kernel and operands, as by ``bind``; of the rows only vectors over them are kept, where the rows lie."""


Draws = dict[str, Shaped[AnyArray, "..."]]

_LOGITS = {"logit_rate": "rate", "logit_group_rate": "group_rate"}
_LOGARITHMS = {"log_group_strength": "group_strength", "log_weight_scale": "weight_scale"}
_LOGARITHMS |= {"log_sigma": "sigma", "log_dispersion": "dispersion"}


def natural_name(name: str) -> str:
    """Name in the posterior of a recorded variable.

    Examples
    --------
    >>> natural_name("logit_rate"), natural_name("weight")
    ('rate', 'weight')
    """
    return _LOGITS.get(name) or _LOGARITHMS.get(name) or name


def natural(draws: Draws) -> Draws:
    """Convert recorded draws to the names and scales of a posterior; converted NumPy arrays become double.

    Examples
    --------
    >>> natural({"weight": np.ones(1), "logit_rate": np.array([0.0, -50.0], np.float32)})["rate"].tolist()
    [0.5, 1.9287498479639178e-22]
    """
    variables = {}
    for name, value in draws.items():
        new = natural_name(name)
        if new == name:
            variables[name] = value
            continue
        wide = value.astype(np.float64) if isinstance(value, np.ndarray) else value
        xp = wide.__array_namespace__()
        variables[new] = xp.exp(-xp.logaddexp(xp.zeros_like(wide), -wide) if name in _LOGITS else wide)
    return variables
