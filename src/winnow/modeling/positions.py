"""Rotary positions that depend on the length of a text, and so on its batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LENGTH_DEPENDENT = ("dynamic", "longrope", "su")
"""Kinds of rotary positions that depend on the length of the longest text of a batch."""


def read_rope_type(config: Mapping[str, Any]) -> str | None:
    """Return the kind of rotary positions that a configuration names, or None."""
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind: str | None = rope.get("rope_type", rope.get("type"))
    return kind


def reset_positions(model: torch.nn.Module) -> None:
    """Forget the longest text so far, on which dynamic rotary positions depend."""
    for module in model.modules():
        if hasattr(module, "original_inv_freq") and hasattr(module, "max_seq_len_cached"):
            original: Any = module.original_inv_freq
            module.register_buffer("inv_freq", original.clone(), persistent=False)
            module.max_seq_len_cached = module.original_max_seq_len
