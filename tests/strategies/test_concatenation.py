"""Concatenation with scripted replies."""

from winnow.records import Decoding
from winnow.strategies.concatenation import Concatenation
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, run_scripted_plan

PLAN = Concatenation(
    Prompt(
        "{contexts} Q {question}",
        "closed Q {question}",
        "{contexts} C {candidates} Q {question}",
        "<{text}>",
    ),
    Decoding(),
)
PLAN_CONTEXTS = [make_context(1, "one"), make_context(2, "two"), make_context(3, "three")]


def test_asks_once_with_all_passages_in_order() -> None:
    """One prompt; "unknown" is noticed."""
    answer, prompts = run_scripted_plan(
        PLAN.plan(make_question("Who?"), PLAN_CONTEXTS), [["Unknown."]]
    )
    assert prompts == [["<one>\n<two>\n<three> Q Who?"]]
    assert answer.unknown
