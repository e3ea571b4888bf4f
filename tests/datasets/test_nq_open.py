"""NQ-open's JSON lines."""

from pathlib import Path

import pytest

from winnow.datasets.nq_open import NqOpen
from winnow.errors import InputError

SHARED = Path(__file__).parents[3] / "shared" / "data"


def test_questions_and_answers(tmp_path: Path) -> None:
    """One question a line, ids are line numbers."""
    path = tmp_path / "nq.jsonl"
    path.write_text(
        '{"question": "who?", "answer": ["A", "B"]}\n{"question": "what?", "answer": []}\n'
    )
    questions = iter(NqOpen(str(path)))
    first = next(questions)
    assert (first.question_id, first.text, first.answers) == ("1", "who?", ("A", "B"))
    with pytest.raises(InputError, match="line 2: expected at least one non-empty answer"):
        next(questions)


@pytest.mark.skipif(
    not SHARED.exists(), reason="real files lie in ../shared/data, which is not here"
)
def test_the_real_file() -> None:
    """NQ-open dev has 3,610 questions; EfficientQA's has 1,800; DPR's SQuAD sample has this shape
    too.
    """
    assert sum(1 for _ in NqOpen(str(SHARED / "nq_open.dev.jsonl"))) == 3610
    assert sum(1 for _ in NqOpen(str(SHARED / "nq_open.efficientqa.dev.jsonl"))) == 1800
    assert sum(1 for _ in NqOpen(str(SHARED / "dpr.squad.test.1000.tsv"))) == 1000
