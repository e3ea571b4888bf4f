"""Load models, and select devices, precisions and runtimes, for readers, estimators and training.

Weights are loaded only from safetensors and GGUF files. Both contain only data, so that loading a
model never runs its author's code.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.artifacts.provenance import ASSET_RECORD, compute_file_digest
from winnow.errors import ConfigError, ModelError
from winnow.identity.hub import parse_model_name
from winnow.modeling.devices import pick_device, pick_dtype
from winnow.modeling.generation_settings import remove_settings
from winnow.modeling.positions import LENGTH_DEPENDENT, read_rope_type
from winnow.modeling.text_interface import TextInterface, read_interface
from winnow.modeling.weights import (
    check_weight_files,
    convert_errors,
    load_pretrained,
    load_tokenizer_or_config,
)

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.txt", "spiece.model", "vocab.json")
POOLER_WEIGHTS = ("pooler.",)
"""Prefixes of weights that an encoder may lack. A pooler without weights is not read."""
_OFFSET_POSITIONS = (
    "roberta", "camembert", "longformer", "mpnet", "xmod", "data2vec-text", "luke", "ibert",
    "layoutlmv3", "lilt",
)  # fmt: skip
"""Parts of the names of models that count positions from the id of the padding token on."""
_CLASSIFIER_WEIGHTS = (
    "classifier.",
    "pre_classifier.",
    "score.",
    "pooler.",
    "classification_head.",
)
"""Prefixes of the weights of a new classifier, which are initialized at random before training."""


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model with its tokenizer and its device."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device
    has_new_weights: bool = False
    """Whether weights were initialized at random, because the files lack them."""

    @property
    def context_length(self) -> int:
        """Return the context length in tokens, nearly unlimited with relative positions (T5)."""
        return read_context_length(self.model.config)

    @property
    def end_token_ids(self) -> frozenset[int]:
        """Return the ids of the tokens that end a reply."""
        return _list_end_tokens(self.model.generation_config, self.tokenizer)

    @property
    def decoder_start(self) -> list[int]:
        """Return the token ids before a reply of an encoder-decoder: its start token and, for
        BART-like models, the token that they always begin with.
        """
        forced = self.model.generation_config.forced_bos_token_id
        start = [int(self.model.config.decoder_start_token_id)]
        return start if forced is None else [*start, int(forced)]

    @cached_property
    def text(self) -> TextInterface:
        """The tokenizer and the limits of the model."""
        return TextInterface(self.tokenizer, self.context_length, self.end_token_ids)

    @property
    def has_full_attention(self) -> bool:
        """Return whether every layer attends to all earlier tokens, not just a sliding window."""
        from transformers.cache_utils import DynamicCache, DynamicLayer

        config = self.model.config
        if any(getattr(config, name, None) for name in ("attention_types", "window_size")):
            return False  # the cache does not represent the local attention of GPT-Neo
        return all(type(layer) is DynamicLayer for layer in DynamicCache(config=config).layers)

    @cached_property
    def has_length_dependent_positions(self) -> bool:
        """Whether the positions of a text depend on the longest text of its batch."""
        return read_rope_type(self.model.config.to_dict()) in LENGTH_DEPENDENT

    def build_start(self, num_rows: int) -> dict[str, torch.Tensor]:
        """Return `decoder_start` for each row, as the argument of an encoder-decoder's `generate`.

        The model then has chosen all that is generated. Others have no such argument.
        """
        import torch

        if not self.model.config.is_encoder_decoder:
            return {}
        start = torch.tensor([self.decoder_start], device=self.device)
        return {"decoder_input_ids": start.expand(num_rows, -1)}

    def get_prompt_width(self, input_ids: torch.Tensor) -> int:
        """Return how many columns of `generate`'s output the prompt, or `decoder_start`, takes."""
        is_decoder = not self.model.config.is_encoder_decoder
        return int(input_ids.shape[1]) if is_decoder else len(self.decoder_start)


def read_context_length(config: Any) -> int:
    """Return the maximum context length in tokens of a configuration or its text configuration."""
    parts = (config, config.get_text_config(decoder=True))
    lengths = (getattr(part, "max_position_embeddings", None) for part in parts)
    num_positions = int(next(filter(None, lengths), 2**31))
    is_relative = getattr(config, "relative_attention", False)
    if num_positions <= 0 or (is_relative and not getattr(config, "position_biased_input", True)):
        return 2**31
    rope = getattr(parts[1], "rope_parameters", None) or {}
    if rope.get("rope_type") in ("yarn", "linear"):
        original = rope.get("original_max_position_embeddings") or num_positions
        num_positions = max(num_positions, int(float(rope["factor"]) * original))
    has_offset = any(name in config.model_type for name in _OFFSET_POSITIONS)
    return num_positions - (int(config.pad_token_id) + 1 if has_offset else 0)


def _list_end_tokens(generation: Any, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Return the ids of the tokens that end a reply."""
    eos = getattr(generation, "eos_token_id", None)
    candidates = [
        *(eos if isinstance(eos, list) else [eos]),
        tokenizer.eos_token_id,
        tokenizer.pad_token_id,
    ]
    return frozenset(token_id for token_id in candidates if token_id is not None)


def check_model(path: str) -> None:
    """Raise ModelError if a local model lacks tokenizer, configuration or safetensors files.

    A path that does not exist is accepted if it has the form of a hub name ("owner/name").
    """
    folder = Path(path)
    if path.endswith(".gguf"):
        if not folder.is_file():
            raise ModelError(
                f"There is no GGUF file at {path}. `python -m flows.acquire dry_run=true` lists "
                "what can be downloaded."
            )
        return
    if not folder.exists():
        if path.count("/") == 1 and not path.startswith((".", "/")):
            return
        raise ModelError(
            f"There is no model folder at {path}. Correct the setting that names it (such as "
            "reader.base), or run the training that creates it."
        )
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"The model folder {path} has no config.json, so it is not a transformers model. "
            "Correct the path."
        )
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ModelError(
            f"The model folder {path} has no tokenizer (looked for {', '.join(TOKENIZER_FILES)}). "
            "Save the tokenizer beside the weights with tokenizer.save_pretrained(folder)."
        )
    check_weight_files(folder)


def keep_freed_memory() -> None:
    """Make glibc keep freed memory: returning and zeroing it takes a tenth of CPU inference time.

    Training of small models gains a third in speed. Do not use it to train large models, whose
    mixed sizes fragment the heap.
    """
    import ctypes

    m_trim_threshold, m_mmap_max = -1, -4
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return
    libc.mallopt(m_mmap_max, 0)
    libc.mallopt(m_trim_threshold, 2**31 - 1)


def load_causal_lm(path: str, dtype: str, device: str, quantize: str = "none") -> LanguageModel:
    """Load a causal language model.

    Args:
        path: Safetensors folder, hub name or GGUF file. The weights of a GGUF file are dequantised.
        dtype: "float32", "bfloat16", "float16" or "auto".
        device: "auto", "cpu" or "cuda".
        quantize: "none" or, on a GPU and for safetensors only, "4bit".
    """
    from transformers import AutoModelForCausalLM, GgufConfig

    options: dict[str, Any] = {"use_safetensors": True}
    if path.endswith(".gguf"):
        options = {"quantization_config": GgufConfig(dequantize=True)}
        if quantize != "none":
            raise ConfigError(
                f"reader.quantize={quantize} needs safetensors, but {path} is a GGUF file. Use "
                "quantize=none."
            )
    torch_device = check_and_pick_device(path, device)
    source, source_options, tokenizer = _load_tokenizer(path)
    options |= _build_quantization_options(quantize, dtype, torch_device)
    options["dtype"] = pick_dtype(dtype, device)
    model: Any = load_pretrained(AutoModelForCausalLM, source, **source_options, **options)
    remove_settings(model.generation_config)
    return LanguageModel(model.to(torch_device).eval(), tokenizer, torch_device)


def load_text_interface(path: str, converted: Path | None = None) -> TextInterface:
    """Load the tokenizer and limits of a causal language model whose weights another program runs.

    Args:
        path: Safetensors folder, hub name or GGUF file.
        converted: Folder to which the model was converted, where both are read if given.
    """
    _prepare(path)
    if (text := read_interface(converted) if converted else None) is not None:
        text.tokenizer.name_or_path = path  # which messages name
        return text
    from transformers import AutoConfig, GenerationConfig

    source, options, tokenizer = _load_tokenizer(path)
    config = load_tokenizer_or_config(AutoConfig, source, **options)
    generation = GenerationConfig.from_model_config(config)
    is_gguf = path.endswith(".gguf")  # to which no other file of its folder belongs
    with convert_errors(source):
        try:
            if not is_gguf:
                generation = GenerationConfig.from_pretrained(source, **options)
        except OSError:  # a model may lack the file
            if Path(source, "generation_config.json").is_file():
                raise
    return TextInterface(
        tokenizer,
        read_context_length(config),
        _list_end_tokens(generation, tokenizer),
    )


def _load_tokenizer(path: str) -> tuple[str, dict[str, Any], PreTrainedTokenizerBase]:
    """Load a causal LM's tokenizer, with the source and the options of `from_pretrained`."""
    from transformers import AutoTokenizer

    source, options = build_hub_arguments(path)
    if path.endswith(".gguf"):
        source, options = str(Path(path).parent), {**options, "gguf_file": Path(path).name}
    tokenizer = load_tokenizer_or_config(AutoTokenizer, source, **options)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return source, options, tokenizer


def load_seq2seq(path: str, dtype: str, device: str, quantize: str = "none") -> LanguageModel:
    """Load an encoder-decoder from safetensors or the hub, with `load_causal_lm`'s arguments."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    torch_device = check_and_pick_device(path, device)
    source, hub_options = build_hub_arguments(path)
    options = _build_quantization_options(quantize, dtype, torch_device)
    options |= {"dtype": pick_dtype(dtype, device), "use_safetensors": True}
    model: Any = load_pretrained(AutoModelForSeq2SeqLM, source, **hub_options, **options)
    remove_settings(model.generation_config)
    return LanguageModel(
        model.to(torch_device).eval(),
        load_tokenizer_or_config(AutoTokenizer, source, **hub_options),
        torch_device,
    )


def load_encoder(path: str, dtype: str, device: str, *, classes: int = 0) -> LanguageModel:
    """Load an encoder such as BERT from a safetensors folder or the hub.

    If `classes` is not 0, the model has a classifier. The classifier is loaded if the model
    contains one. Otherwise it has `classes` outputs, and its weights are initialized with torch's
    random state, so that it must be trained (`LanguageModel.has_new_weights`).
    """
    from transformers import (
        AutoConfig,
        AutoModel,
        AutoModelForSequenceClassification,
        AutoTokenizer,
    )

    torch_device = check_and_pick_device(path, device)
    source, hub_options = build_hub_arguments(path)
    options: dict[str, Any] = {"dtype": pick_dtype(dtype, device), "use_safetensors": True}
    if classes:
        architecture = (
            load_tokenizer_or_config(AutoConfig, source, **hub_options).architectures or [""]
        )[0]
        has_classifier = architecture.endswith("ForSequenceClassification")
        if not has_classifier:
            options["num_labels"] = classes
        has_new_weights = not has_classifier
        model: Any = load_pretrained(
            AutoModelForSequenceClassification,
            source,
            may_lack=_CLASSIFIER_WEIGHTS if has_new_weights else (),
            **hub_options,
            **options,
        )
    else:
        has_new_weights = False
        model = load_pretrained(
            AutoModel, source, may_lack=POOLER_WEIGHTS, **hub_options, **options
        )
    return LanguageModel(
        model.to(torch_device).eval(),
        load_tokenizer_or_config(AutoTokenizer, source, **hub_options),
        torch_device,
        has_new_weights,
    )


def build_hub_arguments(path: str) -> tuple[str, dict[str, Any]]:
    """Return the name and options for `from_pretrained`, for a path or a hub name with a revision.

    `trust_remote_code` is False, so that code from a model repository is never run. Without this
    option, transformers asks on the terminal.
    """
    name = parse_model_name(path)
    options: dict[str, Any] = {"trust_remote_code": False}
    if name is None:
        return path, options
    return name.name, {**options, "revision": name.revision} if name.revision else options


def check_and_pick_device(path: str, device: str) -> torch.device:
    """Check the model's files, disable transformers' progress bars, and return the device."""
    _prepare(path)
    return pick_device(device)


def _prepare(path: str) -> None:
    """Check the files of a model, and disable the progress bars of transformers."""
    from transformers.utils import logging as hf_logging

    check_model(path)
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def _build_quantization_options(quantize: str, dtype: str, device: torch.device) -> dict[str, Any]:
    """Build the options for 4-bit weights (NF4, bitsandbytes), or none if `quantize` is "none"."""
    if quantize == "none":
        return {}
    if device.type != "cuda":
        raise ConfigError(
            f"quantize={quantize} needs a GPU, but the device is {device}. Set quantize=none for "
            "this model or training."
        )
    from transformers import BitsAndBytesConfig

    config_class: Any = BitsAndBytesConfig  # transformers leaves it untyped
    config = config_class(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=pick_dtype(dtype, str(device)),
    )
    return {"quantization_config": config, "device_map": {"": device}}


def compute_weights_digest(path: str) -> str:
    """Hash a local model's weights, configuration and tokenizer, or return a hub name unchanged.

    The digest is the first 16 hexadecimal digits of a SHA-256. It is part of every key in the
    ledger, the store of finished calls, so that a model that was retrained into the same folder
    counts as another model.
    """
    model_path = Path(path)
    if not model_path.exists():
        return path
    suffixes = {".safetensors", ".gguf", ".json", ".jinja", ".model", ".txt"}
    files = (
        [model_path]
        if model_path.is_file()
        else sorted(file for file in model_path.rglob("*") if file.suffix in suffixes)
    )
    digest = hashlib.sha256()
    for file in files:
        if file.name in ("manifest.json", "training.json", ASSET_RECORD):
            continue
        name = file.name if model_path.is_file() else file.relative_to(model_path).as_posix()
        digest.update(name.encode())
        digest.update(compute_file_digest(file).encode())
    return digest.hexdigest()[:16]
