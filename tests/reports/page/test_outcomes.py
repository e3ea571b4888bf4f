"""Outcomes of questions: each is reached, and the most specific one counts."""

from dataclasses import replace

import pytest

from winnow.metrics.base import Sample, Shown
from winnow.predictions import RoleUsage
from winnow.reports.page.outcomes import OUTCOMES, classify, classify_all
from winnow.testing import make_context, make_sample

WITHOUT, WITH = make_context(1, "nothing"), make_context(2, "the answer", has_answer=True)


def _sample(answer: str, *, shown: bool, retrieved: bool = True, **fields: object) -> Sample:
    """A question with the accepted answer "Jane Austen", whose prompt or ranking holds
    it or not.
    """
    contexts = (WITHOUT, WITH) if shown else (WITHOUT,)
    sample = make_sample(answer, answers=("Jane Austen", "Austen"), contexts=contexts, **fields)
    return replace(sample, ranking=(WITHOUT, WITH) if retrieved else (WITHOUT,))


CASES = {
    "right": _sample("the Austen!", shown=False, retrieved=False),
    "lost_vote": _sample("Mary", shown=True, candidates=("Mary", "Austen")),
    "shares_words": _sample("Jane Eyre", shown=True, candidates=("Jane Eyre",)),
    "not_retrieved_wrong": _sample("Mary", shown=False, retrieved=False),
    "not_retrieved_unknown": _sample("unknown", shown=False, retrieved=False, unknown=True),
    "beyond_k": _sample("unknown", shown=False, unknown=True),
    "prompt_cut": _sample("unknown", shown=True, unknown=True, truncated_passages=1),
    "unknown": _sample("unknown", shown=True, unknown=True),
    "wrong": _sample("Mary Shelley", shown=True),
    "closed_book_unknown": make_sample("unknown", unknown=True),
    "closed_book_wrong": make_sample("Mary"),
    "no_answers": make_sample("Mary", answers=()),
}


@pytest.mark.parametrize("name", CASES)
def test_every_outcome_is_reached(name: str) -> None:
    """A question with exactly this history has this outcome."""
    assert classify(CASES[name]) == name


def test_a_cut_reply_is_the_readers() -> None:
    """A cut reply of the reader explains a wrong answer; one of a judge does not."""
    wrong = CASES["wrong"]
    cut = {
        role: replace(wrong.prediction, usage=(RoleUsage(role, 1, 1, 1, cut=1),))
        for role in ("reader", "judge")
    }  # type: ignore[arg-type]
    assert classify(replace(wrong, prediction=cut["reader"])) == "reply_cut"
    assert classify(replace(wrong, prediction=cut["judge"])) == "wrong"


def test_an_unknown_answer_is_never_one_that_shares_words() -> None:
    """The word "unknown" may share words with an accepted answer."""
    sample = make_sample("unknown", answers=("unknown soldier",), unknown=True)
    assert classify(sample) == "closed_book_unknown"


def test_what_was_shown_counts() -> None:
    """Not what was placed, unless what was shown was not recorded."""
    wrong = CASES["wrong"]
    assert classify(replace(wrong, shown=Shown((WITHOUT,)))) == "beyond_k"
    assert classify(replace(CASES["beyond_k"], shown=Shown((WITH,)))) == "unknown"
    assert classify(replace(wrong, shown=None)) == "wrong"


def test_indices_refer_to_the_list() -> None:
    """Numbers stand for the entries of the list, which has every outcome once."""
    assert [OUTCOMES[index].name for index in classify_all(list(CASES.values()))] == list(CASES)
    assert {outcome.name for outcome in OUTCOMES} == {*CASES, "reply_cut"}
