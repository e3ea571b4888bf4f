"""ReAct: the reader chooses between Search, Lookup and Finish."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.plans import PROMPT, play
from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Failed, Generate, Generation, Pages, Search, TooLong
from winnow.strategies.rounds.react import React
from winnow.testing import make_context, make_question

QUESTION = make_question("Which river?")
VIENNA = Passage(
    "v", "Vienna", "Vienna is old. The Danube flows through Vienna. Danube is a river."
)


def _play(
    replies: Sequence[Any], found: object = None, *, placed: Sequence[Any] = (), **settings: Any
) -> tuple[Any, list[Any]]:
    """Serve replies in turn; every search finds the same."""
    served = iter(replies)

    def serve(request: object) -> object:
        if isinstance(request, Search):
            return found or Pages((VIENNA,))
        reply = next(served)
        return Generation(reply) if isinstance(reply, str) else reply

    return play(
        React(PROMPT, Decoding(), "{contexts}\nQuestion: {question}", **settings).plan(
            QUESTION, placed
        ),
        serve,
    )


def _list_prompts(requests: Sequence[Any]) -> list[str]:
    return [one.messages[0].content for one in requests if isinstance(one, Generate)]


def test_thoughts_actions_and_observations_alternate() -> None:
    """Exact prompts, stop strings and queries of three turns; what was observed is
    named as shown.
    """
    answer, requests = _play(
        [
            " I need the city.\nAction 1: Search[X  birthplace]",
            "It is Vienna.\nAction 2: Lookup[danube]\nmore",
            "Thought 3: Done.\nAction 3: Finish[the Danube]",
        ],
        n=2,
    )
    first = "\nQuestion: Which river?\n"
    second = (
        f"{first}Thought 1: I need the city.\nAction 1: Search[X  birthplace]\nObservation 1: "
        f"<{VIENNA.text}>\n"
    )
    third = (
        f"{second}Thought 2: It is Vienna.\nAction 2: Lookup[danube]\nObservation 2: The Danube "
        "flows through Vienna.\n"
    )
    assert _list_prompts(requests) == [
        f"{first}Thought 1:",
        f"{second}Thought 2:",
        f"{third}Thought 3:",
    ]
    generates = [one for one in requests if isinstance(one, Generate)]
    assert [one.decoding.stop for one in generates] == [
        (f"\nObservation {number}:",) for number in (1, 2, 3)
    ]
    assert {one.decoding.max_new_tokens for one in generates} == {100}
    assert [one.passages for one in generates] == [(), (VIENNA,), (VIENNA,)]
    assert [(one.query, one.n) for one in requests if isinstance(one, Search)] == [
        ("X birthplace", 2)
    ]
    assert (answer.text, answer.stop, answer.used) == ("the Danube", "answer", (VIENNA,))
    assert answer.trace == (
        "action: Search[X  birthplace]",
        "action: Lookup[danube]",
        "action: Finish[the Danube]",
    )


def test_the_action_of_a_turn_has_its_own_number_or_none() -> None:
    """At the beginning of a line, so that a film is no action; another number is asked again."""
    _, requests = _play(
        ["The film is Action 7: the movie.\nAction 1: Search[a]", "t\nAction: Finish[x]"]
    )
    assert [one.query for one in requests if isinstance(one, Search)] == ["a"]
    _, requests = _play(["t\nAction 2: Search[a]", "Action 1: Finish[x]"])
    assert _list_prompts(requests)[1].endswith("Thought 1: t\nAction 1:")


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("Finish[Symphony No. 3 [Eroica] in E-flat]", "Symphony No. 3 [Eroica] in E-flat"),
        ("Finish[Paris] as [1] says", "Paris"),
        ("Finish[Paris", "Paris"),
    ],
)
def test_an_argument_may_have_brackets(action: str, text: str) -> None:
    """And its last one may be missing."""
    answer, _ = _play([f"t\nAction 1: {action}"])
    assert answer.text == text


def test_a_reply_without_an_action_is_asked_for_one() -> None:
    """With its first line as the thought, up to the end of the line."""
    _, requests = _play(["I know.\nIt is easy.", " Finish[x]"])
    assert _list_prompts(requests)[1].endswith(
        "Question: Which river?\nThought 1: I know.\nAction 1:"
    )
    assert requests[1].decoding.stop == ("\n",)
    for action in ("Action 1: Finish[x]", "Finish[x", "finish[x]. Then I stop."):
        assert _play(["I know.", action])[0].text == "x"


@pytest.mark.parametrize(
    "action", ["Jump[x]", "{}", '{"tool": "search", "query": "x"}', "", "Search", "Finish x"]
)
def test_what_is_no_action_is_observed_as_such(action: str) -> None:
    """The agent goes on, and ends after seven turns without an answer."""
    replies = [
        f"t\nAction: {action}" if action else part
        for _ in range(7)
        for part in (["t"] if action else ["t", ""])
    ]
    answer, requests = _play(replies)
    assert (answer.text, answer.unknown, answer.stop) == ("unknown", True, "max rounds")
    assert _list_prompts(requests)[-1].count("This is no action. Use Search[query]") == 6
    assert not any(isinstance(one, Search) for one in requests)


def test_an_agent_that_only_searches_is_bounded() -> None:
    """Seven turns; the same passage is named once; an empty query is not searched for."""
    answer, requests = _play(["t\nAction: Search[x]"] * 7)
    assert sum(isinstance(one, Search) for one in requests) == 7
    assert answer.stop == "max rounds"
    assert requests[-2].passages == (VIENNA,)
    found = iter(Pages((Passage(name, "", f"text {name}"),)) for name in "abc")
    serve = lambda request: (
        next(found) if isinstance(request, Search) else Generation("t\nAction: Search[x]")
    )
    answer, _ = play(
        React(PROMPT, Decoding(), "{contexts}{question}", max_turns=3).plan(QUESTION, ()), serve
    )
    assert [passage.passage_id for passage in answer.used] == [
        "a",
        "b",
    ], "no prompt showed what the last turn found"
    answer, requests = _play(["t\nAction: Search[]", "t\nAction: Finish[]"])
    assert "No result (empty query)." in _list_prompts(requests)[1]
    assert (answer.text, answer.unknown, answer.stop) == ("unknown", True, "answer")


def test_a_search_that_fails_is_observed() -> None:
    """So is one that finds nothing."""
    for found, problem in ((Failed("down"), "search failed: down"), (Pages(()), "nothing found")):
        _, requests = _play(["t\nAction: Search[x]", "t\nAction: Finish[y]"], found)
        assert f"Observation 1: No result ({problem})." in _list_prompts(requests)[1]


def test_lookup_gives_one_sentence_after_another() -> None:
    """Of the last search, until there are no more; another word, and another search, begin anew."""
    look, other = "t\nAction: Lookup[Danube]", "t\nAction: Lookup[old]"
    _, requests = _play(
        ["t\nAction: Search[x]", look, look, look, other, "t\nAction: Search[x]", look],
        max_turns=7,
    )
    observations = [
        line.partition(": ")[2]
        for line in _list_prompts(requests)[-1].splitlines()
        if "Observation" in line
    ]
    sentences = [
        "The Danube flows through Vienna.",
        "Danube is a river.",
        "No more results.",
        "Vienna is old.",
    ]
    assert observations[1:5] == sentences
    search, empty = "t\nAction: Search[x]", "t\nAction: Lookup[]"
    _, requests = _play([search, look, search, look, empty, "t\nAction: Finish[x]"])
    observations = [
        line.partition(": ")[2]
        for line in _list_prompts(requests)[-1].splitlines()
        if "Observation" in line
    ]
    assert observations[1::2] == [sentences[0], sentences[0]], "a search begins anew"
    assert observations[4] == "No more results."
    answer, _ = _play([look, "t\nAction: Finish[x]"])
    assert answer.text == "x"


def test_placed_passages_are_shown_before_the_question() -> None:
    """And named as shown."""
    answer, requests = _play(["t\nAction: Finish[x]"], placed=[make_context(1, "placed")])
    assert _list_prompts(requests) == ["<placed>\nQuestion: Which river?\nThought 1:"]
    assert [passage.text for passage in requests[0].passages] == ["placed"]
    assert answer.used == requests[0].passages
    context = replace(make_context(1, "x"), passage=VIENNA)
    _, requests = _play(["t\nAction: Search[x]", "t\nAction: Finish[x]"], placed=[context])
    assert requests[-1].passages == (VIENNA,), "what a search finds again is named once"


def test_the_oldest_passages_are_left_out_of_a_prompt_that_is_too_long() -> None:
    """They are no longer named as shown; without any to leave out, the agent ends."""
    search = "t\nAction: Search[x]"
    _, requests = _play([search, TooLong("long"), "t\nAction: Finish[y]"])
    assert all(one.may_be_too_long for one in requests if isinstance(one, Generate))
    assert "Observation 1: (left out)" in _list_prompts(requests)[-1]
    assert [one.passages for one in requests if isinstance(one, Generate)] == [(), (VIENNA,), ()]
    answer, _ = _play([search, TooLong("long"), TooLong("long")])
    assert (answer.text, answer.stop, answer.used) == ("unknown", "prompt too long", ())
    assert answer.trace[-1] == "left out: 1 passages"
    answer, _ = _play(["only a thought", TooLong("long")])
    assert (answer.stop, answer.reply) == ("prompt too long", "only a thought")
    other = Passage("o", "", "Another page.")
    found = iter([Pages((VIENNA,)), Pages((other,))])
    replies = iter([search, search, TooLong("long"), "t\nAction: Finish[y]"])

    def serve(request: object) -> object:
        reply = next(found) if isinstance(request, Search) else next(replies)
        return Generation(reply) if isinstance(reply, str) else reply

    answer, requests = play(
        React(PROMPT, Decoding(), "{contexts}\nQuestion: {question}").plan(QUESTION, ()), serve
    )
    assert "Observation 1: (left out)\n" in _list_prompts(requests)[-1]
    assert "Observation 2: <Another page.>\n" in _list_prompts(requests)[-1]
    assert answer.used == (other,)


def test_what_makes_no_sense_is_refused() -> None:
    """Samples of a path cannot vote."""
    with pytest.raises(ConfigError, match=r"Use decoding\.samples=1"):
        React(PROMPT, Decoding(temperature=1.0, samples=2), "{contexts}{question}")
    with pytest.raises(ConfigError, match="max_turns must be at least 1; received 0"):
        React(PROMPT, Decoding(), "{contexts}{question}", max_turns=0)
    for template in ("{contexts}", "{question}"):
        with pytest.raises(ConfigError, match=r"must have \{contexts\} and \{question\}"):
            React(PROMPT, Decoding(), template)
