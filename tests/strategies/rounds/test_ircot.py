"""IRCoT: a chain of thought, each sentence of which is searched for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plans import PROMPT, play, run
from winnow.driver.jobs import Job
from winnow.errors import ConfigError, ReaderError
from winnow.records import Decoding, Passage
from winnow.requests import Failed, Generate, Generation, Message, Pages, Search, TooLong
from winnow.strategies.demonstrations import Demonstration, Shots
from winnow.strategies.rounds.ircot import Ircot, write_query
from winnow.testing import ScriptedReader, make_context, make_question

TEMPLATE = "{contexts}\nQ: {question}\nA: {thoughts}"
QUESTION = make_question("Which river flows through the city where X was born?")
PLACED = [make_context(1, "X was a physicist.")]
CHAIN = [
    "X was born in Vienna. He moved to Rome.",
    " The Danube flows through Vienna.",
    "So the answer is: the {Danube}.",
]


def _play(
    strategy: Ircot, chain: Sequence[str], found: Callable[[Search], Any] | None = None
) -> tuple[Any, list[Any]]:
    """Serve the sentences of a chain, then the answer of the reader; a search finds a passage of
    its number.
    """
    replies = iter([*chain, "Danube"])
    numbers = iter(range(2, 100))

    def serve(request: object) -> object:
        if isinstance(request, Search):
            return (
                found(request)
                if found
                else Pages((Passage(f"p{(n := next(numbers))}", "", f"found {n}"),))
            )
        return Generation(next(replies))

    return play(strategy.plan(QUESTION, PLACED), serve)


def test_each_sentence_is_searched_for_before_the_next_one() -> None:
    """Exact prompts and queries: passages add up, one sentence of each reply joins the chain, the
    reader answers at last.
    """
    answer, requests = _play(Ircot(PROMPT, Decoding(5), TEMPLATE, n=3), CHAIN)
    q = QUESTION.text
    prompts = [one.messages[0].content for one in requests if isinstance(one, Generate)]
    assert prompts == [
        f"<X was a physicist.>\nQ: {q}\nA:",
        f"<X was a physicist.>\n<found 2>\nQ: {q}\nA: X was born in Vienna.",
        (
            f"<X was a physicist.>\n<found 2>\n<found 3>\nQ: {q}\nA: X was born in Vienna. The "
            "Danube flows through Vienna."
        ),
        f"<X was a physicist.>\n<found 2>\n<found 3> Q {q}",
    ]
    queries = [(one.query, one.n) for one in requests if isinstance(one, Search)]
    assert queries == [("X was born in Vienna.", 3), ("The Danube flows through Vienna.", 3)]
    decodings = [
        (one.decoding.max_new_tokens, one.decoding.stop)
        for one in requests
        if isinstance(one, Generate)
    ]
    assert decodings == [(100, ("\n",))] * 3 + [(5, ())]
    assert (answer.text, answer.stop) == ("Danube", "answer")
    assert [passage.passage_id for passage in answer.used] == ["p1", "p2", "p3"]
    assert (
        "chain: X was born in Vienna. The Danube flows through Vienna. So the answer is: the "
        "{Danube}." in answer.trace
    )
    shown = [
        [passage.passage_id for passage in one.passages]
        for one in requests
        if isinstance(one, Generate)
    ]
    assert shown == [["p1"], ["p1", "p2"], ["p1", "p2", "p3"], ["p1", "p2", "p3"]]


def test_the_chain_can_give_the_answer() -> None:
    """Without a further prompt; a chain that does not conclude gives "unknown"."""
    strategy = Ircot(PROMPT, Decoding(), TEMPLATE, answer_by="chain", max_sentences=3)
    answer, requests = _play(strategy, CHAIN)
    assert (answer.text, answer.unknown, answer.stop) == ("the {Danube}", False, "answer")
    assert [passage.passage_id for passage in answer.used] == ["p1", "p2", "p3"]
    assert sum(isinstance(one, Generate) for one in requests) == 3
    answer, requests = _play(strategy, ["a.", "b.", "c."])
    assert (answer.text, answer.unknown, answer.stop) == ("unknown", True, "max rounds")
    assert [one.query for one in requests if isinstance(one, Search)] == ["a.", "b."]


def test_the_chain_names_the_passages_that_its_last_prompt_had_room_for() -> None:
    """The driver dropped one."""
    (placed,) = PLACED
    reply = Generation("So the answer is: x.", dropped=1, passages=(placed.passage,))
    more = [placed, make_context(2, "dropped")]
    answer, _ = play(
        Ircot(PROMPT, Decoding(), TEMPLATE, answer_by="chain").plan(QUESTION, more),
        lambda _: reply,
    )
    assert answer.used == (placed.passage,)


def test_sentence_prompts_are_those_of_the_template_alone() -> None:
    """Without the beginning of the reply, the demonstrations and the samples of the reader's
    prompt; braces are texts.
    """
    placed = PLACED[0].passage
    shots = replace(
        PROMPT,
        with_contexts="{demonstrations} Q {question}",
        with_candidates="{demonstrations}{candidates}{question}",
        demonstration="{question} {contexts} {answer}",
        reply_start="Sure: {contexts}",
        shots=Shots(count=1),
        demonstrations=(Demonstration("other", "Why?", placed, "Because"),),
    )
    strategy = Ircot(shots, Decoding(temperature=1.0, samples=3), TEMPLATE)
    replies = iter(["A: X is {old}. Then", "So the answer is: y.", *"abb"])
    serve = lambda one: Pages(()) if isinstance(one, Search) else Generation(next(replies))
    answer, requests = play(strategy.plan(QUESTION, PLACED), serve)
    first, second, *votes = [one for one in requests if isinstance(one, Generate)]
    assert first.messages == (Message("user", f"<{placed.text}>\nQ: {QUESTION.text}\nA:"),)
    assert second.messages == (
        Message("user", f"<{placed.text}>\nQ: {QUESTION.text}\nA: X is {{old}}."),
    )
    assert [one.query for one in requests if isinstance(one, Search)] == ["X {old}."]
    assert [one.decoding.samples for one in (first, second, *votes)] == [1, 1, 3, 3, 3]
    assert votes[0].messages[-1] == Message("assistant", f"Sure: <{placed.text}>")
    assert answer.text == "b"


def test_a_blank_reply_ends_the_chain() -> None:
    """Nothing is searched for; the reader answers from what there is."""
    answer, requests = _play(Ircot(PROMPT, Decoding(), TEMPLATE), [" \n"])
    assert (answer.stop, len(requests)) == ("empty reply", 2)


def test_a_chain_without_end_is_bounded_and_passages_are_not_shown_twice() -> None:
    """Ten sentences, nine searches; the room for passages is kept."""
    same = Pages((Passage("p1", "Title 1", "X was a physicist."), Passage("new", "", "found")))
    _, requests = _play(
        Ircot(PROMPT, Decoding(), TEMPLATE), ["The same again."] * 10, lambda _: same
    )
    assert sum(isinstance(one, Search) for one in requests) == 9
    assert [len(one.passages) for one in requests if isinstance(one, Generate)] == [1] + [2] * 10
    _, requests = _play(Ircot(PROMPT, Decoding(), TEMPLATE, max_passages=3), ["Another fact."] * 10)
    assert [len(one.passages) for one in requests if isinstance(one, Generate)] == [1, 2] + [3] * 9


def test_parts_of_one_passage_are_all_shown() -> None:
    """Several placed contexts may have its id, as sentences of it have."""
    parts = [
        replace(make_context(n, f"sentence {n}"), passage=Passage("p", "T", f"s {n}"))
        for n in (1, 2, 3)
    ]
    replies = iter(["So the answer is: Danube.", "Danube"])
    _, requests = play(
        Ircot(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, parts),
        lambda _: Generation(next(replies)),
    )
    assert [len(one.passages) for one in requests] == [3, 3]


def test_a_chain_that_is_too_long_ends() -> None:
    """The reader answers from what was found until then."""
    replies = iter([Generation("X is old."), TooLong("long"), Generation("Danube")])
    serve = lambda request: (
        Pages((Passage("p2", "", "found"),)) if isinstance(request, Search) else next(replies)
    )
    answer, requests = play(Ircot(PROMPT, Decoding(), TEMPLATE).plan(QUESTION, PLACED), serve)
    assert (answer.text, answer.stop) == ("Danube", "prompt too long")
    assert [one.may_be_too_long for one in requests if isinstance(one, Generate)] == [
        True,
        True,
        False,
    ]
    assert [passage.passage_id for passage in answer.used] == ["p1", "p2"]


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ("George W. Bush was born in 1946. He left.", "George W. Bush was born in 1946."),
        ("He lives in St. Louis. Then", "He lives in St. Louis."),
        ("He left the U.S. Army. So", "He left the U.S. Army."),
        ("Dr. Dre made it! Yes", "Dr. Dre made it!"),
        ("It ended in 1946. In 1947 it began.", "It ended in 1946."),
    ],
)
def test_a_full_stop_of_an_abbreviation_ends_no_sentence(reply: str, sentence: str) -> None:
    """So that names are searched for as a whole."""
    _, requests = _play(Ircot(PROMPT, Decoding(), TEMPLATE, max_sentences=2), [reply, "b."])
    assert requests[1].query == sentence


@pytest.mark.parametrize(
    "text", ["J. R. R. Tolkien", "St. Louis", "Washington, D.C. 20001", "Yes! It is"]
)
def test_an_answer_of_the_chain_is_whole(text: str) -> None:
    """Whatever full stops it has."""
    strategy = Ircot(PROMPT, Decoding(), TEMPLATE, answer_by="chain")
    answer, _ = _play(strategy, [f"So the answer is: {text}."])
    assert answer.text == text


def test_placed_passages_keep_their_ranks_and_gold_in_a_prompt_that_is_too_long(
    tmp_path: Path,
) -> None:
    """As in concatenation: a gold passage is dropped last, and what was found later is dropped
    first.
    """
    placed = [make_context(1, "d" * 50), make_context(2, "g" * 50, is_gold=True)]
    strategy = Ircot(PROMPT, Decoding(), TEMPLATE, max_sentences=1)
    reader = ScriptedReader(lambda _: "x", context_length=150)
    outcomes, _ = run(tmp_path, [Job(1, strategy.plan(QUESTION, placed))], reader)
    assert [[passage.passage_id for passage in step.passages] for step in outcomes[1].steps] == [
        ["p2"],
        ["p2"],
    ]
    _, requests = _play(Ircot(PROMPT, Decoding(), TEMPLATE, max_sentences=2), ["a.", "b."])
    shorter = requests[2].drop_passage()
    assert [passage.passage_id for passage in shorter.passages] == ["p1"]


def test_a_search_that_fails_adds_nothing() -> None:
    """The chain goes on, and the trace says which query failed."""
    answer, requests = _play(Ircot(PROMPT, Decoding(), TEMPLATE), CHAIN, lambda _: Failed("down"))
    assert answer.trace[0] == "query: X was born in Vienna. (search failed: down)"
    assert [len(one.passages) for one in requests if isinstance(one, Generate)] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("chain", "query"),
    [
        ([], "river flows through the city X was born?"),
        (["So it is.", "Thus, yes."], "river flows through the city X was born?"),
        (["X is old.", "Therefore it ends."], "X old."),
        (["There were 3 + 4 = 7 of them."], "river flows through the city X was born?"),
        (["There were 7 - 4 = 3 of them."], "river flows through the city X was born?"),
        (["What is Who"], "What is Who"),
    ],
)
def test_queries(chain: list[str], query: str) -> None:
    """The last sentence that states a fact, without question words; never empty."""
    expected = QUESTION.text if query == "What is Who" else query
    assert write_query(QUESTION, chain) == expected


def test_what_makes_no_sense_is_refused() -> None:
    """With the setting that mends it."""
    with pytest.raises(ConfigError, match="thoughts"):
        Ircot(PROMPT, Decoding(), "{contexts} {question}")
    with pytest.raises(ConfigError, match=r"strategy\.plan\.n must be at least 1; received 0"):
        Ircot(PROMPT, Decoding(), TEMPLATE, n=0)
    with pytest.raises(ConfigError, match="answer_by must be reader or chain; received 'x'"):
        Ircot(PROMPT, Decoding(), TEMPLATE, answer_by="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"Use answer_by=reader or decoding\.samples=1"):
        Ircot(PROMPT, Decoding(temperature=1.0, samples=3), TEMPLATE, answer_by="chain")


def test_nothing_is_searched_for_once_a_prompt_is_full() -> None:
    """A placed passage and two found ones are three; a prompt may be full of placed ones."""
    chain = ["One is. ", "Two is. ", "Three is. ", "So the answer is: x."]
    _, requests = _play(Ircot(PROMPT, Decoding(), TEMPLATE, n=1, max_passages=3), chain)
    assert sum(isinstance(one, Search) for one in requests) == 2
    answer, requests = _play(Ircot(PROMPT, Decoding(), TEMPLATE, n=1, max_passages=1), chain)
    assert not any(isinstance(one, Search) for one in requests)
    assert [passage.passage_id for passage in answer.used] == ["p1"]


def test_reasoning_is_no_part_of_the_chain() -> None:
    """One that the stop string ended is named."""
    with pytest.raises(ReaderError, match="ended the reasoning"):
        _play(Ircot(PROMPT, Decoding(), TEMPLATE), ["<think>"])
    chain = ["<think>hm. ok</think>X is old.", "So the answer is: x."]
    _, requests = _play(Ircot(PROMPT, Decoding(), TEMPLATE), chain)
    assert [one.query for one in requests if isinstance(one, Search)] == ["X old."]


def test_found_passages_are_added_once_and_while_there_is_room() -> None:
    """The first of two with one id."""
    found = Pages(
        tuple(
            Passage(*one)
            for one in (("a", "", "one"), ("a", "", "again"), ("b", "", "two"), ("c", "", "three"))
        )
    )
    strategy = Ircot(PROMPT, Decoding(), TEMPLATE, n=4, max_passages=3)
    _, requests = _play(strategy, ["A is.", "So the answer is: x."], lambda _: found)
    prompts = [one for one in requests if isinstance(one, Generate)]
    assert [one.text for one in prompts[1].passages] == ["X was a physicist.", "one", "two"]
