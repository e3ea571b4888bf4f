"""LoRA adapters: what is trained, and what is saved."""

from pathlib import Path

import pytest
import torch

from winnow.modeling.loading import load_causal_lm
from winnow.testing import make_tiny_causal_lm
from winnow.training.adapters import load_with_adapters, save_merged


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny model."""
    return str(make_tiny_causal_lm(tmp_path_factory.mktemp("base"), ["Paris is large."]))


def test_only_adapters_are_trained_and_new_ones_change_nothing(base: str) -> None:
    """Their second factors are zero, so that the first step begins at the base model."""
    lm = load_with_adapters(base, 2, "none", "cpu")
    trained = [name for name, weight in lm.model.named_parameters() if weight.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)
    assert not any("lm_head" in name or "embed" in name for name in trained)
    ids = torch.tensor([[5, 6, 7]])
    plain = load_causal_lm(base, "float32", "cpu")
    with torch.inference_mode():
        assert torch.equal(lm.model.eval()(ids).logits, plain.model.eval()(ids).logits)


def test_merged_weights_compute_what_the_adapters_did(base: str, tmp_path: Path) -> None:
    """Up to the rounding to bfloat16; the trained model stays as it is, and no adapter is left in
    the folder.
    """
    lm = load_with_adapters(base, 2, "none", "cpu")
    torch.manual_seed(1)
    with torch.no_grad():
        for name, weight in lm.model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.05)
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        adapted = lm.model.eval()(ids).logits
    prepared: list[str] = []
    save_merged(lm.model, base, tmp_path / "merged", lambda _: prepared.append("x"))
    assert prepared == ["x"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["merged"]
    assert not list((tmp_path / "merged").glob("adapter*"))
    merged = load_causal_lm_without_tokenizer(tmp_path / "merged")
    with torch.inference_mode():
        logits = merged(ids).logits
        assert torch.equal(lm.model(ids).logits, adapted)
        plain = load_causal_lm(base, "float32", "cpu").model.eval()(ids).logits
    assert torch.allclose(logits, adapted, atol=0.02)
    assert not torch.allclose(plain, adapted, atol=0.02), (
        "the adapters change what the model computes"
    )


def load_causal_lm_without_tokenizer(folder: Path) -> torch.nn.Module:
    """The saved weights, which have no tokenizer beside them yet."""
    from transformers import AutoModelForCausalLM

    model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32
    ).eval()
    return model
