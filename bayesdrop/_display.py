"""Display of results: ``print`` in a monospaced font of a notebook, and numbers next to their bounds."""

from __future__ import annotations

from html import escape

__all__ = ["Shown", "compared_texts"]


class Shown:
    """A result whose ``str`` is a report; a notebook shows the report, escaped, for names may hold any letters.

    Examples
    --------
    >>> class Report(Shown):
    ...     def __str__(self):
    ...         return "weight of <b>"
    >>> Report()._repr_html_()
    '<pre>weight of &lt;b&gt;</pre>'
    """

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def compared_texts(value: float, bound: float, digits: str = ".3f", max_digits: int = 17) -> tuple[str, str]:
    """Both numbers as text, with as many digits as it takes to compare as the numbers do.

    Parameters
    ----------
    value, bound : float
        A measured number and what it is held to.
    digits : str
        Format that the value has at least, such as ``".3f"`` or ``",.0f"``.
    max_digits : int
        Digits at most.

    Examples
    --------
    >>> compared_texts(1.0234, 1.01), compared_texts(1.01004, 1.01), compared_texts(399.7, 400, ",.0f")
    (('1.023', '1.01'), ('1.01004', '1.01'), ('399.7', '400'))
    """
    head, _, tail = digits.partition(".")
    for precision in range(int(tail[:-1]), max_digits):
        texts = [f"{number:{head}.{precision}{tail[-1]}}" for number in (value, bound)]
        plain = f"{bound:g}"
        texts[1] = plain if float(plain) == bound else texts[1]
        shown = [float(text.replace(",", "")) for text in texts]
        if (shown[0] > shown[1], shown[0] < shown[1]) == (value > bound, value < bound):
            break
    return texts[0], texts[1]
