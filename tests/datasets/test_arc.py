"""ARC's published forms: AllenAI's, the hub's, and Self-RAG's with numbered choices."""

import json
from pathlib import Path
from typing import Any

import pytest

from winnow.datasets.arc import Arc
from winnow.errors import InputError

TEXTS = ["density", "years", "days", "gravity"]


def write(folder: Path, *rows: dict[str, Any]) -> Arc:
    path = folder / "arc.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return Arc(str(path))


def hub(key: str = "C", labels: str = "ABCD") -> dict[str, Any]:
    return {
        "id": "q1",
        "question": "What changes?",
        "choices": {"text": TEXTS, "label": list(labels)},
        "answerKey": key,
    }


def test_every_published_form_gives_the_same_question(tmp_path: Path) -> None:
    """The choices stand below the question as letters; numbered ones keep their key in `meta`
    alone.
    """
    listed = [{"text": text, "label": label} for text, label in zip(TEXTS, "ABCD", strict=True)]
    allen = {
        "id": "q1",
        "question": {"stem": "What changes?", "choices": listed},
        "answerKey": "C",
    }
    first, second, numbered = write(tmp_path, allen, hub(), hub("3", "1234"))
    assert first == second
    assert first.text == "What changes?\nA: density\nB: years\nC: days\nD: gravity"
    assert first.answers == ("days",)
    assert numbered.text == first.text
    assert json.loads(numbered.meta) == {
        "choices": dict(zip("ABCD", TEXTS, strict=True)), "key": "C", "file_key": "3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (hub("E"), "an answerKey that is one of 2 to 8 distinct labels"),
        (hub("A", "AABC"), "an answerKey that is one of"),
        (
            {**hub(), "choices": {"text": TEXTS[:3], "label": list("ABCD")}},
            "a question with choices",
        ),
        ({**hub(), "choices": "A or B"}, "choices of the type str"),
        ({**hub(), "question": {"stem": "x"}}, "KeyError"),
        ({**hub(), "question": " "}, "a non-empty question"),
        ({"id": "q1", "question": "x"}, "a JSON object with id, answerKey"),
    ],
)
def test_a_wrong_row_is_refused_with_its_line(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    """Never a question without a right choice."""
    with pytest.raises(InputError, match=message) as error:
        list(write(tmp_path, hub(), row))
    assert "line 2" in str(error.value)
