"""Parser of BEIR queries with relevance judgments. The relevant documents become the gold passages."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import InputError
from winnow.formats.fields import require_text
from winnow.formats.text import iter_lines, read_json_lines, read_tsv
from winnow.identity.markers import InputFile
from winnow.records import Question

_SCORE = re.compile(r"-?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class BeirQueries:
    """A parser of the queries that have at least one relevant document.

    BEIR has no short answers. `answers` contains the query itself, so that exact match and F1 are meaningless. Recall is
    measured with the gold passages.

    Args:
        path: File of queries, in the format of queries.jsonl or queries.tsv.
        qrels: File of relevance judgments, in BEIR's TSV format or with TREC's four columns.

    """

    revision: ClassVar[int] = 2

    path: Annotated[str, InputFile]
    qrels: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the queries in file order."""
        relevant_ids = self._read_qrels(Path(self.qrels))
        path = Path(self.path)
        for line_number, query_id, query in self._read_queries(path):
            if query_id in relevant_ids:
                text = require_text(query, path, line_number, "query")
                yield Question(query_id, text, (text,), tuple(relevant_ids[query_id]))

    def _read_queries(self, path: Path) -> Iterator[tuple[int, str, str]]:
        """Yield the line number, id and text of each query."""
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            for line_number, row in read_json_lines(path, {"_id": str, "text": str}):
                yield line_number, row["_id"], row["text"]
        else:
            for line_number, (query_id, text) in read_tsv(path, 2):
                yield line_number, query_id, text

    def _read_qrels(self, path: Path) -> dict[str, list[str]]:
        """Return the ids of the relevant documents of each query, by query id. Tabs separate ids with spaces."""
        judgments: dict[str, dict[str, bool]] = {}
        for line_number, line in iter_lines(path):
            fields = line.split("\t") if "\t" in line else line.split()
            if fields[:2] in (["query-id", "corpus-id"], ["query_id", "corpus_id"]):
                continue
            if len(fields) not in (3, 4) or not _SCORE.fullmatch(fields[-1]):
                expected = "query, document, score (or TREC's four columns)"
                raise InputError.from_line(path, line_number, received=line, expected=expected)
            is_relevant = int(fields[-1]) > 0
            if judgments.setdefault(fields[0], {}).setdefault(fields[-2], is_relevant) != is_relevant:
                expected = f"one judgment of each document; {fields[-2]!r} is also judged otherwise"
                raise InputError.from_line(path, line_number, received=line, expected=expected)
        relevant = {query: [name for name, is_relevant in own.items() if is_relevant] for query, own in judgments.items()}
        return {query: names for query, names in relevant.items() if names}
