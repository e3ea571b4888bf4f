"""Dense retrieval: a sentence encoder and a FAISS index named by its factory string."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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
    """Searches vectors by inner product.

    Args:
        encoder: of questions and passages; with normalise=True the inner product is the cosine.
        factory: "Flat", "HNSW32", "IVF4096,PQ64", ...: FAISS's index factory string.
        nprobe: inverted lists visited per query (IVF only).
        ef_search: breadth of the search (HNSW only).
        train_on: vectors that IVF and PQ are trained on, at most.
        shard: passages per saved shard of vectors; an interrupted run resumes after the last one.
        gpu: search and train on the GPU (needs faiss-gpu).

    """

    speed_only: ClassVar[Mapping[str, str]] = {"gpu": "the same search on another device"}

    encoder: SentenceEncoder
    factory: str = "Flat"
    nprobe: int = 64
    ef_search: int = 128
    train_on: int = 1_000_000
    shard: int = 50_000
    gpu: bool = False

    def build(self, passages: PassageSource, folder: Path) -> None:
        """Encode the corpus shard by shard (kept on disk), then train and fill the index."""
        import faiss

        shards = folder / "vectors"
        shards.mkdir(parents=True, exist_ok=True)
        names = [self._encode_shard(shards, n, rows) for n, rows in enumerate(batched(passages(), self.shard))]
        if not names:
            raise ConfigError("The corpus is empty; there is nothing to index.")
        index = self._make(self._sample(names))
        for name in names:
            index.add(np.load(name, mmap_mode="r").astype(np.float32))
        if self.gpu:
            index = faiss.index_gpu_to_cpu(index)
        with atomic_write(folder / "index.faiss") as partial:
            faiss.write_index(index, str(partial))
        ids = [json.loads(name.with_suffix(".json").read_text()) for name in names]
        (folder / "passage_ids.json").write_text(json.dumps([passage_id for shard_ids in ids for passage_id in shard_ids]))
        for name in [*names, *(name.with_suffix(".json") for name in names)]:
            name.unlink()
        shards.rmdir()

    def open(self, folder: Path) -> Searcher:
        """Open the index, memory-mapped where FAISS supports it."""
        import faiss

        index = faiss.read_index(str(folder / "index.faiss"), faiss.IO_FLAG_MMAP)
        if self.gpu:
            index = faiss.index_cpu_to_all_gpus(index)
        self._tune(index)
        return _DenseSearcher(self.encoder, index, json.loads((folder / "passage_ids.json").read_text()))

    def _encode_shard(self, shards: Path, number: int, rows: Sequence[Passage]) -> Path:
        name = shards / f"{number:05d}.npy"
        ids = [row.passage_id for row in rows]
        ids_file = name.with_suffix(".json")
        if name.is_file() and ids_file.is_file() and json.loads(ids_file.read_text()) == ids:
            return name
        vectors = self.encoder.passages(rows)
        with atomic_write(name, needed=2 * vectors.nbytes) as partial, partial.open("wb") as stream:
            np.save(stream, vectors.astype(np.float16))
        with atomic_write(ids_file, needed=2**20) as partial:
            partial.write_text(json.dumps(ids))
        return name

    def _sample(self, names: Sequence[Path]) -> NDArray[np.float32]:
        per_shard = max(1, self.train_on // len(names))
        return np.concatenate([np.load(name, mmap_mode="r")[:per_shard] for name in names]).astype(np.float32)

    def _make(self, sample: NDArray[np.float32]) -> Any:
        import faiss

        try:
            index = faiss.index_factory(sample.shape[1], self.factory, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise ConfigError(
                f"retriever.factory={self.factory!r} is not a FAISS factory string. Try Flat, HNSW32 or IVF4096,PQ64."
            ) from error
        if self.gpu:
            index = faiss.index_cpu_to_all_gpus(index)
        try:
            index.train(sample)
        except RuntimeError as error:
            raise ConfigError(
                f"retriever.factory={self.factory!r} cannot be trained on {len(sample)} passages; use fewer lists or Flat."
            ) from error
        return index

    def _tune(self, index: Any) -> None:
        inner = getattr(index, "index", index)
        if hasattr(inner, "nprobe"):
            inner.nprobe = self.nprobe
        if hasattr(inner, "hnsw"):
            inner.hnsw.efSearch = self.ef_search


@dataclass(frozen=True, slots=True)
class _DenseSearcher:
    encoder: SentenceEncoder
    index: Any
    ids: list[str]

    def search(self, questions: Sequence[Question], depth: int) -> list[list[Hit]]:
        """Return the best `depth` passages per question."""
        vectors = self.encoder.queries([question.text for question in questions])
        scores, rows = self.index.search(vectors, min(depth, len(self.ids)))
        return [list(self._hits(r, s)) for r, s in zip(rows, scores, strict=True)]

    def _hits(self, rows: NDArray[np.int64], scores: NDArray[np.float32]) -> Iterator[Hit]:
        return (Hit(self.ids[int(row)], float(score)) for row, score in zip(rows, scores, strict=True) if row >= 0)
