"""What threads make of items, in order."""

import pytest

from bayesdrop.designs.threads import in_threads


def test_items_keep_their_order_and_errors():
    """What fails comes after what was before it; no more is read ahead than there are threads."""
    read = []

    def items():
        for k in range(9):
            read.append(k)
            yield (k,)

    def work(k):
        if k == 6:
            raise ValueError("six")
        return k

    made = in_threads(items(), work, 2)
    assert next(made) == 0
    assert read == [0, 1, 2]
    assert [next(made) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="six"):
        next(made)
