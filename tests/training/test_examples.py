"""Training pairs."""

from dataclasses import replace

import pytest

from winnow.errors import ConfigError
from winnow.records import Question
from winnow.requests import Message
from winnow.testing import make_context
from winnow.training.examples import Mix, build_examples

RANKED = [
    (
        Question(str(n), f"Q{n}?", (f"answer{n} indeed", f"answer{n}")),
        [
            make_context(1, "nothing here"),
            make_context(2, f"it is answer{n}", has_answer=True),
            make_context(3, "nor here"),
        ],
    )
    for n in range(10)
]


def render(question: Question, contexts: object) -> tuple[Message, ...]:
    return (Message("user", f"{question.text} {[c.passage.text for c in contexts]}"),)  # type: ignore[attr-defined]


def test_kinds_and_targets() -> None:
    """Answered pairs show the passage that has it, unknown ones one that lacks it, crowded ones
    both.
    """
    examples = build_examples(
        RANKED, Mix(answered=4, unknown=3, crowded=2, distractors=2), render, seed=1
    )
    kinds = [e.example_id.split("/")[1] for e in examples]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "answered": 4,
        "unknown": 3,
        "crowded": 2,
    }
    for example in examples:
        number, kind = example.example_id.split("/")
        text = example.messages[0].content
        assert example.completion == ("unknown" if kind == "unknown" else f"answer{number}")
        assert (f"it is answer{number}" in text) == (kind != "unknown")
        assert ("nothing here" in text and "nor here" in text) == (kind == "crowded")


def test_a_gold_passage_without_the_words_is_no_negative() -> None:
    """It is neither taught as unknown nor shown as a distractor; without another, there is nothing
    to contrast.
    """
    gold = make_context(1, "the gold one", is_gold=True)
    ranked = [(question, [gold, *contexts]) for question, contexts in RANKED]
    texts = [
        example.messages[0].content for example in build_examples(ranked, Mix(4, 10, 4), render, 1)
    ]
    assert len(texts) == 18
    assert not any("the gold one" in text for text in texts)
    with pytest.raises(ConfigError, match="and an irrelevant one"):
        build_examples([(RANKED[0][0], [gold, RANKED[0][1][1]])], Mix(), render, 1)


def test_seeded_and_bounded_by_the_data() -> None:
    """The same seed gives the same pairs; a mix larger than the data takes what there is."""
    assert build_examples(RANKED, Mix(4, 2, 1), render, 1) == build_examples(
        RANKED, Mix(4, 2, 1), render, 1
    )
    assert build_examples(RANKED, Mix(4, 2, 1), render, 1) != build_examples(
        RANKED, Mix(4, 2, 1), render, 2
    )
    assert len(build_examples(RANKED, Mix(100, 100, 0), render, 1)) == 20


def test_nothing_to_learn_from_is_refused() -> None:
    """No context with an answer, and an empty mix."""
    with pytest.raises(ConfigError, match="No training question"):
        build_examples([(RANKED[0][0], [make_context(1, "x")])], Mix(), render, 1)
    with pytest.raises(ConfigError, match="at least one answered or retrieved"):
        Mix(answered=0)


def test_retrieved_pairs_read_no_label() -> None:
    """What was retrieved is shown as it stands, with the first answer as the reply; flags of
    has_answer change nothing.
    """
    mix = Mix(answered=0, unknown=0, crowded=0, retrieved=6, depth=2)
    unlabeled = [(q, [replace(c, has_answer=False) for c in contexts]) for q, contexts in RANKED]
    examples = build_examples(RANKED, mix, render, seed=1)
    assert examples == build_examples(unlabeled, mix, render, seed=1)
    assert len(examples) == 6
    for example in examples:
        number, kind = example.example_id.split("/")
        assert (kind, example.completion) == ("retrieved", f"answer{number} indeed")
        assert "nothing here" in example.messages[0].content
        assert "nor here" not in example.messages[0].content


def test_a_question_without_a_retrieved_passage_is_no_retrieved_example() -> None:
    """Its prompt would be the closed-book one; an inserted gold passage is not retrieved."""
    inserted = replace(make_context(1, "gold", has_answer=True), rank=0)
    questions = [(Question("a", "A?", ("x",)), []), (Question("b", "B?", ("y",)), [inserted])]
    mix = Mix(answered=0, unknown=0, crowded=0, retrieved=3)
    assert build_examples([*questions, RANKED[0]], mix, render, seed=1) == build_examples(
        [RANKED[0]], mix, render, seed=1
    )
