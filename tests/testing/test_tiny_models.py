"""Tiny models: the same seed gives the same weights, and the tokenizer reads what it wrote."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from winnow.testing import make_tiny_causal_lm, make_tiny_tokenizer

TEXTS = ["Paris is the capital of France.", "Übung macht den Meister."]


def test_a_seed_gives_the_same_weights_and_another_one_others(tmp_path: Path) -> None:
    """So that replies of tests are the same everywhere."""
    models = [
        AutoModelForCausalLM.from_pretrained(make_tiny_causal_lm(tmp_path / name, TEXTS, seed=seed))
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    first, same, other = (
        torch.cat([weight.flatten() for weight in model.parameters()]) for model in models
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_the_tokenizer_spells_any_text_and_keeps_further_tokens_whole() -> None:
    """Its alphabet has every byte; the chat template has the turns' marks."""
    tokenizer = make_tiny_tokenizer(TEXTS, ["[Retrieve]"])
    for text in (*TEXTS, "日本語 \U0001f600"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert len(tokenizer.encode("[Retrieve]")) == 1
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False)
    assert prompt == "<start>hi<end><start>"
