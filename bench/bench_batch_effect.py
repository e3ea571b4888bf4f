"""Count the replies that change with the other prompts of their batch, in bfloat16 and float32.

With `deterministic: true` no reply changes.

python -m bench.bench_batch_effect       # after `make demo`: SmolLM2 on passages of the quick start
python -m bench.bench_batch_effect 100   # with fewer prompts
"""

import random
import sys
import time
from collections.abc import Sequence

from bench._measure import scale
from bench.bench_local_reader import MODEL, build_requests
from winnow.readers.local import LocalReader
from winnow.requests import Generate, Generation, Request

NUM_PROMPTS = int(sys.argv[1]) if len(sys.argv) > 1 else scale(300, 4)


def generate_replies(
    requests: Sequence[Generate], dtype: str, batch_size: int, *, deterministic: bool = False
) -> tuple[list[str], float]:
    """Return the text of each reply, and the number of replies per second."""
    reader = LocalReader(
        str(MODEL),
        "bench",
        dtype=dtype,
        batch_size=batch_size,
        batch_tokens=2**20,
        deterministic=deterministic,
    )
    reader.submit(requests[:1])
    reader.collect(0.0)  # loads the model
    start = time.monotonic()
    reader.submit(requests)
    texts: dict[Request, str] = {}
    while batch := reader.collect(0.0):
        texts.update(
            {request: result.text for request, result in batch if isinstance(result, Generation)}
        )
    return [texts[request] for request in requests], len(requests) / (time.monotonic() - start)


def format_difference(first: Sequence[str], second: Sequence[str]) -> str:
    """Return the percentage of replies that differ, as text."""
    changed = sum(text != other for text, other in zip(first, second, strict=True))
    return f"{100 * changed / len(first):.1f} % of replies differ"


def main() -> None:
    """Compare batched prompts with prompts that run alone, and two orders of the prompts with each
    other.
    """
    requests = build_requests([1, 5], NUM_PROMPTS)
    shuffled = random.Random(1).sample(requests, len(requests))
    for dtype in ("bfloat16", "float32"):
        alone, rate = generate_replies(requests, dtype, 1)
        print(
            f"{dtype}: {len(requests)} prompts of 1 or 5 passages; one at a time: {rate:.2f} a "
            "second"
        )
        for batch_size in (4, 16):
            together, rate = generate_replies(requests, dtype, batch_size)
            print(
                f"  batches of {batch_size}: {format_difference(alone, together)}, {rate:.2f} a "
                "second"
            )
        deterministic, rate = generate_replies(requests, dtype, 16, deterministic=True)
        shuffled_replies, _ = generate_replies(shuffled, dtype, 16, deterministic=True)
        by_request = dict(zip(shuffled, shuffled_replies, strict=True))
        difference = format_difference(deterministic, [by_request[request] for request in requests])
        print(f"  deterministic, another order: {difference}, {rate:.2f} a second")


if __name__ == "__main__":
    main()
