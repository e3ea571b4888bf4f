"""How well answers are read out of what surrounds them: reasoning, control tokens and markup,
measured on labeled replies.

The replies were written by four authors who did not know the rules, in the forms of ten families of
models. The rules were written with the parts "a" to "c" (of "a" and "b" a half was held out: 125 of
128 were read as labeled; of "c", 134 of 160 were at first sight). Part "d" was opened once, when
the rules were finished.
"""

import json
from pathlib import Path

import pytest

from winnow.metrics.intervals import compute_mean_interval
from winnow.text.answers import extract_answer
from winnow.text.final import extract_final_text, find_control_tokens

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/wrapped.jsonl").read_text().splitlines()
]


RIGHT = {"a": (149, 150), "b": (149, 150), "c": (159, 160), "d": (149, 150)}


@pytest.mark.parametrize("part", RIGHT)
def test_labeled_replies_are_read(part: str) -> None:
    """All but one of each part: "The answer is: X" read as X, a list of several lines as its first,
    quotes kept, a box.
    """
    rows = [row for row in ROWS if row["part"] == part]
    wrong = [row for row in rows if extract_answer(row["reply"]) != row["answer"]]
    assert (len(rows) - len(wrong), len(rows)) == RIGHT[part], wrong


def test_the_rate_of_unseen_replies() -> None:
    """As docs/rules.md states it."""
    interval = compute_mean_interval([1.0] * RIGHT["d"][0] + [0.0])
    assert interval.format_percent() == "99.3 [96.3, 99.9]"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Paris<|eot_id|>", True),
        ("<|im_start|>assistant\nParis", True),
        ("Paris</s>", True),
        ("The <|im_end|> token closes a turn.", False),
        ("</s> closes the element", False),
        ("<b>Paris</b> [1]", False),
        ("", False),
    ],
)
def test_control_tokens_are_recognized(reply: str, expected: bool) -> None:
    """Not where a sentence names one."""
    assert bool(find_control_tokens(reply)) is expected


def test_text_without_them_is_unchanged() -> None:
    """Also such signs as C#, <3, and whitespace."""
    for row in ROWS:
        if row["family"] == "plain":
            assert extract_final_text(row["reply"]) == row["reply"]
