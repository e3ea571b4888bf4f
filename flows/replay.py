"""Compute the tables of an archive again from its recorded calls, without a model, and compare them with those in it.

`python -m flows.export export.format=replay` writes the archive of a finished sweep. Every answer is replayed: the strategy
runs anew on the recorded rankings, with the recorded replies, and must give the stored answer. Then the metrics, intervals
and tests are computed anew, and each file of tables must be the same, byte by byte. The page is written, too.

python -m flows.replay exports/replay/quick_start.zip
python -m flows.replay quick_start.zip --out replays/mine
"""

import argparse
import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.project.archive import TABLES, load_archive, unpack_archive
from flows.project.engines import identify_engine_specs
from flows.project.ledger import open_ledger
from flows.report import PAGE, report_cells
from flows.report import TABLES as TABLE_FILES
from flows.settings.typed import Settings
from flows.stages.command import exit_on_errors
from flows.tools.dvc import CALLS
from flows.tools.summary import Summary, progress
from winnow.artifacts.provenance import get_running_revision
from winnow.artifacts.steps import read_steps
from winnow.artifacts.tables import read_predictions
from winnow.errors import ArtifactError, InputError, LedgerError
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.tools import import_calls
from winnow.predictions import Prediction
from winnow.protocols import CallStore
from winnow.reports.notes import CHANGED_CODE
from winnow.steps import Outcome
from winnow.sweeps.replay import count_usage, replay_plan
from winnow.sweeps.run import LoadedCell, build_prediction, load_cells
from winnow.sweeps.spec import CellSpec

_COMPARED = (
    "answer", "unknown", "candidates", "reply", "trace", "passage_ids", "used_ids", "gold_position", "provenance",
)  # fmt: skip
"""Fields of a prediction that a replay gives again."""
_MOST_LINES = 12
"""Number of differing lines that are printed of a table."""


def main() -> None:
    """Replay the archive of the command line; the exit status is 0 if everything is the same."""
    parser = argparse.ArgumentParser(
        prog="python -m flows.replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path, help="file that `python -m flows.export export.format=replay` wrote")
    parser.add_argument("--out", type=Path, help="folder to unpack it to (replays/NAME); it must be new")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="MODULE", help="module outside Winnow whose components may run"
    )
    options = parser.parse_args()
    with exit_on_errors():
        replay(options.archive, options.out or Path("replays", options.archive.stem), options.allow).show()


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
        raise InputError(f"There is no archive {file}. `python -m flows.export export.format=replay` writes one.")
    unpack_archive(file, folder)
    settings, specs, record = load_archive(folder, allowed)
    tables = [folder / TABLES / name for name in sorted(TABLE_FILES)]
    if not specs or not all(table.is_file() for table in tables):
        raise InputError(f"{file} lacks cells or tables; expected {', '.join(TABLE_FILES)}. Get the archive again.")
    with SqliteStore(Path(settings.paths.ledger)) as ledger:
        import_calls(ledger, folder / CALLS)
    num_answers, differing = _replay_answers(settings, specs)
    if differing:
        raise ArtifactError(
            f"{len(differing)} of {num_answers} answers are not those of the archive, or need other calls, such as "
            f"{differing[0]}. " + _advise(record)
        )
    summary = report_cells([settings], specs)
    differences = [text for table in tables if (text := _compare(table, folder / "report" / table.name))]
    code = (
        ""
        if record["code"] == get_running_revision()
        else f" The code is another one, of which a note may say what changed. {_advise(record)}"
    )
    if differences:
        raise ArtifactError(
            f"{len(differences)} of {len(tables)} files of tables differ from those of the archive. {_advise(record)}\n"
            + "\n".join(differences)
        )
    note = (
        f"{num_answers} answers of {len(specs)} cells were replayed from their calls, and all are the recorded ones. "
        f"{len(tables)} files of tables are the same, byte by byte: {', '.join(table.name for table in tables)}.{code}\n"
        f"Page: {folder / 'report' / PAGE}\n"
        + "".join(f"Command of the sweep: python -m flows.pipeline {words}\n" for words in record["words"])
        + f"Its calls for a checkout with models, where they cost nothing then: winnow ledger import {folder / CALLS}"
    )
    return Summary(summary.title, summary.rows, note, group=summary.group)


def _replay_answers(settings: Settings, specs: Sequence[CellSpec]) -> tuple[int, list[str]]:
    """Replay every answer; return their number, and the cells and questions of those that differ."""
    count, differing = 0, []
    cells = load_cells(specs)
    total = sum(len(cell.questions) for cell in cells)
    with open_ledger(settings) as ledger, progress("replaying answers", total) as advance:
        for cell in cells:
            for question_id, is_same in _iter_answers(cell, ledger):
                count += 1
                differing += [] if is_same else [f"question {question_id!r} in {cell.spec.folder.name}"]
                advance()
    return count, differing


def _iter_answers(cell: LoadedCell, ledger: CallStore) -> Iterator[tuple[str, bool]]:
    """Yield the id of each question of a cell, and whether its answer is the stored one."""
    spec = cell.spec
    identities = identify_engine_specs(spec.engines)
    stored = {one.question_id: one for one in read_predictions(spec.predictions)}
    steps = read_steps(spec.folder, cell.rankings.passages, set(stored))
    for question in cell.questions:
        question_id = question.question_id
        recorded = steps[question_id].steps if question_id in steps else ()
        try:
            replayed = replay_plan(cell.start(question).plan, identities, ledger, recorded)
        except LedgerError:  # another request than the recorded ones
            yield question_id, False
            continue
        usage = tuple(count_usage(call) for calls in replayed.rounds for call in calls)
        outcome = Outcome(question_id, replayed.result, usage, steps=tuple(replayed.steps))
        built = build_prediction(question, cell.placed.pop(question_id), outcome, cell.get_ranking_usage(question_id))
        is_same = question_id in stored and _describe(built) == _describe(stored[question_id])
        yield question_id, is_same and (not recorded or list(recorded) == replayed.steps)
    for question_id in stored.keys() - {question.question_id for question in cell.questions}:
        yield question_id, False


def _describe(prediction: Prediction) -> tuple[object, ...]:
    """Return what metrics read of a prediction, but for the time and the counts of cut and empty replies."""
    usage = [(used.role, used.calls, used.tokens_in, used.tokens_out, used.tokens_reasoning) for used in prediction.usage]
    return (*(getattr(prediction, name) for name in _COMPARED), usage)


def _compare(recorded: Path, computed: Path) -> str:
    """Return the first lines in which two files differ, or "" if they are the same but for notes on changed code."""
    if computed.read_bytes() == recorded.read_bytes():
        return ""
    before, after = (
        [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip(" >") and CHANGED_CODE not in line]
        for file in (recorded, computed)
    )
    if before == after:
        return ""
    lines = [line[:200] for line in difflib.unified_diff(before, after, "archive", "here", n=0, lineterm="")][2:]
    more = [f"... and {len(lines) - _MOST_LINES} more lines"] if len(lines) > _MOST_LINES else []
    return "\n".join([f"{recorded.name}:", *lines[:_MOST_LINES], *more])


def _advise(record: Mapping[str, Any]) -> str:
    code, here = record["code"], get_running_revision()
    if code == here:
        return f"The code is that of the archive ({code}); compare the versions of the libraries."
    return f"The archive was written by the code {code}, and this is {here}: check that revision out to repeat it exactly."


if __name__ == "__main__":
    main()
