"""RAGE's files: what is written is read, as JSON lines or Parquet, and bad files are refused with
their place.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from winnow.corpora.rage import RageCorpus
from winnow.datasets.rage import RageQueries
from winnow.errors import InputError
from winnow.formats.rage import KINDS, RelevanceMap, read_maps, write_rage_files
from winnow.records import Passage, Question

PASSAGES = [
    Passage("d1", "One", "First."),
    Passage("d2", "", "Second."),
    Passage("d3", "Only a title", ""),
]
QUESTIONS = [
    Question("q1", "who?", ("Ada", "Ada L."), ("d1",)),
    Question("q2", "what?", (), ("d2", "d1")),
]
MAPS = {
    "q1": RelevanceMap(("d1",), ("d3",), ("d2",)),
    "q2": RelevanceMap(("d2", "d1"), ("d3",), ()),
}


def test_files_are_written_and_read(tmp_path: Path) -> None:
    """Texts, titles and maps come back; short answers stand beside relevant documents only."""
    write_rage_files(tmp_path, QUESTIONS, PASSAGES, MAPS)
    assert read_maps(tmp_path) == MAPS
    assert [(q.question_id, q.text, q.gold_passage_ids) for q in RageQueries(str(tmp_path))] == [
        ("q1", "who?", ("d1",)),
        ("q2", "what?", ("d2", "d1")),
    ]
    assert list(RageCorpus(str(tmp_path))) == [
        *PASSAGES[:2],
        Passage("d3", "Only a title", "Only a title"),
    ]
    rows = [json.loads(line) for line in (tmp_path / "relevant.jsonl").read_text().splitlines()]
    assert rows[0] == {"query-id": "q1", "corpus-id": "d1", "short_answers": ["Ada", "Ada L."]}
    assert "short_answers" not in rows[1]


def test_parquet_is_read(tmp_path: Path) -> None:
    """The same tables in the hub's format, with a query that has no relevant document."""
    write_rage_files(tmp_path, QUESTIONS, PASSAGES, MAPS)
    for name in ("corpus", "queries", *KINDS):
        rows = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        rows += [{"_id": "q3", "text": "none?"}] if name == "queries" else []
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
        (tmp_path / f"{name}.jsonl").unlink()
    assert read_maps(tmp_path) == MAPS
    assert [question.question_id for question in RageQueries(str(tmp_path))] == ["q1", "q2"]
    assert len(list(RageCorpus(str(tmp_path)))) == 3


def test_bad_files_are_refused(tmp_path: Path) -> None:
    """A missing table, a missing column and a number in place of a text."""
    write_rage_files(tmp_path, QUESTIONS, PASSAGES, MAPS)
    (tmp_path / "irrelevant.jsonl").unlink()
    with pytest.raises(InputError, match=r"none of the files irrelevant\.jsonl"):
        read_maps(tmp_path)
    pq.write_table(pa.table({"query-id": ["q1"], "doc": ["d1"]}), tmp_path / "irrelevant.parquet")
    with pytest.raises(InputError, match=r"lacks the columns \['corpus-id'\]"):
        read_maps(tmp_path)
    pq.write_table(
        pa.table({"query-id": ["q1"], "corpus-id": [7]}), tmp_path / "irrelevant.parquet"
    )
    with pytest.raises(InputError, match="row 1"):
        read_maps(tmp_path)
    (tmp_path / "irrelevant.parquet").unlink()
    (tmp_path / "irrelevant.jsonl").write_text('{"query-id": "q1"}\n')
    with pytest.raises(InputError, match=r"irrelevant\.jsonl"):
        read_maps(tmp_path)
