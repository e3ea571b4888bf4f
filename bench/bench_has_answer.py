"""has_answer of 3,610 questions by 100 contexts on one core, against FiD's algorithm (lists of tokens).

python -m bench.bench_has_answer

Questions and contexts are those that the quick start retrieved (`make demo`), taken again from the start until there are
enough; each context is a text of its own, so that nothing is remembered from one question to the next. Before the first
`make demo` they are made up.
"""

import random
import time
import unicodedata
from pathlib import Path

import pyarrow.parquet as pq
import regex

from winnow.metrics.ranking import has_answers

QUESTIONS, CONTEXTS = 3610, 100
_TOKEN = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])", flags=regex.IGNORECASE + regex.UNICODE + regex.MULTILINE)
Work = list[tuple[list[str], list[str]]]


def tokens(text: str) -> list[str]:
    return [match.group().lower() for match in _TOKEN.finditer(unicodedata.normalize("NFD", text))]


def baseline(texts: list[str], answers: list[str]) -> list[bool]:
    wanted = [tokens(answer) for answer in answers]
    cases = []
    for text in texts:
        words = tokens(text)
        cases.append(any(words[i : i + len(w)] == w for w in wanted for i in range(len(words) - len(w) + 1)))
    return cases


def real() -> Work:
    """Return the rankings of the quick start with their texts."""
    cases: Work = []
    for folder in sorted(Path("data/retrieval").glob("trivia-bm25-*")):
        texts = {row["passage_id"]: row["text"] for row in pq.read_table(folder / "passages.parquet").to_pylist()}
        answers: dict[str, list[str]] = {}
        for path in Path("data/questions").glob("*/questions.parquet"):
            answers |= {row["question_id"]: row["answers"] for row in pq.read_table(path).to_pylist()}
        ranked: dict[str, list[str]] = {}
        for row in pq.read_table(folder / "contexts.parquet").to_pylist():
            ranked.setdefault(row["question_id"], []).append(texts[row["passage_id"]])
        cases += [(contexts, answers[question]) for question, contexts in ranked.items() if len(contexts) == CONTEXTS]
    return cases


def made_up() -> Work:
    rng = random.Random(13)
    vocabulary = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz\u00e9\u00fc", k=rng.randint(2, 9))) for _ in range(30_000)]
    return [
        (
            [" ".join(rng.choices(vocabulary, k=100)) + "." for _ in range(CONTEXTS)],
            [" ".join(rng.choices(vocabulary, k=2)), rng.choice(vocabulary)],
        )
        for _ in range(200)
    ]


def main() -> None:
    cases = real()
    label = "retrieved" if cases else "made-up"
    cases = cases or made_up()
    work = [([f"{text} " for text in cases[n % len(cases)][0]], cases[n % len(cases)][1]) for n in range(QUESTIONS)]
    started = time.perf_counter()
    expected = [baseline(texts, answers) for texts, answers in work]
    middle = time.perf_counter()
    ours = [has_answers(texts, answers) for texts, answers in work]
    seconds, before = time.perf_counter() - middle, middle - started
    assert ours == expected
    pairs = sum(len(texts) for texts, _ in work)
    share = sum(map(sum, ours)) / pairs
    print(
        f"has_answer, {pairs} {label} pairs ({100 * share:.1f} % hold an answer): FiD's algorithm {pairs / before:.0f} "
        f"pairs/s, ours {pairs / seconds:.0f} pairs/s: {before / seconds:.1f} x, identical"
    )


if __name__ == "__main__":
    main()
