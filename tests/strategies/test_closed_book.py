"""ClosedBook with scripted replies."""

from winnow.records import Decoding
from winnow.strategies.closed_book import ClosedBook
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, run_scripted_plan

PLAN = ClosedBook(
    Prompt(
        "{contexts} Q {question}",
        "closed Q {question}",
        "{contexts} C {candidates} Q {question}",
        "<{text}>",
    ),
    Decoding(),
)
PLAN_CONTEXTS = [make_context(1, "one"), make_context(2, "two"), make_context(3, "three")]


def test_asks_once_without_passages() -> None:
    """Contexts are ignored even if there are some."""
    answer, prompts = run_scripted_plan(PLAN.plan(make_question("Who?"), PLAN_CONTEXTS), [["Jane"]])
    assert prompts == [["closed Q Who?"]]
    assert (answer.text, answer.unknown, answer.candidates) == ("Jane", False, ())
