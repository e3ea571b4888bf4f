"""FiD's exchange format."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from winnow.errors import InputError
from winnow.formats.fid_json import read_fid, write_fid
from winnow.testing import make_context, make_question


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Question, answers, passages, order and scores survive."""
    path = tmp_path / "f.json"
    query, contexts = (
        make_question(),
        [make_context(1, "one"), make_context(2, "two", has_answer=True)],
    )
    assert write_fid(path, [(query, contexts), (make_question(question_id="q2"), contexts)]) == 2
    first = next(read_fid(path))
    assert (first.question.question_id, first.question.answers) == ("q1", ("Jane Austen",))
    assert [(p.passage_id, s) for p, s in first.contexts] == [("p1", 1.0), ("p2", 0.5)]
    assert json.loads(path.read_text())[1]["ctxs"][1]["has_answer"] is True


def test_missing_scores_are_missing(tmp_path: Path) -> None:
    """As in FiD's released files: no score is None, never the rank; DPR's strings are numbers;
    anything else is named.
    """
    path = tmp_path / "f.json"
    ctxs = [
        {"text": "a"},
        {"text": "b", "score": None},
        {"text": "c", "score": "71.5"},
        {"text": "d", "score": 0},
    ]
    path.write_text(json.dumps([{"question": "a?", "answers": ["a"], "ctxs": ctxs}]))
    (row,) = read_fid(path)
    assert [score for _, score in row.contexts] == [None, None, 71.5, 0.0]
    write_fid(path, [(row.question, [replace(make_context(1, "a"), score=None)])])
    assert "score" not in json.loads(path.read_text())[0]["ctxs"][0]
    for bad in ("best", [1], "nan"):
        path.write_text(
            json.dumps(
                [{"question": "a?", "answers": ["a"], "ctxs": [{"text": "a", "score": bad}]}]
            )
        )
        with pytest.raises(InputError, match="a finite number as the score of context 0"):
            list(read_fid(path))


def test_the_target_of_a_file_is_kept(tmp_path: Path) -> None:
    """TriviaQA's files of FiD name the answer to learn; it is the only answer where none are
    listed.
    """
    path = tmp_path / "f.json"
    rows = [
        {"question": "a?", "answers": ["a", "b"], "target": "b", "ctxs": [{"text": "t"}]},
        {"question": "c?", "target": "c", "ctxs": [{"text": "t"}]},
        {"question": "d?", "answers": ["d"], "target": None, "ctxs": [{"text": "t"}]},
    ]
    path.write_text(json.dumps(rows))
    questions = [row.question for row in read_fid(path)]
    assert [(q.answers, q.target) for q in questions] == [
        (("a", "b"), "b"),
        (("c",), "c"),
        (("d",), ""),
    ]
    write_fid(path, [(q, [make_context(1, "t")]) for q in questions])
    assert [row.question.target for row in read_fid(path)] == ["b", "c", ""]


@pytest.mark.parametrize("answers", ["Paris", [None], ["Paris", ["Lyon"]], {"a": "Paris"}])
def test_answers_are_a_list_of_texts(tmp_path: Path, answers: object) -> None:
    """A string is no list of letters, and null is no answer "None"."""
    path = tmp_path / "f.json"
    path.write_text(json.dumps([{"question": "a?", "answers": answers, "ctxs": [{"text": "t"}]}]))
    with pytest.raises(
        InputError, match="record 1: expected a list of answers, each a string or a number"
    ):
        list(read_fid(path))


def test_bad_rows_are_named(tmp_path: Path) -> None:
    """A question without contexts, and an empty passage."""
    path = tmp_path / "f.json"
    path.write_text(json.dumps([{"question": "a?", "answers": ["a"], "ctxs": []}]))
    (row,) = read_fid(path)
    assert row.contexts == (), "a question for which nothing was found"
    twice = [{"id": "p", "text": "a"}, {"id": "x", "text": "b"}, {"id": "p", "text": "a"}]
    path.write_text(json.dumps([{"question": "a?", "answers": ["a"], "ctxs": twice}]))
    with pytest.raises(
        InputError,
        match=r"record 1: expected distinct contexts; the id 'p' occurs twice.*context 2",
    ):
        list(read_fid(path))
    path.write_text(json.dumps([{"question": "a?", "answers": ["a"], "ctxs": [{"text": " "}]}]))
    with pytest.raises(InputError, match="non-empty text of context 0"):
        list(read_fid(path))


def test_a_folder_has_a_file_a_split(tmp_path: Path) -> None:
    """Questions are of the file's split; numbers become ids of it, names stay."""
    for name, ids in (("train", [None, "x7"]), ("test", ["0"])):
        rows = [
            {
                "question": "a?",
                "answers": ["a"],
                "ctxs": [{"id": "p", "text": "t"}],
                **({"id": i} if i else {}),
            }
            for i in ids
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    splits = [(row.question.question_id, row.question.split) for row in read_fid(tmp_path)]
    assert splits == [("test-0", "test"), ("train-0", "train"), ("x7", "train")]
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="contains no FiD file"):
        list(read_fid(tmp_path / "none"))


def test_annotated_gold_passages_survive(tmp_path: Path) -> None:
    """With the metadata; passages that are gold by their text alone are not marked."""
    path = tmp_path / "f.json"
    contexts = [replace(make_context(n, f"text {n}"), is_gold=n > 1) for n in (1, 2, 3)]
    annotated = replace(make_question(), gold_passage_ids=("p2", "p3"), meta='{"type": "bridge"}')
    write_fid(path, [(annotated, contexts), (make_question(question_id="q2"), contexts)])
    first, second = read_fid(path)
    assert (first.question.gold_passage_ids, first.question.meta) == (
        ("p2", "p3"),
        '{"type": "bridge"}',
    )
    assert (second.question.gold_passage_ids, second.question.meta) == ((), "{}")
    assert "meta" not in json.loads(path.read_text())[1]


def test_gold_passages_that_the_contexts_lack_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The format has no place for them: recall in the file is of the others, as reading it says."""
    contexts = [replace(make_context(n, f"text {n}"), is_gold=n > 1) for n in (1, 2)]
    annotated = replace(make_question(), gold_passage_ids=("p2", "p3"))
    write_fid(tmp_path / "f.json", [(annotated, contexts)])
    (row,) = read_fid(tmp_path / "f.json")
    assert row.question.gold_passage_ids == ("p2",)
    assert json.loads(row.question.meta) == {"missing_titles": 1}
    assert "1 of 1 questions lack some that support the answer" in caplog.text


def test_flags_of_gold_passages(tmp_path: Path) -> None:
    """In every form that files have; anything else is refused."""
    path = tmp_path / "f.json"
    flags = (1, "True", True, "False", 0, None, False)
    ctxs = [{"id": str(n), "text": "x", "is_gold": flag} for n, flag in enumerate(flags)]
    path.write_text(json.dumps([{"question": "q", "answers": ["a"], "ctxs": ctxs}]))
    (row,) = read_fid(path)
    assert row.question.gold_passage_ids == ("0", "1", "2")
    path.write_text(
        json.dumps(
            [{"question": "q", "answers": ["a"], "ctxs": [{"text": "x", "is_gold": "gold"}]}]
        )
    )
    with pytest.raises(
        InputError, match="record 1: expected true or false as is_gold of context 0"
    ):
        list(read_fid(path))


def test_ids_that_are_null_or_zero(tmp_path: Path) -> None:
    """Null is no id: the row's number, within its split, takes its place, and so for contexts. Zero
    is one.
    """
    ctxs = [{"id": 0, "text": "x"}, {"id": None, "text": "y"}, {"text": "z", "title": " "}]
    rows = [{"id": None, "question": "q", "answers": ["a"], "ctxs": ctxs}]
    (tmp_path / "f.json").write_text(json.dumps(rows))
    (row,) = read_fid(tmp_path / "f.json")
    assert row.question.question_id == "0"
    assert [(passage.passage_id, passage.title) for passage, _ in row.contexts] == [
        ("0", ""),
        ("0-1", ""),
        ("0-2", ""),
    ]
    (tmp_path / "splits").mkdir()
    for split in ("train", "dev"):
        (tmp_path / f"splits/{split}.json").write_text(
            json.dumps([{**rows[0], "ctxs": [{"text": f"of {split}"}]}])
        )
    found = [
        (row.question.question_id, row.question.split, row.contexts[0][0].passage_id)
        for row in read_fid(tmp_path / "splits")
    ]
    assert found == [("dev-0", "dev", "dev-0-0"), ("train-0", "train", "train-0-0")]


@pytest.mark.parametrize("name", ["id", "_id", "docid", "passage_id", "psg_id"])
def test_ids_of_contexts_by_their_usual_names(tmp_path: Path, name: str) -> None:
    """Pyserini's, BEIR's and others'; whole numbers that pandas wrote as floats too."""
    path = tmp_path / "f.json"
    path.write_text(
        json.dumps([{"question": "q", "answers": ["a"], "ctxs": [{name: 7.0, "text": "t"}]}])
    )
    (row,) = read_fid(path)
    assert row.contexts[0][0].passage_id == "7"


def test_questions_without_answers_are_read_back(tmp_path: Path) -> None:
    """As BEIR's and RAGE's; a row without the field is malformed, which DVC's files are not."""
    path = tmp_path / "folder" / "test.json"
    path.parent.mkdir()
    question = replace(make_question(), answers=())
    write_fid(path, [(question, [make_context(1, "one")])])
    (path.parent / "test.json.dvc").write_text("outs:")
    (row,) = read_fid(path.parent)
    assert row.question.answers == ()
    path.write_text(json.dumps([{"question": "a?", "ctxs": []}]))
    with pytest.raises(InputError, match="answer"):
        list(read_fid(path))


@pytest.mark.parametrize("score", ["Infinity", "-inf", 1e39])
def test_scores_without_a_finite_value_are_refused(tmp_path: Path, score: object) -> None:
    """The weights of the contexts would not be numbers."""
    path = tmp_path / "f.json"
    row = {"question": "a?", "answers": ["a"], "ctxs": [{"text": "a", "score": score}]}
    path.write_text(json.dumps([row]))
    with pytest.raises(InputError, match="a finite number as the score of context 0"):
        list(read_fid(path))


def test_the_target_is_the_answer_of_a_row_without_others(tmp_path: Path) -> None:
    """As in FiD's files for training."""
    path = tmp_path / "f.json"
    row = {"question": "a?", "answers": [], "target": "b", "ctxs": []}
    path.write_text(json.dumps([row]))
    (read,) = read_fid(path)
    assert read.question.answers == ("b",)


def test_compressed_files_of_a_folder_are_read(tmp_path: Path) -> None:
    """By their two endings."""
    row = json.dumps({"question": "a?", "answers": ["b"], "ctxs": []})
    for name in ("a.json.gz", "b.jsonl.gz", "c.json", "d.jsonl"):
        text = row if "jsonl" in name else f"[{row}]"
        body = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith("gz") else body)
    assert len(list(read_fid(tmp_path))) == 4
