"""Compare the estimators' scoring speed with simple baselines, and measure rescoring after adding 1
% of the pairs.

python -m bench.bench_estimator  # 50 questions of 100 contexts
# Fewer questions and one part: t5_small, t5_base, cross_encoder, rescoring
python -m bench.bench_estimator 10 t5_small

The T5 models have random weights and read synthetic passages of 60 to 180 words, the length of
Wikipedia introductions. The cross-encoder reads the passages of the quick start (`make demo`), and
its baseline needs `pip install sentence-transformers`; without either of them this part is skipped.
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
import pyarrow.parquet as pq
import torch
from numpy.typing import ArrayLike
from scipy.stats import spearmanr

from bench._measure import measure_matmul_rate, scale, take_turns
from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.estimators.engine import EstimatorEngine
from winnow.estimators.t5 import T5Estimator
from winnow.ledger.sqlite import SqliteStore
from winnow.modeling.devices import resolve_dtype
from winnow.modeling.pair_inputs import PairTemplate
from winnow.protocols import build_engine_map
from winnow.records import Context, Passage
from winnow.strategies.relevance import estimate_relevance
from winnow.synthetic.scratch_t5 import ScratchT5, make_t5
from winnow.testing import make_question

ROOT = Path(__file__).resolve().parent.parent
MINILM = ROOT / "assets/minilm"
SMALL = ScratchT5(512, 2048, 6, 8)
CONTEXTS = scale(100, 4)
WORDS = [f"word{n}" for n in range(30_000)]
Pairs = list[tuple[str, Passage]]


def make_pairs(num_questions: int) -> Pairs:
    """Make questions of eight words with contexts. Passages occur for several questions, as in a
    real ranking.
    """
    rng = random.Random(13)
    passages = [
        Passage(str(n), rng.choice(WORDS), " ".join(rng.choices(WORDS, k=rng.randint(60, 180))))
        for n in range(max(2 * CONTEXTS, 50 * num_questions))
    ]
    queries = [" ".join(rng.choices(WORDS, k=8)) for _ in range(num_questions)]
    return [(query, passage) for query in queries for passage in rng.sample(passages, CONTEXTS)]


def score_with_generate(estimator: T5Estimator, pairs: Sequence[tuple[str, Passage]]) -> np.ndarray:
    """Score by generating one token with the padded contexts of each question as a batch; the
    baseline of the T5 models.
    """
    lm = estimator.lm
    true, false = (
        lm.tokenizer(word, add_special_tokens=False)["input_ids"][0]
        for word in estimator.label_words
    )
    scores = []
    for start in range(0, len(pairs), CONTEXTS):
        texts = [
            f"question: {query} title: {passage.title} context: {passage.text} "
            f"{lm.tokenizer.eos_token}"
            for query, passage in pairs[start : start + CONTEXTS]
        ]
        inputs = lm.tokenizer(texts, padding=True, return_tensors="pt").to(lm.device)
        with torch.inference_mode():
            output = lm.model.generate(  # type: ignore[operator]
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"],
                max_new_tokens=1, output_scores=True, return_dict_in_generate=True,
            )  # fmt: skip
        logits = output.scores[0].float()
        scores.append((logits[:, true] - logits[:, false]).cpu().numpy())
    return np.concatenate(scores)


def measure_rate(score_all: Callable[[], np.ndarray], num_pairs: int) -> tuple[np.ndarray, float]:
    """Return the scores of a function, and the number of pairs that it scores per second."""
    started = time.perf_counter()
    scores = score_all()
    return scores, num_pairs / (time.perf_counter() - started)


def compute_rank_correlation(left: ArrayLike, right: ArrayLike) -> float:
    """Compute Spearman's rank correlation."""
    return float(spearmanr(left, right).statistic)


def count_encoder_flops(lm: torch.nn.Module, tokens: int) -> float:
    """Return two operations per token and weight of the encoder's layers."""
    weights = sum(
        weight.numel()
        for name, weight in lm.named_parameters()
        if "embed" not in name and "shared" not in name
    )
    return 2.0 * weights * tokens


def measure_t5(folder: Path, name: str, size: ScratchT5, num_questions: int) -> None:
    """Measure a T5 of the given size in float32, and in bfloat16 if the processor supports it."""
    pairs = make_pairs(num_questions)
    path = make_t5(
        folder / name, ["question: title: context: true false", " ".join(WORDS)], size, 1
    )
    base = T5Estimator(str(path), max_length=512, dtype="float32")
    choices = [
        (dtype, runtime)
        for dtype in dict.fromkeys(("float32", resolve_dtype("auto", "cpu")))
        for runtime in ("torch", "openvino")
    ]
    ours = [
        T5Estimator(str(path), max_length=512, dtype=dtype, runtime=runtime)
        for dtype, runtime in choices
    ]
    functions: list[Callable[[Sequence[Any]], Any]] = [
        partial(score_with_generate, base),
        *(estimator.score for estimator in ours),
    ]
    for function in functions:
        function(pairs[:50])
    (scores, rate), *measured = take_turns(pairs, functions)
    num_tokens = sum(len(base.tokens.encode(*pair)) for pair in pairs)
    print(f"{name}: generate, a batch a question, float32: {rate:.1f} pairs/s", flush=True)
    for (dtype, runtime), (own_scores, own_rate) in zip(choices, measured, strict=True):
        flops = count_encoder_flops(base.lm.model.get_encoder(), num_tokens) * own_rate / len(pairs)
        print(
            f"{name}: ours by {runtime}, {dtype}: {own_rate:.1f} pairs/s: {own_rate / rate:.2f} x; "
            f"largest difference {np.abs(np.array(own_scores) - np.array(scores)).max():.1e}, "
            f"rank correlation {compute_rank_correlation(own_scores, scores):.5f}; "
            f"{100 * flops / measure_matmul_rate(dtype):.0f} % of the matrix rate",
            flush=True,
        )


def load_retrieved_pairs(num_pairs: int) -> Pairs:
    """Draw pairs of a question and a retrieved passage at random from the quick start."""
    folder = next((ROOT / "data/retrieval").glob("trivia-bm25-*"))
    passages = {
        row["passage_id"]: Passage(row["passage_id"], row["title"], row["text"])
        for row in pq.read_table(folder / "passages.parquet").to_pylist()
    }
    path = next((ROOT / "data/questions").glob("*/questions.parquet"))
    wording = {row["question_id"]: row["question"] for row in pq.read_table(path).to_pylist()}
    rows = random.Random(13).sample(
        pq.read_table(folder / "contexts.parquet").to_pylist(), num_pairs
    )
    return [(wording[row["question_id"]], passages[row["passage_id"]]) for row in rows]


def save_reranker(folder: Path) -> str:
    """Save MiniLM with a random classification head, and return its path. Its weights are large
    enough that scores differ.
    """
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_pretrained(
        MINILM, num_labels=1, dtype=torch.float32
    )
    torch.nn.init.normal_(model.classifier.weight)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(MINILM).save_pretrained(folder)
    return str(folder)


def measure_cross_encoder(folder: Path, num_pairs: int) -> None:
    """Compare MiniLM with sentence-transformers at its best batch size, on real pairs and in each
    precision.
    """
    try:
        from sentence_transformers import CrossEncoder as BaselineCrossEncoder
    except ImportError:
        print("cross-encoder: skipped, because sentence-transformers is not installed")
        return
    if not (MINILM.is_dir() and list((ROOT / "data/retrieval").glob("trivia-bm25-*"))):
        print(
            "cross-encoder: skipped, because the data of the quick start do not exist; run `make "
            "demo` first"
        )
        return
    pairs, path = load_retrieved_pairs(num_pairs), save_reranker(folder / "reranker")
    texts = [(query, f"{passage.title}. {passage.text}") for query, passage in pairs]
    tokens = CrossEncoder(
        path, PairTemplate("{question}", "{title}. {text}"), max_length=512
    ).tokens
    print(
        f"cross-encoder: {num_pairs} real pairs of "
        f"{np.mean([len(tokens.encode(*pair)) for pair in pairs]):.0f} tokens"
    )
    for dtype in dict.fromkeys(("float32", resolve_dtype("auto", "cpu"))):
        baseline = BaselineCrossEncoder(
            path, model_kwargs={"dtype": getattr(torch, dtype)}, device="cpu", max_length=512
        )
        baseline.predict(texts[:32])
        rates = {}
        for batch_size in (8, 16, 32, 64):
            predict = partial(
                baseline.predict, texts, batch_size=batch_size, activation_fn=torch.nn.Identity()
            )
            _, rates[batch_size] = measure_rate(predict, len(pairs))
        best = max(rates, key=lambda batch_size: rates[batch_size])
        estimators = [
            CrossEncoder(
                path,
                PairTemplate("{question}", "{title}. {text}"),
                max_length=512,
                dtype=dtype,
                runtime=runtime,
            )
            for runtime in ("torch", "openvino")
        ]
        for estimator in estimators:
            estimator.score(pairs[:32])

        def score_with_baseline(
            part: Sequence[Any], model: Any = baseline, batch_size: int = best
        ) -> Any:
            rows = [(query, f"{passage.title}. {passage.text}") for query, passage in part]
            return model.predict(rows, batch_size=batch_size, activation_fn=torch.nn.Identity())

        functions: list[Callable[[Sequence[Any]], Any]] = [
            score_with_baseline,
            *(estimator.score for estimator in estimators),
        ]
        (scores, rate), *measured = take_turns(pairs, functions)
        print(
            f"cross-encoder, {dtype}: sentence-transformers {rate:.1f} pairs/s (best at {best} a "
            "batch)",
            flush=True,
        )
        for estimator, (own_scores, own_rate) in zip(estimators, measured, strict=True):
            print(
                f"cross-encoder, {dtype}: ours by {estimator.runtime} {own_rate:.1f} pairs/s: "
                f"{own_rate / rate:.2f} x; rank correlation "
                f"{compute_rank_correlation(own_scores, scores):.5f}",
                flush=True,
            )


def measure_rescoring(folder: Path, num_questions: int) -> None:
    """Measure the score stage with 99 % of the contexts, and then with all of them and the same
    ledger.
    """
    pairs = make_pairs(num_questions)
    path = make_t5(
        folder / "again", ["question: title: context: true false", " ".join(WORDS)], SMALL, 1
    )
    by_question: dict[str, list[Context]] = {}
    for number, (query, passage) in enumerate(pairs):
        by_question.setdefault(query, []).append(Context(passage, number, 0.0, False))
    times = []
    for percentage in (99, 100):
        with SqliteStore(folder / "ledger.sqlite") as ledger:
            engine = EstimatorEngine(
                T5Estimator(str(path), max_length=512, runtime="auto"), "bench"
            )
            engine.estimator.score(pairs[:8])
            started = time.perf_counter()
            jobs = (
                Job(
                    query,
                    estimate_relevance(
                        make_question(query), contexts[: percentage * len(contexts) // 100]
                    ),
                )
                for query, contexts in by_question.items()
            )
            num_outcomes = sum(1 for _ in Driver(build_engine_map(engine), ledger).run(jobs))
            times.append(time.perf_counter() - started)
            assert num_outcomes == num_questions
    print(
        f"rescoring after adding 1 % of the pairs: {times[1]:.2f} s of {times[0]:.2f} s: "
        f"{100 * times[1] / times[0]:.1f} %"
    )


def main() -> None:
    """Run the parts that the command line names, by default all."""
    num_questions = int(sys.argv[1]) if len(sys.argv) > 1 else scale(50)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = {
            "t5_small": partial(measure_t5, folder, "T5-small's size", SMALL, num_questions),
            "t5_base": partial(
                measure_t5,
                folder,
                "T5-base's size",
                ScratchT5(768, 3072, 12, 12),
                max(1, num_questions // 10),
            ),
            "cross_encoder": partial(measure_cross_encoder, folder, scale(1000, 8)),
            "rescoring": partial(measure_rescoring, folder, num_questions),
        }
        for part in sys.argv[2:] or parts:
            parts[part]()


if __name__ == "__main__":
    main()
