"""What rounds of retrieval find."""

from typing import Any

import pytest

from winnow.contexts.shown import build_shown
from winnow.errors import ConfigError
from winnow.metrics.base import Rows, Sample, Shown
from winnow.metrics.rounds import EvidenceRecall, FirstHit, RepeatedQueries, Rounds
from winnow.predictions import Prediction
from winnow.records import Passage, Question
from winnow.steps import Step

PASSAGES = {
    name: Passage(name, "", text)
    for name, text in {"a": "Rome", "b": "Paris is it", "c": "Oslo", "d": "Bern"}.items()
}
STRIP = Passage("c#1", "", "Os", sources=("c",))
STEPS = (
    Step(1, "generate", "reader", (PASSAGES["a"],)),
    Step(2, "search", "search", (PASSAGES["b"],), query="Where  IS it?"),
    Step(2, "search", "search", (PASSAGES["d"],), query="where is it?", calls=2),
    Step(3, "generate", "reader", (PASSAGES["a"], STRIP)),
    Step(3, "generate", "judge", (PASSAGES["d"],)),
    Step(4, "generate", "reader", (PASSAGES["b"],)),
    Step(4, "likelihood", "reader", (PASSAGES["a"],)),
)


def _build_sample(steps: Any = STEPS, gold: tuple[str, ...] = ("b", "c", "x")) -> Sample:
    """A question about Paris, with three gold passages, of which the prompts show two."""
    question = Question("q", "Where is it?", ("Paris",), gold)
    shown = build_shown(question, steps, (), ())
    return Sample(question, Prediction("q", "Paris", unknown=False), shown=shown)


def test_rounds_are_those_that_prompt_the_reader() -> None:
    """Three rounds with their passages; searches and other roles' prompts are none; queries are in
    their order.
    """
    shown = _build_sample().shown
    assert shown is not None
    assert [[context.passage.passage_id for context in one] for one in shown.rounds] == [
        ["a"],
        ["a", "c#1"],
        ["b", "a"],
    ]
    assert shown.queries == ("Where  IS it?", "where is it?", "where is it?")
    assert Rounds("m", "M").score(_build_sample()) == 3.0


@pytest.mark.parametrize(
    ("of", "rounds", "recall"),
    [
        ("answer", 1, 0.0), ("answer", 2, 0.0), ("answer", 3, 1.0), ("answer", None, 1.0),
        ("answer", 9, 1.0), ("gold", 1, 0.0), ("gold", 2, 1 / 3), ("gold", 3, 2 / 3),
        ("gold", None, 2 / 3),
    ],
)  # fmt: skip
def test_evidence_adds_up_over_rounds(of: Any, rounds: int | None, recall: float) -> None:
    """A part of a gold passage is evidence; a passage that was found and not shown is none."""
    assert EvidenceRecall("m", "M", of=of, rounds=rounds).score(_build_sample()) == recall


def test_the_first_hit() -> None:
    """By kind of evidence; none is undefined, not 0."""
    assert FirstHit("m", "M", of="answer").score(_build_sample()) == 3.0
    assert FirstHit("m", "M", of="gold").score(_build_sample()) == 2.0
    assert FirstHit("m", "M", of="answer").score(_build_sample(STEPS[:4])) is None


def test_repeated_queries_are_a_share_of_all_queries() -> None:
    """Case and white space do not tell them apart; a question without a search adds nothing."""
    metric = RepeatedQueries("m", "M", headline=False)
    samples = [_build_sample(), _build_sample(STEPS[:1]), _build_sample(())]
    assert [metric.compute_terms(sample) for sample in samples] == [
        (2.0, 3.0),
        (0.0, 0.0),
        (0.0, 0.0),
    ]
    interval = metric.aggregate(
        Rows.collect([metric.compute_row(sample) for sample in samples]).columns
    )
    assert interval.mean == pytest.approx(2 / 3)


def test_what_is_not_known_is_undefined() -> None:
    """Steps that were not recorded, and questions without annotation; prompts without passages show
    nothing.
    """
    unknown = _build_sample(())
    assert unknown.shown is None
    metrics = (EvidenceRecall("m", "M"), FirstHit("m", "M"), Rounds("m", "M"))
    assert [metric.score(unknown) for metric in metrics] == [None] * 3
    assert EvidenceRecall("m", "M", of="gold").score(_build_sample(gold=())) is None
    alone = Sample(unknown.question, unknown.prediction, shown=Shown(rounds=((),)))
    assert EvidenceRecall("m", "M").score(alone) == 0.0


@pytest.mark.parametrize("settings", [{"of": "x"}, {"rounds": 0}])
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    """With the value received."""
    with pytest.raises(ConfigError, match="received"):
        EvidenceRecall("m", "M", **settings)
