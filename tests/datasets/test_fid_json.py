"""The questions of a FiD file."""

import json
from pathlib import Path

from winnow.datasets.fid_json import FidQuestions


def test_read_questions_a_list(tmp_path: Path) -> None:
    """Ids are given or positions."""
    ctxs = [{"id": "p", "title": "t", "text": "x", "score": 1}]
    path = tmp_path / "f.json"
    path.write_text(
        json.dumps(
            [
                {"question": "a?", "answers": ["a"], "ctxs": ctxs},
                {"id": "z", "question": "b?", "target": "b", "ctxs": ctxs},
            ]
        )
    )
    assert [(q.question_id, q.answers) for q in FidQuestions(str(path))] == [
        ("0", ("a",)),
        ("z", ("b",)),
    ]
