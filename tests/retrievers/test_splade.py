"""Learned sparse retrieval."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from winnow.errors import ArtifactError, ConfigError
from winnow.modeling.splade_encoder import SpladeEncoder
from winnow.records import Passage
from winnow.retrievers.splade import Splade
from winnow.testing import PASSAGES, make_question, make_tiny_masked_lm

QUESTIONS = [
    make_question("Which rivers flow in France?", question_id="1"),
    make_question("What barks?", question_id="2"),
]


def source() -> Iterator[Passage]:
    return iter(PASSAGES)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SpladeEncoder:
    """A tiny encoder."""
    return SpladeEncoder(
        str(make_tiny_masked_lm(tmp_path_factory.mktemp("lm"), [p.text for p in PASSAGES])),
        dtype="float32",
    )


@pytest.mark.parametrize("block_size", [3, 50_000])
def test_splade_equals_brute_force(tmp_path: Path, encoder: SpladeEncoder, block_size: int) -> None:
    """The index ranks by inner product of the vectors, whatever the blocks are; they are gone at
    the end.
    """
    splade = Splade(encoder, block_size)
    splade.build(source, tmp_path)
    depth = len(PASSAGES) - 1
    rankings = splade.open(tmp_path).search(QUESTIONS, depth)
    scores = (
        encoder.encode_queries([q.text for q in QUESTIONS]) @ encoder.encode_passages(PASSAGES).T
    ).toarray()
    for hits, row in zip(rankings, scores, strict=True):
        best = np.argsort(-row, kind="stable")[:depth]
        assert [hit.passage_id for hit in hits] == [PASSAGES[n].passage_id for n in best]
        np.testing.assert_allclose([hit.score for hit in hits], row[best], rtol=1e-5)
    assert not (tmp_path / "vectors").exists()


class FewTerms(SpladeEncoder):
    """An encoder whose terms are the letters of a text."""

    def _encode(self, texts: list[str], path: str) -> object:  # type: ignore[override]
        from scipy.sparse import csr_array

        return csr_array(
            np.array(
                [[float(text.lower().count(chr(97 + n))) for n in range(26)] for text in texts],
                np.float32,
            )
        )


def test_only_passages_with_a_term_of_the_question(tmp_path: Path) -> None:
    """A question without a term has no passage; equal scores keep the order of the corpus."""
    passages = [Passage(str(n), "", text) for n, text in enumerate(["aab", "ba", "c", "ab", "d"])]
    splade = Splade(FewTerms("unused"), 2)
    splade.build(lambda: iter(passages), tmp_path)
    questions = [make_question(text, question_id=text) for text in ("b", "a", "xyz", "dd")]
    found = splade.open(tmp_path).search(questions, 10)
    assert [[(hit.passage_id, hit.score) for hit in hits] for hits in found] == [
        [("0", 1), ("1", 1), ("3", 1)], [("0", 2), ("1", 1), ("3", 1)], [], [("4", 2)],
    ]  # fmt: skip
    assert [len(hits) for hits in splade.open(tmp_path).search(questions, 1)] == [1, 1, 0, 1]


def test_blocks_are_joined_only_if_they_are_of_one_encoder(
    tmp_path: Path, encoder: SpladeEncoder
) -> None:
    """Two processes each encode a block; those that are there are not encoded again, and another
    encoder's are refused.
    """
    splade = Splade(encoder, 3)
    (first,) = splade.build_blocks(source, tmp_path, lambda number: number == 0)
    before = first.stat().st_mtime_ns
    (second,) = splade.build_blocks(source, tmp_path, lambda number: number == 1)
    assert (first.name, second.name) == ("00000.npz", "00001.npz")
    assert splade.build_blocks(source, tmp_path)[0].stat().st_mtime_ns == before
    other = Splade(
        SpladeEncoder(
            encoder.path, query_prefix="x", passage_prefix="quite different: ", dtype="float32"
        ),
        3,
    )
    with pytest.raises(ArtifactError, match="another encoder"):
        other.build(source, tmp_path)
    with pytest.raises(ConfigError, match="block_size must be at least 1; received 0"):
        Splade(encoder, 0)
