"""Compare the batches of the local reader with one prompt at a time, and with batches of eight in
file order.

python -m bench.bench_local_reader       # after `make demo`: SmolLM2 on passages of the quick start
python -m bench.bench_local_reader 100   # with fewer prompts
"""

import itertools
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import torch

from bench._measure import scale
from bench.bench_driver import PROMPT
from winnow.modeling.chat import render_chat
from winnow.modeling.devices import resolve_dtype
from winnow.modeling.loading import LanguageModel
from winnow.readers.local import LocalReader
from winnow.records import Decoding
from winnow.requests import Generate, Generation
from winnow.strategies.prompt import build_request
from winnow.testing import make_context, make_question

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "assets/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DECODING = Decoding(16)


def build_requests(
    ks: Sequence[int], num_prompts: int, *, is_sweep: bool = False
) -> list[Generate]:
    """Build requests from the quick start's questions in random order, each with its first k
    passages.

    Ends the program if the quick start has not been run.

    Args:
        ks: Numbers of passages in a prompt.
        num_prompts: Number of requests, a multiple of the number of `ks` in a sweep.
        is_sweep: Whether each question is asked with every k, as in a sweep. Otherwise, each is
            asked once, with the values of k in turn.
    """
    if not MODEL.is_file() or not any((ROOT / "data/retrieval").glob("trivia-bm25-*")):
        print(
            "Skipped: this benchmark needs the reader and the retrieved passages of the quick "
            "start. Run `make demo` first."
        )
        sys.exit()
    folder = next((ROOT / "data/retrieval").glob("trivia-bm25-*"))
    texts = {
        row["passage_id"]: row["text"]
        for row in pq.read_table(folder / "passages.parquet").to_pylist()
    }
    path = next((ROOT / "data/questions").glob("*/questions.parquet"))
    question_texts = {
        row["question_id"]: row["question"] for row in pq.read_table(path).to_pylist()
    }
    ranked: dict[str, list[str]] = {}
    for row in pq.read_table(folder / "contexts.parquet").to_pylist():
        ranked.setdefault(row["question_id"], []).append(texts[row["passage_id"]])
    chosen = random.Random(13).sample(
        sorted(ranked), num_prompts // len(ks) if is_sweep else num_prompts
    )
    cases = (
        itertools.product(chosen, ks)
        if is_sweep
        else zip(chosen, itertools.cycle(ks), strict=False)
    )
    return [
        build_request(
            PROMPT,
            make_question(question_texts[question_id]),
            [make_context(rank, text) for rank, text in enumerate(ranked[question_id][:k], 1)],
            DECODING,
        )
        for question_id, k in cases
    ]


def generate_padded(lm: LanguageModel, batch: Sequence[Generate]) -> list[str]:
    """Generate replies with plain `generate` on a padded batch."""
    inputs = lm.tokenizer(
        [render_chat(lm.tokenizer, request.messages) for request in batch],
        return_tensors="pt",
        padding=True,
        add_special_tokens=False,
    ).to(lm.device)
    with torch.inference_mode():
        rows = lm.model.generate(  # type: ignore[operator]
            **inputs, max_new_tokens=16, do_sample=False, pad_token_id=lm.tokenizer.pad_token_id
        )
    generated = rows[:, inputs["input_ids"].shape[1] :]
    return [text.strip() for text in lm.tokenizer.batch_decode(generated, skip_special_tokens=True)]


def make_baseline(batch_size: int) -> Callable[[LocalReader, Sequence[Generate]], list[str]]:
    """Return a function that generates replies in batches of fixed size, in file order."""
    return lambda reader, requests: [
        text
        for start in range(0, len(requests), batch_size)
        for text in generate_padded(reader.lm, requests[start : start + batch_size])
    ]


def generate_with_reader(reader: LocalReader, requests: Sequence[Generate]) -> list[str]:
    """Generate replies with the local reader, as the driver does."""
    reader.submit(requests)
    replies: dict[int, str] = {}
    while batch := reader.collect(5.0):
        replies.update(
            {
                id(request): result.text
                for request, result in batch
                if isinstance(result, Generation)
            }
        )
    return [replies[id(request)] for request in requests]


def compare(
    label: str,
    baseline: Callable[[LocalReader, Sequence[Generate]], list[str]],
    requests: Sequence[Generate],
    dtype: str,
) -> None:
    """Measure the baseline and the local reader on the same requests, and print their rates and
    equal replies.
    """
    reader = LocalReader(str(MODEL), "smollm2", dtype)
    generate_with_reader(reader, requests[:16])  # loads the model
    results, rates = [], []
    for generate in (baseline, generate_with_reader):
        started = time.perf_counter()
        results.append(generate(reader, requests))
        rates.append(len(requests) / (time.perf_counter() - started))
    same = sum(expected == text for expected, text in zip(*results, strict=True)) / len(requests)
    print(
        f"{label}, {dtype}: {rates[0]:.2f} prompts/s, ours {rates[1]:.2f} prompts/s: "
        f"{rates[1] / rates[0]:.2f} x, {100 * same:.1f} % of the texts identical",
        flush=True,
    )


def main() -> None:
    """Compare with one prompt at a time, and with batches of eight."""
    num_prompts = int(sys.argv[1]) if len(sys.argv) > 1 else scale(300, 4)
    single, mixed = build_requests([1], num_prompts), build_requests([1, 5, 10], num_prompts)
    native = resolve_dtype("auto", "cpu")
    for dtype in dict.fromkeys((native, "float32")):  # bfloat16 only if the processor supports it
        compare(
            f"{num_prompts} single-passage prompts, 16 new tokens, one at a time",
            make_baseline(1),
            single,
            dtype,
        )
    compare(
        f"{num_prompts} prompts of k = 1, 5, 10, batches of 8 in file order",
        make_baseline(8),
        mixed,
        native,
    )


if __name__ == "__main__":
    main()
