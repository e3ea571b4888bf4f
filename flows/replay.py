"""Compute the tables of an archive again from its recorded calls, without a model, and compare them
with those in it.

`python -m flows.export export.format=replay` writes the archive of a finished sweep. Every answer
is replayed: the strategy runs again on the recorded rankings, with the recorded replies, and must
give the stored answer. Then the metrics, intervals and tests are computed again, and each file of
tables must be the same, byte by byte. The page is written, too.

python -m flows.replay exports/replay/quick_start.zip
python -m flows.replay quick_start.zip --out replays/mine
"""

import argparse
import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.project.archive import TABLES
from flows.project.engines import identify_engine_specs
from flows.project.ledger import open_ledger
from flows.project.replayed import load_archive, unpack_archive
from flows.report import PAGE, report_cells
from flows.report import TABLES as TABLE_FILES
from flows.settings.typed import Settings
from flows.stages.errors import exit_on_errors
from flows.tools.dvc import CALLS
from flows.tools.summary import Summary, progress
from winnow.artifacts.provenance import get_running_revision
from winnow.artifacts.steps import read_steps
from winnow.artifacts.tables import read_predictions
from winnow.errors import ArtifactError, InputError, LedgerError
from winnow.ledger.merging import import_calls
from winnow.ledger.sqlite import SqliteStore
from winnow.predictions import Prediction
from winnow.protocols import CallStore
from winnow.reports.notes import CHANGED_CODE
from winnow.steps import Outcome
from winnow.sweeps.replay import count_usage, replay_plan
from winnow.sweeps.run import LoadedCell, build_prediction, load_cells
from winnow.sweeps.spec import CellSpec

_COMPARED = (
    "answer", "unknown", "candidates", "reply", "trace", "passage_ids", "used_ids", "gold_position",
    "provenance", "truncated_passages",
)  # fmt: skip
"""Fields of a prediction that a replay gives again, in addition to the usage."""
_NOTE = re.compile(rf"(?:> )?\d+ of \d+ {CHANGED_CODE}: [^|\n]*\n(?:>?\n)?")
"""The note on changed code, the only line of the tables that depends on this machine's code."""
_MOST_LINES = 12
"""Number of differing lines that are printed of a table, and of answers."""
_CONTEXT = 60
"""Number of characters that are printed around a difference."""


def main() -> None:
    """Replay the archive of the command line; the exit status is 0 if everything is the same."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.replay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "archive", type=Path, help="file that `python -m flows.export export.format=replay` wrote"
    )
    parser.add_argument(
        "--out", type=Path, help="folder to unpack it to (replays/NAME); it must be new"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="MODULE",
        help="module outside Winnow whose components may run",
    )
    options = parser.parse_args()
    with exit_on_errors():
        replay(
            options.archive, options.out or Path("replays", options.archive.stem), options.allow
        ).show()


def replay(file: Path, folder: Path, allowed: Sequence[str] = ()) -> Summary:
    """Replay an archive, and compare its answers and tables.

    Args:
        file: Archive.
        folder: Folder to unpack it to.
        allowed: Modules outside Winnow whose components may run.

    Raises:
        ArtifactError: If an answer or a table differs. The message names the first ones.
    """
    if not file.is_file():
        raise InputError(
            f"There is no archive {file}. `python -m flows.export export.format=replay` writes one."
        )
    unpack_archive(file, folder)
    settings, specs, record = load_archive(folder, allowed)
    tables = [folder / TABLES / name for name in sorted(TABLE_FILES)]
    if not specs or not all(table.is_file() for table in tables):
        raise InputError(
            f"{file} lacks cells or tables; expected {', '.join(TABLE_FILES)}. Get the archive "
            "again."
        )
    with SqliteStore(Path(settings.paths.ledger)) as ledger:
        import_calls(ledger, folder / CALLS)
    num_answers, differing = _replay_answers(settings, specs)
    if differing:
        raise ArtifactError(
            f"{len(differing)} of {num_answers} answers are not those that the recorded calls "
            f"give. {_advise(record)}\n"
            + "\n".join(
                [*differing[:_MOST_LINES], *(["..."] if len(differing) > _MOST_LINES else [])]
            )
        )
    summary = report_cells([settings], specs)
    computed_tables = [folder / "report" / table.name for table in tables]
    differences = [
        text
        for table, own in zip(tables, computed_tables, strict=True)
        if (text := _compare(table, own))
    ]
    is_exact = all(
        table.read_bytes() == own.read_bytes()
        for table, own in zip(tables, computed_tables, strict=True)
    )
    code = (
        ""
        if record["code"] == get_running_revision()
        else f" The code is another one, of which a note may say what changed. {_advise(record)}"
    )
    if differences:
        raise ArtifactError(
            f"{len(differences)} of {len(tables)} files of tables differ from those of the "
            f"archive. {_advise(record)}\n" + "\n".join(differences)
        )
    note = (
        f"{num_answers} answers of {len(specs)} cells were replayed from their calls, and all are "
        f"the recorded ones. {len(tables)} files of tables are the same, "
        f"{'byte by byte' if is_exact else 'but for the note on changed code'}: "
        f"{', '.join(table.name for table in tables)}.{code}\nPage: {folder / 'report' / PAGE}\n"
        + "".join(
            f"Command of the sweep: python -m flows.pipeline {words}\n" for words in record["words"]
        )
        + "Its calls for a checkout with models, where they cost nothing then: "
        f"winnow ledger import data/ledger.sqlite {folder / CALLS}"
    )
    return Summary(summary.title, summary.rows, note, group=summary.group)


def _replay_answers(settings: Settings, specs: Sequence[CellSpec]) -> tuple[int, list[str]]:
    """Replay every answer; return their number, and the cell and question of each that differs."""
    count, differing = 0, []
    cells = load_cells(specs)
    total = sum(len(cell.questions) for cell in cells)
    with open_ledger(settings) as ledger, progress("replaying answers", total) as advance:
        for cell in cells:
            labels = cell.spec.labels
            where = f"{labels.strategy} k={labels.k} {labels.gold}"
            for question_id, difference in _iter_answers(cell, ledger):
                count += 1
                differing += (
                    [f"{where}, question {question_id!r}: {difference}"] if difference else []
                )
                advance()
    return count, differing


def _iter_answers(cell: LoadedCell, ledger: CallStore) -> Iterator[tuple[str, str]]:
    """Yield each question's id and how its answer differs from the stored one, or "" if equal."""
    spec = cell.spec
    identities = identify_engine_specs(spec.engines)
    stored_predictions = {one.question_id: one for one in read_predictions(spec.predictions)}
    steps = read_steps(spec.folder, cell.rankings.passages, set(stored_predictions))
    for question in cell.questions:
        question_id = question.question_id
        recorded_steps = steps[question_id].steps if question_id in steps else ()
        try:
            plan_replay = replay_plan(cell.start(question).plan, identities, ledger, recorded_steps)
        except (
            LedgerError
        ) as error:  # a call is missing, or the request is another one than was recorded
            yield question_id, str(error).partition(". ")[0]
            continue
        calls = [call for calls in plan_replay.rounds for call in calls]
        num_dropped = sum(call.dropped for call in calls)
        outcome = Outcome(
            question_id,
            plan_replay.result,
            tuple(map(count_usage, calls)),
            num_dropped,
            tuple(plan_replay.steps),
        )
        prediction = build_prediction(
            question, cell.placed.pop(question_id), outcome, cell.get_ranking_usage(question_id)
        )
        difference = (
            _describe_difference(stored_predictions[question_id], prediction)
            if question_id in stored_predictions
            else "no answer is stored"
        )
        has_other_steps = bool(recorded_steps) and list(recorded_steps) != plan_replay.steps
        yield (
            question_id,
            difference or ("the recorded steps are others" if has_other_steps else ""),
        )
    for question_id in stored_predictions.keys() - {
        question.question_id for question in cell.questions
    }:
        yield question_id, "the cell does not have this question"


def _describe_difference(stored: Prediction, built: Prediction) -> str:
    """Return in which fields two predictions differ, except for call times, or "" if in none."""
    before, after = (
        {name: getattr(one, name) for name in _COMPARED}
        | {"usage": [replace(role_usage, seconds=0.0) for role_usage in one.usage]}
        for one in (stored, built)
    )
    return "; ".join(
        f"{name} {_shorten(repr(before[name]))} in the archive, {_shorten(repr(after[name]))} by "
        "the calls"
        for name in before
        if before[name] != after[name]
    )


def _shorten(text: str) -> str:
    return text if len(text) <= 2 * _CONTEXT else f"{text[: 2 * _CONTEXT]}..."


def _compare(recorded: Path, computed: Path) -> str:
    """Return the first differences of two files except the note on changed code, or "" if none."""
    before, after = (
        _NOTE.sub("", file.read_text(encoding="utf-8"), count=1) for file in (recorded, computed)
    )
    if before == after:
        return ""
    lines = list(_iter_values(before, after)) if recorded.suffix == ".json" else []
    lines = lines or list(_iter_lines(before.splitlines(), after.splitlines()))
    more = [f"... and {len(lines) - _MOST_LINES} more places"] if len(lines) > _MOST_LINES else []
    return "\n".join([f"{recorded.name}:", *lines[:_MOST_LINES], *more])


def _iter_values(before: str, after: str) -> Iterator[str]:
    """Yield the cells and metrics whose values differ between two files of them, or nothing if they
    have other cells.
    """
    pairs = list(zip(json.loads(before), json.loads(after), strict=False))
    for one, other in pairs:
        where = " ".join(str(one.get(name, "")) for name in ("strategy", "k", "gold"))
        for name in one.keys() | other.keys():
            if one.get(name) != other.get(name):
                yield f"{where}, {name}: {one.get(name)} in the archive, {other.get(name)} here"


def _iter_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Yield the lines that differ between two texts, from just before the first difference."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, own_start, own_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        old, new = before[start:end], after[own_start:own_end]
        pairs = zip(old[0], new[0], strict=False) if old and new else ()
        prefix_length = next((place for place, (one, other) in enumerate(pairs) if one != other), 0)
        begin = max(0, prefix_length - _CONTEXT)
        yield from (f"- {line[begin : begin + 3 * _CONTEXT]}" for line in old)
        yield from (f"+ {line[begin : begin + 3 * _CONTEXT]}" for line in new)


def _advise(record: Mapping[str, Any]) -> str:
    code, here = record["code"], get_running_revision()
    if code == here:
        return f"The code is that of the archive ({code}); compare the versions of the libraries."
    return (
        f"The archive was written by the code {code}, and this is {here}: check that revision out "
        "to repeat it exactly."
    )


if __name__ == "__main__":
    main()
