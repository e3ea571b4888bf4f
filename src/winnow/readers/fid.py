"""A Fusion-in-Decoder reader: messages are encoded separately, and the decoder attends to all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.readers.batching import Item
from winnow.readers.seq2seq import Seq2SeqReader
from winnow.records import FusedGenerate, Generate, Generation, Likelihood, Request, Score, Usage


@dataclass
class FidReader(Seq2SeqReader):
    """Serves the greedy requests of the strategy `fid` with a model trained by `winnow.training.fid`."""

    revision: ClassVar[int] = 1

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return FusedGenerate, and Generate, whose messages are encoded separately too. It scores no likelihoods."""
        return (Generate, FusedGenerate)

    def refusal(self, request: Request) -> str | None:
        """Return why sampling or log-probabilities cannot be served, or None for requests that need neither."""
        if isinstance(request, Generate) and (request.decoding.temperature > 0 or request.decoding.logprobs):
            return "reader=fid generates greedy answers without log-probabilities. Use decoding=greedy."
        if isinstance(request, Generate) and request.token_logprobs:
            return "reader=fid reports no log-probabilities of tokens. Use a causal or seq2seq reader."
        return None

    def encode(self, request: Generate | Likelihood) -> Item:
        """Tokenise all messages, for the length of the request. `generate` encodes them separately."""
        if isinstance(request, Likelihood) or (reason := self.refusal(request)) is not None:
            raise ConfigError(reason if isinstance(request, Generate) else "reader=fid scores no likelihoods.")
        return Item(request, [token for row in self._tokenise_messages(request) for token in row])

    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Generate a reply to each request of a batch."""
        from winnow.modeling.fid import generate_fused

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        rows = [self._tokenise_messages(request) for request in requests]
        texts = generate_fused(self.lm, rows, requests[0].decoding.max_new_tokens)
        return [
            Generation(text, usage=Usage(item.length, len(self.lm.tokenizer(text)["input_ids"])))
            for item, text in zip(batch, texts, strict=True)
        ]

    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Raise ConfigError, because this reader does not score."""
        raise ConfigError(f"reader=fid scores no likelihoods; received {len(batch)}.")

    def _tokenise_messages(self, request: Generate) -> list[list[int]]:
        texts = [message.content for message in request.messages]
        rows: list[list[int]] = self.lm.tokenizer(texts, truncation=False)["input_ids"]
        return rows
