"""PubHealth's claims with both kinds of labels."""

import json
from pathlib import Path

import pytest

from winnow.datasets.pubhealth import PubHealth
from winnow.errors import InputError


def test_both_kinds_of_labels(tmp_path: Path) -> None:
    """SUPPORTS is true and REFUTES false; other claims are left out; the label stays in `meta`."""
    path = tmp_path / "claims.jsonl"
    rows = [
        {"claim_id": 7, "claim": "Smoking harms.", "label": "true"},
        {"id": "x", "question": "Milk cures colds.", "label": "REFUTES"},
        {"claim": "It may help.", "label": "mixture"},
        {"claim": "Sleep helps.", "label": "SUPPORTS"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    questions = list(PubHealth(str(path)))
    assert [(q.question_id, q.text, q.answers) for q in questions] == [
        ("7", "Smoking harms.", ("true",)), ("x", "Milk cures colds.", ("false",)),
        ("4", "Sleep helps.", ("true",)),
    ]  # fmt: skip
    assert json.loads(questions[1].meta) == {"label": "REFUTES"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"claim": "x", "label": "True"}, "a label among true, false, SUPPORTS"),
        ({"label": "true"}, "a non-empty claim"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, row: dict[str, str], message: str) -> None:
    """With the file and the line."""
    (tmp_path / "claims.jsonl").write_text(json.dumps(row))
    with pytest.raises(InputError, match=message):
        list(PubHealth(str(tmp_path / "claims.jsonl")))
