"""SPLADE encoders."""

from pathlib import Path

import numpy as np
import pytest
import torch

from winnow.errors import ConfigError, ModelError
from winnow.modeling.splade_encoder import SpladeEncoder
from winnow.records import Passage
from winnow.testing import make_tiny_encoder, make_tiny_masked_lm

TEXTS = ["a short one", "a rather longer text about something " * 5, "middle sized text here"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny masked language model."""
    return make_tiny_masked_lm(tmp_path_factory.mktemp("lm"), TEXTS)


def test_weights_are_those_of_the_paper(folder: Path) -> None:
    """SPLADE v2, equation 6: each text alone in transformers; batches and padding
    change nothing.
    """
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    model, tokenizer = (
        AutoModelForMaskedLM.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with torch.inference_mode():
        logits = [model(**tokenizer(text, return_tensors="pt")).logits[0] for text in TEXTS]
    expected = np.stack(
        [torch.log(1 + torch.relu(one)).max(dim=0).values.numpy() for one in logits]
    )
    for batch_tokens in (8192, 30):
        vectors = SpladeEncoder(
            str(folder), dtype="float32", batch_tokens=batch_tokens
        ).encode_queries(TEXTS)
        assert vectors.shape == expected.shape
        assert 0 < vectors.nnz < vectors.shape[0] * vectors.shape[1]
        np.testing.assert_allclose(vectors.toarray(), expected, atol=1e-5)


def test_templates_and_truncation(folder: Path) -> None:
    """Passages have title and text, separated by a space; truncated texts are counted; no text
    gives no row.
    """
    encoder = SpladeEncoder(str(folder), dtype="float32", max_length=8)
    passages = encoder.encode_passages([Passage("1", "Title", TEXTS[0])])
    np.testing.assert_allclose(
        passages.toarray(), encoder.encode_queries([f"Title {TEXTS[0]}"]).toarray(), atol=1e-6
    )
    encoder.truncated = 0
    encoder.encode_queries(TEXTS[1:2])
    assert encoder.truncated == 1
    assert encoder.encode_passages([]).shape == (0, passages.shape[1])
    with pytest.raises(ConfigError, match=r"must have \{text\}, may have \{title\}"):
        SpladeEncoder("x", passage_template="{title}")


def test_queries_may_have_a_model_of_their_own(folder: Path, tmp_path: Path) -> None:
    """As in efficient SPLADE."""
    queries = make_tiny_masked_lm(tmp_path, TEXTS, seed=1)
    both = SpladeEncoder(str(folder), str(queries), dtype="float32")
    alone = SpladeEncoder(str(queries), dtype="float32")
    np.testing.assert_allclose(
        both.encode_queries(TEXTS).toarray(), alone.encode_queries(TEXTS).toarray(), atol=1e-6
    )
    passage = [Passage("1", "", TEXTS[0])]
    assert not np.allclose(
        both.encode_passages(passage).toarray(), alone.encode_passages(passage).toarray()
    )


def test_a_model_without_its_head_is_an_error(tmp_path: Path) -> None:
    """Its weights would be random."""
    with pytest.raises(ModelError, match="lacks the weights cls"):
        SpladeEncoder(str(make_tiny_encoder(tmp_path, TEXTS)), dtype="float32").encode_queries(
            TEXTS
        )
