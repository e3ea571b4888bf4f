"""Longer answers and lists, by the rules of ALCE's code."""

import json

import pytest

from winnow.errors import ConfigError, InputError
from winnow.metrics.alce import AnswerList, ClaimRecall, ShortAnswerRecall
from winnow.metrics.base import Sample
from winnow.records import Question
from winnow.requests import Estimate, Score, Usage
from winnow.testing import make_sample


def sample(answer: str, *, unknown: bool = False, **meta: object) -> Sample:
    """An answer to a question with metadata."""
    made = make_sample(answer, unknown=unknown)
    question = Question("q", "?", ("x",), meta=json.dumps(meta))
    return Sample(question, made.prediction)


PAIRS = [
    {"question": "a", "short_answers": ["New York", "NYC"]},
    {"question": "b", "short_answers": ["the 1848"]},
]


@pytest.mark.parametrize(
    ("answer", "share"),
    [
        ("It is in new york [1], since 1848 [2].", 1.0),
        ("NYCs [1]", 0.5),
        ("New[1] York", 0.5),
        ("Boston", 0.0),
    ],
)
def test_short_answers_are_substrings_without_citations(answer: str, share: float) -> None:
    """Within words too, as in the code; STR-HIT asks for all of them."""
    metric, hit = ShortAnswerRecall("m", "m"), ShortAnswerRecall("m", "m", hit=True)
    assert metric.score(sample(answer, qa_pairs=PAIRS)) == share
    assert hit.score(sample(answer, qa_pairs=PAIRS)) == float(share == 1.0)
    assert metric.score(sample(answer)) is None
    assert metric.score(sample("NYC", qa_pairs=PAIRS, unknown=True)) == 0.0


ANSWERS = [
    ["A Tale", "tale"],
    ["Emma"],
    ["Persuasion"],
    ["Dune"],
    ["Ulysses"],
    ["Walden"],
    ["Middlemarch"],
]


def test_a_list_is_compared_by_exact_match() -> None:
    """Three of four entries are right, one of them twice; two of seven answers are found; the last
    point is left out.
    """
    one = sample("Tale [1], Emma [2], the tale, Emma Woodhouse,.", answers=ANSWERS)
    values = {
        of: AnswerList("m", "m", of=of).score(one)
        for of in ("precision", "recall", "recall_5", "f1", "f1_5")
    }  # type: ignore[arg-type]
    assert values["precision"] == 3 / 4
    assert values["recall"] == 2 / 7
    assert values["recall_5"] == 2 / 5
    assert values["f1"] == pytest.approx(2 * (3 / 4) * (2 / 7) / (3 / 4 + 2 / 7))
    assert values["f1_5"] == pytest.approx(2 * (3 / 4) * (2 / 5) / (3 / 4 + 2 / 5))
    six = ", ".join(names[0] for names in ANSWERS[:6])
    assert AnswerList("m", "m", of="recall_5").score(sample(six, answers=ANSWERS)) == 1.0
    assert AnswerList("m", "m", of="recall_5").score(sample("Emma", answers=ANSWERS[:2])) == 1 / 2


def test_an_empty_list_has_no_precision() -> None:
    """It is 0 in ALCE's code, which a dialect repeats; recall and F1 are 0 in both."""
    empty = sample("unknown", unknown=True, answers=ANSWERS)
    assert AnswerList("m", "m", of="precision").score(empty) is None
    assert AnswerList("m", "m", of="precision", dialect="alce").score(empty) == 0.0
    assert AnswerList("m", "m", of="recall").score(empty) == 0.0
    assert AnswerList("m", "m").score(empty) == 0.0
    assert AnswerList("m", "m").score(sample("Emma")) is None
    with pytest.raises(ConfigError, match="received 'recall_9'"):
        AnswerList("m", "m", of="recall_9")  # type: ignore[arg-type]


def test_claims_are_entailed_by_the_answer() -> None:
    """The answer without citations is the premise of each claim; nothing is asked of an answer
    without a word.
    """
    plan = ClaimRecall("m", "m").plan(sample("It rains [1].", claims=["It is wet.", "It is dry."]))
    requests = next(plan)
    assert [
        (one.question, one.text, one.role) for one in requests if isinstance(one, Estimate)
    ] == [
        ("It is wet.", "It rains.", "nli"),
        ("It is dry.", "It rains.", "nli"),
    ]
    with pytest.raises(StopIteration) as end:
        plan.send([Score(2.0, Usage(0, 0)), Score(-1.0, Usage(0, 0))])
    assert end.value.value == 1 / 2
    for one, value in ((sample("unknown", unknown=True, claims=["a"]), 0.0), (sample("x"), None)):
        with pytest.raises(StopIteration) as end:
            next(ClaimRecall("m", "m").plan(one))
        assert end.value.value == value


def test_all_lines_of_a_reply_are_read() -> None:
    """Of which the prediction has the first one, without emphasis and citations."""
    reply = "**New York** is one [1].\n\nThe other was in 1848 [1]."
    made = make_sample("New York is one.", reply=reply)
    question = Question("q", "?", ("x",), meta=json.dumps({"qa_pairs": PAIRS}))
    assert ShortAnswerRecall("m", "m").score(Sample(question, made.prediction)) == 1.0
    made = make_sample("Emma,", reply="Emma,\nDune [2],\nKim.")
    question = Question("q", "?", ("x",), meta=json.dumps({"answers": ANSWERS}))
    listed = AnswerList("m", "m", of="precision").score(Sample(question, made.prediction))
    assert listed == 2 / 3


def test_an_answer_without_a_list_of_spellings_is_one_spelling() -> None:
    """It would otherwise be read letter by letter; another form is refused by its question."""
    flat, nested = (
        AnswerList("m", "m").score(sample("Paris, Rome", answers=answers))
        for answers in (["Paris", "Rome"], [["Paris"], ["Rome"]])
    )
    assert flat == nested == 1.0
    for answers in ([[1999]], [1999], [{"a": 1}]):
        with pytest.raises(
            InputError, match=r"Question 'q': answers in its metadata must be .* received"
        ):
            AnswerList("m", "m").score(sample("x", answers=answers))
    for pair in ({}, "x", {"short_answers": "x"}):
        with pytest.raises(
            InputError, match=r"Question 'q': qa_pairs in its metadata must be .* received"
        ):
            ShortAnswerRecall("m", "m").score(sample("x", qa_pairs=[pair]))
