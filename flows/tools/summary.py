"""The summary that a stage prints at its end, and progress bars."""

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flows.settings.door import drop_equal
from winnow.metrics.intervals import Interval

_SECONDS_BETWEEN_LINES = 30.0
_MOST_TURNED, _MOST_PARTS = 12, 4
"""Number of rows of a table that may be turned, and of the tables into which it is divided then."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a stage, shown on the terminal and as a table artifact of its Prefect run.

    Attributes:
        title: Title of the table, or the whole result if there is no table.
        rows: Rows of the table. Where one lacks a column of another, the table is empty.
        note: Text below the table, such as the path of a report.
        artifacts: Folders of the finished artifacts, which `--track` tracks.
        group: Name of a column; a line on the terminal divides rows in which it differs, unless it
            differs in all.
    """

    title: str
    rows: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    note: str = ""
    artifacts: Sequence[Path] = ()
    group: str = ""

    def drop_repeated(self) -> "Summary":
        """Return the summary with equal rows once, as jobs that share an artifact have them."""
        return replace(self, rows=list(drop_equal(self.rows, dict)))

    def show(self) -> None:
        """Print the title, the table and the note.

        A short table of intervals without groups that is too wide is turned if few parts of it fit
        then: it has a column for each row, and intervals stay on one line.
        """
        from rich.console import Console

        console = Console(width=None if sys.stdout.isatty() else 160)
        if self.rows:
            names = list(dict.fromkeys(name for row in self.rows for name in row))
            rows = [[str(row.get(name, "")) for name in names] for row in self.rows]
            has_intervals = any(text.endswith("]") for row in rows for text in row)
            is_turned = has_intervals and not self.group and _measure(rows) > console.width
            parts = _turn(names, rows, console.width) if is_turned else []
            groups = [row.get(self.group) for row in self.rows]
            for number, (header, body) in enumerate(parts or [(names, rows)]):
                console.print(
                    _build_table(
                        "" if number else self.title, header, body, None if parts else groups
                    )
                )
        else:
            console.print(self.title)
        if self.note:
            console.print(self.note, highlight=False, markup=False)


def _build_table(
    title: str, names: Sequence[str], rows: Sequence[Sequence[str]], groups: Sequence[Any] | None
) -> Any:
    """Return a `rich` table with a line between groups if there are fewer groups than rows."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    groups = groups or [None] * len(rows)
    has_several = len(set(groups)) < len(groups)
    for before, group, texts in zip([groups[0], *groups], groups, rows, strict=False):
        if has_several and before != group:
            table.add_section()
        table.add_row(*texts)
    return table


def _turn(
    names: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> list[tuple[list[str], list[list[str]]]]:
    """Transpose a table into the fewest parts that fit, each with its header, or return []."""
    for number in range(1, 1 + _MOST_PARTS if len(rows) <= _MOST_TURNED else 1):
        size = math.ceil(len(rows) / number)
        parts = [rows[start : start + size] for start in range(0, len(rows), size)]
        turned = [
            [[name, *(row[index] for row in part)] for index, name in enumerate(names)]
            for part in parts
        ]
        if all(_measure(body) <= width for _, *body in turned):
            return [(header, body) for header, *body in turned]
    return []


def _measure(rows: Sequence[Sequence[str]]) -> int:
    """Return the width of a table whose cells are not broken, without its header, which may be."""
    return sum(max(map(len, column)) + 3 for column in zip(*rows, strict=True)) + 1


def format_intervals(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a table with its intervals formatted in percent."""
    return {
        name: value.format_percent() if isinstance(value, Interval) else value
        for name, value in row.items()
    }


def format_training_speed(seconds: float, tokens_per_second: float, peak_memory: float) -> str:
    """Return the time, the throughput and the peak memory (in bytes) of a training."""
    return f"{seconds:.0f} s, {tokens_per_second:.0f} tokens/s, {peak_memory / 1e9:.1f} GB"


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Any]:
    """Show a progress bar on a terminal, or print a line every 30 s if stderr is a file or pipe.

    Args:
        label: Text before the bar.
        total: Number of steps, or None if it is not known.

    Yields:
        A function that advances the bar by some steps, and sets the text behind it if one is given.
    """
    if not sys.stderr.isatty():
        yield _ProgressLines(label, total).advance
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, text="")

        def advance(steps: int = 1, text: str | None = None) -> None:
            bar.advance(task, steps)
            if text is not None:
                bar.update(task, text=text)

        yield advance


class _ProgressLines:
    """Prints how far a task is, at most every half minute, so that a log of hours stays short."""

    def __init__(self, label: str, total: int | None) -> None:
        self.label, self.total = label, total
        self.done, self.text = 0, ""
        self.started = self.printed = time.monotonic()

    def advance(self, steps: int = 1, text: str | None = None) -> None:
        """Count finished steps, and print a line if the last one is half a minute old."""
        self.done += steps
        self.text = self.text if text is None else text
        now = time.monotonic()
        if now - self.printed < _SECONDS_BETWEEN_LINES:
            return
        self.printed = now
        total = "" if self.total is None else f" of {self.total}"
        behind = f", {self.text}" if self.text else ""
        seconds = now - self.started
        if self.total is not None and 0 < self.done < self.total:
            behind += (
                f", about {_format_duration((self.total - self.done) * seconds / self.done)} left"
            )
        print(
            f"{self.label}: {self.done}{total} after {seconds:.0f} s{behind}",
            file=sys.stderr,
            flush=True,
        )


def _format_duration(seconds: float) -> str:
    """Return a duration as people say it, such as "40 s", "7 minutes" or "3.5 hours"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
