r"""Compare a judge with people's labels, and correct the judged rate by them.

Without a file of labels, it writes one: the answers of the cells to a random sample of questions,
to be labeled by hand (set `label` to true or false). With it, it prints for each cell Cohen's
kappa, precision and recall, and the rate that people would find over all questions, whose interval
covers it although the judge errs. The judge's verdict is the first metric.

python -m flows.calibrate_judge experiment=quick_start metric=[judged]  # writes labels.jsonl
python -m flows.calibrate_judge experiment=quick_start metric=[judged]  # once it has labels
python -m flows.calibrate_judge experiment=quick_start metric=[judged] \
    calibrate_judge.labels=mine.jsonl
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flows.project.cells import require_finished, resolve_cells
from flows.project.metrics import read_results
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.stages.report_folder import open_report_folder
from flows.tools.summary import Summary
from winnow.artifacts.files import write_texts
from winnow.errors import ConfigError
from winnow.metrics.intervals import Interval
from winnow.reports.calibration import (
    build_calibration_rows,
    check_questions,
    describe_labels,
    list_missing,
    read_labels,
    sample_answers,
)

_LABELS, _MORE, _RESULTS = "labels.jsonl", "labels_more.jsonl", "calibration.json"


def calibrate_judge(jobs: Sequence[Settings]) -> Summary:
    """Compare the verdicts with the labels, or write the answers to label if there is no file."""
    settings, specs = jobs[0], resolve_cells(jobs)
    require_finished(specs)
    stage_settings = settings.calibrate_judge
    out = open_report_folder(settings)
    file = Path(stage_settings.labels) if stage_settings.labels else out / _LABELS
    results = read_results(jobs, specs)
    sampled_rows = sample_answers(results, stage_settings.sample, stage_settings.seed)
    if not file.is_file():
        if stage_settings.labels:
            raise ConfigError(
                f"calibrate_judge.labels: there is no file {file}. Without this setting, answers "
                "to label are written."
            )
        write_texts(out, {_LABELS: _format_lines(sampled_rows)})
        num_questions = len({row["question_id"] for row in sampled_rows})
        return Summary(
            f"{len(sampled_rows)} answers to {num_questions} questions wait for labels",
            note=f"Set `label` in {file} to true or false, and run the command again.",
        )
    more = out / _MORE
    labels = read_labels([file, *([more] if more.is_file() else [])])
    check_questions(results, labels)
    table = build_calibration_rows(results, labels, stage_settings.seed)
    metric = results[0].metrics[0]
    body = {"metric": metric.name, "labels": str(file), "rows": [_unpack(row) for row in table]}
    write_texts(out, {_RESULTS: json.dumps(body, indent=1) + "\n"})
    unlabeled_rows = list_missing(results, labels)
    notes = describe_labels(results, labels, len(unlabeled_rows), stage_settings.seed)
    rows_by_key = {(row["question_id"], row["answer"]): row for row in unlabeled_rows}
    if not stage_settings.labels:  # the sample may have grown
        rows_by_key |= {(row["question_id"], row["answer"]): row for row in sampled_rows}
    new_keys = rows_by_key.keys() - labels.values.keys() - labels.open_keys
    if new_keys:
        former = more.read_text("utf-8-sig") if more.is_file() else ""
        new_rows = [row for key, row in rows_by_key.items() if key in new_keys]
        gap = "\n" if former and not former.endswith("\n") else ""
        write_texts(out, {_MORE: f"{former}{gap}{_format_lines(new_rows)}"})
        notes.append(
            f"{len(new_rows)} answers to label were added to {more}. Label them there or in "
            f"{file}, and run the command again."
        )
    notes += [
        (
            "corrected: the rate that people would find, from the verdicts on all answers and the "
            "labels of a random sample."
        ),
        f"Numbers: {out / _RESULTS}",
    ]
    rows = [_format(row) for row in table]
    return Summary(
        f"{metric.heading} and {len(labels.values)} labels of people, 95 % intervals",
        rows,
        "\n".join(notes),
    )


def _format_lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _format(row: dict[str, Interval | str | int]) -> dict[str, Any]:
    """Return a row for the terminal: rates in percent, kappa as a number."""
    return {
        name: (
            (value.format_number(2) if name == "kappa" else value.format_percent())
            if isinstance(value, Interval)
            else value
        )
        for name, value in row.items()
    }


def _unpack(row: dict[str, Interval | str | int]) -> dict[str, Any]:
    """Return a row for JSON, with null for what is undefined."""
    return {
        name: (asdict(value) if value.n else None) if isinstance(value, Interval) else value
        for name, value in row.items()
    }


STAGE = Stage(calibrate_judge, grid=True, seeds="each", last_sweep="used")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
