"""Running summaries of draws that are not kept, in memory that does not grow with the draws.

Of every chain and every number of a variable:

    mean, M     ``Σ(x − mean)²``, one draw after the other (Welford 1962)
    batches     means of consecutive draws, at most 32, of as many draws each; once they are full, pairs become one
    some draws  every ``2^k``-th, from the first, 256 of all chains at most; once they are full, every other one goes

Split R-hat is that of Gelman, Carlin, Stern, Dunson, Vehtari & Rubin (2013, section 11.4), of values and not of ranks,
a chain split between two batches, with ``W`` and ``B`` weighted by the sizes of the halves. The effective sample size
is that of batch means (Flegal & Jones 2010),

    ESS = S s² / (b Var x̄_b),

with the ``S`` draws of all chains, their variance ``s²`` and the variance of all means of ``b`` draws about their
common mean, so that chains which disagree have few. Its own relative standard error is ``√(2/a)`` with ``a`` batches,
0.13 to 0.18 of four chains, and it is too large where chains remember more than ``b`` draws. A quantile from ``m``
draws has a level that is off by ``√(q(1 − q)/m)``, where the draws are nearly independent: 0.014 at 5 % of 256.

Every draw is added by itself, so that nothing depends on how draws are cut into chunks. Shapes: ``C`` chains.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._typing import Float, Int, Shaped
from ..protocols import natural, natural_name

__all__ = ["Finishing", "Keeping", "Summarised", "Summary", "batches_of", "joined"]

# Batches of a chain, an even number, and draws of all chains that are kept.
_BATCHES, _DRAWS = 32, 256
_KINDS = ("mean", "square", "sum", "batches", "draws")

Arrays = dict[str, Shaped[np.ndarray, "..."]]


class Summarised(NamedTuple):
    """What is known of a variable.

    Attributes
    ----------
    mean, sd : array (…)
        Over all draws of all chains; ``sd`` divides by their number, as :func:`numpy.std` does.
    r_hat, ess : array (…)
        NaN where nothing varies or there are too few draws or chains to tell.
    draws : array (C, m, …)
        Draws that were kept, evenly spaced from the first.
    """

    mean: Float[np.ndarray, ...]
    sd: Float[np.ndarray, ...]
    r_hat: Float[np.ndarray, ...]
    ess: Float[np.ndarray, ...]
    draws: Shaped[np.ndarray, "C m ..."]


class Summary:
    """Summaries of some variables, draw by draw.

    Parameters
    ----------
    shapes : mapping of str to (tuple of int, dtype)
        Shape (C, …) and dtype of a draw of each variable, of all chains.

    Attributes
    ----------
    count : int
        Draws of each chain so far.
    arrays : dict of arrays
        All that is held, of shapes that do not depend on the number of draws.

    Examples
    --------
    >>> summary = Summary({"weight": ((2, 1), np.float64)})
    >>> for draw in np.arange(12.0).reshape(6, 2, 1):
    ...     summary.add({"weight": draw})
    >>> found = summary.result()["weight"]
    >>> found.mean.tolist(), found.draws.shape, summary.steps.tolist()
    ([5.5], (2, 6, 1), [0, 1, 2, 3, 4, 5])
    """

    def __init__(self, shapes: Mapping[str, tuple[tuple[int, ...], Any]]) -> None:
        self.count = 0
        self.names = tuple(shapes)
        self.arrays: Arrays = {}
        for name, (shape, dtype) in shapes.items():
            held = {
                "mean": np.zeros(shape),
                "square": np.zeros(shape),
                "sum": np.zeros(shape),
                "batches": np.zeros((_BATCHES, *shape)),
                "draws": np.zeros((_room(shape[0]), *shape), dtype),
            }
            self.arrays |= {f"{name}.{kind}": held[kind] for kind in _KINDS}

    @property
    def nbytes(self) -> int:
        """Bytes of all that is held."""
        return sum(value.nbytes for value in self.arrays.values())

    def shapes(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shapes and dtypes of the arrays."""
        return {name: (value.shape, value.dtype) for name, value in self.arrays.items()}

    def restore(self, arrays: Mapping[str, Shaped[np.ndarray, ...]], count: int) -> None:
        """Go on from arrays after ``count`` draws."""
        self.arrays, self.count = {name: np.array(arrays[name]) for name in self.arrays}, count

    @property
    def steps(self) -> Int[np.ndarray, " m"]:
        """Numbers of the draws that are kept."""
        stride = _doubled(self.count, self._room)
        return np.arange(0, self.count, stride)

    @property
    def _room(self) -> int:
        return len(self.arrays[f"{self.names[0]}.draws"])

    def add(self, draw: Mapping[str, Shaped[np.ndarray, "C ..."]]) -> None:
        """Take one draw of every variable, (C, …) each."""
        for name in self.names:
            held = {kind: self.arrays[f"{name}.{kind}"] for kind in _KINDS}
            _add(held, np.asarray(draw[name]), self.count)
        self.count += 1

    def result(self) -> dict[str, Summarised]:
        """Summaries of the draws so far, at least one."""
        return {name: self._of(name) for name in self.names}

    def _of(self, name: str) -> Summarised:
        mean, square, _, batches, draws = (self.arrays[f"{name}.{kind}"] for kind in _KINDS)
        total = self.count * len(mean)
        common = mean.mean(axis=0)
        variance = (square.sum(axis=0) + self.count * np.sum((mean - common) ** 2, axis=0)) / total
        size = _batch_size(self.count)
        full = batches[: batches_of(self.count)]
        with np.errstate(invalid="ignore", divide="ignore"):
            varies = variance > 0
            error = size * full.var(axis=(0, 1), ddof=1) if len(full) > 1 else variance
            ess = np.where(varies & (len(full) > 1), total * variance / error, np.nan)
        r_hat = np.where(varies, _split_r_hat(mean, square, full, size, self.count), np.nan)
        kept = np.moveaxis(draws[: len(self.steps)], 0, 1)
        return Summarised(common, np.sqrt(variance), r_hat, ess, kept)


def _room(chains: int) -> int:
    """Draws of a chain that are kept at most: an even number."""
    return max(2 * (_DRAWS // (2 * chains)), 2)


def _doubled(count: int, room: int) -> int:
    """Smallest power of two by which ``count`` draws are at most ``room``."""
    return 1 << max(math.ceil(count / room) - 1, 0).bit_length()


def batches_of(count: int) -> int:
    """Full batches of a chain after so many draws.

    Examples
    --------
    >>> batches_of(31), batches_of(1000)
    (31, 31)
    """
    return count // _batch_size(count)


def _batch_size(count: int) -> int:
    """Draws of a batch after so many: fewer than all batches are full."""
    return 1 << (count // _BATCHES).bit_length()


def _add(running: dict[str, Any], x: Shaped[np.ndarray, "C ..."], before: int) -> None:
    """Add a draw after ``before`` ones, in place."""
    wide = x.astype(np.float64)
    away = wide - running["mean"]
    running["mean"] += away / (before + 1)
    away *= wide - running["mean"]
    running["square"] += away
    # Batches.
    running["sum"] += wide
    size, after = _batch_size(before), before + 1
    if after % size == 0:
        batches, number = running["batches"], after // size
        batches[number - 1] = running["sum"] / size
        running["sum"][:] = 0
        if number == _BATCHES:
            batches[: number // 2] = (batches[0::2] + batches[1::2]) / 2
    # Draws.
    draws = running["draws"]
    stride = _doubled(before, len(draws))
    if before == stride * len(draws):
        draws[: len(draws) // 2] = draws[0::2]
        stride *= 2
    if before % stride == 0:
        draws[before // stride] = x


def _split_r_hat(
    mean: Float[np.ndarray, "C ..."],
    square: Float[np.ndarray, "C ..."],
    batches: Float[np.ndarray, "a C ..."],
    size: int,
    count: int,
) -> Float[np.ndarray, ...]:
    """Split R-hat from means and squares of chains and the means of their batches; NaN of one chain or few draws."""
    chains, half = len(mean), len(batches) // 2
    first = half * size
    if chains < 2 or first < 2:
        return np.full(mean.shape[1:], np.nan)
    sizes = np.repeat([first, count - first], chains).reshape(-1, *[1] * (mean.ndim - 1))
    early = batches[:half].mean(axis=0)
    halves = np.concatenate([early, (count * mean - first * early) / (count - first)])
    between = sizes * (halves - np.concatenate([mean, mean])) ** 2
    within = np.maximum(square.sum(axis=0) - between.sum(axis=0), 0) / (chains * (count - 2))
    middle = (sizes * halves).sum(axis=0) / (chains * count)
    spread = np.sum(sizes * (halves - middle) ** 2, axis=0) / (2 * chains - 1)
    length = count / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt((length - 1) / length + spread / length / within))


Part = dict[str, Shaped[np.ndarray, "..."]]


# Recorded with the weights where the noise is centred: wᵀc, without which an intercept cannot be moved later.
_CENTRE_SCORE = "centre_score"


@dataclass(frozen=True)
class Finishing:
    """Makes what users read of what samplers record; arrays may have any axes before those of a variable.

    Attributes
    ----------
    centre : array (p,) or None
        Where the noise is centred, if there is an intercept to be moved.
    multiclass : bool
        Intercepts are those of many classes, and sum to zero.

    Examples
    --------
    >>> finish = Finishing(np.array([2.0]), False)
    >>> part = {"weight": np.ones((1, 3, 1)), "intercept": np.full((1, 3), 5.0)}
    >>> finish.values(part | finish.more(part))["intercept"].tolist()
    [[3.0, 3.0, 3.0]]
    """

    centre: Float[np.ndarray, " p"] | None
    multiclass: bool

    def more(self, part: Part) -> Part:
        """``wᵀc`` of every draw, in double precision; arrays have two axes, of draws and chains, before their own."""
        if self.centre is None:
            return {}
        weight = part["weight"]
        found = np.empty(weight.shape[:-1])
        for place in np.ndindex(weight.shape[:2]):  # one at a time, for all of them would be as large as the draws
            found[place] = np.sum(weight[place].astype(np.float64) * self.centre, axis=-1)
        return {_CENTRE_SCORE: found}

    def values(self, part: Part) -> Part:
        """Variables as they are stored."""
        found = natural({name: value for name, value in part.items() if name != _CENTRE_SCORE})
        if self.centre is not None and "intercept" in found:  # whose draws may not be kept
            # In double precision, for wᵀc is taken off here and added again wherever scores are computed.
            intercept = found["intercept"].astype(np.float64) - part[_CENTRE_SCORE]
            if self.multiclass:
                intercept = intercept - intercept.mean(axis=-1, keepdims=True)
            found["intercept"] = intercept
        return found


class Keeping:
    """What becomes of the parts of a run.

    Parameters
    ----------
    kept : collection of str
        Variables, by their names in the posterior, that are kept draw by draw; statistics are kept always.
    variables : collection of str
        All variables that the kernel declares.
    recorded : mapping of str to jax.ShapeDtypeStruct
        What a step records, chains first.
    finish : Finishing
        How summaries see what is recorded.

    Attributes
    ----------
    summary : Summary
        Of the variables that are not kept.
    shapes : dict of jax.ShapeDtypeStruct
        What is kept of a step, chains first.
    """

    def __init__(
        self, kept: Collection[str], variables: Collection[str], recorded: Mapping[str, Any], finish: Finishing
    ) -> None:
        self._finish = finish
        self._left_out = {name for name in recorded if natural_name(name) in set(variables) - set(kept)}
        example = self._whole({name: np.zeros((1, *leaf.shape), leaf.dtype) for name, leaf in recorded.items()})
        self.shapes = {
            name: jax.ShapeDtypeStruct(value.shape[1:], value.dtype)
            for name, value in example.items()
            if name not in self._left_out
        }
        self.summary = Summary(
            {name: (value.shape[1:], value.dtype) for name, value in self._summarised(example).items()}
        )

    def take(self, part: Part) -> Part:
        """Add draws to the summaries, and return what is kept of them."""
        whole = self._whole(part)
        values = self._summarised(whole)
        for step in range(len(next(iter(part.values())))):
            self.summary.add({name: value[step] for name, value in values.items()})
        return {name: value for name, value in whole.items() if name not in self._left_out}

    def result(self) -> dict[str, Summarised]:
        """Summaries of the draws so far."""
        return self.summary.result()

    def _whole(self, part: Part) -> Part:
        return part | self._finish.more(part)

    def _summarised(self, whole: Part) -> Part:
        names = {natural_name(name) for name in self._left_out}
        return {name: value for name, value in self._finish.values(whole).items() if name in names}


def joined(
    parts: list[tuple[int, dict[str, Shaped[np.ndarray, "_ C ..."]]]],
) -> dict[str, Shaped[np.ndarray, "_ C ..."]]:
    """All parts as one; each is taken out of the list as it is copied, so that draws are not kept twice.

    Examples
    --------
    >>> joined([(2, {"weight": np.zeros((2, 1))}), (1, {"weight": np.ones((1, 1))})])["weight"].ravel().tolist()
    [0.0, 0.0, 1.0]
    """
    length = sum(len(next(iter(part.values()))) for _, part in parts)
    whole = {name: np.empty((length, *value.shape[1:]), value.dtype) for name, value in parts[0][1].items()}
    at = 0
    while parts:
        _, part = parts.pop(0)
        count = len(next(iter(part.values())))
        for name, value in whole.items():
            value[at : at + count] = part.pop(name)
        at += count
    return whole
