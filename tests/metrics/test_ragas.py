"""RAGAS' measures: average precision as in the published code, and shares of claims."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.metrics.base import Sample, Shown
from winnow.metrics.ragas import Measure, Ragas, compute_average_precision
from winnow.testing import make_context, make_sample, run_scripted_plan


def make(of: Measure, dialect: str = "strict") -> Ragas:
    """A metric with short prompts."""
    return Ragas(
        "m", "M", of=of, dialect=dialect, extract_template="X {question}|{answer}",  # type: ignore[arg-type]
        check_template="C {question}|{reference}|{claims}",
        useful_template="U {question}|{passage}|{answer}",
    )  # fmt: skip


def sample(**fields: object) -> Sample:
    """A question whose reader saw three passages."""
    shown = Shown(tuple(make_context(rank, f"text {rank}") for rank in (1, 2, 3)))
    return replace(
        make_sample("Ada", answers=("Ada Lovelace",), reply="Ada wrote it.", **fields), shown=shown
    )


@pytest.mark.parametrize(
    ("useful", "published"),
    [
        ([1, 0, 1], 0.8333333332916666),
        ([0, 1], 0.49999999995),
        ([1], 0.9999999999),
        ([0, 0], 0.0),
        ([1, 1, 0, 0, 1], 0.8666666666377778),
    ],
)
def test_average_precision_is_that_of_the_published_code(
    useful: list[int], published: float
) -> None:
    """With the number that it adds; without it, a perfect list has 1."""
    flags = list(map(bool, useful))
    assert compute_average_precision(flags, 1e-10) == pytest.approx(published, abs=1e-15)
    assert compute_average_precision(flags) == pytest.approx(published, abs=1e-9)


def test_passages_are_judged_in_prompt_order() -> None:
    """Each against the accepted answer."""
    score, prompts = run_scripted_plan(
        make("context_precision").plan(sample()), [["Yes.", "no", "**yes**"]]
    )
    assert score == pytest.approx((1 + 2 / 3) / 2)
    assert [prompt.partition("|")[2] for prompt in prompts[0]] == [
        f"Title {rank}\ntext {rank}|Ada Lovelace" for rank in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("of", "text"), [("faithfulness", "Ada wrote it."), ("context_recall", "Ada Lovelace")]
)
def test_claims_are_checked_against_all_passages_at_once(of: Measure, text: str) -> None:
    """One of two is entailed."""
    score, prompts = run_scripted_plan(
        make(of).plan(sample()), [["- a\n- b"], ["1. neutral\n2. entailment"]]
    )
    assert score == 0.5
    assert prompts[0] == [f"X {sample().question.text}|{text}"]
    passages = "Title 1\ntext 1\nTitle 2\ntext 2\nTitle 3\ntext 3"
    assert prompts[1] == [f"C {sample().question.text}|{passages}|1. a\n2. b"]


def test_what_is_missing_is_undefined_or_as_published() -> None:
    """Too few verdicts: the published share is of those given. No claims: undefined in both. Prose
    on a passage: of no use.
    """
    short = [["- a\n- b"], ["entailment"]]
    assert run_scripted_plan(make("faithfulness").plan(sample()), short)[0] is None
    assert run_scripted_plan(make("faithfulness", "ragas").plan(sample()), short)[0] == 1.0
    assert (
        run_scripted_plan(make("faithfulness", "ragas").plan(sample()), [["- a"], ["I refuse."]])[0]
        is None
    )
    for dialect in ("strict", "ragas"):
        assert (
            run_scripted_plan(make("faithfulness", dialect).plan(sample()), [["- none"]])[0] is None
        )
        assert run_scripted_plan(
            make("context_recall", dialect).plan(replace(sample(), shown=Shown())), []
        ) == (None, [])
    assert (
        run_scripted_plan(make("context_precision").plan(sample()), [["yes", "maybe", "no"]])[0]
        is None
    )
    assert run_scripted_plan(
        make("context_precision", "ragas").plan(sample()), [["yes", "maybe", "no"]]
    )[0] == pytest.approx(1)
    assert (
        run_scripted_plan(make("context_precision", "ragas").plan(sample()), [["no", "no", "no"]])[
            0
        ]
        == 0.0
    )
    assert (
        run_scripted_plan(make("context_precision").plan(sample()), [["no", "no", "no"]])[0] == 0.0
    )
    assert run_scripted_plan(make("faithfulness").plan(sample(unknown=True)), []) == (None, [])
    with pytest.raises(ConfigError, match=r"metric\.m\.of must be faithfulness.*received 'recall'"):
        replace(make("faithfulness"), of="recall")


def test_the_accepted_answer_is_the_first_and_the_role_the_judge() -> None:
    """Without one, nothing about passages is asked; reasoning and later words of a reply do not
    count.
    """
    two = replace(sample(), question=replace(sample().question, answers=("Ada Lovelace", "Ada")))
    bare = replace(sample(), question=replace(sample().question, answers=()))
    questions: list[tuple[Measure, list[str]]] = [
        ("context_recall", ["- none"]),
        ("context_precision", ["no"] * 3),
    ]
    for of, reply in questions:
        assert run_scripted_plan(make(of).plan(two), [reply])[1][0][0].endswith("|Ada Lovelace")
        assert run_scripted_plan(make(of).plan(bare), []) == (None, [])
    assert {request.role for request in next(make("context_precision").plan(sample()))} == {"judge"}
    replies = ["<think>no</think> Yes, it is no doubt useful.", "No, though yes would do", "no"]
    assert run_scripted_plan(make("context_precision").plan(sample()), [replies])[0] == 1.0
    strict, published = (
        run_scripted_plan(make("context_precision", dialect).plan(sample()), [["yes"] * 3])[0]
        for dialect in ("strict", "ragas")
    )
    assert strict == 1.0
    assert published is not None
    assert 1 - 1e-9 < published < 1
    abstention = make("faithfulness", "ragas").plan(sample(unknown=True))
    assert run_scripted_plan(abstention, [["- a"], ["neutral"]])[0] == 0.0, "as published"
    with pytest.raises(ConfigError, match=r"metric\.m\.useful_template"):
        replace(make("context_precision"), useful_template="{question}")
