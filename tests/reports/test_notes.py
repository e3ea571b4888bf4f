"""Notes above the tables."""

from dataclasses import replace
from pathlib import Path

import pytest

from winnow.metrics.answer_source import AnswerSource
from winnow.metrics.judged import JudgedAccuracy
from winnow.metrics.replies import CutReplies, LongAnswers, Refusals
from winnow.predictions import RoleUsage
from winnow.reports.cells import CellResult
from winnow.reports.notes import (
    build_code_notes,
    build_control_token_notes,
    build_incident_notes,
    build_missing_steps_notes,
    build_model_notes,
    build_no_verdict_notes,
    build_partial_notes,
    build_reply_notes,
    build_short_context_notes,
    build_unpriced_notes,
)
from winnow.sweeps.labels import CellLabels
from winnow.testing import make_cell_result, make_sample

METRICS = (
    CutReplies("cut", "cut"),
    LongAnswers("long", "over 10 words"),
    Refusals("refused", "refused"),
)


def cell(strategy: str, cut: int) -> CellResult:
    """A cell of 50 questions with two replies each, of which so many were cut."""
    samples = [make_sample("x", n) for n in range(50)]
    samples = [
        replace(
            s,
            prediction=replace(
                s.prediction, usage=(RoleUsage("reader", 9, 10, 2, cut=int(n < cut), replies=2),)
            ),
        )
        for n, s in enumerate(samples)
    ]
    return CellResult(CellLabels(strategy, 5, "g"), samples, METRICS)


def test_shares_beyond_two_percent_are_noted_with_the_worst_cell() -> None:
    """2 of 100 replies are tolerated, 3 are not."""
    assert build_reply_notes([cell("a", 2)], 0) == []
    (note,) = build_reply_notes([cell("a", 2), cell("b", 3), cell("c", 10)], 0)
    assert note.startswith("cut: more than 2% in 2 of 3 cells, at most 10.0 [")
    assert note.endswith("(10/100) (c, k 5, g).")


def test_incidents_of_the_traces_are_counted_by_cell() -> None:
    """A question with two incidents of a kind counts once; cells without any are not named."""
    traces = [
        ("action: correct",),
        ("search failed: x", "internal: 1 of 3 strips, none passed the filter"),
        ("search: no result",),
        ("search failed: y", "search failed: z"),
    ]
    traces = [traces[1], traces[0], *traces[2:]]
    samples = [make_sample("x", n) for n in range(4)]
    samples = [
        replace(s, prediction=replace(s.prediction, trace=trace))
        for s, trace in zip(samples, traces, strict=True)
    ]
    affected = CellResult(CellLabels("crag", 5, "retrieved"), samples, METRICS)
    assert build_incident_notes([cell("a", 2)]) == []
    assert build_incident_notes([cell("a", 2), affected]) == [
        "Questions with a failed search: crag retrieved: 2 of 4.",
        "Questions with a search without a result: crag retrieved: 1 of 4.",
        "Questions with no strip above the filter: crag retrieved: 1 of 4.",
    ]


def test_prompts_with_fewer_than_k_contexts_are_noted() -> None:
    """BM25 may retrieve fewer from a small corpus; a comparison with another retriever is then one
    of numbers, too.
    """
    full = make_cell_result("a", 3, "retrieved", [1.0] * 4)
    samples = [
        replace(s, prediction=replace(s.prediction, passage_ids=("p1",) * n))
        for s, n in zip(full.samples, (1, 3, 2, 3), strict=True)
    ]
    short = replace(full, samples=samples)
    assert (
        build_short_context_notes([full, make_cell_result("closed_book", 0, "none", [1.0])]) == []
    )
    shorter = replace(
        full,
        samples=[
            replace(s, prediction=replace(s.prediction, passage_ids=())) for s in full.samples
        ],
    )
    (note,) = build_short_context_notes([short, shorter])
    assert (
        "in 2 of 2 cells, because fewer were retrieved or left: at most for 4 of 4 questions"
        in note
    )
    assert short.select_questions(["q0", "q2"]).columns.num_contexts == (1, 2)
    assert build_short_context_notes([full, short]) == [
        "Fewer than k contexts in 1 of 2 cells, because fewer were retrieved or left: at most for "
        "2 of 4 questions, with 2.2 contexts on average over all (a, k 3, retrieved)."
    ]


def test_cells_without_steps_are_noted_if_a_metric_needs_them() -> None:
    """A closed-book cell shows nothing anyway; the note says what records them."""
    source = AnswerSource("from_gold", "from gold")
    old = replace(make_cell_result("a", 3, "retrieved", [1.0]), metrics=(source,), has_steps=False)
    new, closed = (
        replace(old, has_steps=True),
        replace(old, labels=CellLabels("closed_book", 0, "none")),
    )
    assert build_missing_steps_notes([new, closed]) == []
    assert build_missing_steps_notes([replace(old, metrics=METRICS)]) == []
    (note,) = build_missing_steps_notes([old, new])
    assert "for 1 of 2 cells, so that from gold is undefined there" in note
    assert "sweep.record_steps=true" in note
    grouped = replace(old, metrics=METRICS, groups=("not recorded",))
    assert "so that the breakdown is undefined there" in build_missing_steps_notes([grouped])[0]


def test_a_value_over_a_part_of_the_questions_is_bounded() -> None:
    """Ten of a hundred verdicts, all of them 1: between 10 and 100 % over all questions."""
    judged = replace(
        make_cell_result("a", 3, "g", [1.0] * 100),
        metrics=(JudgedAccuracy("j", "judged", template="{question} {answers} {answer}"),),
    )
    rows = [{"j": 1.0}] * 10 + [None] * 90
    (note,) = build_partial_notes([replace(judged, judged={"j": rows})], 0)
    assert note.startswith(
        "judged is undefined for some questions in 1 of 1 cells, at most for 90 of 100 (a, k 3, g)."
    )
    assert note.endswith(
        "Its value there is over 10 questions; with 0 or 1 for the others, it is between 10.0 and "
        "100.0."
    )
    assert build_partial_notes([replace(judged, judged={"j": [{"j": 1.0}] * 100})], 0) == []
    silent = replace(judged, judged={"j": [None] * 100})
    assert build_partial_notes([silent], 0) == []
    (note,) = build_no_verdict_notes([silent, judged])
    assert "no verdict on any question in 1 of 2 cells" in note
    assert build_no_verdict_notes([judged]) == []
    assert replace(judged, judged={"j": rows}).format_metric("j", 0) == "100.0 [72.2, 100.0] (n 10)"


def test_roles_without_a_price_are_named() -> None:
    """Where another role has one, so that there is a cost; they would count as free."""
    models = [{("reader", "m"): 2, ("rewriter", "n"): 1}] * 3
    (note,) = build_unpriced_notes([["reader"], ["reader", "rewriter"], []], models)
    assert "rewriter (in 1 cells)" in note
    assert build_unpriced_notes([["reader", "rewriter"], [], []], models) == []


def test_several_models_of_one_role_are_noted() -> None:
    """With the number of replies of each; a judge beside a reader is no second model."""
    one, two = (
        {("reader", "m-1"): 5, ("judge", "j"): 2},
        {("reader", "m-2"): 5, ("reader", "m-1"): 5},
    )
    assert build_model_notes(["a", "b"], [one, {}]) == []
    (note,) = build_model_notes(["a", "b"], [one, two])
    assert note.startswith("Several models answered in 1 of 2 cells")
    assert note.endswith(": b, reader: m-1 (5), m-2 (5).")


def test_control_tokens_are_noted() -> None:
    """With their number over all cells."""
    assert build_control_token_notes([(0, 5), (0, 0)]) == []
    (note,) = build_control_token_notes([(1, 5), (2, 5)])
    assert note.startswith("3 of 10 replies contained control tokens of a chat template")


def test_code_that_was_changed_since_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each module once, and not all of many."""
    changes = {
        "1": ["winnow.a", "winnow.b"],
        "2": [],
        "3": ["winnow.a", "winnow.c", "winnow.d", "winnow.e"],
    }
    monkeypatch.setattr(
        "winnow.reports.notes.find_changed_modules", lambda folder, *_: changes[folder.name]
    )
    assert build_code_notes([Path("2")]) == []
    (note,) = build_code_notes(list(map(Path, changes)))
    assert note.startswith(
        "2 of 3 artifacts behind these cells were computed by other code: winnow.a, winnow.b, "
        "winnow.c, winnow.d and 1 more"
    )
