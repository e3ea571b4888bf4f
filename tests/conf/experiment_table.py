"""The table of what the cells of every experiment resolve to, which is compared with a committed
one.

PYTHONPATH=. python tests/conf/experiment_table.py    # writes it; look at the difference first
"""

import csv
import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from flows.settings.composition import list_options
from flows.settings.door import compose
from flows.settings.typed import Settings
from winnow.artifacts.provenance import flatten

TABLE = Path(__file__).parents[1] / "data" / "experiments.csv"
SETTINGS = (
    "strategy.name", "k", "placement.name", "placement.rule.order", "placement.rule.share",
    "distractors.name", "rank_by", "weighting.by", "corpus.name", "dataset.name",
    "dataset.split.all", "dataset.split.test", "dataset.split.dev", "retriever.name", "depth",
    "reader.name", "reader.base", "reader.tuned", "decoding.max_new_tokens", "decoding.temperature",
    "decoding.samples", "training.name", "training.mix.examples", "training.mix.max_words",
    "training.evaluation.split", "training.evaluation.limit", "training.teacher.reader.base",
    "training.settings.epochs", "training.settings.lora_rank", "training.settings.quantize",
    "estimator.name", "joint.name", "joint.data.contexts", "joint.settings.learning_rate",
    "sweep.split", "sweep.limit", "sweep.closed_book_filter", "closed_book.limit",
    "report.paper.part", "report.paper.dataset", "report.paper.model",
)  # fmt: skip
"""Settings by which a cell may differ from what a paper says."""


@cache
def compose_experiment(name: str) -> Settings:
    """Return the settings of an experiment, which several tests read."""
    return compose([f"experiment={name}"])


def list_plain_cells(job: Settings) -> list[dict[str, Any]]:
    """Return the settings of each cell that have a value."""
    return [
        {name: value for name, value in cell.plain.items() if value is not None}
        for cell in job.cells
    ]


def iter_rows() -> Iterator[dict[str, str]]:
    """Yield a row for each distinct combination of the settings in the cells of each experiment."""
    for name in list_options("experiment"):
        known = set()
        for cell in compose_experiment(name).cells:
            found = flatten(cell.plain)
            values = tuple(_format(found.get(setting, "")) for setting in SETTINGS)
            if values not in known:
                known.add(values)
                yield {"experiment": name, **dict(zip(SETTINGS, values, strict=True))}


def _format(value: object) -> str:
    return "null" if value is None else str(value)


def format_table() -> str:
    """Return the table as CSV, without settings that are empty in every row."""
    rows = list(iter_rows())
    text = io.StringIO()
    writer = csv.DictWriter(
        text,
        ["experiment", *(name for name in SETTINGS if any(row[name] for row in rows))],
        lineterminator="\n",
    )
    writer.writeheader()
    writer.writerows({name: row[name] for name in writer.fieldnames} for row in rows)
    return text.getvalue()


if __name__ == "__main__":
    TABLE.write_text(format_table(), encoding="utf-8")
