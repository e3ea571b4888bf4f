"""OpenVINO's part of a local reader: the converted model, and what runs on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from winnow.modeling.loading import load_text_interface
from winnow.modeling.openvino_conversions import find_converted
from winnow.modeling.text_interface import TextInterface
from winnow.readers.runtime import TokenizedRequest
from winnow.requests import Generate, Likelihood, Request, Result, Score, Usage

if TYPE_CHECKING:
    from winnow.readers.openvino import ContinuousBatch
    from winnow.readers.openvino_scoring import ContinuationScorer

OPENVINO = "openvino-3"
"""Name of OpenVINO in identities. Its number is raised when equal settings give other results: the
first let prompts run together of which one was the beginning of another, and the second left stop
strings to the library."""


@dataclass
class OpenVinoRuntime:
    """A model that is converted for OpenVINO when its first request comes, unless it was before.

    Args:
        path: Safetensors folder, hub name or GGUF file.
        converted: Folder for converted models.
        weights: "full" or "int8".
        dtype: "float32" or "bfloat16".
        cache_gb: Memory for the keys and values of prompts, in GiB; likelihoods have as much again.
        max_rows: Maximum number of generations that run together.
        max_tokens: Maximum number of prompt tokens that are read in one step.
        context_length: Maximum number of tokens of prompt and reply together; None means the
            model's own limit.
    """

    path: str
    converted: Path
    weights: str
    dtype: str
    cache_gb: int
    max_rows: int
    max_tokens: int
    context_length: int | None
    batch: ContinuousBatch | None = field(default=None, repr=False)
    """The generations that run."""
    scorer: ContinuationScorer | None = field(default=None, repr=False)
    """The graph that computes likelihoods."""

    @property
    def software(self) -> str:
        """Return OpenVINO GenAI and its version."""
        return f"openvino-genai {version('openvino-genai')}"

    @property
    def identity(self) -> str:
        """Return OpenVINO's name in identities, and the weights' precision unless it is "full"."""
        return f"/{OPENVINO}" + ("" if self.weights == "full" else f"/{self.weights}")

    @property
    def reuses_prefixes(self) -> bool:
        """Return True."""
        return True

    @cached_property
    def text(self) -> TextInterface:
        """The tokenizer and the limits of the model, which are stored with a converted one."""
        return load_text_interface(self.path, find_converted(*self._conversion))

    @property
    def _conversion(self) -> tuple[str, Path, str, str]:
        """What a conversion depends on."""
        return self.path, self.converted, self.weights, self.dtype

    def explain_refusal(self, request: Request) -> str | None:
        """Return why OpenVINO does not serve a request, or None if it does."""
        limitation = ""
        if isinstance(request, Likelihood) and request.per_token:
            limitation = "no log-probabilities of the tokens of a text"
        elif isinstance(request, Generate):
            decoding = request.decoding
            if decoding.top_logprobs:
                limitation = "no log-probabilities of other tokens"
            elif request.token_logprobs:
                limitation = "no log-probabilities of named tokens"
            elif decoding.logprobs and decoding.temperature > 0:
                limitation = "log-probabilities of greedy replies only"
        return (
            f"reader.engine.runtime=openvino has {limitation}. Use runtime=torch."
            if limitation
            else None
        )

    def add(self, item: TokenizedRequest) -> None:
        """Add a request to the generations or likelihoods that run."""
        if isinstance(item.request, Generate):
            self.open_batch().add(item)
        else:
            self.open_scorer().add(item)

    def collect(self) -> Sequence[tuple[Request, Result]]:
        """Run until at least one request is finished, and return the finished ones."""
        if self.batch is not None and (results := self.batch.collect()):
            return results
        if self.scorer is None:
            return []
        return [
            (item.request, Score(value, Usage(item.length)))
            for item, value in self.scorer.collect()
        ]

    def close(self) -> None:
        """Release the weights, and drop the requests that are not finished."""
        self.batch, self.scorer = None, None

    def open_batch(self) -> ContinuousBatch:
        """Return the generations that run. On first use, the model is loaded."""
        if self.batch is None:
            from winnow.readers.openvino import ContinuousBatch

            self.batch = ContinuousBatch(
                self._convert(),
                self.text,
                self.dtype,
                self.cache_gb,
                self.max_rows,
                self.max_tokens,
                self.context_length or self.text.context_length,
            )
        return self.batch

    def open_scorer(self) -> ContinuationScorer:
        """Return the graph that computes likelihoods. On first use, the model is loaded."""
        if self.scorer is None:
            from winnow.readers.openvino_scoring import ContinuationScorer

            self.scorer = ContinuationScorer(
                self._convert(), self.dtype, self.cache_gb, self.max_tokens
            )
        return self.scorer

    def _convert(self) -> Path:
        """Return the folder of the converted model."""
        if (folder := find_converted(*self._conversion)) is not None:
            return folder
        from winnow.modeling.openvino_export import convert_causal_lm

        return convert_causal_lm(*self._conversion)
