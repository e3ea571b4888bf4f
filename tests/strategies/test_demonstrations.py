"""Few-shot demonstrations."""

import pytest

from winnow.errors import ConfigError
from winnow.records import Question
from winnow.strategies.demonstrations import Demonstration, Shots
from winnow.testing import make_context

HOLDS = [
    make_context(1, "no"),
    make_context(2, "Emma is by Austen", has_answer=True),
    make_context(3, "Austen", has_answer=True),
]


def make_questions(count: int) -> list[Question]:
    return [Question(str(n), f"Q{n}?", ("Jane Austen", "Austen")) for n in range(count)]


def test_the_best_ranked_passage_with_the_answer_is_shown() -> None:
    """Questions without such a passage are passed over; the answer is one that the passage states;
    one is to spare.
    """
    distant = make_context(9, "Emma is by Austen, and was not retrieved", rank=0, has_answer=True)
    ranked = [
        (make_questions(1)[0], [make_context(1, "no"), distant]),
        *((q, [distant, *HOLDS]) for q in make_questions(5)),
    ]
    examples = Shots(2).build_demonstrations(ranked)
    assert examples == tuple(
        Demonstration(str(n), f"Q{n}?", HOLDS[1].passage, "Austen") for n in range(3)
    )


def test_candidates_are_drawn_by_the_seed() -> None:
    """Alike for one seed; as many as may be tried."""
    questions = make_questions(200)
    assert Shots(2).draw_candidates(questions) == Shots(2).draw_candidates(questions)
    assert Shots(2).draw_candidates(questions) != Shots(2, seed=1).draw_candidates(questions)
    assert len(Shots(2).draw_candidates(questions)) == 64
    assert len(Shots(8).draw_candidates(questions[:5])) == 5


def test_too_few_are_refused() -> None:
    """No prompt of three demonstrations goes out as one of eight."""
    with pytest.raises(ConfigError, match=r"needs 8 .* only 3"):
        Shots(8).build_demonstrations((q, HOLDS) for q in make_questions(3))
    with pytest.raises(ConfigError, match="at least 1"):
        Shots(0)
