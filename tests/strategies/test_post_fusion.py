"""PostFusion with scripted replies."""

from winnow.records import Decoding
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.testing import context, play, question

PLAN = PostFusion(
    Prompt("{contexts} Q {question}", "closed Q {question}", "{contexts} C {candidates} Q {question}", "<{text}>"), Decoding()
)
PLAN_CONTEXTS = [context(1, "one"), context(2, "two"), context(3, "three")]


def test_votes_over_one_answer_a_passage() -> None:
    """Three prompts at once; two equal answers win; the pool holds what is not unknown."""
    answer, prompts = play(PLAN.plan(question("Who?"), PLAN_CONTEXTS), [["x", "unknown", "X"]])
    assert prompts == [["<one> Q Who?", "<two> Q Who?", "<three> Q Who?"]]
    assert (answer.text, answer.unknown, answer.candidates) == ("x", False, ("x", "X"))


def test_ties_go_by_rank_not_by_place_in_the_prompt() -> None:
    """A gold passage that was moved to the front does not win ties by that; an inserted one ranks last."""
    moved = [context(5, "five"), context(1, "one")]
    assert play(PLAN.plan(question(), moved), [["five", "one"]])[0].text == "one"
    inserted = [context(9, "gold", rank=0), context(4, "four")]
    assert play(PLAN.plan(question(), inserted), [["gold", "four"]])[0].text == "four"


def test_all_unknown_is_unknown_and_no_passage_asks_nothing() -> None:
    """Nothing to vote for gives "unknown"."""
    answer, _ = play(PLAN.plan(question(), PLAN_CONTEXTS), [["unknown"] * 3])
    assert (answer.text, answer.unknown) == ("unknown", True)
    assert play(PLAN.plan(question(), []), [[]])[0].unknown
