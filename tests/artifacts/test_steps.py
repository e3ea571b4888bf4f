"""Storage of steps: what is written is what is read, each text once."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from winnow.artifacts.steps import (
    PASSAGES_FILE,
    STEPS_FILE,
    QuestionSteps,
    StepsWriter,
    StoredSteps,
    count_control_tokens,
    count_models,
    has_steps,
    read_steps,
)
from winnow.errors import ArtifactError
from winnow.records import Answer, Passage
from winnow.steps import Outcome, Step

RANKED = {"p1": Passage("p1", "T1", "one"), "p2": Passage("p2", "T2", "two")}
STRIP = Passage("p1#0", "T1", "on", ("p1",))
CUT = Passage("p2", "T2", "tw")
PAGE = Passage("https://x", "X", "page")
PART = Passage("https://x#1", "X", "pa", ("https://x",))
SEARCHED = (
    Step(1, "search", "search", (PAGE,), "who", "found"),
    Step(
        2,
        "generate",
        "reader",
        (RANKED["p1"], STRIP, CUT, PART),
        finish="stop",
        model="m",
        calls=3,
    ),
)
SHOWN = (Step(1, "generate", "reader", (RANKED["p2"], STRIP), finish="length"),)

OUTCOMES: Sequence[Outcome[Answer | None]] = (
    Outcome("b", Answer("x", unknown=False, used=(STRIP, CUT)), steps=SHOWN, stop="length"),
    Outcome("a", None, steps=SEARCHED, stop="max rounds"),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The steps of two questions, written in another order than that of the predictions."""
    write(tmp_path, OUTCOMES)
    return tmp_path


def write(folder: Path, outcomes: Sequence[Outcome[Answer | None]]) -> None:
    writer = StepsWriter(folder, RANKED)
    for outcome in outcomes:
        writer.add(str(outcome.tag), outcome)
    writer.finish(["a", "b"])


def test_what_is_written_is_read(folder: Path) -> None:
    """Every field, in the order of the predictions; or only some questions."""
    stored = StoredSteps(folder, RANKED)
    expected = [
        ("a", QuestionSteps(SEARCHED, "max rounds")),
        ("b", QuestionSteps(SHOWN, "length", (STRIP, CUT))),
    ]
    assert stored.convert(stored.read_table()) == expected
    assert stored.convert(stored.read_table().slice(1, 1)) == expected[1:]
    assert read_steps(folder, RANKED, ["b", "c"]) == dict(expected[1:])
    assert expected[0][1].prompts == [SEARCHED[1]]


def test_each_text_is_stored_once_and_those_of_the_rankings_are_not(folder: Path) -> None:
    """With where it is from."""
    rows = {
        (row["passage_id"], row["text"], row["origin"])
        for row in pq.read_table(folder / PASSAGES_FILE).to_pylist()
    }
    assert rows == {
        ("p1", None, "rankings"),
        ("p2", None, "rankings"),
        ("p1#0", "on", "strategy"),
        ("p2", "tw", "strategy"),
        ("https://x", "page", "search"),
        ("https://x#1", "pa", "search"),
    }


def test_the_order_in_which_plans_end_changes_no_byte(folder: Path, tmp_path: Path) -> None:
    """Nor does a killed run, whose plans end in another order when they are replayed."""
    write(tmp_path / "other", OUTCOMES[::-1])
    for name in (STEPS_FILE, PASSAGES_FILE):
        assert (folder / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_a_passage_that_the_rankings_lack_is_named(folder: Path) -> None:
    """Its text is nowhere."""
    with pytest.raises(ArtifactError, match="the rankings lack the passage 'p1'"):
        StoredSteps(folder, {"p2": RANKED["p2"]})


def test_a_cell_of_an_earlier_version_has_none(tmp_path: Path) -> None:
    """Nothing is read, and nothing fails."""
    assert not has_steps(tmp_path)
    assert read_steps(tmp_path, RANKED, ["a"]) == {}


def test_models_are_counted_by_replies(folder: Path, tmp_path: Path) -> None:
    """As often as there are requests; a reply whose model is not known is left out."""
    assert count_models(folder) == {("reader", "m"): 3}
    assert count_models(tmp_path / "none") == {}


def test_replies_with_control_tokens_are_counted(tmp_path: Path) -> None:
    """The reader's alone, each call."""
    steps = (
        Step(1, "generate", "reader", finish="stop with control tokens", calls=3),
        Step(1, "generate", "reader", finish="length with control tokens"),
        Step(1, "generate", "reader", finish="stop", calls=2),
        Step(2, "generate", "judge", finish="stop with control tokens"),
    )
    write(tmp_path, [Outcome("a", None, steps=steps), Outcome("b", None)])
    assert count_control_tokens(tmp_path) == (4, 6)
    assert count_control_tokens(tmp_path / "none") == (0, 0)
