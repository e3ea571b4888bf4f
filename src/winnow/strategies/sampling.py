"""Self-consistency: every prompt is sampled `decoding.samples` times, and all replies vote (Post-Fusion paper, section 4.4).

It is a decoding, not a strategy of its own, so that it applies to each of them: `decoding=self_consistency
decoding.samples=10`. Samples are numbered, so that p = 10 reuses the first five of p = 5 from the ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from winnow.records import Generate, Passage, Plan
from winnow.strategies.replies import read_answer


@dataclass(frozen=True, slots=True)
class Pool:
    """The replies to one prompt, the answer read from each, and the passages that the prompt showed."""

    answers: tuple[str, ...]
    replies: tuple[str, ...]
    used: tuple[Passage, ...] = ()


def request_pools(requests: Sequence[Generate], read: Callable[[str], str] = read_answer) -> Plan[list[Pool]]:
    """Yield every prompt as often as its decoding has samples, and return one pool per prompt."""
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
        drawn = [next(replies) for _ in range(count)]
        used = drawn[0].passages if drawn[0].dropped else request.passages
        pools.append(Pool(tuple(read(reply.text) for reply in drawn), tuple(reply.text for reply in drawn), used))
    return pools
