"""Sizes of benchmarks, the measurement of functions that take turns, and the rate of a matrix
product.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import Engine, build_engine_map
from winnow.requests import Plan, Request, Result

_STATUS = Path("/proc/self/status")


def scale(number: int, minimum: int = 1) -> int:
    """Return a number of items, multiplied by the environment variable WINNOW_BENCH_SIZE if that is
    set.
    """
    return max(minimum, round(number * float(os.environ.get("WINNOW_BENCH_SIZE", "1"))))


def read_peak_gigabytes(of: int = resource.RUSAGE_SELF) -> float:
    """Return the peak memory of this process, or of the largest one that it started
    (`resource.RUSAGE_CHILDREN`), in GB.

    The system counts the memory of the process that started another one as the other one's, too, so
    that the peak of this process is read from /proc.
    """
    if of == resource.RUSAGE_SELF and _STATUS.is_file():
        (line,) = (text for text in _STATUS.read_text().splitlines() if text.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20
    return resource.getrusage(of).ru_maxrss / 2**20


def take_turns(
    items: Sequence[Any], functions: Sequence[Callable[[Sequence[Any]], Any]]
) -> list[tuple[list[Any], float]]:
    """Apply each function to the first half of the items and then to the second, in turn, so that a
    slow phase hits all.

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
            synchronise()
            seconds[number] += time.perf_counter() - started
    return [(result, len(items) / spent) for result, spent in zip(results, seconds, strict=True)]


def synchronise() -> None:
    """Wait until the GPU has finished its work, if there is one and PyTorch is in use."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def measure_matmul_rate(dtype: str, device: str = "cpu") -> float:
    """Return the floating-point operations per second of a large matrix product, the
    best of five.
    """
    import torch

    size = 8192 if device == "cuda" else 2048
    matrix = torch.randn(size, size, device=device).to(getattr(torch, dtype))
    times = []
    for _ in range(6):
        synchronise()
        started = time.perf_counter()
        matrix @ matrix
        synchronise()
        times.append(time.perf_counter() - started)
    return 2 * size**3 / min(times[1:])


def serve_with_driver(reader: Engine) -> Callable[[Sequence[Request]], list[Result]]:
    """Return a function that serves requests through the driver and a new ledger, as a
    sweep does.
    """

    def ask(request: Request) -> Plan[Result]:
        (result,) = yield [request]
        answer: Result = result
        return answer

    def serve(requests: Sequence[Request]) -> list[Result]:
        with (
            tempfile.TemporaryDirectory() as folder,
            SqliteStore(Path(folder) / "ledger.sqlite") as ledger,
        ):
            driver = Driver(build_engine_map(reader), ledger)
            outcomes = {
                outcome.tag: outcome.result
                for outcome in driver.run(Job(n, ask(r)) for n, r in enumerate(requests))
            }
        return [outcomes[n] for n in range(len(requests))]

    return serve
