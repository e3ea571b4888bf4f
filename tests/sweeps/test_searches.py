"""Rules for the searches of plans: budgets, and the placement of what is found."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.plans import PROMPT, play
from winnow.contexts.damage import Damage
from winnow.contexts.distractors import Distractors
from winnow.contexts.placement import Placement
from winnow.errors import ConfigError
from winnow.records import Context, Decoding, Passage
from winnow.requests import (
    BUDGET,
    Failed,
    Generate,
    Generation,
    Message,
    Pages,
    PlacedPages,
    Plan,
    Search,
    Snapshot,
    Usage,
)
from winnow.strategies.rounds.iter_retgen import IterRetGen
from winnow.strategies.rounds.react import React
from winnow.strategies.rounds.searching import build_contexts, search
from winnow.sweeps.searches import SearchRules
from winnow.testing import make_question

GOLD = Passage("gold", "", "Paris is the capital.")
OTHERS = tuple(Passage(name, "", f"text {name}") for name in "abcdef")
QUESTION = replace(make_question("Which?", ["Paris"]), gold_passage_ids=("gold",))
RETRIEVED = Distractors()
KNOWN = (
    Context(OTHERS[0], 1, 9.0, has_answer=False),
    Context(GOLD, 0, None, has_answer=True, is_gold=True),
)
POOL = tuple(Passage(f"pool{n}", "", f"other words {n}") for n in range(9))


def _search(n: int, times: int = 1) -> Plan[Any]:
    """A plan that searches, and returns what it found."""
    results = []
    for number in range(times):
        results += yield [
            Search(f"query {number}", n),
            Generate((Message("user", "x"),), Decoding()),
        ]
    return results[::2]


def _find(
    found: tuple[Passage, ...], n: int, placement: Any, distractors: Distractors = RETRIEVED
) -> tuple[list[str], list[Any]]:
    """The ids that a plan of one search receives, and the requests that were served."""
    plan = SearchRules(placed=True).apply(_search(n), QUESTION, KNOWN, POOL, distractors, placement)
    scores = tuple(float(-number) for number in range(len(found)))
    serve = lambda request: (
        Pages(found, scores=scores) if isinstance(request, Search) else Generation("x")
    )
    (pages,), requests = play(plan, serve)
    by_id = dict(zip((one.passage_id for one in found), scores, strict=True))
    assert pages.scores == (
        tuple(by_id.get(one.passage_id) for one in pages.passages) if found else ()
    )
    return [one.passage_id for one in pages.passages], requests


def test_a_search_is_for_twice_as_many_passages_and_gives_as_many_as_the_plan_asked_for() -> None:
    """Other requests stay as they are."""
    ids, requests = _find(OTHERS[:4], 2, Placement())
    assert ids == ["a", "b"]
    assert [request.n for request in requests if isinstance(request, Search)] == [4]


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        (Placement("insert", "first"), ["gold", "a", "b"]),
        (Placement("insert", "last"), ["a", "b", "gold"]),
        (Placement("keep", 2), ["a", "gold", "b"]),
        (Placement("keep", 5), ["a", "b", "gold"]),
        (Placement("remove"), ["a", "b", "c"]),
        (Placement("insert_all", "first"), ["gold", "a", "b"]),
        (Damage(1.0), ["a", "c", "b"]),
    ],
)
def test_a_found_gold_passage_is_moved_or_removed(placement: Any, expected: list[str]) -> None:
    """As in the first prompt; a position beyond the result is its end."""
    assert _find((OTHERS[0], GOLD, *OTHERS[1:]), 3, placement)[0] == expected


def test_a_gold_passage_that_was_not_found_is_inserted() -> None:
    """From the rankings, in the place of the last one, whether or not they contain it; nothing else
    inserts it.
    """
    assert _find(OTHERS, 3, Placement("insert", "first"))[0] == ["gold", "a", "b"]
    assert _find((), 3, Placement("insert", "first"))[0] == ["gold"]
    assert _find(OTHERS, 3, Placement("keep", "first"))[0] == ["a", "b", "c"]


def test_all_gold_passages_are_inserted_even_beyond_the_result() -> None:
    """A search for one passage gives both."""
    question = replace(QUESTION, gold_passage_ids=("gold", "f"))
    known = (*KNOWN, Context(OTHERS[5], 0, None, has_answer=False, is_gold=True))
    plan = SearchRules(placed=True).apply(
        _search(1), question, known, POOL, RETRIEVED, Placement("insert_all", "first")
    )
    (pages,), _ = play(
        plan, lambda request: Pages(OTHERS[:2]) if isinstance(request, Search) else Generation("x")
    )
    assert [one.passage_id for one in pages.passages] == ["gold", "f"]
    assert pages.scores == (), "the search gave no scores"


def test_without_an_annotation_the_ranking_or_an_answer_names_the_gold_passage() -> None:
    """So that what metrics call gold is moved and removed; another passage with an answer stays."""
    question = replace(QUESTION, gold_passage_ids=())
    other = Passage("other", "", "Paris, again.")
    cases = [
        ((OTHERS[0], other, GOLD, *OTHERS[1:4]), Placement("remove"), ["a", "other", "b"]),
        ((OTHERS[0], other, *OTHERS[1:5]), Placement("remove"), ["a", "b", "c"]),
        ((OTHERS[0], other, *OTHERS[1:5]), Placement("keep", "last"), ["a", "b", "other"]),
        (OTHERS, Placement("insert", "first"), ["gold", "a", "b"]),
    ]
    for found, placement, expected in cases:
        plan = SearchRules(placed=True).apply(
            _search(3), question, KNOWN, POOL, RETRIEVED, placement
        )
        serve = lambda request, found=found: (
            Pages(found) if isinstance(request, Search) else Generation("x")
        )
        (pages,), _ = play(plan, serve)
        assert [one.passage_id for one in pages.passages] == expected


def test_each_search_has_random_passages_and_places_of_its_own() -> None:
    """The same in every run."""
    rules = SearchRules(placed=True)

    def draw(placement: Placement, distractors: Distractors) -> list[list[str]]:
        plan = rules.apply(_search(3, times=4), QUESTION, KNOWN, POOL, distractors, placement)
        results, _ = play(
            plan,
            lambda request: (
                Pages((GOLD, *OTHERS)) if isinstance(request, Search) else Generation("x")
            ),
        )
        return [[one.passage_id for one in pages.passages] for pages in results]

    for placement, distractors in (
        (Placement("keep", "shuffled"), RETRIEVED),
        (Placement(), Distractors("random")),
    ):
        drawn = draw(placement, distractors)
        assert len(set(map(tuple, drawn))) > 1
        assert drawn == draw(placement, distractors)


def test_found_passages_are_replaced_by_distractors() -> None:
    """By those of the pool if they are random; the gold passage keeps its rank."""
    ids, _ = _find((GOLD, *OTHERS), 3, Placement(), Distractors("random"))
    assert ids[0] == "gold"
    assert all(id_.startswith("pool") for id_ in ids[1:])


@pytest.mark.parametrize("budget", [0, 1, 2, None])
def test_searches_beyond_a_number_are_not_made(budget: int | None) -> None:
    """The plan receives why, and its other requests are served."""
    rules = SearchRules(max_searches=budget)
    results, requests = play(
        rules.apply(_search(3, times=3), QUESTION, KNOWN, POOL, RETRIEVED, Placement()),
        lambda request: Pages(OTHERS) if isinstance(request, Search) else Generation("x"),
    )
    made = 3 if budget is None else min(budget, 3)
    assert results == [Pages(OTHERS)] * made + [Failed(BUDGET)] * (3 - made)
    assert [request.query for request in requests if isinstance(request, Search)] == [
        f"query {n}" for n in range(made)
    ]
    assert sum(isinstance(request, Generate) for request in requests) == 3


@pytest.mark.parametrize(
    ("max_tokens", "made"), [(0, 0), (1, 1), (11, 1), (12, 2), (22, 2), (23, 3)]
)
def test_nothing_is_searched_for_once_the_tokens_are_used(max_tokens: int, made: int) -> None:
    """Tokens of prompts and of replies count, those of the round before the search too."""
    results, _ = play(
        SearchRules(max_tokens=max_tokens).apply(
            _search(1, times=3), QUESTION, KNOWN, POOL, RETRIEVED, Placement()
        ),
        lambda request: (
            Pages(OTHERS) if isinstance(request, Search) else Generation("x", usage=Usage(7, 4))
        ),
    )
    assert [isinstance(result, Pages) for result in results] == [True] * made + [False] * (3 - made)


def test_strategies_end_by_their_rules_when_the_budget_is_spent() -> None:
    """One answers from what it has; an agent is told to answer."""
    rules = SearchRules(max_searches=1)
    found = lambda request: Pages(OTHERS[:1]) if isinstance(request, Search) else Generation("Rome")
    plan = IterRetGen(PROMPT, Decoding(), rounds=4).plan(QUESTION, ())
    answer, requests = play(rules.apply(plan, QUESTION, KNOWN, POOL, RETRIEVED, Placement()), found)
    assert (answer.text, answer.stop, sum(isinstance(one, Search) for one in requests)) == (
        "Rome",
        BUDGET,
        1,
    )

    replies = iter(["t\nAction: Search[a]", "t\nAction: Search[b]", "t\nAction: Finish[Rome]"])
    plan = React(PROMPT, Decoding(), "{contexts}{question}").plan(QUESTION, ())
    serve = lambda request: (
        Pages(OTHERS[:1]) if isinstance(request, Search) else Generation(next(replies))
    )
    answer, requests = play(rules.apply(plan, QUESTION, KNOWN, POOL, RETRIEVED, Placement()), serve)
    assert answer.text == "Rome"
    assert (
        requests[-1]
        .messages[0]
        .content.count("Observation 2: No further search is possible. Answer the question.")
        == 1
    )


def test_searches_of_the_ranking_are_left_alone() -> None:
    """They have a role of their own."""

    def plan() -> Plan[Any]:
        return (yield [Search("x", 3, role="corpus")])

    rules = SearchRules(max_searches=0, placed=True)
    results, requests = play(
        rules.apply(plan(), QUESTION, KNOWN, POOL, RETRIEVED, Placement("insert", "first")),
        lambda _: Pages(OTHERS),
    )
    assert results == [Pages(OTHERS)]
    assert requests[0].n == 3


@pytest.mark.parametrize("name", ["max_searches", "max_tokens"])
def test_a_negative_budget_is_refused(name: str) -> None:
    """By its name."""
    with pytest.raises(
        ConfigError,
        match=rf"search\.rules\.{name} must be at least 0, or null; received -1",
    ):
        SearchRules(**{name: -1})


def test_found_passages_that_are_placed_keep_rank_and_gold_label() -> None:
    """A prompt that is too long then loses the lowest rank first, and the gold passage last."""
    rules = SearchRules(placed=True)
    plan = rules.apply(
        _search(3), QUESTION, KNOWN, POOL, RETRIEVED, Placement(gold="insert", order="reversed")
    )

    def serve(request: object) -> object:
        return Pages(OTHERS) if isinstance(request, Search) else Generation("x")

    (pages,), _ = play(plan, serve)
    placed = {
        passage.passage_id: (rank, gold)
        for passage, rank, gold in zip(pages.passages, pages.ranks, pages.gold, strict=True)
    }
    assert placed == {"a": (1, False), "b": (2, False), "gold": (3, True)}
    assert pages.ranks != (1, 2, 3)

    def ask() -> Plan[Any]:
        found = yield from search("query", 3)
        return build_contexts(found, start=5)

    contexts, _ = play(
        rules.apply(
            ask(), QUESTION, KNOWN, POOL, RETRIEVED, Placement(gold="insert", order="reversed")
        ),
        serve,
    )
    assert {one.passage.passage_id: (one.rank, one.is_gold) for one in contexts} == {
        "a": (5, False), "b": (6, False), "gold": (7, True),
    }  # fmt: skip


def _place_results(pages: Pages, known: Sequence[Context], placement: Placement) -> PlacedPages:
    """What a plan receives for a search for two passages."""
    plan = SearchRules(placed=True).apply(_search(2), QUESTION, known, POOL, RETRIEVED, placement)
    (placed,), _ = play(
        plan, lambda request: pages if isinstance(request, Search) else Generation("x")
    )
    assert isinstance(placed, PlacedPages)
    return placed


def test_ranks_count_the_passages_that_are_shown() -> None:
    """A gold passage that was found at the fifth place is the second of two."""
    known = (Context(GOLD, 5, 1.0, has_answer=True, is_gold=True),)
    placed = _place_results(Pages((*OTHERS[:4], GOLD)), known, Placement("insert", "first"))
    assert [one.passage_id for one in placed.passages] == ["gold", "a"]
    assert placed.ranks == (2, 1)


def test_an_answer_alone_makes_no_gold_passage_next_to_an_annotated_one() -> None:
    """Snapshots of the pages stay with the result."""
    known = (Context(GOLD, 5, 1.0, has_answer=True, is_gold=True),)
    snapshots = (Snapshot("https://x.org", "2026-11-24T05:30:00Z"),)
    pages = Pages((Passage("z", "", "Paris again"), GOLD), snapshots)
    placed = _place_results(pages, known, Placement())
    names = [one.passage_id for one in placed.passages]
    assert dict(zip(names, placed.gold, strict=True)) == {"z": False, "gold": True}
    assert placed.snapshots == snapshots
