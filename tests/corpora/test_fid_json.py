"""The passages of a FiD file."""

import json
from pathlib import Path

import pytest

from winnow.corpora.fid_json import FidCorpus
from winnow.errors import InputError
from winnow.records import Passage


def test_fid_corpus_has_each_passage_once(tmp_path: Path) -> None:
    """Two questions share a passage."""
    ctxs = [{"id": "1", "title": "t", "text": "x"}, {"id": "2", "title": "u", "text": "y"}]
    path = tmp_path / "f.jsonl"
    path.write_text(
        "\n".join(json.dumps({"question": q, "answers": ["a"], "ctxs": ctxs}) for q in "ab")
    )
    assert [p.passage_id for p in FidCorpus(str(path))] == ["1", "2"]


def test_an_id_has_one_passage(tmp_path: Path) -> None:
    """Contexts that are numbered within each question would be read as the first question's.
    Without ids they are made.
    """
    path = tmp_path / "f.jsonl"
    rows = [
        {
            "question": q,
            "answers": ["a"],
            "ctxs": [{"id": "0", "title": "t", "text": f"text of {q}"}],
        }
        for q in "ab"
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(
        InputError,
        match=(
            r"id '0' has two passages, the second at question '1' \('text of b'\).*remove "
            r"their ids"
        ),
    ):
        list(FidCorpus(str(path)))
    titled = [{**rows[0], "ctxs": [{"id": "0", "title": title, "text": "x"}]} for title in "tu"]
    path.write_text("\n".join(map(json.dumps, titled)))
    with pytest.raises(InputError, match="has two passages"):
        list(FidCorpus(str(path)))
    for row in rows:
        row["ctxs"][0] |= {"id": None, "title": None}  # type: ignore[index, operator]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert list(FidCorpus(str(path))) == [
        Passage("0-0", "", "text of a"),
        Passage("1-0", "", "text of b"),
    ]
