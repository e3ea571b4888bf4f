"""SuRe (Kim et al. 2024): candidate answers, and the one whose supporting summary is best."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import Template, check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generate, Generation, Message, Plan
from winnow.strategies.prompt import Prompt, build_request, fill_template
from winnow.strategies.sampling import check_one_path
from winnow.strategies.unknown import is_unknown
from winnow.text.final import extract_final_text
from winnow.text.normalization import UNKNOWN

_CANDIDATE = re.compile(r"\(\w+\)\s*([^()]+)")
_PASSAGE = re.compile(r"passage ([12])")
"""Passage that a verdict names first, as in "Passage 2 says more than Passage 1"."""


@dataclass(frozen=True, slots=True)
class SuRe:
    """A strategy that writes candidate answers, each with a summary, and chooses by the summaries.

    A candidate scores 1 if its summary is said to support it, and for each other candidate 1 if its
    summary is said to be the more informative of the two, 0 if the other one is, and 0.5 if neither
    is named; pairs are compared with either summary first, and the score counts for the first one.
    These verdicts are asked of the role "verifier", because what they show is what the reader
    wrote. The first of the best candidates is the answer. Rules follow FlashRAG, except that
    candidates that are equal count once, and those after `max_candidates` do not count.

    Args:
        prompt: Templates of a passage and of the system.
        decoding: Generation settings.
        candidates: Prompt for candidates, with the fields {contexts} and {question}, which are read
            as "(a) ... (b) ...".
        summary: Prompt for a summary, with the fields {contexts}, {question} and {candidate}.
        support: Prompt with the fields {question}, {candidate} and {summary}, whose reply has the
            word "true" or not.
        comparison: Prompt with the fields {question}, {first} and {second}, whose reply names
            "passage 1" or "passage 2".
        max_candidates: Maximum number of candidates.
        max_new_tokens: Maximum number of tokens of a summary.
    """

    revision: ClassVar[int] = 3

    prompt: Prompt
    decoding: Decoding
    candidates: Annotated[str, Template("contexts", "question")]
    summary: Annotated[str, Template("contexts", "question", "candidate")]
    support: Annotated[str, Template("question", "candidate", "summary")]
    comparison: Annotated[str, Template("question", "first", "second")]
    max_candidates: Annotated[int, Ge(1)] = 2
    max_new_tokens: Annotated[int, Ge(1)] = 256

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        check_one_path("sure", self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request candidates, a summary of each, and verdicts on summaries and ordered pairs."""
        (reply,) = yield [
            build_request(
                fill_template(self.prompt, self.candidates), question, contexts, self.decoding
            )
        ]
        placed_passages = tuple(context.passage for context in contexts)
        candidates = _find_candidates(extract_final_text(reply.text))
        if reply.finish == "length" and len(candidates) > 1:
            candidates.pop()  # it was cut
        candidates = candidates[: self.max_candidates]
        if not candidates:
            return Answer(
                UNKNOWN,
                unknown=True,
                used=reply.passages or placed_passages,
                reply=extract_final_text(reply.text),
                stop="no candidate",
            )
        decoding = replace(self.decoding, max_new_tokens=self.max_new_tokens)
        texts: Sequence[Generation] = yield [
            build_request(
                fill_template(self.prompt, self.summary, candidate=candidate),
                question,
                contexts,
                decoding,
            )
            for candidate in candidates
        ]
        summaries = [
            Passage(
                f"summary {number}",
                "",
                extract_final_text(text.text).partition("[DONE]")[0].strip(),
                tuple(passage.passage_id for passage in text.passages or placed_passages),
            )
            for number, text in enumerate(texts, start=1)
        ]
        pairs = list(itertools.permutations(range(len(candidates)), 2))
        verdicts: Sequence[Generation] = yield [
            *(self._ask_support(question, *one) for one in zip(candidates, summaries, strict=True)),
            *(
                self._ask_comparison(question, summaries[first], summaries[second])
                for first, second in pairs
            ),
        ]
        verdict_texts = [extract_final_text(verdict.text).lower() for verdict in verdicts]
        scores = [float("true" in text) for text in verdict_texts[: len(candidates)]]
        for (first, _), text in zip(pairs, verdict_texts[len(candidates) :], strict=True):
            passage_match = _PASSAGE.search(text)
            scores[first] += 0.5 if passage_match is None else float(passage_match[1] == "1")
        best = max(range(len(candidates)), key=lambda number: (scores[number], -number))
        trace = [
            f"{candidate}: {score:g}" for candidate, score in zip(candidates, scores, strict=True)
        ]
        return Answer(
            candidates[best],
            is_unknown(candidates[best]),
            candidates=tuple(candidates),
            used=texts[best].passages or placed_passages,
            reply=summaries[best].text,
            trace=tuple(trace),
            stop="answer",
        )

    def _ask_support(self, question: Question, candidate: str, summary: Passage) -> Generate:
        text = self.support.format(
            question=question.text, candidate=candidate, summary=summary.text
        )
        return self._ask(text, (summary,))

    def _ask_comparison(self, question: Question, first: Passage, second: Passage) -> Generate:
        text = self.comparison.format(question=question.text, first=first.text, second=second.text)
        return self._ask(text, (first, second))

    def _ask(self, text: str, passages: tuple[Passage, ...]) -> Generate:
        system = (Message("system", self.prompt.system),) if self.prompt.system else ()
        return Generate(
            (*system, Message("user", text.strip())),
            self.decoding,
            role="verifier",
            passages=passages,
        )


def _find_candidates(reply: str) -> list[str]:
    """Return the distinct candidates of a reply, each up to the end of its line, without commas."""
    texts = [text.split("\n")[0].replace(",", "").strip() for text in _CANDIDATE.findall(reply)]
    return list({text.lower(): text for text in reversed(texts) if text}.values())[::-1]
