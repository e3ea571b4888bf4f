"""The vectors of a corpus in blocks, files that several processes or machines can write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, save_npz

from winnow.artifacts.files import atomic_write
from winnow.artifacts.parquet import batched
from winnow.errors import ArtifactError, ConfigError
from winnow.protocols import PassageSource
from winnow.records import Passage

_PROBE = Passage(
    "probe",
    "Winnowing",
    "Winnowing separates the grain from the chaff by letting the wind blow through it.",
)
"""A passage whose vector tells encoders apart."""
_MAX_DISTANCE = 0.1
"""Maximum relative distance of one encoder's probe vectors across devices and precisions."""
SelectBlock = Callable[[int], bool]
"""A function that returns whether a process encodes the block of this number."""


Vectors: TypeAlias = NDArray[np.float32] | csr_array
"""Vectors of shape (texts, dimensions), dense or sparse."""


class PassageEncoder(Protocol):
    """An encoder of passages, such as a `SentenceEncoder` or a `SpladeEncoder`."""

    def encode_passages(self, passages: Sequence[Passage]) -> Vectors:
        """Encode passages to vectors of shape (passages, dimensions)."""
        ...


def select_all(number: int) -> bool:  # noqa: ARG001 (a SelectBlock)
    """Select every block."""
    return True


@dataclass(frozen=True, slots=True)
class VectorBlocks:
    """The folder of the vectors of an index.

    A block is a file of vectors (dense ones in 16 bits) and a label, a file with the ids of its
    passages, a digest of their texts, and the vector of one fixed passage, by which blocks of
    different encoders are told apart. Blocks that are there are not encoded again, so that an
    interrupted build resumes after the last complete block.

    Args:
        encoder: Encoder of the passages.
        folder: Folder of the blocks.
        size: Number of passages per block.
    """

    encoder: PassageEncoder
    folder: Path
    size: int

    def encode(self, passages: PassageSource, select: SelectBlock = select_all) -> list[Path]:
        """Encode the selected blocks of the corpus that are missing.

        Returns:
            Files of the vectors of the selected blocks, in the order of the corpus.

        Raises:
            ArtifactError: If a block is there that was made with another encoder or corpus.
            ConfigError: If the corpus is empty.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        probe_vectors = self.encoder.encode_passages([_PROBE])
        probe, suffix = _to_dense(probe_vectors)[0], ".npz" if issparse(probe_vectors) else ".npy"
        files, is_empty = [], True
        for number, block in enumerate(batched(passages(), self.size)):
            is_empty = False
            if select(number):
                file = self.folder / f"{number:05d}{suffix}"
                if not self._is_encoded(file, block, probe):
                    self._encode_block(file, block, probe)
                files.append(file)
        if is_empty:
            raise ConfigError(
                "The corpus is empty, so that no index can be built. Choose a corpus with passages."
            )
        return files

    def _is_encoded(
        self, file: Path, passages: Sequence[Passage], probe: NDArray[np.float32]
    ) -> bool:
        """Return whether a block is there."""
        label_file = file.with_suffix(".json")
        if not (file.is_file() and label_file.is_file()):
            return False
        label = json.loads(label_file.read_text())
        block_probe = np.asarray(label["probe"], dtype=np.float32)
        max_distance = _MAX_DISTANCE * np.linalg.norm(probe)
        is_same = (
            block_probe.shape == probe.shape and np.linalg.norm(block_probe - probe) <= max_distance
        )
        if is_same and label["texts"] == _compute_text_digest(passages):
            return True
        raise ArtifactError(
            f"{file} holds vectors of {'other passages' if is_same else 'another encoder'}. Blocks "
            "can be joined only if all were made with the same corpus, encoder and size of "
            f"blocks. Delete {self.folder.parent} to rebuild the index."
        )

    def _encode_block(
        self, file: Path, passages: Sequence[Passage], probe: NDArray[np.float32]
    ) -> None:
        """Write the vectors of a block, then its label."""
        vectors = self.encoder.encode_passages(passages)
        num_bytes = vectors.data.nbytes
        with (
            atomic_write(file, required_bytes=2 * num_bytes) as partial,
            partial.open("wb") as stream,
        ):
            if issparse(vectors):
                save_npz(stream, vectors)
            else:
                np.save(stream, vectors.astype(np.float16))
        ids = [passage.passage_id for passage in passages]
        label = {
            "probe": probe.tolist(),
            "texts": _compute_text_digest(passages),
            "passage_ids": ids,
        }
        with atomic_write(file.with_suffix(".json"), required_bytes=2**20) as partial:
            partial.write_text(json.dumps(label))


def _to_dense(vectors: Vectors) -> NDArray[np.float32]:
    """Return vectors as an array that has their zeros."""
    return vectors if isinstance(vectors, np.ndarray) else vectors.toarray()


def _compute_text_digest(passages: Sequence[Passage]) -> str:
    texts = (f"{len(part)}:{part}" for p in passages for part in (p.passage_id, p.title, p.text))
    return hashlib.sha256("".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def read_passage_ids(files: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the ids of the passages of each block."""
    for file in files:
        yield json.loads(file.with_suffix(".json").read_text())["passage_ids"]


def sample_vectors(files: Sequence[Path], number: int, seed: int) -> NDArray[np.float32]:
    """Draw up to `number` vectors from all blocks, each with the same probability."""
    blocks = [np.load(file, mmap_mode="r") for file in files]
    total = sum(map(len, blocks))
    random = np.random.default_rng(seed)
    positions = (
        np.sort(random.choice(total, number, replace=False)) if total > number else np.arange(total)
    )
    starts = np.cumsum([0, *map(len, blocks)])
    bounds = np.searchsorted(positions, starts)
    parts = [
        block[positions[first:last] - start]
        for block, start, first, last in zip(
            blocks, starts[:-1], bounds[:-1], bounds[1:], strict=True
        )
    ]
    return np.concatenate(parts).astype(np.float32)
