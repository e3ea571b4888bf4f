"""Vectors of a corpus in blocks: what is encoded, resumed, refused and sampled."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from winnow.errors import ArtifactError, ConfigError
from winnow.records import Passage
from winnow.retrievers.vector_blocks import VectorBlocks, read_passage_ids, sample_vectors
from winnow.testing import PASSAGES


class Lengths:
    """An encoder whose vectors are the lengths of title and text, and a constant."""

    def __init__(self, constant: float = 1.0) -> None:
        self.constant, self.encoded = constant, list[str]()

    def encode_passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        """Encode passages."""
        self.encoded += [passage.passage_id for passage in passages]
        return np.array(
            [[len(one.title), len(one.text), 100 * self.constant] for one in passages],
            dtype=np.float32,
        )


def test_blocks_have_the_vectors_and_ids_of_their_passages(tmp_path: Path) -> None:
    """In the order of the corpus; those that are there are not encoded again."""
    files = VectorBlocks(Lengths(), tmp_path, 2).encode(lambda: iter(PASSAGES))
    assert list(read_passage_ids(files)) == [
        [passage.passage_id for passage in PASSAGES[n : n + 2]] for n in range(0, len(PASSAGES), 2)
    ]
    vectors = np.concatenate([np.load(file) for file in files])
    assert vectors.tolist() == [[len(one.title), len(one.text), 100.0] for one in PASSAGES]
    files[1].unlink()
    encoder = Lengths()
    assert VectorBlocks(encoder, tmp_path, 2).encode(lambda: iter(PASSAGES)) == files
    assert encoder.encoded == ["probe", *(passage.passage_id for passage in PASSAGES[2:4])]


def test_only_selected_blocks_are_encoded(tmp_path: Path) -> None:
    """As by the shard of a process."""
    (file,) = VectorBlocks(Lengths(), tmp_path, 2).encode(
        lambda: iter(PASSAGES), lambda number: number == 1
    )
    assert [path.name for path in tmp_path.glob("*.npy")] == [file.name] == ["00001.npy"]


@pytest.mark.parametrize(
    ("constant", "passages", "message"),
    [(5.0, PASSAGES, "another encoder"), (1.0, PASSAGES[1:], "other passages")],
)
def test_blocks_of_another_encoder_or_corpus_are_refused(
    tmp_path: Path, constant: float, passages: Sequence[Passage], message: str
) -> None:
    """They would be joined into one index."""
    VectorBlocks(Lengths(), tmp_path, 2).encode(lambda: iter(PASSAGES))
    with pytest.raises(ArtifactError, match=message):
        VectorBlocks(Lengths(constant), tmp_path, 2).encode(lambda: iter(passages))


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    """It has no index."""
    with pytest.raises(ConfigError, match="corpus is empty"):
        VectorBlocks(Lengths(), tmp_path, 2).encode(lambda: iter(()))


def test_a_sample_is_drawn_from_all_blocks_without_repetition(tmp_path: Path) -> None:
    """By the seed; all vectors if there are not more."""
    passages = [Passage(str(n), "", "x" * n) for n in range(40)]
    files = VectorBlocks(Lengths(), tmp_path, 7).encode(lambda: iter(passages))
    drawn = sample_vectors(files, 20, seed=1)[:, 1].tolist()
    assert len(set(drawn)) == 20
    assert set(drawn) <= set(map(float, range(40)))
    assert drawn == sample_vectors(files, 20, seed=1)[:, 1].tolist()
    assert drawn != sample_vectors(files, 20, seed=2)[:, 1].tolist()
    assert sample_vectors(files, 40, seed=1)[:, 1].tolist() == list(map(float, range(40)))
