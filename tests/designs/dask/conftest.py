"""A cluster of two workers, begun once for all tests here."""

import numpy as np
import pytest
from sklearn.datasets import make_classification


@pytest.fixture(scope="session")
def client():
    import bayesdrop as bd

    with bd.cluster(workers=2) as client:
        yield client


@pytest.fixture(scope="session")
def two_classes():
    """Features (600, 12) of the kind that selection finds, and labels."""
    X, y = make_classification(600, 12, n_informative=5, random_state=0)
    return X, np.where(y == 1, "yes", "no")
