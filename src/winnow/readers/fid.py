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

    def encode(self, request: Generate | Likelihood) -> Item:
        """Count the tokens of all messages; they are laid out when the batch runs."""
        if isinstance(request, Likelihood) or request.decoding.temperature > 0:
            raise ConfigError("reader=fid writes greedy answers only; it neither samples nor scores likelihoods.")
        return Item(request, [token for row in self._rows(request) for token in row])

    def generate(self, batch: Sequence[Item]) -> list[Generation]:
        """Write the replies of a batch."""
        from winnow.fusion import write_fused

        asked = [item.request for item in batch if isinstance(item.request, Generate)]
        texts = write_fused(self.lm, [self._rows(request) for request in asked], asked[0].decoding.max_new_tokens)
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
