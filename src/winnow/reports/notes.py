"""Notes above the tables of a report, which warn of replies that may distort all of its numbers."""

from collections.abc import Sequence

from winnow.reports.cells import CellResult

REPLY_METRICS = ("empty", "cut", "long", "refused")
"""Names of the metrics that are shares of replies that a strategy may have misread."""
TOLERATED_SHARE = 0.02
"""Share of such replies in a cell above which the report has a note."""


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
