"""FactScore by hand, with a scripted judge."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from winnow.errors import ConfigError, InputError
from winnow.metrics.base import Sample
from winnow.metrics.factscore import (
    FactScore,
    compute_score,
    parse_facts,
    parse_support,
    split_sentences,
)
from winnow.requests import Generation
from winnow.testing import make_context, make_sample, run_scripted_plan

METRIC = FactScore(
    "f",
    "F",
    split_template="S {sentence}",
    check_template="C {topic} / {passages} / {fact}",
    passages=2,
)
ANSWER = "Ada was a mathematician. She died in 1852."


def sample(answer: str = ANSWER, **fields: object) -> Sample:
    """A biography of Ada with three retrieved passages."""
    contexts = tuple(make_context(rank, f"text {rank}") for rank in (1, 2, 3))
    one = make_sample(answer, answers=(), **fields)
    return replace(one, question=replace(one.question, meta='{"topic": "Ada"}'), ranking=contexts)


def test_a_score_with_its_penalty() -> None:
    """Three facts, two of them supported: 2/3 x exp(1 - 10/3). Decisions see the topic, two
    passages, the best one last, and one fact.
    """
    lists = ["- Ada was a woman.\n- Ada was a mathematician.", "1. Ada died in 1852."]
    score, prompts = run_scripted_plan(METRIC.plan(sample()), [lists, ["True", "False.", "true"]])
    assert score == pytest.approx(2 / 3 * math.exp(1 - 10 / 3))
    assert prompts[0] == ["S Ada was a mathematician.", "S She died in 1852."]
    passages = [f"Title: {c.passage.title}\nText: {c.passage.text}" for c in sample().ranking[:2]]
    assert prompts[1][0] == f"C Ada / {passages[1]}\n\n{passages[0]} / Ada was a woman."
    assert prompts[1][2].endswith("/ Ada died in 1852.")
    without_penalty = replace(METRIC, gamma=0)
    assert run_scripted_plan(without_penalty.plan(sample()), [lists, ["True", "False.", "true"]])[
        0
    ] == pytest.approx(2 / 3)


def test_the_number_of_facts_needs_no_decision() -> None:
    """A sentence for which the judge lists nothing is a fact itself."""
    count, prompts = run_scripted_plan(
        replace(METRIC, of="facts").plan(sample()), [["I cannot.", "- a\n- b"]]
    )
    assert count == 3
    assert len(prompts) == 1
    _, prompts = run_scripted_plan(METRIC.plan(sample()), [["I cannot.", "- a"], ["True", "True"]])
    assert prompts[1][0].endswith("/ Ada was a mathematician.")


@pytest.mark.parametrize(
    "abstention", [sample("unknown", unknown=True), sample(""), sample(" \n ")]
)
def test_abstentions_are_undefined(abstention: Sample) -> None:
    """And ask the judge nothing."""
    assert run_scripted_plan(METRIC.plan(abstention), []) == (None, [])


def test_the_whole_reply_counts() -> None:
    """The answer of most strategies is the reply's first line; Self-RAG's reply has reflection
    tokens instead.
    """
    long = sample("Ada lived.", reply="Ada lived.\n\nShe wrote.")
    _, prompts = run_scripted_plan(METRIC.plan(long), [["", ""], ["True", "True"]])
    assert prompts[0] == ["S Ada lived.", "S She wrote."]
    _, prompts = run_scripted_plan(
        METRIC.plan(sample("Ada lived.", reply="[Relevant]Ada lived.[Utility:5]")),
        [[""], ["True"]],
    )
    assert prompts[0] == ["S Ada lived."]


@pytest.mark.parametrize(
    ("supported", "gamma", "expected"),
    [
        ([True], 10, math.exp(-9)),
        ([True] * 10, 10, 1.0),
        ([True] * 11, 10, 1.0),
        ([True, False], 10, 0.5 * math.exp(-4)),
        ([True, False], 0, 0.5),
        ([False] * 12, 10, 0.0),
        ([True] * 9 + [False] * 3, 10, 0.75),
    ],
)
def test_penalties_as_published(supported: list[bool], gamma: int, expected: float) -> None:
    """exp(1 - gamma / n) up to gamma facts, none beyond."""
    assert compute_score(supported, gamma) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("reply", "supported"),
    [
        ("True", True),
        ("False", False),
        ("It is true, not false", False),
        ("False? No, true.", True),
        ("Yes.", True),
        ("It is not stated", False),
        ("No information.", False),
        ("nothing", True),
        ("", True),
    ],
)
def test_decisions_as_published(reply: str, supported: bool) -> None:
    """The later word counts; without either, words of doubt do, as whole words."""
    assert parse_support(reply) is supported


def test_sentences_and_lists() -> None:
    """Initials and abbreviations end no sentence; facts are lines with a bullet or a number."""
    text = "J. R. Smith lived. Dr. Lee died in 1852! \nHe left with Prof. Ray."
    assert split_sentences(text) == [
        "J. R. Smith lived.",
        "Dr. Lee died in 1852!",
        "He left with Prof. Ray.",
    ]
    assert split_sentences("1. Ada was born.\n10. Ada died. So\n** 3 **") == [
        "1. Ada was born.",
        "10. Ada died.",
        "So",
    ]
    assert parse_facts("Facts:\n- a b\n * c\n2) d\n3. \nend") == ["a b", "c", "d"]


@pytest.mark.parametrize(
    "settings",
    [
        {"split_template": "x"},
        {"check_template": "{fact}"},
        {"passages": 0},
        {"gamma": -1},
        {"of": "x"},
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object]) -> None:
    """By name."""
    with pytest.raises(ConfigError, match=r"metric\.f"):
        replace(METRIC, **settings)  # type: ignore[arg-type]


def test_facts_of_a_sentence_that_the_judge_invents_do_not_count() -> None:
    """A weak judge goes on with the pattern of the prompt; one that repeats the sentence first is
    understood.
    """
    assert parse_facts("- a\n- b\n\nSentence: C.\nFacts:\n- c") == ["a", "b"]
    assert parse_facts("Sentence: C.\nFacts:\n- c\n- d") == ["c", "d"]


def test_reasoning_of_the_judge_is_no_fact_and_no_decision() -> None:
    """A judge that was cut while it reasoned has decided nothing, so that there is no score."""
    one = sample("Ada wrote.")
    facts = ["<think>- not this</think>- Ada wrote."]
    score, prompts = run_scripted_plan(
        replace(METRIC, gamma=0).plan(one), [facts, ["<think>True</think>False"]]
    )
    assert score == 0.0
    assert [prompt.rpartition("/ ")[2] for prompt in prompts[1]] == ["Ada wrote."]
    assert (
        run_scripted_plan(METRIC.plan(one), [facts, ["<think>Okay, the passage says"]])[0] is None
    )
    assert run_scripted_plan(replace(METRIC, gamma=0).plan(one), [facts, [""]])[0] == 1.0, (
        "the published rule"
    )


@pytest.mark.parametrize("finish", ["length", "content_filter", "empty"])
def test_a_missing_verdict_is_undefined(finish: str) -> None:
    """Of a judge whose reasoning took all tokens, or that a filter stopped: it supports nothing."""
    plan = METRIC.plan(sample("Ada wrote."))
    next(plan)
    plan.send([Generation("- Ada wrote.\n- Ada lived.")])
    with pytest.raises(StopIteration) as end:
        plan.send([Generation("True"), Generation("", finish)])
    assert end.value.value is None


@pytest.mark.parametrize(("text", "finish"), [("- a\n- b\n- the pa", "length"), ("", "length")])
def test_a_list_of_facts_that_was_cut_is_undefined(text: str, finish: str) -> None:
    """It is not the whole list."""
    plan = replace(METRIC, of="facts").plan(sample("Ada wrote."))
    next(plan)
    with pytest.raises(StopIteration) as end:
        plan.send([Generation(text, finish)])
    assert end.value.value is None


def test_each_fact_is_checked_against_its_passages_of_the_topic_s_article(tmp_path: Path) -> None:
    """As published: of the person's article those that match the fact best, not those of the
    ranking.
    """
    file = tmp_path / "articles.jsonl"
    text = " ".join(
        ["born in London in 1815 "] * 25 + ["wrote an algorithm "] * 40 + ["died of cancer "] * 40
    )
    rows = [
        {"title": "ADA", "text": text},
        {"title": "Lovelace", "text": "Lovelace is another article."},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    metric = replace(METRIC, articles=str(file), passages=1, gamma=0)
    script = [["- Ada died of cancer.", "- She was born in London."], ["True", "False"]]
    score, prompts = run_scripted_plan(metric.plan(sample()), script)
    assert score == 0.5
    died, born = prompts[1]
    assert died.count("died of cancer") > born.count("died of cancer")
    assert born.count("born in London") > 10
    assert "text 1" not in died + born
    assert run_scripted_plan(metric.plan(sample()), script)[1] == prompts


def test_a_topic_without_an_article_is_undefined(tmp_path: Path) -> None:
    """No decision is requested; a missing file and a line without a text are named."""
    file = tmp_path / "articles.jsonl"
    file.write_text(json.dumps({"title": "Charles", "text": "x"}) + "\n")
    metric = replace(METRIC, articles=str(file))
    assert run_scripted_plan(metric.plan(sample()), [["- a", "- b"]])[0] is None
    with pytest.raises(ConfigError, match=r"articles=.*no such file.*factscore_ranking"):
        run_scripted_plan(replace(metric, articles="none.jsonl").plan(sample()), [["- a", "- b"]])
    file.write_text('{"title": "Ada", "text": " "}\n')
    with pytest.raises(InputError, match="line 1: expected an object with a title and a text"):
        run_scripted_plan(metric.plan(sample()), [["- a", "- b"]])


def test_a_question_without_a_topic_is_refused() -> None:
    """By name, with the field that it lacks."""
    bare = replace(sample(), question=replace(sample().question, meta=""))
    with pytest.raises(InputError, match=r"no topic, which FactScore needs.*\"topic\""):
        run_scripted_plan(METRIC.plan(bare), [["- a fact", "- another"]])


def test_a_verdict_has_room_for_a_clause_before_its_word() -> None:
    """Some judges begin with one."""
    plan = METRIC.plan(sample("Ada wrote."))
    next(plan)
    (request,) = plan.send([Generation("- Ada wrote.")])
    assert request.decoding.max_new_tokens == 64


@pytest.mark.parametrize(
    ("verdict", "score"),
    [
        ("Based on the passages, the", None),
        ("False. The", 0.0),
        ("True. The", 1.0),
        ("<think>Is it true?</think>Based on the", None),
    ],
)
def test_a_verdict_that_was_cut_before_its_word_is_undefined(
    verdict: str, score: float | None
) -> None:
    """The published rule would call it supported."""
    plan = replace(METRIC, gamma=0).plan(sample("Ada wrote."))
    next(plan)
    plan.send([Generation("- Ada wrote.")])
    with pytest.raises(StopIteration) as end:
        plan.send([Generation(verdict, "length")])
    assert end.value.value == score
