"""The stage that builds indexes says how far it is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flows import index
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_passage_rows
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.records import Passage
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.dense import Dense
from winnow.retrievers.hybrid import Hybrid
from winnow.testing import make_tiny_encoder


def test_encoded_passages_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the encoders of all parts of a retriever, whose passages are the total; an index without
    an encoder has none.
    """
    passages = [Passage(str(n), "T", "Paris is large. " * n) for n in range(1, 8)]
    parquet.write(tmp_path / "passages.parquet", contracts.CORPUS, build_passage_rows(passages))
    shown: list[tuple[str, int | None, list[int]]] = []

    @contextmanager
    def record(label: str, total: int | None) -> Iterator[Any]:
        shown.append((label, total, []))
        yield shown[-1][2].append

    monkeypatch.setattr(index, "progress", record)
    encoder = SentenceEncoder(
        str(make_tiny_encoder(tmp_path / "encoder", ["Paris is large."])), dtype="float32"
    )
    for number, retriever in enumerate(
        (Hybrid({"sparse": BM25(), "dense": Dense(encoder)}), BM25())
    ):
        with index._show_progress("indexing", retriever, tmp_path / "passages.parquet"):
            retriever.build(lambda: iter(passages), tmp_path / f"index{number}")
    (label, total, counts), (_, unknown, none) = shown
    assert (label, total) == ("indexing", 7)
    assert sum(counts) == 7
    assert (unknown, none) == (None, [])


def test_texts_that_were_cut_are_said(tmp_path: Path) -> None:
    """With their number, the setting and what to do."""
    passages = [Passage(str(n), "T", "Paris is large. " * n) for n in (1, 90, 99)]
    encoder = SentenceEncoder(
        str(make_tiny_encoder(tmp_path / "encoder", ["Paris is large."])),
        dtype="float32",
        max_length=256,
    )
    Dense(encoder).build(lambda: iter(passages), tmp_path / "index")
    (note,) = index._list_cut(Hybrid({"sparse": BM25(), "dense": Dense(encoder)}))
    assert note.startswith(
        "2 of the texts encoded in this run were cut at encoder.model.max_length=256"
    )
    assert list(index._list_cut(BM25())) == []
