"""What encoders of texts share: templates, prefixes, truncation, batches of similar length."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from winnow.errors import ConfigError
from winnow.modeling.text_encoder import TextEncoder
from winnow.records import Passage
from winnow.testing import make_tiny_encoder


class FirstToken(TextEncoder):
    """An encoder whose vectors are the first hidden state."""

    def _pool(self, output: Any, mask: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = output.last_hidden_state[:, 0]
        return vectors

    def _load_model(self, source: str, architecture: str, options: Mapping[str, Any]) -> Any:
        from transformers import AutoModel

        return AutoModel.from_pretrained(source, **options)

    def encode(self, texts: list[str]) -> torch.Tensor:
        """Return the vectors in the order of the texts."""
        rows = {
            index: vector
            for indices, pooled in self._iter_pooled(texts, self.path)
            for index, vector in zip(indices, pooled, strict=True)
        }
        return (
            torch.stack([rows[index] for index in range(len(texts))]) if texts else torch.empty(0)
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny encoder."""
    folder = tmp_path_factory.mktemp("encoder")
    make_tiny_encoder(folder, ["Paris is large.", "Rome is old."])
    return str(folder)


def test_texts_have_their_templates_and_prefixes() -> None:
    """A template without the text, or with another field, is refused."""
    encoder = FirstToken(
        "x",
        passage_template="{title} [SEP] {text}",
        query_prefix="query: ",
        passage_prefix="passage: ",
    )
    assert encoder._format_queries(["a"]) == ["query: a"]
    assert encoder._format_passages([Passage("1", "T", "x")]) == ["passage: T [SEP] x"]
    assert encoder._format_passages([Passage("1", "", "x")]) == ["passage: x"]
    around = FirstToken("x", passage_template="[{title}. {text}]")
    assert around._format_passages([Passage("1", "", "x")]) == ["[x]"]
    behind = FirstToken("x", passage_template="{text} ({title})")
    assert behind._format_passages([Passage("1", "", "x")]) == ["x ()"]
    for template in ("{title}", "{text} {body}"):
        with pytest.raises(ConfigError, match=r"encoder\.model\.passage_template"):
            FirstToken("x", passage_template=template)


def test_batches_change_no_vector_and_each_text_is_counted(folder: str) -> None:
    """Texts of one batch have similar lengths, whatever their order; truncated ones are counted."""
    texts = ["Paris is large. " * n for n in (9, 1, 5, 2, 12)]
    counts: list[int] = []
    whole = FirstToken(folder, dtype="float32", max_length=24)
    whole.advance = counts.append
    vectors = whole.encode(texts)
    assert sum(counts) == len(texts)
    small = FirstToken(folder, dtype="float32", max_length=24, batch_tokens=30)
    assert torch.allclose(small.encode(texts), vectors, atol=1e-5)
    assert whole.truncated == small.truncated > 0
    assert len(small.encode([])) == 0


def test_dtype_is_resolved_for_the_key() -> None:
    """Other settings stay; the model is loaded once."""
    resolved = FirstToken.resolve_settings({"dtype": "auto", "device": "cpu", "max_length": 9})
    assert resolved["dtype"] in ("float32", "bfloat16")
    assert resolved["max_length"] == 9


def test_a_model_is_loaded_once(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries and passages share it unless queries have one of their own."""
    encoder, loaded = FirstToken(folder, dtype="float32"), []
    load = encoder._load_model
    monkeypatch.setattr(
        encoder, "_load_model", lambda *words: loaded.append(Path(words[0]).name) or load(*words)
    )
    encoder.encode(["a"])
    encoder.encode(["b"])
    assert len(loaded) == 1


def test_a_length_beyond_the_positions_of_the_model_is_refused(folder: str) -> None:
    """When the model is loaded, and not at the first long text."""
    encoder = FirstToken(folder, dtype="float32", max_length=100_000)
    with pytest.raises(
        ConfigError, match=r"encoder.model.max_length=100000 exceeds the \d+ tokens"
    ):
        encoder._load(folder)


def test_all_positions_of_the_model_may_be_read(folder: str) -> None:
    """512 of the tiny model."""
    model, *_ = FirstToken(folder, dtype="float32", max_length=512)._load(folder)
    assert model.config.max_position_embeddings == 512


def test_a_tokenizer_without_padding_fills_with_its_end(tmp_path: Path) -> None:
    """As those of decoders; a batch needs rows of one length, and what is filled is not read."""
    texts = ["Paris is large.", "Rome"]
    folder = str(make_tiny_encoder(tmp_path / "encoder", texts))
    expected = FirstToken(folder, dtype="float32").encode(texts)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    assert AutoTokenizer.from_pretrained(folder).pad_token is None
    torch.testing.assert_close(FirstToken(folder, dtype="float32").encode(texts), expected)
