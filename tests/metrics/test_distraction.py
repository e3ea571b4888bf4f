"""The distracting effect, from the strategies' own traces."""

import math
from dataclasses import replace

import pytest

from winnow.metrics.base import Sample, evaluate
from winnow.metrics.distraction import DistractingEffect, Udcg
from winnow.predictions import Prediction
from winnow.records import Decoding, Question
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.pf_concat import PFConcat
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, run_scripted_plan

METRIC = DistractingEffect("distracted", "distracting effect")


def sample(trace: str, labels: str) -> Sample:
    """Contexts: "g" is gold without an answer's text, "+" has an answer, "-" neither."""
    contexts = [
        replace(make_context(n, "text", is_gold=label == "g"), has_answer=label == "+")
        for n, label in enumerate(labels, 1)
    ]
    return Sample(
        Question("q", "?", ("a",)),
        Prediction("q", "a", unknown=False, trace=(trace, "vote: a 1")),
        contexts,
    )


@pytest.mark.parametrize(
    ("trace", "labels", "expected"),
    [
        ("answered: 1 3", "+--", 1 / 2),
        ("answered: none", "---", 0.0),
        ("answered: 1 2 3", "---", 1.0),
        ("answered: 1", "g-", 0.0),
        ("answered: 1 10", "+----------", 0.1),
    ],
)
def test_passages_without_an_answer_are_counted(trace: str, labels: str, expected: float) -> None:
    """By position; those with an answer do not count."""
    assert METRIC.compute_value(METRIC.compute_row(sample(trace, labels))) == pytest.approx(
        expected
    )


def test_it_is_undefined_where_no_passage_was_read_alone() -> None:
    """Or where every passage has an answer; other questions are averaged over passages, not over
    questions.
    """
    assert METRIC.compute_value(METRIC.compute_row(sample("kept: 1", "--"))) is None
    assert METRIC.compute_value(METRIC.compute_row(sample("answered: 1", "+"))) is None
    assert math.isnan(evaluate([METRIC], [sample("kept: 1", "--")])["distracted"].mean)
    values = evaluate(
        [METRIC],
        [sample("answered: 1", "-"), sample("answered: none", "---"), sample("kept: 1", "--")],
    )
    assert values["distracted"].mean == pytest.approx(1 / 4)


PROMPT = Prompt(
    "{contexts} Q {question}",
    "closed Q {question}",
    "{contexts} C {candidates} Q {question}",
    "<{text}>",
)
CONTEXTS = [make_context(1, "one"), make_context(2, "two"), make_context(3, "three")]


@pytest.mark.parametrize(
    ("strategy", "rounds"),
    [
        (PostFusion(PROMPT, Decoding()), [["unknown", "x", "y"]]),
        (ConcatPF(PROMPT, Decoding()), [["unknown"], ["unknown", "x", "y"]]),
        (PFConcat(PROMPT, Decoding()), [["unknown", "x", "y"], ["y"]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_strategies_that_read_passages_alone_record_answered_ones(
    strategy: PostFusion, rounds: list[list[str]]
) -> None:
    """By position in the prompt; without any, the entry says so."""
    answer, _ = run_scripted_plan(strategy.plan(make_question(), CONTEXTS), rounds)
    assert "answered: 2 3" in answer.trace
    silent = [["unknown"] * len(replies) for replies in rounds]
    answer, _ = run_scripted_plan(strategy.plan(make_question(), CONTEXTS), silent[:2])
    assert "answered: none" in answer.trace


def test_a_passage_counts_if_one_of_its_samples_is_an_answer() -> None:
    """Self-consistency asks about each passage several times."""
    plan = PostFusion(PROMPT, Decoding(temperature=1.0, samples=2)).plan(make_question(), CONTEXTS)
    answer, _ = run_scripted_plan(plan, [["unknown", "x", "unknown", "unknown", "y", "y"]])
    assert "answered: 1 3" in answer.trace


def test_a_passage_whose_title_holds_the_answer_is_no_distractor() -> None:
    """Prompts show titles."""
    titled = sample("answered: 1", "--")
    contexts = [
        replace(c, passage=replace(c.passage, title="a")) if n == 0 else c
        for n, c in enumerate(titled.placed)
    ]
    assert METRIC.compute_value(METRIC.compute_row(replace(titled, placed=contexts))) == 0.0


@pytest.mark.parametrize(
    ("trace", "labels", "utility"),
    [
        ("answered: 1 2 3 4 5", "gg---", (2 - 3 / 3) / 5),
        ("answered: 1 3", "+--", (1 - 1 / 3) / 3),
        ("answered: none", "g--", 0.0),
        ("answered: 1 2", "--", -1 / 3),
    ],
)
def test_udcg_is_the_logistic_function_of_the_utilities_over_k(
    trace: str, labels: str, utility: float
) -> None:
    """The authors' code: relevant ones count 1, others minus a third, over all passages."""
    score = Udcg("udcg", "UDCG").score(sample(trace, labels))
    assert score == pytest.approx(1 / (1 + math.exp(-utility)))


def test_udcg_of_the_authors_example() -> None:
    """Two relevant and three irrelevant passages with the published probabilities, rounded to
    answers: between the bounds.
    """
    published = 1 / (1 + math.exp(-(2 - 0.333 * (3 - 0.13184 - 0.18127 - 0.02081)) / 5))
    assert published == pytest.approx(0.55538, abs=1e-4), (
        "the value in their file, by the formula that the class uses"
    )
    assert Udcg("udcg", "UDCG").score(sample("answered: 1 2 3 4 5", "++---")) == pytest.approx(
        0.5498, abs=1e-4
    )
    assert Udcg("udcg", "UDCG").score(sample("kept: 1", "--")) is None
    assert Udcg("udcg", "UDCG").score(sample("answered: none", "")) is None
