"""Iter-RetGen: the reply of each round is searched for with the question, and the last reply
counts.
"""

import pytest

from tests.plans import PROMPT, play
from winnow.errors import ConfigError
from winnow.records import Decoding, Passage
from winnow.requests import Failed, Generate, Generation, Pages, PlacedPages, Search
from winnow.strategies.rounds.iter_retgen import IterRetGen
from winnow.strategies.vote import Vote
from winnow.testing import make_context, make_question

QUESTION = make_question("Where was X born?")
PLACED = [make_context(1, "placed one"), make_context(2, "placed two")]


def _serve(request: object) -> object:
    """Reply with the number of passages, and find a passage that names the query."""
    if isinstance(request, Search):
        return Pages((Passage(f"found by {request.query}", "", f"text of {request.query}"),))
    assert isinstance(request, Generate)
    return Generation(f"reply to {request.passages[0].text}", passages=request.passages)


def test_each_round_shows_what_its_own_query_found() -> None:
    """Three prompts and two searches, in turn; the first prompt shows what was placed."""
    answer, requests = play(IterRetGen(PROMPT, Decoding(), n=2).plan(QUESTION, PLACED), _serve)
    first = "Where was X born? reply to placed one"
    second = f"Where was X born? reply to text of {first}"
    assert [type(request) for request in requests] == [
        Generate,
        Search,
        Generate,
        Search,
        Generate,
    ]
    assert [(one.query, one.n) for one in requests if isinstance(one, Search)] == [
        (first, 2),
        (second, 2),
    ]
    shown = [
        [passage.text for passage in one.passages] for one in requests if isinstance(one, Generate)
    ]
    assert shown == [["placed one", "placed two"], [f"text of {first}"], [f"text of {second}"]]
    assert requests[2].messages[0].content == f"<text of {first}> Q Where was X born?"  # type: ignore[union-attr]
    assert answer.text == f"reply to text of {second}"
    assert [passage.text for passage in answer.used] == [f"text of {second}"]
    assert answer.stop == ""


@pytest.mark.parametrize(
    ("found", "stop"),
    [(Pages(()), "nothing found"), (Failed("no answer"), "search failed: no answer")],
)
def test_a_search_without_a_passage_ends_the_rounds(found: object, stop: str) -> None:
    """The answer of the round before it counts, and says why it is the last."""
    serve = lambda request: found if isinstance(request, Search) else _serve(request)
    answer, requests = play(IterRetGen(PROMPT, Decoding()).plan(QUESTION, PLACED), serve)
    assert (answer.text, answer.stop, len(requests)) == ("reply to placed one", stop, 2)


def test_an_empty_reply_searches_for_the_question_alone() -> None:
    """So that no query is empty."""
    serve = lambda request: Generation("") if isinstance(request, Generate) else _serve(request)
    _, requests = play(IterRetGen(PROMPT, Decoding(), rounds=2).plan(QUESTION, ()), serve)
    assert [one.query for one in requests if isinstance(one, Search)] == ["Where was X born?"]


def test_the_reply_that_the_vote_chooses_is_searched_for() -> None:
    """By the vote of the strategy, in which "unknown" may win."""
    decoding, replies = (
        Decoding(temperature=1.0, samples=3),
        iter(["unknown", "unknown", "Rome", "x", "x", "x"]),
    )
    serve = lambda request: (
        Generation(next(replies)) if isinstance(request, Generate) else _serve(request)
    )
    strategy = IterRetGen(PROMPT, decoding, rounds=2, vote=Vote(unknown_votes=True))
    _, requests = play(strategy.plan(QUESTION, PLACED), serve)
    assert [one.query for one in requests if isinstance(one, Search)] == [
        "Where was X born? unknown"
    ]


def test_a_long_reply_is_searched_for_as_it_is() -> None:
    """White space becomes single spaces; the engine decides what to make of 10,000 characters."""
    serve = lambda request: (
        Generation("word\n\n" * 2000) if isinstance(request, Generate) else _serve(request)
    )
    _, requests = play(IterRetGen(PROMPT, Decoding(), rounds=2).plan(QUESTION, PLACED), serve)
    (search,) = [one for one in requests if isinstance(one, Search)]
    assert search.query == "Where was X born? " + " ".join(["word"] * 2000)


def test_a_long_reason_of_a_failed_search_is_cut() -> None:
    """It becomes the reason why the plan ended."""
    serve = lambda request: Failed("x" * 200) if isinstance(request, Search) else _serve(request)
    answer, _ = play(IterRetGen(PROMPT, Decoding()).plan(QUESTION, PLACED), serve)
    assert answer.stop == "search failed: " + "x" * 100


def test_one_round_searches_for_nothing() -> None:
    """It is concatenation."""
    _, requests = play(IterRetGen(PROMPT, Decoding(), rounds=1).plan(QUESTION, PLACED), _serve)
    assert len(requests) == 1


@pytest.mark.parametrize("limits", [{"rounds": 0}, {"n": 0}])
def test_limits_start_at_one(limits: dict[str, int]) -> None:
    """The message has the name of the limit."""
    with pytest.raises(ConfigError, match=f"{next(iter(limits))} must be at least 1; received 0"):
        IterRetGen(PROMPT, Decoding(), **limits)


def test_placed_passages_keep_their_order_and_lose_the_lowest_rank_first() -> None:
    """The gold passage stays, wherever it is shown."""
    pages = PlacedPages(
        tuple(Passage(name, "", name) for name in "ab"), ranks=(2, 1), gold=(False, True)
    )
    _, requests = play(
        IterRetGen(PROMPT, Decoding(), rounds=2).plan(QUESTION, PLACED),
        lambda request: pages if isinstance(request, Search) else _serve(request),
    )
    request = requests[2]
    assert isinstance(request, Generate)
    assert [one.text for one in request.passages] == ["a", "b"]
    shorter = request.drop_passage()
    assert shorter is not None
    assert [one.text for one in shorter.passages] == ["b"]
