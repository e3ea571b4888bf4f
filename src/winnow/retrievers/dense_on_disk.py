"""Dense retrieval over millions of passages from an index whose lists and vectors stay on disk."""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from winnow.artifacts.files import atomic_write
from winnow.errors import ConfigError
from winnow.identity.markers import SearchOnly
from winnow.identity.values import check_values
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Question
from winnow.retrievers.passage_ids import PassageIds, write_passage_ids
from winnow.retrievers.vector_blocks import (
    SelectBlock,
    VectorBlocks,
    read_passage_ids,
    sample_vectors,
    select_all,
)

_QUESTIONS_AT_ONCE = 64
"""Number of questions rescored at once, at 1.5 MB each for 1,000 candidates of 384 dimensions."""


@dataclass(frozen=True, slots=True)
class DenseOnDisk:
    """A retriever that finds candidates by codes in the nearest lists and rescores them by vectors.

    The codes, the lists and the 16-bit vectors are memory-mapped files, so that a search needs
    little memory of its own, however large the corpus is. The inner products of the hits are those
    of the 16-bit vectors.

    Args:
        encoder: Encoder of questions and passages. With normalize=True, the inner product is the
            cosine similarity.
        lists: Number of inverted lists. By default four times the square root of the number of
            passages, but not more than one for 39 passages of the training sample, as FAISS
            recommends.
        codes: FAISS's name of the codes: "RaBitQ" (1 bit per dimension), "RaBitQ2", "RaBitQ4" or
            "SQ8" (8 bits).
        nprobe: Number of inverted lists to visit per query.
        candidates: Number of candidates per hit that is asked for. They are rescored by their
            vectors.
        max_training_vectors: Maximum number of vectors, drawn from all blocks, on which the lists
            are trained.
        block_size: Number of passages per block. An interrupted build resumes after the last
            complete block.
        seed: Seed of the training sample.
    """

    revision: ClassVar[int] = 1

    encoder: SentenceEncoder
    lists: Annotated[int, Ge(1)] | None = None
    codes: str = "RaBitQ2"
    nprobe: Annotated[int, Ge(1), SearchOnly] = 64
    candidates: Annotated[int, Ge(1), SearchOnly] = 10
    max_training_vectors: Annotated[int, Ge(1)] = 500_000
    block_size: Annotated[int, Ge(1)] = 50_000
    seed: Annotated[int, Ge(0)] = 13

    def __post_init__(self) -> None:
        check_values("retriever.engine", self)

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Encode the corpus, train the lists on a sample, add each block and merge them on disk."""
        import faiss
        from faiss.contrib.ondisk import merge_ondisk

        blocks = self.build_blocks(passages, folder)
        trained_path, parts = folder / "trained.faiss", folder / "parts"
        if trained_path.is_file() and any(
            block.stat().st_mtime_ns > trained_path.stat().st_mtime_ns for block in blocks
        ):
            trained_path.unlink()  # of an interrupted build whose blocks were encoded again since
        if not trained_path.is_file():
            shutil.rmtree(parts, ignore_errors=True)
            sample = sample_vectors(blocks, self.max_training_vectors, self.seed)
            total = sum(len(np.load(block, mmap_mode="r")) for block in blocks)
            self._write_index(
                self._train(sample, self.lists or _choose_number_of_lists(total, len(sample))),
                trained_path,
            )
        parts.mkdir(exist_ok=True)
        first, files = 0, []
        for block in blocks:
            files.append(parts / f"{block.stem}.faiss")
            vectors = np.load(block, mmap_mode="r")
            if not files[-1].is_file():
                part = faiss.read_index(str(trained_path))
                part.add_with_ids(
                    vectors.astype(np.float32), np.arange(first, first + len(vectors))
                )
                self._write_index(part, files[-1])
            first += len(vectors)
        index = faiss.read_index(str(trained_path))
        lists = folder / "lists.ivfdata"
        merge_ondisk(index, [str(file) for file in files], str(lists))
        inverted_lists: Any = faiss.downcast_InvertedLists(faiss.extract_index_ivf(index).invlists)  # type: ignore[arg-type]
        inverted_lists.filename = lists.name  # the index is then the same in every folder
        self._write_index(index, folder / "index.faiss")
        write_passage_ids(folder / "passage_ids.arrow", read_passage_ids(blocks))
        shutil.rmtree(parts)
        trained_path.unlink()
        for block in blocks:
            block.with_suffix(".json").unlink()

    def build_blocks(
        self, passages: PassageSource, folder: Path, select: SelectBlock = select_all
    ) -> list[Path]:
        """Encode the selected blocks of the corpus, and return the files of their vectors."""
        return VectorBlocks(self.encoder, folder / "vectors", self.block_size).encode(
            passages, select
        )

    def open(self, folder: Path) -> Searcher:
        """Open the index, the ids and the vectors with memory mapping."""
        import faiss

        index: Any = faiss.read_index(
            str(folder / "index.faiss"), faiss.IO_FLAG_READ_ONLY | faiss.IO_FLAG_ONDISK_SAME_DIR
        )
        index.nprobe = self.nprobe
        blocks = [
            np.load(file, mmap_mode="r") for file in sorted((folder / "vectors").glob("*.npy"))
        ]
        return _OnDiskSearcher(self, index, PassageIds(folder / "passage_ids.arrow"), blocks)

    def _train(self, sample: NDArray[np.float32], lists: int) -> Any:
        """Return an empty index whose lists are trained on the sample."""
        import faiss

        factory = f"IVF{lists},{self.codes}"
        try:
            index = faiss.index_factory(sample.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise ConfigError(
                f"retriever.engine.codes={self.codes!r} is not a name of codes of FAISS. Use "
                "RaBitQ, RaBitQ2, RaBitQ4 or SQ8."
            ) from error
        try:
            index.train(sample)
        except RuntimeError as error:
            raise ConfigError(
                f"retriever.engine.lists={lists}: so many lists cannot be trained on {len(sample)} "
                "passages. Use fewer."
            ) from error
        return index

    def _write_index(self, index: Any, path: Path) -> None:
        import faiss

        with atomic_write(path) as partial:
            faiss.write_index(index, str(partial))


def _choose_number_of_lists(passages: int, sample: int) -> int:
    return max(1, min(round(4 * math.sqrt(passages)), sample // 39))


@dataclass(frozen=True, slots=True)
class _OnDiskSearcher:
    """An open index, whose row n is vector n of the blocks and passage `passage_ids.get(n)`."""

    retriever: DenseOnDisk
    index: Any
    passage_ids: PassageIds
    blocks: Sequence[NDArray[np.float16]]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return up to `depth` passages per question, best first."""
        return self._search(
            self.retriever.encoder.encode_queries([question.text for question in questions]), depth
        )

    def search_averages(
        self, texts: Sequence[tuple[str, Sequence[str]]], depth: int
    ) -> list[list[Hit]]:
        """Return up to `depth` passages per average vector of a query and its texts, best first."""
        return self._search(self.retriever.encoder.encode_averages(texts), depth)

    def _search(self, vectors: NDArray[np.float32], depth: int) -> list[list[Hit]]:
        rankings = []
        for start in range(0, len(vectors), _QUESTIONS_AT_ONCE):
            batch = vectors[start : start + _QUESTIONS_AT_ONCE]
            _, rows = self.index.search(
                batch, min(depth * self.retriever.candidates, len(self.passage_ids))
            )
            scores = self._rescore(batch, rows)
            rankings += [self._build_hits(*pair, depth) for pair in zip(rows, scores, strict=True)]
        return rankings

    def _rescore(
        self, queries: NDArray[np.float32], rows: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Compute the inner products of queries (queries, dimensions) and rows (queries,
        candidates); -inf for row -1.
        """
        candidates = np.zeros((*rows.shape, queries.shape[1]), dtype=np.float32)
        ends = np.cumsum([len(block) for block in self.blocks])
        numbers = np.searchsorted(ends, rows, side="right")
        for number in np.unique(numbers[rows >= 0]):
            is_in_block = (numbers == number) & (rows >= 0)
            block = self.blocks[number]
            candidates[is_in_block] = block[rows[is_in_block] - (ends[number] - len(block))]
        scores = np.einsum("qd,qcd->qc", queries, candidates)
        return np.where(rows >= 0, scores, -np.inf).astype(np.float32)

    def _build_hits(
        self, rows: NDArray[np.int64], scores: NDArray[np.float32], depth: int
    ) -> list[Hit]:
        """Build the hits of one question, of which ties are in the order of the corpus."""
        order = np.lexsort((rows, -scores))[:depth]
        return [
            Hit(self.passage_ids.get(int(rows[n])), float(scores[n])) for n in order if rows[n] >= 0
        ]
