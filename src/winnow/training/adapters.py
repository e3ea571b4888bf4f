"""LoRA adapters, trained in place of a causal model's weights and merged into them in the end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from winnow.modeling.loading import LanguageModel, check_model, load_causal_lm


def add_adapters(model: Any, rank: int, new_token_ids: Sequence[int] = ()) -> Any:
    """Add LoRA adapters to all linear layers, and freeze the rest but the embeddings of new tokens.

    Args:
        model: Causal model, which may be quantised.
        rank: Rank of the adapters.
        new_token_ids: Ids of the tokens whose embeddings are trained.
    """
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

    if getattr(model, "is_loaded_in_4bit", False):
        model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)  # type: ignore[no-untyped-call]
    layers = (model.get_input_embeddings(), model.get_output_embeddings())
    names = [name for name, module in model.named_modules() if module in layers]
    trained_names = names[:1] if layers[0].weight is layers[1].weight else names
    config = LoraConfig(
        r=rank,
        lora_alpha=2 * rank,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        trainable_token_indices=(
            {name: list(new_token_ids) for name in trained_names} if new_token_ids else None
        ),
    )
    return get_peft_model(model, config)


def load_with_adapters(base: str, rank: int, quantize: str, device: str) -> LanguageModel:
    """Load a causal model with new adapters in float32, or in bfloat16 if its weights are 4-bit."""
    check_model(base)
    lm = load_causal_lm(base, "bfloat16" if quantize != "none" else "float32", device, quantize)
    return LanguageModel(add_adapters(lm.model, rank), lm.tokenizer, lm.device)


def save_merged(
    model: Any,
    base: str,
    folder: Path,
    prepare: Callable[[LanguageModel], None] = lambda lm: None,  # noqa: ARG005
) -> None:
    """Merge adapters into the weights of their base model, and save these in bfloat16.

    The weights are read again from `base`, so that the weights of a quantized model are merged
    before rounding, and the trained model stays as it is.

    Args:
        model: Model with adapters.
        base: Name or folder of the base model.
        folder: Folder to which the merged model is saved.
        prepare: Function that changes the base model as it was changed before the adapters were
            added.
    """
    import torch
    from peft import PeftModel

    with tempfile.TemporaryDirectory(dir=folder.parent) as adapters:
        model.save_pretrained(
            adapters, save_embedding_layers=False
        )  # "auto" asks the hub for the base model
        lm = load_causal_lm(base, "float32", "cpu")
        prepare(lm)
        merged_model: Any = PeftModel.from_pretrained(lm.model, adapters).merge_and_unload()
    merged_model.to(torch.bfloat16).save_pretrained(folder)
