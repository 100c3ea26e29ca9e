"""Double precision, which the exactness of this folder's identities asks for."""

import jax
import pytest


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield
