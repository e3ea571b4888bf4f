"""The samples of finished cells, which are built when they are used."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_prediction_row
from winnow.metrics.base import Sample
from winnow.records import Prediction, Price, RoleUsage
from winnow.sweeps import samples as samples_module
from winnow.sweeps.samples import StoredSamples
from winnow.testing import make_context, make_question

PRICES = {"reader": Price(1.0, 2.0)}
EXPECTED = [
    Sample(
        make_question(f"Question {n}?", question_id=f"q{n}"),
        Prediction(
            f"q{n}", f"answer {n}", n % 2 == 0, (f"c{n}", "d"), f"reply {n}", ("kept: 1",) * (n % 3), (f"p{n}",), (), n,
            "distant", n, (RoleUsage("reader", n, 10 * n, n, 0.5, 1, 0), RoleUsage("search", 1, 0, 0)),
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
    parquet.write(path, contracts.PREDICTIONS, [build_prediction_row(sample.prediction) for sample in EXPECTED], group=4)
    contexts = {sample.question.question_id: sample.placed for sample in EXPECTED if sample.placed}
    return StoredSamples([sample.question for sample in EXPECTED], path, PRICES, contexts, {})


def test_stored_samples_are_what_was_written(stored: Sequence[Sample]) -> None:
    """In order, by index from both ends, and by slices across blocks; every field of the predictions."""
    assert len(stored) == 8
    assert list(stored) == EXPECTED
    assert [sample.prediction.usage for sample in stored] == [sample.prediction.usage for sample in EXPECTED]
    assert [stored[index] for index in (7, 0, 5, -1, -8)] == [EXPECTED[index] for index in (7, 0, 5, -1, -8)]
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
