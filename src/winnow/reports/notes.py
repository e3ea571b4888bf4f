"""Notes above the tables of a report, which warn of replies that may distort all of its numbers."""

from collections.abc import Sequence

from winnow.reports.cells import CellResult

REPLY_METRICS = ("empty", "cut", "long", "refused")
"""Names of the metrics that are shares of replies that a strategy may have misread."""
TOLERATED_SHARE = 0.02
"""Share of such replies in a cell above which the report has a note."""
INCIDENTS = {
    "a passage without an evaluation": "evaluation failed",
    "a failed search": "search failed",
    "a search without a result": "search: no result",
    "a page that could not be read": "pages not read",
    "a refused rewriting": "rewriting failed",
    "a rewriting without keywords": "rewriting: no keywords",
    "no strip above the filter": "none passed the filter",
}
"""What corrective retrieval goes on without, and the text by which the traces record it."""


def build_reply_notes(cells: Sequence[CellResult], seed: int) -> list[str]:
    """Return one note for each metric of `REPLY_METRICS` that exceeds 2 % in any cell.

    The note names the cell with the largest share. Metrics that the cells do not have are skipped.
    """
    notes = []
    for name in REPLY_METRICS:
        shares = [(cell.compute_interval(name, seed), cell) for cell in cells if cell.find_metric(name) is not None]
        exceeding = [(interval, cell) for interval, cell in shares if interval.n and interval.mean > TOLERATED_SHARE]
        if exceeding:
            largest, cell = max(exceeding, key=lambda pair: pair[0].mean)
            metric = cell.find_metric(name)
            assert metric is not None
            labels = cell.labels
            notes.append(
                f"{metric.heading}: more than {TOLERATED_SHARE:.0%} in {len(exceeding)} of {len(cells)} cells, at most "
                f"{metric.format(largest)} ({labels.line}, k {labels.k}, {labels.gold})."
            )
    return notes


def build_short_context_notes(cells: Sequence[CellResult]) -> list[str]:
    """Return a note if prompts have fewer than k contexts because fewer were retrieved, as by BM25 from a small corpus."""
    counts = [(cell, sum(number < cell.labels.k for number in cell.columns.num_contexts)) for cell in cells]
    affected = [(count, cell) for cell, count in counts if count]
    if not affected:
        return []
    most, cell = max(affected, key=lambda pair: pair[0])
    labels, numbers = cell.labels, cell.columns.num_contexts
    return [
        f"Fewer than k contexts in {len(affected)} of {len(cells)} cells, because fewer were retrieved or left: at most for "
        f"{most} of {cell.num_questions} questions, with {sum(numbers) / len(numbers):.1f} contexts on average over all "
        f"({labels.line}, k {labels.k}, {labels.gold})."
    ]


def build_missing_steps_notes(cells: Sequence[CellResult]) -> list[str]:
    """Return a note if metrics need what prompts showed, and some cells were answered before that was recorded."""
    missing = [cell for cell in cells if not cell.has_steps and cell.labels.k]
    names = [metric.heading for metric in cells[0].metrics if "shown" in metric.inputs] if cells else []
    if not missing or not (names or any("not recorded" in cell.groups for cell in missing)):
        return []
    return [
        f"What the prompts showed was not recorded for {len(missing)} of {len(cells)} cells, so that "
        f"{', '.join(names) or 'the breakdown'} is undefined there. `python -m flows.sweep sweep.record_steps=true` with the "
        "same settings records it from the ledger."
    ]


def build_incident_notes(cells: Sequence[CellResult]) -> list[str]:
    """Return one note for each kind of incident that the traces record, with the number of questions in each cell."""
    notes = []
    for name, text in INCIDENTS.items():
        counts = [(cell, sum(any(text in entry for entry in trace) for trace in cell.columns.traces)) for cell in cells]
        affected = [
            f"{cell.labels.line} {cell.labels.gold}: {count} of {cell.num_questions}" for cell, count in counts if count
        ]
        if affected:
            notes.append(f"Questions with {name}: {'; '.join(affected)}.")
    return notes
