"""Sizes of benchmarks, and the measurement of functions that take turns."""

import os
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any


def scale(number: int, minimum: int = 1) -> int:
    """Return a number of items, multiplied by the environment variable WINNOW_BENCH_SIZE if that is set."""
    return max(minimum, round(number * float(os.environ.get("WINNOW_BENCH_SIZE", "1"))))


def read_peak_gigabytes(of: int = resource.RUSAGE_SELF) -> float:
    """Return the peak memory of this process, or of the largest one that it started (`resource.RUSAGE_CHILDREN`), in GB."""
    return resource.getrusage(of).ru_maxrss / 2**20


def take_turns(items: Sequence[Any], functions: Sequence[Callable[[Sequence[Any]], Any]]) -> list[tuple[list[Any], float]]:
    """Apply each function to the first half of the items and then to the second, in turn, so that a slow phase hits all.

    Returns:
        The results of each function, and the number of items that it processed per second.

    """
    middle = len(items) // 2
    results: list[list[Any]] = [[] for _ in functions]
    seconds = [0.0] * len(functions)
    for half in (items[:middle], items[middle:]):
        for number, function in enumerate(functions):
            started = time.perf_counter()
            results[number] += list(function(half))
            seconds[number] += time.perf_counter() - started
    return [(result, len(items) / spent) for result, spent in zip(results, seconds, strict=True)]
