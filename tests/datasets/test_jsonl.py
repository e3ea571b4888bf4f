"""Question files of one's own."""

import json
from pathlib import Path

import pytest

from flows.settings.door import compose
from winnow.datasets.jsonl import JsonlQuestions
from winnow.errors import InputError


def test_columns_have_any_names(tmp_path: Path) -> None:
    """An id column or the line's number, a list of answers or a single one."""
    path = tmp_path / "q.jsonl"
    path.write_text(
        '{"q": "who?", "a": ["A", "B"], "key": "x"}\n\n{"q": "when?", "a": 1984, "key": "y"}\n'
    )
    questions = list(JsonlQuestions(str(path), question="q", answers="a"))
    assert [(q.question_id, q.text, q.answers) for q in questions] == [
        ("1", "who?", ("A", "B")),
        ("3", "when?", ("1984",)),
    ]
    assert [
        q.question_id for q in JsonlQuestions(str(path), question="q", answers="a", id="key")
    ] == ["x", "y"]


def test_ids_of_ones_own_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A column with a usual name is used, which is said; the lines are numbered only if there is
    none, or if asked.
    """
    path = tmp_path / "q.jsonl"
    path.write_text(
        '{"question": "who?", "answers": ["A"], "id": 0}\n{"question": "when?", "answers": ["B"], '
        '"id": 7}\n'
    )
    with caplog.at_level("INFO"):
        assert [q.question_id for q in JsonlQuestions(str(path))] == ["0", "7"]
    assert (
        "ids are from the column 'id'. With dataset.parser.id='' they are the numbers of the "
        "lines." in caplog.text
    )
    assert [q.question_id for q in JsonlQuestions(str(path), id="")] == ["1", "2"]
    path.write_text(
        '{"question": "who?", "answers": ["A"], "id": 0}\n{"question": "when?", "answers": ["B"]}\n'
    )
    with pytest.raises(
        InputError, match=r"line 2 has no column 'id'.*Set dataset.parser.id to the right one"
    ):
        list(JsonlQuestions(str(path)))


def test_lists_in_texts(tmp_path: Path) -> None:
    """As pandas saves them: answers and gold ids."""
    path = tmp_path / "q.jsonl"
    path.write_text(
        json.dumps({"question": "who?", "answers": '["A", "B"]', "gold": "['p1', 'p2']"}) + "\n"
    )
    (question,) = JsonlQuestions(str(path), gold="gold")
    assert (question.answers, question.gold_passage_ids) == (("A", "B"), ("p1", "p2"))
    path.write_text(json.dumps({"question": "who?", "answers": "[]"}) + "\n")
    with pytest.raises(InputError, match="line 1: expected at least one non-empty answer"):
        list(JsonlQuestions(str(path)))


def test_a_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    """File, line, the columns of that line, and the setting."""
    path = tmp_path / "q.jsonl"
    path.write_text('{"question": "who?", "answers": ["A"]}\n{"question": "who?", "gold": ["A"]}\n')
    message = (
        r"line 2 has no column 'answers'. Its columns are 'question', 'gold'. Set "
        r"dataset.parser.answers"
    )
    with pytest.raises(InputError, match=message):
        list(JsonlQuestions(str(path)))
    for value in ("NaN", "true", "[null]", "[Infinity]"):
        path.write_text(f'{{"question": "who?", "answers": {value}}}\n')
        with pytest.raises(
            InputError, match=r"line 1: expected a list of answers, each a string or a number"
        ):
            list(JsonlQuestions(str(path)))
    path.write_text("[1]\n")
    with pytest.raises(InputError, match=r"line 1: expected a JSON object; received '\[1\]'"):
        list(JsonlQuestions(str(path)))


def test_gold_passages_metadata_and_splits(tmp_path: Path) -> None:
    """A list of ids, a single one, or none; further columns become metadata."""
    path = tmp_path / "q.jsonl"
    lines = [
        {
            "question": "a",
            "answers": "A",
            "docs": ["p1", "p2", "p1"],
            "kind": "who",
            "year": 1984,
            "part": "dev",
        },
        {"question": "b", "answers": "B", "docs": 7, "kind": None, "year": 1985, "part": "test"},
        {"question": "c", "answers": "C", "docs": [], "kind": "", "year": 1986, "part": "test"},
        {
            "question": "d",
            "answers": "D",
            "docs": None,
            "kind": ["x"],
            "year": 1987,
            "part": "test",
        },
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    questions = list(JsonlQuestions(str(path), gold="docs", meta=["kind", "year"], split="part"))
    assert [q.gold_passage_ids for q in questions] == [("p1", "p2"), ("7",), (), ()]
    assert [q.split for q in questions] == ["dev", "test", "test", "test"]
    assert [json.loads(q.meta) for q in questions][::3] == [
        {"kind": "who", "year": 1984},
        {"kind": ["x"], "year": 1987},
    ]
    assert [(q.gold_passage_ids, q.split, q.meta) for q in JsonlQuestions(str(path))] == [
        ((), "", "{}")
    ] * 4
    with pytest.raises(
        InputError, match=r"has no column 'day'. .* Set dataset.parser.meta\[1\] to the right one"
    ):
        list(JsonlQuestions(str(path), meta=["kind", "day"]))
    path.write_text(json.dumps(lines[0] | {"docs": ["p1", ""]}))
    with pytest.raises(InputError, match="expected a non-empty docs"):
        list(JsonlQuestions(str(path), gold="docs"))


def test_flashrags_files_are_read_as_they_are(tmp_path: Path) -> None:
    """By the columns of conf/dataset/flashrag.yaml, under the ids of the files."""
    path = tmp_path / "test.jsonl"
    path.write_text(
        '{"id": "test_0", "question": "who got the first nobel prize", "golden_answers": ["Wilhelm '
        'R\\u00f6ntgen"]}\n{"id": "test_1", "question": "is ice cold", "golden_answers": ["yes"], '
        '"metadata": {"supporting_facts": {}}}\n'
    )
    settings = compose(
        ["dataset=flashrag", "dataset.name=hotpotqa", "dataset.split.all=dev"]
    ).dataset
    assert settings.asset is not None
    assert settings.asset["address"].endswith(
        "RUC-NLPIR/FlashRAG_datasets/resolve/main/hotpotqa/dev.jsonl"
    )
    assert settings.parser["path"] == "assets/flashrag/hotpotqa/dev.jsonl"
    columns = {
        name: settings.parser[name]
        for name in ("question", "answers", "id", "gold", "meta", "split")
    }
    questions = list(JsonlQuestions(str(path), **columns))
    assert [(one.question_id, one.answers) for one in questions] == [
        ("test_0", ("Wilhelm Röntgen",)),
        ("test_1", ("yes",)),
    ]
