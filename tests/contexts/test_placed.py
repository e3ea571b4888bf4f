"""Placed contexts know where the gold passage is."""

import pytest

from winnow.contexts.placed import PlacedContexts
from winnow.testing import make_context


@pytest.mark.parametrize(("gold", "expected"), [([], 0), ([2], 2), ([1, 3], 1)])
def test_the_position_of_the_first_gold_passage(gold: list[int], expected: int) -> None:
    """Counted from 1; 0 without one."""
    contexts = tuple(make_context(n, "x", is_gold=n in gold) for n in (1, 2, 3))
    assert PlacedContexts(contexts, 9, "annotated").with_gold_position().gold_position == expected
