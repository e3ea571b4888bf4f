"""Self-consistency: every prompt is put `decoding.samples` times, and all its replies vote (Post-Fusion paper, section 4.4).

It is a decoding, not a strategy of its own, so that it goes around each of them: `decoding=self_consistency
decoding.samples=10`. Samples are numbered, so that p = 10 finds the first five of p = 5 in the ledger.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

from winnow.records import Generate, Request
from winnow.strategies.replies import read_answer


def pools(
    asked: Sequence[Generate], read: Callable[[str], str] = read_answer
) -> Generator[Sequence[Request], Sequence[Any], list[tuple[str, ...]]]:
    """Return one pool of answers a prompt, each of as many as the prompt's decoding has samples."""
    counts = [one.decoding.samples for one in asked]
    numbered = [replace(one, sample=n) if n else one for one, count in zip(asked, counts, strict=True) for n in range(count)]
    replies = iter((yield numbered))
    return [tuple(read(next(replies).text) for _ in range(count)) for count in counts]
