"""Queries that a model writes: one in place of the question, or several with fused rankings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.values import Template, check_values
from winnow.records import Context, Decoding, Hit, Question
from winnow.requests import Generate, Message, Plan, Search
from winnow.retrievers.hybrid import fuse_rankings
from winnow.retrievers.plans.results import list_hits
from winnow.text.final import extract_final_text

_MARK = re.compile(
    r"^(?:[-*•]|\W*\(?\d{1,2}[.):]\W*(?=\s))\s+|^\W*(?:(?:sub-?)?(?:queries|query|"
    r"questions?))(?: \d{1,2})?:\W*(?=\s|$)\s*",
    re.IGNORECASE,
)
"""Number, bullet or label before a query, possibly in bold."""


@dataclass(frozen=True, slots=True)
class WrittenQueries:
    """A plan that searches for a model's queries, one per line, with reciprocal rank fusion.

    One query in place of the question is the rewriting of Ma et al. (2023), several in addition to
    it RAG-Fusion, and the questions of which it consists its decomposition; conf/retriever has a
    prompt for each. A reply without a query leaves the question. If there may be several rankings,
    the scores are of the fusion for every question, also where only one was found.

    Args:
        template: Prompt with {question}, and {n} if the number of queries is to be named.
        decoding: Generation settings.
        n: Largest number of queries; further lines of the reply are not searched for.
        with_question: Whether the question is searched for too.
        rrf_k: Constant that is added to the ranks in the fusion. A larger value reduces the
            influence of the top ranks.
    """

    revision: ClassVar[int] = 2

    template: Annotated[str, Template("question", optional=("n",))]
    decoding: Decoding
    n: Annotated[int, Ge(1)] = 1
    with_question: bool = False
    rrf_k: Annotated[int, Ge(0)] = 60

    def __post_init__(self) -> None:
        check_values("retriever.plan", self)
        if self.decoding.samples > 1:
            raise ConfigError(
                f"retriever.plan.decoding.samples must be 1; received {self.decoding.samples}."
            )

    def plan(self, question: Question, contexts: Sequence[Context], depth: int) -> Plan[list[Hit]]:  # noqa: ARG002 (the protocol)
        """Request the queries, and search for all of them together."""
        message = Message("user", self.template.format(question=question.text, n=self.n))
        (reply,) = yield [Generate((message,), self.decoding, role="rewriter")]
        written_queries = list_queries(reply.text)[: self.n]
        queries = list(
            dict.fromkeys(
                [
                    *([question.text] if self.with_question or not written_queries else []),
                    *written_queries,
                ]
            )
        )
        pages = yield [Search(query, depth, role="corpus") for query in queries]
        rankings = [list_hits(result) for result in pages]
        is_fused = self.n > 1 or self.with_question
        return fuse_rankings(rankings, self.rrf_k)[:depth] if is_fused else rankings[0]


def list_queries(reply: str) -> list[str]:
    """Return a reply's distinct queries, one per line, without numbers, bullets, labels or quotes.

    A line that announces a list ("Here are four queries:") and a line without a letter or digit are
    no queries.
    """
    lines = [_clean(line) for line in extract_final_text(reply).splitlines()]
    return list(
        dict.fromkeys(
            line for line in lines if any(map(str.isalnum, line)) and not line.endswith(":")
        )
    )


def _clean(line: str) -> str:
    line = line.strip()
    while (rest := _MARK.sub("", line, count=1)) != line:
        line = rest
    return line.strip("\"'“”`* ")
