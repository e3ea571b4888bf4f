"""RankGPT: windows slide from the end of a ranking to its beginning, and a reply names an order."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.plans import play
from winnow.errors import ConfigError
from winnow.records import Decoding, Hit, Passage
from winnow.requests import Generate, Generation, TooLong
from winnow.retrievers.plans.rank_gpt import RankGpt, list_windows, read_order
from winnow.testing import make_context, make_question

QUESTION = make_question("Who wrote Emma?")
TEXTS = {
    "system": "S", "beginning": "{number} for {question}", "welcome": "W",
    "passage": "[{number}] {title} {text}", "received": "R{number}",
    "request": "Order {number} for {question}",
}  # fmt: skip


def _plan(**settings: int) -> RankGpt:
    return RankGpt(**TEXTS, decoding=Decoding(), **settings)  # type: ignore[arg-type]


def test_the_last_window_is_ordered_first_and_what_it_promotes_moves_on() -> None:
    """Five passages, windows of three that move by two: the best one, at the end, comes to the top
    in two calls.
    """

    def serve(request: Generate) -> Generation:
        texts = [passage.text for passage in request.passages]
        order = sorted(range(len(texts)), key=lambda n: texts[n], reverse=True)
        return Generation(" > ".join(f"[{n + 1}]" for n in order))

    contexts = [make_context(n, text) for n, text in enumerate("bdace", start=1)]
    hits, requests = play(_plan(window=3, step=2).plan(QUESTION, contexts, 4), serve)
    assert [[passage.text for passage in one.passages] for one in requests] == [
        ["a", "c", "e"],
        ["b", "d", "e"],
    ]  # type: ignore[union-attr]
    assert hits == [Hit(f"p{n}", None) for n in (5, 2, 1, 4)]
    first = requests[0]
    assert isinstance(first, Generate)
    assert first.role == "reranker"
    assert [(turn.role, turn.content) for turn in first.messages] == [
        ("system", "S"), ("user", "3 for Who wrote Emma?"), ("assistant", "W"),
        ("user", "[1] Title 3 a"), ("assistant", "R1"), ("user", "[2] Title 4 c"),
        ("assistant", "R2"), ("user", "[3] Title 5 e"), ("assistant", "R3"),
        ("user", "Order 3 for Who wrote Emma?"),
    ]  # fmt: skip


def test_passages_beyond_the_top_follow_as_they_are() -> None:
    """And a passage alone is not asked about."""
    serve = lambda request: Generation("[2] > [1]")
    contexts = [make_context(n, f"t{n}") for n in (1, 2, 3, 4)]
    hits, requests = play(_plan(window=2, step=1, top=2).plan(QUESTION, contexts, 10), serve)
    assert ([hit.passage_id for hit in hits], len(requests)) == (["p2", "p1", "p3", "p4"], 1)
    assert play(_plan().plan(QUESTION, contexts[:1], 10), serve) == ([Hit("p1", None)], [])
    assert play(_plan().plan(QUESTION, [], 10), serve) == ([], [])


def test_passages_are_shortened_until_the_prompt_fits() -> None:
    """All alike; the last attempt shows a word each, and ends the run if it does not fit."""
    contexts = [make_context(n, "a b c d e f g h i j k l") for n in (1, 2)]
    lengths: list[int] = []

    def serve(request: Generate) -> object:
        lengths.append(len(request.passages[0].text.split()))
        return TooLong("long") if lengths[-1] > 7 else Generation("[2]")

    hits, requests = play(_plan(max_words=10).plan(QUESTION, contexts, 10), serve)
    assert lengths == [10, 9, 8, 7]
    assert [hit.passage_id for hit in hits] == ["p2", "p1"]
    assert all(one.may_be_too_long for one in requests)  # type: ignore[union-attr]
    lengths.clear()
    play(_plan(max_words=300).plan(QUESTION, contexts, 10), serve)
    assert lengths == [12, 10, 9, 8, 7]  # no prompt is requested twice
    _, requests = play(_plan(max_words=1).plan(QUESTION, contexts, 10), lambda _: Generation("1"))
    assert not requests[0].may_be_too_long  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reply", "order"),
    [
        ("[2] > [3] > [1]", [1, 2, 0]),
        ("3,1", [2, 0, 1]),
        ("[2] > [2] > [9] > [0]", [1, 0, 2]),
        ("I cannot.", [0, 1, 2]),
        ("<think>[3] first?</think>[2]", [1, 0, 2]),
        ("[٢]", [0, 1, 2]),
    ],
)
def test_an_order_is_read_as_in_the_published_code(reply: str, order: Sequence[int]) -> None:
    """Missing numbers follow in their order; others and repetitions do not count."""
    assert read_order(reply, 3) == order


@settings(deadline=None)
@given(st.integers(0, 120), st.integers(2, 30), st.data())
def test_windows_cover_every_passage(count: int, window: int, data: st.DataObject) -> None:
    """Each overlaps the next one by window - step passages, and the last one begins at the first
    passage.
    """
    step = data.draw(st.integers(1, window - 1))
    windows = list(list_windows(count, window, step))
    assert {n for start, end in windows for n in range(start, end)} == set(range(count))
    assert [end for _, end in windows] == [count - step * n for n in range(len(windows))]
    assert all(start == max(0, end - window) for start, end in windows)
    if (count - window) % step == 0 and count >= window:  # as in the authors' code
        assert len(windows) == (count - window) // step + 1


def test_impossible_windows_are_refused() -> None:
    """A step as long as the window would never bring a passage to the top."""
    with pytest.raises(ConfigError, match=re.escape("step=3 must be less than window=3")):
        _plan(window=3, step=3)
    with pytest.raises(ConfigError, match="received"):
        RankGpt(**{**TEXTS, "passage": "{text}"}, decoding=Decoding())  # type: ignore[arg-type]


def test_a_window_is_shortened_for_itself_and_its_prompt_shows_what_it_names() -> None:
    """The next window begins with whole passages again."""
    contexts = [make_context(n, " ".join([f"w{n}"] * 10)) for n in (1, 2, 3)]
    lengths: list[list[int]] = []

    def serve(request: Generate) -> object:
        lengths.append([len(one.text.split()) for one in request.passages])
        for one, turn in zip(request.passages, request.messages[3::2], strict=False):
            assert turn.content.endswith(f"{one.title} {one.text}")
        return TooLong("long") if len(lengths) == 1 else Generation("[2] > [1]")

    hits, _ = play(_plan(window=2, step=1, max_words=8).plan(QUESTION, contexts, 3), serve)
    assert lengths == [[8, 8], [7, 7], [8, 8]]
    assert [hit.passage_id for hit in hits] == ["p3", "p1", "p2"]


def test_a_tenth_of_the_words_goes_at_a_time() -> None:
    """So that a prompt that is far too long is not rendered three hundred times."""
    lengths: list[int] = []

    def serve(request: Generate) -> object:
        lengths.append(len(request.passages[0].text.split()))
        return TooLong("long") if len(lengths) < 3 else Generation("1")

    play(
        _plan(max_words=300).plan(QUESTION, [make_context(n, "w " * 400) for n in (1, 2)], 2),
        serve,
    )
    assert lengths == [300, 270, 243]


@pytest.mark.parametrize("length", [10, 19, 20_000])
def test_a_number_without_end_is_no_passage(length: int) -> None:
    """A reply may repeat a digit up to its limit."""
    assert read_order("1" * length + " [2]", 3) == [1, 0, 2]


def test_a_passage_without_a_title_has_no_separator() -> None:
    """It has its number and its text alone."""
    untitled = replace(make_context(1, "a"), passage=Passage("p1", "", "a"))
    plan = _plan().plan(QUESTION, [untitled, make_context(2, "b")], 2)
    _, (request,) = play(plan, lambda _: Generation("[2] > [1]"))
    shown = [turn.content for turn in request.messages if turn.content.startswith("[")]  # type: ignore[union-attr]
    assert shown == ["[1] a", "[2] Title 2 b"]
