"""Self-consistency: `decoding.samples` replies per prompt vote (Post-Fusion paper, section 4.4).

Self-consistency is a decoding rather than a strategy, so that it can be combined with every
strategy: `decoding=self_consistency decoding.samples=10`. Samples are numbered, so that a run with
ten samples reuses the five samples of an earlier run from the ledger.
"""

import math
from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Generation, Plan
from winnow.text.answers import extract_answer
from winnow.text.final import extract_final_text


class PromptReplies(Struct, frozen=True):
    """The replies to one prompt, with the answer extracted from each.

    Attributes:
        answers: Answer extracted from each reply.
        replies: Replies without the reasoning of the model; the ledger has it.
        used: Passages in the prompt, without those that were dropped to make it fit.
        logprobs: Mean log-probability of the tokens of each reply, reasoning included; empty if
            they were not requested, or if the reader did not report those of every reply.
    """

    answers: tuple[str, ...]
    replies: tuple[str, ...]
    used: tuple[Passage, ...] = ()
    logprobs: tuple[float, ...] = ()


def request_replies(
    requests: Sequence[Generate], extract: Callable[[str], str] = extract_answer
) -> Plan[list[PromptReplies]]:
    """Sample each prompt as often as its decoding specifies, and return the replies to each prompt.

    Args:
        requests: Requests, one per prompt.
        extract: Function that extracts the answer from a reply.
    """
    generations = yield [
        structs.replace(request, sample=number) if number else request
        for request in requests
        for number in range(request.decoding.samples)
    ]
    prompt_replies, start = [], 0
    for request in requests:
        end = start + request.decoding.samples
        prompt_replies.append(_collect(request, generations[start:end], extract))
        start = end
    return prompt_replies


def _collect(
    request: Generate, samples: Sequence[Generation], extract: Callable[[str], str]
) -> PromptReplies:
    """Collect the replies to one prompt."""
    texts = tuple([extract_final_text(sample.text) for sample in samples])
    logprobs = [sample.logprobs or () for sample in samples if request.decoding.logprobs]
    means = tuple([math.fsum(own) / len(own) for own in logprobs if own])
    answers, shown_passages = (
        tuple([extract(text) for text in texts]),
        get_shown(request, samples[0]),
    )
    return PromptReplies(
        answers, texts, shown_passages, means if len(means) == len(samples) else ()
    )


def get_shown(request: Generate, reply: Generation) -> tuple[Passage, ...]:
    """Return the passages shown in a reply's prompt: the request's, except any dropped to fit."""
    return reply.passages if reply.dropped else request.passages


def check_one_path(strategy: str, decoding: Decoding) -> None:
    """Raise ConfigError if a strategy with a single path of rounds is to draw several samples."""
    if decoding.samples > 1:
        raise ConfigError(
            f"strategy={strategy} follows one path, on which samples cannot vote; received "
            f"decoding.samples={decoding.samples}. Use decoding.samples=1."
        )
