"""Self-Ask (Press et al. 2023): the model asks follow-up questions, which are searched for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import Template, check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generation, Plan, TooLong
from winnow.strategies.prompt import Prompt
from winnow.strategies.rounds.chains import build_chain_request, extract_chain_text
from winnow.strategies.rounds.searching import build_contexts, search
from winnow.strategies.sampling import check_one_path, get_shown
from winnow.strategies.unknown import build_answer
from winnow.text.answers import extract_reasoned_answer
from winnow.text.normalization import UNKNOWN

_FOLLOW_UP = re.compile(
    r"follow[- ]?up(?: question)?(?: \d+)?:[ \t*]*([^\s*][^\n]*)", re.IGNORECASE
)
_FINAL = re.compile(r"final answer is:?[ \t*]*([^\s*][^\n]*)", re.IGNORECASE)
_INTERMEDIATE = "Intermediate answer:"


@dataclass(frozen=True, slots=True)
class SelfAsk:
    """A strategy that writes follow-up questions, answers each by search, and then the question.

    Markers and stop strings follow the paper and of FlashRAG: a reply ends before
    "Intermediate answer:", the follow-up question is searched for, and what was found takes the
    place of the passages before. "So the final answer is" ends it. A reply without a marker is the
    answer.

    Args:
        prompt: Templates of a passage and of the system.
        decoding: Generation settings.
        template: Prompt with the fields {contexts}, {question} and {thoughts}, what the model wrote
            so far.
        n: Number of passages that each search gives.
        max_follow_ups: Largest number of follow-up questions.
        max_new_tokens: Maximum number of tokens of a reply.
    """

    revision: ClassVar[int] = 2

    prompt: Prompt
    decoding: Decoding
    template: Annotated[str, Template("contexts", "question", "thoughts")]
    n: Annotated[int, Ge(1)] = 5
    max_follow_ups: Annotated[int, Ge(1)] = 5
    max_new_tokens: Annotated[int, Ge(1)] = 100

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        check_one_path("self_ask", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request a follow-up question or the answer in each round, search, and request the
        intermediate answer.
        """
        thoughts, trace = "", list[str]()
        shown_passages: tuple[Passage, ...] = ()
        text, reply = UNKNOWN, ""
        for number in range(self.max_follow_ups + 1):
            thought, shown_passages = yield from self._ask(
                question, contexts, thoughts, _INTERMEDIATE, shown_passages
            )
            if thought is None:
                return build_answer(text, shown_passages, reply, trace, "prompt too long")
            reply, final, follow_up = thought, _FINAL.search(thought), _FOLLOW_UP.search(thought)
            if final and (not follow_up or final.start() < follow_up.start()):
                text = final[1].strip().removesuffix(".")
                return build_answer(text, shown_passages, reply, trace, "answer")
            if follow_up is None:
                text = extract_reasoned_answer(reply)
                return build_answer(text, shown_passages, reply, trace, "no marker")
            if number == self.max_follow_ups:
                break
            query = follow_up[1].strip()
            pages = yield from search(query, self.n)
            trace.append(f"query: {query}" + (f" ({pages.problem})" if pages.problem else ""))
            contexts = contexts if pages.is_over_budget else build_contexts(pages)
            thoughts += f" {reply[: follow_up.end()].strip()}\n{_INTERMEDIATE}"
            answer, shown_passages = yield from self._ask(
                question, contexts, thoughts, "\n", shown_passages
            )
            if answer is None:
                return build_answer(text, shown_passages, reply, trace, "prompt too long")
            lines = answer.removeprefix(_INTERMEDIATE).strip().splitlines()
            thoughts += f" {lines[0].strip() if lines else UNKNOWN}\n"
        return build_answer(text, shown_passages, reply, trace, "max rounds")

    def _ask(
        self,
        question: Question,
        contexts: Sequence[Context],
        thoughts: str,
        stop: str,
        shown: tuple[Passage, ...],
    ) -> Plan[tuple[str | None, tuple[Passage, ...]]]:
        """Request a reply (None if the prompt is too long); return it and what was shown last."""
        decoding = replace(self.decoding, max_new_tokens=self.max_new_tokens, stop=(stop,))
        request = build_chain_request(
            self.prompt, self.template, question, contexts, thoughts, decoding
        )
        reply: Generation | TooLong
        (reply,) = yield [request]
        return (
            (None, shown)
            if isinstance(reply, TooLong)
            else (extract_chain_text(reply), get_shown(request, reply))
        )
