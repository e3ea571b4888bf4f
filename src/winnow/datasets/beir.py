"""Parser of BEIR queries with relevance judgments. Relevant documents become the gold passages."""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from winnow.errors import InputError, Place
from winnow.formats.fields import require_text
from winnow.formats.text import iter_lines, read_json_lines, read_tsv, unquote
from winnow.identity.markers import InputFile
from winnow.records import Question

_SCORE = re.compile(r"(-?[0-9]{1,9})(?:\.0*)?")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BeirQueries:
    """A parser of the queries that have at least one relevant document.

    BEIR has no short answers: `answers` is empty, so that exact match and F1 are undefined. Recall
    is measured with the gold passages.

    Args:
        path: File of queries, in the format of queries.jsonl or queries.tsv.
        qrels: File of relevance judgments, in BEIR's TSV format or with TREC's four columns.
    """

    revision: ClassVar[int] = 4

    path: Annotated[str, InputFile]
    qrels: Annotated[str, InputFile]

    def __iter__(self) -> Iterator[Question]:
        """Yield the queries in file order.

        Raises:
            InputError: If a line is malformed, or if the file has no query that was judged.
        """
        relevant_ids = self._read_qrels(Path(self.qrels))
        path = Path(self.path)
        missing_ids = set(relevant_ids)
        for place, query_id, query in self._read_queries(path):
            if query_id in relevant_ids:
                missing_ids.discard(query_id)
                text = require_text(query, place, "query")
                yield Question(query_id, text, (), tuple(relevant_ids[query_id]))
        if missing_ids:
            message = (
                f"{path} lacks {len(missing_ids)} of the {len(relevant_ids)} queries with relevant "
                f"documents in {self.qrels}, such as {min(missing_ids)!r}."
            )
            if len(missing_ids) == len(relevant_ids):
                raise InputError(
                    f"{message} Set dataset.parser.qrels to the judgments of these queries."
                )
            _log.warning("%s The results are of the others.", message)

    def _read_queries(self, path: Path) -> Iterator[tuple[Place, str, str]]:
        """Yield the place, id and text of each query."""
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            for place, row in read_json_lines(path, {"_id": (str, int), "text": str}):
                yield place, require_text(row["_id"], place, "_id"), row["text"]
        else:
            for place, (query_id, text) in read_tsv(path, 2, quoted=True):
                yield place, require_text(query_id, place, "query id"), text

    def _read_qrels(self, path: Path) -> dict[str, list[str]]:
        """Return the ids of the relevant documents of each query, by query id.

        Tabs separate ids with spaces, and ids may be quoted as in CSV. Lines that begin with # are
        comments.
        """
        judgments: dict[str, dict[str, bool]] = {}
        for place, line in iter_lines(path):
            fields = [
                unquote(field.strip()).strip()
                for field in (line.split("\t") if "\t" in line else line.split())
            ]
            if fields[:2] in (["query-id", "corpus-id"], ["query_id", "corpus_id"]):
                continue
            score = _SCORE.fullmatch(fields[-1])
            is_judgment = len(fields) in (3, 4) and score is not None and all(fields)
            if not is_judgment and line.startswith("#"):
                continue
            if not is_judgment or score is None:
                expectation = "query, document, score (or TREC's four columns)"
                raise InputError.at(place, received=line, expected=expectation)
            is_relevant = int(score[1]) > 0
            if (
                judgments.setdefault(fields[0], {}).setdefault(fields[-2], is_relevant)
                != is_relevant
            ):
                expectation = (
                    f"one judgment of each document; {fields[-2]!r} is also judged otherwise"
                )
                raise InputError.at(place, received=line, expected=expectation)
        relevant = {
            query: [name for name, is_relevant in own.items() if is_relevant]
            for query, own in judgments.items()
        }
        return {query: names for query, names in relevant.items() if names}
