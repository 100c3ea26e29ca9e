"""Display of results in a notebook: the output of ``print`` in a monospaced font."""

from __future__ import annotations

from html import escape

__all__ = ["Shown"]


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
