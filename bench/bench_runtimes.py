"""Compare the runtimes of the local reader, which take turns: PyTorch, OpenVINO GenAI, and OpenVINO
GenAI without Winnow.

python -m bench.bench_runtimes  # after `make demo`: SmolLM2 on passages of the quick start
# Fewer prompts; also single, several, sweep, float32, prefill, neighbor
python -m bench.bench_runtimes 100 likelihoods

Half of the requests are served by each runtime before the second half is. The limit of the
processor is the speed of a reader that reads no token twice, and whose matrix products are all as
fast as a large one; attention is not counted.
"""

import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec import structs

from bench._measure import measure_matmul_rate, scale, serve_with_driver, take_turns
from bench.bench_local_reader import MODEL, ROOT, build_requests
from flows.project.artifacts import Project
from flows.project.models import resolve_trained_reader
from flows.settings.door import compose
from winnow.modeling.devices import resolve_dtype
from winnow.modeling.loading import load_causal_lm
from winnow.modeling.openvino import PRECISION_HINTS, build_properties
from winnow.modeling.openvino_export import convert_causal_lm
from winnow.readers.local import LocalReader
from winnow.readers.local_engine import require_text_request
from winnow.requests import Generate, Generation, Likelihood, Message, Request, Result, Score


def find_model() -> str:
    """Return the reader that the quick start fine-tuned, or the one that it started from."""
    settings = compose(["experiment=quick_start"])
    tuned = resolve_trained_reader(Project(settings), settings.reader, settings.prompt)
    return str((ROOT / tuned.folder if tuned.is_finished else Path(MODEL)).resolve())


def open_reader(runtime: str, dtype: str) -> LocalReader:
    """Open the reader with a runtime."""
    return LocalReader(
        find_model(), "smollm2", dtype, runtime=runtime, converted=str(ROOT / "assets/openvino")
    )


def serve_with_genai(reader: LocalReader, dtype: str) -> Callable[[Sequence[Generate]], list[str]]:
    """Return a function that gives all prompts to OpenVINO GenAI at once, and returns the texts."""
    import openvino
    import openvino_genai

    folder = convert_causal_lm(reader.path, Path(reader.converted), dtype=dtype)
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.cache_size, scheduler.max_num_batched_tokens, scheduler.enable_prefix_caching = (
        2,
        4096,
        True,
    )
    properties = build_properties(dtype) | {"KV_CACHE_PRECISION": PRECISION_HINTS[dtype]}
    pipeline = openvino_genai.ContinuousBatchingPipeline(str(folder), scheduler, "CPU", properties)

    def serve(requests: Sequence[Generate]) -> list[str]:
        inputs, configs = [], []
        for request in requests:
            config: Any = openvino_genai.GenerationConfig()
            config.max_new_tokens, config.stop_token_ids = (
                request.decoding.max_new_tokens,
                set(reader.text.end_token_ids),
            )
            configs.append(config)
            inputs.append(openvino.Tensor(np.array([reader.encode(request).ids], dtype=np.int64)))
        results = pipeline.generate(inputs, configs)
        return [
            str(
                reader.text.tokenizer.decode(result.m_generation_ids[0], skip_special_tokens=True)
            ).strip()
            for result in results
        ]

    return serve


def print_limit(label: str, limit: float, slow_rate: float) -> None:
    """Print the limit of the processor, and how far PyTorch is below it."""
    print(
        f"{label}: the processor's limit is {limit:.2f} per second, {limit / slow_rate:.2f} x "
        "PyTorch",
        flush=True,
    )


def get_texts(results: Sequence[Result]) -> list[str]:
    """Return the texts of generations."""
    return [result.text for result in results if isinstance(result, Generation)]


def compute_share(left: Sequence[object], right: Sequence[object]) -> float:
    """Return the percentage of equal items."""
    return 100 * sum(first == second for first, second in zip(left, right, strict=True)) / len(left)


ANSWERS = (
    "Paris",
    "the Battle of Hastings",
    "1945",
    "William Shakespeare",
    "unknown",
    "seven",
    "the Nile",
    "Marie Curie",
)


def build_likelihoods(
    requests: Sequence[Generate], *, is_exhaustive: bool = False
) -> list[Likelihood]:
    """Build likelihoods of an answer of a few tokens after each prompt, or of eight answers, as
    marginal decoding does.
    """
    answers = [ANSWERS if is_exhaustive else (ANSWERS[n % 5],) for n in range(len(requests))]
    return [
        Likelihood(request.messages, text)
        for request, texts in zip(requests, answers, strict=True)
        for text in texts
    ]


def count_weights(reader: LocalReader) -> tuple[int, int]:
    """Return the number of weights by which each token is multiplied, and of those by which each
    generated one is too.
    """
    model = load_causal_lm(reader.path, "float32", "cpu").model
    layers = sum(
        weight.numel()
        for name, weight in model.named_parameters()
        if "embed" not in name and "lm_head" not in name
    )
    return layers, model.get_output_embeddings().weight.numel()  # type: ignore[no-untyped-call]


def count_distinct_tokens(prompts: Sequence[list[int]]) -> int:
    """Count the tokens of prompts, where those of a beginning that several share count once."""
    ordered = sorted(prompts)
    shared = sum(
        len(list(takewhile(lambda pair: pair[0] == pair[1], zip(*two, strict=False))))
        for two in pairwise(ordered)
    )
    return sum(map(len, ordered)) - shared


def compute_limit(
    reader: LocalReader, requests: Sequence[Request], num_logits: int, dtype: str
) -> float:
    """Compute the largest number of requests per second that the processor's rate of matrix
    products permits.

    Args:
        reader: Reader of the requests.
        requests: Requests.
        num_logits: Number of tokens that are generated, or whose likelihood is computed.
        dtype: Precision of the matrix products.
    """
    items = [reader.encode(require_text_request(request)) for request in requests]
    num_read = count_distinct_tokens([list(item.ids) for item in items])
    in_layers, in_head = count_weights(reader)
    # The last token that a request generates is read by no layer.
    operations = 2 * ((num_read + num_logits - len(items)) * in_layers + num_logits * in_head)
    return len(requests) * measure_matmul_rate(dtype) / operations


def measure_prefill(num_prompts: int, dtype: str) -> None:
    """Measure how fast prompts are read that have no common beginning, as a share of the machine's
    matrix rate.

    A reply of one token is generated. The operations are two per token and weight of the layers;
    those of attention are not counted.
    """
    reader, requests = open_reader("openvino", dtype), build_requests([1, 5, 10], num_prompts)
    prompts = [
        structs.replace(
            request,
            messages=(Message("user", f"{number} {request.messages[-1].content}"),),
            decoding=replace(request.decoding, max_new_tokens=1),
        )
        for number, request in enumerate(requests)
    ]
    serve = serve_with_driver(reader)
    serve(build_requests([1], 8))
    ((_, rate),) = take_turns(prompts, [serve])
    num_tokens = sum(len(reader.encode(prompt).ids) for prompt in prompts) / len(prompts)
    share = 2 * count_weights(reader)[0] * num_tokens * rate / measure_matmul_rate(dtype)
    print(
        f"{len(prompts)} prompts of {num_tokens:.0f} tokens, {dtype}: {rate * num_tokens:.0f} "
        f"tokens/s are read, {100 * share:.0f} % of the rate of a matrix product",
        flush=True,
    )


def multiply_matrices() -> None:
    """Keep all cores busy."""
    matrix = torch.randn(1024, 1024)
    while True:
        matrix @ matrix


def build_with_warm_up(
    ks: Sequence[int], num_prompts: int
) -> tuple[list[Generate], list[Generate]]:
    """Build eight requests to warm up with, and the measured ones. None is among both, because
    runtimes keep prompts.
    """
    requests = build_requests(ks, num_prompts + 8)
    return requests[:8], requests[8:]


def measure_generations(
    label: str, warm_up: Sequence[Generate], requests: Sequence[Generate], dtype: str
) -> None:
    """Measure replies, against GenAI fed with all prompts at once. The readers are new, because
    runtimes keep prompts.
    """
    slow, fast = open_reader("torch", dtype), open_reader("openvino", dtype)
    functions = [serve_with_driver(slow), serve_with_driver(fast), serve_with_genai(fast, dtype)]
    for function in functions:
        function(warm_up)
    (expected, slow_rate), (texts, rate), (bare, bare_rate) = take_turns(requests, functions)
    print(
        f"{len(requests)} {label}, {dtype}: PyTorch {slow_rate:.2f} prompts/s, OpenVINO {rate:.2f} "
        f"prompts/s: {rate / slow_rate:.2f} x, "
        f"{compute_share(get_texts(expected), get_texts(texts)):.1f} % of the texts identical; "
        f"OpenVINO GenAI alone {bare_rate:.2f} prompts/s: {rate / bare_rate:.2f} x, "
        f"{compute_share(get_texts(texts), bare):.1f} % identical",
        flush=True,
    )
    num_generated = sum(
        result.usage.tokens_out for result in texts if isinstance(result, Generation)
    )
    print_limit(label, compute_limit(fast, requests, num_generated, dtype), slow_rate)


def measure_sweep(num_questions: int, dtype: str) -> None:
    """Measure replies to questions that are each asked with one, five and ten passages, as in a
    sweep.
    """
    requests = build_requests([1, 5, 10], 3 * (num_questions + 2), is_sweep=True)
    measure_generations(
        f"prompts of a sweep, {num_questions} questions with k = 1, 5, 10",
        requests[:6],
        requests[6:],
        dtype,
    )


def measure_float32(num_prompts: int) -> None:
    """Measure replies in float32, whose texts are compared."""
    functions = [
        serve_with_driver(open_reader(runtime, "float32")) for runtime in ("torch", "openvino")
    ]
    warm_up, requests = build_with_warm_up([1], num_prompts)
    for function in functions:
        function(warm_up)
    (expected, slow_rate), (texts, rate) = take_turns(requests, functions)
    print(
        f"{num_prompts} single-passage prompts, float32: PyTorch {slow_rate:.2f} prompts/s, "
        f"OpenVINO {rate:.2f} prompts/s: {rate / slow_rate:.2f} x, "
        f"{compute_share(get_texts(expected), get_texts(texts)):.1f} % of the texts identical",
        flush=True,
    )


def measure_likelihoods(num_prompts: int, dtype: str) -> None:
    """Measure likelihoods of short answers after single passages: of one each, and of
    eight each.
    """
    functions = [
        serve_with_driver(open_reader(runtime, dtype)) for runtime in ("torch", "openvino")
    ]
    warm_up, requests = build_with_warm_up([1], num_prompts + max(1, num_prompts // 8))
    for function in functions:
        function(build_likelihoods(warm_up))
    reader = open_reader("openvino", dtype)
    for label, likelihoods in (
        ("likelihoods", build_likelihoods(requests[:num_prompts])),
        (
            "likelihoods of eight answers a prompt",
            build_likelihoods(requests[num_prompts:], is_exhaustive=True),
        ),
    ):
        (expected, slow_rate), (scores, rate) = take_turns(likelihoods, functions)
        differences = [
            abs(a.value - b.value)
            for a, b in zip(expected, scores, strict=True)
            if isinstance(a, Score)
        ]
        print(
            f"{len(likelihoods)} {label}, {dtype}: PyTorch {slow_rate:.2f} per second, OpenVINO "
            f"{rate:.2f}: {rate / slow_rate:.2f} x, median difference "
            f"{np.median(differences):.1e} nats, largest {max(differences):.1e}",
            flush=True,
        )
        num_logits = sum(len(reader.tokenize_target(request)) for request in likelihoods)
        print_limit(label, compute_limit(reader, likelihoods, num_logits, dtype), slow_rate)


def measure_neighbor(num_prompts: int, dtype: str) -> None:
    """Measure how much speed is left next to a process that multiplies matrices on all cores."""
    functions = [
        serve_with_driver(open_reader(runtime, dtype)) for runtime in ("torch", "openvino")
    ]
    count = min(60, num_prompts)
    warm_up, requests = build_with_warm_up([1], 2 * count)
    for function in functions:
        function(warm_up)
    neighbor = multiprocessing.get_context("spawn").Process(target=multiply_matrices, daemon=True)
    alone = take_turns(requests[:count], functions)
    neighbor.start()
    time.sleep(5)
    shared = take_turns(
        requests[count:], functions
    )  # other prompts, because OpenVINO keeps those that it has read
    neighbor.kill()
    shares = [
        f"{name} {100 * beside / before:.0f} %"
        for name, (_, before), (_, beside) in zip(
            ("PyTorch", "OpenVINO"), alone, shared, strict=True
        )
    ]
    print(f"speed beside a busy process, as a share of that alone: {', '.join(shares)}")


def main() -> None:
    """Run the parts that the command line names, by default all."""
    words = sys.argv[1:]
    num_prompts = next((int(word) for word in words if word.isdigit()), scale(300, 4))
    dtype = resolve_dtype("auto", "cpu")
    ks = [1, 5, 10]
    parts = {
        "single": partial(
            measure_generations,
            "single-passage prompts",
            *build_with_warm_up([1], num_prompts),
            dtype,
        ),
        "several": partial(
            measure_generations,
            "prompts of k = 1, 5, 10",
            *build_with_warm_up(ks, num_prompts // 2),
            dtype,
        ),
        "sweep": partial(measure_sweep, max(1, num_prompts // 6), dtype),
        "float32": partial(measure_float32, num_prompts),
        "likelihoods": partial(measure_likelihoods, num_prompts, dtype),
        "prefill": partial(measure_prefill, num_prompts // 2, dtype),
        "neighbor": partial(measure_neighbor, num_prompts, dtype),
    }
    for part in [word for word in words if word in parts] or parts:
        parts[part]()


if __name__ == "__main__":
    main()
