"""Sentence encoders."""

from pathlib import Path

import numpy as np
import pytest
import torch

from winnow.errors import ConfigError
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.records import Passage
from winnow.testing import make_tiny_causal_lm, make_tiny_dpr, make_tiny_encoder

TEXTS = ["a short one", "a rather longer text about something " * 5, "middle sized text here"]
ROWS = [Passage(str(n), "Title", text) for n, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder."""
    return make_tiny_encoder(tmp_path_factory.mktemp("enc"), TEXTS)


def test_batching_changes_no_vector(folder: Path) -> None:
    """Padding and order have no influence; vectors are units; progress is told."""
    seen: list[int] = []
    encoder = SentenceEncoder(str(folder), dtype="float32")
    encoder.advance = seen.append
    together = encoder.encode_passages(ROWS)
    alone = np.concatenate(
        [SentenceEncoder(str(folder), dtype="float32").encode_passages([row]) for row in ROWS]
    )
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert sum(seen) == 3


def test_the_pooling_cls_is_the_first_token_of_the_model(folder: Path) -> None:
    """Of transformers alone, which computes all tokens of the last layer."""
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with torch.inference_mode():
        expected = [
            model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0, 0].numpy()
            for text in TEXTS
        ]
    vectors = SentenceEncoder(
        str(folder), dtype="float32", pooling="cls", normalize=False
    ).encode_queries(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_prefixes_pooling_and_truncation(folder: Path) -> None:
    """A prefix and another pooling give other vectors; cut texts are counted."""
    base = SentenceEncoder(str(folder), dtype="float32").encode_queries(TEXTS)
    prefixed = SentenceEncoder(str(folder), dtype="float32", query_prefix="query: ").encode_queries(
        TEXTS
    )
    cls = SentenceEncoder(
        str(folder), dtype="float32", pooling="cls", normalize=False
    ).encode_queries(TEXTS)
    assert not np.allclose(base, prefixed)
    assert not np.allclose(base, cls)
    short = SentenceEncoder(str(folder), dtype="float32", max_length=8)
    assert short.encode_passages(ROWS).shape == (3, 32)
    assert short.truncated >= 1
    assert short.encode_passages([]).shape == (0, 32)
    with pytest.raises(ConfigError, match="mean, cls or last"):
        SentenceEncoder(str(folder), pooling="max")  # type: ignore[arg-type]


def test_the_pooling_last_is_the_last_token_of_a_decoder(tmp_path: Path) -> None:
    """Of transformers alone, text by text; padding is no token."""
    from transformers import AutoModel, AutoTokenizer

    folder = make_tiny_causal_lm(tmp_path, TEXTS)
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    with torch.inference_mode():
        expected = [
            model(tokenizer(text, return_tensors="pt").input_ids).last_hidden_state[0, -1].numpy()
            for text in TEXTS
        ]
    vectors = SentenceEncoder(
        str(folder), dtype="float32", pooling="last", normalize=False
    ).encode_queries(TEXTS)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_two_encoders_as_in_dpr(tmp_path: Path) -> None:
    """Queries go to one model and passages to the other, each with the weights of its folder and
    its own pooling.
    """
    import torch
    from transformers import AutoTokenizer, DPRContextEncoder

    ask, show = make_tiny_dpr(tmp_path, TEXTS)
    encoder = SentenceEncoder(
        str(show),
        str(ask),
        passage_template="{title} [SEP] {text}",
        normalize=False,
        dtype="float32",
    )
    vectors = encoder.encode_passages(ROWS[:1])
    inputs = AutoTokenizer.from_pretrained(show)(f"Title [SEP] {TEXTS[0]}", return_tensors="pt")
    with torch.no_grad():
        expected = DPRContextEncoder.from_pretrained(show)(**inputs).pooler_output
    np.testing.assert_allclose(vectors, expected.numpy(), atol=1e-5)
    other = SentenceEncoder(
        str(show), passage_template="{title} [SEP] {text}", normalize=False, dtype="float32"
    )
    assert not np.allclose(encoder.encode_queries(TEXTS), other.encode_queries(TEXTS))
    with pytest.raises(ConfigError, match="passage_template must have"):
        SentenceEncoder("x", passage_template="{title}")
