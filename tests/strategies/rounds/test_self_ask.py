"""Self-Ask: follow-up questions are searched for and answered one after the other."""

import pytest

from tests.plans import PROMPT, play, serve_replies
from winnow.errors import ConfigError, ReaderError
from winnow.records import Decoding
from winnow.requests import BUDGET, Failed, Generate, Generation, Search, TooLong
from winnow.strategies.rounds.self_ask import SelfAsk
from winnow.testing import make_context, make_question

QUESTION = make_question("Which river flows through the city of X?")
PLACED = [make_context(1, "placed")]
TEMPLATE = "{contexts} Q {question} needed here:{thoughts}"


def test_each_follow_up_is_searched_for_and_answered_from_what_was_found() -> None:
    """What was found takes the place of the passages before; the final answer ends it."""
    replies = iter([
        Generation("Yes.\nFollow up: Where was X born?"), Generation("In Vienna."),
        Generation("Follow up: Which river flows there?\nIntermediate"),
        Generation("Intermediate answer: The Danube.\nmore"),
        Generation("So the final answer is: the Danube.\nQuestion: another"),
    ])  # fmt: skip
    answer, requests = play(
        SelfAsk(PROMPT, Decoding(), TEMPLATE, n=2).plan(QUESTION, PLACED), serve_replies(replies)
    )  # type: ignore[arg-type]
    assert [one for one in requests if isinstance(one, Search)] == [
        Search("Where was X born?", 2), Search("Which river flows there?", 2),
    ]  # fmt: skip
    prompts = [one for one in requests if isinstance(one, Generate)]
    assert [one.decoding.stop for one in prompts] == [
        ("Intermediate answer:",), ("\n",), ("Intermediate answer:",), ("\n",),
        ("Intermediate answer:",),
    ]  # fmt: skip
    asked = f"Q {QUESTION.text} needed here:"
    first = " Yes.\nFollow up: Where was X born?\nIntermediate answer:"
    second = f"{first} In Vienna.\n Follow up: Which river flows there?\nIntermediate answer:"
    assert [one.messages[0].content for one in prompts] == [
        f"<placed> {asked}",
        f"<text of Where was X born?> {asked}{first}",
        f"<text of Where was X born?> {asked}{first} In Vienna.",
        f"<text of Which river flows there?> {asked}{second}",
        f"<text of Which river flows there?> {asked}{second} The Danube.",
    ]
    assert (answer.text, answer.stop) == ("the Danube", "answer")
    assert answer.trace == ("query: Where was X born?", "query: Which river flows there?")
    assert [passage.text for passage in answer.used] == ["text of Which river flows there?"]


@pytest.mark.parametrize(
    ("replies", "stop", "text"),
    [
        (["No.\nSo the final answer is: Oslo"], "answer", "Oslo"),
        (["**So the final answer is:** Oslo"], "answer", "Oslo"),
        (["Rome"], "no marker", "Rome"),
        ([""], "no marker", "unknown"),
        (["Follow up: a?", "b", "Follow up: c?"], "max rounds", "unknown"),
        ([TooLong("9")], "prompt too long", "unknown"),
        (["Follow up: a?", TooLong("9")], "prompt too long", "unknown"),
        (["So the final answer is: x\nFollow up: a?"], "answer", "x"),
    ],
)
def test_it_ends_with_an_answer_without_a_marker_or_at_its_limits(
    replies: list[object], stop: str, text: str
) -> None:
    """And says why; a path without an answer is unknown."""
    served = iter([Generation(one) if isinstance(one, str) else one for one in replies])
    answer, _ = play(
        SelfAsk(PROMPT, Decoding(), TEMPLATE, max_follow_ups=1).plan(QUESTION, ()),
        serve_replies(served),
    )  # type: ignore[arg-type]
    assert (answer.stop, answer.text, answer.unknown) == (stop, text, text == "unknown")


def test_a_search_that_finds_nothing_is_told_in_the_trace() -> None:
    """The intermediate answer is written without a passage."""
    replies = iter(map(Generation, ["Follow up: a?", "", "So the final answer is: b"]))
    answer, requests = play(
        SelfAsk(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, PLACED),
        serve_replies(replies, Failed("down")),
    )  # type: ignore[arg-type]
    assert answer.trace == ("query: a? (search failed: down)",)
    assert requests[2].passages == ()  # type: ignore[union-attr]
    assert requests[3].messages[0].content.endswith("Intermediate answer: unknown")  # type: ignore[union-attr]


def test_settings_without_a_meaning_are_refused() -> None:
    """With what was received."""
    with pytest.raises(ConfigError, match="max_follow_ups must be at least 1; received 0"):
        SelfAsk(PROMPT, Decoding(), TEMPLATE, max_follow_ups=0)
    with pytest.raises(ConfigError, match=r"decoding\.samples=2"):
        SelfAsk(PROMPT, Decoding(temperature=1.0, samples=2), TEMPLATE)


def test_placed_passages_stay_where_no_search_is_left() -> None:
    """The question is answered from what there is, not from nothing."""
    replies = iter(map(Generation, ["Follow up: a?", "b", "So the final answer is: c"]))
    answer, requests = play(
        SelfAsk(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, PLACED),
        serve_replies(replies, Failed(BUDGET)),  # type: ignore[arg-type]
    )
    prompts = [one.messages[0].content for one in requests if isinstance(one, Generate)]
    assert all(prompt.startswith("<placed>") for prompt in prompts)
    assert (len(prompts), answer.text) == (3, "c")


@pytest.mark.parametrize("marker", ["Follow-up question:", "Follow up 1:", "follow up question 2:"])
def test_follow_up_questions_in_other_words_are_searched_for(marker: str) -> None:
    """They would be taken for the answer."""
    replies = iter(map(Generation, [f"Yes.\n{marker} Where?", "b", "So the final answer is: c"]))
    answer, _ = play(
        SelfAsk(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, PLACED),
        serve_replies(replies),  # type: ignore[arg-type]
    )
    assert (answer.text, answer.trace) == ("c", ("query: Where?",))


def test_a_stop_string_in_the_reasoning_of_a_model_is_named() -> None:
    """Nothing of the chain is left, which would be an empty reply of every question."""
    for reply in (Generation("<think>"), Generation("", "empty", reasoning="Let me see")):
        with pytest.raises(ReaderError, match=r"ended the reasoning.*enable_thinking=false"):
            play(
                SelfAsk(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, PLACED),
                serve_replies(iter([reply])),
            )


def test_an_empty_reply_behind_finished_reasoning_is_one_of_the_question_alone() -> None:
    """The stop string has not ended reasoning that has it, or an end."""
    for reply in (
        Generation("<think>a</think>"),
        Generation("", "empty", reasoning="Line one.\nSo done."),
    ):
        answer, _ = play(
            SelfAsk(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, PLACED),
            serve_replies(iter([reply])),
        )
        assert (answer.text, answer.stop) == ("unknown", "no marker")
