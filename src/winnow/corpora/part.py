"""A random part of a corpus, so that experiments can retrieve from one and search in another."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.protocols import CorpusParser
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class CorpusPart:
    """Passages of a corpus whose ids, hashed with a seed, are in one of several near-equal parts.

    Args:
        parser: Parser of the whole corpus.
        number: Number of the part, from 0.
        of: Number of parts.
        seed: Seed of the division.
    """

    revision: ClassVar[int] = 1

    parser: CorpusParser
    number: int
    of: int = 2
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of:
            raise ConfigError(
                f"corpus.parser.number must be between 0 and of - 1; received number={self.number} "
                f"and of={self.of}."
            )

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages of the part."""
        for passage in self.parser:
            digest = hashlib.sha256(f"{self.seed}\n{passage.passage_id}".encode()).digest()
            if int.from_bytes(digest[:8], "big") % self.of == self.number:
                yield passage
