"""The local reader's batches against one prompt at a time, and against batches of eight in file order.

python -m bench.bench_local_reader       # after `make demo`: SmolLM2 on passages of the quick start
python -m bench.bench_local_reader 100   # with fewer prompts
"""

import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import torch
from omegaconf import DictConfig, OmegaConf

from flows._build import build
from winnow.modeling.loading import LanguageModel, chat_text, resolve_dtype
from winnow.readers.local import LocalReader
from winnow.records import Decoding, Generate, Generation
from winnow.strategies.prompt import Prompt, build_request
from winnow.testing import context, question

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "assets/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 300
DECODING = Decoding(16)


def prompts(ks: Sequence[int]) -> list[Generate]:
    """Real questions with their first k real passages, k in turn, in random order; exits where there are none yet."""
    if not MODEL.is_file() or not any((ROOT / "data/retrieval").glob("trivia-bm25-*")):
        print("Skipped: this benchmark uses the reader and the retrieved passages of `make demo`.")
        sys.exit()
    folder = next((ROOT / "data/retrieval").glob("trivia-bm25-*"))
    texts = {row["passage_id"]: row["text"] for row in pq.read_table(folder / "passages.parquet").to_pylist()}
    path = next((ROOT / "data/questions").glob("*/questions.parquet"))
    wording = {row["question_id"]: row["question"] for row in pq.read_table(path).to_pylist()}
    ranked: dict[str, list[str]] = {}
    for row in pq.read_table(folder / "contexts.parquet").to_pylist():
        ranked.setdefault(row["question_id"], []).append(texts[row["passage_id"]])
    node = OmegaConf.load(ROOT / "conf/prompt/post_fusion.yaml")
    assert isinstance(node, DictConfig)
    prompt: Prompt = build(node)
    chosen = random.Random(13).sample(sorted(ranked), COUNT)
    return [
        build_request(
            prompt,
            question(wording[name]),
            [context(i, t) for i, t in enumerate(ranked[name][: ks[n % len(ks)]], 1)],
            DECODING,
        )
        for n, name in enumerate(chosen)
    ]


def generate_padded(lm: LanguageModel, batch: Sequence[Generate]) -> list[str]:
    """Plain `generate` on a padded batch."""
    inputs = lm.tokenizer(
        [chat_text(lm.tokenizer, r.messages) for r in batch], return_tensors="pt", padding=True, add_special_tokens=False
    )
    with torch.inference_mode():
        rows = lm.model.generate(  # type: ignore[operator]
            **inputs, max_new_tokens=16, do_sample=False, pad_token_id=lm.tokenizer.pad_token_id
        )
    return [t.strip() for t in lm.tokenizer.batch_decode(rows[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)]


def by(size: int) -> Callable[[LocalReader, Sequence[Generate]], list[str]]:
    """In file order, `size` at a time."""
    return lambda reader, requests: [
        text for n in range(0, len(requests), size) for text in generate_padded(reader.lm, requests[n : n + size])
    ]


def ours(reader: LocalReader, requests: Sequence[Generate]) -> list[str]:
    """As the driver does."""
    reader.submit(requests)
    replies: dict[int, str] = {}
    while batch := reader.collect(5.0):
        replies.update({id(request): result.text for request, result in batch if isinstance(result, Generation)})
    return [replies[id(request)] for request in requests]


def compare(
    label: str, baseline: Callable[[LocalReader, Sequence[Generate]], list[str]], requests: Sequence[Generate], dtype: str
) -> None:
    reader = LocalReader(str(MODEL), "smollm2", dtype)
    ours(reader, requests[:16])
    results, rates = [], []
    for work in (baseline, ours):
        started = time.perf_counter()
        results.append(work(reader, requests))
        rates.append(len(requests) / (time.perf_counter() - started))
    same = sum(a == b for a, b in zip(*results, strict=True)) / len(requests)
    print(
        f"{label}, {dtype}: {rates[0]:.2f} prompts/s, ours {rates[1]:.2f} prompts/s: {rates[1] / rates[0]:.2f} x, "
        f"{100 * same:.1f} % of the texts identical",
        flush=True,
    )


def main() -> None:
    single, mixed = prompts([1]), prompts([1, 5, 10])
    native = resolve_dtype("auto", "cpu")
    for dtype in dict.fromkeys((native, "float32")):  # bfloat16 only where the processor multiplies it
        compare(f"{COUNT} single-passage prompts, 16 new tokens, one at a time", by(1), single, dtype)
    compare(f"{COUNT} prompts of k = 1, 5, 10, batches of 8 in file order", by(8), mixed, native)


if __name__ == "__main__":
    main()
