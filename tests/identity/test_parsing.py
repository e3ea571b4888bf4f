"""What was parsed of a source file is kept next to its bytecode, for the same text alone."""

import json
import sys
from pathlib import Path

import pytest

from winnow.identity import parsing
from winnow.identity.parsing import ImportStatement, parse_text

SOURCE = "import numpy as np\nfrom ..text import normalize, words as w\nVALUE = 1\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source file, next to which Python may keep bytecode."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    return path


def test_imports_are_as_written(file: Path) -> None:
    """With the names that the file gives to them."""
    assert parse_text(file, compiles=False).runs == (
        (
            ImportStatement(None, 0, (("numpy", "np"),)),
            ImportStatement("text", 2, (("normalize", "normalize"), ("words", "w"))),
        ),
    )


@pytest.mark.parametrize("compiles", [False, True])
def test_the_same_text_is_parsed_once(
    file: Path, compiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is equal when it is read again; another text is parsed, even of the same length."""
    first = parse_text(file, compiles=compiles)
    with monkeypatch.context() as patch:
        patch.setattr(parsing, "_parse", None)
        assert parse_text(file, compiles=compiles) == first
    file.write_text(SOURCE.replace("1", "2"))
    assert parse_text(file, compiles=compiles).digest != first.digest


def test_the_two_digests_are_kept_apart(file: Path) -> None:
    """One file for each."""
    digests = [parse_text(file, compiles=one).digest for one in (False, True, False, True)]
    assert digests[:2] == digests[2:]
    assert digests[0] != digests[1]


def test_another_parser_reads_nothing_that_was_kept(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an edited one nor another version of Python."""
    first = parse_text(file, compiles=True)
    (kept,) = (file.parent / "__pycache__").glob("*.code.json")
    ((key, content),) = json.loads(kept.read_text()).items()
    kept.write_text(json.dumps({key: ["of a former parser", *content[1:]]}))
    assert parse_text(file, compiles=True).digest == "of a former parser"
    monkeypatch.setattr(parsing, "_identify_parser", lambda: "another")
    assert parse_text(file, compiles=True) == first


@pytest.mark.parametrize("damage", ["", "{", "[]", "null"])
def test_a_damaged_file_is_replaced(file: Path, damage: str) -> None:
    """The text is parsed again."""
    first = parse_text(file, compiles=True)
    (kept,) = (file.parent / "__pycache__").glob("*.code.json")
    kept.write_text(damage)
    assert parse_text(file, compiles=True) == first
    assert kept.read_text() != damage


def test_nothing_is_kept_where_python_keeps_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PYTHONDONTWRITEBYTECODE asks."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    parse_text(file, compiles=True)
    assert not (file.parent / "__pycache__").exists()
