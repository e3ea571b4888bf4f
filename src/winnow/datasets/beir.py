"""BEIR queries with relevance judgments: the relevant documents are the gold passages."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from winnow.errors import InputError
from winnow.formats.text import json_lines, numbered_lines, require_text, tsv_rows
from winnow.records import Question


@dataclass(frozen=True, slots=True)
class BeirQueries:
    """Yields the queries that have judgments of queries.jsonl or queries.tsv; qrels are BEIR's TSV or TREC's four columns.

    BEIR has no short answers: `answers` contains the query itself, so EM and F1 are meaningless here, and recall is
    measured by gold passages.
    """

    input_files: ClassVar[tuple[str, ...]] = ("path", "qrels")

    path: str
    qrels: str

    def __iter__(self) -> Iterator[Question]:
        """Yield the queries that have a relevant document, in file order."""
        relevant = self._relevant(Path(self.qrels))
        path = Path(self.path)
        for number, query_id, query in self._queries(path):
            if query_id in relevant:
                text = require_text(query, path, number, "query")
                yield Question(query_id, text, (text,), tuple(relevant[query_id]))

    def _queries(self, path: Path) -> Iterator[tuple[int, str, str]]:
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            for number, row in json_lines(path, {"_id": str, "text": str}):
                yield number, row["_id"], row["text"]
        else:
            for number, (query_id, text) in tsv_rows(path, 2):
                yield number, query_id, text

    def _relevant(self, path: Path) -> dict[str, list[str]]:
        relevant: dict[str, list[str]] = {}
        for number, line in numbered_lines(path):
            fields = line.split()
            if fields[:2] in (["query-id", "corpus-id"], ["query_id", "corpus_id"]):
                continue
            if len(fields) not in (3, 4) or not fields[-1].lstrip("-").isdigit():
                raise InputError.at(path, number, received=line, expected="query, document, score (or TREC's four columns)")
            if int(fields[-1]) > 0:
                relevant.setdefault(fields[0], []).append(fields[-2])
        return relevant
