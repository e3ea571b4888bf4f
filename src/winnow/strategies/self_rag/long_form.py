"""Self-RAG for long answers: a beam search over segments, each of which rests on one passage."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from annotated_types import Ge

from winnow.identity.values import check_values
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generation, Plan
from winnow.strategies.corrective.crag import CorrectiveRetrieval
from winnow.strategies.prompt import Prompt
from winnow.strategies.self_rag.reflection import (
    NO_RETRIEVAL,
    RETRIEVE,
    SegmentScore,
    compute_retrieval_probability,
    cut_segment,
    remove_reflection_tokens,
)
from winnow.strategies.self_rag.segments import (
    Retrieval,
    build_segment_request,
    build_unaided_request,
    choose_passages,
)
from winnow.strategies.self_rag.short_form import check_greedy
from winnow.strategies.unknown import is_unknown


@dataclass(frozen=True, slots=True)
class _Beam:
    """A reply so far, with its score and passages, and whether the model retrieves again."""

    reply: str = ""
    score: float = 1.0
    passages: tuple[Passage, ...] = ()
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class SelfRagLong:
    """A strategy that lets a Self-RAG model write a long answer, segment by segment.

    At each step, every open beam is continued from every passage up to the point where the model
    would retrieve again; the beams with the largest product of segment scores are kept. A segment
    is scored up to where it is cut, and a negative score, which utility can give, counts as 0. In
    contrast to the published code, a finished beam stays among the others while they continue, and
    utility counts (there, a loop over the tokens of support leaves it out).

    Args:
        prompt: Templates: `without_contexts` is the instruction, and `passage` the paragraph of a
            passage.
        decoding: Generation settings of a segment, greedy.
        retrieval: When passages are shown, also within a reply.
        score: Score of a segment.
        beam_width: Number of beams (published: 2).
        max_segments: Maximum number of segments (published: 7).
        correction: Correction of the retrieved passages (Self-CRAG), or None.
    """

    revision: ClassVar[int] = 2

    prompt: Prompt
    decoding: Decoding
    retrieval: Retrieval = Retrieval()
    score: SegmentScore = SegmentScore()
    beam_width: Annotated[int, Ge(1)] = 2
    max_segments: Annotated[int, Ge(1)] = 7
    correction: CorrectiveRetrieval | None = None

    def __post_init__(self) -> None:
        check_values("strategy.plan", self)
        check_greedy(self.decoding)

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Request the decision to retrieve, then segments until every beam is finished, or one
        reply without passages.
        """
        passages, trace = yield from choose_passages(
            question, contexts, self.retrieval, self.correction, self.prompt, self.decoding
        )
        if not passages:
            (reply,) = yield [build_unaided_request(self.prompt, question, self.decoding)]
            text = remove_reflection_tokens(reply.text.split("\n\n")[0])
            return Answer(text, is_unknown(text), reply=reply.text, trace=trace)
        beams = [_Beam()]
        for _ in range(self.max_segments):
            growing = [beam for beam in beams if beam.is_open]
            if not growing:
                break
            pairs = [(beam, passage) for beam in growing for passage in passages]
            segments = yield [
                build_segment_request(
                    self.prompt, question, self.decoding, reply=beam.reply, passage=passage
                )
                for beam, passage in pairs
            ]
            grown = [
                self._extend(*pair, segment) for pair, segment in zip(pairs, segments, strict=True)
            ]
            finished_beams = [beam for beam in beams if not beam.is_open]
            beams = sorted([*finished_beams, *grown], key=lambda beam: -beam.score)[
                : self.beam_width
            ]
        best = beams[0]
        text = remove_reflection_tokens(best.reply)
        trace = (*trace, f"segments: {len(best.passages)}, score {best.score:.3f}")
        used_passages = tuple(dict.fromkeys(best.passages))
        candidates = tuple(remove_reflection_tokens(beam.reply) for beam in beams)
        return Answer(text, is_unknown(text), candidates, used_passages, best.reply, trace)

    def _extend(self, beam: _Beam, passage: Passage, segment: Generation) -> _Beam:
        """Return a beam with one more segment, which ends where the model would retrieve again."""
        text, is_open = self._cut(segment)
        is_open = is_open and bool(text.strip())
        score = max(0.0, self.score.compute(cut_segment(segment, text)))
        return _Beam(f"{beam.reply}{text}", beam.score * score, (*beam.passages, passage), is_open)

    def _cut(self, segment: Generation) -> tuple[str, bool]:
        """Return the text of a segment up to where the model retrieves again, and whether it does.

        The model retrieves where it wrote the token for it or, with adaptive retrieval, where it
        wrote that for no retrieval although the probability of the other one exceeds the threshold.
        """
        text = segment.text.split("\n\n")[0]
        ends = [text.index(RETRIEVE)] if RETRIEVE in text else []
        if self.retrieval.when == "adaptive":
            start = 0
            for position in (segment.token_positions or {}).get(NO_RETRIEVAL, ()):
                start = text.find(NO_RETRIEVAL, start)
                if start < 0:
                    break
                if compute_retrieval_probability(segment, position) > self.retrieval.threshold:
                    ends.append(start)
                    break
                start += len(NO_RETRIEVAL)
        return (text[: min(ends)], True) if ends else (text, False)
