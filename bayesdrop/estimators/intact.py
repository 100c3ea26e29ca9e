"""A failed fit leaves an estimator as it was."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = ["intact"]

Method = TypeVar("Method", bound=Callable[..., Any])


def intact(method: Method) -> Method:
    """Let a method that fits set its attributes all or none: after an error those from before are there again.

    An estimator that has ``n_features_in_`` or ``classes_`` of data that it was never fitted to says that it is fitted,
    and refuses the data that it is given next. Attributes are put back, so what a method changes in place it copies.

    Examples
    --------
    >>> class Half:
    ...     @intact
    ...     def fit(self, X):
    ...         self.n_features_in_ = len(X[0])
    ...         self.coef_ = [1 / value for value in X[0]]
    >>> half = Half()
    >>> half.fit([[1.0, 0.0]])
    Traceback (most recent call last):
    ZeroDivisionError: float division by zero
    >>> vars(half)
    {}
    """

    @wraps(method)
    def fitting(self: Any, *args: Any, **options: Any) -> Any:
        before = dict(vars(self))
        try:
            return method(self, *args, **options)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return cast(Method, fitting)
