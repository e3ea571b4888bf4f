"""How many replies change with what shares their batch, in bfloat16 and float32; none do with `deterministic: true`.

python -m bench.bench_batch_effect       # after `make demo`: SmolLM2 on passages of the quick start
python -m bench.bench_batch_effect 100   # with fewer prompts
"""

import random
import sys
import time
from collections.abc import Sequence

from bench.bench_local_reader import MODEL, prompts
from winnow.readers.local import LocalReader
from winnow.records import Generate, Generation, Request

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 300


def replies(requests: Sequence[Generate], dtype: str, size: int, *, deterministic: bool = False) -> tuple[list[str], float]:
    """The text of each reply, and how many replies a second."""
    reader = LocalReader(
        str(MODEL), "bench", dtype=dtype, device="cpu", batch_size=size, batch_tokens=2**20, deterministic=deterministic
    )
    reader.submit(requests[:1])
    reader.collect(0.0)  # loads the model
    start = time.monotonic()
    reader.submit(requests)
    texts: dict[Request, str] = {}
    while batch := reader.collect(0.0):
        texts.update({request: result.text for request, result in batch if isinstance(result, Generation)})
    return [texts[request] for request in requests], len(requests) / (time.monotonic() - start)


def share(first: Sequence[str], second: Sequence[str]) -> str:
    """How many replies differ, as text."""
    changed = sum(a != b for a, b in zip(first, second, strict=True))
    return f"{100 * changed / len(first):.1f} % of replies differ"


def main() -> None:
    """Compare batches with prompts that run alone, and an order with another one."""
    requests = prompts([1, 5])[:COUNT]
    shuffled = random.Random(1).sample(requests, len(requests))
    for dtype in ("bfloat16", "float32"):
        alone, rate = replies(requests, dtype, 1)
        print(f"{dtype}: {len(requests)} prompts of 1 or 5 passages; one at a time: {rate:.2f} a second")
        for size in (4, 16):
            together, rate = replies(requests, dtype, size)
            print(f"  batches of {size}: {share(alone, together)}, {rate:.2f} a second")
        single, rate = replies(requests, dtype, 16, deterministic=True)
        reordered = dict(zip(shuffled, replies(shuffled, dtype, 16, deterministic=True)[0], strict=True))
        print(f"  deterministic, another order: {share(single, [reordered[r] for r in requests])}, {rate:.2f} a second")


if __name__ == "__main__":
    main()
