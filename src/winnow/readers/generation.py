"""Generation in batches: sampling that does not depend on the batch, and log-probabilities of tokens."""

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
    """Makes greedy search sample: each row by its own temperature, top-p and random numbers.

    The largest of logits plus Gumbel noise is a draw from their softmax (the Gumbel-max trick). The noise of a row is
    seeded by its request, so that any batch gives the same texts; transformers' own sampling draws one stream of random
    numbers for the whole batch.
    """

    def __init__(self, requests: Sequence[Generate]) -> None:
        """Start one stream of random numbers for each row that samples."""
        self.decodings = [request.decoding for request in requests]
        self.streams = [
            torch.Generator().manual_seed(_seed(request)) if request.decoding.temperature > 0 else None for request in requests
        ]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 (transformers' signature)
        """Return (rows, vocabulary) scores whose largest is each row's draw."""
        out = scores.float().clone()  # the logits that log-probabilities are read from stay as they are
        for row, (decoding, stream) in enumerate(zip(self.decodings, self.streams, strict=True)):
            if stream is not None:
                noise = -torch.empty(out.shape[-1]).exponential_(generator=stream).log()
                out[row] = _nucleus(out[row] / decoding.temperature, decoding.top_p) + noise.to(out.device)
        return out


def _nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Return the logits with all but the smallest set of probability `top_p` at minus infinity."""
    if top_p == 1.0:
        return logits
    ordered, order = logits.sort(descending=True)
    before = ordered.softmax(dim=-1).cumsum(dim=-1) - ordered.softmax(dim=-1)
    return logits.masked_fill(torch.zeros_like(before, dtype=torch.bool).scatter(0, order, before >= top_p), -torch.inf)


def _seed(request: Generate) -> int:
    return int.from_bytes(request_key("seed", request)[:8], "big") >> 1


def generate(lm: LanguageModel, requests: Sequence[Generate], inputs: Any) -> list[Generation]:
    """Generate a reply to each row of the padded inputs; all requests name the same tokens for their log-probabilities."""
    decoding, tokens = requests[0].decoding, requests[0].token_logprobs
    ids = {token: single_token(lm.tokenizer, token, _HINT) for token in tokens}
    sampled = any(request.decoding.temperature > 0 for request in requests)
    with torch.inference_mode():
        output = lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
            **inputs, max_new_tokens=decoding.max_new_tokens, pad_token_id=lm.tokenizer.pad_token_id, do_sample=False,
            num_beams=1, repetition_penalty=1.0, logits_processor=[SeededSampler(requests)] if sampled else None,
            return_dict_in_generate=True, output_logits=decoding.logprobs or bool(tokens),
        )  # fmt: skip
    sequences = output.sequences[:, lm.prompt_width(inputs["input_ids"]) :]
    steps = [step.float().log_softmax(dim=-1) for step in output.logits] if output.logits is not None else []
    chosen = _gather(steps, sequences) if decoding.logprobs else None
    named = {token: torch.stack([step[:, n] for step in steps], dim=1).tolist() for token, n in ids.items()}
    tokens_in = inputs["attention_mask"].sum(dim=1).tolist()
    return [
        _generation(
            lm,
            sequence,
            int(tokens_in[row]),
            None if chosen is None else chosen[row],
            {token: values[row] for token, values in named.items()},
        )
        for row, sequence in enumerate(sequences.tolist())
    ]


def _gather(steps: Sequence[torch.Tensor], sequences: torch.Tensor) -> list[list[float]]:
    """Return (rows, steps) log-probabilities of the generated tokens, before temperature and top-p."""
    chosen = [step.gather(1, sequences[:, n : n + 1]).squeeze(1) for n, step in enumerate(steps)]
    rows: list[list[float]] = torch.stack(chosen, dim=1).tolist()
    return rows


def _generation(
    lm: LanguageModel,
    ids: list[int],
    tokens_in: int,
    logprobs: Sequence[float] | None,
    named: Mapping[str, Sequence[float]],
) -> Generation:
    """Return a row of generated tokens as a record, cut at its end token."""
    stop = next((n for n, token in enumerate(ids) if token in lm.ends), None)
    reply = ids if stop is None else ids[:stop]
    count = len(reply) + (stop is not None)
    return Generation(
        str(lm.tokenizer.decode(reply, skip_special_tokens=True)).strip(),
        "length" if stop is None else "stop",
        Usage(tokens_in, count),
        logprobs=None if logprobs is None else tuple(logprobs[:count]),
        token_logprobs={token: tuple(values[:count]) for token, values in named.items()} or None,
    )


def target_logprobs(logits_BTV: torch.Tensor, targets: Sequence[Sequence[int]], *, right: bool) -> list[float]:
    """Return the sum of log-probabilities of each row's target tokens.

    Args:
        logits_BTV: (rows, positions, vocabulary); position t predicts the t-th target token.
        targets: token ids per row.
        right: whether a row's target is at the end of its positions (left padding) or at their start.

    """
    sums = []
    for row, target in enumerate(targets):
        width = logits_BTV.shape[1]
        steps = logits_BTV[row, width - len(target) :] if right else logits_BTV[row, : len(target)]
        chosen = torch.tensor(list(target), device=steps.device)
        sums.append(float(steps.float().log_softmax(dim=-1).gather(1, chosen[:, None]).sum()))
    return sums
