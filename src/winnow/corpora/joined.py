"""Several corpora as one, for questions of several data sets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from winnow.protocols import CorpusParser
from winnow.records import Passage


@dataclass(frozen=True, slots=True)
class JoinedCorpus:
    """The passages of several corpora in turn. Ids begin with the name of the corpus: "nq/doc7".

    Args:
        parts: Parser of each corpus by name.
    """

    revision: ClassVar[int] = 1

    parts: Mapping[str, CorpusParser]

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages, corpus by corpus."""
        for name, parser in self.parts.items():
            yield from (
                replace(passage, passage_id=f"{name}/{passage.passage_id}") for passage in parser
            )
