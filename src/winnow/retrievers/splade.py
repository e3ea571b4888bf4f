"""Learned sparse retrieval: SPLADE's vectors in an inverted index (Formal et al., 2021)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray
from scipy.sparse import load_npz

from winnow.identity.markers import SpeedOnly
from winnow.identity.values import check_values
from winnow.modeling.splade_encoder import SpladeEncoder
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Question
from winnow.retrievers.bm25 import select_best
from winnow.retrievers.passage_ids import PassageIds, write_passage_ids
from winnow.retrievers.vector_blocks import SelectBlock, VectorBlocks, read_passage_ids, select_all


@dataclass(frozen=True, slots=True)
class Splade:
    """A retriever that ranks passages by the inner product of sparse question and passage vectors.

    The index has, for each term, the rows of its passages and their weights, in files that are
    memory-mapped, so that a search reads the terms of the question alone. A passage takes about 1.5
    kB (200 terms).

    Args:
        encoder: Encoder of questions and passages.
        block_size: Number of passages per block, a file of vectors that is kept until the index is
            built. An interrupted build resumes after the last complete block.
    """

    revision: ClassVar[int] = 1

    encoder: SpladeEncoder
    block_size: Annotated[int, Ge(1), SpeedOnly("the index has the vectors of all blocks")] = 50_000

    def __post_init__(self) -> None:
        check_values("retriever.engine", self)

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Encode the corpus into blocks on disk, and join them to an index."""
        blocks = self.build_blocks(passages, folder)
        _write_index(blocks, folder)
        write_passage_ids(folder / "passage_ids.arrow", read_passage_ids(blocks))
        shutil.rmtree(blocks[0].parent)

    def build_blocks(
        self, passages: PassageSource, folder: Path, select: SelectBlock = select_all
    ) -> list[Path]:
        """Encode the selected blocks of the corpus, and return the files of their vectors."""
        return VectorBlocks(self.encoder, folder / "vectors", self.block_size).encode(
            passages, select
        )

    def open(self, folder: Path) -> Searcher:
        """Open the index with memory mapping."""
        starts = np.load(folder / "starts.npy")
        rows, weights = (
            np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("rows", "weights")
        )
        return _SpladeSearcher(
            self.encoder, starts, rows, weights, PassageIds(folder / "passage_ids.arrow")
        )


def _write_index(blocks: Sequence[Path], folder: Path) -> None:
    """Write passage rows and weights by term: entries starts[n] to starts[n + 1] are of term n."""
    counts = sum(
        np.bincount(block.indices, minlength=block.shape[1]) for block in map(load_npz, blocks)
    )
    starts = np.concatenate([[0], np.cumsum(counts)])
    np.save(folder / "starts.npy", starts)
    rows, weights = (
        np.lib.format.open_memmap(folder / f"{name}.npy", "w+", dtype, (int(starts[-1]),))
        for name, dtype in (("rows", np.int32), ("weights", np.float32))
    )
    first_row, next_entries = 0, starts[:-1].copy()
    for file in blocks:
        block = load_npz(file).tocsc()
        num_entries = np.diff(block.indptr)
        entries = np.repeat(next_entries - block.indptr[:-1], num_entries) + np.arange(block.nnz)
        rows[entries], weights[entries] = first_row + block.indices, block.data
        first_row += block.shape[0]
        next_entries += num_entries
    rows.flush()
    weights.flush()


@dataclass(frozen=True, slots=True)
class _SpladeSearcher:
    """An open index. The n-th row of the index is the passage `passage_ids[n]`."""

    encoder: SpladeEncoder
    starts: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[np.float32]
    passage_ids: PassageIds

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return up to `depth` passages per question that share a term with it, best first."""
        vectors = self.encoder.encode_queries([question.text for question in questions])

        def search_one(number: int) -> list[Hit]:
            query = vectors[[number]]
            scores = np.zeros(len(self.passage_ids), dtype=np.float32)
            for term, weight in zip(query.indices, query.data, strict=True):
                entries = slice(self.starts[term], self.starts[term + 1])
                scores[self.rows[entries]] += weight * self.weights[entries]
            best = select_best(scores, depth)
            return [Hit(self.passage_ids.get(row), float(scores[row])) for row in best.tolist()]

        with ThreadPoolExecutor() as threads:
            return list(threads.map(search_one, range(len(questions))))
