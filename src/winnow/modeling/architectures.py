"""Decides from a model's configuration whether OpenVINO GenAI runs it. Nothing is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from winnow.identity.hub import parse_model_name
from winnow.modeling.positions import LENGTH_DEPENDENT, read_rope_type

TESTED = ("gemma", "gpt2", "gpt_neox", "llama", "mistral", "phi3", "qwen2", "qwen3")
"""Architectures whose results are compared with PyTorch's by tests/readers/test_openvino.py.

A change of what is supported changes what runtime "auto" computes, and raises
`LocalReader.revision`.
"""
_UNTESTED_POSITIONS = (*LENGTH_DEPENDENT, "yarn")
"""Kinds of rotary positions that treat long texts unlike the traced one, or that are untested."""


def explain_unsupported(path: str) -> str | None:
    """Return why runtime "auto" runs a causal language model with PyTorch, or None for OpenVINO.

    Args:
        path: Safetensors folder, hub name or GGUF file. One that does not exist yet is taken to be
            supported.
    """
    if not Path(path).exists() and parse_model_name(path) is None:
        return None
    config = _read_gguf(path) if path.endswith(".gguf") else _read_config(path)
    kind = str(config.get("model_type"))
    if kind.replace("_", "") not in {name.replace("_", "") for name in TESTED}:
        return f"the architecture {kind} is not among the tested ones ({', '.join(TESTED)})"
    uses_window = config.get("sliding_window") and config.get("use_sliding_window", True)
    if uses_window or set(config.get("layer_types") or ()) - {"full_attention"}:
        return "its layers attend to a window of tokens"
    if read_rope_type(config) in _UNTESTED_POSITIONS:
        return "its rotary positions depend on the length of the text"
    return None


def _read_config(path: str) -> Mapping[str, Any]:
    """Read config.json of a folder, or the configuration of a model on the hub."""
    file = Path(path) / "config.json"
    if file.is_file():
        content: Mapping[str, Any] = json.loads(file.read_text())
        return content
    from transformers import AutoConfig

    from winnow.modeling.loading import build_hub_arguments
    from winnow.modeling.weights import load_tokenizer_or_config

    source, options = build_hub_arguments(path)
    return dict(load_tokenizer_or_config(AutoConfig, source, **options).to_dict())


def _read_gguf(path: str) -> Mapping[str, Any]:
    """Read the GGUF fields that `explain_unsupported` needs, under their names in config.json."""
    from transformers.integrations.gguf.reader import (
        read_gguf_metadata,
    )  # gguf's own reader takes 20 times as long

    fields, _ = read_gguf_metadata(path)
    kind = fields["general.architecture"]
    return {
        "model_type": kind,
        "sliding_window": fields.get(f"{kind}.attention.sliding_window"),
        "rope_scaling": {"type": fields.get(f"{kind}.rope.scaling.type")},
    }
