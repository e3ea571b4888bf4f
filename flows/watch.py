"""Watch a sweep while it runs: questions answered, first numbers with intervals, calls made and
shared, and the time left.

Everything is read from the ledger and from finished cells: no model is loaded, and the sweep is not
slowed down. The settings are those of the sweep. A number over the questions that are answered so
far is not the result: the others may be harder.

python -m flows.watch  # the last sweep
# A table every half minute, until all cells are finished
python -m flows.watch experiment=quick_start
python -m flows.watch experiment=quick_start watch.every=null  # once
"""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from flows.project.cells import resolve_cells
from flows.project.engines import identify_engine_specs
from flows.project.ledger import open_ledger
from flows.project.metrics import build_metrics
from flows.settings.typed import Settings
from flows.stages.command import make_main
from flows.stages.registry import Stage
from flows.tools.summary import Summary
from winnow.artifacts.steps import read_steps
from winnow.artifacts.tables import read_predictions
from winnow.errors import ConfigError, LedgerError
from winnow.metrics.base import JudgedMetric, Metric, Sample
from winnow.predictions import RoleUsage
from winnow.protocols import CallStore
from winnow.records import Role
from winnow.reports.cells import CellResult
from winnow.steps import Outcome
from winnow.sweeps.replay import count_usage, replay_plan
from winnow.sweeps.run import LoadedCell, build_prediction, load_cells


class WatchedCell:
    """A cell with the questions that it has answered so far.

    Args:
        cell: Cell, which may be finished, running, or not started.
        metric: Metric of its answers, which needs nothing but the predictions and the placed
            contexts.

    Attributes:
        samples: The answered questions by their ids.
        calls: What each of their calls used, by its key in the ledger; those of rankings are not
            among them.
        num_requested: Number of calls that they request, shared ones included.
        has_all_calls: Whether the ledger has the calls of all answered questions; those of a
            finished cell may have been made on another machine.
    """

    def __init__(self, cell: LoadedCell, metric: Metric) -> None:
        self.cell, self.metric = cell, metric
        self.samples: dict[str, Sample] = {}
        self.calls: dict[bytes, RoleUsage] = {}
        self.num_requested, self.has_all_calls = 0, True
        self._identities: Mapping[Role, str] | None = None

    @property
    def num_questions(self) -> int:
        """Return the number of questions that the cell is to answer."""
        return len(self.cell.questions)

    def look(self, ledger: CallStore) -> None:
        """Add the questions answered since the last look, whose calls are all in the ledger."""
        missing_questions = [
            question for question in self.cell.questions if question.question_id not in self.samples
        ]
        if not missing_questions:
            return
        spec = self.cell.spec
        stored_predictions = (
            {one.question_id: one for one in read_predictions(spec.predictions)}
            if spec.is_finished
            else {}
        )
        steps = (
            read_steps(spec.folder, self.cell.rankings.passages, list(stored_predictions))
            if stored_predictions
            else {}
        )
        if self._identities is None:
            self._identities = identify_engine_specs(spec.engines)
        for question in missing_questions:
            placed_contexts = self.cell.place(question)
            try:
                question_steps = steps.get(question.question_id)
                plan = self.cell.plan(question, placed_contexts.contexts)
                replay = replay_plan(
                    plan, self._identities, ledger, question_steps.steps if question_steps else ()
                )
            except LedgerError:
                if question.question_id not in stored_predictions:
                    continue
                prediction, self.has_all_calls = stored_predictions[question.question_id], False
            else:
                self.num_requested += sum(map(len, replay.rounds))
                self.calls |= {
                    call.key: count_usage(call) for calls in replay.rounds for call in calls
                }
                usage = tuple(count_usage(call) for calls in replay.rounds for call in calls)
                outcome = Outcome(question.question_id, replay.result, usage)
                replayed_prediction = build_prediction(
                    question,
                    placed_contexts,
                    outcome,
                    self.cell.get_ranking_usage(question.question_id),
                )
                prediction = stored_predictions.get(question.question_id, replayed_prediction)
            self.samples[question.question_id] = Sample(
                question, prediction, placed_contexts.contexts
            )

    def build_row(self, seed: int) -> dict[str, Any]:
        """Return a table row with the labels, progress and metric over the answered questions."""
        labels = self.cell.spec.labels
        result = CellResult(labels, list(self.samples.values()), [self.metric])
        return {
            "strategy": labels.line,
            "k": str(labels.k),
            "gold": labels.gold,
            "answered": f"{len(self.samples)} of {self.num_questions}",
            f"{self.metric.heading} so far": result.format_metric(self.metric.name, seed),
        }


def watch(jobs: Sequence[Settings]) -> Summary:
    """Print a table of the cells of all jobs at each look, and return that of the last one."""
    settings = jobs[0]
    metric = _choose_metric(build_metrics(settings))
    cells = [WatchedCell(cell, metric) for cell in load_cells(resolve_cells(jobs))]
    total, start_time, first = sum(cell.num_questions for cell in cells), time.monotonic(), None
    while True:
        with open_ledger(settings) as ledger:
            for cell in cells:
                cell.look(ledger)
        num_answered = sum(len(cell.samples) for cell in cells)
        first = num_answered if first is None else first
        note = _describe_progress(
            num_answered, total, num_answered - first, time.monotonic() - start_time
        ) + _describe_usage(cells)
        summary = Summary(
            f"Sweep {settings.sweep.name}",
            [cell.build_row(settings.report.seed) for cell in cells],
            note,
        )
        if settings.watch.every is None or num_answered == total:
            return summary
        summary.show()
        sys.stdout.flush()
        try:
            time.sleep(settings.watch.every)
        except KeyboardInterrupt:
            return summary


def _choose_metric(metrics: Sequence[Metric]) -> Metric:
    """Return the first metric that stored answers suffice for.

    Raises:
        ConfigError: If there is none.
    """
    for metric in metrics:
        if (
            metric.inputs <= {"prediction", "placed"}
            and metric.unit == "percent"
            and not isinstance(metric, JudgedMetric)
        ):
            return metric
    names = ", ".join(metric.name for metric in metrics)
    raise ConfigError(
        f"flows.watch needs a metric of answers alone, such as em; received metric=[{names}]."
    )


def _describe_progress(num_answered: int, total: int, new: int, seconds: float) -> str:
    """Report the answered questions and the time left at the pace since the first look."""
    text = f"{num_answered:,} of {total:,} questions answered in all cells"
    if num_answered == total:
        return f"{text}."
    if not new:
        return f"{text}; none since this command began."
    return (
        f"{text}; {new:,} in {seconds / 60:.1f} minutes, about "
        f"{(total - num_answered) * seconds / new / 60:.0f} minutes left."
    )


def _describe_usage(cells: Sequence[WatchedCell]) -> str:
    """Report how many calls the answered questions request, and what the unshared ones cost."""
    num_requests = sum(watched.num_requested for watched in cells)
    if not all(watched.has_all_calls for watched in cells):
        return (
            "\nThis ledger lacks calls of finished cells, so that it is not known how many were "
            "shared."
        )
    if not num_requests:
        return ""
    tokens, dollars, request_keys = 0, 0.0, set[bytes]()
    for watched in cells:
        prices = watched.cell.spec.prices
        for usage in (usage for key, usage in watched.calls.items() if key not in request_keys):
            tokens += usage.tokens_in + usage.tokens_out
            if usage.role in prices:
                dollars += prices[usage.role].compute_cost(usage.tokens_in, usage.tokens_out)
        request_keys |= watched.calls.keys()
    shared_percentage = 100 * (1 - len(request_keys) / num_requests)
    money = f", ${dollars:.2f}" if dollars else ""
    return (
        f"\nThey request {num_requests:,} calls: {len(request_keys):,} made, "
        f"{shared_percentage:.0f} % shared; "
        f"{tokens:,} tokens{money}."
    )


STAGE = Stage(watch, grid=True, seeds="each", last_sweep="used")
main = make_main(STAGE)
if __name__ == "__main__":
    main()
