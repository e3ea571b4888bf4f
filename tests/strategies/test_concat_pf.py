"""ConcatPF with scripted replies."""

from winnow.records import Decoding
from winnow.strategies.concat_pf import ConcatPF
from winnow.strategies.prompt import Prompt
from winnow.testing import make_context, make_question, run_scripted_plan

PLAN = ConcatPF(
    Prompt(
        "{contexts} Q {question}",
        "closed Q {question}",
        "{contexts} C {candidates} Q {question}",
        "<{text}>",
    ),
    Decoding(),
)
PLAN_CONTEXTS = [make_context(1, "one"), make_context(2, "two"), make_context(3, "three")]


def test_falls_back_only_on_unknown() -> None:
    """A known answer ends it after one call; unknown asks passage by passage."""
    answer, prompts = run_scripted_plan(PLAN.plan(make_question("Who?"), PLAN_CONTEXTS), [["x"]])
    assert (answer.text, len(prompts)) == ("x", 1)
    answer, prompts = run_scripted_plan(
        PLAN.plan(make_question("Who?"), PLAN_CONTEXTS), [["unknown"], ["y", "y", "z"]]
    )
    assert (answer.text, [len(p) for p in prompts], answer.candidates) == (
        "y",
        [1, 3],
        ("y", "y", "z"),
    )
