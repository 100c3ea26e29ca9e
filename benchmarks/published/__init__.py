"""The experiments of the five sources on real data, one module a table; ``python -m benchmarks.reproduce`` runs them.

A module has ``TITLE`` (the heading), ``SOURCE`` (author, year, figure or table), ``cells()``, which yields the units of
work in order, and ``report(results)``, which turns their results, by key, into Markdown: a table of ours beside the
published figures, what differs in the data, and who is ahead. Nothing is computed in ``report``, and ``report`` bears
results of only some cells.
"""
