"""Batched generation of replies with batch-independent sampling and log-probabilities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import LogitsProcessor, StoppingCriteria

from winnow.keys import derive_seed
from winnow.modeling.tokens import get_single_token_id
from winnow.readers.stops import end_reply, find_stop
from winnow.requests import Generate, Generation, Likelihood, Score, Usage

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from winnow.modeling.loading import LanguageModel
    from winnow.readers.runtime import TokenizedRequest


_VOCABULARY_HINT = (
    "Log-probabilities can be reported only for single tokens of the model's vocabulary."
)


class SeededSampler(LogitsProcessor):
    """A logits processor that turns greedy search into sampling.

    Each row of the batch has its own temperature, top-p and random stream.

    The token with the largest sum of logit and Gumbel noise is a sample from the softmax
    (Gumbel-max trick). The noise of a row is seeded by its request, so that the text does not
    depend on the batch. In contrast, transformers' own sampling uses one stream of random numbers
    for the whole batch.

    Args:
        requests: Request of each row.
    """

    def __init__(self, requests: Sequence[Generate]) -> None:
        """Create a random generator for each row with a temperature above 0."""
        self.decodings = [request.decoding for request in requests]
        self.streams = [
            (
                torch.Generator().manual_seed(derive_seed(request))
                if request.decoding.temperature > 0
                else None
            )
            for request in requests
        ]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:  # noqa: ARG002 (transformers' signature)
        """Add noise to the (rows, vocabulary) scores; a row's argmax is then the sampled token."""
        noisy_scores = (
            scores.float().clone()
        )  # the original scores are needed for log-probabilities
        for row, (decoding, stream) in enumerate(zip(self.decodings, self.streams, strict=True)):
            if stream is not None:
                noise = -torch.empty(scores.shape[-1]).exponential_(generator=stream).log()
                logits = _mask_outside_nucleus(
                    noisy_scores[row] / decoding.temperature, decoding.top_p
                )
                noisy_scores[row] = logits + noise.to(scores.device)
        return noisy_scores


class StopStrings(StoppingCriteria):
    """A criterion that ends each row of a batch whose generated text contains a stop string.

    transformers' own `stop_strings` also match a text that begins in the prompt, which would end a
    reply that does not contain it, and none that ends inside the bytes of a token.

    Args:
        decode: Function that decodes tokens.
        stop: Stop strings.
        width: Number of tokens before the generated ones in each row.
    """

    def __init__(
        self, decode: Callable[[Sequence[int]], str], stop: Sequence[str], width: int
    ) -> None:
        """Compute how many of the last tokens can contain a stop string."""
        self.decode, self.stop, self.width = decode, stop, width
        self.most_tokens = max(len(text.encode()) for text in stop) + 4

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_: Any) -> torch.Tensor:  # noqa: ARG002 (transformers' signature)
        """Return (rows,) whether the last tokens of each row contain a stop string."""
        ends = input_ids[:, max(self.width, input_ids.shape[1] - self.most_tokens) :].tolist()
        is_stopped = [any(text in self.decode(end) for text in self.stop) for end in ends]
        return torch.tensor(is_stopped, device=input_ids.device)


def _mask_outside_nucleus(logits: torch.Tensor, top_p: float) -> torch.Tensor:
    """Set the logits of tokens outside the nucleus to minus infinity.

    The nucleus is the smallest set of most probable tokens whose total probability is at least
    `top_p`.
    """
    if top_p == 1.0:
        return logits
    sorted_logits, order = logits.sort(descending=True)
    probabilities = sorted_logits.softmax(dim=-1)
    preceding_mass = probabilities.cumsum(dim=-1) - probabilities
    outside = torch.zeros_like(logits, dtype=torch.bool).scatter(0, order, preceding_mass >= top_p)
    return logits.masked_fill(outside, -torch.inf)


def generate(lm: LanguageModel, requests: Sequence[Generate], inputs: Any) -> list[Generation]:
    """Generate a reply to each row of the inputs.

    Args:
        lm: Model and tokenizer.
        requests: Request of each row. All have the same `max_new_tokens`, `logprobs`, `stop` and
            `token_logprobs`.
        inputs: Padded prompts: keyword arguments of the model, with "input_ids" and
            "attention_mask".
    """
    decoding, named_tokens = requests[0].decoding, requests[0].token_logprobs
    named_ids = {
        token: get_single_token_id(lm.tokenizer, token, _VOCABULARY_HINT) for token in named_tokens
    }
    needs_sampler = any(request.decoding.temperature > 0 for request in requests)
    width = lm.get_prompt_width(inputs["input_ids"])

    def decode(ids: Sequence[int]) -> str:
        return decode_reply(lm.tokenizer, ids, named_ids.values())

    with torch.inference_mode():
        output = lm.model.generate(  # type: ignore[operator]  # transformers types it as Tensor | Module
            **inputs, **lm.build_start(len(requests)), max_new_tokens=decoding.max_new_tokens,
            pad_token_id=lm.tokenizer.pad_token_id, do_sample=False, num_beams=1,
            repetition_penalty=1.0,
            logits_processor=[SeededSampler(requests)] if needs_sampler else None,
            return_dict_in_generate=True, output_logits=decoding.logprobs or bool(named_tokens),
            stopping_criteria=[StopStrings(decode, decoding.stop, width)]
            if decoding.stop else None,
        )  # fmt: skip
    sequences = output.sequences[:, width:]
    logits_per_step = () if output.logits is None else output.logits
    steps = [logits.float().log_softmax(dim=-1) for logits in logits_per_step]
    logprobs = _gather_logprobs(steps, sequences) if decoding.logprobs else None
    best = [step.topk(decoding.top_logprobs) for step in steps] if decoding.top_logprobs else []
    token_logprobs = {
        token: torch.stack([step[:, token_id] for step in steps], dim=1).tolist()
        for token, token_id in named_ids.items()
    }
    tokens_in = inputs["attention_mask"].sum(dim=1).tolist()
    return [
        _build_generation(
            lm,
            sequence,
            int(tokens_in[row]),
            None if logprobs is None else logprobs[row],
            {token: logprobs_of_rows[row] for token, logprobs_of_rows in token_logprobs.items()},
            named_ids,
            decode,
            decoding.stop,
            [(top.indices[row].tolist(), top.values[row].tolist()) for top in best],
        )
        for row, sequence in enumerate(sequences.tolist())
    ]


def _gather_logprobs(steps: Sequence[torch.Tensor], sequences: torch.Tensor) -> list[list[float]]:
    """Gather the log-probabilities of the generated tokens, before temperature and top-p.

    Args:
        steps: Log-probabilities of shape (rows, vocabulary) at each step.
        sequences: Generated token ids of shape (rows, steps).
    """
    columns = [
        step.gather(1, sequences[:, index : index + 1]).squeeze(1)
        for index, step in enumerate(steps)
    ]
    logprobs: list[list[float]] = torch.stack(columns, dim=1).tolist()
    return logprobs


def _build_generation(
    lm: LanguageModel,
    generated_ids: list[int],
    tokens_in: int,
    logprobs: Sequence[float] | None,
    token_logprobs: Mapping[str, Sequence[float]],
    named_ids: Mapping[str, int],
    decode: Callable[[Sequence[int]], str],
    stop: Sequence[str],
    best: Sequence[tuple[list[int], list[float]]],
) -> Generation:
    """Build a Generation from a row's generated tokens up to its first end token or stop string.

    Named tokens stay in its text.
    """
    end = next(
        (
            position
            for position, token_id in enumerate(generated_ids)
            if token_id in lm.end_token_ids
        ),
        None,
    )
    reply_ids = generated_ids if end is None else generated_ids[:end]
    tokens_out = len(reply_ids) + (end is not None)  # the end token is generated too
    if (
        stopped := find_stop(decode, reply_ids, stop)
    ) is not None:  # padding follows, while other rows are generated
        tokens_out, reply_ids = stopped, reply_ids[:stopped]
    text, finish = end_reply(decode(reply_ids), "length" if end is None else "stop", stop)
    return Generation(
        text,
        finish,
        Usage(tokens_in, tokens_out),
        logprobs=None if logprobs is None else tuple(logprobs[:tokens_out]),
        token_logprobs={
            token: tuple(values[:tokens_out]) for token, values in token_logprobs.items()
        }
        or None,
        token_positions={
            token: tuple(
                position for position, token_id in enumerate(reply_ids) if token_id == named_id
            )
            for token, named_id in named_ids.items()
        }
        or None,
        tokens=_decode_each(lm.tokenizer, generated_ids[:tokens_out]) if best else (),
        top_logprobs=tuple(_name_tokens(lm.tokenizer, *top) for top in best[:tokens_out]),
    )


def _decode_each(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> tuple[str, ...]:
    """Return the text that each token adds to those before it, which together are the whole text.

    A token alone may lose its space, or be a part of a character, of which the last one has the
    text.
    """
    texts, whole = list[str](), ""
    for end in range(1, len(ids) + 1):
        text = str(tokenizer.decode(list(ids[:end])))
        is_part = text.endswith("\ufffd") and end < len(ids)
        texts.append("" if is_part else text[len(whole) :])
        whole = whole if is_part else text
    return tuple(texts)


def _name_tokens(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], logprobs: Sequence[float]
) -> dict[str, float]:
    """Return the log-probabilities by token text, best first. Equal texts keep the first value."""
    logprobs_by_text: dict[str, float] = {}
    for token_id, logprob in zip(ids, logprobs, strict=True):
        logprobs_by_text.setdefault(str(tokenizer.decode(token_id)), logprob)
    return logprobs_by_text


def decode_reply(
    tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], kept_ids: Collection[int] = ()
) -> str:
    """Decode the tokens of a reply without special tokens, except for those that are to be kept.

    Args:
        tokenizer: Tokenizer of the model.
        ids: Token ids of the reply.
        kept_ids: Ids of special tokens that stay in the text, such as Self-RAG's reflection tokens.
    """
    if not kept_ids:
        return str(tokenizer.decode(list(ids), skip_special_tokens=True))
    left_out = set(tokenizer.all_special_ids).difference(kept_ids)
    return str(
        tokenizer.decode(
            [token_id for token_id in ids if token_id not in left_out], skip_special_tokens=False
        )
    )


def score_targets(
    lm: LanguageModel,
    batch: Sequence[TokenizedRequest],
    logits_BTV: torch.Tensor,
    *,
    align_right: bool,
) -> list[Score]:
    """Return the score of each request: the sum over its target and, if requested, each token."""
    scores = []
    targets = [item.target for item in batch]
    for item, logprobs in zip(
        batch, gather_target_logprobs(logits_BTV, targets, align_right=align_right), strict=True
    ):
        parts: tuple[tuple[str, ...], tuple[float, ...]] = ((), ())
        if isinstance(item.request, Likelihood) and item.request.per_token:
            parts = _decode_each(lm.tokenizer, item.target), tuple(logprobs.tolist())
        scores.append(Score(float(logprobs.sum()), Usage(item.length), "", *parts))
    return scores


def gather_target_logprobs(
    logits_BTV: torch.Tensor, targets: Sequence[Sequence[int]], *, align_right: bool
) -> list[torch.Tensor]:
    """Gather the log-probabilities of each row's target tokens.

    Args:
        logits_BTV: Logits of shape (rows, positions, vocabulary). The number of positions is that
            of the longest target.
        targets: Target token ids of each row.
        align_right: Whether targets are aligned with the last positions (left padding) and not with
            the first ones.
    """
    gathered = []
    for row, target in enumerate(targets):
        positions = logits_BTV.shape[1]
        logits = (
            logits_BTV[row, positions - len(target) :]
            if align_right
            else logits_BTV[row, : len(target)]
        )
        target_ids = torch.tensor(list(target), device=logits.device)
        gathered.append(
            logits.float().log_softmax(dim=-1).gather(1, target_ids[:, None]).squeeze(1)
        )
    return gathered
