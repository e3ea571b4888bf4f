"""Fusion-in-decoder as a plan."""

from winnow.records import Decoding
from winnow.strategies.fid import FusionInDecoder
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, run_scripted_plan

PROMPT = Prompt(
    "q: {question} {contexts}",
    "{question}",
    "{contexts} {candidates} {question}",
    "t: {title} c: {text}",
)


def test_one_request_with_a_message_a_passage() -> None:
    """In prompt order; the reply is the answer."""
    plan = FusionInDecoder(PROMPT, Decoding()).plan(
        make_question("who"), [make_context(1, "a"), make_context(2, "b")]
    )
    requests = next(plan)
    assert [m.content for m in requests[0].messages] == [
        "q: who t: Title 1 c: a",
        "q: who t: Title 2 c: b",
    ]  # type: ignore[union-attr]
    plan.close()
    answer, prompts = run_scripted_plan(
        FusionInDecoder(PROMPT, Decoding()).plan(make_question(), [make_context(1, "a")]),
        [["Jane"]],
    )
    assert (answer.text, len(prompts)) == ("Jane", 1)


def test_a_question_without_passages_is_shown_alone() -> None:
    """As the other strategies do; a reader cannot fuse no message."""
    requests = next(FusionInDecoder(PROMPT, Decoding()).plan(make_question("who"), []))
    assert [message.content for message in requests[0].messages] == ["who"]  # type: ignore[union-attr]


def test_instructions_are_encoded_with_each_passage() -> None:
    """A message of their own would be one more passage for the model."""
    prompt = Prompt(
        "q: {question}",
        "{question}",
        "{candidates} {question}",
        PROMPT.passage,
        system="Be brief.",
        reply_start="So: {contexts}",
    )
    requests = next(
        FusionInDecoder(prompt, Decoding()).plan(
            make_question("who"), [make_context(1, "a"), make_context(2, "b")]
        )
    )
    assert [message.content for message in requests[0].messages] == [  # type: ignore[union-attr]
        f"Be brief.\n\nq: who\n\nSo: t: Title {number} c: {text}"
        for number, text in ((1, "a"), (2, "b"))
    ]
