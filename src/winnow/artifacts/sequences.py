"""Sequences over artifacts that are too large to keep as objects."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence whose items are built when used. Subclasses implement `__len__` and `read`."""

    @abstractmethod
    def read(self, index: int) -> T:
        """Build the item at an index between 0 and the length."""

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """Return one item, counted from the end if the index is negative, or those of a slice."""
        selection = range(len(self))[index]
        return (
            self.read(selection)
            if isinstance(selection, int)
            else [self.read(number) for number in selection]
        )
