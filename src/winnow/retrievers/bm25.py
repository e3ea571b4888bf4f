"""BM25 retrieval by bm25s, which searches a memory-mapped sparse score matrix on all CPU cores."""

from __future__ import annotations

import json
import logging
import os
import re
import unicodedata
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from winnow.artifacts.parquet import batched
from winnow.artifacts.sequences import LazySequence
from winnow.errors import ConfigError
from winnow.formats.scripts import CHARACTERS, LANGUAGES, list_marks
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Question

_CHARACTERS_OR_WORDS = rf"[{CHARACTERS}]|[^\W{CHARACTERS}]+"
"""Pattern of the tokens of texts in scripts without spaces."""
_STEMMED = (
    "danish", "dutch", "english", "french", "german", "italian", "norwegian", "portuguese",
    "russian", "spanish", "swedish", "turkish",
)  # fmt: skip
"""Languages with stop words and a stemmer."""
_BLOCK = 20_000
"""Number of passages whose texts are in memory at once."""


@dataclass(frozen=True, slots=True)
class BM25:
    """Lucene's variant of BM25 over title and text, with stop words and Snowball stemming.

    Words of one character are left out, as bm25s does by default, but not of the languages without
    spaces. Tantivy keeps them.

    Args:
        k1: Saturation of the term frequency. A larger value increases the effect of repeated terms.
        b: Strength of the length normalization, from 0 to 1.
        language: Language of the stop words and the stemmer. In chinese, japanese, thai, lao, khmer
            and burmese, which put no spaces between words, each character is a token, in addition
            to the words of other scripts.
    """

    revision: ClassVar[int] = 4

    k1: float = 1.5
    b: float = 0.75
    language: str = "english"

    def __post_init__(self) -> None:
        if self.language not in (*LANGUAGES, *_STEMMED):
            raise ConfigError(
                f"BM25 has no language {self.language!r}; it has "
                f"{', '.join(sorted((*LANGUAGES, *_STEMMED)))}."
            )
        if self.k1 <= 0 or not 0 <= self.b <= 1:
            raise ConfigError(
                f"BM25 needs k1 > 0 and 0 <= b <= 1; received k1={self.k1}, b={self.b}."
            )

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Index the corpus, of which a block of texts and the numbers of all tokens are in memory.

        The scores of all tokens are in memory too. Altogether, a passage of 100 words takes about 3
        kB while it is indexed.
        """
        bm25s = _import_bm25s()
        passage_ids: list[str] = []
        tokens = _TokenNumbers()
        for block in batched(passages(), _BLOCK):
            passage_ids += [passage.passage_id for passage in block]
            tokens.add(self._tokenize([f"{passage.title} {passage.text}" for passage in block]))
        if not tokens.vocabulary:
            raise ConfigError(
                f"The corpus has no word of the language {self.language!r}, so that no index can "
                "be built. Choose another corpus, or another retriever.engine.language."
            )
        index = bm25s.BM25(k1=self.k1, b=self.b)
        index.index(bm25s.tokenization.Tokenized(tokens, tokens.vocabulary), show_progress=False)
        folder.mkdir(parents=True, exist_ok=True)
        index.save(str(folder), show_progress=False)
        (folder / "passage_ids.json").write_text(json.dumps(passage_ids))

    def open(self, folder: Path) -> Searcher:
        """Open the index as a memory map."""
        index = _import_bm25s().BM25.load(str(folder), mmap=True)
        passage_ids = json.loads((folder / "passage_ids.json").read_text())
        return _BM25Searcher(self, index, passage_ids)

    def _tokenize(self, texts: list[str]) -> Any:
        """Split texts into stemmed tokens without stop words, in the representation of bm25s."""
        texts = [unicodedata.normalize("NFC", text).lower() for text in texts]
        if self.language in LANGUAGES:
            return _import_bm25s().tokenize(
                texts, token_pattern=_CHARACTERS_OR_WORDS, stopwords=[], show_progress=False
            )
        import Stemmer

        stemmer = Stemmer.Stemmer(self.language)
        return _import_bm25s().tokenize(
            texts,
            token_pattern=_choose_pattern(texts),
            stopwords=self.language,
            stemmer=stemmer,
            show_progress=False,
        )


def _choose_pattern(texts: Sequence[str]) -> str:
    """Return the pattern of a word of two characters or more; marks, which take it three times as
    long, are part of it if a text has any.
    """
    marks = list_marks()
    has_marks = any(not text.isascii() and re.search(f"[{marks}]", text) for text in texts)
    return rf"\w[\w{marks}]+" if has_marks else r"\w\w+"


@dataclass(frozen=True, slots=True)
class _BM25Searcher:
    """An open BM25 index. The n-th row of the index is the passage `passage_ids[n]`."""

    retriever: BM25
    index: Any
    passage_ids: list[str]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return up to `depth` passages per question that share a term with it, best first."""
        tokens = self.retriever._tokenize([question.text for question in questions])
        words = {number: word for word, number in tokens.vocab.items()}

        def search_one(numbers: Sequence[int]) -> list[Hit]:
            terms = [words[number] for number in numbers if words[number]]
            if not terms:
                return []
            scores = self.index.get_scores(terms)
            rows = select_best(scores, depth)
            return [
                Hit(self.passage_ids[row], score)
                for row, score in zip(rows.tolist(), scores[rows].tolist(), strict=True)
            ]

        with ThreadPoolExecutor() as threads:
            return list(threads.map(search_one, tokens.ids))


def select_best(scores: NDArray[np.float32], depth: int) -> NDArray[np.int64]:
    """Return rows with the `depth` highest positive scores, best first, ties in ascending order.

    `bm25s` itself selects them by numpy, numba or JAX, whichever is installed, which order equal
    scores differently.
    """
    rows: NDArray[np.int64] = np.flatnonzero(scores > 0)
    if len(rows) > depth:
        lowest = np.partition(scores[rows], -depth)[-depth]
        rows = rows[scores[rows] >= lowest]
    best: NDArray[np.int64] = rows[np.argsort(-scores[rows], kind="stable")][:depth]
    return best


def _import_bm25s() -> Any:
    """Import bm25s, and keep JAX, if installed, from taking three quarters of a GPU's memory."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import bm25s

    logging.getLogger("bm25s").setLevel(
        logging.WARNING
    )  # it logs each step of an index as a debug message
    return bm25s


class _TokenNumbers(LazySequence[list[int]]):
    """Each passage's token numbers, in one array instead of bm25s's list of numbers per passage.

    Attributes:
        vocabulary: Number of each token.
    """

    def __init__(self) -> None:
        self.vocabulary: dict[str, int] = {}
        self._numbers = array("i")
        self._ends = array("q", [0])

    def add(self, tokens: Any) -> None:
        """Add a block of passages as bm25s tokenizes them, numbered by the block's vocabulary."""
        for token in sorted(tokens.vocab):
            self.vocabulary.setdefault(token, len(self.vocabulary))
        numbers = {number: self.vocabulary[token] for token, number in tokens.vocab.items()}
        for passage_tokens in tokens.ids:
            self._numbers.extend(map(numbers.__getitem__, passage_tokens))
            self._ends.append(len(self._numbers))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def read(self, index: int) -> list[int]:
        return self._numbers[self._ends[index] : self._ends[index + 1]].tolist()
