"""Plots of a fitted hidden layer, as in Chen, Zhu, Chen & Chen (2015, figures 7 to 9), and of a factorisation.

Plots of a factorisation show the singular values before and after shrinkage, and the number of active columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._validation import check_count, check_instance, check_names, check_number, check_numbers, refuse_masked, shown
from ..posterior.draws.draws import read_group
from .style import BLUE, GREY, VERMILLION, literal, new_axes, new_figure, plain_frame

__all__ = ["active_columns", "class_responses", "error_curves", "hidden_units", "singular_values"]


def hidden_units(
    model: Any,
    X: Any,
    *,
    units: Sequence[int] | None = None,
    examples: int = 5,
    image_shape: tuple[int, int] | None = None,
    feature_names: Sequence[str] | None = None,
    figure: Any = None,
) -> Any:
    """Draw, for each hidden unit, the rows with the highest response, and the unit's weight for each class.

    Parameters
    ----------
    model : LatentDropoutSVC or LatentDropoutLogisticRegression
        Fitted.
    X : array or scipy sparse (n, p)
        Rows to choose from.
    units : sequence of int, optional
        Hidden units to draw; by default those with the largest output weights, six at most.
    examples : int, default=5
        Number of rows drawn for each unit.
    image_shape : (int, int), optional
        Shape in which a row is drawn as an image; by default the largest entries of each row are written by name.
    feature_names : sequence of p str, optional
        Names of the features; by default the model's.
    figure : matplotlib Figure, optional
        Where to draw.

    Returns
    -------
    array of matplotlib Axes (units, examples + 1)
        The axes with the plots.

    See Also
    --------
    bayesdrop.sample_latent

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import bayesdrop as bd
    >>> X, y = load_digits(return_X_y=True)
    >>> model = bd.LatentDropoutLogisticRegression(0.1, n_hidden=3, n_init=1, max_iter=40, tol=1e-2, random_state=0)
    >>> hidden_units(model.fit(X / 16, y), X / 16, image_shape=(8, 8)).shape
    (3, 6)
    """
    check_count(examples, "examples", most=1000)
    _check_latent(model)
    response, weight = model.transform(X), model.coef_
    size = np.linalg.norm(weight, axis=0)
    chosen = np.argsort(-size)[:6] if units is None else np.asarray(units)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu" or np.any((chosen < 0) | (chosen >= len(size))):
        raise ValueError(f"units: expected a list of numbers from 0 to {len(size) - 1}, got {shown(units)}.")
    p = model.n_features_in_
    if image_shape is not None and not (
        isinstance(image_shape, tuple | list)
        and len(image_shape) == 2
        and all(isinstance(side, int | np.integer) and side > 0 for side in image_shape)
        and image_shape[0] * image_shape[1] == p
    ):
        raise ValueError(
            f"image_shape: expected a shape of {p} pixels, the number of features, got {shown(image_shape)}."
        )
    labels = list(getattr(model, "feature_names_in_", [f"x{d}" for d in range(p)]))
    labels = labels if feature_names is None else check_names(feature_names, p)
    figure = new_figure(figure, 1.2 * examples + 3, 1.25 * len(chosen) + 0.4)
    axes = figure.subplots(len(chosen), examples + 1, squeeze=False, width_ratios=[1.0] * examples + [2.2])
    classes = [literal(label) for label in (model.classes_ if len(weight) > 1 else model.classes_[1:])]
    for row, k in zip(axes, chosen, strict=True):
        best = np.argsort(-response[:, k], kind="stable")[:examples]
        for ax, i in zip(row[:-1], best, strict=False):
            x = np.asarray(X[[i]].toarray() if hasattr(X, "toarray") else np.asarray(X)[[i]])[0]
            ax.set_xticks([])
            ax.set_yticks([])
            if image_shape is not None:
                ax.imshow(x.reshape(image_shape), cmap="gray_r")
            else:
                top = np.argsort(-np.abs(x))[:4]
                text = "\n".join(f"{literal(labels[d])} {x[d]:.2g}" for d in top if x[d] != 0)
                ax.text(0.5, 0.5, text, ha="center", va="center", fontsize=7, transform=ax.transAxes)
        row[0].set_ylabel(f"unit {k}", rotation=0, ha="right", va="center")
        bars = row[-1]
        bars.bar(range(len(classes)), weight[:, k], color=np.where(weight[:, k] > 0, BLUE, VERMILLION))
        bars.axhline(0, color="0.3", linewidth=0.8)
        bars.set_xticks(range(len(classes)), classes, fontsize=7)
        bars.tick_params(axis="y", labelsize=7)
        plain_frame(bars)
    axes[0, 0].set_title("highest response", loc="left", fontsize=9)
    axes[0, -1].set_title("output weight by class", loc="left", fontsize=9)
    return axes


def _check_latent(model: Any) -> None:
    from ..latent.estimators import LatentClassifier

    check_instance(model, "model", LatentClassifier, "a fitted bd.LatentDropoutSVC or LatentDropoutLogisticRegression")


def class_responses(model: Any, X: Any, y: Any, ax: Any = None) -> Any:
    """Draw the mean response of each hidden unit to the rows of each class, units in order of the class they favour.

    Parameters
    ----------
    model : LatentDropoutSVC or LatentDropoutLogisticRegression
        Fitted.
    X : array or scipy sparse (n, p)
        Rows.
    y : array (n,)
        Classes of the rows.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    See Also
    --------
    bayesdrop.plots.hidden_units

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import bayesdrop as bd
    >>> X, y = load_iris(return_X_y=True)
    >>> ax = class_responses(bd.LatentDropoutLogisticRegression(0.1, n_hidden=4, random_state=0).fit(X, y), X, y)
    >>> ax.get_xlabel()
    'hidden unit'
    """
    _check_latent(model)
    refuse_masked(y, "y")
    response, y = model.transform(X), np.asarray(y)
    if y.shape != (len(response),):
        raise ValueError(f"y: expected {len(response)} labels, one for each row, got shape {y.shape}.")
    missing = [label for label in model.classes_ if not np.any(y == label)]
    if missing:
        raise ValueError(f"y: expected rows of every class of the model, got none of {missing[:5]}.")
    table = np.stack([response[y == label].mean(axis=0) for label in model.classes_])
    order = np.lexsort((-table.max(axis=0), table.argmax(axis=0)))
    ax = new_axes(ax, 0.28 * len(order) + 2.5, 0.3 * len(table) + 1.2)
    image = ax.imshow(table[:, order], aspect="auto", cmap="cividis", vmin=0, vmax=1)
    ax.set_yticks(range(len(table)), [literal(label) for label in model.classes_])
    ax.set_xticks(range(len(order)), [str(k) for k in order], fontsize=7)
    ax.set(xlabel="hidden unit", ylabel="class")
    ax.figure.colorbar(image, ax=ax, label="mean response")
    return ax


def error_curves(errors: Mapping[Any, Mapping[float, Any]], ax: Any = None, *, xlabel: str = "hidden units") -> Any:
    """Draw the error against one setting, with a line for each value of another, and standard errors over repetitions.

    Parameters
    ----------
    errors : mapping from label to mapping from number to error or errors
        For instance ``{"rate 0.3": {10: [8.1, 8.3], 20: [6.0, 6.1]}}``, errors in percent.
    ax : matplotlib Axes, optional
        Where to draw.
    xlabel : str, default="hidden units"
        Name of the setting, whose values are the numbers.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    See Also
    --------
    bayesdrop.plots.class_responses

    Examples
    --------
    >>> ax = error_curves({"rate 0": {10: [8.1, 8.3], 20: 6.2}, "rate 0.3": {10: 7.5, 20: 5.4}})
    >>> ax.get_ylabel()
    'error, %'
    """
    if not isinstance(errors, Mapping) or not all(isinstance(curve, Mapping) for curve in errors.values()):
        raise TypeError(f"errors: expected a mapping from label to mapping from number to error, got {shown(errors)}.")
    check_instance(xlabel, "xlabel", str, "text")
    ax = new_axes(ax, 5, 3.4)
    for (label, curve), marker in zip(errors.items(), "os^Dv<>Pp*hX" * (1 + len(errors) // 12), strict=False):
        numbers = sorted(check_number(x, "errors") for x in curve)
        parts = [np.atleast_1d(check_numbers(curve[x], "errors")) for x in numbers]
        means = [part.mean() for part in parts]
        spread = [part.std(ddof=1) / np.sqrt(len(part)) if len(part) > 1 else 0.0 for part in parts]
        ax.errorbar(numbers, means, yerr=spread, marker=marker, markersize=5, capsize=2, label=literal(label))
    ax.set(xlabel=literal(xlabel), ylabel="error, %")
    plain_frame(ax)
    ax.legend(frameon=False)
    return ax


def singular_values(model: Any, *, ax: Any = None) -> Any:
    """Draw the singular values of the data and of the fit, and the threshold (Cavazza et al. 2018, figure 3).

    Parameters
    ----------
    model : DropoutMatrixFactorization
        Fitted. Singular values of the data are available from ``solver="closed_form"`` only.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    ValueError
        If ``model`` is not fitted.

    See Also
    --------
    bayesdrop.DropoutMatrixFactorization

    Examples
    --------
    >>> import bayesdrop as bd
    >>> ax = singular_values(bd.DropoutMatrixFactorization().fit(np.diag([3.0, 2.0, 0.1])))
    >>> ax.get_xlabel()
    'Component'
    """
    if isinstance(model, type) or not hasattr(model, "singular_values_"):
        raise ValueError("model: expected a fitted bd.DropoutMatrixFactorization; call fit first.")
    ax = new_axes(ax, 5.0, 3.5)
    plain_frame(ax)
    before, after = model.data_singular_values_, model.singular_values_
    if before is not None:
        ax.plot(np.arange(1, len(before) + 1), before, "o-", color=BLUE, label="of the data")
    ax.plot(np.arange(1, len(after) + 1), after, "s-", color=VERMILLION, label="of the fit")
    if np.isfinite(model.shrinkage_):
        ax.axhline(model.shrinkage_, color=GREY, linestyle="--", label="taken off each")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="Component", ylabel="Singular value", ylim=(0, None))
    ax.legend(frameon=False)
    return ax


def active_columns(post: Any, *, ax: Any = None) -> Any:
    """Draw the posterior distribution of the number of active columns as bars.

    Parameters
    ----------
    post : InferenceData or DataTree
        Posterior from ``bd.sample_factorization``.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    ValueError
        If the posterior has no variable ``n_active``.

    See Also
    --------
    bayesdrop.plots.singular_values, bayesdrop.sample_factorization

    Examples
    --------
    >>> import bayesdrop as bd
    >>> import xarray as xr
    >>> draws = xr.Dataset({"n_active": (("chain", "draw"), np.array([[2, 2, 3, 2]]))})
    >>> ax = active_columns(bd.groups.assemble({"posterior": draws}))
    >>> [float(bar.get_height()) for bar in ax.patches]
    [0.75, 0.25]
    """
    posterior = read_group(post, "posterior")
    if "n_active" not in posterior:
        raise ValueError(f"post: expected a variable n_active in the posterior, got {sorted(map(str, posterior))}.")
    values, counts = np.unique(posterior["n_active"].values, return_counts=True)
    ax = new_axes(ax, 5.0, 3.5)
    plain_frame(ax)
    ax.bar(values, counts / counts.sum(), color=BLUE, width=0.8)
    # Leave room on either side: otherwise the bar of a single number fills the axes.
    ax.set(xlabel="Active columns", ylabel="Posterior probability", ylim=(0, 1))
    ax.set_xlim(max(values.min() - 2.5, -0.5), values.max() + 2.5)
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax
