"""Self-RAG for short answers: one segment from each passage; the best segment or answer wins."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.errors import ConfigError
from winnow.identity.values import check_values
from winnow.records import Answer, Context, Decoding, Question
from winnow.requests import Generation, Plan
from winnow.strategies.corrective.crag import CorrectiveRetrieval
from winnow.strategies.prompt import Prompt
from winnow.strategies.self_rag.reflection import SegmentScore, remove_reflection_tokens
from winnow.strategies.self_rag.segments import (
    Retrieval,
    build_segment_request,
    build_unaided_request,
    choose_passages,
)
from winnow.strategies.unknown import is_unknown
from winnow.text.answers import extract_answer
from winnow.text.normalization import normalize_candidate

Choose = Literal["best", "sum"]


@dataclass(frozen=True, slots=True)
class SelfRag:
    """A strategy that answers from each passage with Self-RAG and chooses by reflection tokens.

    With a correction it is Self-CRAG: the passages are the knowledge that CRAG's correction gives.

    Args:
        prompt: Templates: `without_contexts` is the instruction, and `passage` the paragraph of a
            passage.
        decoding: Generation settings, greedy.
        retrieval: When passages are shown.
        score: Score of a segment.
        choose: "best" takes the answer of the segment with the highest score (published for PopQA);
            "sum" adds the scores of answers that are equal but for case, articles and punctuation
            (ARC-Challenge and PubHealth: of equal strings).
        correction: Correction of the retrieved passages, or None.
    """

    revision: ClassVar[int] = 5

    prompt: Prompt
    decoding: Decoding
    retrieval: Retrieval = Retrieval()
    score: SegmentScore = SegmentScore()
    choose: Choose = "best"
    correction: CorrectiveRetrieval | None = None

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        check_greedy(self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request the retrieval decision, then an answer per passage or one without passages."""
        passages, trace = yield from choose_passages(
            question, contexts, self.retrieval, self.correction, self.prompt, self.decoding
        )
        if not passages:
            (reply,) = yield [build_unaided_request(self.prompt, question, self.decoding)]
            answer = read_answer(reply)
            return Answer(answer, is_unknown(answer), reply=reply.text, trace=trace)
        segments = yield [
            build_segment_request(self.prompt, question, self.decoding, passage=passage)
            for passage in passages
        ]
        answers, scores = (
            [read_answer(segment) for segment in segments],
            [self.score.compute(s) for s in segments],
        )
        totals: dict[object, float] = {}
        keys = [
            normalize_candidate(answer) if self.choose == "sum" else index
            for index, answer in enumerate(answers)
        ]
        for key, score in zip(keys, scores, strict=True):
            totals[key] = totals.get(key, 0.0) + score
        winner = max(totals, key=lambda key: totals[key])
        best = max(
            (index for index, key in enumerate(keys) if key == winner),
            key=lambda index: scores[index],
        )
        trace = (*trace, "scores: " + ", ".join(f"{score:.3f}" for score in scores))
        answer = answers[best]
        return Answer(
            answer,
            is_unknown(answer),
            tuple(answers),
            (passages[best],),
            segments[best].text,
            trace,
        )


def read_answer(segment: Generation) -> str:
    """Return the answer in a segment, without reflection tokens."""
    return extract_answer(remove_reflection_tokens(segment.text.split("\n\n")[0]))


def check_greedy(decoding: Decoding) -> None:
    """Raise ConfigError unless one greedy reply is requested."""
    if decoding.samples > 1 or decoding.temperature > 0:
        raise ConfigError(
            "Self-RAG scores one greedy segment per passage; received "
            f"decoding.samples={decoding.samples} and "
            f"decoding.temperature={decoding.temperature}. Set decoding=greedy."
        )
