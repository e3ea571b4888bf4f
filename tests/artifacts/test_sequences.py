"""Sequences whose items are built when they are used."""

import pytest

from winnow.artifacts.sequences import LazySequence


class _Squares(LazySequence[int]):
    """The squares of 0 to 4, and the indices that were read."""

    def __init__(self) -> None:
        self.indices: list[int] = []

    def __len__(self) -> int:
        return 5

    def read(self, index: int) -> int:
        self.indices.append(index)
        return index**2


def test_only_the_items_that_are_used_are_built() -> None:
    """By index from both ends, by slice, and in order; beyond the end nothing is read."""
    squares = _Squares()
    assert (squares[3], squares[-1], squares[1:4], squares[::-2], squares[9:]) == (
        9,
        16,
        [1, 4, 9],
        [16, 4, 0],
        [],
    )
    assert squares.indices == [3, 4, 1, 2, 3, 4, 2, 0]
    assert list(squares) == [0, 1, 4, 9, 16]
    assert list(reversed(squares)) == [16, 9, 4, 1, 0]
    for index in (5, -6):
        with pytest.raises(IndexError):
            squares[index]
