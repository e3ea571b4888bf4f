"""PFConcat with scripted replies."""

from winnow.records import Decoding
from winnow.strategies.pf_concat import PFConcat
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, run_scripted_plan

PLAN = PFConcat(
    Prompt(
        "{contexts} Q {question}",
        "closed Q {question}",
        "{contexts} C {candidates} Q {question}",
        "<{text}>",
    ),
    Decoding(),
)
PLAN_CONTEXTS = [make_context(1, "one"), make_context(2, "two"), make_context(3, "three")]


def test_drops_unknown_passages_and_names_distinct_candidates() -> None:
    """The second round holds the passages that gave an answer, with each candidate
    once, in order.
    """
    answer, prompts = run_scripted_plan(
        PLAN.plan(make_question("Who?"), PLAN_CONTEXTS), [["x", "unknown", "X"], ["x"]]
    )
    assert prompts[1] == ["<one>\n<three> C x Q Who?"]
    assert (answer.text, answer.candidates) == ("x", ("x", "X"))


def test_candidates_stand_in_the_order_of_the_passages() -> None:
    """At their first occurrence."""
    _, prompts = run_scripted_plan(
        PLAN.plan(make_question("Who?"), PLAN_CONTEXTS), [["x", "y", "x"], ["x"]]
    )
    assert prompts[1] == ["<one>\n<two>\n<three> C x; y Q Who?"]


def test_all_unknown_needs_no_second_round() -> None:
    """Nothing is left to distil."""
    answer, prompts = run_scripted_plan(
        PLAN.plan(make_question(), PLAN_CONTEXTS), [["unknown"] * 3]
    )
    assert (answer.unknown, len(prompts)) == (True, 1)


def test_options_that_are_articles_are_candidates() -> None:
    """Nothing is left of "A" and "+" without articles and punctuation."""
    _, prompts = run_scripted_plan(
        PLAN.plan(make_question("Who?"), PLAN_CONTEXTS), [["A", "+", "a."], ["A"]]
    )
    assert prompts[1] == ["<one>\n<two>\n<three> C A; + Q Who?"]
