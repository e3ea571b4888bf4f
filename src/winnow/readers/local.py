"""A reader that runs a causal language model locally with PyTorch or, on a CPU, OpenVINO GenAI.

PyTorch runs batches of prompts of similar length. OpenVINO GenAI runs one batch that requests join
and leave at any time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge
from msgspec import structs

from winnow.errors import ConfigError
from winnow.identity.markers import SpeedOnly
from winnow.modeling.architectures import explain_unsupported
from winnow.modeling.chat import render_chat, tokenize_chat
from winnow.modeling.devices import resolve_dtype, resolve_runtime
from winnow.modeling.loading import LanguageModel, load_causal_lm
from winnow.modeling.tool_calls import encode_tools, parse_tool_calls
from winnow.readers.local_engine import LocalEngine
from winnow.readers.openvino_runtime import OPENVINO, OpenVinoRuntime
from winnow.readers.runtime import Runtime, TokenizedRequest
from winnow.requests import Generate, Generation, Likelihood, Message, Request, Result, Score
from winnow.text.final import find_open_reasoning

Weights = Literal["full", "int8"]
_CONDITIONAL = f"{OPENVINO}_or_torch"
"""Meaning of runtime "auto" where OpenVINO runs: PyTorch for architectures it does not run."""
_RESOLVED = (OPENVINO, _CONDITIONAL, "openvino_or_torch")
"""Runtimes in the keys of artifacts, also of earlier versions."""
_RESERVED_OPTIONS = frozenset(
    {"add_generation_prompt", "continue_final_message", "messages", "tokenize", "tools"}
)
"""Arguments of a chat template that depend on the request."""
_log = logging.getLogger(__name__)


@dataclass
class LocalReader(LocalEngine):
    """A reader that serves Generate and Likelihood requests with a safetensors, hub or GGUF model.

    Args:
        runtime: "torch", "openvino" (CPU only), or "auto": OpenVINO on a CPU if OpenVINO GenAI is
            installed, the CPU computes in the precision, neither `quantize` nor `deterministic` is
            set, and the architecture is a tested one (see `winnow.modeling.architectures`);
            otherwise PyTorch.
        weights: "full", or "int8": OpenVINO stores the matrices of the layers in 8 bits.
        converted: Folder for models that were converted for OpenVINO.
        cache_gb: Memory of OpenVINO for the keys and values of prompts, in GiB.
        template_options: Arguments of the model's chat template by name, such as
            {"enable_thinking": False} for Qwen3.

    With OpenVINO, `batch_tokens` is the number of prompt tokens that are read in one step,
    `capacity` the number of requests that run together, and `batch_size` has no effect.
    """

    revision: ClassVar[int] = 2

    runtime: str = "torch"
    weights: Weights = "full"
    converted: Annotated[str, SpeedOnly("the folder of a conversion does not affect it")] = (
        "assets/openvino"
    )
    cache_gb: Annotated[
        int,
        Ge(1),
        SpeedOnly("a smaller cache is filled more often, and a request that exceeds it fails"),
    ] = 2
    template_options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if reserved_names := _RESERVED_OPTIONS & self.template_options.keys():
            raise ConfigError(
                f"reader.engine.template_options may not set {', '.join(sorted(reserved_names))}."
            )
        if self.weights == "int8" and (self.runtime == "torch" or self.quantize != "none"):
            raise ConfigError(
                "reader.engine.weights=int8 needs runtime=openvino and quantize=none; received "
                f"runtime={self.runtime} and quantize={self.quantize}."
            )
        if self.runtime == "openvino" and (self.quantize != "none" or self.deterministic):
            raise ConfigError(
                "reader.engine.runtime=openvino serves neither quantize=4bit nor "
                f"deterministic=true; received quantize={self.quantize} and "
                f"deterministic={self.deterministic}. Use runtime=torch."
            )

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with dtype and runtime "auto" resolved for this machine.

        The architecture is not known here, so that "auto" is only resolved to OpenVINO or PyTorch.
        The ledger's identity has the actual runtime.
        """
        settings = super().resolve_settings(settings)
        is_torch_only = settings.get("quantize", "none") != "none" or settings.get(
            "deterministic", False
        )
        runtime, device = (
            str(settings.get("runtime", cls.runtime)),
            str(settings.get("device", "auto")),
        )
        is_emulated = (
            settings["dtype"] == "bfloat16" and resolve_dtype("auto", device) != "bfloat16"
        )
        if runtime == "auto" and (is_torch_only or is_emulated):
            runtime = "torch"
        if runtime in _RESOLVED:
            return {**settings, "runtime": runtime}  # the key of an artifact from another machine
        resolved_runtime = resolve_runtime(runtime, device, settings["dtype"], "openvino_genai")
        if resolved_runtime == "openvino":
            resolved_runtime = _CONDITIONAL if runtime == "auto" else OPENVINO
        return {**settings, "runtime": resolved_runtime}

    @property
    def identity(self) -> str:
        """Return the base identity, the template options and, for OpenVINO, runtime and weights."""
        options = (
            f"/template {json.dumps(dict(self.template_options), sort_keys=True)}"
            if self.template_options
            else ""
        )
        return f"{super().identity}{options}{self.model_runtime.identity}"

    @cached_property
    def _uses_openvino(self) -> bool:
        """Whether OpenVINO runs the model. If it cannot, "auto" uses PyTorch and logs why."""
        settings = {
            name: getattr(self, name)
            for name in ("dtype", "device", "quantize", "deterministic", "runtime")
        }
        uses_openvino = self.resolve_settings(settings)["runtime"] != "torch"
        reason = (
            explain_unsupported(self.path) if uses_openvino and self.runtime != "openvino" else None
        )
        if reason is not None:
            _log.warning("%s runs with PyTorch instead of OpenVINO, because %s.", self.path, reason)
        if self.weights == "int8" and (reason is not None or not uses_openvino):
            raise ConfigError(
                f"reader.engine.weights=int8 needs OpenVINO, which does not run {self.path} here"
                f"{'' if reason is None else f', because {reason}'}. Use weights=full."
            )
        return uses_openvino and reason is None

    @cached_property
    def model_runtime(self) -> Runtime:
        """What runs the model."""
        if not self._uses_openvino:
            return self.batches
        return OpenVinoRuntime(
            self.path,
            Path(self.converted),
            self.weights,
            resolve_dtype(self.dtype, self.device),
            self.cache_gb,
            self.capacity,
            self.batch_limits[0],
            self.context_length,
        )

    def load(self) -> LanguageModel:
        """Load the model and its tokenizer, which pads on the left."""
        return load_causal_lm(self.path, self.dtype, self.device, self.quantize)

    def explain_refusal(self, request: Request) -> str | None:
        """Return why the runtime does not serve a request, or None if it does."""
        return self.model_runtime.explain_refusal(request)

    def collect(self, timeout: float) -> Sequence[tuple[Request, Result]]:
        """Return the finished requests, with what a chat template adds to their replies."""
        return [
            (request, self._complete(request, result))
            for request, result in super().collect(timeout)
        ]

    @cached_property
    def _beginning(self) -> str:
        """The tag with which the chat template begins a reply's reasoning, or "" if it has none."""
        return find_open_reasoning(
            render_chat(self.text.tokenizer, (Message("user", ""),), self.template_options)
        )

    def _complete(self, request: Request, result: Result) -> Result:
        """Prepend the prompt's final tag, count the reasoning tokens, and parse the tool calls."""
        if not isinstance(request, Generate) or not isinstance(result, Generation):
            return result
        if self._beginning and request.messages[-1].role != "assistant":
            result = structs.replace(result, text=self._beginning + result.text)
        if thoughts := result.thoughts:
            count = len(self.text.tokenizer(thoughts, add_special_tokens=False)["input_ids"])
            usage = structs.replace(
                result.usage, tokens_reasoning=min(count, result.usage.tokens_out)
            )
            result = structs.replace(result, usage=usage)
        return (
            structs.replace(result, tool_calls=parse_tool_calls(result.text))
            if request.tools
            else result
        )

    def encode(self, request: Generate | Likelihood) -> TokenizedRequest:
        """Render the messages with the model's chat template, and tokenize the resulting text."""
        tokenizer = self.text.tokenizer
        tools = (
            {"tools": encode_tools(request.tools)}
            if isinstance(request, Generate) and request.tools
            else {}
        )
        ids = tokenize_chat(
            tokenizer, request.messages, {**self.template_options, **tools}, request.passages
        )
        return TokenizedRequest(
            request, ids, self.tokenize_target(request) if isinstance(request, Likelihood) else ()
        )

    def generate(self, batch: Sequence[TokenizedRequest]) -> list[Generation]:
        """Generate a reply to each request of a batch."""
        from winnow.readers.generation import generate
        from winnow.readers.prefix import collate

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        return generate(self.lm, requests, collate(self.lm, [item.ids for item in batch]))

    def score(self, batch: Sequence[TokenizedRequest]) -> list[Score]:
        """Score the continuations in one forward pass, with logits only for their tokens."""
        import torch

        from winnow.readers.generation import score_targets
        from winnow.readers.prefix import collate

        inputs = collate(self.lm, [item.ids for item in batch], [item.target for item in batch])
        mask = inputs["attention_mask"]
        prefix_length = (
            inputs["past_key_values"].get_seq_length() if "past_key_values" in inputs else 0
        )
        longest_target = max(len(item.target) for item in batch)
        with torch.inference_mode():
            position_ids = (mask.cumsum(dim=1) - 1).clamp(min=0)
            output = self.lm.model(
                **inputs | {"input_ids": inputs["input_ids"][:, prefix_length:]},
                position_ids=position_ids[:, prefix_length:],
                logits_to_keep=longest_target + 1,
                use_cache=prefix_length > 0,
            )
        return score_targets(self.lm, batch, output.logits[:, :-1], align_right=True)
