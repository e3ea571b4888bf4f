"""Passage files of one's own."""

from pathlib import Path

import pytest

from winnow.corpora.jsonl import JsonlCorpus
from winnow.errors import InputError


def test_columns_have_any_names(tmp_path: Path) -> None:
    """Without a title column the title is empty; without an id column the line's number is the id."""
    path = tmp_path / "c.jsonl"
    path.write_text('{"body": "x", "head": "T", "key": 7}\n{"body": "y", "head": null, "key": 8}\n')
    plain = [(p.passage_id, p.title, p.text) for p in JsonlCorpus(str(path), text="body")]
    assert plain == [("1", "", "x"), ("2", "", "y")]
    titled = [(p.passage_id, p.title, p.text) for p in JsonlCorpus(str(path), text="body", title="head", id="key")]
    assert titled == [("7", "T", "x"), ("8", "", "y")]
    path.write_text('{"text": "x", "docid": "d1"}\n{"text": "y", "docid": "d0"}\n')
    assert [p.passage_id for p in JsonlCorpus(str(path))] == ["d1", "d0"]
    assert [p.passage_id for p in JsonlCorpus(str(path), id="")] == ["1", "2"]
    path.write_text('{"body": "x", "head": "T", "key": 7}\n')
    with pytest.raises(InputError, match=r"line 1 has no column 'text'. Its columns are 'body', 'head', 'key'."):
        list(JsonlCorpus(str(path)))
    for value in ('" "', "NaN", "true", "null", '["x"]'):
        path.write_text(f'{{"text": {value}}}\n')
        with pytest.raises(InputError, match="line 1: expected a non-empty text"):
            list(JsonlCorpus(str(path)))
        path.write_text(f'{{"text": "x", "head": {value}}}\n')
        if value not in ("null", '" "'):
            with pytest.raises(InputError, match="line 1: expected a non-empty head"):
                list(JsonlCorpus(str(path), title="head"))
