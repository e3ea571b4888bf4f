"""Notes on rankings."""

from pathlib import Path

import pytest

from flows.retrieve import compute_quality_rows, note_contradictions, note_unspaced_answers
from winnow.artifacts.rankings import RankedHit, Rankings
from winnow.records import Question

NUMBER = 40


def rank(*, answered: int, gold: int) -> tuple[Rankings, list[Question]]:
    """Rankings of which so many have an answer, and so many the gold passage, in the
    first place.
    """
    hits = {
        str(n): [RankedHit("g" if n < gold else "x", 1, 1.0, n < answered)] for n in range(NUMBER)
    }
    return Rankings(Path(), hits, {}, {}), [
        Question(str(n), "q?", ("a",), ("g",)) for n in range(NUMBER)
    ]


@pytest.mark.parametrize(
    ("answered", "gold", "contradicts"),
    [(40, 0, True), (0, 40, True), (40, 40, False), (40, 10, False), (10, 0, False)],
)
def test_measures_that_contradict_are_noted(answered: int, gold: int, contradicts: bool) -> None:
    """As where gold ids are of another numbering than the corpus: recall is 0 beside an accuracy of
    100.
    """
    notes = note_contradictions(*rank(answered=answered, gold=gold))
    assert bool(notes) is contradicts
    assert (
        not notes
        or f"{answered} have an answer among their first 20 passages and {gold} a gold passage"
        in notes[0]
    )


@pytest.mark.parametrize(("answers", "expected"), [((), 1.0), (("a",), 0.5)])
def test_a_query_of_beir_does_not_find_itself(answers: tuple[str, ...], expected: float) -> None:
    """As in BEIR's evaluation of ArguAna; elsewhere equal ids mean nothing."""
    hits = {"7": [RankedHit("7", 1, 2.0, False), RankedHit("g", 2, 1.0, False)]}
    question = Question("7", "q?", answers, ("g",))
    row = compute_quality_rows(Rankings(Path(), hits, {}, {}), [question], 5)[-1]
    assert row["MRR"].mean == expected


def test_few_questions_or_none_without_answers_say_nothing() -> None:
    """BEIR's queries have no answers."""
    rankings, questions = rank(answered=40, gold=0)
    assert note_contradictions(rankings, questions[:19]) == []
    assert (
        note_contradictions(
            rankings, [Question(q.question_id, "q?", (), ("g",)) for q in questions]
        )
        == []
    )


def test_answers_in_scripts_without_spaces_are_noted() -> None:
    """From one in twenty on; a foreign name in an English answer is none."""
    question = Question("q", "q?", ("東京", "Tokyo"))
    assert note_unspaced_answers([question])[0].startswith(
        "1 of 2 accepted answers are in scripts without spaces"
    )
    assert note_unspaced_answers([Question("q", "q?", ("Tokyo (東京)",))]) == []
    assert note_unspaced_answers([Question("q", "q?", ())]) == []
    assert (
        note_unspaced_answers([question, *(Question(str(n), "q?", ("a",)) for n in range(40))])
        == []
    )
