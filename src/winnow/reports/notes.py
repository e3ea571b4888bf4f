"""Notes above the tables of a report, on what qualifies all of its numbers."""

from collections.abc import Sequence

from winnow.reports.cells import CellResult

REPLY_METRICS = ("empty", "cut", "long", "refused")
"""Metrics of replies that the strategy may have misread; each is noted beyond `TOLERATED`."""
TOLERATED = 0.02


def reply_notes(cells: Sequence[CellResult], seed: int) -> list[str]:
    """Return one note for each metric of `REPLY_METRICS` that exceeds 2 % in any cell; it names the cell with the most."""
    notes = []
    for name in REPLY_METRICS:
        shares = [(cell.interval(name, seed), cell) for cell in cells if cell.metric(name) is not None]
        beyond = [(interval, cell) for interval, cell in shares if interval.n and interval.mean > TOLERATED]
        if beyond:
            worst, cell = max(beyond, key=lambda pair: pair[0].mean)
            metric = cell.metric(name)
            assert metric is not None
            labels = cell.labels
            notes.append(
                f"{metric.heading}: more than {TOLERATED:.0%} in {len(beyond)} of {len(cells)} cells, at most "
                f"{metric.format(worst)} ({labels.line}, k {labels.k}, {labels.gold})."
            )
    return notes
