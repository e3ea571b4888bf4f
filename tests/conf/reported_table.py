"""The table of the papers' values that each cell of an experiment has beside it, which is compared
with a committed one.

PYTHONPATH=. python tests/conf/reported_table.py    # writes it; look at the difference first
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from flows.project.artifacts import Project
from flows.project.labels import build_labels
from flows.settings.composition import list_options
from tests.conf.experiment_table import compose_experiment
from winnow.reports.reported import find_value, load_paper_part

TABLE = Path(__file__).parents[1] / "data" / "reported.csv"
COLUMNS = (
    "experiment",
    "part",
    "dataset",
    "model",
    "strategy",
    "k",
    "gold",
    "samples",
    "rank_by",
    "weight_by",
    "metric",
    "value",
)


def iter_rows() -> Iterator[tuple[str, ...]]:
    """Yield a row for each metric of the paper's table and each cell, with an empty value if the
    paper has none for it.
    """
    for name in list_options("experiment"):
        cfg = compose_experiment(name)
        if not cfg.report.paper:
            continue
        paper = cfg.report.paper
        part = load_paper_part(paper.name, paper.part, paper.dataset, paper.model)
        for cell in cfg.cells:
            labels = build_labels(cell, Project(cell))
            where = (
                labels.strategy,
                labels.k,
                labels.gold,
                labels.samples,
                labels.rank_by,
                labels.weight_by,
            )
            for metric in part.metrics:
                value = find_value(part.reported, metric, labels)
                values = (
                    name,
                    paper.part,
                    paper.dataset,
                    paper.model,
                    *where,
                    metric,
                    value.format() if value else "",
                )
                yield tuple(map(str, values))


def format_table() -> str:
    """Return the table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(dict.fromkeys(iter_rows()))
    return text.getvalue()


if __name__ == "__main__":
    TABLE.write_text(format_table(), encoding="utf-8")
