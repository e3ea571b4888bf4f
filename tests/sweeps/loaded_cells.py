"""Cells without files, and answers without a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests.plans import PROMPT
from winnow.artifacts.rankings import Rankings
from winnow.contexts.placed import PlacedContexts
from winnow.errors import ArtifactError
from winnow.predictions import RoleUsage
from winnow.records import Answer, Context, Decoding, Question
from winnow.steps import Outcome, Step
from winnow.strategies.concatenation import Concatenation
from winnow.sweeps.run import LoadedCell, iter_jobs
from winnow.sweeps.searches import SearchRules
from winnow.testing import make_context, make_question

QUESTIONS = [make_question(question_id=name) for name in ("a", "b", "c")]


CONTEXTS = (make_context(1, "one"), make_context(2, "two"))


@dataclass(frozen=True)
class Weighting:
    """A weighting that fails for one question."""

    fails: bool = False

    def apply(self, contexts: tuple[Context, ...]) -> tuple[Context, ...]:
        """Return the contexts in reverse order."""
        if self.fails:
            raise ArtifactError("passage 'p1' has no score.")
        return contexts[::-1]


@dataclass(frozen=True)
class Spec:
    """What a run reads of a specification."""

    key: str
    predictions: Path
    folder: Path
    engines: tuple[Any, ...] = ()
    weighting: Weighting = Weighting()
    retrieval: Path = Path("retrieval.parquet")
    config: Any = field(default_factory=dict)
    searches: SearchRules = field(default_factory=SearchRules)
    processor: Any = None

    def place(self, question: Question, rankings: object) -> PlacedContexts:
        """Return both contexts."""
        return PlacedContexts(CONTEXTS, gold_position=2, provenance="annotated")


@dataclass(frozen=True)
class Engine:
    """The role and the key of an engine."""

    role: str
    key: str


def cell(
    tmp_path: Path, key: str, questions: list[Question] = QUESTIONS, **fields: Any
) -> LoadedCell:
    """A cell whose contexts are both passages in reverse order."""
    spec = Spec(key, tmp_path / key / "predictions.parquet", tmp_path / key, **fields)
    rankings = Rankings(
        tmp_path, {}, {context.passage.passage_id: context.passage for context in CONTEXTS}, {}
    )
    return LoadedCell(cast("Any", spec), Concatenation(PROMPT, Decoding()), questions, rankings, 0)


@dataclass
class Answers:
    """Answers every question with its id, the last first, and counts which cells were finished
    before the end.
    """

    finished: list[tuple[str, int]] = field(default_factory=list)
    finished_before: list[int] = field(default_factory=list)

    def run(self, cells: Sequence[LoadedCell]) -> Iterator[Outcome[Answer]]:
        """Yield an outcome of each job."""
        for job in reversed(list(iter_jobs(cells))):
            self.finished_before.append(len(self.finished))
            usage = (RoleUsage("reader", 1, 10, 2, 0.5),)
            step = Step(1, "generate", "reader", (CONTEXTS[1].passage,), finish="stop")
            answer = Answer(cast("tuple[str, str]", job.tag)[1], unknown=False)
            yield Outcome(job.tag, answer, usage, dropped=1, steps=(step,), stop="stop")
