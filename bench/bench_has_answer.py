"""Compare the speed of `has_answers` with FiD's algorithm, which compares lists of tokens, on one
core.

python -m bench.bench_has_answer

The 3,610 questions with 100 contexts each come from the quick start (`make demo`) and are repeated
until there are enough. Each context is a new string, so that no result is cached between questions.
Without the quick start they are synthetic.
"""

import random
import time
import unicodedata
from pathlib import Path

import pyarrow.parquet as pq
import regex

from bench._measure import scale
from winnow.text.containment import has_answers

QUESTIONS, CONTEXTS = scale(3610, 2), 100
_TOKEN = regex.compile(
    r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])",
    flags=regex.IGNORECASE + regex.UNICODE + regex.MULTILINE,
)
Cases = list[tuple[list[str], list[str]]]
"""Texts of the contexts and accepted answers, for each question."""


def tokenize(text: str) -> list[str]:
    """Split a text into lower-case tokens, as FiD does."""
    return [match.group().lower() for match in _TOKEN.finditer(unicodedata.normalize("NFD", text))]


def find_answers(texts: list[str], answers: list[str]) -> list[bool]:
    """Return whether each text contains an answer, by FiD's algorithm."""
    answer_tokens = [tokenize(answer) for answer in answers]
    flags = []
    for text in texts:
        tokens = tokenize(text)
        flags.append(
            any(
                tokens[start : start + len(answer)] == answer
                for answer in answer_tokens
                for start in range(len(tokens) - len(answer) + 1)
            )
        )
    return flags


def load_cases() -> Cases:
    """Load the retrieved contexts and the answers of the quick start; empty before its
    first run.
    """
    cases: Cases = []
    for folder in sorted(Path("data/retrieval").glob("trivia-bm25-*")):
        texts = {
            row["passage_id"]: row["text"]
            for row in pq.read_table(folder / "passages.parquet").to_pylist()
        }
        answers: dict[str, list[str]] = {}
        for path in Path("data/questions").glob("*/questions.parquet"):
            answers |= {
                row["question_id"]: row["answers"] for row in pq.read_table(path).to_pylist()
            }
        ranked: dict[str, list[str]] = {}
        for row in pq.read_table(folder / "contexts.parquet").to_pylist():
            ranked.setdefault(row["question_id"], []).append(texts[row["passage_id"]])
        cases += [
            (contexts, answers[question])
            for question, contexts in ranked.items()
            if len(contexts) == CONTEXTS
        ]
    return cases


def make_cases() -> Cases:
    """Make 200 questions with contexts of random words."""
    rng = random.Random(13)
    vocabulary = [
        "".join(rng.choices("abcdefghijklmnopqrstuvwxyz\u00e9\u00fc", k=rng.randint(2, 9)))
        for _ in range(30_000)
    ]
    return [
        (
            [" ".join(rng.choices(vocabulary, k=100)) + "." for _ in range(CONTEXTS)],
            [" ".join(rng.choices(vocabulary, k=2)), rng.choice(vocabulary)],
        )
        for _ in range(200)
    ]


def main() -> None:
    """Measure both algorithms on the same pairs, and check that their results are equal."""
    cases = load_cases()
    label = "retrieved" if cases else "made-up"
    cases = cases or make_cases()
    work: Cases = []
    for number in range(QUESTIONS):
        texts, answers = cases[number % len(cases)]
        work.append(([f"{text} " for text in texts], answers))
    started = time.perf_counter()
    expected = [find_answers(texts, answers) for texts, answers in work]
    baseline_seconds = time.perf_counter() - started
    started = time.perf_counter()
    ours = [has_answers(texts, answers) for texts, answers in work]
    own_seconds = time.perf_counter() - started
    assert ours == expected
    num_pairs = sum(len(texts) for texts, _ in work)
    share = sum(map(sum, ours)) / num_pairs
    print(
        f"has_answer, {num_pairs} {label} pairs ({100 * share:.1f} % hold an answer): FiD's "
        f"algorithm {num_pairs / baseline_seconds:.0f} pairs/s, ours "
        f"{num_pairs / own_seconds:.0f} pairs/s: {baseline_seconds / own_seconds:.1f} x, "
        "identical"
    )


if __name__ == "__main__":
    main()
