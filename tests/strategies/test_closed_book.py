"""ClosedBook with scripted replies."""

from winnow.records import Decoding
from winnow.strategies.closed_book import ClosedBook
from winnow.strategies.prompt import Prompt
from winnow.testing import context, play, question

PLAN = ClosedBook(
    Prompt("{contexts} Q {question}", "closed Q {question}", "{contexts} C {candidates} Q {question}", "<{text}>"), Decoding()
)
PLAN_CONTEXTS = [context(1, "one"), context(2, "two"), context(3, "three")]


def test_asks_once_without_passages() -> None:
    """Contexts are ignored even if there are some."""
    answer, prompts = play(PLAN.plan(question("Who?"), PLAN_CONTEXTS), [["Jane"]])
    assert prompts == [["closed Q Who?"]]
    assert (answer.text, answer.unknown, answer.candidates) == ("Jane", False, ())
