"""Plain text."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from winnow.corpora.plain_text import PlainText, split_words
from winnow.errors import ConfigError, InputError
from winnow.records import Passage


def rows(passages: Iterable[Passage]) -> list[tuple[str, str, str]]:
    return [(p.passage_id, p.title, p.text) for p in passages]


def test_plain_text_splits_without_overlap(tmp_path: Path) -> None:
    """Five words at two a passage: 2, 2, 1; words cross line ends; titles are file names."""
    (tmp_path / "a.txt").write_text("one two three\nfour five\n")
    assert rows(PlainText(str(tmp_path), words=2)) == [
        ("a#0", "a", "one two"),
        ("a#1", "a", "three four"),
        ("a#2", "a", "five"),
    ]
    assert [len(p.split()) for p in split_words(iter(["w"] * 250), 100)] == [100, 100, 50]
    with pytest.raises(InputError, match="No file in"):
        list(PlainText(str(tmp_path), pattern="*.md"))
    with pytest.raises(ConfigError, match="at least 1"):
        PlainText("x", words=0)
