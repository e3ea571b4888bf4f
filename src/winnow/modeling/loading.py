"""Load models, and select devices, precisions and runtimes, for readers, estimators and training.

Weights are loaded only from safetensors and GGUF files. Both contain only data, so that loading a model never runs its
author's code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from winnow.artifacts.provenance import file_digest
from winnow.errors import ConfigError, ModelError
from winnow.identity import model_name
from winnow.modeling.weights import check_weight_files, load_part, load_pretrained
from winnow.records import Message

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.txt", "spiece.model", "vocab.json")
DTYPES = ("auto", "float32", "bfloat16", "float16")
RUNTIMES = ("auto", "torch", "openvino")
POOLER_WEIGHTS = ("pooler.",)
"""Prefixes of the weights that encoders trained without a pooler lack; nothing reads a pooler's output without its weights."""
_CLASSIFIER_WEIGHTS = ("classifier.", "pre_classifier.", "score.", "pooler.")
"""Prefixes of the weights of a new classifier, which training starts at random."""


@dataclass(frozen=True)
class LanguageModel:
    """A loaded model with its tokenizer and its device."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    device: torch.device

    @property
    def context_length(self) -> int:
        """Return the maximum context length in tokens; effectively unlimited for relative positions, such as T5's."""
        return int(getattr(self.model.config, "max_position_embeddings", None) or 2**31)

    @property
    def end_token_ids(self) -> set[int]:
        """Return the ids of the tokens that end a reply."""
        eos = getattr(self.model.generation_config, "eos_token_id", None)
        eos_ids = eos if isinstance(eos, list) else [eos]
        return {t for t in [*eos_ids, self.tokenizer.eos_token_id, self.tokenizer.pad_token_id] if t is not None}

    def prompt_width(self, input_ids: torch.Tensor) -> int:
        """Return the number of columns before the reply in the output of `generate`: the prompt, or T5's start token."""
        return 1 if self.model.config.is_encoder_decoder else int(input_ids.shape[1])


def pick_device(name: str) -> torch.device:
    """Convert "auto", "cpu" or "cuda[:n]" to a torch device. "auto" means the GPU if one is available."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"device must be auto, cpu or cuda; received {name!r}.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device={name} was requested, but torch sees no GPU. Use device=auto or device=cpu.")
    return device


def resolve_dtype(name: str, device: str) -> str:
    """Resolve the name of a precision. "auto" means bfloat16 if the hardware supports it natively, and float32 otherwise.

    A CPU without AVX512-BF16 or AMX emulates bfloat16, at a quarter of the speed of float32.
    """
    import torch

    if name not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}; received {name!r}.")
    if name != "auto":
        return name
    if pick_device(device).type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        capabilities = torch.cpu.get_capabilities()
        native = bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return "bfloat16" if native else "float32"


def pick_dtype(name: str, device: str) -> torch.dtype:
    """Convert the name of a precision to a torch dtype."""
    import torch

    return cast("torch.dtype", getattr(torch, resolve_dtype(name, device)))


def resolve_runtime(name: str, device: str, dtype: str = "auto") -> str:
    """Resolve the name of a runtime.

    "auto" means OpenVINO if it is installed, the device is a CPU and the precision is not float16. Otherwise it means PyTorch.
    """
    if name not in RUNTIMES:
        raise ConfigError(f"runtime must be one of {', '.join(RUNTIMES)}; received {name!r}.")
    if name == "torch":
        return name
    on_cpu = device == "cpu" or (device == "auto" and pick_device(device).type == "cpu")
    installed = find_spec("openvino") is not None
    if name == "auto":
        return "openvino" if on_cpu and installed and dtype != "float16" else "torch"
    if not on_cpu:
        raise ConfigError(f"runtime=openvino runs on a CPU; received device={device}. Use runtime=torch, or device=cpu.")
    if not installed:
        raise ConfigError("runtime=openvino was requested, and it is not installed. `pip install openvino`, or runtime=torch.")
    return name


def check_model(path: str) -> None:
    """Raise ModelError, before anything is loaded, if a local model lacks a tokenizer, a config or safe weights.

    A path that does not exist locally is accepted as a hub name if it looks like one ("owner/name").
    """
    folder = Path(path)
    if path.endswith(".gguf"):
        if not folder.is_file():
            raise ModelError(f"There is no GGUF file at {path}. Run `python -m flows.acquire` to fetch the assets.")
        return
    if not folder.exists():
        if path.count("/") == 1 and not path.startswith((".", "/")):
            return
        raise ModelError(f"There is no model folder at {path}. Run the stage that makes it, or name a hub model.")
    if not (folder / "config.json").is_file():
        raise ModelError(f"The model folder {path} has no config.json; it is not a transformers model.")
    if not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise ModelError(
            f"The model folder {path} has no tokenizer (looked for {', '.join(TOKENIZER_FILES)}). "
            "Save the tokenizer beside the weights with tokenizer.save_pretrained(folder)."
        )
    check_weight_files(folder)


def keep_freed_memory() -> None:
    """Make glibc keep freed memory, because returning and zeroing pages takes a tenth of inference time on a CPU.

    Training of small models gains a third. Large models, whose mixed sizes fragment the heap, train better without it.
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
    """Load a causal language model from a safetensors folder, the hub or a GGUF file (dequantised to dense weights)."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source, source_options = hub_arguments(path)
    options: dict[str, Any] = {"use_safetensors": True}
    if path.endswith(".gguf"):
        source, source_options = str(Path(path).parent), {**source_options, "gguf_file": Path(path).name}
        options = {"quantization_config": GgufConfig(dequantize=True)}
        if quantize != "none":
            raise ConfigError(f"reader.quantize={quantize} needs safetensors; {path} is a GGUF file.")
    torch_device = _prepare(path, device)
    tokenizer = load_part(AutoTokenizer, source, **source_options)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    options |= _quantization(quantize, dtype, torch_device)
    options["dtype"] = pick_dtype(dtype, device)
    model: Any = load_pretrained(AutoModelForCausalLM, source, **source_options, **options)
    return LanguageModel(model.to(torch_device).eval(), tokenizer, torch_device)


def load_seq2seq(path: str, dtype: str, device: str, quantize: str = "none") -> LanguageModel:
    """Load a T5-like encoder-decoder from a safetensors folder or the hub."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    torch_device = _prepare(path, device)
    source, hub_options = hub_arguments(path)
    options = _quantization(quantize, dtype, torch_device)
    options |= {"dtype": pick_dtype(dtype, device), "use_safetensors": True}
    model: Any = load_pretrained(AutoModelForSeq2SeqLM, source, **hub_options, **options)
    return LanguageModel(model.to(torch_device).eval(), load_part(AutoTokenizer, source, **hub_options), torch_device)


def load_encoder(path: str, dtype: str, device: str, *, classes: int = 0) -> LanguageModel:
    """Load a BERT-like encoder, with a classifier if `classes` is not 0.

    If the folder contains a classifier, it is loaded. Otherwise its weights are drawn from torch's random state.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer

    torch_device = _prepare(path, device)
    source, hub_options = hub_arguments(path)
    options: dict[str, Any] = {"dtype": pick_dtype(dtype, device), "use_safetensors": True}
    if classes:
        architecture = (load_part(AutoConfig, source, **hub_options).architectures or [""])[0]
        has_classifier = architecture.endswith("ForSequenceClassification")
        if not has_classifier:
            options["num_labels"] = classes
        may_lack = () if has_classifier else _CLASSIFIER_WEIGHTS
        model: Any = load_pretrained(AutoModelForSequenceClassification, source, may_lack=may_lack, **hub_options, **options)
    else:
        model = load_pretrained(AutoModel, source, may_lack=POOLER_WEIGHTS, **hub_options, **options)
    return LanguageModel(model.to(torch_device).eval(), load_part(AutoTokenizer, source, **hub_options), torch_device)


def hub_arguments(path: str) -> tuple[str, dict[str, Any]]:
    """Return the arguments of `from_pretrained` for a path, or for a name on the hub with its commit.

    A model's own code is never run. Unless told so, transformers asks on the terminal.
    """
    name = model_name(path)
    options: dict[str, Any] = {"trust_remote_code": False}
    if name is None:
        return path, options
    return name.name, {**options, "revision": name.revision} if name.revision else options


def _prepare(path: str, device: str) -> torch.device:
    """Check the model, disable progress bars and pick the device."""
    from transformers.utils import logging as hf_logging

    check_model(path)
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return pick_device(device)


def _quantization(quantize: str, dtype: str, device: torch.device) -> dict[str, Any]:
    """Build the options for weights in 4 bits (NF4, bitsandbytes), or none if `quantize` is "none"."""
    if quantize == "none":
        return {}
    if device.type != "cuda":
        raise ConfigError(f"reader.quantize={quantize} needs a GPU; the device here is {device}. Use quantize=none.")
    from transformers import BitsAndBytesConfig

    config_class: Any = BitsAndBytesConfig  # transformers leaves it untyped
    config = config_class(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=pick_dtype(dtype, str(device)))
    return {"quantization_config": config, "device_map": {"": device}}


def chat_text(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> str:
    """Render the prompt with the model's chat template, or as plain text if the model has none."""
    if tokenizer.chat_template is None:
        return (tokenizer.bos_token or "") + "\n\n".join(message.content for message in messages) + "\n"
    turns = [{"role": message.role, "content": message.content} for message in messages]
    return str(tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False))


def weights_digest(path: str) -> str:
    """Compute the SHA-256 (first 16 hex digits) of a local model's weights, config and tokenizer, or return the hub name.

    The digest is part of every key, so that a model retrained into the same folder counts as another model.
    """
    model_path = Path(path)
    if not model_path.exists():
        return path
    suffixes = {".safetensors", ".gguf", ".json", ".jinja", ".model", ".txt"}
    files = [model_path] if model_path.is_file() else sorted(f for f in model_path.rglob("*") if f.suffix in suffixes)
    digest = hashlib.sha256()
    for file in files:
        if file.name in ("manifest.json", "training.json"):
            continue
        name = file.name if model_path.is_file() else file.relative_to(model_path).as_posix()
        digest.update(name.encode())
        digest.update(file_digest(file).encode())
    return digest.hexdigest()[:16]
