"""What encoders of texts share: templates, tokenization, batches of similar length, and loading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge

from winnow.errors import ConfigError
from winnow.identity.markers import ModelName, SpeedOnly
from winnow.identity.values import Template, check_values
from winnow.modeling.devices import pick_dtype, resolve_dtype_setting
from winnow.modeling.loading import (
    build_hub_arguments,
    check_and_pick_device,
    read_context_length,
)
from winnow.modeling.memory_budget import MemoryBudget
from winnow.modeling.pair_inputs import pad_rows, remove_title
from winnow.modeling.weights import load_tokenizer_or_config
from winnow.records import Passage

if TYPE_CHECKING:
    import torch


@dataclass
class TextEncoder(ABC):
    """An encoder of queries and passages with a transformer, which is loaded on first use.

    Args:
        path: Safetensors folder or hub name.
        query_path: Separate model for queries, as in DPR; None means that queries use the same
            model as passages.
        passage_template: Template of a passage with the fields {title} and {text} (DPR: "{title}
            [SEP] {text}").
        query_prefix: Text before every query ("query: " for E5).
        passage_prefix: Text before every passage.
        max_length: Maximum number of tokens of a text. Longer texts are truncated, and counted in
            `truncated`.
        dtype: "float32", "bfloat16", "float16" or "auto" (bfloat16 if the hardware supports it).
        device: "auto", "cpu" or "cuda".
        batch_tokens: Maximum number of padded tokens per batch. It is lowered if a GPU has too
            little memory.
        truncated: Number of texts truncated so far.

    Attributes:
        advance: Function for a progress bar, which is called with the number of texts in each
            finished batch.
    """

    path: Annotated[str, ModelName]
    query_path: Annotated[str | None, ModelName] = None
    passage_template: Annotated[str, Template("text", optional=("title",))] = "{title}. {text}"
    query_prefix: str = ""
    passage_prefix: str = ""
    max_length: Annotated[int, Ge(1)] = 256
    dtype: str = "auto"
    device: Annotated[str, SpeedOnly("every device computes the same up to rounding")] = "auto"
    batch_tokens: Annotated[int, SpeedOnly("batches affect vectors only by rounding")] = 8192
    truncated: int = field(default=0, repr=False)
    advance: Callable[[int], None] | None = field(default=None, init=False, repr=False)
    _loaded: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        check_values("encoder.model", self)

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with dtype "auto" resolved for this machine."""
        return resolve_dtype_setting(settings)

    def _format_queries(self, texts: Sequence[str]) -> list[str]:
        """Return the texts of queries with their prefix."""
        return [self.query_prefix + text for text in texts]

    def _format_passages(self, passages: Sequence[Passage]) -> list[str]:
        """Return the passages in the template, with the prefix; untitled ones have no separator."""
        untitled = remove_title(self.passage_template)
        texts = [
            (self.passage_template if passage.title else untitled).format(
                title=passage.title, text=passage.text
            )
            for passage in passages
        ]
        return [self.passage_prefix + text for text in texts]

    def _iter_pooled(
        self, texts: Sequence[str], path: str
    ) -> Iterator[tuple[Sequence[int], torch.Tensor]]:
        """Yield the indices and pooled vectors of each batch of texts of similar lengths."""
        import torch

        model, tokenizer, device = self._load(path)
        fields: dict[str, list[list[int]]] = {}
        if texts:
            fields = dict(tokenizer(list(texts), truncation=True, max_length=self.max_length))
        rows = fields.get("input_ids", [])
        longest = [
            text for text, row in zip(texts, rows, strict=True) if len(row) == self.max_length
        ]
        self.truncated += (
            sum(
                len(ids) > self.max_length for ids in tokenizer(longest, verbose=False)["input_ids"]
            )
            if longest
            else 0
        )
        padding = {
            "input_ids": tokenizer.pad_token_id,
            "token_type_ids": tokenizer.pad_token_type_id,
            "attention_mask": 0,
        }

        def encode_batch(batch: Sequence[int]) -> torch.Tensor:
            inputs = {
                name: pad_rows([values[index] for index in batch], padding[name])[0].to(device)
                for name, values in fields.items()
            }
            with torch.inference_mode():
                return self._pool(model(**inputs), inputs["attention_mask"])

        for indices, pooled in self._budget.run_rows(encode_batch, [len(row) for row in rows]):
            yield indices, pooled
            if self.advance:
                self.advance(len(indices))

    @cached_property
    def _budget(self) -> MemoryBudget:
        """The limit on padded tokens per batch. It is lowered if GPU memory does not suffice."""
        return MemoryBudget(self.batch_tokens, "encoder.model.batch_tokens")

    @abstractmethod
    def _pool(self, output: Any, mask: torch.Tensor) -> torch.Tensor:
        """Pool the model's output with the mask (batch, tokens) to vectors (batch, dimensions)."""

    @abstractmethod
    def _load_model(self, source: str, architecture: str, options: Mapping[str, Any]) -> Any:
        """Load a model with `from_pretrained` options; its configuration names `architecture`."""

    def _load(self, path: str) -> Any:
        """Return the model, tokenizer and device of a path. They are loaded only once."""
        if path not in self._loaded:
            from transformers import AutoConfig, AutoTokenizer

            device = check_and_pick_device(path, self.device)
            source, hub_options = build_hub_arguments(path)
            architecture = (
                load_tokenizer_or_config(AutoConfig, source, **hub_options).architectures or [""]
            )[0]
            options = {
                "dtype": pick_dtype(self.dtype, self.device),
                "use_safetensors": True,
                **hub_options,
            }
            model = self._load_model(source, architecture, options)
            limit = read_context_length(model.config)
            if self.max_length > limit:
                raise ConfigError(
                    f"encoder.model.max_length={self.max_length} exceeds the {limit} tokens that "
                    f"{path} reads. Lower it."
                )
            tokenizer = load_tokenizer_or_config(AutoTokenizer, source, **hub_options)
            if tokenizer.pad_token is None:
                tokenizer.pad_token = tokenizer.eos_token
            self._loaded[path] = model.to(device).eval(), tokenizer, device
        return self._loaded[path]
