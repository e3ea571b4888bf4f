"""Notes above the tables."""

from dataclasses import replace

from winnow.metrics.replies import CutReplies, LongAnswers, Refusals
from winnow.records import RoleUsage
from winnow.reports.cells import CellResult
from winnow.reports.notes import build_incident_notes, build_reply_notes, build_short_context_notes
from winnow.sweeps.labels import CellLabels
from winnow.testing import make_cell_result, make_sample

METRICS = (CutReplies("cut", "cut"), LongAnswers("long", "over 10 words"), Refusals("refused", "refused"))


def cell(strategy: str, cut: int) -> CellResult:
    """A cell of 50 questions with two calls each, of which so many replies were cut."""
    samples = [make_sample("x", n) for n in range(50)]
    samples = [
        replace(s, prediction=replace(s.prediction, usage=(RoleUsage("reader", 2, 10, 2, cut=int(n < cut)),)))
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
    traces = [("action: correct",), ("search failed: x", "internal: 1 of 3 strips, none passed the filter"),
              ("search: no result",), ("search failed: y", "search failed: z")]  # fmt: skip
    traces = [traces[1], traces[0], *traces[2:]]
    samples = [make_sample("x", n) for n in range(4)]
    samples = [replace(s, prediction=replace(s.prediction, trace=trace)) for s, trace in zip(samples, traces, strict=True)]
    affected = CellResult(CellLabels("crag", 5, "retrieved"), samples, METRICS)
    assert build_incident_notes([cell("a", 2)]) == []
    assert build_incident_notes([cell("a", 2), affected]) == [
        "Questions with a failed search: crag retrieved: 2 of 4.",
        "Questions with a search without a result: crag retrieved: 1 of 4.",
        "Questions with no strip above the filter: crag retrieved: 1 of 4.",
    ]


def test_prompts_with_fewer_than_k_contexts_are_noted() -> None:
    """BM25 may retrieve fewer from a small corpus; a comparison with another retriever is then one of numbers, too."""
    full = make_cell_result("a", 3, "retrieved", [1.0] * 4)
    samples = [
        replace(s, prediction=replace(s.prediction, passage_ids=("p1",) * n))
        for s, n in zip(full.samples, (1, 3, 2, 3), strict=True)
    ]
    short = replace(full, samples=samples)
    assert build_short_context_notes([full, make_cell_result("closed_book", 0, "none", [1.0])]) == []
    shorter = replace(full, samples=[replace(s, prediction=replace(s.prediction, passage_ids=())) for s in full.samples])
    (note,) = build_short_context_notes([short, shorter])
    assert "in 2 of 2 cells, because fewer were retrieved or left: at most for 4 of 4 questions" in note
    assert short.select_questions(["q0", "q2"]).columns.num_contexts == (1, 2)
    assert build_short_context_notes([full, short]) == [
        "Fewer than k contexts in 1 of 2 cells, because fewer were retrieved or left: at most for 2 of 4 questions, with 2.2 "
        "contexts on average over all (a, k 3, retrieved)."
    ]
