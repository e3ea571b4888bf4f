"""ALCE's files are read as FiD's: questions, passages, and what the metrics look for."""

import json
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.formats.fid_json import read_fid

DOCS = [
    {"title": "A", "text": "one", "score": 2.5},
    {"title": "A", "text": "two"},
    {"title": "A", "text": "one", "score": 1.0},
]
ASQA = {
    "sample_id": "7", "question": "Who?", "answer": "Long.", "docs": DOCS,
    "qa_pairs": [{"question": "Who first?", "short_answers": ["Ada", "A. L."], "context": "c"}],
    "annotations": [{"long_answer": "Long."}],
}  # fmt: skip
QAMPARI = {
    "id": "x__1",
    "question": "Which?",
    "answer": "Ada, Bob",
    "answers": [["Ada", "A."], ["Bob"]],
    "docs": DOCS[:1],
}
ELI5 = {"question": "Why?", "answer": "Because.", "claims": ["It is so."], "docs": []}


def read(path: Path, *rows: object) -> list[tuple[object, ...]]:
    """The fields of each question, and the passages with their scores."""
    path.write_text(json.dumps(rows))
    return [
        (
            r.question.question_id,
            r.question.answers,
            json.loads(r.question.meta),
            [(p.text, s) for p, s in r.contexts],
        )
        for r in read_fid(path)
    ]


def test_the_three_forms_are_read(tmp_path: Path) -> None:
    """Short answers, lists with their spellings, and claims; equal passages are one; a row without
    an id has its number.
    """
    assert read(tmp_path / "alce.json", ASQA, QAMPARI, ELI5) == [
        (
            "7",
            ("Ada", "A. L."),
            {
                "qa_pairs": [{"question": "Who first?", "short_answers": ["Ada", "A. L."]}],
                "long_answers": ["Long."],
            },
            [("one", 2.5), ("two", None)],
        ),
        ("x__1", ("Ada", "A.", "Bob"), {"answers": [["Ada", "A."], ["Bob"]]}, [("one", 2.5)]),
        ("2", ("Because.",), {"claims": ["It is so."]}, []),
    ]


def test_a_flat_list_of_answers_is_one_of_answers(tmp_path: Path) -> None:
    """And not one of the letters of each."""
    ((_, answers, meta, _),) = read(tmp_path / "a.json", QAMPARI | {"answers": ["Ada", "Bob"]})
    assert (answers, meta) == (("Ada", "Bob"), {"answers": [["Ada"], ["Bob"]]})


@pytest.mark.parametrize(
    "change", [{"docs": [{"title": "A"}]}, {"qa_pairs": [{"question": "?"}]}, {"docs": 3}]
)
def test_malformed_rows_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    """With the file, the record and what was expected."""
    with pytest.raises(
        InputError,
        match=(
            r"alce\.json, record 1: expected a row of HotpotQA, 2WikiMultihopQA, MuSiQue or ALCE"
        ),
    ):
        read(tmp_path / "alce.json", {**ASQA, **change})
