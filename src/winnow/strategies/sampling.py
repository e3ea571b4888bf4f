"""Self-consistency: every prompt is sampled `decoding.samples` times, and all replies vote (Post-Fusion paper, section 4.4).

Self-consistency is a decoding rather than a strategy, so that it can be combined with every strategy:
`decoding=self_consistency decoding.samples=10`. Samples are numbered, so that a run with ten samples
reuses the five samples of an earlier run from the ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from winnow.records import Generate, Passage, Plan
from winnow.strategies.replies import extract_answer


@dataclass(frozen=True, slots=True)
class Pool:
    """All replies to one prompt.

    Attributes:
        answers: Answer extracted from each reply.
        replies: Replies as the model wrote them.
        used: Passages that the prompt showed.

    """

    answers: tuple[str, ...]
    replies: tuple[str, ...]
    used: tuple[Passage, ...] = ()


def request_pools(requests: Sequence[Generate], read: Callable[[str], str] = extract_answer) -> Plan[list[Pool]]:
    """Request as many samples of each prompt as its decoding specifies, and return one pool per prompt.

    Args:
        requests: Requests, one per prompt.
        read: Function that extracts the answer from a reply.

    """
    counts = [request.decoding.samples for request in requests]
    replies = iter(
        (
            yield [
                replace(request, sample=n) if n else request
                for request, count in zip(requests, counts, strict=True)
                for n in range(count)
            ]
        )
    )
    pools = []
    for request, count in zip(requests, counts, strict=True):
        samples = [next(replies) for _ in range(count)]
        used = samples[0].passages if samples[0].dropped else request.passages
        texts = tuple(sample.text for sample in samples)
        pools.append(Pool(tuple(read(text) for text in texts), texts, used))
    return pools
