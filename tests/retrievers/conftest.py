"""What the tests of retrievers share."""

import pytest

from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.testing import PASSAGES, make_tiny_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> SentenceEncoder:
    """A tiny encoder."""
    return SentenceEncoder(
        str(make_tiny_encoder(tmp_path_factory.mktemp("e"), [p.text for p in PASSAGES])),
        dtype="float32",
    )
