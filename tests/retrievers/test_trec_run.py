"""Rankings from a run file."""

from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.records import Hit, Question
from winnow.retrievers.trec_run import TrecRun


def test_a_question_has_the_ranking_of_the_file(tmp_path: Path) -> None:
    """Up to the depth; a question that the file lacks is named, with what ids the file has."""
    (tmp_path / "run").write_text("q1 Q0 d1 1 2 x\nq1 Q0 d2 2 1 x\nq2 Q0 d2 1 1 x\n")
    retriever = TrecRun(str(tmp_path / "run"))
    retriever.build(lambda: iter(()), tmp_path / "index")
    searcher = retriever.open(tmp_path / "index")
    questions = [Question("q2", "?", ("a",)), Question("q1", "?", ("a",))]
    assert searcher.search(questions, 1) == [[Hit("d2", 1.0)], [Hit("d1", 2.0)]]
    with pytest.raises(
        InputError,
        match=r"no line for 1 of 2 questions, such as '7'; its questions have ids like 'q1'",
    ):
        searcher.search([questions[0], Question("7", "?", ("a",))], 1)
