"""Dense retrieval from an index on the disk, and the blocks of vectors that several
processes make.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from winnow.artifacts.provenance import compute_file_digest
from winnow.errors import ArtifactError, ConfigError
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.records import Passage
from winnow.retrievers.dense import Dense
from winnow.retrievers.dense_on_disk import DenseOnDisk
from winnow.retrievers.passage_ids import PassageIds, write_passage_ids
from winnow.retrievers.vector_blocks import sample_vectors
from winnow.testing import PASSAGES, make_question

DIMENSIONS = 64
CORPUS = [Passage(f"p{number}", "", str(number)) for number in range(3000)]
QUESTIONS = [make_question(str(number), question_id=str(number)) for number in range(0, 3000, 50)]


class RandomVectors(SentenceEncoder):
    """Vectors around 30 centers, by the number that a text is; a question lies near the passage of
    its number.
    """

    def __init__(self, seed: int = 0) -> None:
        """Draw the vectors."""
        super().__init__("unused")
        random = np.random.default_rng(seed)
        centers = random.normal(size=(30, DIMENSIONS))
        vectors = centers[random.integers(0, 30, 3001)] + 0.8 * random.normal(
            size=(3001, DIMENSIONS)
        )
        self.vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def encode_passages(
        self, passages: Sequence[Passage], advance: object = None
    ) -> NDArray[np.float32]:
        """Return the vectors of the texts; that of another text is the last."""
        return self.vectors[[int(p.text) if p.text.isdigit() else 3000 for p in passages]]

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of the texts with some noise."""
        noise = np.random.default_rng(1).normal(size=(len(texts), DIMENSIONS)).astype(np.float32)
        return self.vectors[[int(text) for text in texts]] + 0.02 * noise


def source() -> Iterator[Passage]:
    return iter(CORPUS)


@pytest.mark.parametrize("codes", ["RaBitQ", "RaBitQ2", "SQ8"])
def test_equals_exact_search(tmp_path: Path, codes: str) -> None:
    """With enough lists visited, the hits are those of an exact search, and their scores are inner
    products.
    """
    encoder = RandomVectors()
    retriever = DenseOnDisk(
        encoder, lists=16, codes=codes, nprobe=16, candidates=20, block_size=700
    )
    retriever.build(source, tmp_path / "disk")
    exact = Dense(encoder)
    exact.build(source, tmp_path / "exact")
    found = retriever.open(tmp_path / "disk").search(QUESTIONS, 10)
    expected = exact.open(tmp_path / "exact").search(QUESTIONS, 10)
    shared = [
        len({h.passage_id for h in a} & {h.passage_id for h in b})
        for a, b in zip(found, expected, strict=True)
    ]
    assert sum(shared) >= 0.99 * 10 * len(QUESTIONS)
    assert [hits[0].passage_id for hits in found] == [hits[0].passage_id for hits in expected]
    np.testing.assert_allclose(
        [hits[0].score for hits in found], [hits[0].score for hits in expected], atol=2e-3
    )
    assert all(
        list(hits) == sorted(hits, key=lambda hit: -hit.score) and len(hits) == 10 for hits in found
    )


def test_files_that_stay(tmp_path: Path) -> None:
    """The vectors stay for rescoring; what only the build needs does not. A moved folder still
    opens.
    """
    retriever = DenseOnDisk(RandomVectors(), block_size=1000)
    retriever.build(source, tmp_path / "index")
    moved = (tmp_path / "index").rename(tmp_path / "elsewhere")
    names = sorted(str(file.relative_to(moved)) for file in moved.rglob("*") if file.is_file())
    vectors = [f"vectors/0000{number}.npy" for number in range(3)]
    assert names == ["index.faiss", "lists.ivfdata", "passage_ids.arrow", *vectors]
    assert len(retriever.open(moved).search(QUESTIONS[:1], 5)[0]) == 5


def test_fewer_passages_than_asked_for(tmp_path: Path) -> None:
    """A search returns what there is, once each."""
    retriever = DenseOnDisk(RandomVectors(), lists=1, codes="SQ8", block_size=4)
    retriever.build(lambda: iter(CORPUS[:10]), tmp_path)
    (hits,) = retriever.open(tmp_path).search(QUESTIONS[:1], 100)
    assert sorted(hit.passage_id for hit in hits) == sorted(p.passage_id for p in CORPUS[:10])


def test_shards_make_blocks_and_the_build_joins_them(tmp_path: Path) -> None:
    """Two processes encode every second block, the build encodes none again, and the index is the
    same.
    """
    encoder = RandomVectors()
    retriever = DenseOnDisk(encoder, lists=8, codes="SQ8", nprobe=8, block_size=500)
    for rest in range(2):
        made = retriever.build_blocks(
            source, tmp_path / "shards", lambda number, rest=rest: number % 2 == rest
        )
        assert [file.name for file in made] == [f"0000{number}.npy" for number in range(rest, 6, 2)]
    times = [
        file.stat().st_mtime_ns for file in sorted((tmp_path / "shards" / "vectors").glob("*.npy"))
    ]
    retriever.build(source, tmp_path / "shards")
    assert times == [
        file.stat().st_mtime_ns for file in sorted((tmp_path / "shards" / "vectors").glob("*.npy"))
    ]
    retriever.build(source, tmp_path / "whole")
    found, expected = (
        retriever.open(tmp_path / name).search(QUESTIONS, 10) for name in ("shards", "whole")
    )
    assert found == expected
    digests = [compute_file_digest(tmp_path / name / "index.faiss") for name in ("shards", "whole")]
    assert digests[0] == digests[1], "it does not name its folder"


def test_an_interrupted_build_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed while the blocks are added, the next build trains nothing again, unless its blocks
    were encoded again.
    """
    retriever = DenseOnDisk(RandomVectors(), lists=8, codes="SQ8", nprobe=8, block_size=500)
    written: list[str] = []
    write = DenseOnDisk._write_index

    def write_two(self: DenseOnDisk, index: object, path: Path) -> None:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(path.name)
        write(self, index, path)

    monkeypatch.setattr(DenseOnDisk, "_write_index", write_two)
    with pytest.raises(KeyboardInterrupt):
        retriever.build(source, tmp_path)
    assert written == ["trained.faiss", "00000.faiss", "00001.faiss"]
    monkeypatch.setattr(DenseOnDisk, "_write_index", write)
    shutil.copytree(tmp_path, tmp_path / "again")
    shutil.rmtree(tmp_path / "again/vectors")
    other = DenseOnDisk(RandomVectors(seed=3), lists=8, codes="SQ8", nprobe=8, block_size=500)
    other.build(source, tmp_path / "again")
    assert [hits[0].passage_id for hits in other.open(tmp_path / "again").search(QUESTIONS, 1)] == [
        f"p{q.text}" for q in QUESTIONS
    ]
    monkeypatch.setattr(DenseOnDisk, "_train", lambda *_: pytest.fail("trained again"))
    retriever.build(source, tmp_path)
    assert len(retriever.open(tmp_path).search(QUESTIONS, 10)[-1]) == 10


@pytest.mark.parametrize(
    ("encoder", "corpus", "message"),
    [
        (RandomVectors(seed=5), CORPUS, "another encoder"),
        (RandomVectors(), CORPUS[1:], "other passages"),
    ],
)
def test_blocks_of_another_encoder_or_corpus(
    tmp_path: Path, encoder: SentenceEncoder, corpus: list[Passage], message: str
) -> None:
    """Blocks that do not belong together are refused, not joined."""
    DenseOnDisk(RandomVectors(), block_size=1000).build_blocks(source, tmp_path)
    with pytest.raises(ArtifactError, match=rf"00000.npy holds vectors of {message}.*Delete"):
        DenseOnDisk(encoder, block_size=1000).build(lambda: iter(corpus), tmp_path)


def test_bad_settings(tmp_path: Path) -> None:
    """Numbers out of range, codes that FAISS lacks, more lists than passages, an empty corpus."""
    with pytest.raises(ConfigError, match="candidates must be at least 1; received 0"):
        DenseOnDisk(RandomVectors(), candidates=0)
    with pytest.raises(ConfigError, match="lists must be at least 1, or null; received -1"):
        DenseOnDisk(RandomVectors(), lists=-1)
    with pytest.raises(ConfigError, match=r"codes='Nonsense'.*RaBitQ2"):
        DenseOnDisk(RandomVectors(), codes="Nonsense").build(source, tmp_path / "1")
    with pytest.raises(
        ConfigError, match="lists=4000: so many lists cannot be trained on 3000 passages"
    ):
        DenseOnDisk(RandomVectors(), lists=4000).build(source, tmp_path / "2")
    with pytest.raises(ConfigError, match="corpus is empty"):
        DenseOnDisk(RandomVectors()).build(lambda: iter(()), tmp_path / "3")


def test_a_sample_comes_from_all_blocks(tmp_path: Path) -> None:
    """Every vector is drawn at most once, from everywhere, by the seed."""
    files = DenseOnDisk(RandomVectors(), block_size=700).build_blocks(source, tmp_path)
    known = {
        vector.tobytes(): number
        for number, vector in enumerate(np.concatenate([np.load(file) for file in files]))
    }
    sample = sample_vectors(files, 300, seed=1)
    drawn = [known[vector.tobytes()] for vector in sample.astype(np.float16)]
    assert len(set(drawn)) == 300
    assert np.histogram(drawn, bins=5, range=(0, 3000))[0].min() > 30
    np.testing.assert_array_equal(sample, sample_vectors(files, 300, seed=1))
    assert not np.array_equal(sample, sample_vectors(files, 300, seed=2))
    assert sample_vectors(files, 5000, seed=1).shape == (3000, DIMENSIONS)


def test_passage_ids(tmp_path: Path) -> None:
    """Ids are found by row over the bounds of batches, in any script."""
    path = tmp_path / "ids.arrow"
    assert write_passage_ids(path, [["a", "b"], [], ["ü"], ["漢", "e", "f"]]) == 6
    ids = PassageIds(path)
    assert len(ids) == 6
    assert [ids.get(row) for row in range(6)] == ["a", "b", "ü", "漢", "e", "f"]
    write_passage_ids(path, [])
    assert len(PassageIds(path)) == 0


def test_real_encoder(tmp_path: Path, encoder: SentenceEncoder) -> None:
    """A model's vectors, some more passages than lists."""
    retriever = DenseOnDisk(encoder, lists=2, codes="SQ8", nprobe=2, block_size=3)
    retriever.build(lambda: iter(PASSAGES), tmp_path)
    question = make_question("Which rivers flow in France?")
    (hits,) = retriever.open(tmp_path).search([question], 3)
    scores = (encoder.encode_queries([question.text]) @ encoder.encode_passages(PASSAGES).T)[0]
    assert [hit.passage_id for hit in hits] == [
        PASSAGES[n].passage_id for n in np.argsort(-scores)[:3]
    ]
