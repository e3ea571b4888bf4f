"""Verdicts that people read in replies of language models, and whether the rules read the same.

tests/data/verdicts.jsonl has replies in the manner of ten model families, labeled by authors who
did not know the rules. The rules were written against the split "development"; "held_out" is by
another author, and was opened once.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from winnow.metrics.intervals import compute_mean_interval
from winnow.text.choices import parse_choice
from winnow.text.claims import parse_claim

LABELED: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data/verdicts.jsonl").read_text().splitlines()
]


def parse(row: dict[str, Any]) -> bool | str | None:
    """What the rules read in a labeled reply."""
    return (
        parse_claim(row["reply"])
        if row["kind"] == "claim"
        else parse_choice(row["reply"], row["choices"])
    )


@pytest.mark.parametrize(
    ("split", "kind", "count", "least"),
    [
        ("development", "claim", 447, 0.99),
        ("development", "choice", 404, 0.99),
        ("held_out", "claim", 125, 0.97),
        ("held_out", "choice", 99, 0.98),
    ],
)
def test_labeled_replies_are_read_as_people_read_them(
    split: str, kind: str, count: int, least: float
) -> None:
    """The held-out shares are those of docs/rules.md: 98.2 % together."""
    rows = [row for row in LABELED if (row["split"], row["kind"]) == (split, kind)]
    right = [float(parse(row) == row["label"]) for row in rows]
    share = compute_mean_interval(right)
    print(f"{split}, {kind}: {share.format_percent()} of {len(rows)} replies are read rightly")
    assert len(rows) == count
    assert share.mean >= least


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("The claim isn't true.", False), ("No evidence supports this.", False),
        ("This is not entirely true.", False), ("The statement doesn't hold up.", False),
        ("Hardly accurate.", False), ("It is anything but correct.", False),
        ("I can't find anything wrong with it.", True),
        ("It would be wrong to say that this is false.", True), ("Yes.", True),
        ("Answer: no", False), ("Partly true.", None), ("True, but only in part.", None),
        ("At first I thought it was false, but it is true.", True), ("It could be true.", None),
        ('{"verdict": "REFUTES", "why": "it is true that"}', False),
        ("Final answer: False. So it is true.", None),
    ],
)  # fmt: skip
def test_verdicts_in_words(reply: str, verdict: bool | None) -> None:
    """Denials with and without "not", concessions, hedges, and what contradicts itself."""
    assert parse_claim(reply) is verdict


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("true", True), ("True.", True), ("It is not true", False), ("untrue", False),
        ("REFUTES", False), ("supported", True), ("not false", True), ("true or false", None),
        ("maybe", None), ("", None), ("false, false", False), ("trueish", None),
    ],
)  # fmt: skip
def test_the_verdict_of_a_reply(reply: str, verdict: bool | None) -> None:
    """Whole words in any case; a negation turns them round; both are none."""
    assert parse_claim(reply) is verdict


def test_a_long_reply_is_read_at_its_ends() -> None:
    """In a moment, also where it repeats itself."""
    assert parse_claim("False. " + "it is true that " * 10_000) is not True
    assert parse_claim("so and so, " * 20_000 + "\nFinal answer: true") is True
