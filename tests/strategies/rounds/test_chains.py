"""Chains of thought of several rounds: prompts, sentences and answers."""

import pytest

from tests.plans import PROMPT
from winnow.errors import ReaderError
from winnow.records import Decoding
from winnow.requests import Generation
from winnow.strategies.rounds.chains import (
    build_chain_request,
    extract_chain_text,
    find_answer,
    find_first_sentence,
)
from winnow.testing import make_context, make_question


def test_a_prompt_shows_the_chain_so_far_and_loses_passages_first() -> None:
    """Braces of what a model wrote are text; a prompt without contexts has no place for them;
    TooLong reaches the plan.
    """
    contexts = [make_context(1, "a"), make_context(2, "b")]
    template, question = "{contexts} Q {question} A {thoughts}", make_question("Who?")
    request = build_chain_request(PROMPT, template, question, contexts, "{x}", Decoding())
    assert request.messages[0].content == "<a>\n<b> Q Who? A {x}"
    assert request.may_be_too_long
    shorter = request.drop_passage()
    assert shorter is not None
    assert shorter.messages[0].content == "<a> Q Who? A {x}"
    assert shorter.may_be_too_long
    alone = build_chain_request(PROMPT, template, question, (), "", Decoding())
    assert alone.messages[0].content == "Q Who? A"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("X was born in St. Louis. It is big.", "X was born in St. Louis."),
        ("\n A: One.\nTwo.", "One."),
        ("He is J. R. R. Tolkien. Yes.", "He is J. R. R. Tolkien."),
        ("So the answer is: Washington, D.C. It is", "So the answer is: Washington, D.C. It is"),
        ("1. Otto was born in Vienna.\n2. It is old.", "1. Otto was born in Vienna."),
        ("Step 1. Otto was born. It is old.", "Step 1. Otto was born."),
        ("He was born Jan. 5, 1904 in Vienna. So", "He was born Jan. 5, 1904 in Vienna."),
        ("Frisch et al. The paper is old. So", "Frisch et al. The paper is old."),
        ("It has 12. It is", "It has 12."),
        ("", ""),
    ],
)
def test_the_first_sentence_ends_at_no_abbreviation_and_at_no_answer(
    text: str, sentence: str
) -> None:
    """And is on the first line with text."""
    assert find_first_sentence(text) == sentence


def test_the_answer_follows_its_words() -> None:
    """Without the full stop at the end; a sentence without them has none."""
    assert find_answer("So the answer is: the Danube.") == "the Danube"
    assert find_answer("The ANSWER IS Rome") == "Rome"
    assert find_answer("It is Rome.") is None


def test_only_reasoning_that_was_cut_by_the_stop_string_is_an_error() -> None:
    """Not one that was cut at its length, that ended, or a control token alone."""
    assert extract_chain_text(Generation("<think>Let me", "length")) == ""
    assert extract_chain_text(Generation("<|im_end|>")) == ""
    assert extract_chain_text(Generation("<think>a</think>b")) == "b"
    assert extract_chain_text(Generation("", "empty", reasoning="a\nb")) == ""
    assert extract_chain_text(Generation("", "empty")) == ""
    for reply in (Generation("<think>Let me"), Generation("", "empty", reasoning="Let me")):
        with pytest.raises(ReaderError, match="ended the reasoning"):
            extract_chain_text(reply)


@pytest.mark.parametrize("year", ["1904", "476"])
def test_a_year_is_no_number_of_a_step(year: str) -> None:
    """Steps have at most two digits, as the entries of lists."""
    assert find_first_sentence(f"{year}. It is old.") == f"{year}."
