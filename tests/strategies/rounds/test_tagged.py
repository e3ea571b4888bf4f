"""Search between tags: the reply is interrupted, and goes on with what was found."""

import pytest

from tests.plans import PROMPT, play, serve_replies
from winnow.errors import ConfigError
from winnow.records import Decoding
from winnow.requests import Failed, Generate, Generation, Message, Search, TooLong
from winnow.strategies.rounds.tagged import TaggedSearch
from winnow.testing import make_context, make_question

QUESTION = make_question("Which river flows through the city of X?")
PLACED = [make_context(1, "placed")]
TAGS = {
    "template": "{contexts} Q {question}", "query": ["<s>", "</s>"],
    "result": "\n<i>{contexts}</i>\n", "answer": ["<a>", "</a>"],
}  # fmt: skip


def _agent(**settings: object) -> TaggedSearch:
    return TaggedSearch(PROMPT, Decoding(), **{**TAGS, **settings})  # type: ignore[arg-type]


def test_the_reply_goes_on_with_what_each_query_found() -> None:
    """As the beginning of the next part; stop strings are the tags that end a query or
    the answer.
    """
    replies = iter(map(Generation, ["Hm. <s> where X ", "Vienna. <s>river", "So <a> the Danube "]))
    answer, requests = play(_agent(n=2).plan(QUESTION, PLACED), serve_replies(replies))  # type: ignore[arg-type]
    assert [one for one in requests if isinstance(one, Search)] == [
        Search("where X", 2),
        Search("river", 2),
    ]
    prompts = [one for one in requests if isinstance(one, Generate)]
    assert {one.decoding.stop for one in prompts} == {("</s>", "</a>")}
    asked = Message("user", f"<placed> Q {QUESTION.text}")
    first = "Hm. <s> where X </s>\n<i><text of where X></i>\n"
    second = f"{first}Vienna. <s>river</s>\n<i><text of river></i>\n"
    assert [one.messages for one in prompts] == [
        (asked,), (asked, Message("assistant", first)), (asked, Message("assistant", second)),
    ]  # fmt: skip
    assert [passage.text for passage in prompts[2].passages] == [
        "placed",
        "text of where X",
        "text of river",
    ]
    assert (answer.text, answer.stop, answer.reply) == (
        "the Danube",
        "answer",
        f"{second}So <a> the Danube ",
    )
    assert answer.trace == ("query: where X", "query: river")
    assert answer.used == prompts[2].passages


def test_limits_start_and_unanswered_replies_of_r1_searcher() -> None:
    """The reply begins as in its training; after the last search it has no turn, and without tags
    there is no answer.
    """
    settings = {
        "max_searches": 2,
        "more_turns": 0,
        "start": "<think>",
        "default_answer": "I don't know.",
    }
    answer, requests = play(
        _agent(**settings).plan(QUESTION, ()), serve_replies(iter([Generation("<s>a")] * 9))
    )  # type: ignore[arg-type]
    assert [type(one) for one in requests] == [Generate, Search, Generate, Search]
    assert requests[0].messages[-1] == Message("assistant", "<think>")  # type: ignore[union-attr]
    assert requests[2].messages[-1].content.startswith("<think><s>a</s>")  # type: ignore[union-attr]
    assert (answer.text, answer.stop) == ("I don't know.", "max rounds")
    untagged, _ = play(
        _agent(**settings).plan(QUESTION, ()), serve_replies(iter([Generation("Rome")]))
    )  # type: ignore[arg-type]
    assert (untagged.text, untagged.stop, untagged.unknown) == ("I don't know.", "no marker", True)
    tagged, _ = play(
        _agent(**settings).plan(QUESTION, ()), serve_replies(iter([Generation("<a>Rome")]))
    )  # type: ignore[arg-type]
    assert (tagged.text, tagged.unknown) == ("Rome", False)


@pytest.mark.parametrize(
    ("replies", "stop", "text"),
    [
        ([Generation("Rome")], "no marker", "Rome"),
        ([Generation("")], "no marker", "unknown"),
        ([Generation("Hm <s> cut", "length")], "no marker", "Hm <s> cut"),
        ([Generation("<s>a")] * 3, "max rounds", "unknown"),
        ([TooLong("9")], "prompt too long", "unknown"),
    ],
)
def test_it_ends_without_a_marker_or_at_its_limits(
    replies: list[object], stop: str, text: str
) -> None:
    """A query that was cut is none; after the last search, the model is told so."""
    answer, requests = play(_agent(max_searches=1).plan(QUESTION, ()), serve_replies(iter(replies)))  # type: ignore[arg-type]
    assert (answer.stop, answer.text, answer.unknown) == (stop, text, text == "unknown")
    if stop == "max rounds":
        assert sum(isinstance(one, Search) for one in requests) == 1
        assert "No further search" in requests[-1].messages[-1].content  # type: ignore[union-attr]


@pytest.mark.parametrize(("query", "told"), [("a", "search failed: down"), (" ", "empty query")])
def test_a_search_without_a_result_is_told(query: str, told: str) -> None:
    """Inside the reply, in the place of passages."""
    replies = iter(map(Generation, [f"<s>{query}", "<a>x"]))
    answer, requests = play(_agent().plan(QUESTION, ()), serve_replies(replies, Failed("down")))  # type: ignore[arg-type]
    assert requests[-1].messages[-1].content == f"<s>{query}</s>\n<i>No result ({told}).</i>\n"  # type: ignore[union-attr]
    assert answer.text == "x"


def test_the_oldest_results_are_left_out_of_a_reply_that_is_too_long() -> None:
    """And those that are left are what was shown."""
    replies = iter([Generation("<s>a"), Generation("<s>b"), TooLong("9"), Generation("<a>x")])
    answer, requests = play(_agent().plan(QUESTION, ()), serve_replies(replies))  # type: ignore[arg-type]
    assert (
        requests[-1].messages[-1].content
        == "<s>a</s>\n<i>(left out)</i>\n<s>b</s>\n<i><text of b></i>\n"
    )  # type: ignore[union-attr]
    assert [passage.text for passage in answer.used] == ["text of b"]
    assert answer.trace[-1] == "left out: 1 passages"


def test_settings_without_a_meaning_are_refused() -> None:
    """With what was received."""
    with pytest.raises(ConfigError, match="must be two tags each"):
        _agent(query=["<s>"])
    with pytest.raises(ConfigError, match="max_searches must be at least 1; received 0"):
        _agent(max_searches=0)
    with pytest.raises(ConfigError, match="contexts"):
        _agent(result="<i></i>")


def test_a_tag_that_is_named_before_the_answer_opens_no_query() -> None:
    """The reply ended at the tag behind the answer, which is the last one that was opened."""
    reply = "<think>I could <s> again, but I know it.</think> <a> Paris"
    answer, requests = play(_agent().plan(QUESTION, ()), serve_replies(iter([Generation(reply)])))  # type: ignore[arg-type]
    assert (answer.text, answer.stop, len(requests)) == ("Paris", "answer", 1)
