"""Plots of learnt rates, posteriors, fits and chains.

Every function draws on given axes or on a new figure and returns the axes; ``ax.figure.savefig("rates.png")`` writes
it. Colours are those of Okabe & Ito, which the colour-blind can tell apart, and every series has a marker of its own.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
