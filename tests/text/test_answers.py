"""How replies are read: the rules that the paper leaves open, by example."""

import time
from collections.abc import Callable

import pytest

from winnow.strategies.unknown import is_unknown
from winnow.text.answers import extract_answer, extract_reasoned_answer, extract_whole_answer
from winnow.text.citations import remove_citations


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
        ('{"answer": ["Emma", "Emma Woodhouse"]}', "Emma"),
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
        ("<answer>Paris\nin France</answer>", "Paris"),
        ("So it is Rome.\n\nQuestion: Which river?\nAnswer: The Seine", "So it is Rome."),
        ("It is Rome.\n\nExample 9\nQuestion: who?\nAnswer: Emma", "It is Rome."),
        ("Rome\n\nQuestion: which?", "Rome"),
        ("So.\nAnswer:\nRome\n\nQuestion:\nWhich river?\n\nAnswer:\nThe Seine", "Rome"),
        ("", ""),
    ],
)
def test_the_answer_ends_a_chain_of_thought(reply: str, answer: str) -> None:
    """After the last "Answer:"; without one, the last line."""
    assert extract_reasoned_answer(reply) == answer


FIRST, REST = "In 2010, **Spain** won it [1].", "In 2014, Germany won it [2].\nThat is all."


@pytest.mark.parametrize(
    ("reply", "whole"),
    [
        (f"{FIRST}\n\n{REST}", f"{FIRST}\n\n{REST}"),
        (f"Answer: {FIRST}\n{REST}", f"{FIRST}\n{REST}"),
        (f"**Answer:** {FIRST}\n{REST}", f"{FIRST}\n{REST}"),
        (f"Response: {FIRST}\n{REST}", f"{FIRST}\n{REST}"),
        (f"<think>Answer: Italy?</think>\n\n{FIRST}\n{REST}", f"{FIRST}\n{REST}"),
        (f"Let me see.\nAnswer:\n{FIRST}\n{REST}", f"{FIRST}\n{REST}"),
        (f"```\n{FIRST}\n{REST}\n```", f"{FIRST}\n{REST}"),
        (f"### Answer\n{FIRST}\n{REST}\n\nQuestion: who?", f"{FIRST}\n{REST}\n"),
        (f"Spain, so the answer is: {FIRST}\n{REST}", f"{FIRST}\n{REST}"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("prepare", [str, remove_citations])
def test_a_longer_answer_is_whole(reply: str, whole: str, prepare: Callable[[str], str]) -> None:
    """Whatever markup, label or citation its first line has."""
    assert extract_whole_answer(reply, extract_answer(prepare(reply))).strip() == whole.strip()


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("We prune 1.\nIt must be Spain.", "It must be Spain."),
        ("Candidates are Berlin, Rome and Paris. Final answer: Rome", "Rome"),
        ("Berlin is not. So the answer is: Rome", "Rome"),
        ("[Relevant]Spain won it.[Utility:5]", "Spain won it."),
        ("", "Spain"),
        ("<think>Spain", "Spain"),
    ],
)
def test_an_answer_that_does_not_begin_the_reply_is_whole_itself(reply: str, answer: str) -> None:
    """Such as the last line of a chain of thought."""
    assert extract_whole_answer(reply, answer) == answer


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
    extract_whole_answer(reply, "a")
    assert time.perf_counter() - start < 10
