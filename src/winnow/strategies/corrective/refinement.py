"""CRAG's knowledge refinement: divide passages into strips, score them and keep relevant ones."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge

from winnow.identity.values import check_values
from winnow.records import Passage, Question
from winnow.requests import Plan
from winnow.strategies.corrective.evaluators import Evaluator
from winnow.strategies.corrective.segments import Segmenter, SentenceGroups

Order = Literal["original", "score"]
Join = Literal["none", "passage", "all"]


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What refinement kept.

    Attributes:
        strips: Kept strips, joined or not, as passages. The id of a strip is that of its passage,
            "#" and the strip's number; joined strips have the id of the first one. `sources` names
            the passages of the strips.
        total: Number of strips before the selection.
        kept: Number of strips after the selection.
        is_fallback: Whether no strip passed the filter, so that the best one was kept in spite of
            its score.
        failed: Number of strips whose evaluation failed.
    """

    strips: tuple[Passage, ...] = ()
    total: int = 0
    kept: int = 0
    is_fallback: bool = False
    failed: int = 0

    @classmethod
    def from_passages(cls, passages: Sequence[Passage]) -> "Knowledge":
        """Return whole passages as knowledge, each of them a strip."""
        return cls(tuple(passages), len(passages), len(passages))


@dataclass(frozen=True, slots=True)
class Refinement:
    """Selection of strips (slides: filter -0.5, the best 5, joined in their original order).

    Args:
        segmenter: Divides the text of a passage.
        threshold: Smallest relevance score, in [-1, 1], of a strip that is kept; null keeps all
            scores. If no strip passes, the best one is kept.
        top: Maximum number of strips.
        order: "original" keeps the order of the passages and of the strips in them; "score" puts
            the best strip first.
        join: Which kept strips become one passage: "passage" joins successive strips of one
            passage, under its title; "all" joins all strips into one passage without a title;
            "none" keeps them apart.
        separator: Text between joined strips.
        min_words: Strips with fewer words have the score -1, without an evaluation.
    """

    revision: ClassVar[int] = 3

    segmenter: Segmenter = SentenceGroups()
    threshold: float | None = -0.5
    top: Annotated[int, Ge(1)] = 5
    order: Order = "original"
    join: Join = "passage"
    separator: str = " "
    min_words: int = 0

    def __post_init__(self) -> None:
        check_values("refinement", self)

    def refine(
        self, question: Question, passages: Sequence[Passage], evaluator: Evaluator
    ) -> Plan[Knowledge]:
        """Evaluate every strip and return the selected ones; passages without text give none."""
        strips = [
            (
                position,
                Passage(
                    f"{passage.passage_id}#{number}",
                    passage.title,
                    text,
                    passage.sources or (passage.passage_id,),
                ),
            )
            for position, passage in enumerate(passages)
            for number, text in enumerate(self.segmenter.divide(passage.text))
        ]
        if not strips:
            return Knowledge()
        long_enough = [
            number
            for number, (_, strip) in enumerate(strips)
            if len(strip.text.split()) >= self.min_words
        ]
        evaluation = yield from evaluator.evaluate(
            question, [strips[number][1] for number in long_enough]
        )
        scores = [-1.0] * len(strips)
        for number, score in zip(long_enough, evaluation.scores, strict=True):
            scores[number] = score
        best_first = sorted(range(len(strips)), key=lambda number: (-scores[number], number))
        passing = [
            number
            for number in best_first
            if self.threshold is None or scores[number] >= self.threshold
        ]
        selection = passing[: self.top] or best_first[:1]
        if self.order == "original":
            selection.sort()
        joined_strips = self._join([strips[number] for number in selection])
        return Knowledge(joined_strips, len(strips), len(selection), not passing, evaluation.failed)

    def _join(self, strips: Sequence[tuple[int, Passage]]) -> tuple[Passage, ...]:
        """Join strips, which are given with the position of their passage."""
        if self.join == "none":
            return tuple(strip for _, strip in strips)
        joined_passages = []
        for _, group in itertools.groupby(
            strips, key=lambda strip: strip[0] if self.join == "passage" else 0
        ):
            members = [strip for _, strip in group]
            title = members[0].title if self.join == "passage" else ""
            text = self.separator.join(strip.text for strip in members)
            sources = tuple(dict.fromkeys(source for strip in members for source in strip.sources))
            joined_passages.append(replace(members[0], title=title, text=text, sources=sources))
        return tuple(joined_passages)
