"""Dense retrieval with a sentence encoder and a FAISS index."""

from __future__ import annotations

import json
import logging
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
from winnow.identity.markers import SearchOnly, SpeedOnly
from winnow.identity.values import check_values
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Question
from winnow.retrievers.vector_blocks import (
    SelectBlock,
    VectorBlocks,
    read_passage_ids,
    sample_vectors,
    select_all,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Dense:
    """A retriever that ranks passages by the inner product of question and passage vectors.

    Args:
        encoder: Encoder of questions and passages. With normalize=True, the inner product is the
            cosine similarity.
        index_factory: FAISS index factory string, such as "Flat", "HNSW32" or "IVF4096,PQ64".
        nprobe: Number of inverted lists to visit per query (IVF only).
        ef_search: Number of candidates that a search keeps (HNSW only).
        max_training_vectors: Maximum number of vectors, drawn from all blocks, on which IVF and PQ
            are trained.
        block_size: Number of passages per block, a file of vectors that is kept until the index is
            built. An interrupted build resumes after the last complete block.
        gpu: Whether to search the index on the GPU, with the same passages (docs/gpu.md). This
            requires faiss-gpu.
        build_on_gpu: Whether to train the index and add the vectors on the GPU, which gives another
            index where it is trained.
    """

    revision: ClassVar[int] = 4

    encoder: SentenceEncoder
    index_factory: str = "Flat"
    nprobe: Annotated[int, Ge(1), SearchOnly] = 64
    ef_search: Annotated[int, Ge(1), SearchOnly] = 128
    max_training_vectors: Annotated[int, Ge(1)] = 1_000_000
    block_size: Annotated[int, Ge(1)] = 50_000
    gpu: Annotated[
        bool, SpeedOnly("on a GPU, only scores equal but for rounding change places")
    ] = False
    build_on_gpu: bool = False

    def __post_init__(self) -> None:
        check_values("retriever.engine", self)

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Encode the corpus into vector blocks, train the index on a sample and add all vectors."""
        import faiss

        blocks = self.build_blocks(passages, folder)
        index = self._train_index(sample_vectors(blocks, self.max_training_vectors, seed=0))
        for block in blocks:
            index.add(np.load(block, mmap_mode="r").astype(np.float32))
        if self.build_on_gpu:
            index = faiss.index_gpu_to_cpu(index)  # a copy if it stayed on the CPU
        with atomic_write(folder / "index.faiss") as partial:
            faiss.write_index(index, str(partial))
        passage_ids = [passage_id for ids in read_passage_ids(blocks) for passage_id in ids]
        (folder / "passage_ids.json").write_text(json.dumps(passage_ids))
        shutil.rmtree(blocks[0].parent)

    def build_blocks(
        self, passages: PassageSource, folder: Path, select: SelectBlock = select_all
    ) -> list[Path]:
        """Encode the selected blocks of the corpus, and return the files of their vectors."""
        return VectorBlocks(self.encoder, folder / "vectors", self.block_size).encode(
            passages, select
        )

    def open(self, folder: Path) -> Searcher:
        """Open the index, with memory mapping if FAISS supports it for this kind of index."""
        import faiss

        index = faiss.read_index(str(folder / "index.faiss"), faiss.IO_FLAG_MMAP)
        self._set_search_parameters(index)  # before the move, which copies them to every GPU
        if self.gpu:
            index = _move_to_gpus(index)
        passage_ids = json.loads((folder / "passage_ids.json").read_text())
        return _DenseSearcher(self.encoder, index, passage_ids)

    def _train_index(self, sample: NDArray[np.float32]) -> Any:
        """Build an empty index and train it on a sample of the vectors."""
        import faiss

        try:
            index = faiss.index_factory(
                sample.shape[1], self.index_factory, faiss.METRIC_INNER_PRODUCT
            )
        except RuntimeError as error:
            raise ConfigError(
                f"retriever.engine.index_factory={self.index_factory!r} is not a FAISS factory "
                "string. Try Flat, HNSW32 or IVF4096,PQ64."
            ) from error
        if self.build_on_gpu:
            index = _move_to_gpus(index)
        try:
            index.train(sample)
        except RuntimeError as error:
            raise ConfigError(
                f"retriever.engine.index_factory={self.index_factory!r} cannot be trained on "
                f"{len(sample)} passages. Use fewer inverted lists, or the index_factory Flat."
            ) from error
        return index

    def _set_search_parameters(self, index: Any) -> None:
        """Set the search parameters of IVF and HNSW indexes, even inside OPQ, PCA or RFlat."""
        import faiss

        inner: Any = index
        while inner is not None:
            inner = faiss.downcast_index(inner)
            if hasattr(inner, "nprobe"):
                inner.nprobe = self.nprobe
            if hasattr(inner, "hnsw"):
                inner.hnsw.efSearch = self.ef_search
            inner = getattr(inner, "base_index", None) or getattr(inner, "index", None)


def _move_to_gpus(index: Any) -> Any:
    """Return the index on all GPUs, or unchanged, with a warning, if FAISS has no GPU version.

    Raises:
        ConfigError: If this FAISS sees no GPU.
    """
    import faiss

    if not faiss.get_num_gpus():
        raise ConfigError(
            "retriever.engine.gpu=true or build_on_gpu=true, but FAISS sees no GPU. Install "
            "faiss-gpu (`make .venv/installed-gpu`) on a machine with one, or remove the setting."
        )
    try:
        return faiss.index_cpu_to_all_gpus(index)
    except RuntimeError as error:
        kind = type(faiss.downcast_index(index)).__name__
        _log.warning(
            "FAISS cannot search %s on a GPU; it stays on the CPU (%s).",
            kind,
            str(error).splitlines()[-1],
        )
        return index


@dataclass(frozen=True, slots=True)
class _DenseSearcher:
    """An open dense index. The n-th vector of the index belongs to the passage `passage_ids[n]`."""

    encoder: SentenceEncoder
    index: Any
    passage_ids: list[str]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return up to `depth` passages per question, best first.

        Ties are in the corpus's order; an approximate index may leave out some of them.
        """
        return self._search(
            self.encoder.encode_queries([question.text for question in questions]), depth
        )

    def search_averages(
        self, texts: Sequence[tuple[str, Sequence[str]]], depth: int
    ) -> list[list[Hit]]:
        """Return up to `depth` passages per average vector of a query and its texts, best first."""
        return self._search(self.encoder.encode_averages(texts), depth)

    def _search(self, vectors: NDArray[np.float32], depth: int) -> list[list[Hit]]:
        scores, rows = self.index.search(vectors, min(depth, len(self.passage_ids)))
        order = np.lexsort((rows, -scores), axis=-1)
        return [
            self._build_hits(question_rows[best_first], question_scores[best_first])
            for question_rows, question_scores, best_first in zip(rows, scores, order, strict=True)
        ]

    def _build_hits(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> list[Hit]:
        """Build a question's hits; FAISS gives row -1 if it finds fewer passages than requested."""
        return [
            Hit(self.passage_ids[int(row)], float(score))
            for row, score in zip(rows, scores, strict=True)
            if row >= 0
        ]
