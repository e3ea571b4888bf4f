"""Labels that tell cells apart."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.closed_book import build_closed_book_row
from winnow.artifacts import contracts, parquet
from winnow.artifacts.tables import build_question_rows
from winnow.predictions import Price
from winnow.sweeps.labels import CellLabels
from winnow.sweeps.spec import CellSpec, EngineSpec, QuestionSelection, list_varying_settings
from winnow.testing import make_question


def spec(settings: dict[str, str], strategy: str = "a", **config: Any) -> CellSpec:
    """A cell of which only labels and settings matter."""
    unused: Any = None
    return CellSpec(
        "key",
        unused,
        CellLabels(strategy, 5, "g"),
        settings,
        unused,
        unused,
        None,
        None,
        unused,
        unused,
        unused,
        config=config,
    )


def test_settings_that_vary_are_named() -> None:
    """And those that do not are left out."""
    cells = [
        spec({"retriever": "bm25", "split": "test"}),
        spec({"retriever": "dense", "split": "test"}),
    ]
    assert list_varying_settings(cells) == [[("retriever", "bm25")], [("retriever", "dense")]]
    assert list_varying_settings(cells[:1]) == [[]]
    assert list_varying_settings([]) == []


def test_cells_with_equal_labels_are_told_apart_by_their_configuration() -> None:
    """Any other setting in which they differ, shortened; where and how a report is written does not
    count.
    """
    cells = [
        spec({}, weighting={"by": "retriever", "scale": 0.1}, report={"out": "a"}),
        spec({}, weighting={"by": "retriever", "scale": 1.0}, report={"out": "b"}),
        spec({}, "b", weighting={"by": "retriever", "scale": 1.0}),
    ]
    assert list_varying_settings(cells) == [
        [("weighting.scale", "0.1")],
        [("weighting.scale", "1.0")],
        [],
    ]
    prompts = [spec({}, prompt={"system": letter * 100}) for letter in "xy"]
    assert list_varying_settings(prompts)[0] == [("prompt.system", f"{'x' * 37}...")]


def test_values_that_differ_late_or_in_blanks_remain_different() -> None:
    """Cells with one label would be averaged, or be compared as if they were one."""
    texts = [
        f"{'You are a helpful assistant. ' * 2}Answer with {end}." for end in ("a word", "two")
    ]
    labels = [
        dict(one)["prompt.system"]
        for one in list_varying_settings([spec({}, prompt={"system": text}) for text in texts])
    ]
    assert labels == ["...swer with a word.", "...swer with two."]
    blanks = list_varying_settings([spec({}, prompt={"system": text}) for text in ("a b", "a  b")])
    first, second = (dict(one)["prompt.system"] for one in blanks)
    assert first != second
    assert first.startswith("a b #")
    cells = [
        replace(one, labels=replace(one.labels, questions=name))
        for one, name in zip([spec({}, dataset={"path": name}) for name in "xy"], "xy", strict=True)
    ]
    assert list_varying_settings(cells) == [[("dataset.path", "x")], [("dataset.path", "y")]]


def test_prices_are_those_of_the_engines_of_rankings_too() -> None:
    """Without those that have none, so that the money of a plan counts."""

    def engine(role: str, *price: float) -> EngineSpec:
        return EngineSpec(role, "k", lambda _: pytest.fail("opened"), Price(*price))

    ranking = (engine("reranker", 1.0, 2.0), engine("corpus"))
    one = replace(spec({}), ranking_engines=ranking, engines=(engine("reader", 3.0, 4.0),))
    assert one.prices == {"reranker": Price(1.0, 2.0), "reader": Price(3.0, 4.0)}


def test_the_closed_book_filter_keeps_one_part_or_the_other(tmp_path: Path) -> None:
    """Those that the reader does not know, or those that it does; both together are all."""
    questions = [make_question(question_id=f"q{n}") for n in range(4)]
    rows = build_question_rows([replace(question, split="test") for question in questions])
    parquet.write(tmp_path / "questions.parquet", contracts.QUESTIONS, rows)
    answered = [
        build_closed_book_row(one, "Jane Austen" if one.question_id in ("q1", "q3") else "no")
        for one in questions
    ]
    parquet.write(tmp_path / "closed_book.parquet", contracts.CLOSED_BOOK, answered)
    unknown = QuestionSelection(
        tmp_path / "questions.parquet", "test", None, tmp_path / "closed_book.parquet"
    )
    known = replace(unknown, keeps="known")
    assert [question.question_id for question in unknown.read()] == ["q0", "q2"]
    assert [question.question_id for question in known.read()] == ["q1", "q3"]
    assert (unknown.count_questions(), known.count_questions()) == ((4, 2), (4, 2))


def test_a_number_and_its_text_remain_different() -> None:
    """They are formatted alike."""
    cells = list_varying_settings([spec({}, prompt={"n": value}) for value in (1, "1")])
    first, second = (dict(one)["prompt.n"] for one in cells)
    assert first != second
