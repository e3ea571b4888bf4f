"""Measure the retrievers for millions of passages: memory, speed and recall against an exact search
and against bm25s.

# Both parts, 3 million passages: about half an hour and 15 GB of disk on two cores
python -m bench.bench_retrieval
# Retriever=dense_on_disk, built in six shards, one of them killed, against FAISS Flat
python -m bench.bench_retrieval dense
# Retriever=tantivy against bm25s, which indexes a tenth of the passages
python -m bench.bench_retrieval sparse

Vectors are those of the quick start's passages with noise, and passages are made of its sentences;
without the quick start (`make demo`), both are random. Every step is a process of its own, and its
memory is the peak. Anonymous memory is what the process itself allocates; the total contains pages
of memory-mapped files, which the system takes back when it needs them.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench._measure import scale
from winnow.artifacts.tables import read_passages, read_questions
from winnow.modeling.sentence_encoder import SentenceEncoder
from winnow.protocols import Searcher
from winnow.records import Passage, Question
from winnow.retrievers.bm25 import BM25
from winnow.retrievers.dense_on_disk import DenseOnDisk
from winnow.retrievers.tantivy import Tantivy
from winnow.sweeps.shards import Shard
from winnow.testing import make_question

PASSAGES, SHARDS, DEPTH, DIMENSIONS, NOISE = scale(3_000_000, 4000), 6, 100, 384, 0.04
BLOCK = max(1, min(50_000, PASSAGES // 24))
ENCODER = Path("assets/minilm")
WIKIPEDIA = 21_015_324
"""Number of passages of DPR's Wikipedia."""


class NoisyEncoder(SentenceEncoder):
    """Vectors of the quick start, of which each passage has one with noise of its own, and each
    question its own.
    """

    def __init__(self, folder: Path) -> None:
        """Read the vectors that `prepare_vectors` wrote."""
        super().__init__("unused")
        self.base: NDArray[np.float32] = np.load(folder / "base.npy")
        self.queries: NDArray[np.float32] = np.load(folder / "queries.npy")

    def encode_passages(
        self,
        passages: Sequence[Passage],
        advance: Any = None,  # noqa: ARG002
    ) -> NDArray[np.float32]:
        """Return the vectors of passages, whose ids are numbers."""
        numbers = np.array(
            [int(passage.passage_id) if passage.passage_id.isdigit() else 0 for passage in passages]
        )
        noise = np.random.default_rng(int(numbers[0])).normal(
            scale=NOISE, size=(len(numbers), self.base.shape[1])
        )
        vectors: NDArray[np.float32] = self.base[numbers % len(self.base)] + noise.astype(
            np.float32
        )
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def encode_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions, whose texts are numbers."""
        chosen: NDArray[np.float32] = self.queries[[int(text) for text in texts]]
        return chosen


def read_quick_start() -> tuple[list[Passage], list[Question]]:
    """Return the passages and questions of the quick start, or nothing before its first run."""
    corpora = sorted(Path("data/corpus").glob("vital-*/passages.parquet"))
    questions = sorted(Path("data/questions").glob("trivia-*/questions.parquet"))
    if not (corpora and questions):
        return [], []
    return list(read_passages(corpora[0])), list(read_questions(questions[0]))


def prepare_vectors(folder: Path) -> str:
    """Write vectors of passages and questions; return where they come from."""
    passages, questions = read_quick_start()
    if passages and ENCODER.is_dir():
        encoder = SentenceEncoder(str(ENCODER))
        base, queries = (
            encoder.encode_passages(passages),
            encoder.encode_queries([question.text for question in questions]),
        )
        label = f"{len(passages)} real vectors with noise, {len(questions)} real questions"
    else:
        drawn = np.random.default_rng(13).normal(size=(11_000, DIMENSIONS)).astype(np.float32)
        drawn[10_000:] += drawn[:1000]
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        base, queries, label = (
            drawn[:10_000],
            drawn[10_000:],
            "10000 made-up vectors with noise, 1000 made-up questions",
        )
    np.save(folder / "base.npy", base)
    np.save(folder / "queries.npy", queries)
    return label


def iter_numbers() -> Iterator[Passage]:
    """Yield passages that consist of a number."""
    return (Passage(str(number), "", "") for number in range(PASSAGES))


def iter_texts(count: int = PASSAGES) -> Iterator[Passage]:
    """Yield passages of about 100 words, made of random sentences of the quick start."""
    rng = random.Random(13)
    sentences = [
        s for passage in read_quick_start()[0] for s in passage.text.split(". ") if len(s) > 20
    ]
    if not sentences:
        words = [
            "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 9)))
            for _ in range(20_000)
        ]
        sentences = [" ".join(rng.choices(words, k=20)) for _ in range(20_000)]
    for number in range(count):
        length, parts = 0, []
        while length < 100:
            parts.append(rng.choice(sentences))
            length += parts[-1].count(" ") + 1
        yield Passage(str(number), "", ". ".join(parts))


def make_retriever(folder: Path) -> DenseOnDisk:
    """Return the retriever under test."""
    return DenseOnDisk(NoisyEncoder(folder), block_size=BLOCK)


def build_shard(folder: Path, number: str) -> None:
    """Encode the blocks of one shard."""
    make_retriever(folder).build_blocks(
        iter_numbers, folder / "index", Shard(int(number), SHARDS).contains_block
    )


def build_dense(folder: Path) -> None:
    """Join the shards to an index."""
    make_retriever(folder).build(iter_numbers, folder / "index")


def search_dense(folder: Path) -> dict[str, Any]:
    """Search the index for all questions."""
    queries = np.load(folder / "queries.npy")
    searcher = make_retriever(folder).open(folder / "index")
    return search(
        searcher,
        [make_question(str(number), question_id=str(number)) for number in range(len(queries))],
    )


def search_exactly(folder: Path) -> dict[str, Any]:
    """Search all vectors with FAISS's Flat index; half of the questions, because it is slow."""
    import faiss

    index = faiss.IndexFlatIP(np.load(folder / "base.npy").shape[1])
    for file in sorted((folder / "index/vectors").glob("*.npy")):
        index.add(np.load(file).astype(np.float32))
    queries = np.load(folder / "queries.npy")[::2]
    started = time.perf_counter()
    rows = np.concatenate(
        [
            index.search(queries[start : start + 64], DEPTH)[1]
            for start in range(0, len(queries), 64)
        ]
    )
    return {
        "per_second": len(queries) / (time.perf_counter() - started),
        "ids": rows.astype(str).tolist(),
    }


def search(searcher: Searcher, questions: Sequence[Question]) -> dict[str, Any]:
    """Search twice, and return the speed of the second time and the ids."""
    searcher.search(questions, DEPTH)
    started = time.perf_counter()
    rankings = searcher.search(questions, DEPTH)
    seconds = time.perf_counter() - started
    return {
        "per_second": len(questions) / seconds,
        "ids": [[hit.passage_id for hit in hits] for hits in rankings],
    }


def load_questions() -> list[Question]:
    """Return the quick start's questions, or sentences."""
    return read_quick_start()[1] or [
        make_question(p.text[:60], question_id=p.passage_id) for p in iter_texts(500)
    ]


def build_tantivy(folder: Path) -> None:
    """Index all passages with Tantivy."""
    Tantivy().build(iter_texts, folder / "tantivy")


def search_tantivy(folder: Path) -> dict[str, Any]:
    """Search Tantivy's index for all questions."""
    return search(Tantivy().open(folder / "tantivy"), load_questions())


def build_bm25s(folder: Path) -> None:
    """Index a tenth of the passages with bm25s, which keeps all of them in memory."""
    BM25().build(lambda: iter_texts(PASSAGES // 10), folder / "bm25s")


def search_bm25s(folder: Path) -> dict[str, Any]:
    """Search bm25s's index for all questions."""
    return search(BM25().open(folder / "bm25s"), load_questions())


STEPS: dict[str, Callable[..., dict[str, Any] | None]] = {
    "shard": build_shard, "dense": build_dense, "search_dense": search_dense,
    "search_exactly": search_exactly, "tantivy": build_tantivy, "search_tantivy": search_tantivy,
    "bm25s": build_bm25s, "search_bm25s": search_bm25s,
}  # fmt: skip


def run_step(name: str, folder: Path, *words: str) -> dict[str, Any]:
    """Run a step in a process of its own; return its result, seconds and peak memory in GB."""
    result = folder / "result.json"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.bench_retrieval",
            "step",
            name,
            str(folder),
            str(result),
            *words,
        ],
        check=True,
    )
    measured: dict[str, Any] = json.loads(result.read_text())
    return measured


def measure_step(name: str, folder: Path, result: Path, words: Sequence[str]) -> None:
    """Run a step in this process, and write what it returns with its time and memory."""
    peaks = {"RssAnon": 0, "VmRSS": 0}

    def watch() -> None:
        while True:
            for line in Path("/proc/self/status").read_text().splitlines():
                key, _, value = line.partition(":")
                if key in peaks:
                    peaks[key] = max(peaks[key], int(value.split()[0]))
            time.sleep(0.05)

    threading.Thread(target=watch, daemon=True).start()
    started = time.perf_counter()
    found = STEPS[name](folder, *words) or {}
    facts = {
        "seconds": time.perf_counter() - started,
        "anonymous": peaks["RssAnon"] / 2**20,
        "total": peaks["VmRSS"] / 2**20,
    }
    result.write_text(json.dumps(found | facts))


def build_in_shards(folder: Path) -> float:
    """Run all shards, of which the second is killed and started again; return the
    seconds of all.
    """
    started = time.perf_counter()
    for number in range(1, SHARDS + 1):
        words = [
            sys.executable,
            "-m",
            "bench.bench_retrieval",
            "step",
            "shard",
            str(folder),
            str(folder / "r"),
            str(number),
        ]
        if number == 2:
            process = subprocess.Popen(words)
            while not (folder / "index/vectors/00001.npy").exists() and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
        subprocess.run(words, check=True)
    return time.perf_counter() - started


def compare_dense(folder: Path) -> None:
    """Print the memory, speed and recall of the index on the disk against those of an
    exact search.
    """
    label = prepare_vectors(folder)
    encoding = build_in_shards(folder)
    built = run_step("dense", folder)
    codes = sum(file.stat().st_size for file in (folder / "index").glob("*") if file.is_file())
    vectors = sum(file.stat().st_size for file in (folder / "index/vectors").glob("*.npy"))
    ours, exact = run_step("search_dense", folder), run_step("search_exactly", folder)
    recall = compute_recall(ours["ids"][::2], exact["ids"])
    print(
        f"dense_on_disk, {PASSAGES} passages ({label}): {SHARDS} shards, one of them killed, "
        f"{encoding:.0f} s; joined in {built['seconds']:.0f} s with {built['anonymous']:.2f} GB "
        f"anonymous; {codes / 2**20:.0f} MB of codes, {vectors / 2**20:.0f} MB of vectors"
    )
    print(
        f"search: {ours['anonymous']:.2f} GB anonymous, {ours['total']:.2f} GB with mapped pages; "
        f"{ours['per_second']:.0f} questions/s against {exact['per_second']:.1f} of FAISS Flat "
        f"with {exact['anonymous']:.2f} GB: {ours['per_second'] / exact['per_second']:.1f} x, "
        f"recall@{DEPTH} {100 * recall:.2f} % of the exact one"
    )
    factor = WIKIPEDIA / PASSAGES
    print(
        f"for {WIKIPEDIA} passages: {codes * factor / 2**30:.1f} GB of codes and ids, "
        f"{vectors * factor / 2**30:.1f} GB of vectors on the disk"
    )


def compare_sparse(folder: Path) -> None:
    """Print the memory and speed of Tantivy against those of bm25s over a tenth of the passages."""
    built, ours = run_step("tantivy", folder), run_step("search_tantivy", folder)
    size = sum(file.stat().st_size for file in (folder / "tantivy").rglob("*") if file.is_file())
    smaller, theirs = run_step("bm25s", folder), run_step("search_bm25s", folder)
    print(
        f"tantivy, {PASSAGES} passages: built in {built['seconds']:.0f} s with "
        f"{built['anonymous']:.2f} GB anonymous, {size / PASSAGES:.0f} bytes a passage; "
        f"{ours['per_second']:.0f} questions/s with {ours['anonymous']:.2f} GB anonymous, "
        f"{ours['total']:.2f} GB with mapped pages"
    )
    print(
        f"bm25s, {PASSAGES // 10} passages: built in {smaller['seconds']:.0f} s with "
        f"{smaller['anonymous']:.2f} GB; {theirs['per_second']:.0f} questions/s with "
        f"{theirs['anonymous']:.2f} GB: a passage takes "
        f"{10 * smaller['anonymous'] / built['anonymous']:.1f} x tantivy's memory while it is "
        "indexed"
    )


def compute_recall(found: Sequence[Sequence[str]], expected: Sequence[Sequence[str]]) -> float:
    """Return the mean share of expected ids that were found."""
    return float(
        np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, expected, strict=True)])
    )


def main(words: Sequence[str]) -> None:
    """Run the parts that the words name, or one step of them."""
    if words[:1] == ["step"]:
        measure_step(words[1], Path(words[2]), Path(words[3]), words[4:])
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("WINNOW_BENCH_FOLDER")) as folder:
        for name, compare in (("dense", compare_dense), ("sparse", compare_sparse)):
            if not words or name in words:
                compare(Path(folder))
                for path in Path(folder).iterdir():
                    shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
