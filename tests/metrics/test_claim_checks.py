"""Lists of claims and of verdicts, as judges write them."""

import pytest

from winnow.metrics.claim_checks import (
    CHECK,
    EXTRACT,
    ask_for_claims,
    ask_for_verdicts,
    read_all_labels,
    read_claims,
    read_verdicts,
)
from winnow.requests import Generation


@pytest.mark.parametrize(
    ("reply", "claims"),
    [
        ("- a\n- b\n- a", ["a", "b"]),
        ("1. a\n2) b", ["a", "b"]),
        ("Claims:\n* a.", ["a."]),
        ("- none", []),
        ("- None.", []),
        ("There are no claims.", None),
        ("", None),
        ("<think>- a</think>- b", ["b"]),
    ],
)
def test_claims_are_the_entries_of_a_list(reply: str, claims: list[str] | None) -> None:
    """Each once; a list that says that there is none differs from a reply that is no list."""
    assert read_claims(Generation(reply), is_strict=True) == claims


def test_a_list_that_was_cut_is_none() -> None:
    """What follows was not listed; the published code takes what is there."""
    cut = Generation("- a is one.\n- b is t", "length")
    assert read_claims(cut, is_strict=True) is None
    assert read_claims(cut, is_strict=False) == ["a is one.", "b is t"]


def test_the_claims_of_an_example_that_the_judge_adds_do_not_count() -> None:
    """It goes on in the form of the prompt."""
    reply = (
        "- A is one.\n- B is two.\n\nQuestion: Who was C?\nAnswer: C was D.\nClaims:\n- C was D."
    )
    assert read_claims(Generation(reply), is_strict=True) == ["A is one.", "B is two."]


def test_verdicts_are_asked_in_parts_and_read_by_reference() -> None:
    """Three claims, two to a request, of two references: the matrix has a row for each claim."""
    requests = ask_for_verdicts(
        "{question} {reference} {claims}", "Q", ["a", "b", "c"], ["x", "y"], 2
    )
    assert [request.messages[0].content for request in requests] == [
        "Q x 1. a\n2. b",
        "Q x 1. c",
        "Q y 1. a\n2. b",
        "Q y 1. c",
    ]
    assert all(request.role == "judge" for request in requests)
    texts = ("entailment\nneutral", "Entailment.", "2. ENTAILMENT\n1. contradiction", "1: neutral")
    replies = list(map(Generation, texts))
    assert read_verdicts(replies, 3, 2, 2, is_padded=False) == [
        [True, False],
        [False, True],
        [True, False],
    ]


@pytest.mark.parametrize(
    ("reply", "strict", "padded"),
    [
        ("entailment", [None, None], [True, False]),
        ("1. entailment\n1. neutral", [None, None], [True, False]),
        ("entailment neutral", [None, None], [True, False]),
        ("1. Switzerland was neutral: entailment", [None, None], [False, True]),
        ("1. entailment\n2. neutral, not a contradiction", [None, None], [True, False]),
        (
            "Labels (entailment or neutral):\n2. neutral\n1. entailment",
            [True, False],
            [True, False],
        ),
        ("neutral entailment entailment", [None, None], [False, True]),
        ("I am not sure.", [None, None], [False, False]),
        ("1. non-entailment\n2. entailment", [None, None], [True, False]),
    ],
)
def test_a_list_of_another_length(
    reply: str, strict: list[bool | None], padded: list[bool]
) -> None:
    """None of its verdicts counts, or it is padded and cut as in RefChecker."""
    replies = [Generation(reply)]
    assert read_verdicts(replies, 2, 1, 5, is_padded=False) == [[value] for value in strict]
    assert read_verdicts(replies, 2, 1, 5, is_padded=True) == [[value] for value in padded]


def test_the_prompts_have_their_fields() -> None:
    """And an example each of what is asked."""
    request = ask_for_claims(EXTRACT, "Who?", "Ada.", 9)
    assert request.messages[0].content.endswith("Question: Who?\nAnswer: Ada.\nClaims:")
    assert request.decoding.max_new_tokens == 9
    (check,) = ask_for_verdicts(CHECK, "Who?", ["a"], ["Ada was."], 5)
    assert "Reference: Ada was.\nClaims:\n1. a\n" in str(check.messages[0].content)
    assert read_all_labels(Generation("1. entailment\n2. neutral")) == [True, False]


def test_requests_go_to_the_judge_with_room_for_a_line_each() -> None:
    """A denied label is none."""
    assert ask_for_claims(EXTRACT, "Who?", "Ada.", 9).role == "judge"
    one, two = (
        ask_for_verdicts(CHECK, "Q", ["a"] * n, ["r"], 5)[0].decoding.max_new_tokens for n in (1, 2)
    )
    assert two == 2 * one
    assert read_all_labels(Generation("1. not entailment\n2. neutral")) == [False]
