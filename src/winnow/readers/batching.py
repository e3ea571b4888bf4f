"""Batches of requests of similar length, which PyTorch runs."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version

from winnow.modeling.loading import LanguageModel, keep_freed_memory
from winnow.modeling.memory_budget import MemoryBudget
from winnow.modeling.positions import reset_positions
from winnow.modeling.text_interface import TextInterface
from winnow.readers.runtime import TokenizedRequest
from winnow.requests import Generate, Generation, Likelihood, Request, Result, Score


@dataclass
class Batches:
    """A runtime that runs one batch at a time, with the weights in this process.

    Args:
        load: Function that loads the model and its tokenizer, on first use.
        generate: Function that generates a reply to each item of a batch. Their max_new_tokens,
            (top_)logprobs, stop and token_logprobs are equal.
        score: Function that computes log P(continuation | prompt) for each item, in nats.
        max_tokens: Maximum number of padded prompt tokens per batch. It is lowered if a GPU has too
            little memory.
        max_rows: Maximum number of prompts per batch.
    """

    load: Callable[[], LanguageModel]
    generate: Callable[[Sequence[TokenizedRequest]], list[Generation]]
    score: Callable[[Sequence[TokenizedRequest]], list[Score]]
    max_tokens: int
    max_rows: int
    _lm: LanguageModel | None = field(default=None, repr=False)
    _groups: dict[Hashable, list[TokenizedRequest]] = field(default_factory=dict, repr=False)
    """Queued requests, sorted by length, in one list for each group that can share a batch."""

    @property
    def lm(self) -> LanguageModel:
        """Return the model with its tokenizer."""
        if self._lm is None:
            keep_freed_memory()
            self._lm = self.load()
        return self._lm

    @property
    def software(self) -> str:
        """Return PyTorch and its version."""
        return f"torch {version('torch')}"

    @property
    def identity(self) -> str:
        """Return "", because PyTorch is what an identity means without a runtime."""
        return ""

    @property
    def reuses_prefixes(self) -> bool:
        """Return False, because batches of similar length are read again."""
        return False

    @property
    def text(self) -> TextInterface:
        """Return the tokenizer and the limits of the model."""
        return self.lm.text

    @cached_property
    def _budget(self) -> MemoryBudget:
        """The limit on padded tokens per batch. It is lowered if GPU memory does not suffice."""
        return MemoryBudget(self.max_tokens, "reader.engine.batch_tokens")

    def explain_refusal(self, request: Request) -> str | None:  # noqa: ARG002 (one interface)
        """Return None."""
        return None

    def add(self, item: TokenizedRequest) -> None:
        """Queue a request among those that can share a batch, which are sorted by length."""
        group = self._groups.setdefault(_build_batch_key(item.request), [])
        insort(group, item, key=lambda queued: queued.length)

    def collect(self) -> Sequence[tuple[Request, Result]]:
        """Run one batch of the longest queued request and the next shorter ones of its group."""
        if not self._groups:
            return []
        key = max(self._groups, key=lambda one: self._groups[one][-1].length)
        items = self._groups[key]
        longest = max(1, items[-1].length)
        rows = min(self.max_rows, max(1, self._budget.tokens // longest))
        if self.lm.has_length_dependent_positions:
            rows = 1
            reset_positions(self.lm.model)
        batch, self._groups[key] = items[-rows:], items[:-rows]
        if not self._groups[key]:
            del self._groups[key]
        is_generation = isinstance(batch[0].request, Generate)

        def compute(part: Sequence[TokenizedRequest]) -> Sequence[Result]:
            return self.generate(part) if is_generation else self.score(part)

        parts = self._budget.run(compute, batch, lambda item: item.length)
        return [
            (item.request, result)
            for part, results in parts
            for item, result in zip(part, results, strict=True)
        ]

    def close(self) -> None:
        """Release the weights, and drop the requests that are not finished."""
        self._lm = None
        self._groups.clear()


def _build_batch_key(request: Generate | Likelihood) -> Hashable:
    """Build a key that is equal for requests that can share a batch."""
    if isinstance(request, Generate):
        decoding = request.decoding
        return (
            decoding.max_new_tokens,
            decoding.logprobs,
            decoding.top_logprobs,
            decoding.stop,
            request.token_logprobs,
        )
    return "likelihood"
