"""Strategies must name the passages of their prompts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.sweeps.loaded_cells import Spec, cell
from winnow.contexts.placed import PlacedContexts
from winnow.errors import ConfigError
from winnow.records import Answer, Context, Decoding, Passage, Question
from winnow.requests import Generate, Likelihood, Message, Pages, Plan, Search
from winnow.sweeps.run import check_named_passages, iter_jobs
from winnow.testing import make_context, make_question, run_scripted_plan


def test_a_prompt_that_does_not_name_its_passages_is_refused() -> None:
    """The reader saw what metrics would not know of; a judge's prompts, short texts and named
    passages are fine.
    """
    contexts = (make_context(1, "Emma is a novel of 1815."), make_context(2, "1815"))

    def ask(text: str, passages: tuple[Passage, ...] = (), role: str = "reader") -> Plan[Answer]:
        (reply,) = yield [
            Generate((Message("user", text),), Decoding(), role=role, passages=passages)
        ]
        return Answer(reply.text, unknown=False)

    for text, passages, role in (
        ("What of 1815?", (), "reader"),
        (contexts[0].passage.text, (), "judge"),
        (contexts[0].passage.text, (contexts[0].passage,), "reader"),
    ):
        answer, _ = run_scripted_plan(
            check_named_passages(ask(text, passages, role), contexts, "q"), [["x"]]
        )
        assert answer.text == "x"
    with pytest.raises(
        ConfigError, match="question 'q' shows the passage 'p1', but does not name it"
    ):
        next(check_named_passages(ask(f"See: {contexts[0].passage.text}"), contexts, "q"))
    both, third = (
        (contexts[0].passage, make_context(3, "Persuasion is a novel, too.").passage),
        "Persuasion is a novel, too.",
    )
    partly = ask(f"{both[0].text} {third}", both[:1])
    next(
        check_named_passages(partly, (*contexts, make_context(3, third)), "q")
    )  # a demonstration may show it
    with pytest.raises(ConfigError, match="'p3', but does not name it"):
        next(
            check_named_passages(
                ask(f"{both[0].text} {third}", both[:1]),
                (*contexts, make_context(3, third)),
                "q",
                strictly=True,
            )
        )
    other = replace(both[0], text=f"1: {both[0].text}")
    with pytest.raises(ConfigError, match="names the passage 'p1', but does not show its text"):
        next(check_named_passages(ask(both[0].text, (other,)), contexts, "q", strictly=True))
    made = replace(other, passage_id="summary", sources=("p1",))
    next(check_named_passages(ask(both[0].text, (made,)), contexts, "q", strictly=True))


@dataclass(frozen=True)
class ShownSpec(Spec):
    """A specification with other contexts."""

    placed: PlacedContexts | None = None

    def place(self, question: Question, rankings: object) -> PlacedContexts:
        """Return them."""
        assert self.placed is not None
        return self.placed


class Unnamed:
    """A strategy of another package, which shows a passage without naming it."""

    def plan(self, question: Question, contexts: Sequence[Context]) -> Plan[Answer]:
        """Show the last passage."""
        (reply,) = yield [
            Generate((Message("user", f"See: {contexts[-1].passage.text}"),), Decoding())
        ]
        return Answer(reply.text, unknown=False)


def test_every_strategy_of_a_sweep_is_checked(tmp_path: Path) -> None:
    """Also one that names no passage at all."""
    question = make_question(question_id="a")
    one = cell(tmp_path, "x", [question])
    placed = PlacedContexts(
        (make_context(1, "Emma is a novel of 1815."),), gold_position=0, provenance="none"
    )
    one.spec = cast(
        "Any", ShownSpec("x", tmp_path / "predictions.parquet", tmp_path, placed=placed)
    )
    one.strategy = Unnamed()

    (job,) = iter_jobs([one])
    with pytest.raises(
        ConfigError, match="question 'a' shows the passage 'p1', but does not name it"
    ):
        next(job.plan)


def test_a_likelihood_names_its_passages_too() -> None:
    """Its prompt is read by the reader."""
    context = make_context(1, "Emma is a novel of 1815.")

    def plan(*passages: Passage) -> Plan[Answer]:
        yield [
            Likelihood(
                (Message("user", f"See: {context.passage.text}"),), "1815", passages=passages
            )
        ]
        return Answer("1815", unknown=False)

    next(check_named_passages(plan(context.passage), (context,), "q"))
    with pytest.raises(
        ConfigError, match=r"'p1', but does not name it.*Pass all of them as Likelihood\("
    ):
        next(check_named_passages(plan(), (context,), "q"))


def test_what_a_search_found_must_be_named_too() -> None:
    """Before it was found, nothing is known of it."""
    page = make_context(7, "Emma is a novel of 1815.").passage

    def plan() -> Plan[Answer]:
        yield [Search("emma", 1)]
        (reply,) = yield [Generate((Message("user", f"See: {page.text}"),), Decoding())]
        return Answer(reply.text, unknown=False)

    checked = check_named_passages(plan(), (), "q")
    next(checked)
    with pytest.raises(ConfigError, match="'p7', but does not name it"):
        checked.send([Pages((page,))])
