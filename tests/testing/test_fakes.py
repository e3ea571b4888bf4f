"""The fakes that users' tests build on."""

from pathlib import Path

from winnow.modeling.loading import check_model, load_causal_lm
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Message, Plan
from winnow.testing import (
    ScriptedReader,
    make_context,
    make_question,
    make_tiny_causal_lm,
    run_scripted_plan,
)


def test_a_scripted_reader_answers_in_batches() -> None:
    """By its function, in order, counting tokens as words."""
    reader = ScriptedReader(str.upper, batch_size=2)
    reader.submit([Generate((Message("user", text),), Decoding()) for text in ("a b", "c", "d")])
    first, second = reader.collect(), reader.collect()
    assert [r.text for _, r in first] == ["A B", "C"]  # type: ignore[union-attr]
    assert [len(first), len(second), len(reader.collect())] == [2, 1, 0]
    assert first[0][1].usage.tokens_in == 2  # type: ignore[union-attr]


def test_play_runs_a_plan_round_by_round() -> None:
    """Prompts come back by round."""

    def plan() -> Plan:
        (reply,) = yield [Generate((Message("user", "first"),), Decoding())]
        (reply,) = yield [Generate((Message("user", reply.text),), Decoding())]
        return Answer(reply.text, unknown=False)

    assert run_scripted_plan(plan(), [["one"], ["two"]]) == (
        Answer("two", unknown=False),
        [["first"], ["one"]],
    )


def test_small_things() -> None:
    """A context is ranked by its number; a question has defaults."""
    assert (make_context(3, "x").rank, make_context(3, "x").passage.passage_id) == (3, "p3")
    assert make_question().answers == ("Jane Austen",)


def test_a_tiny_model_is_a_whole_model(tmp_path: Path) -> None:
    """It passes the checks of a real one, and the same seed gives the same weights."""
    one, two = (make_tiny_causal_lm(tmp_path / name, ["text"]) for name in ("one", "two"))
    check_model(str(one))
    assert (one / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()
    assert load_causal_lm(str(one), "float32", "cpu").tokenizer.decode([5]) != ""
