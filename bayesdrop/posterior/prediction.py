r"""Predict new rows from a posterior, or from a point fit as a posterior of one draw: ``bd.predict``.

New rows have the noise of the model, so each draw averages over it. With ``s`` the noised score under the weights and
rates of the draw,

    two classes   P(y = +1 | w, b, η) = E P(y = +1 | s)        (:mod:`.noise_average`: exact, or to 5e-4)
    many classes  P(y = k | w, b, η) = E softmax(s)_k          (:mod:`.noise_average`: exact, or to about 0.002)
    numbers       E s, which is E(y | w, b, η), or a quantile of y given the score (``score_is`` of the loss)
    counts        E(y | w, b, η) = E e^s, r E e^s or N E σ(s)  (:mod:`.expected_response`)

and averages and quantiles are taken over the draws. The
interval of a new response comes from simulated responses (:func:`bayesdrop.posterior_predictive`), each with fresh
noise.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .._display import Shown
from .._typing import DataFrame, Float, Shaped
from .._validation import check_flag, check_number, check_seed, takes_seed
from ..data.column_facts import complete_rows
from ..fitting.results.result import Fit
from ..losses.protocols import Simulated, require
from .arviz_groups.constants import class_names
from .draws.draws import Draws, blocks
from .draws.new_rows import for_rows, match_offset, match_rows, read_result, with_unseen
from .noise_average.expectation import expected_response

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Prediction", "predict"]

_NOT_CALIBRATED = (
    "Not calibrated: the loss is no likelihood, so these are normalised pseudo-likelihoods, whose steepness depends "
    "on C. Use bd.Logistic() for probabilities."
)


@dataclass(frozen=True, repr=False)
class Prediction(Shown):
    """Predictions for ``n`` rows, with posterior intervals unless they come from a point fit.

    Attributes
    ----------
    mean : array (n,), or (n, K) for many classes
        Posterior mean of the probability of the positive class, of the probability of each class, or of the expected
        response.
    sd : array (n,) or (n, K), or None
        Posterior standard deviation; None for a point fit, as are ``low`` and ``high``.
    low, high : array (n,) or (n, K), or None
        Ends of the equal-tailed posterior interval.
    probability : float
        Probability content of the intervals.
    label : array (n,) or None
        Predicted class, in the user's labels: the positive class where ``mean`` is above 1/2, or the class with the
        largest ``mean``; None for a regression.
    classes : array (K,) or None
        The labels; of two, the negative class is the first.
    response_low, response_high : array (n,) or None
        Ends of the equal-tailed interval of a new response, its noise included; None for classes.
    note : str
        A caveat about the numbers; empty if there is none.
    score_is : str
        Description of ``mean`` for a numeric response: its expectation, or one of its quantiles.
    rows : array (n,) or None
        Labels of the rows, from the index of a pandas data frame.

    See Also
    --------
    predict

    Examples
    --------
    >>> print(Prediction(np.array([0.9]), np.array([0.02]), np.array([0.85]), np.array([0.94]), 0.9,
    ...                  np.array(["yes"]), np.array(["no", "yes"])))
    1 row, posterior probability of yes, 90 % interval
    row   mean  interval        label
      0  0.900  0.850 to 0.940  yes
    """

    mean: Float[np.ndarray, "n ..."]
    sd: Float[np.ndarray, "n ..."] | None
    low: Float[np.ndarray, "n ..."] | None
    high: Float[np.ndarray, "n ..."] | None
    probability: float
    label: Shaped[np.ndarray, " n"] | None = None
    classes: Shaped[np.ndarray, " K"] | None = None
    response_low: Float[np.ndarray, " n"] | None = None
    response_high: Float[np.ndarray, " n"] | None = None
    note: str = ""
    score_is: str = "expected response"
    rows: Shaped[np.ndarray, " n"] | None = None

    def to_dataset(self) -> xr.Dataset:
        """Everything as an :class:`xarray.Dataset` on the dim ``obs_id``, and ``class`` if there are many."""
        import xarray as xr

        attrs: dict[str, Any] = {"probability": self.probability}
        coords: dict[str, Any] = {"obs_id": np.arange(len(self.mean)) if self.rows is None else self.rows}
        if self.mean.ndim > 1 and self.classes is not None:
            coords |= class_names(self.classes)
        elif self.classes is not None:
            attrs["positive_class"] = str(self.classes[1])
        if self.note:
            attrs["note"] = self.note
        dims = ("obs_id", "class")
        data = {name: (dims[: values.ndim], values) for name, values in self._parts().items()}
        return xr.Dataset(data, coords=coords, attrs=attrs)

    def to_frame(self) -> DataFrame:
        """One row of a pandas data frame for each row, with its label if there is one.

        Columns are ``mean``, ``sd``, ``low``, ``high``, ``label``, ``response_low`` and ``response_high``, if present;
        for many classes the probability of each under its label, and ``label`` (``label_`` if a class has this name).

        Examples
        --------
        >>> one = Prediction(np.array([0.9]), None, None, None, 0.9, rows=np.array(["Ann"]))
        >>> one.to_frame().loc["Ann", "mean"]
        np.float64(0.9)
        """
        import pandas as pd

        data: dict[str, Any] = {}
        if self.mean.ndim > 1 and self.classes is not None:
            data, name = {str(label): self.mean[:, k] for k, label in enumerate(self.classes)}, "label"
            while name in data:
                name += "_"
            data[name] = self.label
        else:
            data = self._parts()
        index = None if self.rows is None else pd.Index(self.rows, tupleize_cols=False)
        return pd.DataFrame(data, index=index)

    def _parts(self) -> dict[str, Any]:
        """Arrays over the rows that are present, by name."""
        names = ("mean", "sd", "low", "high", "label", "response_low", "response_high")
        return {name: values for name in names if (values := getattr(self, name)) is not None}

    @property
    def _title(self) -> str:
        n, many = len(self.mean), self.mean.ndim > 1
        what = self.score_is if self.classes is None else f"probability of {self.classes[1]}"
        what = "probability of the class predicted" if many else what
        title = f"{n:,} row{'s' * (n != 1)}, "
        if self.low is None:
            return f"{title}{what} by the fitted weights"
        return f"{title}posterior {what}, {100 * self.probability:g} % interval"

    def __repr__(self) -> str:
        return f"<Prediction: {self._title}>"

    def __str__(self) -> str:
        n = len(self.mean)
        shown = list(range(n)) if n <= 12 else [*range(6), *range(n - 6, n)]
        top = np.argmax(self.mean, axis=1) if self.mean.ndim > 1 else None

        def cells(values: Any, i: int) -> str:
            value = values[i] if top is None else values[i, top[i]]
            return f"{value:.3f}" if self.classes is not None else f"{value:.4g}"

        columns = {
            "row": [str(i if self.rows is None else self.rows[i]) for i in shown],
            "mean": [cells(self.mean, i) for i in shown],
        }
        if self.low is not None:
            columns["interval"] = [f"{cells(self.low, i)} to {cells(self.high, i)}" for i in shown]
        if self.label is not None:
            columns["label"] = [str(self.label[i]) for i in shown]
        if self.response_low is not None:
            columns["new response"] = [
                f"{cells(self.response_low, i)} to {cells(self.response_high, i)}" for i in shown
            ]
        padded = []
        for name, column in columns.items():
            side, width = ">" if name in ("row", "mean") else "<", max(map(len, [name, *column]))
            padded.append([f"{cell:{side}{width}}" for cell in (name, *column)])
        lines = ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        if n > len(shown):
            lines.insert(7, f"… {n - len(shown):,} more …")
        return "\n".join([self._title, *lines, *([self.note] if self.note else [])])


@takes_seed
def predict(
    post: Any,
    X: Any,
    *,
    probability: float | int = 0.9,
    corrupted_inputs: bool = False,
    offset: Any = None,
    unseen: str | None = None,
    seed: Any = 0,
) -> Prediction:
    """Predict new rows from a posterior, with intervals, or from a point fit.

    Parameters
    ----------
    post : InferenceData or DataTree, or Fit
        What ``bd.sample`` returned or :func:`bayesdrop.groups.load` read, with at least one draw; or what ``bd.fit``
        returned, whose weights and rates then count as known.
    X : array, data frame, scipy sparse, Blocks or Dask collection (n, p)
        New rows, with the columns of the fit or the posterior; named columns are matched by name. Sparse input is never
        made dense. ``bd.Blocks`` are read once, a block at a time; the rows of a Dask collection are predicted by its
        workers.
    probability : float, default=0.9
        Probability content of the intervals, in (0, 1).
    corrupted_inputs : bool, default=False
        Whether the rows are corrupted already, as in the estimators: the score is then ``wᵀx + b``. By default
        predictions average over the noise of the model, at the rates of each draw.
    offset : array (n,) or float, optional
        Known part of the score of each row, needed if the rows of the fit or the posterior had one; 0 is an exposure of
        one unit. With a formula it is read from the data frame.
    unseen : "error", "population" or "draw", optional
        Treatment of a level absent from the fit, as in :func:`bayesdrop.sample`; by default as chosen there.
    seed : int, numpy.random.Generator or RandomState, default=0
        Seed of the simulated responses behind intervals of new numeric responses, and of the effects of new levels by
        ``unseen="draw"``; all else is deterministic.

    Returns
    -------
    Prediction
        Labelled by the index of a pandas data frame. For two classes it has the posterior of the probability of the
        positive class, for more (``bd.Softmax()``) that of each class, (n, K); for a hinge this is the normalised
        pseudo-likelihood, which is not calibrated, as its note says. For numbers it has the posterior of the expected
        response, or of the quantile under ``bd.Quantile``, and an interval of a new response, which includes the noise
        of the features and of the response. A point fit has only the interval of a new response, from its
        ``sigma``; it has none if the scale is unknown and ``sigma`` is None.

    Raises
    ------
    TypeError, ValueError
        If ``post`` is not from ``bd.sample`` or ``bd.fit``; if ``X`` does not have its columns, or has NaN although the
        model has no ``missing="nan"``; if ``probability`` is not in (0, 1); or if offsets are missing or not numeric.

    Warns
    -----
    AccuracyWarning
        If an average over the noise cannot be computed to within 5e-4, or 0.002 for a softmax.

    See Also
    --------
    Prediction, posterior_predictive

    Notes
    -----
    Rows and draws are processed a block at a time, in float64, so that memory is bounded. Probabilities of single
    draws, and hence their mean and interval, are exact if a row has at most 6 entries that may be dropped or the noise
    is normal, otherwise within 5e-4 (softmax: 0.002). An interval of a new response is computed from at least 40,000
    simulated responses: the standard error of its content is ``√(q(1 − q)/40000)``, 0.0015 for ``probability=0.9``.

    Examples
    --------
    >>> import xarray as xr
    >>> import bayesdrop as bd
    >>> from bayesdrop.description import attributes
    >>> model = bd.Model(rates=bd.Fixed(0.5), fit_intercept=False)
    >>> draws = xr.Dataset({"weight": (("chain", "draw", "feature"), [[[2.0], [1.0]]])}, coords={"feature": ["x0"]})
    >>> post = bd.groups.assemble({"posterior": draws}, attributes(model, ["no", "yes"]))
    >>> predict(post, [[0.0], [10.0]]).label.tolist()
    ['no', 'yes']

    By a point fit, of a data frame:

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [20.0, 30.0, 60.0, 70.0]}, index=["Ann", "Bob", "Cas", "Dee"])
    >>> fit = bd.fit(bd.Model(rates=bd.Fixed(0.1)), table, ["no", "no", "yes", "yes"])
    >>> predict(fit, table[1:3]).to_frame()["label"].to_dict()
    {'Bob': 'no', 'Cas': 'yes'}
    """
    probability = check_number(probability, "probability", above=0, below=1, advice="0.9, say")
    seed = check_seed(seed)
    check_flag(corrupted_inputs, "corrupted_inputs")
    draws = with_unseen(read_result(post), unseen, has_draws=not isinstance(post, Fit))
    X, offset = complete_rows(X, draws.feature_names, draws.facts, offset, with_response=False)
    draws = for_rows(draws, X, seed)
    predict_block = partial(_predict, draws, probability=probability, corrupted_inputs=corrupted_inputs, seed=seed)
    labels = _row_labels(X)
    matched = match_rows(X, draws)
    offsets = match_offset(draws, offset, matched.design.shape[0], X)
    prediction = _joined(matched.each(predict_block, *(() if offsets is None else (matched.design.targets(offsets),))))
    prediction = replace(prediction, rows=labels)
    if not isinstance(post, Fit):
        return prediction
    if post.sigma is None and any(one.degree for one in post.model.loss.parameters):
        # The scale was not estimated, for rows outside memory or more than a thousand weights.
        prediction = replace(prediction, response_low=None, response_high=None)
    return replace(prediction, sd=None, low=None, high=None)


def _joined(parts: list[Prediction]) -> Prediction:
    """Join predictions of blocks of rows."""
    if len(parts) == 1:  # unchanged, because joining labels would lose their byte order
        return parts[0]
    whole: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in parts[0]._parts()
    }
    return replace(parts[0], **whole)


def _row_labels(X: Any) -> Shaped[np.ndarray, " n"] | None:
    """Single-level index of a pandas data frame; None for anything else."""
    pd = sys.modules.get("pandas")
    return np.asarray(X.index) if pd is not None and isinstance(X, pd.DataFrame) and X.index.nlevels == 1 else None


def _predict(
    draws: Draws,
    matrix: Any,
    offset: Float[np.ndarray, " n"] | None = None,
    *,
    probability: float,
    corrupted_inputs: bool,
    seed: int,
) -> Prediction:
    """Probabilities of classes, or expected numbers."""
    # Minimum number of responses for a predictive interval: a tail of 5 % then has a standard error of 0.11 %.
    responses = 40_000
    loss, tails = draws.model.loss, [(1 - probability) / 2, (1 + probability) / 2]
    are_classes, n = loss.binary or loss.multiclass, matrix.shape[0]
    shape = (n, *draws.intercept.shape[1:])
    mean, sd, interval, response = np.empty(shape), np.empty(shape), np.empty((2, *shape)), np.empty((2, n))
    repeats = 1 if are_classes else -(-responses // draws.size)
    generator = np.random.default_rng(seed)
    for rows in blocks(n, draws.intercept.size * repeats):
        offsets = None if offset is None else offset[rows]
        expected = expected_response(draws, matrix[rows], corrupted_inputs, offsets)
        if not are_classes:
            drawn = _responses(draws, matrix[rows], repeats, generator, corrupted_inputs, offsets)
            response[:, rows] = np.quantile(drawn, tails, axis=1)
        mean[rows], sd[rows] = expected.mean(axis=1), expected.std(axis=1)
        interval[:, rows] = np.quantile(expected, tails, axis=1)
    low, high = interval
    if not are_classes:
        ends = {"response_low": response[0], "response_high": response[1]}
        return Prediction(mean, sd, low, high, probability, **ends, score_is=loss.score_is)
    coded = np.arange(mean.shape[1]) if loss.multiclass else np.array([-1, 1])
    classes = coded if draws.classes is None else draws.classes
    label = classes[np.argmax(mean, axis=1) if loss.multiclass else (mean > 0.5).astype(int)]
    note = "" if loss.normalised or loss.multiclass else _NOT_CALIBRATED
    return Prediction(mean, sd, low, high, probability, label, classes, note=note)


def _responses(
    draws: Draws,
    X: Any,
    repeats: int,
    generator: np.random.Generator,
    corrupted_inputs: bool,
    offset: Float[np.ndarray, " n"] | None,
) -> Float[np.ndarray, "n draws"]:
    """Responses of each row, ``repeats`` per draw, each with fresh noise, (n, S repeats)."""
    require(draws.model.loss, Simulated, "bd.predict", "write how y is drawn given the score")
    drawn = np.empty((X.shape[0], draws.size * repeats))
    # Repeat a few draws side by side, so that they take few passes over the rows.
    for part in blocks(repeats, draws.size * max(X.shape)):
        count = part.stop - part.start
        copies = draws.taken(np.tile(np.arange(draws.size), count))
        score = copies.noised_scores(X, slice(0, copies.size), generator, corrupted_inputs)
        score = score if offset is None else score + offset[:, None]
        columns = slice(part.start * draws.size, part.stop * draws.size)
        drawn[:, columns] = copies.loss_of(slice(None)).sample_response(generator, score, copies.C)
    return drawn
