"""NumPyro distributions of augmentations, two samplers that need no NumPyro, and pseudo-likelihoods.

The distributions, and NumPyro with them, are imported at their first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
