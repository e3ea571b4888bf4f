"""Biography's people, in the three published forms."""

import json
from pathlib import Path

import pytest

from winnow.datasets.biography import Biography
from winnow.errors import ConfigError, InputError

CRAG = Path(__file__).parents[3] / "shared/data/crag/bio/sources.txt"


def test_names_questions_and_json_lines(tmp_path: Path) -> None:
    """All give the same questions, whose ids are the names; a title such as "Who is
    Who" is a name.
    """
    expected = [
        ("Ada Lovelace", "Tell me a biography of Ada Lovelace."),
        ("Who", "Tell me a biography of Who."),
    ]
    (tmp_path / "names.txt").write_text("Ada Lovelace\n\nWho\n")
    (tmp_path / "questions.txt").write_text("Who was Ada Lovelace?\nwho is Who?\n")
    rows = [{"topic": "Ada Lovelace", "input": "Tell me"}, {"topic": " Who "}]
    (tmp_path / "topics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in ("names.txt", "questions.txt", "topics.jsonl"):
        questions = list(Biography(str(tmp_path / name)))
        assert [(question.question_id, question.text) for question in questions] == expected
        assert [json.loads(question.meta) for question in questions] == [
            {"topic": "Ada Lovelace"},
            {"topic": "Who"},
        ]
        assert not any(question.answers for question in questions)


def test_wrong_input_is_refused(tmp_path: Path) -> None:
    """A person twice, with the other line; a line without a topic; a template that names nobody."""
    path = tmp_path / "names.txt"
    path.write_text("Ada\nBo\nWho is Ada?\n")
    with pytest.raises(InputError, match=r"line 3.*not already in line 1"):
        list(Biography(str(path)))
    (tmp_path / "t.jsonl").write_text('{"topic": " "}')
    with pytest.raises(InputError, match="a non-empty topic"):
        list(Biography(str(tmp_path / "t.jsonl")))
    with pytest.raises(ConfigError, match=r"\{topic\}"):
        Biography("x", template="Write.")


@pytest.mark.skipif(
    not CRAG.is_file(), reason="CRAG's published inputs are not beside this checkout"
)
def test_the_published_questions_of_crag() -> None:
    """500 people, none of them twice."""
    questions = list(Biography(str(CRAG)))
    assert len(questions) == 500
    assert questions[0].question_id == "Jessie Mae Brown Beavers"
