"""Tagged searches in a reply, with the results inserted (Search-R1, R1-Searcher, Search-o1)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.values import Template, check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generate, Message, Plan
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.history import NO_MORE, History, Observation
from winnow.strategies.sampling import check_one_path
from winnow.text.answers import extract_answer


@dataclass(frozen=True, slots=True)
class _Part:
    """What the model wrote up to the end of a query, and what the search gave."""

    written: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class TaggedSearch:
    """A strategy for models that reason and query by tags; results are inserted into the reply.

    The reader continues its own reply, so that it has to be one that continues replies (on this
    machine, or vLLM). Tags, numbers of passages and limits of the published models are in
    conf/strategy: search_r1, r1_searcher, search_o1. A query after the last search that is allowed
    is told so; one that was cut is none. If the prompt exceeds the context length, the oldest
    results are left out.

    Args:
        prompt: Template of a passage and the system message.
        decoding: Generation settings.
        template: First message, with the fields {contexts}, which are the placed ones, and
            {question}.
        query: Tags before and behind a query.
        result: Template of what is inserted behind a query, with {contexts}.
        answer: Tags before and behind the answer. A reply without them is read by the rules for all
            replies.
        n: Number of passages that each search gives.
        max_searches: Largest number of searches.
        more_turns: Number of further turns in which the model may answer.
        max_new_tokens: Maximum number of tokens of each part of the reply.
        start: Text with which the reply begins, such as the tag of a model's reasoning.
        default_answer: Answer of a reply without tags of an answer; by default, the rules for all
            replies read it.
    """

    revision: ClassVar[int] = 1

    prompt: Prompt
    decoding: Decoding
    template: Annotated[str, Template("contexts", "question")]
    query: Sequence[str]
    result: Annotated[str, Template("contexts")]
    answer: Sequence[str]
    n: Annotated[int, Ge(1)] = 3
    max_searches: Annotated[int, Ge(1)] = 4
    more_turns: Annotated[int, Ge(0)] = 2
    max_new_tokens: Annotated[int, Ge(1)] = 512
    start: str = ""
    default_answer: str | None = None

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        if any(len(pair) != 2 or not all(pair) for pair in (self.query, self.answer)):
            raise ConfigError(
                f"strategy.plan: query and answer must be two tags each; received {self.query!r} "
                f"and {self.answer!r}."
            )
        check_one_path("tagged", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request the reply up to its next query or its answer, and search."""
        placed_passages = tuple(context.passage for context in contexts)
        first = self.template.format(
            question=question.text, contexts=self.prompt.format_passages(placed_passages)
        ).strip()
        history, parts, trace = History(placed_passages), list[_Part](), list[str]()
        for num_searches in range(self.max_searches + self.more_turns):
            reply = yield from history.ask(
                lambda passages: self._build_request(first, parts, passages)
            )
            if reply is None:
                return self._end(history, parts, "", trace, "prompt too long")
            text = reply.text
            query = _find_open(text, *self.query) if reply.finish != "length" else None
            if query is None or self.answer[0] in query:  # the last tag is the answer's
                return self._end(
                    history,
                    parts,
                    text,
                    trace,
                    "answer" if self.answer[0] in text else "no marker",
                )
            trace.append(f"query: {query[:200]}")
            if num_searches < self.max_searches:
                observation = yield from history.search(query, self.n, self.prompt)
            else:
                observation = history.observe(NO_MORE)
            parts.append(_Part(text + self.query[1], observation))
        return self._end(history, parts, "", trace, "max rounds")

    def _build_request(
        self, first: str, parts: Sequence[_Part], passages: tuple[Passage, ...]
    ) -> Generate:
        """Build the request for the next part of the reply."""
        decoding = replace(
            self.decoding, max_new_tokens=self.max_new_tokens, stop=(self.query[1], self.answer[1])
        )
        messages = [Message("system", self.prompt.system)] if self.prompt.system else []
        messages.append(Message("user", first))
        start = self._format(parts)
        messages += [Message("assistant", start)] if start else []
        return Generate(tuple(messages), decoding, passages=passages, may_be_too_long=True)

    def _format(self, parts: Sequence[_Part]) -> str:
        """Return the reply so far, in which each result has its template."""
        return self.start + "".join(
            part.written + self.result.replace("{contexts}", part.observation.text)
            for part in parts
        )

    def _end(
        self, history: History, parts: Sequence[_Part], last: str, trace: Sequence[str], stop: str
    ) -> Answer:
        if self.answer[0] in last:
            text = last.rpartition(self.answer[0])[2].strip()
        else:
            text = extract_answer(last) if self.default_answer is None else self.default_answer
        return history.build_answer(text, self._format(parts) + last, trace, stop)


def _find_open(text: str, begin: str, end: str) -> str | None:
    """Return the query that ends a text, whose end tag is the stop string, or None without one."""
    _, tag, query = text.rpartition(begin)
    return query.strip() if tag and end not in query else None
