"""BEIR corpora."""

from collections.abc import Iterable
from pathlib import Path

from winnow.corpora.beir import BeirCorpus
from winnow.records import Passage


def rows(passages: Iterable[Passage]) -> list[tuple[str, str, str]]:
    return [(p.passage_id, p.title, p.text) for p in passages]


def test_beir_corpus(tmp_path: Path) -> None:
    """A document without text is its title."""
    (tmp_path / "c.jsonl").write_text(
        '{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "title": "U", "text": ""}\n'
    )
    assert rows(BeirCorpus(str(tmp_path / "c.jsonl"))) == [("d1", "T", "x"), ("d2", "U", "U")]
    (tmp_path / "c.jsonl").write_text('{"_id": "d1", "title": null, "text": "x"}\n')
    assert rows(BeirCorpus(str(tmp_path / "c.jsonl"))) == [("d1", "", "x")]
