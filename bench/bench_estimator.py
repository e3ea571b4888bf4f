"""Scoring pairs with a T5 and with a cross-encoder, against what one would write first; and rescoring after 1 % more pairs.

python -m bench.bench_estimator              # 50 questions of 100 contexts; random weights of T5-small's size
python -m bench.bench_estimator 10 t5_small  # fewer questions; one of t5_small, t5_base, cross_encoder, rescoring

The T5s' passages are made up: 60 to 180 words, as Wikipedia's introductions are. The cross-encoder reads the quick start's
(`make demo`); its baseline needs `pip install sentence-transformers`; without either it is left out.
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from numpy.typing import ArrayLike
from scipy.stats import spearmanr

from winnow.driver import Driver, Job
from winnow.estimators.cross_encoder import CrossEncoder
from winnow.estimators.engine import EstimatorEngine
from winnow.estimators.t5 import T5Estimator
from winnow.ledger.sqlite import SqliteStore
from winnow.modeling.loading import resolve_dtype
from winnow.modeling.pair_inputs import PairTemplate
from winnow.protocols import engines_for
from winnow.records import Context, Passage
from winnow.strategies.relevance import estimate_relevance
from winnow.synthetic.scratch_t5 import ScratchT5, make_t5
from winnow.testing import question

ROOT = Path(__file__).resolve().parent.parent
MINILM = ROOT / "assets/minilm"
SMALL = ScratchT5(512, 2048, 6, 8)
QUESTIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 50
CONTEXTS = 100
WORDS = [f"word{n}" for n in range(30_000)]
Pairs = list[tuple[str, Passage]]


def made_up(questions: int) -> Pairs:
    """Questions of eight words with their contexts; a passage serves several questions, as in a real ranking."""
    rng = random.Random(13)
    passages = [
        Passage(str(n), rng.choice(WORDS), " ".join(rng.choices(WORDS, k=rng.randint(60, 180))))
        for n in range(max(2 * CONTEXTS, 50 * questions))
    ]
    queries = [" ".join(rng.choices(WORDS, k=8)) for _ in range(questions)]
    return [(q, p) for q in queries for p in rng.sample(passages, CONTEXTS)]


def by_generate(estimator: T5Estimator, pairs: Pairs) -> np.ndarray:
    """A batch a question, padded to its longest, one generated token with its scores."""
    lm = estimator.lm
    true, false = (lm.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in estimator.label_words)
    scores = []
    for start in range(0, len(pairs), CONTEXTS):
        texts = [
            f"question: {q} title: {p.title} context: {p.text} {lm.tokenizer.eos_token}"
            for q, p in pairs[start : start + CONTEXTS]
        ]
        inputs = lm.tokenizer(texts, padding=True, return_tensors="pt")
        with torch.inference_mode():
            output = lm.model.generate(  # type: ignore[operator]
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=1,
                output_scores=True, return_dict_in_generate=True,
            )  # fmt: skip
        logits = output.scores[0].float()
        scores.append((logits[:, true] - logits[:, false]).numpy())
    return np.concatenate(scores)


def timed(work: Callable[[], np.ndarray], count: int) -> tuple[np.ndarray, float]:
    """Return what a work gives, and its rate."""
    started = time.perf_counter()
    scores = work()
    return scores, count / (time.perf_counter() - started)


def rank_correlation(left: ArrayLike, right: ArrayLike) -> float:
    """Spearman's."""
    return float(spearmanr(left, right).statistic)


def matrix_rate(dtype: torch.dtype) -> float:
    """GFLOP/s of a large product, best of five."""
    a = torch.randn(2048, 2048).to(dtype)
    times = []
    for _ in range(6):
        started = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - started)
    return 2 * 2048**3 / min(times[1:]) / 1e9


def encoder_flops(lm: torch.nn.Module, tokens: int) -> float:
    """Two a weight of the encoder's layers and token."""
    weights = sum(p.numel() for name, p in lm.named_parameters() if "embed" not in name and "shared" not in name)
    return 2.0 * weights * tokens


def t5(folder: Path, name: str, size: ScratchT5, questions: int) -> None:
    """A T5 of a size, in float32 and where it is native in bfloat16."""
    pairs = made_up(questions)
    path = make_t5(folder / name, ["question: title: context: true false", " ".join(WORDS)], size, 1)
    base = T5Estimator(str(path), max_length=512, dtype="float32")
    base.score(pairs[:50])
    scores, rate = timed(partial(by_generate, base, pairs), len(pairs))
    print(f"{name}: generate, a batch a question, float32: {rate:.1f} pairs/s", flush=True)
    for dtype in dict.fromkeys(("float32", resolve_dtype("auto", "cpu"))):
        for runtime in ("torch", "openvino"):
            estimator = T5Estimator(str(path), max_length=512, dtype=dtype, runtime=runtime)
            estimator.score(pairs[:50])
            ours, fast = timed(partial(estimator.score, pairs), len(pairs))
            tokens = sum(len(estimator.tokens.encode(*pair)) for pair in pairs)
            flops = encoder_flops(estimator.lm.model.get_encoder(), tokens) * fast / len(pairs) / 1e9
            print(
                f"{name}: ours by {runtime}, {dtype}: {fast:.1f} pairs/s: {fast / rate:.2f} x; largest difference "
                f"{np.abs(ours - scores).max():.1e}, rank correlation {rank_correlation(ours, scores):.5f}; "
                f"{100 * flops / matrix_rate(getattr(torch, dtype)):.0f} % of the matrix rate",
                flush=True,
            )


def retrieved(count: int) -> Pairs:
    """Return the quick start's questions with passages that it retrieved for them, drawn at random."""
    folder = next((ROOT / "data/retrieval").glob("trivia-bm25-*"))
    passages = {
        row["passage_id"]: Passage(row["passage_id"], row["title"], row["text"])
        for row in pq.read_table(folder / "passages.parquet").to_pylist()
    }
    path = next((ROOT / "data/questions").glob("*/questions.parquet"))
    wording = {row["question_id"]: row["question"] for row in pq.read_table(path).to_pylist()}
    rows = random.Random(13).sample(pq.read_table(folder / "contexts.parquet").to_pylist(), count)
    return [(wording[row["question_id"]], passages[row["passage_id"]]) for row in rows]


def reranker(folder: Path) -> str:
    """Save the quick start's MiniLM with a classifier drawn at random, large enough that scores differ."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_pretrained(MINILM, num_labels=1, dtype=torch.float32)
    torch.nn.init.normal_(model.classifier.weight)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(MINILM).save_pretrained(folder)
    return str(folder)


def cross_encoder(folder: Path, count: int) -> None:
    """MiniLM on real pairs against sentence-transformers, in each precision, at the latter's best batch size."""
    try:
        from sentence_transformers import CrossEncoder as Theirs
    except ImportError:
        print("cross-encoder: sentence-transformers is not installed; left out")
        return
    if not (MINILM.is_dir() and list((ROOT / "data/retrieval").glob("trivia-bm25-*"))):
        print("cross-encoder: the quick start's data are not there (make demo); left out")
        return
    pairs, path = retrieved(count), reranker(folder / "reranker")
    texts = [(q, f"{p.title}. {p.text}") for q, p in pairs]
    tokens = CrossEncoder(path, PairTemplate("{question}", "{title}. {text}"), max_length=512).tokens
    print(f"cross-encoder: {count} real pairs of {np.mean([len(tokens.encode(*pair)) for pair in pairs]):.0f} tokens")
    for dtype in dict.fromkeys(("float32", resolve_dtype("auto", "cpu"))):
        theirs = Theirs(path, model_kwargs={"dtype": getattr(torch, dtype)}, device="cpu", max_length=512)
        theirs.predict(texts[:32])
        rates = {}
        for size in (8, 16, 32, 64):
            work = partial(theirs.predict, texts, batch_size=size, activation_fn=torch.nn.Identity())
            scores, rates[size] = timed(work, len(pairs))
        best = max(rates, key=lambda size: rates[size])
        print(f"cross-encoder, {dtype}: sentence-transformers {rates[best]:.1f} pairs/s (best at {best} a batch)", flush=True)
        for runtime in ("torch", "openvino"):
            ours = CrossEncoder(
                path, PairTemplate("{question}", "{title}. {text}"), max_length=512, dtype=dtype, runtime=runtime
            )
            ours.score(pairs[:32])
            own, rate = timed(partial(ours.score, pairs), len(pairs))
            print(
                f"cross-encoder, {dtype}: ours by {runtime} {rate:.1f} pairs/s: {rate / rates[best]:.2f} x; "
                f"rank correlation {rank_correlation(own, scores):.5f}",
                flush=True,
            )


def rescoring(folder: Path, questions: int) -> None:
    """The score stage, then again with 1 % more contexts."""
    pairs = made_up(questions)
    path = make_t5(folder / "again", ["question: title: context: true false", " ".join(WORDS)], SMALL, 1)
    by_question: dict[str, list[Context]] = {}
    for number, (query, passage) in enumerate(pairs):
        by_question.setdefault(query, []).append(Context(passage, number, 0.0, False))
    times = []
    for share in (99, 100):
        with SqliteStore(folder / "ledger.sqlite") as ledger:
            engine = EstimatorEngine(T5Estimator(str(path), max_length=512, runtime="auto"), "bench")
            engine.estimator.score(pairs[:8])
            started = time.perf_counter()
            jobs = (Job(q, estimate_relevance(question(q), c[: share * len(c) // 100])) for q, c in by_question.items())
            done = sum(1 for _ in Driver(engines_for(engine), ledger).run(jobs))
            times.append(time.perf_counter() - started)
            assert done == questions
    print(f"rescoring after adding 1 % of the pairs: {times[1]:.2f} s of {times[0]:.2f} s: {100 * times[1] / times[0]:.1f} %")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts = {
            "t5_small": partial(t5, folder, "T5-small's size", SMALL, QUESTIONS),
            "t5_base": partial(t5, folder, "T5-base's size", ScratchT5(768, 3072, 12, 12), max(1, QUESTIONS // 10)),
            "cross_encoder": partial(cross_encoder, folder, 1000),
            "rescoring": partial(rescoring, folder, QUESTIONS),
        }
        for part in sys.argv[2:] or parts:
            parts[part]()


if __name__ == "__main__":
    main()
