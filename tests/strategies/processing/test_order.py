"""Orders of contexts."""

import pytest

from tests.plans import play
from winnow.errors import ConfigError
from winnow.strategies.processing.order import Reordering
from winnow.testing import make_context, make_question

CONTEXTS = tuple(make_context(rank, str(rank)) for rank in range(1, 6))


@pytest.mark.parametrize(
    ("by", "expected"), [("ends", [1, 3, 5, 4, 2]), ("reversed", [5, 4, 3, 2, 1])]
)
def test_contexts_change_their_order_alone(by: str, expected: list[int]) -> None:
    """Without a request."""
    contexts, requests = play(Reordering(by).process(make_question(), CONTEXTS), lambda _: None)  # type: ignore[arg-type]
    assert [context.rank for context in contexts] == expected
    assert set(contexts) == set(CONTEXTS)
    assert requests == []


def test_the_best_two_are_at_the_ends_of_an_even_number_too() -> None:
    """And one context, or none, stays as it is."""
    orders = [
        play(Reordering().process(make_question(), CONTEXTS[:n]), lambda _: None)[0]
        for n in (4, 1, 0)
    ]
    assert [[context.rank for context in order] for order in orders] == [[1, 3, 4, 2], [1], []]


def test_an_unknown_order_is_refused() -> None:
    """By its name."""
    with pytest.raises(
        ConfigError, match=r"context\.plan\.by must be ends or reversed; received 'x'"
    ):
        Reordering("x")  # type: ignore[arg-type]
