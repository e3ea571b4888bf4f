"""Splits by a stated seed."""

from dataclasses import replace

import pytest

from winnow.datasets.split import Split
from winnow.errors import ConfigError
from winnow.testing import make_question

QUESTIONS = [make_question(question_id=str(n)) for n in range(20)]


def test_sizes_and_seed() -> None:
    """Test and dev have their sizes, the rest is train; the draw depends on the seed and not on the
    file's order.
    """
    first = list(Split(test=5, dev=3, seed=1).assign(QUESTIONS))
    assert [q.split for q in first].count("test") == 5
    assert [q.split for q in first].count("dev") == 3
    assert first == list(Split(test=5, dev=3, seed=1).assign(reversed(QUESTIONS)))
    assert first != list(Split(test=5, dev=3, seed=2).assign(QUESTIONS))


def test_one_split_and_contradictions() -> None:
    """`all` keeps the order; sizes that leave nothing to train on, or both, are refused."""
    assert [q.question_id for q in Split(all="test").assign(QUESTIONS)] == [
        str(n) for n in range(20)
    ]
    with pytest.raises(ConfigError, match="no training question"):
        list(Split(test=15, dev=5).assign(QUESTIONS))
    with pytest.raises(ConfigError, match="alone"):
        Split(test=1, all="test")
    given = [replace(question, split="dev") for question in QUESTIONS]
    assert list(Split(given=True).assign(given)) == given
    with pytest.raises(ConfigError, match="`given` alone"):
        Split(all="test", given=True)


def test_shuffled_questions_are_a_sample() -> None:
    """All of them, in an order that depends on the seed and not on the file's; splits that are
    given stay.
    """
    first = [
        question.question_id
        for question in Split(all="test", seed=1, shuffle=True).assign(QUESTIONS)
    ]
    assert sorted(first, key=int) == [str(n) for n in range(20)] != first
    assert first == [
        q.question_id for q in Split(all="test", seed=1, shuffle=True).assign(reversed(QUESTIONS))
    ]
    assert first != [
        q.question_id for q in Split(all="test", seed=2, shuffle=True).assign(QUESTIONS)
    ]
    given = [
        replace(question, split="dev" if n < 5 else "test") for n, question in enumerate(QUESTIONS)
    ]
    shuffled = list(Split(given=True, seed=1, shuffle=True).assign(given))
    assert [question.question_id for question in shuffled] == first
    assert {question.question_id for question in shuffled if question.split == "dev"} == {
        str(n) for n in range(5)
    }


@pytest.mark.parametrize("split", [Split(all="test"), Split(test=2, dev=2)])
def test_splits_of_the_data_set_are_not_lost(split: Split) -> None:
    """A folder of train.json and test.json must not become one test split without a word."""
    given = [replace(question, split="train" if n else "") for n, question in enumerate(QUESTIONS)]
    with pytest.raises(
        ConfigError, match="would replace the split 'train' that the data set has for question '1'"
    ):
        list(split.assign(given))
    same = [replace(question, split="test") for question in QUESTIONS]
    assert [question.split for question in Split(all="test").assign(same)] == ["test"] * 20


@pytest.mark.parametrize(
    ("split", "names"),
    [
        (Split(test=2, dev=3), ["train", "test", "dev"]),
        (Split(dev=3), ["train", "dev"]),
        (Split(all="dev"), ["dev"]),
        (Split(), ["train"]),
    ],
)
def test_names_are_those_of_the_questions(split: Split, names: list[str]) -> None:
    """Known before the questions are read, unless the files have splits."""
    assert split.names == names
    assert {one.split for one in split.assign(QUESTIONS)} == set(names)
    assert Split(given=True).names == []
