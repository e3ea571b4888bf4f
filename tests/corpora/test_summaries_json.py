"""Article summaries."""

import json
from pathlib import Path

import pytest

from winnow.corpora.summaries_json import SummariesJson
from winnow.errors import InputError
from winnow.records import Passage


def test_summaries(tmp_path: Path) -> None:
    """Ids are positions; an article without text is named."""
    path = tmp_path / "s.json"
    path.write_text(
        json.dumps(
            {"A": {"title": "A", "extract": "text\nof A"}, "B": {"title": "B", "extract": " "}}
        )
    )
    passages = iter(SummariesJson(str(path)))
    assert next(passages) == Passage("0", "A", "text of A")
    with pytest.raises(InputError, match="article 'B'"):
        next(passages)


def test_an_article_without_a_title_has_that_of_its_key(tmp_path: Path) -> None:
    """An empty one has none; it is not the text "None"."""
    file = tmp_path / "s.json"
    file.write_text('{"a": {"extract": "x"}, "b": {"extract": "y", "title": null}}')
    assert [passage.title for passage in SummariesJson(str(file))] == ["a", ""]
