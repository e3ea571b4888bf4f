"""RankGPT (Sun et al., 2023): a language model orders windows of a ranking from end to start."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.values import Template, check_values
from winnow.records import Context, Decoding, Hit, Passage, Question
from winnow.requests import Generate, Message, Plan, TooLong
from winnow.retrievers.plans.results import cut
from winnow.text.final import extract_final_text
from winnow.text.templates import fill_passage

_SHORTER = 0.9
"""Share of each passage's words left if a prompt is too long; the authors' code drops one word."""


@dataclass(frozen=True, slots=True)
class RankGpt:
    """A plan that has a language model order a ranking in windows that slide from end to beginning.

    Windows, the rule that reads a reply (numbers that are missing follow in their former order,
    others and repeated ones do not count) and the form of a conversation with a message per passage
    follow the authors' code. There, a window that would reach beyond the first passage is
    left out; here, the last one begins at the first passage, so that all are ordered. The hits have
    no scores, because an order has none.

    Args:
        system: System message.
        beginning: First message, with {number} of passages and {question}.
        welcome: Reply to it.
        passage: Message that shows a passage, with {number}, {title} and {text}.
        received: Reply to it, with {number}.
        request: Last message, with {number} of passages and {question}.
        decoding: Generation settings.
        window: Number of passages that are ordered at once.
        step: Number of passages by which the window moves.
        top: Number of passages that are ordered; the others follow as they are.
        max_words: Number of words that a passage shows. All show fewer if a prompt is too long.
    """

    revision: ClassVar[int] = 2

    system: str
    beginning: Annotated[str, Template("number", "question")]
    welcome: str
    passage: Annotated[str, Template("number", "text", optional=("title",))]
    received: Annotated[str, Template("number")]
    request: Annotated[str, Template("number", "question")]
    decoding: Decoding
    window: Annotated[int, Ge(2)] = 20
    step: Annotated[int, Ge(1)] = 10
    top: Annotated[int, Ge(2)] = 100
    max_words: Annotated[int, Ge(1)] = 300

    def __post_init__(self) -> None:
        check_values("retriever.plan", self)
        if self.step >= self.window or self.decoding.samples > 1:
            raise ConfigError(
                f"retriever.plan: step={self.step} must be less than window={self.window}, and "
                f"decoding.samples={self.decoding.samples} 1, because an order has no votes."
            )

    def plan(self, question: Question, contexts: Sequence[Context], depth: int) -> Plan[list[Hit]]:
        """Request the order of each window, the last one first."""
        order = [context.passage for context in contexts[: self.top]]
        for start, end in list_windows(len(order), self.window, self.step):
            order[start:end] = yield from self._order(question, order[start:end])
        rest = [context.passage for context in contexts[self.top :]]
        return [Hit(passage.passage_id, None) for passage in (*order, *rest)][:depth]

    def _order(self, question: Question, passages: Sequence[Passage]) -> Plan[list[Passage]]:
        """Request the order of the passages of a window; shorten them until the prompt fits."""
        if len(passages) < 2:
            return list(passages)
        max_words = min(self.max_words, max(len(passage.text.split()) for passage in passages))
        while True:
            short_passages = [cut(passage, max_words) for passage in passages]
            request = Generate(
                self._render(question, short_passages),
                self.decoding,
                role="reranker",
                passages=tuple(short_passages),
                may_be_too_long=max_words > 1,
            )
            (reply,) = yield [request]
            if not isinstance(reply, TooLong):
                return [passages[number] for number in read_order(reply.text, len(passages))]
            max_words = max(1, int(_SHORTER * max_words))

    def _render(self, question: Question, passages: Sequence[Passage]) -> tuple[Message, ...]:
        fields = {"number": len(passages), "question": question.text}
        turns = [
            Message("user", self.beginning.format_map(fields)),
            Message("assistant", self.welcome),
        ]
        for number, passage in enumerate(passages, start=1):
            passage_text = fill_passage(self.passage, passage.title, passage.text, number=number)
            turns += [
                Message("user", passage_text),
                Message("assistant", self.received.format(number=number)),
            ]
        system = [Message("system", self.system)] if self.system else []
        return (*system, *turns, Message("user", self.request.format_map(fields)))


def list_windows(count: int, window: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each window of a ranking, last first; the final one starts at 0."""
    end = count
    while end > 0:
        start = max(end - window, 0)
        yield start, end
        if not start:
            return
        end -= step


def read_order(reply: str, count: int) -> list[int]:
    """Return the order of `count` passages that a reply names by numbers from 1, as indices.

    The first mention of a number counts, and numbers of no passage do not. Passages that are not
    named follow in their order.
    """
    numbers = re.findall(r"(?<!\d)\d{1,9}(?!\d)", extract_final_text(reply), re.ASCII)
    indices = [int(number) - 1 for number in numbers]
    return list(dict.fromkeys([*(index for index in indices if 0 <= index < count), *range(count)]))
