"""Training examples of readers that cite: replies from labels and from a teacher, and prompts for
rewards.
"""

from dataclasses import replace

import pytest

from tests.training.test_ppo import PROMPT
from winnow.errors import ConfigError
from winnow.records import Decoding, Question
from winnow.strategies.cite import Cite
from winnow.testing import make_context, make_question
from winnow.training.citing import CitationMix, CitationPrompts, SyntheticCitations

AUSTEN = make_context(2, "Emma is by Jane Austen", has_answer=True)
CONTEXTS = [
    make_context(1, "the town"),
    AUSTEN,
    make_context(3, "a book [3] of Jane Austen", has_answer=True),
]
UNRANKED = replace(make_context(4, "Jane Austen again", has_answer=True), rank=0)
QUESTION = make_question(answers=("Austen", "Jane Austen", "the author Jane Austen"))


def test_replies_from_labels() -> None:
    """The shortest answer of the first relevant passage, then every relevant passage, in the
    prompts of the strategy.
    """
    (example,) = CitationMix(examples=5).build_examples(
        [(QUESTION, [*CONTEXTS, UNRANKED])], PROMPT, 0
    )
    assert example.completion == "Austen [2][3]"
    assert example.messages == next(Cite(PROMPT, Decoding()).plan(QUESTION, CONTEXTS))[0].messages  # type: ignore[union-attr]
    assert "a book (3) of" in example.messages[0].content


def test_an_answer_that_is_cut_off_is_not_cited() -> None:
    """Neither in a reply from labels, nor as the F1 of a teacher's reply; a question is left out if
    no passage shows an answer.
    """
    (short,) = CitationMix(max_words=5).build_examples([(QUESTION, CONTEXTS)], PROMPT, 0)
    assert "a book (3) of Jane Who wrote" in short.messages[0].content
    assert short.completion == "Austen [2]"
    with pytest.raises(ConfigError, match="has a relevant passage"):
        CitationMix(max_words=3).build_examples([(QUESTION, CONTEXTS)], PROMPT, 0)
    taught = SyntheticCitations(
        max_words=5, min_f1=1.0, replies={QUESTION.question_id: "Austen [2]"}
    )
    assert len(taught.build_examples([(QUESTION, CONTEXTS)], PROMPT, 0)) == 1


def test_annotated_passages_and_questions_without_answers() -> None:
    """Annotated passages alone are cited; a query of BEIR, which has no answer, has citations
    alone.
    """
    contexts = [replace(context, is_gold=context is CONTEXTS[0]) for context in CONTEXTS]
    beir = Question("q1", "who?", (), ("p1",))
    (example,) = CitationMix().build_examples([(beir, contexts)], PROMPT, 0)
    assert example.completion == "[1]"


def test_questions_without_a_relevant_passage_are_left_out() -> None:
    """ConfigError if none is left; draws depend on the seed, and there are at most as many as asked
    for.
    """
    bare = (replace(QUESTION, question_id="bare"), CONTEXTS[:1])
    questions = [(replace(QUESTION, question_id=f"q{n}"), CONTEXTS) for n in range(9)]
    ids = [
        example.example_id
        for example in CitationMix(examples=4).build_examples([bare, *questions], PROMPT, 1)
    ]
    assert len(ids) == 4
    assert "bare/cited" not in ids
    assert ids == [
        example.example_id
        for example in CitationMix(examples=4).build_examples([bare, *questions], PROMPT, 1)
    ]
    assert ids != [
        example.example_id
        for example in CitationMix(examples=4).build_examples([bare, *questions], PROMPT, 2)
    ]
    assert len(CitationPrompts(examples=3).select_questions(questions, 0)) == 3
    for mix in (CitationMix(), SyntheticCitations()):
        with pytest.raises(ConfigError, match="nothing to cite"):
            mix.build_examples([bare], PROMPT, 0)
    for wrong in (
        lambda: CitationMix(0),
        lambda: CitationPrompts(0),
        lambda: SyntheticCitations(min_f1=1.5),
    ):
        with pytest.raises(ConfigError, match=r"training\.mix"):
            wrong()


def test_replies_of_a_teacher() -> None:
    """All replies but empty ones, or those from a citation F1 on; ConfigError if none is left."""
    questions = [(replace(QUESTION, question_id=f"q{n}"), CONTEXTS) for n in range(4)]
    replies = {"q0": "Austen [2][3].", "q1": "Austen [1].", "q2": " ", "q3": "Austen [2] [9]"}
    mix = SyntheticCitations(replies=replies)
    assert {e.completion for e in mix.build_examples(questions, PROMPT, 0)} == {
        "Austen [2][3].",
        "Austen [1].",
        "Austen [2] [9]",
    }
    assert {
        e.completion for e in replace(mix, min_f1=0.5).build_examples(questions, PROMPT, 0)
    } == {
        "Austen [2][3].",
        "Austen [2] [9]",
    }
    with pytest.raises(ConfigError, match=r"None of 1 replies .*min_f1=0\.9"):
        SyntheticCitations(min_f1=0.9, replies={"q1": "[1]"}).build_examples(questions, PROMPT, 0)
