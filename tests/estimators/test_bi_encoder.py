"""The bi-encoder estimator."""

from pathlib import Path

import numpy as np
import pytest

from winnow.estimators.bi_encoder import BiEncoder, _normalize
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.records import Passage
from winnow.testing import make_tiny_encoder

PASSAGES = [Passage("1", "A", "a river in France"), Passage("2", "B", "dogs bark loudly")]


def test_log_odds_are_scaled_cosines_and_passages_are_encoded_once(tmp_path: Path) -> None:
    """Within 20; the second call encodes no passage again."""
    encoder = SentenceEncoder(
        str(make_tiny_encoder(tmp_path, ["a river", "dogs bark"])), dtype="float32"
    )
    estimator = BiEncoder(encoder, scale=20)
    pairs = [("what barks?", PASSAGES[0]), ("what barks?", PASSAGES[1]), ("rivers?", PASSAGES[0])]
    first = estimator.score(pairs)
    cosines = encoder.encode_queries(["what barks?"]) @ encoder.encode_passages(PASSAGES).T
    np.testing.assert_allclose(first[:2], 20 * cosines[0], atol=0.05)
    seen: list[int] = []
    encoder.advance = seen.append
    np.testing.assert_array_equal(estimator.score(pairs), first)
    assert sum(seen) == 2, "the questions"


def test_vectors_of_any_length_give_cosines(tmp_path: Path) -> None:
    """Encoders such as Contriever's do not normalize."""
    folder = str(make_tiny_encoder(tmp_path, ["a river", "dogs bark"]))
    pairs = [("what barks?", passage) for passage in PASSAGES]
    scores = [
        BiEncoder(SentenceEncoder(folder, dtype="float32", normalize=normalize)).score(pairs)
        for normalize in (True, False)
    ]
    np.testing.assert_allclose(scores[0], scores[1], atol=0.02)


def test_a_vector_without_length_stays() -> None:
    """Its cosine is 0, not undefined."""
    assert list(_normalize(np.zeros(3, np.float32))) == [0.0, 0.0, 0.0]
    assert list(_normalize(np.array([3.0, 4.0], np.float32))) == pytest.approx([0.6, 0.8])
