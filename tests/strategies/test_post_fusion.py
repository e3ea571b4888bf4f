"""PostFusion with scripted replies."""

from winnow.records import Decoding
from winnow.strategies.post_fusion import PostFusion
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, run_scripted_plan

PLAN = PostFusion(
    Prompt(
        "{contexts} Q {question}",
        "closed Q {question}",
        "{contexts} C {candidates} Q {question}",
        "<{text}>",
    ),
    Decoding(),
)
PLAN_CONTEXTS = [make_context(1, "one"), make_context(2, "two"), make_context(3, "three")]


def test_votes_over_one_answer_a_passage() -> None:
    """Three prompts at once; two equal answers win; the pool holds what is not unknown."""
    answer, prompts = run_scripted_plan(
        PLAN.plan(make_question("Who?"), PLAN_CONTEXTS), [["x", "unknown", "X"]]
    )
    assert prompts == [["<one> Q Who?", "<two> Q Who?", "<three> Q Who?"]]
    assert (answer.text, answer.unknown, answer.candidates) == ("x", False, ("x", "X"))


def test_ties_go_by_rank_not_by_place_in_the_prompt() -> None:
    """A gold passage that was moved to the front does not win ties by that; an inserted one ranks
    last.
    """
    moved = [make_context(5, "five"), make_context(1, "one")]
    assert run_scripted_plan(PLAN.plan(make_question(), moved), [["five", "one"]])[0].text == "one"
    inserted = [make_context(9, "gold", rank=0), make_context(4, "four")]
    assert (
        run_scripted_plan(PLAN.plan(make_question(), inserted), [["gold", "four"]])[0].text
        == "four"
    )


def test_all_unknown_is_unknown_and_no_passage_asks_nothing() -> None:
    """Nothing to vote for gives "unknown"."""
    answer, _ = run_scripted_plan(PLAN.plan(make_question(), PLAN_CONTEXTS), [["unknown"] * 3])
    assert (answer.text, answer.unknown) == ("unknown", True)
    assert run_scripted_plan(PLAN.plan(make_question(), []), [[]])[0].unknown
