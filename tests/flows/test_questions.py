"""The field's questions as experiments, on the small world."""

import json
from pathlib import Path

import pytest
from conftest import Run, overrides

import winnow
from winnow.artifacts.tables import read_questions
from winnow.testing.chat_server import ChatServer
from winnow.text.containment import has_answers

pytestmark = pytest.mark.slow
WORDS = (
    "experiment=questions/conflict",
    "grid.strategy=[concatenation]",
    "grid.k=[2]",
    "decoding.max_new_tokens=4",
)


def test_readers_are_asked_about_a_false_passage(prepared: Run, tmp_path: Path) -> None:
    """The prompt shows the false answer and not the true one; what is followed adds up; unchanged
    cells have no value.
    """
    prepared("sweep", *WORDS)
    prepared("report", *WORDS, "report.out=out")
    cells = {cell["gold"]: cell for cell in json.loads((tmp_path / "out/metrics.json").read_text())}
    assert set(cells) == {"gold_first", "counterfactual"}
    shares = [
        cells["counterfactual"][f"follows_{name}"] for name in ("passage", "memory", "neither")
    ]
    assert sum(share[0] for share in shares) == pytest.approx(1)
    assert shares[0][3] >= 5, "most questions of the small world have an answer in a passage"
    assert cells["gold_first"]["follows_passage"] == [None, None, None, 0]
    (file,) = tmp_path.glob("data/questions/*/questions.parquet")
    questions = {question.question_id: question for question in read_questions(file, ["test"])}
    for name, are_shown in (("gold_first", True), ("counterfactual", False)):
        steps = winnow.load_steps(
            tmp_path / "data/predictions" / f"concatenation-{cells[name]['key']}"
        ).to_dict("records")
        shown = [
            any(
                has_answers(
                    [one["text"] for one in row["passages"]], questions[row["question_id"]].answers
                )
            )
            for row in steps
        ]
        assert any(shown) == are_shown


def test_known_questions_are_those_that_are_answered_without_passages(prepared: Run) -> None:
    """The tiny reader answers none of them, and the message says which setting asks for them."""
    done = prepared(
        "sweep",
        *WORDS,
        "sweep.closed_book_filter=true",
        "sweep.closed_book_keeps=known",
        check=False,
    )
    assert "no question of split 'test' that the sweep could answer" in done.stderr
    assert "sweep.closed_book_keeps" in done.stderr


def test_a_served_model_thinks_or_not(prepared: Run, world: Path, tmp_path: Path) -> None:
    """Both values reach the server; each has cells of its own, which say so."""
    words = [
        word
        for word in overrides(world)
        if not word.startswith(("reader", "training", "sweep.limit"))
    ]
    server = ChatServer(reply=lambda _: {"content": "Mx Nelra", "reasoning": "two more"})
    with server.serve() as url:
        served = [
            "experiment=questions/thinking",
            "reader.base=model",
            f"reader.engine.base_url={url}",
            "sweep.limit=3",
        ]
        more = ["grid.k=[2]", "report.out=out"]
        dry = prepared("sweep", *words, *served, *more, "dry_run=true", small=False).stdout
        prepared("sweep", *words, *served, *more, small=False)
        prepared("report", *words, *served, *more, small=False)
        thought = [body["chat_template_kwargs"]["enable_thinking"] for body in server.bodies]
    assert "to be made" in dry
    assert (thought.count(True), thought.count(False)) == (6, 6)
    cells = json.loads((tmp_path / "out/metrics.json").read_text())
    assert len(cells) == 4
    assert {(cell["tokens_out"][0], cell["tokens_reasoning"][0]) for cell in cells} == {
        (2, 1)
    }  # half of the characters
    assert {"enable_thinking=False", "enable_thinking=True"} == {
        cell["setting"].rpartition(".")[2] for cell in cells
    }


def test_a_long_context_is_one_prompt_of_a_served_model(
    prepared: Run, world: Path, tmp_path: Path
) -> None:
    """All passages of the small world, the best one first and last; each prompt has as many as k
    says.
    """
    words = [
        word
        for word in overrides(world)
        if not word.startswith(("reader", "training", "sweep.limit", "depth"))
    ]
    server = ChatServer(reply=lambda _: "Mx Nelra")
    with server.serve() as url:
        served = [
            "experiment=questions/long_context",
            "reader.base=model",
            f"reader.engine.base_url={url}",
            "sweep.limit=3",
        ]
        more = [*words, *served, "depth=8", "grid.k=[2,8]", "report.out=out"]
        prepared("retrieve", *more, small=False)
        prepared("sweep", *more, small=False)
        prepared("report", *more, small=False)
        prompts = [body["messages"][-1]["content"] for body in server.bodies]
    cells = {
        (cell["k"], cell["gold"]): cell
        for cell in json.loads((tmp_path / "out/metrics.json").read_text())
    }
    assert set(cells) == {(k, order) for k in (2, 8) for order in ("retrieved", "reversed")}
    assert len(prompts) == 12
    assert cells[8, "retrieved"]["tokens_in"][0] > 2 * cells[2, "retrieved"]["tokens_in"][0]
    assert cells[8, "retrieved"]["tokens_in"] == cells[8, "reversed"]["tokens_in"]
