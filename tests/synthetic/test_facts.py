"""The made world: what its questions and clozes promise."""

import pytest

from winnow.errors import ConfigError
from winnow.synthetic.facts import Facts, FactsSettings
from winnow.text.containment import has_answer

SMALL = FactsSettings(
    train=40, dev=10, test=20, contexts=6, values=5, first_names=8, last_names=8, seed=1
)


def test_one_context_answers_and_the_rest_distract() -> None:
    """Half of the others speak of the same person, half have the relation; none states
    the answer.
    """
    world = Facts(SMALL)
    for case in world.generate_cases("train"):
        name = next(person for person in world.facts if person in case.question.text)
        answer = case.question.answers[0]
        assert [has_answer(c.passage.text, [answer]) for c in case.contexts] == [
            c.has_answer for c in case.contexts
        ]
        assert sum(c.has_answer for c in case.contexts) == 1
        assert 3 <= sum(name in c.passage.text for c in case.contexts) <= 4
        assert {c.score for c in case.contexts} == {0.0}


def test_test_people_are_strangers_to_training() -> None:
    """No person is in two splits; the world is of its seed."""
    world = Facts(SMALL)
    train, dev, test = (set(world.people[name]) for name in ("train", "dev", "test"))
    assert not train & dev | train & test | dev & test
    assert [c.question for c in Facts(SMALL).generate_cases("test")] == [
        c.question for c in Facts(SMALL).generate_cases("test")
    ]
    assert list(Facts(SMALL).generate_cases("test")) != list(
        Facts(FactsSettings(seed=2)).generate_cases("test")
    )


def test_a_cloze_masks_what_its_passage_states() -> None:
    """The value alone is missing; all words are in the tokenizer's texts."""
    world = Facts(SMALL)
    known = set(" ".join(world.list_vocabulary_texts()).split())
    for cloze in world.generate_clozes(30):
        assert cloze.question.replace("<mask>", cloze.answer) == cloze.passage.text
        assert set(cloze.passage.text.split()) <= known


def test_settings_are_checked() -> None:
    """Too few contexts, too few people."""
    with pytest.raises(ConfigError, match="at least 3 contexts per question"):
        FactsSettings(contexts=2)
    with pytest.raises(ConfigError, match="at least 40 people"):
        FactsSettings(first_names=2, last_names=2)


def test_worlds_that_cannot_be_written_are_refused() -> None:
    """More words than there are, and a split all of whose people have one value."""
    with pytest.raises(ConfigError, match="there are 19600"):
        FactsSettings(values=4000)
    world = Facts(SMALL)
    for facts in world.facts.values():
        facts["town"] = "Berlin"
    with pytest.raises(ConfigError, match="have the same town"):
        list(world.generate_cases("train"))
