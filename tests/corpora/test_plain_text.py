"""Plain text."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from winnow.corpora.plain_text import PlainText
from winnow.errors import ConfigError, InputError
from winnow.formats.scripts import split_words
from winnow.records import Passage


def rows(passages: Iterable[Passage]) -> list[tuple[str, str, str]]:
    return [(p.passage_id, p.title, p.text) for p in passages]


def test_plain_text_splits_without_overlap(tmp_path: Path) -> None:
    """Five words at two a passage: 2, 2, 1; words cross line ends; there is no title."""
    (tmp_path / "a.txt").write_text("one two three\nfour five\n")
    assert rows(PlainText(str(tmp_path), words=2)) == [
        ("a#0", "", "one two"),
        ("a#1", "", "three four"),
        ("a#2", "", "five"),
    ]
    assert [len(p.split()) for p in split_words(["w"] * 250, 100)] == [100, 100, 50]
    with pytest.raises(InputError, match="No file in"):
        list(PlainText(str(tmp_path), pattern="*.md"))
    with pytest.raises(ConfigError, match="at least 1"):
        PlainText("x", words=0)


def test_titles_are_first_lines_or_file_names(tmp_path: Path) -> None:
    """The first line is then no part of the text; an empty file has no passage."""
    (tmp_path / "a_1.txt").write_text("\n A heading \n\none two\nthree\n")
    (tmp_path / "empty.txt").write_text("")
    assert rows(PlainText(str(tmp_path), words=2, title="first_line")) == [
        ("a_1#0", "A heading", "one two"),
        ("a_1#1", "A heading", "three"),
    ]
    assert rows(PlainText(str(tmp_path), words=9, title="file_name")) == [
        ("a_1#0", "a_1", "A heading one two three")
    ]


def test_hidden_files_are_no_passages(tmp_path: Path) -> None:
    """Nor are folders whose names match."""
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "a.txt").write_text("old")
    (tmp_path / "._a.txt").write_text("x")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "a.txt").write_text("new")
    assert [passage.text for passage in PlainText(str(tmp_path))] == ["new"]


def test_files_behind_links_are_passages(tmp_path: Path) -> None:
    """As they are part of the key; each folder once, and a pattern may name folders."""
    (tmp_path / "texts/sub").mkdir(parents=True)
    (tmp_path / "disk").mkdir()
    for name in ("texts/one.txt", "texts/sub/two.txt", "disk/three.txt"):
        (tmp_path / name).write_text("words")
    (tmp_path / "texts/linked").symlink_to(tmp_path / "disk")
    (tmp_path / "disk/again").symlink_to(tmp_path / "texts")

    def read(pattern: str) -> list[str]:
        parser = PlainText(str(tmp_path / "texts"), pattern=pattern)
        return [passage.passage_id for passage in parser]

    assert read("*.txt") == read("**/*.txt") == ["linked/three#0", "one#0", "sub/two#0"]
    assert read("sub/*.txt") == read("sub/**/*.txt") == ["sub/two#0"]


def test_scripts_without_spaces_are_split_by_characters() -> None:
    """Words of other scripts stay whole, and spaces stay where they were."""
    assert list(split_words(["東京は日本の首都", "です。"], 5)) == [
        "東京は日本",
        "の首都 です",
        "。",
    ]
    assert list(split_words(["FIFA 2020年 大会"], 3)) == ["FIFA 2020年", "大会"]
    assert list(split_words(["ab cd", "", "ef"], 2)) == ["ab cd", "ef"]


def test_one_line_of_chinese_is_several_passages(tmp_path: Path) -> None:
    """Without spaces a whole page would be one word."""
    (tmp_path / "a.txt").write_text("字" * 250)
    assert [len(passage.text) for passage in PlainText(str(tmp_path))] == [100, 100, 50]
