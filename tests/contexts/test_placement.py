"""Placement: which contexts, in which order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from winnow.contexts.gold import determine_provenance, mark_gold
from winnow.contexts.placement import Gold, Order, Placement
from winnow.errors import ConfigError
from winnow.records import Context, Question
from winnow.testing import make_context, make_question


def ranking(gold: int | None, size: int = 6) -> list[Context]:
    """Contexts p1 ... of which one is gold; gold 0 is one that was not retrieved."""
    contexts = [make_context(n, f"text {n}", is_gold=n == gold) for n in range(1, size + 1)]
    return [*contexts, make_context(99, "gold", is_gold=True, rank=0)] if gold == 0 else contexts


def ids(rule: Placement, gold: int | None, k: int) -> list[str]:
    """The passage ids that a rule shows."""
    return [c.passage.passage_id for c in rule.place(make_question(), ranking(gold), k).contexts]


def test_keep_shows_the_top_k() -> None:
    """As retrieved: nothing is inserted, the order is the ranking's."""
    assert ids(Placement(), 5, 3) == ["p1", "p2", "p3"]


def test_insert_replaces_the_kth_and_k_stays() -> None:
    """A gold passage beyond k takes the k-th place; then it is moved."""
    assert ids(Placement("insert", "last"), 5, 3) == ["p1", "p2", "p5"]
    assert ids(Placement("insert", "first"), 5, 3) == ["p5", "p1", "p2"]
    assert ids(Placement("insert", 2), 5, 3) == ["p1", "p5", "p2"]
    assert ids(Placement("insert", "first"), 0, 1) == ["p99"]


def test_a_retrieved_gold_is_moved_not_doubled() -> None:
    """A gold passage within the top k keeps its company."""
    assert ids(Placement("insert", "last"), 1, 3) == ["p2", "p3", "p1"]
    assert ids(Placement("keep", "first"), 3, 3) == ["p3", "p1", "p2"]


def test_remove_refills_from_below() -> None:
    """Without gold there are still k passages."""
    assert ids(Placement("remove"), 2, 3) == ["p1", "p3", "p4"]


def test_position_is_counted_from_one_and_zero_is_absent() -> None:
    """gold_position says where the gold passage stands in the prompt."""
    assert Placement("insert", "last").place(make_question(), ranking(5), 3).gold_position == 3
    assert Placement().place(make_question(), ranking(5), 3).gold_position == 0


def test_unknown_rules_and_positions_beyond_k_are_refused() -> None:
    """The message says what was received."""
    with pytest.raises(ConfigError, match="'middle'"):
        Placement(order="middle")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="keep, insert, insert_all or remove; received 'drop'"):
        Placement(gold="drop")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="beyond k=3"):
        Placement("insert", 4).place(make_question(), ranking(1), 3)


def test_gold_is_annotated_or_the_best_ranked_that_has_the_answer() -> None:
    """Annotation wins; without it the first has_answer is gold; without that there is none."""
    contexts = [
        make_context(1, "a"),
        make_context(2, "b", has_answer=True),
        make_context(3, "c", has_answer=True),
    ]
    distant = mark_gold(make_question(), contexts)
    assert [c.is_gold for c in distant] == [False, True, False]
    assert determine_provenance(make_question(), distant) == "distant"
    annotated = Question("q", "?", ("a",), gold_passage_ids=("p3",))
    assert [c.is_gold for c in mark_gold(annotated, contexts)] == [False, False, True]
    assert determine_provenance(annotated, mark_gold(annotated, contexts)) == "annotated"
    assert determine_provenance(make_question(), mark_gold(make_question(), contexts[:1])) == "none"


def test_a_shuffled_order_moves_every_context() -> None:
    """It depends on seed and question, is uniform on average, and is the same whatever the gold
    passage was.
    """
    orders = [ids(Placement("insert", "shuffled"), gold, 4) for gold in (1, 2)]
    assert orders[0] == orders[1] == ["p2", "p4", "p3", "p1"]
    counts = dict.fromkeys(range(1, 5), 0)
    for number in range(400):
        question = Question(f"q{number}", "?", ("a",))
        placed = Placement("insert", "shuffled").place(question, ranking(2), 4)
        counts[placed.gold_position] += 1
        assert sorted(c.passage.passage_id for c in placed.contexts) == ["p1", "p2", "p3", "p4"]
    assert all(70 <= count <= 130 for count in counts.values())


@settings(deadline=None)
@given(
    st.integers(0, 6),
    st.integers(1, 6),
    st.sampled_from(["retrieved", "first", "last", "random", "shuffled"]),
    st.sampled_from(["keep", "insert"]),
)
def test_k_distinct_contexts_whatever_the_rule(gold: int, k: int, order: str, rule: str) -> None:
    """Always k distinct passages; with "insert" the gold one is among them; the same seed gives the
    same order.
    """
    placement = Placement(rule, order)  # type: ignore[arg-type]
    placed = placement.place(make_question(), ranking(gold), k)
    ids = [c.passage.passage_id for c in placed.contexts]
    assert len(set(ids)) == len(ids) == k
    if rule == "insert":
        assert placed.gold_position > 0
    assert placed == placement.place(make_question(), ranking(gold), k)


@settings(deadline=None)
@given(
    golds=st.sets(st.integers(1, 8), min_size=1, max_size=4),
    missing=st.booleans(),
    gold=st.sampled_from(["keep", "insert"]),
    order=st.sampled_from(["first", "last", "random", 2]),
    k=st.integers(2, 8),
)
def test_of_several_gold_passages_the_best_ranked_is_placed(
    golds: set[int], missing: bool, gold: Gold, order: Order, k: int
) -> None:
    """The prompt never shows a second one, stays full, and the reported position is where the only
    one stands.
    """
    contexts = [make_context(n, f"text {n}", is_gold=n in golds) for n in range(1, 13)]
    contexts += [make_context(99, "gold", is_gold=True, rank=0)] if missing else []
    placed = Placement(gold, order).place(make_question(), contexts, k)
    shown = [n for n, c in enumerate(placed.contexts, start=1) if c.is_gold]
    assert len(placed.contexts) == k
    assert len(shown) == (1 if gold == "insert" else int(min(golds) <= k))
    assert placed.gold_position == (shown[0] if shown else 0)
    if shown:
        assert placed.contexts[shown[0] - 1].passage.passage_id == f"p{min(golds)}"
        assert order == "random" or shown[0] == {"first": 1, "last": k, 2: 2}[order]


def test_as_retrieved_several_gold_passages_stay() -> None:
    """Nothing is moved, so nothing is taken out; the position is that of the first."""
    contexts = [make_context(n, f"text {n}", is_gold=n in (2, 3)) for n in range(1, 5)]
    placed = Placement().place(make_question(), contexts, 4)
    assert [c.passage.passage_id for c in placed.contexts] == ["p1", "p2", "p3", "p4"]
    assert placed.gold_position == 2
    removed = Placement("remove").place(make_question(), contexts, 4)
    assert [c.passage.passage_id for c in removed.contexts] == ["p1", "p4"]


def test_positions_count_from_one() -> None:
    """Position 1 is the first; 0 and below are refused."""
    assert ids(Placement("insert", 1), 5, 3) == ["p5", "p1", "p2"]
    assert ids(Placement("insert", 3), 5, 4) == ["p1", "p2", "p5", "p3"]
    for order in (0, -1):
        with pytest.raises(ConfigError, match=f"received {order}"):
            Placement(order=order)


@pytest.mark.parametrize("gold", ["keep", "insert", "remove"])
def test_a_question_without_a_gold_passage_keeps_its_ranking(gold: Gold) -> None:
    """Whatever the rule does with gold passages."""
    assert ids(Placement(gold, "first"), None, 3) == ["p1", "p2", "p3"]


HOPS = [
    *(make_context(n, f"text {n}", is_gold=n in (2, 5)) for n in range(1, 7)),
    make_context(98, "gold", is_gold=True, rank=0),
]
"""Three gold passages: two are retrieved, of which one is beyond k = 4, and one is not."""


@pytest.mark.parametrize(
    ("order", "placed"),
    [
        ("first", ["p2", "p5", "p98", "p1"]),
        ("last", ["p1", "p2", "p5", "p98"]),
        (2, ["p1", "p2", "p5", "p98"]),
    ],
)
def test_all_gold_passages_are_inserted_and_moved_together(order: Order, placed: list[str]) -> None:
    """They take the places of the lowest-ranked others; k stays, and the position is that of the
    first.
    """
    question = make_question()
    result = Placement("insert_all", order).place(question, HOPS, 4)
    assert [context.passage.passage_id for context in result.contexts] == placed
    assert result.gold_position == placed.index("p2") + 1


def test_all_gold_passages_among_the_others() -> None:
    """As retrieved, those that were not are at random positions; shuffled, all are. Members do not
    depend on the order.
    """
    question = make_question()
    ranked = [
        c.passage.passage_id for c in Placement("insert_all").place(question, HOPS, 5).contexts
    ]
    assert [name for name in ranked if name != "p98"] == ["p1", "p2", "p3", "p5"]
    for order in ("shuffled", "random", "first"):
        contexts = Placement("insert_all", order).place(question, HOPS, 5).contexts  # type: ignore[arg-type]
        assert {context.passage.passage_id for context in contexts} == set(ranked)
    positions = {
        Placement("insert_all", "random")
        .place(make_question(question_id=f"q{n}"), HOPS, 6)
        .gold_position
        for n in range(60)
    }
    assert positions == {1, 2, 3, 4}


def test_gold_passages_that_do_not_fit_from_a_position_are_refused() -> None:
    """They would be at an earlier one, under the label of the position."""
    place = Placement("insert_all", 3).place(make_question(), HOPS, 5)
    assert place.gold_position == 3
    with pytest.raises(ConfigError, match="has 3 gold passages, which do not fit from that"):
        Placement("insert_all", 4).place(make_question(), HOPS, 5)


def test_more_gold_passages_than_places_are_refused() -> None:
    """With the question and both numbers; without any gold passage, the top k are as retrieved."""
    with pytest.raises(ConfigError, match="question 'q1' has 3 gold passages, and k=2"):
        Placement("insert_all", "first").place(make_question(), HOPS, 2)
    assert ids(Placement("insert_all", "last"), None, 2) == ["p1", "p2"]
    assert len(Placement("insert_all", "last").place(make_question(), HOPS[:2], 5).contexts) == 2


def test_the_best_ranked_gold_passage_is_placed_before_one_that_was_not_retrieved() -> None:
    """Whichever stands first among the contexts."""
    contexts = [make_context(9, "distant", is_gold=True, rank=0), *ranking(2)]
    placed = Placement("insert", "first").place(make_question(), contexts, 3)
    assert [context.passage.passage_id for context in placed.contexts] == ["p2", "p1", "p3"]


def test_a_placement_says_in_words_what_it_does_and_whether_it_needs_labels() -> None:
    """All orders of all rules; only the top k as retrieved need none."""
    orders = ("retrieved", "first", "last", "random", "shuffled", 3)
    words = {
        (gold, order): Placement(gold, order)
        for gold in ("keep", "insert", "insert_all", "remove")
        for order in orders
    }  # type: ignore[arg-type]
    assert [key for key, rule in words.items() if not rule.uses_gold] == [("keep", "retrieved")]
    assert [words["keep", order].words for order in orders] == [
        "as retrieved", "with the gold passage first if it was retrieved",
        "with the gold passage last if it was retrieved",
        "with the gold passage at a random position if it was retrieved", "in random order",
        "with the gold passage at position 3 if it was retrieved",
    ]  # fmt: skip
    assert words["insert", "first"].words == "with the gold passage first"
    assert words["insert", "retrieved"].words == "with the gold passage inserted"
    assert words["insert", "shuffled"].words == "in random order with the gold passage among them"
    assert words["insert_all", "last"].words == "with all gold passages last"
    assert words["remove", "retrieved"].words == "without the gold passage"
    assert words["remove", "shuffled"].words == "without the gold passage, in random order"


def test_reversed_puts_the_best_last() -> None:
    """All contexts, the gold passage among them, in the reverse of the ranking; nothing is left
    out.
    """
    assert ids(Placement("keep", "reversed"), 2, 3) == ["p3", "p2", "p1"]
    assert ids(Placement("insert", "reversed"), 5, 3)[::-1] == ids(
        Placement("insert", "retrieved"), 5, 3
    )
    assert ids(Placement("insert_all", "reversed"), 5, 3)[::-1] == ids(
        Placement("insert_all", "retrieved"), 5, 3
    )
    assert ids(Placement("remove", "reversed"), 1, 2) == ["p3", "p2"]
    assert not Placement("keep", "reversed").uses_gold
    assert Placement("keep", "reversed").words == "in reverse order"
    assert (
        Placement("insert", "reversed").words == "in reverse order with the gold passage among them"
    )
    assert Placement("remove", "reversed").words == "without the gold passage, in reverse order"
