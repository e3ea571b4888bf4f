"""Multi-hop data sets, whose questions bring their passages."""

import json
from pathlib import Path
from typing import Any

import pytest

from winnow.errors import InputError
from winnow.formats.fid_json import FidRow, read_fid
from winnow.formats.multihop import convert_multihop_row

HOTPOTQA: dict[str, Any] = {
    "_id": "5a8b",
    "question": "Which river passes the town where Ada was born?",
    "answer": "Corvo",
    "type": "bridge",
    "level": "hard",
    "supporting_facts": [["Ada", 0], ["Arlen", 1]],
    "context": [
        ["Bexley", ["Bexley is a town.", " It is old."]],
        ["Ada", ["Ada was born in Arlen."]],
        ["Arlen", ["Arlen is a town.", " The Corvo passes it."]],
    ],
}
MUSIQUE: dict[str, Any] = {
    "id": "2hop__1_2",
    "question": "Which river passes the town where Ada was born?",
    "answer": "Corvo",
    "answer_aliases": ["River Corvo", "Corvo"],
    "answerable": True,
    "question_decomposition": [{"id": 1}, {"id": 2}],
    "paragraphs": [
        {
            "idx": 0,
            "title": "Arlen",
            "paragraph_text": "Arlen has a castle.",
            "is_supporting": False,
        },
        {
            "idx": 1,
            "title": "Arlen",
            "paragraph_text": "The Corvo passes Arlen.",
            "is_supporting": True,
        },
        {
            "idx": 2,
            "title": "Ada",
            "paragraph_text": "Ada was born in Arlen.",
            "is_supporting": True,
        },
    ],
}


def read(path: Path, row: dict[str, Any]) -> FidRow:
    """The row of a file of JSON lines."""
    path.write_text(json.dumps(row))
    (read_row,) = read_fid(path)
    return read_row


def list_gold(row: FidRow) -> list[str]:
    """The texts of the gold passages in the file's order."""
    return [
        passage.text
        for passage, _ in row.contexts
        if passage.passage_id in row.question.gold_passage_ids
    ]


def test_hotpotqa(tmp_path: Path) -> None:
    """Passages with a supporting fact are gold; contexts stay in the file's order and have no
    score.
    """
    row = read(tmp_path / "f.jsonl", HOTPOTQA)
    assert (row.question.question_id, row.question.answers) == ("5a8b", ("Corvo",))
    assert [(passage.title, passage.text, score) for passage, score in row.contexts] == [
        ("Bexley", "Bexley is a town. It is old.", None),
        ("Ada", "Ada was born in Arlen.", None),
        ("Arlen", "Arlen is a town. The Corvo passes it.", None),
    ]
    assert list_gold(row) == ["Ada was born in Arlen.", "Arlen is a town. The Corvo passes it."]
    assert json.loads(row.question.meta) == {"type": "bridge", "level": "hard"}


def test_columns_of_the_hub_are_the_same_rows(tmp_path: Path) -> None:
    """Titles and sentences in two lists, and another name of the id."""
    hub = {name: value for name, value in HOTPOTQA.items() if name != "_id"} | {
        "id": "5a8b",
        "supporting_facts": {"title": ["Ada", "Arlen"], "sent_id": [0, 1]},
        "context": {
            "title": [title for title, _ in HOTPOTQA["context"]],
            "sentences": [s for _, s in HOTPOTQA["context"]],
        },
    }
    assert read(tmp_path / "f.jsonl", hub) == read(tmp_path / "g.jsonl", HOTPOTQA)


def test_musique(tmp_path: Path) -> None:
    """Two paragraphs of one title are two passages; aliases are accepted answers."""
    row = read(tmp_path / "f.jsonl", MUSIQUE)
    assert row.question.answers == ("Corvo", "River Corvo")
    assert list_gold(row) == ["The Corvo passes Arlen.", "Ada was born in Arlen."]
    assert len({passage.passage_id for passage, _ in row.contexts}) == 3
    assert json.loads(row.question.meta) == {"hops": 2}


def test_musiques_flags_and_unanswerable_questions(tmp_path: Path) -> None:
    """A flag may be a text; a question whose paragraphs lack the answer is another one than that
    with it, and says so.
    """
    flags = [str(paragraph["is_supporting"]) for paragraph in MUSIQUE["paragraphs"]]
    texts = [
        paragraph | {"is_supporting": flag}
        for paragraph, flag in zip(MUSIQUE["paragraphs"], flags, strict=True)
    ]
    assert read(tmp_path / "f.jsonl", MUSIQUE | {"paragraphs": texts, "answerable": True}) == read(
        tmp_path / "g.jsonl", MUSIQUE
    )
    row = read(tmp_path / "f.jsonl", MUSIQUE | {"answerable": False})
    assert row.question.question_id == f"{MUSIQUE['id']}#unanswerable"
    assert json.loads(row.question.meta) == {"hops": 2, "answerable": False}
    with pytest.raises(
        InputError, match=r"line 1: .*is_supporting is neither true nor false: 'perhaps'"
    ):
        read(
            tmp_path / "f.jsonl",
            MUSIQUE | {"paragraphs": [texts[0] | {"is_supporting": "perhaps"}]},
        )


def test_a_passage_of_several_questions_is_one(tmp_path: Path) -> None:
    """Its id is its title with a digest of its text."""
    ids = [read(tmp_path / "f.jsonl", row).contexts for row in (HOTPOTQA, MUSIQUE)]
    assert ids[0][1][0] == ids[1][2][0]
    assert ids[0][2][0].passage_id.startswith("Arlen#")


@pytest.mark.parametrize(
    "change",
    [
        {"context": [["Ada"]]},
        {"answer": None},
        {"supporting_facts": {"title": ["Ada"], "sent_id": []}},
        {"context": 7},
    ],
)
def test_bad_rows_are_named(tmp_path: Path, change: dict[str, Any]) -> None:
    """With the line."""
    with pytest.raises(InputError, match="line 1"):
        read(tmp_path / "f.jsonl", HOTPOTQA | change)
    without = {name: value for name, value in HOTPOTQA.items() if name != "answer"}
    with pytest.raises(
        InputError, match=r"line 1: expected a row of HotpotQA, .* \(KeyError: 'answer'\)"
    ):
        read(tmp_path / "f.jsonl", without)


def test_other_rows_are_not_converted() -> None:
    """The reader then says what it lacks."""
    assert convert_multihop_row({"question": "who?", "answers": ["A"]}) is None


def test_a_passage_that_a_question_has_twice_is_one(tmp_path: Path) -> None:
    """At its first place, and gold if either is."""
    twice = [MUSIQUE["paragraphs"][1] | {"is_supporting": False}, *MUSIQUE["paragraphs"]]
    row = read(tmp_path / "f.jsonl", MUSIQUE | {"paragraphs": twice})
    assert [passage.text for passage, _ in row.contexts] == [
        "The Corvo passes Arlen.", "Arlen has a castle.", "Ada was born in Arlen."
    ]  # fmt: skip
    assert list_gold(row) == ["The Corvo passes Arlen.", "Ada was born in Arlen."]


def test_supporting_titles_that_were_not_retrieved_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """HotpotQA's full-wiki setting: recall is of what is there, which is said, and the questions
    can be shown apart.
    """
    missing = {**HOTPOTQA, "_id": "full", "context": HOTPOTQA["context"][:2]}
    path = tmp_path / "h.json"
    path.write_text(json.dumps([HOTPOTQA, missing]))
    complete, incomplete = read_fid(path)
    assert "missing_titles" not in json.loads(complete.question.meta)
    assert json.loads(incomplete.question.meta)["missing_titles"] == 1
    assert len(incomplete.question.gold_passage_ids) == 1
    assert "the passages of 1 of 2 questions lack some that support the answer" in caplog.text
