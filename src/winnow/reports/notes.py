"""Notes above the tables of a report, which warn of replies that may distort all of its numbers."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

from winnow.artifacts.provenance import find_changed_modules, get_git_revision
from winnow.identity.code import compute_module_digests
from winnow.metrics.base import MeanMetric
from winnow.reports.cells import CellResult

REPLY_METRICS = ("empty", "cut", "long", "refused")
"""Names of the metrics that are shares of replies that a strategy may have misread."""
TOLERATED_SHARE = 0.02
"""Share of such replies in a cell above which the report has a note."""
_MOST_NAMES = 4
"""Number of names that a note lists."""
INCIDENTS = {
    "a passage without an evaluation": "evaluation failed",
    "a failed search": "search failed",
    "a search without a result": "search: no result",
    "a page that could not be read": "pages not read",
    "a refused rewriting": "rewriting failed",
    "a rewriting without keywords": "rewriting: no keywords",
    "no strip above the filter": "none passed the filter",
}
"""What corrective retrieval does without, and the text by which the traces record it."""


def build_reply_notes(cells: Sequence[CellResult], seed: int) -> list[str]:
    """Return one note for each metric of `REPLY_METRICS` that exceeds 2 % in any cell.

    The note names the cell with the largest share. Metrics that the cells do not have are skipped.
    """
    notes = []
    for name in REPLY_METRICS:
        shares = [
            (cell.compute_interval(name, seed), cell)
            for cell in cells
            if cell.find_metric(name) is not None
        ]
        exceeding = [
            (interval, cell)
            for interval, cell in shares
            if interval.n and interval.mean > TOLERATED_SHARE
        ]
        if exceeding:
            largest, cell = max(exceeding, key=lambda pair: pair[0].mean)
            metric = cell.find_metric(name)
            assert metric is not None
            labels = cell.labels
            notes.append(
                f"{metric.heading}: more than {TOLERATED_SHARE:.0%} in {len(exceeding)} of "
                f"{len(cells)} cells, at most {metric.format(largest)} ({labels.line}, k "
                f"{labels.k}, {labels.gold})."
            )
    return notes


def build_short_context_notes(cells: Sequence[CellResult]) -> list[str]:
    """Return a note if prompts have fewer than k contexts because fewer were retrieved."""
    counts = [
        (cell, sum(number < cell.labels.k for number in cell.columns.num_contexts))
        for cell in cells
    ]
    affected = [(count, cell) for cell, count in counts if count]
    if not affected:
        return []
    most, cell = max(affected, key=lambda pair: pair[0])
    labels, numbers = cell.labels, cell.columns.num_contexts
    return [
        f"Fewer than k contexts in {len(affected)} of {len(cells)} cells, because fewer were "
        f"retrieved or left: at most for {most} of {cell.num_questions} questions, with "
        f"{sum(numbers) / len(numbers):.1f} contexts on average over all ({labels.line}, k "
        f"{labels.k}, {labels.gold})."
    ]


def build_missing_steps_notes(cells: Sequence[CellResult]) -> list[str]:
    """Return a note if metrics need what the prompts showed but some cells did not record it."""
    unrecorded_cells = [cell for cell in cells if not cell.has_steps and cell.labels.k]
    names = (
        [metric.heading for metric in cells[0].metrics if "shown" in metric.inputs] if cells else []
    )
    if not unrecorded_cells or not (
        names or any("not recorded" in cell.groups for cell in unrecorded_cells)
    ):
        return []
    return [
        f"What the prompts showed was not recorded for {len(unrecorded_cells)} of {len(cells)} "
        "cells, so "
        f"that {', '.join(names) or 'the breakdown'} is undefined there. `python -m flows.sweep "
        "sweep.record_steps=true` with the same settings records it from the ledger."
    ]


def build_partial_notes(cells: Sequence[CellResult], seed: int) -> list[str]:
    """Return a note for each share or mean of shares that omits questions, with its bounds.

    Their values would be between those with 0 and with 1 for each question that is left out.
    """
    notes = []
    for metric in cells[0].metrics if cells else ():
        partial = []
        for cell in cells:
            interval = (
                cell.compute_interval(metric.name, seed) if cell.find_metric(metric.name) else None
            )
            if (
                interval
                and isinstance(metric, MeanMetric)
                and metric.unit == "percent"
                and 0 < interval.n < cell.num_questions
            ):
                partial.append((cell.num_questions - interval.n, interval, cell))
        if partial:
            num_missing, interval, cell = max(partial, key=lambda entry: entry[0])
            low, high = interval.mean * interval.n, interval.mean * interval.n + num_missing
            labels, number = cell.labels, cell.num_questions
            notes.append(
                f"{metric.heading} is undefined for some questions in {len(partial)} of "
                f"{len(cells)} cells, at most for {num_missing} of {number} ({labels.line}, k "
                f"{labels.k}, {labels.gold}). Its value there is over {interval.n} questions; "
                f"with 0 or 1 for the others, it is between {100 * low / number:.1f} and "
                f"{100 * high / number:.1f}."
            )
    return notes


def build_unpriced_notes(
    prices: Sequence[Collection[str]], models: Sequence[Mapping[tuple[str, str], int]]
) -> list[str]:
    """Return a note if the cost of a cell leaves out roles whose models have no price.

    Args:
        prices: Roles of each cell that have a price; a cell without any has no cost.
        models: Number of replies of each cell by role and model.
    """
    unpriced: dict[str, int] = {}
    for priced_roles, counts in zip(prices, models, strict=True):
        for role in (
            sorted({role for role, _ in counts}.difference(priced_roles)) if priced_roles else ()
        ):
            unpriced[role] = unpriced.get(role, 0) + 1
    if not unpriced:
        return []
    roles_text = ", ".join(f"{role} (in {number} cells)" for role, number in unpriced.items())
    return [
        f"The cost leaves out roles whose models have no price: {roles_text}. That is right for "
        "models "
        "on this machine; add the price of any other to conf/prices."
    ]


def build_no_verdict_notes(cells: Sequence[CellResult]) -> list[str]:
    """Return a note for each judged metric that is undefined for all questions of a cell."""
    notes = []
    for metric in cells[0].metrics if cells else ():
        empty = [
            cell
            for cell in cells
            if metric.name in cell.judged and not cell.columns.rows[metric.name].is_defined.any()
        ]
        if empty:
            notes.append(
                f"{metric.heading}: no verdict on any question in {len(empty)} of {len(cells)} "
                "cells, because the judge's replies have none, the answers are unknown, or the "
                "prompts had no passages."
            )
    return notes


def build_model_notes(
    names: Sequence[str], models: Sequence[Mapping[tuple[str, str], int]]
) -> list[str]:
    """Return a note if replies of one role in a cell are from several models (or model snapshots).

    Args:
        names: Names of the cells.
        models: Number of replies of each cell by role and model.
    """
    mixed = []
    for name, counts in zip(names, models, strict=True):
        for role in sorted({role for role, _ in counts}):
            own = [
                f"{model} ({count})"
                for (other, model), count in sorted(counts.items())
                if other == role
            ]
            if len(own) > 1:
                mixed.append(f"{name}, {role}: {', '.join(own)}")
    if not mixed:
        return []
    examples = "; ".join(mixed[:_MOST_NAMES]) + (
        f"; and {len(mixed) - _MOST_NAMES} more" if len(mixed) > _MOST_NAMES else ""
    )
    return [
        f"Several models answered in {len(mixed)} of {len(names)} cells, so that their numbers mix "
        f"models: {examples}."
    ]


def build_control_token_notes(counts: Sequence[tuple[int, int]]) -> list[str]:
    """Return a note if replies contained chat template control tokens, which the answers omit.

    Args:
        counts: Number of such replies, and of all replies, of each cell.
    """
    num_marked, replies = (
        sum(num_marked for num_marked, _ in counts),
        sum(replies for _, replies in counts),
    )
    if not num_marked:
        return []
    return [
        f"{num_marked} of {replies} replies contained control tokens of a chat template, such as "
        "<|im_end|>, which are not part of the answers. The chat template or the stop tokens of "
        "the server, or of the model's folder, are not those that the model was trained with, so "
        "that its answers may be worse than they could be."
    ]


CHANGED_CODE = "artifacts behind these cells were computed by other code"
"""Words of the note on changed code."""


def build_code_notes(folders: Sequence[Path]) -> list[str]:
    """Return a note if modules behind finished artifacts changed since, under the same revision."""
    revision = get_git_revision()
    compute = cache(compute_module_digests)  # most cells rest on the same modules
    changed_modules = [
        modules
        for folder in folders
        if (modules := find_changed_modules(folder, revision, compute))
    ]
    if not changed_modules:
        return []
    names = list(dict.fromkeys(name for modules in changed_modules for name in modules))
    names_text = ", ".join(names[:_MOST_NAMES]) + (
        f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    )
    return [
        f"{len(changed_modules)} of {len(folders)} {CHANGED_CODE}: {names_text} changed since, "
        "under the same "
        "revision, so that their numbers are reused. `python -m flows.why` lists what differs."
    ]


def build_incident_notes(cells: Sequence[CellResult]) -> list[str]:
    """Return a note for each kind of incident in the traces, with the question count per cell."""
    notes = []
    for name, text in INCIDENTS.items():
        counts = [
            (cell, sum(any(text in entry for entry in trace) for trace in cell.columns.traces))
            for cell in cells
        ]
        affected = [
            f"{cell.labels.line} {cell.labels.gold}: {count} of {cell.num_questions}"
            for cell, count in counts
            if count
        ]
        if affected:
            notes.append(f"Questions with {name}: {'; '.join(affected)}.")
    return notes
