"""CRAG's knowledge searching: rewrite the question into keywords, search and refine the results."""

import re
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.values import check_values
from winnow.records import Decoding, Passage, Question
from winnow.requests import Failed, Generate, Message, Plan, Search
from winnow.strategies.corrective.evaluators import Evaluator
from winnow.strategies.corrective.refinement import Knowledge, Refinement
from winnow.text.final import extract_final_text

_MAX_QUERY_WORDS = 30
"""Maximum number of words in a query; longer ones are prose, and the question is used instead."""
_LABEL = re.compile(r'^[*"\s]*query:', re.IGNORECASE)
"""Label of a query, with which the prompt ends and which a model may repeat."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a search gave.

    Attributes:
        knowledge: Refined results.
        trace: Record of the query, and of what failed.
    """

    knowledge: Knowledge
    trace: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnowledgeSearch:
    """A search for a question, by the engines of the roles "rewriter" and "search".

    Args:
        n: Number of results (slides: 5).
        rewriting: Prompt that asks the rewriter for keywords, with the field "{question}"; ""
            searches for the question.
        decoding: Generation settings of the rewriter.
        selection: Whether the results are refined; otherwise their whole text is used (table 3,
            without selection).
    """

    revision: ClassVar[int] = 4

    n: Annotated[int, Ge(1)] = 5
    rewriting: str = ""
    decoding: Decoding = Decoding(max_new_tokens=32)
    selection: bool = True

    def __post_init__(self) -> None:
        check_values("correction.search", self)
        if self.rewriting and "{question}" not in self.rewriting:
            raise ConfigError("correction.search.rewriting must have the field {question}.")

    def find(
        self, question: Question, refinement: Refinement, evaluator: Evaluator
    ) -> Plan[Findings]:
        """Search for a question; a failed or empty search gives no knowledge, and is traced."""
        query, trace = yield from self._write_query(question)
        (result,) = yield [Search(query, self.n)]
        if isinstance(result, Failed):
            return Findings(Knowledge(), (*trace, f"search failed: {result.reason[:100]}"))
        pages: tuple[Passage, ...] = result.passages
        if unread := sum(bool(snapshot.note) for snapshot in result.snapshots):
            trace = (*trace, f"pages not read: {unread} of {len(result.snapshots)}")
        if not pages:
            return Findings(Knowledge(), (*trace, "search: no result"))
        if not self.selection:
            return Findings(Knowledge.from_passages(pages), trace)
        knowledge = yield from refinement.refine(question, pages, evaluator)
        return Findings(knowledge, trace)

    def _write_query(self, question: Question) -> Plan[tuple[str, tuple[str, ...]]]:
        """Return the query and the trace. A reply that is not a list of keywords is not used."""
        if not self.rewriting:
            return question.text, ()
        prompt = self.rewriting.replace("{question}", question.text).strip()
        (reply,) = yield [
            Generate((Message("user", prompt),), self.decoding, role="rewriter", may_fail=True)
        ]
        if isinstance(reply, Failed):
            return question.text, (f"rewriting failed: {reply.reason[:100]}",)
        lines = [
            line.strip() for line in extract_final_text(reply.text).splitlines() if line.strip()
        ]
        query = _LABEL.sub("", lines[0]).strip(' "*') if lines else ""
        if not query or len(query.split()) > _MAX_QUERY_WORDS:
            return question.text, ("rewriting: no keywords",)
        return query, (f"query: {query}",)
