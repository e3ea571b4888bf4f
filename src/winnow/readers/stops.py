"""Stop strings: a reply ends before the first of them, whichever reader wrote it."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def end_reply(text: str, finish: str, stop: Sequence[str]) -> tuple[str, str]:
    """Return a reply up to its first stop string, without white space around it, and why it ended.

    Readers also pass the stop strings to what generates, so that no further tokens are paid for.
    Not every server heeds them.

    Args:
        text: Reply as it was generated, which may contain a stop string and what follows it.
        finish: Why generation ended, if that was not a stop string.
        stop: Stop strings.
    """
    starts = [start for start in map(text.find, stop) if start >= 0]
    return (text[: min(starts)].strip(), "stop") if starts else (text.strip(), finish)


def find_stop(
    decode: Callable[[Sequence[T]], str], tokens: Sequence[T], stop: Sequence[str]
) -> int | None:
    """Return the number of tokens up to the end of the first stop string, or None without one.

    Args:
        decode: Function that decodes tokens.
        tokens: Generated tokens: ids, or texts.
        stop: Stop strings.
    """

    def is_reached(number: int) -> bool:
        text = decode(tokens[:number])
        return any(one in text for one in stop)

    if not stop or not is_reached(len(tokens)):
        return None
    return bisect_left(range(1, len(tokens)), x=True, key=is_reached) + 1
