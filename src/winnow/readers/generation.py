"""Batched generation with batch-independent sampling and log-probabilities of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import LogitsProcessor

from winnow.keys import request_key
from winnow.modeling.tokens import single_token
from winnow.records import Generate, Generation, Usage

if TYPE_CHECKING:
    from winnow.modeling.loading import LanguageModel


_HINT = "Log-probabilities are reported for single tokens of the model's vocabulary."


class SeededSampler(LogitsProcessor):
    """Turns greedy search into sampling, with a temperature, top-p and random stream of its own for each row.

    The token with the largest sum of logit and Gumbel noise is a sample from the softmax (Gumbel-max trick). The noise of
    a row is seeded by its request, so that the text does not depend on the batch. In contrast, transformers' own sampling
    uses one stream of random numbers for the whole batch.
    """

    def __init__(self, requests: Sequence[Generate]) -> None:
        """Create a random generator for each row that samples."""
        self.decodings = [request.decoding for request in requests]
        self.streams = [
            torch.Generator().manual_seed(_seed(request)) if request.decoding.temperature > 0 else None for request in requests
        ]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 (transformers' signature)
        """Return (rows, vocabulary) scores of which the largest in each row is the sampled token."""
        noisy_scores = scores.float().clone()  # log-probabilities are computed from the original scores
        for row, (decoding, stream) in enumerate(zip(self.decodings, self.streams, strict=True)):
            if stream is not None:
                noise = -torch.empty(scores.shape[-1]).exponential_(generator=stream).log()
                logits = _mask_outside_nucleus(noisy_scores[row] / decoding.temperature, decoding.top_p)
                noisy_scores[row] = logits + noise.to(scores.device)
        return noisy_scores


def _mask_outside_nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Set all logits to minus infinity but those of the nucleus, the smallest set of tokens with probability `top_p`."""
    if top_p == 1.0:
        return logits
    sorted_logits, order = logits.sort(descending=True)
    probabilities = sorted_logits.softmax(dim=-1)
    preceding_mass = probabilities.cumsum(dim=-1) - probabilities
    outside = torch.zeros_like(logits, dtype=torch.bool).scatter(0, order, preceding_mass >= top_p)
    return logits.masked_fill(outside, -torch.inf)


def _seed(request: Generate) -> int:
    return int.from_bytes(request_key("seed", request)[:8], "big") >> 1


def generate(lm: LanguageModel, requests: Sequence[Generate], inputs: Any) -> list[Generation]:
    """Generate a reply to each row of the padded inputs. All requests have the same `token_logprobs`."""
    decoding, tokens = requests[0].decoding, requests[0].token_logprobs
    token_ids = {token: single_token(lm.tokenizer, token, _HINT) for token in tokens}
    needs_sampler = any(request.decoding.temperature > 0 for request in requests)
    with torch.inference_mode():
        output = lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
            **inputs, max_new_tokens=decoding.max_new_tokens, pad_token_id=lm.tokenizer.pad_token_id, do_sample=False,
            num_beams=1, repetition_penalty=1.0, logits_processor=[SeededSampler(requests)] if needs_sampler else None,
            return_dict_in_generate=True, output_logits=decoding.logprobs or bool(tokens),
        )  # fmt: skip
    sequences = output.sequences[:, lm.prompt_width(inputs["input_ids"]) :]
    steps = [logits.float().log_softmax(dim=-1) for logits in output.logits] if output.logits is not None else []
    logprobs = _gather_logprobs(steps, sequences) if decoding.logprobs else None
    token_logprobs = {
        token: torch.stack([step[:, token_id] for step in steps], dim=1).tolist() for token, token_id in token_ids.items()
    }
    tokens_in = inputs["attention_mask"].sum(dim=1).tolist()
    return [
        _generation(
            lm,
            sequence,
            int(tokens_in[row]),
            None if logprobs is None else logprobs[row],
            {token: rows[row] for token, rows in token_logprobs.items()},
        )
        for row, sequence in enumerate(sequences.tolist())
    ]


def _gather_logprobs(steps: Sequence[torch.Tensor], sequences: torch.Tensor) -> list[list[float]]:
    """Gather the (rows, steps) log-probabilities of the generated tokens, before temperature and top-p."""
    columns = [step.gather(1, sequences[:, n : n + 1]).squeeze(1) for n, step in enumerate(steps)]
    logprobs: list[list[float]] = torch.stack(columns, dim=1).tolist()
    return logprobs


def _generation(
    lm: LanguageModel,
    ids: list[int],
    tokens_in: int,
    logprobs: Sequence[float] | None,
    token_logprobs: Mapping[str, Sequence[float]],
) -> Generation:
    """Build a Generation from a row of generated tokens, cut at its end token."""
    end = next((n for n, token in enumerate(ids) if token in lm.end_token_ids), None)
    reply_ids = ids if end is None else ids[:end]
    count = len(reply_ids) + (end is not None)
    return Generation(
        str(lm.tokenizer.decode(reply_ids, skip_special_tokens=True)).strip(),
        "length" if end is None else "stop",
        Usage(tokens_in, count),
        logprobs=None if logprobs is None else tuple(logprobs[:count]),
        token_logprobs={token: tuple(values[:count]) for token, values in token_logprobs.items()} or None,
    )


def target_logprobs(logits_BTV: torch.Tensor, targets: Sequence[Sequence[int]], *, right: bool) -> list[float]:
    """Sum the log-probabilities of each row's target tokens.

    Args:
        logits_BTV: Logits of shape (rows, positions, vocabulary), one position for each target token.
        targets: Target token ids of each row.
        right: Whether the targets are aligned with the last positions (left padding) instead of the first.

    """
    sums = []
    for row, target in enumerate(targets):
        width = logits_BTV.shape[1]
        logits = logits_BTV[row, width - len(target) :] if right else logits_BTV[row, : len(target)]
        target_ids = torch.tensor(list(target), device=logits.device)
        sums.append(float(logits.float().log_softmax(dim=-1).gather(1, target_ids[:, None]).sum()))
    return sums
