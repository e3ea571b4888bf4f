"""Sentence encoders, which map texts to vectors for dense retrieval and the bi-encoder estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from winnow.errors import ConfigError
from winnow.modeling.loading import POOLER_WEIGHTS, build_hub_arguments, check_model, pick_device, pick_dtype, resolve_dtype
from winnow.modeling.memory_budget import MemoryBudget
from winnow.modeling.pair_inputs import pad_rows
from winnow.modeling.weights import load_pretrained, load_tokenizer_or_config
from winnow.records import Passage

if TYPE_CHECKING:
    import torch

Advance = Callable[[int], None]
"""A function that is called with the number of texts in each finished batch."""


@dataclass
class SentenceEncoder:
    """An encoder of texts with any model like BERT, which is loaded on first use.

    Args:
        path: Safetensors folder or hub name.
        query_path: Separate model for queries, as in DPR; None means that queries use the same model as passages.
        passage_template: Template of a passage with the fields {title} and {text} (DPR: "{title} [SEP] {text}").
        pooling: "mean" for the mean of all tokens, or "cls" for the first token. DPR models use their own pooling instead.
        normalise: Whether to scale vectors to unit length, so that inner products are cosine similarities.
        query_prefix: Text before every query ("query: " for E5).
        passage_prefix: Text before every passage.
        max_length: Maximum number of tokens of a text. Longer texts are truncated, and counted in `truncated`.
        dtype: "float32", "bfloat16", "float16" or "auto" (bfloat16 if the hardware supports it).
        device: "auto", "cpu" or "cuda".
        batch_tokens: Maximum number of padded tokens per batch. It is lowered if a GPU has too little memory.
        truncated: Number of texts truncated so far.

    """

    revision: ClassVar[int] = 1
    speed_only: ClassVar[Mapping[str, str]] = {
        "device": "every device computes the same up to rounding",
        "batch_tokens": "batches affect vectors only by rounding",
    }
    model_paths: ClassVar[tuple[str, ...]] = ("path", "query_path")

    path: str
    query_path: str | None = None
    passage_template: str = "{title}. {text}"
    pooling: Literal["mean", "cls"] = "mean"
    normalise: bool = True
    query_prefix: str = ""
    passage_prefix: str = ""
    max_length: int = 256
    dtype: str = "auto"
    device: str = "auto"
    batch_tokens: int = 8192
    truncated: int = field(default=0, repr=False)
    _loaded: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Raise ConfigError if `pooling` is unknown or `passage_template` lacks the field {text}."""
        if self.pooling not in ("mean", "cls"):
            raise ConfigError(f"encoder.pooling must be mean or cls; received {self.pooling!r}.")
        if "{text}" not in self.passage_template:
            raise ConfigError(f"encoder.model.passage_template must contain {{text}}; received {self.passage_template!r}.")

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with dtype "auto" resolved for this machine."""
        dtype = resolve_dtype(str(settings.get("dtype", "auto")), str(settings.get("device", "auto")))
        return {**settings, "dtype": dtype}

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode queries to vectors of shape (texts, dimensions)."""
        return self._encode([self.query_prefix + text for text in texts], self.query_path or self.path)

    def encode_passages(self, passages: Sequence[Passage], advance: Advance | None = None) -> NDArray[np.float32]:
        """Encode passages to vectors of shape (passages, dimensions)."""
        texts = [self.passage_template.format(title=passage.title, text=passage.text) for passage in passages]
        return self._encode([self.passage_prefix + text for text in texts], self.path, advance)

    def _encode(self, texts: Sequence[str], path: str, advance: Advance | None = None) -> NDArray[np.float32]:
        """Encode texts in batches of similar length with the model at `path`. The vectors are in the order of the texts."""
        import torch

        model, tokenizer, device = self._load(path)
        fields: dict[str, list[list[int]]] = {}
        if texts:
            fields = dict(tokenizer(list(texts), truncation=True, max_length=self.max_length))
        rows = fields.get("input_ids", [])
        longest = [text for text, row in zip(texts, rows, strict=True) if len(row) == self.max_length]
        self.truncated += sum(len(ids) > self.max_length for ids in tokenizer(longest)["input_ids"]) if longest else 0
        padding = {"input_ids": tokenizer.pad_token_id, "token_type_ids": tokenizer.pad_token_type_id, "attention_mask": 0}
        vectors = np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)

        def encode_batch(batch: Sequence[int]) -> torch.Tensor:
            inputs = {
                name: pad_rows([values[index] for index in batch], padding[name])[0].to(device)
                for name, values in fields.items()
            }
            with torch.inference_mode():
                return self._pool(model(**inputs), inputs["attention_mask"])

        for indices, pooled in self._budget.run_rows(encode_batch, [len(row) for row in rows]):
            vectors[list(indices)] = pooled.cpu().numpy()
            if advance:
                advance(len(indices))
        return vectors

    @cached_property
    def _budget(self) -> MemoryBudget:
        """The limit on padded tokens per batch, which is lowered if the GPU's memory does not suffice."""
        return MemoryBudget(self.batch_tokens, "encoder.model.batch_tokens")

    def _pool(self, output: Any, mask: torch.Tensor) -> torch.Tensor:
        """Pool token vectors (batch, tokens, dimensions) to text vectors (batch, dimensions)."""
        import torch

        hidden = getattr(output, "last_hidden_state", None)
        if hidden is None:
            pooled = output.pooler_output.float()
        elif self.pooling == "cls":
            pooled = hidden[:, 0].float()
        else:
            hidden = hidden.float()
            weights = mask.unsqueeze(-1).float()
            pooled = (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
        return torch.nn.functional.normalize(pooled, dim=-1) if self.normalise else pooled

    def _load(self, path: str) -> Any:
        """Return the model, tokenizer and device of a path. They are loaded only once."""
        if path not in self._loaded:
            from transformers import AutoConfig, AutoModel, AutoTokenizer, DPRContextEncoder
            from transformers.utils import logging as hf_logging

            check_model(path)
            hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            device = pick_device(self.device)
            source, hub_options = build_hub_arguments(path)
            architecture = (load_tokenizer_or_config(AutoConfig, source, **hub_options).architectures or [""])[0]
            # AutoModel loads any DPR folder as a question encoder, which would leave a context encoder's weights random.
            model_class: Any = DPRContextEncoder if architecture == "DPRContextEncoder" else AutoModel
            options = {"dtype": pick_dtype(self.dtype, self.device), "use_safetensors": True, **hub_options}
            model = load_pretrained(model_class, source, may_lack=POOLER_WEIGHTS, **options)
            if self.pooling == "cls":
                from winnow.modeling.first_token import skip_unread_tokens

                skip_unread_tokens(model)
            self._loaded[path] = (
                model.to(device).eval(),
                load_tokenizer_or_config(AutoTokenizer, source, **hub_options),
                device,
            )
        return self._loaded[path]
