"""Usage of tokens."""

from winnow.requests import Usage


def test_usage_adds_up() -> None:
    """Token by token."""
    assert Usage(1, 2) + Usage(3, 4) == Usage(4, 6)


def test_usages_are_equal_if_their_tokens_are() -> None:
    """The time is not compared."""
    assert Usage(1, 2, seconds=3.0) == Usage(1, 2, seconds=4.0)
    assert Usage(1, 2, 1) != Usage(1, 2)
    total = Usage(1, 2, 1, 0.5) + Usage(10, 20, 10, 0.25)
    assert (total, total.seconds) == (Usage(11, 22, 11), 0.75)
    assert Usage(1, 2) != Usage(1, 3)
    assert Usage(1, 2) != Usage(2, 2)
    assert Usage(1, 2) != (1, 2, 0.0)
