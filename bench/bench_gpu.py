"""Measure a GPU: the local reader against vLLM, the estimators, the encoder and the index of dense
retrieval, joint training.

python -m bench.bench_gpu  # all parts; without a GPU, tiny models on the CPU
# The reader, also by a vLLM server that the run starts
python -m bench.bench_gpu reader vllm=/opt/vllm/bin/vllm

The models have the architecture and size of Llama-3.1-8B, T5-base and BERT-base and random weights,
so that nothing has to be downloaded. Prompts and passages are random words, one token each. Replies
of a model with random weights hardly ever end before their limit.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench._measure import measure_matmul_rate, scale, serve_with_driver, synchronise, take_turns
from bench.bench_estimator import WORDS, count_encoder_flops, make_pairs, score_with_generate
from bench.bench_joint import measure_joint_training
from bench.bench_local_reader import generate_padded
from bench.bench_retrieval import compute_recall
from winnow.estimators.t5 import T5Estimator
from winnow.modeling.devices import resolve_dtype
from winnow.modeling.loading import load_seq2seq
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.readers.local import LocalReader
from winnow.readers.openai_chat import OpenAIReader
from winnow.readers.pacing import Pacing
from winnow.readers.server_process import ServerProcess
from winnow.records import Decoding, Hit, Passage
from winnow.requests import Generate, Likelihood, Message
from winnow.retrievers.dense import Dense
from winnow.synthetic.scratch_t5 import ScratchT5, build_word_tokenizer, make_t5
from winnow.testing import make_question

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = resolve_dtype("auto", DEVICE)
IS_LARGE = DEVICE == "cuda" and scale(1000) >= 1000
"""Whether the models have their full size. They are tiny without a GPU, and in the test that starts
every benchmark.
"""
NUM_PROMPTS, NUM_QUESTIONS = (scale(1024), scale(100)) if IS_LARGE else (8, 1)
FACTORIES = ("Flat", "IVF4096,PQ32" if IS_LARGE else "IVF16,SQ8")
INSTRUCTION = " ".join(WORDS[:60])
END = "</s>"
TEMPLATE = "{% for message in messages %}{{ message['content'] + ' ' }}{% endfor %}"


def make_llama(folder: Path) -> str:
    """Save a model with the shape of Llama-3.1-8B, random weights and a tokenizer that splits at
    white space.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = build_word_tokenizer(WORDS)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    width, layers = (4096, 32) if IS_LARGE else (64, 2)
    config = LlamaConfig(
        vocab_size=128_256 if IS_LARGE else len(tokenizer), hidden_size=width,
        intermediate_size=width * 7 // 2, num_hidden_layers=layers,
        num_attention_heads=width // 128 or 4, num_key_value_heads=8 if IS_LARGE else 2,
        max_position_embeddings=8192, pad_token_id=0, bos_token_id=2, eos_token_id=1,
        dtype="bfloat16",
    )  # fmt: skip
    torch.manual_seed(1)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder, max_shard_size="4GB")
    return str(folder)


def make_requests(num_prompts: int, ks: Sequence[int], max_new_tokens: int = 16) -> list[Generate]:
    """Make prompts with a common instruction and k passages of 100 words; the values of k are used
    in turn.
    """
    rng = random.Random(13)
    return [
        Generate(
            (
                Message("system", INSTRUCTION),
                Message("user", " ".join(rng.choices(WORDS, k=100 * ks[number % len(ks)] + 20))),
            ),
            Decoding(max_new_tokens),
        )
        for number in range(num_prompts)
    ]


def generate_in_file_order(reader: LocalReader, requests: Sequence[Generate]) -> list[str]:
    """Generate replies with plain `generate` in batches of 64 in file order; the baseline."""
    return [
        text
        for start in range(0, len(requests), 64)
        for text in generate_padded(reader.lm, requests[start : start + 64])
    ]


def measure_reader(folder: Path, vllm: str) -> None:
    """Compare the local reader with plain `generate`, and with a vLLM server if its program is
    given.
    """
    path = make_llama(folder / "llama")
    reader = LocalReader(path, "llama", device=DEVICE, batch_tokens=16384, batch_size=64)
    wide = LocalReader(path, "llama", device=DEVICE)
    wide.batches._lm = reader.lm
    functions: dict[str, Callable[[Sequence[Any]], Any]] = {
        "plain generate, batches of 64 in file order": partial(generate_in_file_order, reader),
        "ours, batches of 64": serve_with_driver(reader),
        "ours, batches of the default size": serve_with_driver(wide),
    }
    cases = {
        f"{NUM_PROMPTS} single-passage prompts": make_requests(NUM_PROMPTS, [1]),
        f"{NUM_PROMPTS // 4} prompts of k = 1, 5, 10": make_requests(NUM_PROMPTS // 4, [1, 5, 10]),
    }
    warm_up = make_requests(max(4, NUM_PROMPTS // 16), [1, 10])
    for function in functions.values():
        function(warm_up)
    for label, requests in cases.items():
        rates = [rate for _, rate in take_turns(requests, list(functions.values()))]
        for name, rate in zip(functions, rates, strict=True):
            print(
                f"{label}, 16 new tokens, {DTYPE}: {name}: {rate:.1f} prompts/s: "
                f"{rate / rates[0]:.2f} x",
                flush=True,
            )
    likelihoods = [
        Likelihood(request.messages, " ".join(WORDS[:4])) for request in next(iter(cases.values()))
    ]
    ((_, rate),) = take_turns(likelihoods, [serve_with_driver(wide)])
    print(f"{len(likelihoods)} likelihoods, {DTYPE}: {rate:.1f} results/s", flush=True)
    requests = make_requests(NUM_PROMPTS // 2, [5], 1)
    ((_, rate),) = take_turns(requests, [serve_with_driver(wide)])
    tokens = sum(len(wide.encode(request).ids) for request in requests) / len(requests)
    weights = sum(
        weight.numel() for name, weight in reader.lm.model.named_parameters() if "embed" not in name
    )
    flops = (
        2 * weights * (tokens - len(INSTRUCTION.split())) * rate
    )  # the instruction is read once a batch
    share = flops / measure_matmul_rate(DTYPE, DEVICE)
    print(
        f"prefill, {tokens:.0f} tokens a prompt: {rate * tokens:.0f} tokens/s, {100 * share:.0f} % "
        "of the matrix rate",
        flush=True,
    )
    if not vllm:
        return
    del functions
    reader.close()
    wide.close()
    if DEVICE == "cuda":
        torch.cuda.empty_cache()
    measure_vllm(path, vllm, cases, likelihoods)


def measure_vllm(
    path: str, program: str, cases: dict[str, list[Generate]], likelihoods: Sequence[Likelihood]
) -> None:
    """Measure a vLLM server that is started as reader=vllm starts it."""
    command = [
        program, "serve", "{base}", "--port", "{port}", "--host", "127.0.0.1",
        "--generation-config", "vllm",
    ]  # fmt: skip
    command += [
        "--max-model-len", "4096", "--gpu-memory-utilization", "0.8", "--dtype", "bfloat16",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        start = ServerProcess(command, [program, "--version"], folder=folder)
        pacing = Pacing(max_concurrency=256)
        reader = OpenAIReader(
            path, "llama", start=start, dialect="vllm", end_token=END, pacing=pacing
        )
        serve = serve_with_driver(reader)
        started = time.perf_counter()
        serve(make_requests(256, [1, 10], 8))
        print(
            f"vLLM: ready and warm after {time.perf_counter() - started:.0f} s, {reader.identity}",
            flush=True,
        )
        for label, requests in cases.items():
            ((_, rate),) = take_turns(requests, [serve])
            print(f"{label}, 16 new tokens: by a vLLM server: {rate:.1f} prompts/s", flush=True)
        ((_, rate),) = take_turns(likelihoods, [serve])
        print(f"{len(likelihoods)} likelihoods: by a vLLM server: {rate:.1f} results/s", flush=True)
        reader.close()


def measure_estimators(folder: Path) -> None:
    """Measure T5-base as relevance estimator, compared with generating one token in the batch of
    each question.
    """
    size = ScratchT5(768, 3072, 12, 12) if IS_LARGE else ScratchT5(64, 128, 2, 2)
    path = str(
        make_t5(folder / "t5", ["question: title: context: true false", " ".join(WORDS)], size, 1)
    )
    pairs = make_pairs(NUM_QUESTIONS)
    for dtype in dict.fromkeys(("float32", DTYPE)):
        base = T5Estimator(path, max_length=512, dtype=dtype, device=DEVICE)
        base._lm = load_seq2seq(
            path, dtype, DEVICE
        )  # the estimator itself loads parts of the model in float32
        ours = T5Estimator(path, max_length=512, dtype=dtype, device=DEVICE, batch_tokens=65536)
        functions: list[Callable[[Sequence[Any]], Any]] = [
            partial(score_with_generate, base),
            ours.score,
        ]
        for function in functions:
            function(pairs[: len(pairs) // 4])
        (scores, rate), (own_scores, own_rate) = take_turns(pairs, functions)
        num_tokens = sum(len(base.tokens.encode(*pair)) for pair in pairs)
        flops = count_encoder_flops(base.lm.model.get_encoder(), num_tokens) * own_rate / len(pairs)
        print(
            f"T5-base's size, {dtype}, {num_tokens / len(pairs):.0f} tokens a pair: generate, a "
            f"batch a question {rate:.0f} pairs/s, ours {own_rate:.0f} pairs/s: "
            f"{own_rate / rate:.2f} x, largest difference "
            f"{np.abs(np.array(own_scores) - np.array(scores)).max():.1e}; "
            f"{100 * flops / measure_matmul_rate(dtype, DEVICE):.0f} % of the matrix rate",
            flush=True,
        )


def measure_encoder(folder: Path) -> None:
    """Measure a BERT-base as the encoder of passages, against sentence-transformers."""
    try:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    except ImportError:
        print("encoder: skipped, because sentence-transformers is not installed")
        return
    from transformers import BertConfig, BertModel

    tokenizer = build_word_tokenizer(WORDS)
    tokenizer.save_pretrained(folder / "bert")
    width, layers = (768, 12) if IS_LARGE else (64, 2)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=width, num_hidden_layers=layers,
        num_attention_heads=layers, intermediate_size=4 * width, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(1)
    BertModel(config).save_pretrained(folder / "bert")
    path = str(folder / "bert")
    passages = [passage for _, passage in make_pairs(NUM_QUESTIONS)]
    for dtype in dict.fromkeys(("float32", DTYPE)):
        encoder = SentenceEncoder(
            path, dtype=dtype, device=DEVICE, max_length=256, batch_tokens=65536
        )
        transformer = Transformer(
            path, model_kwargs={"dtype": getattr(torch, dtype)}, max_seq_length=256
        )
        baseline = SentenceTransformer(modules=[transformer, Pooling(width)], device=DEVICE)

        def encode(part: Sequence[Any], model: Any = baseline) -> Any:
            texts = [f"{passage.title} {passage.text}" for passage in part]
            return model.encode(texts, batch_size=256, normalize_embeddings=True)

        functions: list[Callable[[Sequence[Any]], Any]] = [encode, encoder.encode_passages]
        for function in functions:
            function(passages[: len(passages) // 4])
        (_, rate), (_, own_rate) = take_turns(passages, functions)
        print(
            f"BERT-base's size, {dtype}: sentence-transformers {rate:.0f} passages/s, ours "
            f"{own_rate:.0f} passages/s: {own_rate / rate:.2f} x",
            flush=True,
        )


class NumberEncoder(SentenceEncoder):
    """Vectors around 10,000 centers; the text of a passage or a question is the number of its
    vector.
    """

    def __init__(self, dimensions: int) -> None:
        """Draw the centers."""
        super().__init__("unused")
        self.centers = (
            np.random.default_rng(13).normal(size=(10_000, dimensions)).astype(np.float32)
        )

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of the numbers."""
        numbers = np.array([int(text) for text in texts])
        noise = np.random.default_rng(int(numbers[0])).standard_normal(
            (len(numbers), self.centers.shape[1]), np.float32
        )
        vectors: NDArray[np.float32] = self.centers[numbers % len(self.centers)] + noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def encode_passages(
        self,
        passages: Sequence[Passage],
        advance: Any = None,  # noqa: ARG002
    ) -> NDArray[np.float32]:
        """Return the vectors of the passages' numbers."""
        return self.encode_queries(
            [passage.text if passage.text.isdigit() else "0" for passage in passages]
        )


def measure_retrieval(folder: Path) -> None:
    """Measure the index of retriever=dense on the GPU, against FAISS on all processor cores."""
    import faiss

    num_passages, dimensions = (1_000_000, 768) if IS_LARGE else (2000, 32)
    encoder = NumberEncoder(dimensions)
    questions = [
        make_question(str(number), question_id=str(number))
        for number in range(7, 2007 if IS_LARGE else 27)
    ]
    label = (
        f"{num_passages} vectors of {dimensions} dimensions, 100 passages for each of "
        f"{len(questions)} questions"
    )
    for factory in FACTORIES:
        rankings_by_place: list[list[list[Hit]]] = []
        rates: list[float] = []
        for gpu in (False, True):
            if gpu and not getattr(faiss, "get_num_gpus", lambda: 0)():
                print(f"{factory}: skipped on the GPU, because FAISS sees none", flush=True)
                continue
            retriever = Dense(
                encoder, factory, max_training_vectors=200_000, gpu=gpu, build_on_gpu=gpu
            )
            started = time.perf_counter()
            index = folder / f"{factory.replace(',', '-')}-{gpu}"
            retriever.build(
                lambda: (Passage(str(n), "", str(n)) for n in range(num_passages)), index
            )
            built = time.perf_counter() - started
            searcher = retriever.open(
                folder / f"{factory.replace(',', '-')}-False"
            )  # one index, searched on both
            searcher.search(questions[: len(questions) // 4], 100)
            ((rankings, rate),) = take_turns(questions, [partial(searcher.search, depth=100)])
            rankings_by_place.append(rankings)
            rates.append(rate)
            place = "GPU" if gpu else f"{faiss.omp_get_max_threads()} processor threads"
            print(
                f"{factory}, {label}, {place}: built in {built:.1f} s, {rate:.0f} questions/s",
                flush=True,
            )
        if len(rankings_by_place) == 2:
            cpu, gpu_ids = (
                [[hit.passage_id for hit in hits] for hits in one] for one in rankings_by_place
            )
            first = sum(a[0] == b[0] for a, b in zip(cpu, gpu_ids, strict=True))
            equal = sum(a == b for a, b in zip(cpu, gpu_ids, strict=True))
            print(
                f"{factory}: {rates[1] / rates[0]:.1f} x; {100 * compute_recall(gpu_ids, cpu):.3f} "
                f"% of the passages are the same, {first} first ones and {equal} whole rankings "
                f"of {len(questions)}",
                flush=True,
            )


def measure_training(folder: Path) -> None:
    """Measure joint training of an estimator and a generator of T5-base's size."""
    size = ScratchT5(768, 3072, 12, 12) if IS_LARGE else ScratchT5(64, 128, 2, 2)
    measure_joint_training(folder / "joint", size, DEVICE, chunk_tokens=32768)


def main() -> None:
    """Run the parts that the command line names, by default all."""
    words = sys.argv[1:]
    vllm = next((word.removeprefix("vllm=") for word in words if word.startswith("vllm=")), "")
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "no GPU, tiny models"
    print(
        f"{name}; torch {torch.__version__}; {measure_matmul_rate(DTYPE, DEVICE) / 1e12:.1f} "
        f"TFLOP/s in {DTYPE}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        parts = {
            "reader": partial(measure_reader, Path(folder), vllm),
            "estimators": partial(measure_estimators, Path(folder)),
            "encoder": partial(measure_encoder, Path(folder)),
            "retrieval": partial(measure_retrieval, Path(folder)),
            "training": partial(measure_training, Path(folder)),
        }
        for part in [word for word in words if word in parts] or parts:
            started = time.perf_counter()
            parts[part]()
            synchronise()
            print(f"[{part}: {time.perf_counter() - started:.0f} s]", flush=True)


if __name__ == "__main__":
    main()
