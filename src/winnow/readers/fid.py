"""A fusion-in-decoder reader: each message of a request is encoded alone, one decoder reads them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.errors import ConfigError
from winnow.readers.batching import Item
from winnow.readers.seq2seq import Seq2SeqReader
from winnow.records import Generate, Generation, Likelihood, Request, Score, Usage


@dataclass
class FidReader(Seq2SeqReader):
    """Serves greedy Generate requests of the strategy `fid` from a folder that `winnow.training.fid` trained."""

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return the one kind."""
        return (Generate,)

    def refusal(self, request: Request) -> str | None:
        """Return why a request cannot be served: the fused decoder generates greedily, without log-probabilities."""
        if isinstance(request, Generate) and (request.decoding.temperature > 0 or request.decoding.logprobs):
            return "reader=fid generates greedy answers without log-probabilities. Use decoding=greedy."
        if isinstance(request, Generate) and request.token_logprobs:
            return "reader=fid reports no log-probabilities of tokens. Use a causal or seq2seq reader."
        return None

    def encode(self, request: Generate | Likelihood) -> Item:
        """Count the tokens of all messages; they are collated when the batch runs."""
        if isinstance(request, Likelihood) or (reason := self.refusal(request)) is not None:
            raise ConfigError(reason if isinstance(request, Generate) else "reader=fid scores no likelihoods.")
        return Item(request, [token for row in self._rows(request) for token in row])

    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Generate the replies of a batch."""
        from winnow.modeling.fid import generate_fused

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        texts = generate_fused(self.lm, [self._rows(request) for request in requests], requests[0].decoding.max_new_tokens)
        return [
            Generation(text, usage=Usage(item.length, len(self.lm.tokenizer(text)["input_ids"])))
            for item, text in zip(batch, texts, strict=True)
        ]

    def score(self, batch: Sequence[Item]) -> list[Score]:
        """Refuse: see `encode`."""
        raise ConfigError(f"reader=fid scores no likelihoods; received {len(batch)}.")

    def _rows(self, request: Generate) -> list[list[int]]:
        texts = [message.content for message in request.messages]
        rows: list[list[int]] = self.lm.tokenizer(texts, truncation=False)["input_ids"]
        return rows
