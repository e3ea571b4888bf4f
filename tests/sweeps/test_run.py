"""Cells on one driver: the order of their jobs, and predictions written when all questions of a
cell are answered.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.plans import PROMPT
from winnow.artifacts.rankings import Rankings
from winnow.artifacts.steps import StoredSteps
from winnow.artifacts.tables import read_predictions
from winnow.contexts.placed import PlacedContexts
from winnow.errors import ArtifactError, ConfigError
from winnow.predictions import RoleUsage
from winnow.records import (
    Answer,
    Context,
    Decoding,
    Generate,
    Likelihood,
    Message,
    Pages,
    Passage,
    Plan,
    Question,
    Search,
)
from winnow.steps import Outcome, Step
from winnow.strategies.concatenation import Concatenation
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.run import (
    JobFactory,
    LoadedCell,
    build_prediction,
    check_named_passages,
    group_by_engines,
    group_by_models,
    iter_jobs,
    run_cells,
)
from winnow.sweeps.searches import SearchRules
from winnow.testing import make_context, make_question, run_scripted_plan

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

    def run(self, jobs: JobFactory, number: int) -> Iterable[Outcome[Answer]]:
        """Yield an outcome of each job."""
        started = list(jobs())
        assert len(started) == number
        for job in reversed(started):
            self.finished_before.append(len(self.finished))
            usage = (RoleUsage("reader", 1, 10, 2, 0.5),)
            step = Step(1, "generate", "reader", (CONTEXTS[1].passage,), finish="stop")
            answer = Answer(cast("tuple[str, str]", job.tag)[1], unknown=False)
            yield Outcome(job.tag, answer, usage, dropped=1, steps=(step,), stop="stop")


@dataclass(frozen=True)
class Shortened:
    """A processor that asks for a context's text, and keeps the first context alone."""

    def process(self, question: Question, contexts: Sequence[Context]) -> Plan[tuple[Context, ...]]:
        """Request one reply."""
        (reply,) = yield [Generate((Message("user", "shorten"),), Decoding(), role="rewriter")]
        return (replace(contexts[0], passage=replace(contexts[0].passage, text=reply.text)),)


def test_a_replay_runs_the_plan_that_the_sweep_ran(tmp_path: Path) -> None:
    """With the processor before the strategy; what the strategy says of positions is not kept, as
    they are others.
    """

    class Positions:
        def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
            text = " ".join(context.passage.text for context in contexts)
            (reply,) = yield [
                Generate(
                    (Message("user", text),),
                    Decoding(),
                    passages=tuple(c.passage for c in contexts),
                )
            ]
            return Answer(reply.text, unknown=False, trace=("answered: 1", "kept"))

    loaded = cell(tmp_path, "x")
    loaded.strategy = Positions()
    processed = replace(loaded, spec=replace(cast("Any", loaded.spec), processor=Shortened()))
    replies = [["short"], ["reply"]]
    for plan in (processed.plan(QUESTIONS[0], CONTEXTS), processed.start(QUESTIONS[0]).plan):
        answer, prompts = run_scripted_plan(plan, replies)
        assert prompts == [["shorten"], ["short"]]
        assert (answer.text, answer.trace) == ("reply", ("kept",))
    answer, prompts = run_scripted_plan(loaded.plan(QUESTIONS[0], CONTEXTS), replies[1:])
    assert prompts == [["one two"]]
    assert answer.trace == ("answered: 1", "kept")


def test_jobs_come_question_by_question(tmp_path: Path) -> None:
    """So that equal requests of several cells run at the same time; a cell with fewer questions
    leaves gaps.
    """
    jobs = list(
        iter_jobs(
            [
                cell(tmp_path, "x"),
                cell(tmp_path, "y", QUESTIONS[:1]),
                cell(tmp_path, "z", QUESTIONS[:2]),
            ]
        )
    )
    assert [job.tag for job in jobs] == [
        ("x", "a"),
        ("y", "a"),
        ("z", "a"),
        ("x", "b"),
        ("z", "b"),
        ("x", "c"),
    ]


def test_cells_share_a_driver_if_their_language_models_are_the_same(tmp_path: Path) -> None:
    """By role and key; a search of another corpus or another estimator makes no other driver, but
    another estimate.
    """
    reader, judge, other = Engine("reader", "r"), Engine("judge", "r"), Engine("reader", "s")
    search = Engine("search", "w")
    swapped, other_way = (reader, Engine("judge", "s")), (other, Engine("judge", "r"))
    engines = {
        "1": (reader,),
        "2": (reader, judge),
        "3": (reader,),
        "4": (other,),
        "5": (reader, search),
        "6": swapped,
        "7": other_way,
    }
    cells = [cell(tmp_path, key, engines=engines) for key, engines in engines.items()]
    assert [[one.spec.key for one in group] for group in group_by_engines(cells)] == [
        ["1", "3"],
        ["2"],
        ["4"],
        ["5"],
        ["6"],
        ["7"],
    ]
    assert [[one.spec.key for one in group] for group in group_by_models(cells)] == [
        ["1", "2", "3", "5"],
        ["4"],
        ["6"],
        ["7"],
    ]


def test_predictions_are_written_when_a_cell_is_finished(tmp_path: Path) -> None:
    """In the order of the questions, however they were answered; placed contexts are then
    forgotten.
    """
    answers = Answers()
    cells = [cell(tmp_path, "x"), cell(tmp_path, "y", QUESTIONS[:2])]
    run_cells(
        cells, answers.run, lambda one, number: answers.finished.append((one.spec.key, number))
    )
    assert answers.finished == [("y", 2), ("x", 3)]
    assert answers.finished_before == [0, 0, 0, 0, 1]
    for one in cells:
        predictions = read_predictions(one.spec.predictions)
        assert [row.question_id for row in predictions] == [row.answer for row in predictions]
        assert [row.question_id for row in predictions] == [
            question.question_id for question in one.questions
        ]
        assert {
            (row.passage_ids, row.gold_position, row.provenance, row.truncated_passages)
            for row in predictions
        } == {(("p2", "p1"), 2, "annotated", 1)}
        stored = StoredSteps(one.spec.folder, one.rankings.passages)
        recorded = stored.convert(stored.read_table())
        assert [question_id for question_id, _ in recorded] == [
            question.question_id for question in one.questions
        ]
        assert one.placed == {}
        assert one.started is not None


def test_a_prompt_that_does_not_name_its_passages_is_refused() -> None:
    """The reader saw what metrics would not know of; a judge's prompts, short texts and named
    passages are fine.
    """
    contexts = (make_context(1, "Emma is a novel of 1815."), make_context(2, "1815"))

    def ask(text: str, passages: tuple[Passage, ...] = (), role: str = "reader") -> Plan[Answer]:
        (reply,) = yield [
            Generate((Message("user", text),), Decoding(), role=role, passages=passages)
        ]
        return Answer(reply.text, unknown=False)

    for text, passages, role in (
        ("What of 1815?", (), "reader"),
        (contexts[0].passage.text, (), "judge"),
        (contexts[0].passage.text, (contexts[0].passage,), "reader"),
    ):
        answer, _ = run_scripted_plan(
            check_named_passages(ask(text, passages, role), contexts, "q"), [["x"]]
        )
        assert answer.text == "x"
    with pytest.raises(
        ConfigError, match="question 'q' shows the passage 'p1', but does not name it"
    ):
        next(check_named_passages(ask(f"See: {contexts[0].passage.text}"), contexts, "q"))
    both, third = (
        (contexts[0].passage, make_context(3, "Persuasion is a novel, too.").passage),
        "Persuasion is a novel, too.",
    )
    partly = ask(f"{both[0].text} {third}", both[:1])
    next(
        check_named_passages(partly, (*contexts, make_context(3, third)), "q")
    )  # a demonstration may show it
    with pytest.raises(ConfigError, match="'p3', but does not name it"):
        next(
            check_named_passages(
                ask(f"{both[0].text} {third}", both[:1]),
                (*contexts, make_context(3, third)),
                "q",
                strictly=True,
            )
        )
    other = replace(both[0], text=f"1: {both[0].text}")
    with pytest.raises(ConfigError, match="names the passage 'p1', but does not show its text"):
        next(check_named_passages(ask(both[0].text, (other,)), contexts, "q", strictly=True))
    made = replace(other, passage_id="summary", sources=("p1",))
    next(check_named_passages(ask(both[0].text, (made,)), contexts, "q", strictly=True))


@dataclass(frozen=True)
class ShownSpec(Spec):
    """A specification with other contexts."""

    placed: PlacedContexts | None = None

    def place(self, question: Question, rankings: object) -> PlacedContexts:
        """Return them."""
        assert self.placed is not None
        return self.placed


class Unnamed:
    """A strategy of another package, which shows a passage without naming it."""

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Show the last passage."""
        (reply,) = yield [
            Generate((Message("user", f"See: {contexts[-1].passage.text}"),), Decoding())
        ]
        return Answer(reply.text, unknown=False)


def test_every_strategy_of_a_sweep_is_checked(tmp_path: Path) -> None:
    """Also one that names no passage at all."""
    question = make_question(question_id="a")
    one = cell(tmp_path, "x", [question])
    placed = PlacedContexts(
        (make_context(1, "Emma is a novel of 1815."),), gold_position=0, provenance="none"
    )
    one.spec = cast(
        "Any", ShownSpec("x", tmp_path / "predictions.parquet", tmp_path, placed=placed)
    )
    one.strategy = Unnamed()

    def run_first(jobs: JobFactory, number: int) -> Iterable[Outcome[Answer]]:
        assert number == 1
        for job in jobs():
            next(job.plan)
        return ()

    with pytest.raises(
        ConfigError, match="question 'a' shows the passage 'p1', but does not name it"
    ):
        run_cells([one], run_first, lambda cell, number: None)


def test_a_likelihood_names_its_passages_too() -> None:
    """Its prompt is read by the reader."""
    context = make_context(1, "Emma is a novel of 1815.")

    def plan(*passages: Passage) -> Plan[Answer]:
        yield [
            Likelihood(
                (Message("user", f"See: {context.passage.text}"),), "1815", passages=passages
            )
        ]
        return Answer("1815", unknown=False)

    next(check_named_passages(plan(context.passage), (context,), "q"))
    with pytest.raises(
        ConfigError, match=r"'p1', but does not name it.*Pass all of them as Likelihood\("
    ):
        next(check_named_passages(plan(), (context,), "q"))


def test_what_a_search_found_must_be_named_too() -> None:
    """Before it was found, nothing is known of it."""
    page = make_context(7, "Emma is a novel of 1815.").passage

    def plan() -> Plan[Answer]:
        yield [Search("emma", 1)]
        (reply,) = yield [Generate((Message("user", f"See: {page.text}"),), Decoding())]
        return Answer(reply.text, unknown=False)

    checked = check_named_passages(plan(), (), "q")
    next(checked)
    with pytest.raises(ConfigError, match="'p7', but does not name it"):
        checked.send([Pages((page,))])


def test_a_context_without_a_weight_is_named(tmp_path: Path) -> None:
    """With the artifact and the question."""
    with pytest.raises(
        ArtifactError, match=r"retrieval\.parquet, question 'b': passage 'p1' has no score\."
    ):
        cell(tmp_path, "x", weighting=Weighting(fails=True)).start(QUESTIONS[1])


def test_a_prediction_has_all_that_an_answer_says() -> None:
    """Passages of the prompt and those that the answer used are kept apart."""
    used = (CONTEXTS[1].passage,)
    answer = Answer(
        "Ada",
        unknown=False,
        candidates=("Ada", "Bob"),
        reply="Answer: Ada",
        used=used,
        trace=("note",),
    )
    usage = (RoleUsage("reader", 2, 20, 4, 1.0),)
    placed = PlacedContexts(CONTEXTS, gold_position=1, provenance="distant")
    prediction = build_prediction(
        QUESTIONS[0], placed, Outcome(("x", "a"), answer, usage, dropped=3)
    )
    assert (prediction.question_id, prediction.answer, prediction.unknown) == ("a", "Ada", False)
    assert (prediction.candidates, prediction.reply, prediction.trace) == (
        ("Ada", "Bob"),
        "Answer: Ada",
        ("note",),
    )
    assert (prediction.passage_ids, prediction.used_ids) == (("p1", "p2"), ("p2",))
    assert (prediction.gold_position, prediction.provenance) == (1, "distant")
    assert (prediction.truncated_passages, prediction.usage) == (3, usage)


def _list_amounts(used: Sequence[RoleUsage]) -> list[tuple[object, ...]]:
    """Every field, since comparisons leave out the time."""
    return list(map(astuple, used))


@dataclass(frozen=True)
class LabeledSpec(Spec):
    """A specification with the label k."""

    labels: CellLabels = field(default_factory=lambda: CellLabels("s", 5, "g"))


def test_what_a_ranking_used_counts_in_the_cells_that_read_it(tmp_path: Path) -> None:
    """By role, also for a question without a context; a cell without passages pays for none."""
    usage = {
        "a": (
            RoleUsage("reader", 4, 100, 7, 1.5, 2, 3, 4),
            RoleUsage("reranker", 1, 5, 6, 0.25, 1, 1),
        )
    }
    cells = []
    for name, k in (("x", 5), ("y", 0)):
        one = cell(tmp_path, name)
        spec = LabeledSpec(
            name, one.spec.predictions, one.spec.folder, labels=CellLabels("s", k, "g")
        )
        cells.append(
            replace(one, spec=cast("Any", spec), rankings=replace(one.rankings, usage=usage))
        )
    run_cells(cells, Answers().run, lambda *_: None)
    own = ("reader", 1, 10, 2, 0.5, 0, 0, 0)
    first, second, _ = read_predictions(cells[0].spec.predictions)
    assert _list_amounts(first.usage) == [
        ("reader", 5, 110, 9, 2.0, 2, 3, 4),
        ("reranker", 1, 5, 6, 0.25, 1, 1, 0),
    ]
    assert _list_amounts(second.usage) == [own]
    assert {
        tuple(_list_amounts(one.usage)) for one in read_predictions(cells[1].spec.predictions)
    } == {(own,)}
