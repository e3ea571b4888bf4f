"""Parser of RAGE's queries (see `winnow.formats.rage`). Relevant documents become gold passages."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from winnow.formats.fields import require_text
from winnow.formats.rage import find_table, read_maps, read_table
from winnow.identity.markers import InputFile
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class RageQueries:
    """A parser of the queries that have at least one relevant document.

    As with BEIR's queries, `answers` is empty: the citations of a reply are evaluated, not its
    answer.

    Args:
        path: Folder of RAGE's files.
    """

    path: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the queries in file order."""
        folder = Path(self.path)
        maps = read_maps(folder)
        file = find_table(folder, "queries")
        for place, row in read_table(file, ("_id", "text")):
            relevance_map = maps.get(row["_id"])
            if relevance_map and relevance_map.relevant:
                text = require_text(row["text"], place, "text")
                yield Question(row["_id"], text, (), relevance_map.relevant)
