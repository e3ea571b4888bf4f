"""Data sets through `datasets`, on files of this machine by the same code."""

import json
from pathlib import Path

import pytest

from winnow.corpora.hub import HubCorpus
from winnow.datasets.hub import HubQuestions
from winnow.errors import InputError


def test_questions_by_column(tmp_path: Path) -> None:
    """Dotted columns reach into nested ones; a missing one is named."""
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"q": "Who?", "answer": {"aliases": ["A", "B"]}}) + "\n")
    options = {"data_files": str(path)}
    (row,) = HubQuestions("json", "train", None, "q", "answer.aliases", options)
    assert (row.text, row.answers) == ("Who?", ("A", "B"))
    with pytest.raises(InputError, match="no column 'nope'"):
        list(HubQuestions("json", "train", None, "nope", "answer.aliases", options))


def test_ids_and_lists_in_texts(tmp_path: Path) -> None:
    """A null id is no id; a list that is written as a text is one."""
    path = tmp_path / "q.jsonl"
    rows = [
        {"key": "7", "question": "Who?", "answer": "['A', 'B']"},
        {"key": None, "question": "Who?", "answer": "A"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    questions = iter(HubQuestions("json", "train", "key", options={"data_files": str(path)}))
    first = next(questions)
    assert (first.question_id, first.answers) == ("7", ("A", "B"))
    with pytest.raises(InputError, match="row 2: expected a non-empty key; received 'None'"):
        next(questions)


def test_gold_passages_and_metadata(tmp_path: Path) -> None:
    """Nested columns too."""
    path = tmp_path / "q.jsonl"
    row = {"question": "Who?", "answer": "A", "evidence": {"ids": ["p1", "p2"]}, "level": "hard"}
    path.write_text(json.dumps(row) + "\n")
    options = {"data_files": str(path)}
    (question,) = HubQuestions(
        "json", "train", options=options, gold_column="evidence.ids", meta_columns=["level"]
    )
    assert (question.gold_passage_ids, json.loads(question.meta)) == (
        ("p1", "p2"),
        {"level": "hard"},
    )
    (question,) = HubQuestions("json", "train", options=options)
    assert (question.gold_passage_ids, question.meta) == ((), "{}")


def test_corpus_by_column(tmp_path: Path) -> None:
    """The same for passages."""
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps({"id": 1, "title": "T", "text": "x"}) + "\n")
    (row,) = HubCorpus("json", options={"data_files": str(path)})
    assert (row.passage_id, row.title, row.text) == ("1", "T", "x")
    with pytest.raises(InputError, match="no column"):
        list(HubCorpus("json", text_column="body", options={"data_files": str(path)}))


def test_values_of_csv_files_are_texts(tmp_path: Path) -> None:
    """An id keeps its zeros, a year is no float where another row has none, and "NA" is
    an answer.
    """
    path = tmp_path / "q.csv"
    path.write_text("key;question;answer\n007;Which code has Namibia?;NA\n008;When?;1990\n")
    options = {"data_files": {"train": [str(path)]}, "sep": ";"}
    rows = list(HubQuestions("csv", "train", "key", options=options))
    assert [(row.question_id, row.answers) for row in rows] == [
        ("007", ("NA",)),
        ("008", ("1990",)),
    ]
    path.write_text("key;question;answer\n007;Who?;\n")
    with pytest.raises(InputError, match="at least one non-empty answer"):
        list(HubQuestions("csv", "train", "key", options=options))


@pytest.mark.parametrize(
    ("header", "row", "options"),
    [
        (",key,question,answer", "0,7,who?,Zo\xe9", {}),
        ("key,question,answer,answer", "7,who?,Zo\xe9,B", {}),
        ("key,question,answer", "7,who?,Zo\xe9", {"encoding": "latin-1"}),
        ("key,question,answer", "7, who?,Zo\xe9", {"skipinitialspace": True}),
    ],
)
def test_csv_files_of_other_forms_are_read_by_the_library(
    tmp_path: Path, header: str, row: str, options: dict[str, object]
) -> None:
    """An index without a name, a name twice, and options of the library's."""
    path = tmp_path / "q.csv"
    path.write_text(f"{header}\n{row}\n", encoding=str(options.get("encoding", "utf-8")))
    (question,) = HubQuestions("csv", "train", "key", options={"data_files": str(path), **options})
    assert (question.question_id, question.answers) == ("7", ("Zo\xe9",))
