"""Dense retrieval with a sentence encoder and a FAISS index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from winnow.artifacts.files import atomic_write
from winnow.artifacts.parquet import batched
from winnow.errors import ConfigError
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.protocols import PassageSource, Searcher
from winnow.records import Hit, Passage, Question


@dataclass(frozen=True, slots=True)
class Dense:
    """A retriever that ranks passages by the inner product of question and passage vectors.

    Args:
        encoder: Encoder of questions and passages. With normalise=True, the inner product is the cosine similarity.
        index_factory: FAISS index factory string, such as "Flat", "HNSW32" or "IVF4096,PQ64".
        nprobe: Number of inverted lists to visit per query (IVF only).
        ef_search: Number of candidates that a search keeps (HNSW only).
        max_training_vectors: Maximum number of vectors on which IVF and PQ are trained.
        shard_size: Number of passages per shard, a file of vectors that is kept until the index is built. An interrupted build
            resumes after the last complete shard.
        gpu: Whether to train and search the index on the GPU. This requires faiss-gpu.

    """

    revision: ClassVar[int] = 1
    speed_only: ClassVar[Mapping[str, str]] = {"gpu": "the search is the same on every device"}

    encoder: SentenceEncoder
    index_factory: str = "Flat"
    nprobe: int = 64
    ef_search: int = 128
    max_training_vectors: int = 1_000_000
    shard_size: int = 50_000
    gpu: bool = False

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Encode the corpus into shards of vectors on disk, train the index on a sample, and add all vectors."""
        import faiss

        shard_folder = folder / "vectors"
        shard_folder.mkdir(parents=True, exist_ok=True)
        shards = [
            self._encode_shard(shard_folder, shard_index, batch)
            for shard_index, batch in enumerate(batched(passages(), self.shard_size))
        ]
        if not shards:
            raise ConfigError("The corpus is empty, so that no index can be built. Choose a corpus with passages.")
        index = self._train_index(self._sample_vectors(shards))
        for shard in shards:
            index.add(np.load(shard, mmap_mode="r").astype(np.float32))
        if self.gpu:
            index = faiss.index_gpu_to_cpu(index)
        with atomic_write(folder / "index.faiss") as partial:
            faiss.write_index(index, str(partial))
        id_files = [shard.with_suffix(".json") for shard in shards]
        passage_ids = [passage_id for id_file in id_files for passage_id in json.loads(id_file.read_text())]
        (folder / "passage_ids.json").write_text(json.dumps(passage_ids))
        for file in [*shards, *id_files]:
            file.unlink()
        shard_folder.rmdir()

    def open(self, folder: Path) -> Searcher:
        """Open the index, with memory mapping if FAISS supports it for this kind of index."""
        import faiss

        index = faiss.read_index(str(folder / "index.faiss"), faiss.IO_FLAG_MMAP)
        if self.gpu:
            index = faiss.index_cpu_to_all_gpus(index)
        self._set_search_parameters(index)
        passage_ids = json.loads((folder / "passage_ids.json").read_text())
        return _DenseSearcher(self.encoder, index, passage_ids)

    def _encode_shard(self, folder: Path, shard_index: int, passages: Sequence[Passage]) -> Path:
        """Encode passages and write their vectors to a file, unless an interrupted build has already written it.

        Returns:
            Path of the file.

        """
        vectors_file = folder / f"{shard_index:05d}.npy"
        id_file = vectors_file.with_suffix(".json")
        passage_ids = [passage.passage_id for passage in passages]
        if vectors_file.is_file() and id_file.is_file() and json.loads(id_file.read_text()) == passage_ids:
            return vectors_file
        vectors = self.encoder.encode_passages(passages)
        with atomic_write(vectors_file, required_bytes=2 * vectors.nbytes) as partial, partial.open("wb") as stream:
            np.save(stream, vectors.astype(np.float16))
        with atomic_write(id_file, required_bytes=2**20) as partial:
            partial.write_text(json.dumps(passage_ids))
        return vectors_file

    def _sample_vectors(self, shards: Sequence[Path]) -> NDArray[np.float32]:
        """Load a training sample, which consists of the first vectors of every shard."""
        vectors_per_shard = max(1, self.max_training_vectors // len(shards))
        samples = [np.load(shard, mmap_mode="r")[:vectors_per_shard] for shard in shards]
        return np.concatenate(samples).astype(np.float32)

    def _train_index(self, sample: NDArray[np.float32]) -> Any:
        """Build an empty index and train it on a sample of the vectors."""
        import faiss

        try:
            index = faiss.index_factory(sample.shape[1], self.index_factory, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise ConfigError(
                f"retriever.engine.index_factory={self.index_factory!r} is not a FAISS factory string. "
                "Try Flat, HNSW32 or IVF4096,PQ64."
            ) from error
        if self.gpu:
            index = faiss.index_cpu_to_all_gpus(index)
        try:
            index.train(sample)
        except RuntimeError as error:
            raise ConfigError(
                f"retriever.engine.index_factory={self.index_factory!r} cannot be trained on {len(sample)} "
                "passages. Use fewer inverted lists, or the index_factory Flat."
            ) from error
        return index

    def _set_search_parameters(self, index: Any) -> None:
        """Set the search parameters of IVF and HNSW indexes, also if another FAISS index wraps them."""
        inner_index = getattr(index, "index", index)
        if hasattr(inner_index, "nprobe"):
            inner_index.nprobe = self.nprobe
        if hasattr(inner_index, "hnsw"):
            inner_index.hnsw.efSearch = self.ef_search


@dataclass(frozen=True, slots=True)
class _DenseSearcher:
    """An open dense index. The n-th vector of the index belongs to the passage `passage_ids[n]`."""

    encoder: SentenceEncoder
    index: Any
    passage_ids: list[str]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return up to `depth` passages per question, best first."""
        vectors = self.encoder.encode_queries([question.text for question in questions])
        scores, rows = self.index.search(vectors, min(depth, len(self.passage_ids)))
        return [
            self._build_hits(question_rows, question_scores)
            for question_rows, question_scores in zip(rows, scores, strict=True)
        ]

    def _build_hits(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> list[Hit]:
        """Build the hits of one question. FAISS returns row -1 if it finds fewer passages than requested."""
        return [Hit(self.passage_ids[int(row)], float(score)) for row, score in zip(rows, scores, strict=True) if row >= 0]
