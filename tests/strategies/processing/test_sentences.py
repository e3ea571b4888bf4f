"""Selection of sentences by the estimator."""

from typing import Any

from tests.plans import play
from winnow.records import Context, Passage
from winnow.requests import Estimate, Failed, Score
from winnow.strategies.corrective.refinement import Refinement
from winnow.strategies.corrective.segments import SentenceGroups
from winnow.strategies.processing.sentences import SentenceSelection
from winnow.testing import make_question

QUESTION = make_question("Which city?", ["Paris"])
CONTEXTS = (
    Context(
        Passage("a", "A", "It is cold. Paris is large."),
        1,
        9.0,
        has_answer=True,
        is_gold=True,
        log_weight=-0.5,
    ),
    Context(Passage("b", "B", "Nothing here."), 2, 8.0, has_answer=False, log_odds=1.5),
    Context(Passage("c", "C", ""), 3, 7.0, has_answer=False),
)
SCORES = {"It is cold.": -2.0, "Paris is large.": 4.0, "Nothing here.": 1.0}


def _process(**rules: Any) -> tuple[tuple[Context, ...], list[Any]]:
    refinement = Refinement(SentenceGroups(size=1, min_words=1), **({"threshold": None} | rules))
    plan = SentenceSelection(refinement).process(QUESTION, CONTEXTS)
    return play(plan, lambda request: Score(SCORES[request.text]))


def test_the_best_sentences_stay_in_their_order_and_passages() -> None:
    """With id, rank, scores, weight and flags of their context; has_answer is that of
    what is left.
    """
    contexts, requests = _process(top=2)
    assert [type(request) for request in requests] == [Estimate] * 3
    assert [request.text for request in requests] == list(SCORES)
    first, second = contexts
    assert first.passage == Passage("a", "A", "Paris is large.", ("a",))
    assert (first.rank, first.score, first.has_answer, first.is_gold, first.log_weight) == (
        1,
        9.0,
        True,
        True,
        -0.5,
    )
    assert second.passage == Passage("b", "B", "Nothing here.", ("b",))
    assert (second.rank, second.score, second.log_odds, second.has_answer, second.is_gold) == (
        2,
        8.0,
        1.5,
        False,
        False,
    )
    (only,) = _process(top=1)[0]
    assert only.passage.text == "Paris is large."


def test_a_filter_keeps_what_reaches_the_threshold() -> None:
    """The best sentence stays if none does; a gold passage that lost its answer stays gold, without
    the answer.
    """
    assert [one.passage.text for one in _process(threshold=0.5)[0]] == ["Paris is large."]
    assert [one.passage.text for one in _process(threshold=1.0)[0]] == ["Paris is large."]
    selection = SentenceSelection(Refinement(SentenceGroups(size=1, min_words=1), threshold=0.5))
    (left,), _ = play(
        selection.process(QUESTION, CONTEXTS),
        lambda request: Score(1.5 if "cold" in request.text else -9.0),
    )
    assert (left.passage.text, left.is_gold, left.has_answer) == ("It is cold.", True, False)


def test_a_sentence_without_a_score_is_not_chosen() -> None:
    """Nothing is requested, and nothing is left, without a sentence."""
    selection = SentenceSelection(
        Refinement(SentenceGroups(size=1, min_words=1), threshold=None, top=1)
    )
    serve = lambda request: Failed("x") if "Paris" in request.text else Score(-1.0)
    (left,), _ = play(selection.process(QUESTION, CONTEXTS), serve)
    assert left.passage.text == "It is cold."
    assert play(selection.process(QUESTION, CONTEXTS[2:]), serve) == ((), [])


def test_joined_sentences_name_all_their_passages() -> None:
    """One context of all, gold as one of them is."""
    (only,) = _process(join="all")[0]
    assert only.passage == Passage(
        "a+b", "", "It is cold. Paris is large. Nothing here.", ("a", "b")
    )
    assert only.is_gold
