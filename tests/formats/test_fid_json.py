"""FiD's exchange format."""

import json
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.formats.fid_json import read_fid, write_fid
from winnow.testing import context, question


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Question, answers, passages, order and scores survive."""
    path = tmp_path / "f.json"
    query, contexts = question(), [context(1, "one"), context(2, "two", has_answer=True)]
    assert write_fid(path, [(query, contexts), (question(question_id="q2"), contexts)]) == 2
    first = next(read_fid(path))
    assert (first.question.question_id, first.question.answers) == ("q1", ("Jane Austen",))
    assert [(p.passage_id, s) for p, s in first.contexts] == [("p1", 1.0), ("p2", 0.5)]
    assert json.loads(path.read_text())[1]["ctxs"][1]["has_answer"] is True


def test_bad_rows_are_named(tmp_path: Path) -> None:
    """A question without contexts, and an empty passage."""
    path = tmp_path / "f.json"
    path.write_text(json.dumps([{"question": "a?", "answers": ["a"], "ctxs": []}]))
    with pytest.raises(InputError, match="line 1: expected at least one context"):
        list(read_fid(path))
    path.write_text(json.dumps([{"question": "a?", "answers": ["a"], "ctxs": [{"text": " "}]}]))
    with pytest.raises(InputError, match="non-empty text of context 0"):
        list(read_fid(path))


def test_a_folder_has_a_file_a_split(tmp_path: Path) -> None:
    """Questions are of the file's split; numbers become ids of it, names stay."""
    for name, ids in (("train", [None, "x7"]), ("test", ["0"])):
        rows = [
            {"question": "a?", "answers": ["a"], "ctxs": [{"id": "p", "text": "t"}], **({"id": i} if i else {})} for i in ids
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    splits = [(row.question.question_id, row.question.split) for row in read_fid(tmp_path)]
    assert splits == [("test-0", "test"), ("train-0", "train"), ("x7", "train")]
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="contains no FiD file"):
        list(read_fid(tmp_path / "none"))
