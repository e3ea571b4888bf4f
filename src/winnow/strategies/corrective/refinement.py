"""Knowledge refinement of CRAG: divide passages into strips, score each by the evaluator and keep the relevant ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from winnow.errors import ConfigError
from winnow.records import Estimate, Passage, Plan, Question
from winnow.strategies.corrective.actions import compute_relevance_score
from winnow.strategies.corrective.segments import Segmenter, SentenceGroups


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What refinement kept.

    Attributes:
        strips: Kept strips, as passages whose ids are those of their passage followed by "#" and the number of the strip.
        total: Number of strips before the selection.
        is_fallback: Whether no strip passed the filter, so that the best one was kept in spite of its score.

    """

    strips: tuple[Passage, ...] = ()
    total: int = 0
    is_fallback: bool = False


@dataclass(frozen=True, slots=True)
class Refinement:
    """Selection of strips (slides: filter -0.5, the best 5, in their original order).

    Args:
        segmenter: Divides the text of a passage.
        threshold: Smallest relevance score, in [-1, 1], of a strip that is kept; null keeps all scores. If no strip passes,
            the best one is kept.
        top: Maximum number of strips.
        order: "original" keeps the order of the passages and of the strips in them; "score" puts the best strip first.

    """

    revision: ClassVar[int] = 1

    segmenter: Segmenter = SentenceGroups()
    threshold: float | None = -0.5
    top: int = 5
    order: Literal["original", "score"] = "original"

    def __post_init__(self) -> None:
        """Raise ConfigError for a selection of no strip and for an unknown order."""
        if self.top < 1:
            raise ConfigError(f"strategy.plan.refinement.top must be at least 1; received {self.top}.")
        if self.order not in ("original", "score"):
            raise ConfigError(f"strategy.plan.refinement.order must be original or score; received {self.order!r}.")

    def refine(self, question: Question, passages: Sequence[Passage]) -> Plan[Knowledge]:
        """Request the relevance of every strip, and return the selected ones. Passages without text give no strip."""
        strips = [
            Passage(f"{passage.passage_id}#{number}", passage.title, text)
            for passage in passages
            for number, text in enumerate(self.segmenter.divide(passage.text))
        ]
        if not strips:
            return Knowledge()
        estimates = yield [Estimate(question.text, strip.text, strip.title) for strip in strips]
        scores = [compute_relevance_score(estimate.value) for estimate in estimates]
        best_first = sorted(range(len(strips)), key=lambda number: (-scores[number], number))
        passing = [number for number in best_first if self.threshold is None or scores[number] >= self.threshold]
        chosen = passing[: self.top] or best_first[:1]
        if self.order == "original":
            chosen.sort()
        return Knowledge(tuple(strips[number] for number in chosen), len(strips), not passing)
