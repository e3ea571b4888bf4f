"""Model files besides weights that affect replies: generation settings and a template's date."""

from __future__ import annotations

import json
import logging
import mmap
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.identity.hub import parse_model_name

if TYPE_CHECKING:
    from transformers import GenerationConfig

_KEPT = frozenset(
    {
        "bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id",
        "forced_bos_token_id", "transformers_version", "_from_model_config", "use_cache",
        "cache_implementation",
    }
)  # fmt: skip
"""Fields of generation_config.json that may affect a reply: token meanings and its computation."""
_WITHOUT_EFFECT = frozenset(
    {
        "do_sample", "temperature", "top_p", "top_k", "min_p", "typical_p", "epsilon_cutoff",
        "eta_cutoff", "max_length", "max_new_tokens", "num_beams", "num_return_sequences",
        "length_penalty", "early_stopping", "diversity_penalty", "num_beam_groups",
        "repetition_penalty", "output_attentions", "output_hidden_states", "output_scores",
        "output_logits", "return_dict_in_generate",
    }
)  # fmt: skip
"""Fields that the settings of a request replace, or that do nothing without beams and sampling."""
_MAX_METADATA_BYTES = 64 * 2**20
"""Size of the beginning of a GGUF file that is searched for its chat template."""
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
_log = logging.getLogger(__name__)


def describe_generation(path: str) -> str:
    """Return what identifies replies besides weights, or "" without such files or settings.

    Replies do not depend on the settings of generation_config.json (see `remove_settings`), and the
    date in a chat template is the same every day. Both were otherwise once, so that keys in the
    ledger have to tell replies apart.

    Args:
        path: Folder, GGUF file or hub name, whose small files are downloaded for it.
    """
    return ("/plain" if _has_settings(path) else "") + ("/dated" if _has_date(path) else "")


def remove_settings(config: GenerationConfig) -> None:
    """Reset to defaults the generation_config.json settings that change a model's greedy replies.

    A reader's replies depend on `decoding` alone. `no_repeat_ngram_size`, `min_length`,
    `suppress_tokens` and others would change them without being part of any result's settings, and
    `stop_strings` ends in an error.
    """
    from transformers import GenerationConfig

    default = GenerationConfig()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    diff = config.to_diff_dict()
    for name in diff.keys() - _KEPT:
        setattr(config, name, getattr(default, name, None))
    if ignored_names := sorted(diff.keys() - _KEPT - _WITHOUT_EFFECT):
        _log.warning(
            "The model's generation_config.json sets %s, which readers do not use.",
            ", ".join(ignored_names),
        )


def _has_settings(path: str) -> bool:
    """Return whether generation_config.json has settings that would change greedy replies."""
    settings: Any = {}
    with suppress(OSError, ValueError):
        settings = json.loads(
            (_find_file(path, "generation_config.json") or Path()).read_text(encoding="utf-8")
        )
    names = set(settings) if isinstance(settings, dict) else set()
    return any(not _is_neutral(name, settings[name]) for name in names - _KEPT - _WITHOUT_EFFECT)


def _is_neutral(name: str, value: Any) -> bool:
    """Return whether a setting has a value without effect, such as no_repeat_ngram_size=0."""
    return not value or (name.endswith(("penalty", "guidance_scale")) and value == 1)


def _has_date(path: str) -> bool:
    """Return whether the chat template of a model shows today's date."""
    files = (
        [Path(path)]
        if path.endswith(".gguf")
        else [_find_file(path, name) for name in _TEMPLATE_FILES]
    )
    return any(
        _contains(file, b"strftime_now") for file in files if file is not None and file.is_file()
    )


def _contains(file: Path, text: bytes) -> bool:
    with file.open("rb") as stream:
        if not file.stat().st_size:
            return False
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(text, 0, _MAX_METADATA_BYTES) >= 0


def _find_file(path: str, name: str) -> Path | None:
    """Return a file of a model's folder or, for a hub name, from the hub, so that the answer is the
    same before a download.
    """
    hub_name = parse_model_name(path)
    if hub_name is None:
        return Path(path) / name
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    location = try_to_load_from_cache(hub_name.name, name, revision=hub_name.revision or None)
    if location is None:  # not even known to be missing
        with suppress(Exception):  # offline; the model cannot be loaded then either
            return Path(
                hf_hub_download(
                    hub_name.name, name, revision=hub_name.revision or None, etag_timeout=5
                )
            )
    return Path(location) if isinstance(location, str) else None
