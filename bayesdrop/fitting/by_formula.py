"""Read a formula in place of features, ``bd.fit("y ~ x + C(site)", data)``, for ``bd.fit`` and ``bd.sample``."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._validation import check_choice, check_flag, check_number, listed
from ..data.dataset import check_offset
from ..data.formulas.formula import FormulaDesign, encode_formula
from ..data.frames import as_frame
from ..data.levels import UNSEEN
from ..data.responses import response_sd
from ..designs import as_design, as_streamed_design
from ..losses import Binomial, Logistic, Poisson, Softmax, Squared
from ..losses.base import Loss
from ..model import Model
from ..priors import HalfNormal, RandomEffects
from ..rates import Fixed, LeadingRates, PerFeature
from ..rates.learnt import is_tuned
from ..warnings import DefaultModelWarning, warn

__all__ = [
    "FormulaOptions",
    "FormulaProblem",
    "RowArguments",
    "default_model",
    "of_effects",
    "of_terms",
    "read_formula",
    "takes_response_scale",
]


# The logger of the package.
_log = logging.getLogger("bayesdrop")
# Maximum number of different values of a numeric response that the log mentions.
_FEW = 10


class FormulaOptions(NamedTuple):
    """How ``bd.fit`` and ``bd.sample`` read a formula; see :func:`bayesdrop.from_formula`, and :func:`of_effects`."""

    full_rank: bool = False
    unseen: str = "error"
    dropna: bool = False
    random_scale: Any = None
    correlation_shape: float | int = RandomEffects.eta

    def encoding(self) -> dict[str, Any]:
        """Options for encoding rows, by name; the other options concern priors."""
        return {name: getattr(self, name) for name in ("full_rank", "unseen", "dropna")}


class RowArguments(NamedTuple):
    """Arguments of ``bd.fit`` and ``bd.sample`` with a value for each row, or for each class."""

    sample_weight: Any = None
    class_weight: Any = None
    offset: Any = None
    groups: Any = None

    def of_design(self, design: FormulaDesign) -> RowArguments:
        """Values of the rows that a formula uses, its offset, and class weights by truth value for ``y[label]``.

        Raises
        ------
        ValueError
            If there is an offset in addition to that of the formula.

        Examples
        --------
        >>> table = {"age": [3.0, None, 5.0], "ill": ["no", "yes", "yes"]}
        >>> design = encode_formula("ill['yes'] ~ age", table, dropna=True)
        >>> rows = RowArguments([1.0, 2.0, 3.0], {"yes": 2.0}).of_design(design)
        >>> rows.sample_weight.tolist(), rows.class_weight
        ([1.0, 3.0], {True: 2.0})
        """
        if design.offset is not None and self.offset is not None:
            raise ValueError("offset: the formula has an offset(...) already; combine both in it, as in offset(a + b).")
        offset = _of_rows(design, self.offset) if design.offset is None else design.offset
        weight, groups = _of_rows(design, self.sample_weight), _of_rows(design, self.groups)
        return RowArguments(weight, _of_classes(design, self.class_weight), offset, groups)


class FormulaProblem(NamedTuple):
    """A model with its data, and the design of a formula, if there is one."""

    model: Any
    X: Any
    y: Any
    feature_names: Sequence[str] | None
    design: FormulaDesign | None
    rows: RowArguments


def read_formula(
    model: Any,
    X: Any,
    y: Any,
    feature_names: Sequence[str] | None,
    options: FormulaOptions | None = None,
    rows: RowArguments | None = None,
) -> FormulaProblem:
    """Read a formula given for the model or for the features; anything else is unchanged.

    Parameters
    ----------
    model : Model or str
        A model, or a formula with the data frame as ``X``: two labels of the response then mean ``bd.Logistic()``,
        more ``bd.Softmax()``, numbers ``bd.Squared()`` without noise, and two columns, as in ``"successes + failures ~
        dose"``, ``bd.Binomial()``. Whole numbers with an offset mean ``bd.Poisson()`` without noise, and a warning says
        so. The log states how the response was read.
    X : features, str or data frame
        Features, or a formula with the data frame as ``y``.
    y : response or data frame
        The response; None with a formula for the model.
    feature_names : sequence of p str, optional
        Names of the columns; a formula gives its own.
    options : FormulaOptions
        How a formula is encoded.
    rows : RowArguments
        Weights, offset and groups, of all rows of the table or of those that the formula uses.

    Raises
    ------
    TypeError
        If the response is missing, or there is one in addition to a formula.
    ValueError
        If the formula has no response, or names are given with it; or as in :func:`bayesdrop.from_formula`.

    Examples
    --------
    >>> data = {"age": [31.0, 45, 52, 28], "ill": ["no", "yes", "yes", "no"]}
    >>> read_formula("ill ~ age - 1", data, None, None).model.fit_intercept
    False
    """
    rows = rows or RowArguments()
    if not isinstance(model, str) and not isinstance(X, str):
        y = getattr(X, "response", None) if y is None else y
        if y is None:
            raise TypeError("y: expected a response with X; only a formula, such as 'y ~ a + b', names its own.")
        for name in _given(options):
            raise ValueError(f"{name}: it says how a formula is encoded, and there is none; leave it out.")
        return FormulaProblem(model, X, y, feature_names, None, rows)
    for name, data in (("X", X), ("y", y)):
        if as_streamed_design(data) is not None:
            raise TypeError(
                f"{name}: a formula needs its table in memory, and got {type(data).__name__}. Learn the encoding from "
                "some rows, design = bd.from_formula('~ a + C(b)', some_rows, full_rank=True), and encode a part at a "
                "time: bd.Blocks(lambda: (design.transform(part) for part in parts()), columns=design.feature_names)."
            )
    if isinstance(model, str):
        if y is not None:
            raise TypeError(
                "y: the formula names the response, a column of the data; to specify a model, put it first, as in "
                'bd.fit(bd.Model(), "y ~ a + b", data).'
            )
        formula, data, model_of_user = model, as_frame(X, "X", "for model is a formula"), None
    else:
        formula, data, model_of_user = X, as_frame(y, "y", "for X is a formula"), model
    if feature_names is not None:
        raise ValueError("feature_names: a formula names its columns; leave them out.")
    how = options or FormulaOptions()
    design = encode_formula(formula, data, missing=getattr(model_of_user, "missing", None), **how.encoding())
    if design.y is None:
        raise ValueError(f"formula: expected a response, as in 'y ~ {formula.strip().lstrip('~').strip()}'.")
    chosen = default_model(design) if model_of_user is None else model_of_user
    rows = rows.of_design(design)
    chosen = of_effects(of_terms(chosen, design), design, how, rows)
    return FormulaProblem(chosen, design.X, design.y, design.feature_names, design, rows)


def of_terms(model: Any, design: FormulaDesign) -> Any:
    """Adapt a model to the terms of a formula: its intercept, groups of rates, and names in priors.

    Examples
    --------
    >>> from bayesdrop import PerGroup
    >>> design = encode_formula("~ age + site", {"age": [3.0, 5.0], "site": ["n", "s"]})
    >>> of_terms(Model(rates=PerGroup()), design).rates.groups
    ['age', 'site', 'site']
    """
    if not isinstance(model, Model):
        return model
    p = len(design.feature_names) - design.n_effects
    model = replace(model, weight_prior=model.weight_prior.of_columns(design.feature_names[:p], design.groups[:p]))
    if not design.has_intercept:
        model = replace(model, fit_intercept=False)
    if not p:  # no feature has a rate
        return replace(model, rates=Fixed(0.0))
    rates: Any = model.rates
    if getattr(rates, "groups", ()) is None:
        model = replace(model, rates=replace(rates, groups=design.groups[:p]))
    return model


def of_effects(model: Any, design: FormulaDesign, options: FormulaOptions, rows: RowArguments) -> Any:
    """Add effects of random terms to a model, as last columns without noise and with separate scales.

    Parameters
    ----------
    model : Model
        The model of the features.
    design : FormulaDesign
        Design with random terms.
    options : FormulaOptions
        ``random_scale`` is the prior of the standard deviation of the effects of each term, or its value; by
        default ``bd.HalfNormal(1.0)`` for classes and counts, and for numbers a half-normal prior with the standard
        deviation of the response minus the offset; ``correlation_shape`` is the exponent of the LKJ prior of
        correlated terms.
    rows : RowArguments
        Weights and offset of the rows of the design.

    Raises
    ------
    ValueError
        If the model cannot have such columns, a scale names no term, or a shape is given without a correlated term.

    Examples
    --------
    >>> data = {"age": [3.0, 5.0, 4.0], "site": ["n", "s", "n"], "ill": [0, 1, 1]}
    >>> design = encode_formula("ill ~ age + (1 | site)", data)
    >>> of_effects(Model(), design, FormulaOptions(), RowArguments()).weight_prior.terms
    ['1|site']
    """
    names, scale = [term.name for term in design.random_terms], options.random_scale
    shape = check_number(options.correlation_shape, "correlation_shape", above=0, advice="1 is flat, 2 the default")
    blocks = dict.fromkeys(term.block for term in design.random_terms if term.block)
    if shape != RandomEffects.eta and not blocks:
        raise ValueError(
            f"correlation_shape: the formula {design.formula!r} has no term such as (x | site), whose effects are "
            "correlated; leave it out."
        )
    if not names:
        if scale is not None:
            raise ValueError(
                f"random_scale: the formula {design.formula!r} has no term such as (1 | site); leave it out."
            )
        return model
    if not isinstance(model, Model):
        return model
    if not model.noise.has_rate:
        raise ValueError(
            f"noise: {model.noise!r} moves every column, and the effects of ({names[0]}) have no noise; take "
            "bd.Dropout(), or leave the term out."
        )
    if is_tuned(model.rates):
        raise ValueError(
            "rates: bd.Tuned takes no random terms, whose scale a point fit does not learn; give bd.PerFeature() or "
            "bd.Fixed(...)."
        )
    scale_of_term = dict.fromkeys(names, scale)
    if isinstance(scale, Mapping):
        plain = {re.sub(r"\s|^\s*\(|\)\s*$", "", str(name)): value for name, value in scale.items()}
        unknown_names = [name for name in plain if name not in [name.replace(" ", "") for name in names]]
        if unknown_names:
            raise ValueError(
                f"random_scale: {unknown_names[0]!r} is not a term of the formula; the terms are {listed(names)}."
            )
        scale_of_term = {name: plain.get(name.replace(" ", "")) for name in names}
    default = _default_scale(model, design, rows) if any(one is None for one in scale_of_term.values()) else None
    scales = [default if scale_of_term[name] is None else scale_of_term[name] for name in names]
    levels = [term.level_names for term in design.random_terms]
    rates: Any = PerFeature() if model.rates is None else model.rates
    if blocks and model.loss.multiclass:
        raise ValueError(
            f"loss: the effects of ({next(iter(blocks))}) are correlated, which {model.loss!r} does not take; write "
            "the term with ||, as in (x || site)."
        )
    correlated = [[term.name for term in design.random_terms if term.block == block] for block in blocks]
    prior = RandomEffects(model.weight_prior, names, levels, scales, correlated, shape)
    if prior.mixture is not None and model.loss.multiclass:
        raise ValueError(
            f"weight_prior: with random terms {model.loss!r} takes bd.Normal(...) for the features, got "
            f"{model.weight_prior!r}; sample each class against the others, as bd.Logistic()."
        )
    return replace(model, rates=LeadingRates(rates, design.n_effects), weight_prior=prior)


def takes_response_scale(loss: Loss) -> bool:
    """Whether scores, and hence the effects of random terms, are in units of the response by default."""
    return not (loss.binary or loss.multiclass) and loss.largest_count is None


def _default_scale(model: Model, design: FormulaDesign, rows: RowArguments) -> HalfNormal:
    """Prior of the standard deviation of effects, in units of the score."""
    if not takes_response_scale(model.loss):
        return HalfNormal(1.0)
    if design.y is None:
        raise ValueError(
            "random_scale: by default it is in units of the response, which the formula does not name; give "
            "random_scale=bd.HalfNormal(1.0), say, or name the response, as in 'y ~ x + (1 | site)'."
        )
    checked = as_design(design.X)
    offset = None if rows.offset is None else check_offset(rows.offset, len(design.rows))
    return HalfNormal(response_sd(checked.targets(design.y), checked.row_weights(rows.sample_weight), offset) or 1.0)


def _given(options: FormulaOptions | None) -> list[str]:
    """Names of options that differ from the defaults; raise an error for invalid options."""
    if options is None:
        return []
    check_flag(options.full_rank, "full_rank")
    check_choice(options.unseen, "unseen", UNSEEN)
    check_flag(options.dropna, "dropna")
    check_number(options.correlation_shape, "correlation_shape", above=0)
    if options.random_scale is not None:
        return ["random_scale"]
    return [name for name, value in options._asdict().items() if value != FormulaOptions()._asdict()[name]]


def _of_classes(design: FormulaDesign, class_weight: Any) -> Any:
    """Convert class weights by the labels of ``response[label]`` to weights by truth value."""
    if design.classes is None or not isinstance(class_weight, Mapping):
        return class_weight
    negative, positive = design.classes.tolist()
    return {{positive: True, negative: False}.get(label, label): weight for label, weight in class_weight.items()}


def _of_rows(design: FormulaDesign, values: Any) -> Any:
    """Values of the rows of a table, restricted to the rows that a formula uses; anything else unchanged."""
    if len(design.rows) == design.n_rows or np.ndim(values) == 0 or len(values) != design.n_rows:
        return values
    return np.asarray(values)[design.rows]


def default_model(design: FormulaDesign, loss: Loss | None = None) -> Model:
    """Default model for a response, or for a given loss.

    Examples
    --------
    >>> default_model(encode_formula("sold ~ age", {"age": [3.0, 5.0], "sold": ["no", "yes"]})).loss
    Logistic(expectation='augmentation')
    """
    y = np.asarray(design.y)
    if loss is not None:
        # No rule learns rates under a loss for numbers, so there is no noise by default.
        return Model(loss, rates=None if loss.binary or loss.multiclass else Fixed(0.0))
    levels = 0 if y.ndim > 1 else len(np.unique(y))
    whole = y.dtype.kind in "iuf" and bool(np.all(y == np.round(y)))

    def taken(kind: str, model: Model) -> Model:
        noise = ", without noise" if isinstance(model.rates, Fixed) else ""
        _log.info("the response is taken for %s: bd.%s()%s", kind, type(model.loss).__name__, noise)
        return model

    if y.ndim > 1:
        return taken("successes and failures", Model(Binomial()))
    if design.offset is not None and y.dtype.kind in "iuf" and np.all((y >= 0) & (y == np.round(y))):
        warn(
            "whole numbers with an offset are taken for counts: the model is "
            "bd.Model(bd.Poisson(), rates=bd.Fixed(0.0)). To choose, write it before the formula.",
            DefaultModelWarning,
        )
        return taken("counts", Model(Poisson(), rates=Fixed(0.0)))
    if y.dtype.kind in "iuf" and levels > 2:
        few = f" of {levels} values" if levels <= _FEW else ""
        counts = " (whole numbers, none below 0: bd.Poisson() and bd.NegativeBinomial() take them for counts)"
        kind = f"numbers{few}{counts if whole and np.all(y >= 0) else ''}"
        return taken(kind, Model(Squared(), rates=Fixed(0.0)))
    if levels > 2:
        return taken(f"one of {levels} classes", Model(Softmax()))
    return taken("0 and 1" if y.dtype.kind in "iufb" else "two classes", Model(Logistic()))
