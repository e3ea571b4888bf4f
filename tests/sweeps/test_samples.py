"""The samples of finished cells, which are built when they are used."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from winnow.artifacts import contracts, parquet
from winnow.artifacts.steps import StepsWriter, StoredSteps
from winnow.artifacts.tables import build_prediction_row
from winnow.metrics.base import Sample, Shown
from winnow.predictions import Prediction, Price, RoleUsage
from winnow.records import Answer
from winnow.steps import Outcome, Step
from winnow.sweeps import samples as samples_module
from winnow.sweeps.samples import StoredSamples
from winnow.testing import make_context, make_question

PRICES = {"reader": Price(1.0, 2.0)}
EXPECTED = [
    Sample(
        make_question(f"Question {n}?", question_id=f"q{n}"),
        Prediction(
            f"q{n}", f"answer {n}", n % 2 == 0, (f"c{n}", "d"), f"reply {n}",
            ("kept: 1",) * (n % 3), (f"p{n}",), (), n, "distant", n,
            (RoleUsage("reader", n, 10 * n, n, 0.5, 1, 0), RoleUsage("search", 1, 0, 0)),
        ),
        (make_context(n + 1, "text"),) if n else (),
        PRICES,
        (),
    )
    for n in range(8)
]  # fmt: skip


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredSamples:
    """The samples above, three of which are a block."""
    monkeypatch.setattr(samples_module, "_BLOCK", 3)
    path = tmp_path / "predictions.parquet"
    parquet.write(
        path,
        contracts.PREDICTIONS,
        [build_prediction_row(sample.prediction) for sample in EXPECTED],
        group=4,
    )
    contexts = {sample.question.question_id: sample.placed for sample in EXPECTED if sample.placed}
    return StoredSamples([sample.question for sample in EXPECTED], path, PRICES, contexts, {})


def test_stored_samples_are_what_was_written(stored: Sequence[Sample]) -> None:
    """In order, by index from both ends, and by slices across blocks; every field of the
    predictions.
    """
    assert len(stored) == 8
    assert list(stored) == EXPECTED
    assert [sample.prediction.usage for sample in stored] == [
        sample.prediction.usage for sample in EXPECTED
    ]
    assert [stored[index] for index in (7, 0, 5, -1, -8)] == [
        EXPECTED[index] for index in (7, 0, 5, -1, -8)
    ]
    assert stored[2:7] == EXPECTED[2:7]
    assert stored[::-3] == EXPECTED[::-3]
    for index in (8, -9):
        with pytest.raises(IndexError):
            stored[index]


def test_two_iterations_do_not_disturb_each_other(stored: Sequence[Sample]) -> None:
    """A block that one of them needs does not change what the other yields."""
    pairs = list(zip(stored, reversed(stored), strict=True))
    assert [first for first, _ in pairs] == EXPECTED
    assert [second for _, second in pairs] == EXPECTED[::-1]


def test_what_was_shown_is_read_with_its_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Across blocks: each question has the contexts of its own prompts, with the flags of its
    ranking.
    """
    monkeypatch.setattr(samples_module, "_BLOCK", 3)
    path = tmp_path / "predictions.parquet"
    parquet.write(
        path,
        contracts.PREDICTIONS,
        [build_prediction_row(sample.prediction) for sample in EXPECTED],
    )
    ranked = {
        f"q{n}": (make_context(n + 1, f"text {n}", is_gold=n % 2 == 1), make_context(50, "other"))
        for n in range(8)
    }
    passages = {c.passage.passage_id: c.passage for contexts in ranked.values() for c in contexts}
    writer = StepsWriter(tmp_path, passages)
    for n in range(8):
        own, other = (context.passage for context in ranked[f"q{n}"])
        steps = tuple(Step(1, "generate", "reader", (one,), finish="stop") for one in (own, other))
        answer = Answer("x", unknown=False, used=(own,) if n % 3 else ())
        writer.add(f"q{n}", Outcome(n, answer, steps=steps, stop="stop"))
    writer.finish([f"q{n}" for n in range(8)])
    questions = [sample.question for sample in EXPECTED]
    stored = StoredSamples(questions, path, PRICES, {}, ranked, StoredSteps(tmp_path, passages))
    for n, sample in enumerate(stored):
        own, other = ranked[f"q{n}"]
        assert sample.shown == Shown((own, other), (own,) if n % 3 else (other,), ((own, other),))
    assert stored[-1].shown == Shown(ranked["q7"], ranked["q7"][:1], (ranked["q7"],))
