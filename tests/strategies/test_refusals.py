"""Refusals, against 647 labeled replies (tests/data/replies.jsonl) and every real answer of public
data.

The rules were written against the split "development"; "held_out" was written by somebody else and
not read for them.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from winnow.datasets.dpr_tsv import DprQuestions
from winnow.datasets.nq_open import NqOpen
from winnow.strategies.refusals import is_refusal
from winnow.strategies.unknown import is_unknown
from winnow.text.answers import extract_answer

DATA = Path(__file__).parents[1] / "data" / "replies.jsonl"
SHARED = Path(__file__).parents[3] / "shared" / "data"


def replies(split: str, *, refusals: bool) -> list[str]:
    """The labeled replies of a split."""
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").strip().split("\n")]
    return [row["reply"] for row in rows if row["split"] == split and row["is_refusal"] == refusals]


def test_at_least_98_percent_of_refusals_are_recognized() -> None:
    """As the driver reads them: the answer is extracted first. Of the held-out ones alone it is at
    least 97 %.
    """
    missed = {}
    for split, count in (("development", 242), ("held_out", 113)):
        labeled = replies(split, refusals=True)
        missed[split] = sum(not is_unknown(extract_answer(reply)) for reply in labeled)
        print(f"{split}: {len(labeled) - missed[split]} of {len(labeled)} refusals are recognized")
        assert len(labeled) == count
    assert sum(missed.values()) <= 0.02 * (242 + 113)
    assert missed["held_out"] <= 0.03 * 113


@pytest.mark.parametrize(("split", "count"), [("development", 199), ("held_out", 93)])
def test_hedged_answers_and_titles_are_seldom_taken_for_refusals(split: str, count: int) -> None:
    """Answers chosen because they hold the words of refusals; at most 1 in 25."""
    labeled = replies(split, refusals=False)
    taken = [reply for reply in labeled if is_unknown(extract_answer(reply))]
    print(f"{split}: {len(taken)} of {len(labeled)} hard answers are taken for refusals")
    assert len(labeled) == count
    assert len(taken) <= 0.04 * count, taken


def real_answers() -> Iterator[str]:
    """All answers of NQ, EfficientQA, TriviaQA and SQuAD in the shared files."""
    parsers = [NqOpen(str(path)) for path in sorted(SHARED.glob("nq_open*.jsonl"))]
    parsers += [NqOpen(str(path)) for path in sorted(SHARED.glob("dpr.*.tsv")) if _is_json(path)]
    tables = [
        DprQuestions(str(path)) for path in sorted(SHARED.glob("dpr.*.tsv")) if not _is_json(path)
    ]
    for parser in (*parsers, *tables):
        for question in parser:
            yield from question.answers


def _is_json(path: Path) -> bool:
    """Whether the lines of a file are JSON objects."""
    return path.read_text(encoding="utf-8").startswith("{")


@pytest.mark.skipif(
    not SHARED.is_dir(), reason="real files lie in ../shared/data, which is not here"
)
def test_real_answers_are_no_refusals() -> None:
    """At most 0.1 % of them: "Unknown" and "N/A" are answers there."""
    answers = set(real_answers())
    taken = {answer for answer in answers if is_unknown(answer)}
    print(f"{len(taken)} of {len(answers)} real answers are taken for refusals: {sorted(taken)}")
    assert len(answers) > 32_000
    assert len(taken) <= 0.001 * len(answers), taken
    assert not {
        answer
        for answer in taken
        if is_refusal(answer) and answer.strip().lower() not in ("unknown", "n/a")
    }


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but the provided context does not contain the answer.",
        "Sorry, I don't know.",
        "I am not sure.",
        "Based on the provided context, the answer is unknown.",
        "The answer cannot be determined from the context",
        "Not mentioned in the context",
    ],
)
def test_refusals_that_once_voted_as_answers(reply: str) -> None:
    """Each of them was a candidate on revision 9e2125c, so that Concat+PF did not fall back."""
    assert is_unknown(extract_answer(reply))


@pytest.mark.parametrize(
    ("reply", "refusal"),
    [
        ("I don't know who wrote it.", True),
        ("I don’t know who wrote it.", True),
        ("I dont know but it was Austen", False),
        ("I Don't Know How to Love Him", False),
        ("I DO NOT KNOW", True),
        ("Frankly, my dear, I don't give a damn", False),
        ("I can't give an answer", True),
        ("Although the text does not say it, Emma is by Austen.", False),
        ("Although the text names Emma, it does not say who wrote it.", True),
        ("The text names Emma but does not say who wrote it.", True),
        ("Austen, although the text does not say so", False),
        ("She was unable to attend", False),
        ("Because the text does not mention it", True),
        ('"I know nothing" is what Manuel says', False),
    ],
)
def test_each_rule_by_example(reply: str, refusal: bool) -> None:
    """Contractions, titles, capitals, concessions, contrasts before and after the denial, persons,
    quotations.
    """
    assert is_refusal(reply) is refusal
