"""Passage files of one's own."""

import json
from pathlib import Path

import pytest

from winnow.corpora.jsonl import JsonlCorpus
from winnow.errors import ConfigError, InputError
from winnow.records import Passage


def test_columns_have_any_names(tmp_path: Path) -> None:
    """Without a title column the title is empty; without an id column the line's number
    is the id.
    """
    path = tmp_path / "c.jsonl"
    path.write_text('{"body": "x", "head": "T", "key": 7}\n{"body": "y", "head": null, "key": 8}\n')
    plain = [(p.passage_id, p.title, p.text) for p in JsonlCorpus(str(path), text="body")]
    assert plain == [("1", "", "x"), ("2", "", "y")]
    titled = [
        (p.passage_id, p.title, p.text)
        for p in JsonlCorpus(str(path), text="body", title="head", id="key")
    ]
    assert titled == [("7", "T", "x"), ("8", "", "y")]
    path.write_text('{"text": "x", "docid": "d1"}\n{"text": "y", "docid": "d0"}\n')
    assert [p.passage_id for p in JsonlCorpus(str(path))] == ["d1", "d0"]
    assert [p.passage_id for p in JsonlCorpus(str(path), id="")] == ["1", "2"]
    path.write_text('{"body": "x", "head": "T", "key": 7}\n')
    with pytest.raises(
        InputError, match=r"line 1 has no column 'text'. Its columns are 'body', 'head', 'key'."
    ):
        list(JsonlCorpus(str(path)))
    for value in ('" "', "NaN", "true", "null", '["x"]'):
        path.write_text(f'{{"text": {value}}}\n')
        with pytest.raises(InputError, match="line 1: expected a non-empty text"):
            list(JsonlCorpus(str(path)))
        path.write_text(f'{{"text": "x", "head": {value}}}\n')
        if value not in ("null", '" "'):
            with pytest.raises(InputError, match="line 1: expected a non-empty head"):
                list(JsonlCorpus(str(path), title="head"))


def test_the_first_line_of_a_text_may_be_its_title(tmp_path: Path) -> None:
    """As in FlashRAG's corpora, with or without quotes around it; a text without a second line is
    refused.
    """
    path = tmp_path / "wiki18_100w.jsonl"
    rows = [
        {"id": "0", "contents": '"Aaron"\nAaron is a prophet.\nHe was "old".'},
        {"id": "1", "contents": 'The "Ant"\n "Ants" are small.'},
        {"id": "2", "contents": '"\nA title of one quote.'},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert list(JsonlCorpus(str(path), text="contents", title_line=True)) == [
        Passage("0", "Aaron", 'Aaron is a prophet.\nHe was "old".'),
        Passage("1", 'The "Ant"', '"Ants" are small.'),
        Passage("2", '"', "A title of one quote."),
    ]
    path.write_text('{"id": "0", "contents": "\\"Title\\""}\n')
    with pytest.raises(
        InputError,
        match=r"line 1: expected a title in the first line .* Set corpus.parser.title_line=false",
    ):
        list(JsonlCorpus(str(path), text="contents", title_line=True))
    with pytest.raises(ConfigError, match="set title='head' or title_line=true, not both"):
        JsonlCorpus(str(path), title="head", title_line=True)
