"""BM25 by bm25s: a sparse matrix of scores, memory-mapped and searched on all cores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from winnow.errors import ConfigError
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Question


@dataclass(frozen=True, slots=True)
class BM25:
    """Lucene's BM25 over title and text, with English stop words and Snowball stems."""

    k1: float = 1.5
    b: float = 0.75
    language: str = "english"

    def __post_init__(self) -> None:
        """Refuse parameters out of range."""
        if self.k1 <= 0 or not 0 <= self.b <= 1:
            raise ConfigError(f"BM25 needs k1 > 0 and 0 <= b <= 1; received k1={self.k1}, b={self.b}.")

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Index the corpus; bm25s keeps all texts and tokens in memory meanwhile (about 2 kB per passage)."""
        import bm25s

        ids: list[str] = []

        def texts() -> Any:
            for passage in passages():
                ids.append(passage.passage_id)
                yield f"{passage.title} {passage.text}"

        tokens = self._tokens(list(texts()))
        index = bm25s.BM25(k1=self.k1, b=self.b)
        index.index(tokens, show_progress=False)
        folder.mkdir(parents=True, exist_ok=True)
        index.save(str(folder), show_progress=False)
        (folder / "passage_ids.json").write_text(json.dumps(ids))

    def open(self, folder: Path) -> Searcher:
        """Open the index, memory-mapped."""
        import bm25s

        index = bm25s.BM25.load(str(folder), mmap=True)
        return _BM25Searcher(self, index, json.loads((folder / "passage_ids.json").read_text()))

    def _tokens(self, texts: list[str]) -> Any:
        import bm25s
        import Stemmer

        return bm25s.tokenize(texts, stopwords=self.language, stemmer=Stemmer.Stemmer(self.language), show_progress=False)


@dataclass(frozen=True, slots=True)
class _BM25Searcher:
    settings: BM25
    index: Any
    ids: list[str]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the best `depth` passages per question; passages that share no term with it are left out."""
        tokens = self.settings._tokens([question.text for question in questions])
        depth = min(depth, len(self.ids))
        rows, scores = self.index.retrieve(tokens, k=depth, show_progress=False, n_threads=-1)
        return [
            [Hit(self.ids[row], float(score)) for row, score in zip(r, s, strict=True) if score > 0]
            for r, s in zip(np.asarray(rows).tolist(), np.asarray(scores), strict=True)
        ]
