"""Rotary positions that depend on the length of a text: a result depends on its request alone."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from winnow.modeling.positions import LENGTH_DEPENDENT, read_rope_type
from winnow.readers.local import LocalReader
from winnow.requests import Likelihood, Message, Score
from winnow.testing.tiny_models import make_tiny_tokenizer

WORDS = "the cat sat on the mat and the dog ran to the city of Paris in 1969"


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({}, None),
        ({"rope_scaling": None}, None),
        ({"rope_scaling": {"type": "su"}}, "su"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "dynamic"),
    ],
)
def test_the_kind_is_read_in_both_spellings(config: dict[str, Any], kind: str | None) -> None:
    """None without one."""
    assert read_rope_type(config) == kind
    assert (kind in LENGTH_DEPENDENT) == (kind is not None)


def test_a_score_depends_neither_on_its_batch_nor_on_earlier_texts(tmp_path: Path) -> None:
    """A long text changes the positions of a dynamic model for good, unless they are reset."""
    tokenizer = make_tiny_tokenizer([WORDS] * 3)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
        eos_token_id=1, bos_token_id=2, pad_token_id=0,
        rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(6)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    requests = [
        Likelihood((Message("user", " ".join([WORDS] * times)),), " Paris") for times in (1, 3, 4)
    ]

    def score(reader: LocalReader, *asked: Likelihood) -> dict[str, float]:
        reader.submit(asked)
        values = {}
        while results := reader.collect(0):
            for request, result in results:
                assert isinstance(request, Likelihood)
                assert isinstance(result, Score)
                values[request.messages[0].content] = result.value
        return values

    def open_reader() -> LocalReader:
        return LocalReader(
            str(tmp_path), "dynamic", dtype="float32", device="cpu", context_length=256
        )

    alone: dict[str, float] = {}
    for request in requests:
        alone |= score(open_reader(), request)
    reader = open_reader()
    for _ in range(2):
        together = score(reader, *requests)
        assert together == pytest.approx(alone, abs=1e-4)
