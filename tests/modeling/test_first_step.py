"""The decoder's first step: transformers' numbers by a shorter road."""

from pathlib import Path
from typing import Any

import pytest
import torch

from winnow.modeling.first_step import compute_first_hidden, has_t5_decoder
from winnow.modeling.loading import load_causal_lm, load_seq2seq
from winnow.testing import make_tiny_causal_lm, make_tiny_t5

TEXTS = ["question: who wrote emma title: Emma context: Jane Austen wrote Emma"] * 20


def test_it_is_what_the_whole_model_gives(tmp_path: Path) -> None:
    """Logits and gradients, with padding on the right; rows do not see each other."""
    lm = load_seq2seq(str(make_tiny_t5(tmp_path / "t5", TEXTS)), "float32", "cpu")
    model = lm.model
    assert has_t5_decoder(model)
    ids = torch.randint(
        3, model.config.vocab_size, (3, 7), generator=torch.Generator().manual_seed(1)
    )
    mask = torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] + [0] * 6])
    start = torch.full((3, 1), model.config.decoder_start_token_id)
    theirs = model(input_ids=ids, attention_mask=mask, decoder_input_ids=start).logits[:, 0]  # type: ignore[operator]
    theirs.logsumexp(dim=-1).sum().backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    encoded = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state  # type: ignore[operator]
    ours = model.lm_head(compute_first_hidden(model, encoded, mask))  # type: ignore[operator]
    assert torch.allclose(ours, theirs, atol=1e-5)
    ours.logsumexp(dim=-1).sum().backward()
    for name, gradient in expected.items():
        actual = dict(model.named_parameters())[name].grad
        assert torch.allclose(
            gradient, torch.zeros_like(gradient) if actual is None else actual, atol=1e-5
        ), name


def test_dropout_drops_in_training_alone(tmp_path: Path) -> None:
    """The same batch gives other numbers in each training pass, and the same in evaluation."""
    lm = load_seq2seq(str(make_tiny_t5(tmp_path / "t5", TEXTS)), "float32", "cpu")
    encoded, mask = torch.randn(2, 5, lm.model.config.d_model), torch.ones(2, 5)
    assert torch.equal(
        compute_first_hidden(lm.model, encoded, mask),
        compute_first_hidden(lm.model, encoded, mask),
    )
    lm.model.train()
    assert not torch.allclose(
        compute_first_hidden(lm.model, encoded, mask),
        compute_first_hidden(lm.model, encoded, mask),
    )


@pytest.mark.parametrize("kind", ["flan", "mt5"])
def test_relatives_of_t5(kind: str) -> None:
    """Gated layers and a vocabulary matrix of its own, as Flan-T5 and mT5 have them."""
    from transformers import (
        MT5Config,
        MT5ForConditionalGeneration,
        T5Config,
        T5ForConditionalGeneration,
    )

    size = {
        "vocab_size": 40,
        "d_model": 16,
        "d_kv": 4,
        "d_ff": 32,
        "num_layers": 2,
        "num_heads": 4,
    }
    more = {
        "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": False,
        "decoder_start_token_id": 0,
    }
    torch.manual_seed(0)
    if kind == "mt5":
        model: Any = MT5ForConditionalGeneration(MT5Config(**size, **more)).eval()
    else:
        model = T5ForConditionalGeneration(T5Config(**size, **more)).eval()
    ids, mask = torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    theirs = model(
        input_ids=ids, attention_mask=mask, decoder_input_ids=torch.zeros(2, 1, dtype=torch.long)
    ).logits[:, 0]
    encoded = model.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
    assert has_t5_decoder(model)
    assert torch.allclose(
        model.lm_head(compute_first_hidden(model, encoded, mask)), theirs, atol=1e-5
    )


def test_other_architectures_take_the_long_road(tmp_path: Path) -> None:
    """A decoder of another build is not taken for T5's."""
    assert not has_t5_decoder(
        load_causal_lm(str(make_tiny_causal_lm(tmp_path / "lm", TEXTS)), "float32", "cpu").model
    )
