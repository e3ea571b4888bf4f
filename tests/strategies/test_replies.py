"""How replies are read: the rules that the paper leaves open, by example."""

import time

import pytest

from winnow.strategies.replies import extract_answer, extract_reasoned_answer, is_unknown


@pytest.mark.parametrize(
    "reply",
    [
        "unknown", "Unknown.", "", "  ", "I don't know", "I do not know.", "No answer",
        "Unknown (not in the text)",
        "The provided input does not contain the context to answer the question.",
        "The answer is not mentioned.", "The context does not mention it", "It is unknown.",
        "Not enough information to tell", "None of the passages says so",
        "The text doesn't mention it.", "I'm not sure", "N/A", "There is no information about it",
        "Unable to determine.",
    ],
)  # fmt: skip
def test_phrasings_of_unknown(reply: str) -> None:
    """A set of phrasings counts, not just the word; an empty reply does too."""
    assert is_unknown(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "The Unknown Soldier",
        "Unknowns",
        "Known",
        "I know: Paris",
        "Nobody",
        "The Answer",
        "A",
        "The",
        "Na",
        "It does state 9",
    ],
)
def test_answers_that_only_look_like_it(reply: str) -> None:
    """Names that hold the word are answers."""
    assert not is_unknown(reply)


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris\nbecause ...", "Paris"),
        ("\n\n Paris ", "Paris"),
        ("Let us think. Answer: Lyon? No. Answer: Paris", "Paris"),
        ("Rationale ...\nAnswer:\nSaw VI", "Saw VI"),
        ("Jane Austen\n\nExample 9\n\nQuestion: capital of Italy?\n\nAnswer: Rome", "Jane Austen"),
        ("Emma\nExample 9:\nQuestion: who?\nAnswer: nobody", "Emma"),
        ("Emma\n### Example 9\nQuestion: who?\nAnswer: nobody", "Emma"),
        ("Emma\n\nQuestion: who?\n\nAnswer: nobody", "Emma"),
        ("Emma\n### Question: who?\n###Answer: nobody", "Emma"),
        ("<think>\nAnswer: Bob?\n</think>\n\nEmma", "Emma"),
        ("<think>It may be Bob", ""),
        ("Question: who?\nAnswer: Emma", "Emma"),
        ('"Answer": Emma', "Emma"),
        ("'Answer': Emma", "Emma"),
        ("Let us see.\nQuestion: who?\nContext: by Austen\nAnswer: Emma", "Emma"),
        ("", ""),
    ],
)
def test_the_answer_is_cut_out(reply: str, answer: str) -> None:
    """After the last "Answer:", else the first line; what the model goes on to ask itself is not
    read.
    """
    assert extract_answer(reply) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Source 2 says so.\n\nAnswer:\nSaw VI", "Saw VI"),
        ("Therefore the answer is: Saw VI", "Saw VI"),
        ("We prune 1.\n### Question: which?\nAnswer: Saw VI", "Saw VI"),
        ("We prune 1 and 3.\nIt must be Saw VI.", "It must be Saw VI."),
        ("Answer: A. On second thoughts, **Answer:** B", "B"),
        ("<think>Answer: A</think>So it is B.", "So it is B."),
        ("We prune, and answer:", ""),
        ("", ""),
    ],
)
def test_the_answer_ends_a_chain_of_thought(reply: str, answer: str) -> None:
    """After the last "Answer:"; without one, the last line."""
    assert extract_reasoned_answer(reply) == answer


@pytest.mark.parametrize(
    "reply",
    [
        "\n" * 100_000,
        "a" + "\n" * 100_000 + "b",
        "answer " * 20_000,
        "\n# " * 30_000,
        "context " * 15_000,
        "but " * 30_000,
    ],
    ids=["blank lines", "blank lines inside", "answer", "headings", "context", "but"],
)
def test_reading_takes_time_in_proportion_to_the_length(reply: str) -> None:
    """A hundred thousand characters of what once took time with the cube of their number."""
    start = time.perf_counter()
    is_unknown(extract_answer(reply))
    extract_reasoned_answer(reply)
    assert time.perf_counter() - start < 10
