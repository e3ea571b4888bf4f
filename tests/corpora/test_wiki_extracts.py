"""Wikipedia extracts."""

import json
from collections.abc import Iterable
from pathlib import Path

from winnow.corpora.wiki_extracts import WikiExtracts
from winnow.records import Passage


def rows(passages: Iterable[Passage]) -> list[tuple[str, str, str]]:
    return [(p.passage_id, p.title, p.text) for p in passages]


def test_wiki_extracts_split_a_page(tmp_path: Path) -> None:
    """A page becomes passages of its id; a page without text has none."""
    lines = [
        {"id": "12", "title": "Anarchism", "text": "a b c"},
        {"id": "13", "title": "Redirect", "text": ""},
    ]
    (tmp_path / "wiki_00").write_text("\n".join(map(json.dumps, lines)))
    assert rows(WikiExtracts(str(tmp_path), words=2)) == [
        ("12#0", "Anarchism", "a b"),
        ("12#1", "Anarchism", "c"),
    ]
    assert rows(WikiExtracts(str(tmp_path), words=None)) == [("12#0", "Anarchism", "a b c")]
