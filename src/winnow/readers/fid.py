"""A Fusion-in-Decoder (FiD) reader, whose decoder attends to all separately encoded messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from winnow.errors import ConfigError
from winnow.readers.runtime import TokenizedRequest
from winnow.readers.seq2seq import Seq2SeqReader
from winnow.requests import FusedGenerate, Generate, Generation, Likelihood, Request, Score, Usage


@dataclass
class FidReader(Seq2SeqReader):
    """A reader for greedy requests of the strategy `fid` with a model of `winnow.training.fid`."""

    revision: ClassVar[int] = 2

    @property
    def serves(self) -> tuple[type[Request], ...]:
        """Return Generate and FusedGenerate. The messages of either kind are encoded separately."""
        return (Generate, FusedGenerate)

    def explain_refusal(self, request: Request) -> str | None:
        """Return a reason if sampling, log-probabilities or stop strings are needed, else None."""
        if isinstance(request, Generate) and (
            request.decoding.temperature > 0 or request.decoding.logprobs
        ):
            return (
                "reader=fid only generates greedy answers, without log-probabilities. Use "
                "decoding=greedy."
            )
        if isinstance(request, Generate) and request.decoding.stop:
            return "reader=fid has no stop strings. Use a causal or seq2seq reader."
        if isinstance(request, Generate) and request.token_logprobs:
            return (
                "reader=fid does not report the log-probabilities of tokens. Use a causal or "
                "seq2seq reader."
            )
        return super().explain_refusal(request)

    @property
    def identity(self) -> str:
        """Return the base identity and "fid"; other readers of the same weights join messages."""
        return f"{super().identity}/fid"

    def encode(self, request: Generate | Likelihood) -> TokenizedRequest:
        """Tokenize all messages into one row, for its length; `generate` tokenizes each separately.

        Raises:
            ConfigError: If the request is a Likelihood, or needs sampling, log-probabilities or
                stop strings.
        """
        if isinstance(request, Likelihood):
            raise ConfigError(
                "reader=fid does not compute likelihoods. Use a causal or seq2seq reader."
            )
        reason = self.explain_refusal(request)
        if reason is not None:
            raise ConfigError(reason)
        return TokenizedRequest(
            request, [token_id for row in self._tokenize_messages(request) for token_id in row]
        )

    def generate(self, batch: Sequence[TokenizedRequest]) -> list[Generation]:
        """Generate a reply to each request of a batch."""
        from winnow.modeling.fid import decode_answer, generate_fused

        requests = [item.request for item in batch if isinstance(item.request, Generate)]
        message_rows = [self._tokenize_messages(request) for request in requests]
        answers = generate_fused(self.lm, message_rows, requests[0].decoding.max_new_tokens)
        return [
            Generation(
                decode_answer(self.lm, ids),
                "stop" if ids[-1] in self.lm.end_token_ids else "length",
                Usage(item.length, len(ids)),
            )
            for item, ids in zip(batch, answers, strict=True)
        ]

    def score(self, batch: Sequence[TokenizedRequest]) -> list[Score]:
        """Raise ConfigError, because this reader does not compute likelihoods."""
        raise ConfigError(
            f"reader=fid does not compute likelihoods; received {len(batch)} Likelihood requests. "
            "Use a causal or seq2seq reader."
        )

    def _tokenize_messages(self, request: Generate) -> list[list[int]]:
        """Return one row of token ids per message."""
        return self.tokenize([message.content for message in request.messages], cut=True)
