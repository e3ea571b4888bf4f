"""Draw up the report of a sweep: one self-contained HTML page and the same tables as Markdown.

python -m flows.report experiment=quick_start
python -m flows.report -m strategy=concatenation,post_fusion k=1,5,10 report.out=reports/mine
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from omegaconf import DictConfig

from flows import _artifacts
from flows._cells import labels, predictions, varying
from flows._entry import entry
from flows._grid import expand
from flows._summary import Summary
from winnow import store
from winnow.errors import ConfigError
from winnow.metrics.cells import measure
from winnow.models import resolve_dtype
from winnow.reports.cells import CellResult
from winnow.reports.page import report as draw_up
from winnow.reports.paper import load
from winnow.tables import questions_of


def report(configs: Sequence[DictConfig]) -> Summary:
    """Write the report of the cells of all jobs; every cell must have been swept."""
    cfg, cells = configs[0], expand(configs)
    results = [_result(cell, setting) for cell, setting in zip(cells, varying(cells), strict=True)]
    paper = cfg.report.paper
    part = load(paper.name, paper.part, paper.dataset, paper.model) if paper else None
    made = draw_up(
        f"Winnow: {cfg.sweep.name}",
        results,
        _made_by(cells),
        cfg.report.seed,
        by=cfg.report.by,
        part=part,
        counted=_counted(cells[0]),
    )
    out = Path(cfg.report.out)
    for name, text in (
        ("report.html", made.html()),
        ("report.md", made.markdown()),
        ("metrics.json", _metrics(results, cfg.report.seed)),
    ):
        with store.writing(out / name, needed=2**24) as partial:
            partial.write_text(text, encoding="utf-8")
    table = made.tables[0]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    return Summary(f"{made.title}: {table.over}", rows, f"Report: {out / 'report.html'}")


def _result(cell: DictConfig, setting: str) -> CellResult:
    rows = predictions(cell)
    if cell.report.by:
        types = _types(cell)
        rows = [{**row, "type": types[row["question_id"]]} for row in rows]
    named = labels(cell)
    by = {"rank_by": str(cell.rank_by), "weigh_by": str(cell.weigh.by)}
    asked = f"{_artifacts.questions(cell).folder.name}/{cell.sweep.split}"
    return CellResult(
        named["strategy"], named["k"], named["gold"], rows, setting, int(cell.decoding.samples), **by, asked=asked
    )


def _types(cell: DictConfig) -> dict[str, str]:
    """Return each question's type: a field of its `meta`."""
    name = str(cell.report.by)
    asked = questions_of(_artifacts.questions(cell).need().folder / "questions.parquet", [cell.sweep.split])
    metas = {q.question_id: json.loads(q.meta) for q in asked}
    if not any(name in meta for meta in metas.values()):
        known = sorted({key for meta in metas.values() for key in meta})
        raise ConfigError(f"report.by={name!r}: the questions of {cell.dataset.name} have {known or 'no types'}.")
    return {question_id: str(meta.get(name, "none")) for question_id, meta in metas.items()}


def _counted(cell: DictConfig) -> tuple[int, int] | None:
    """Return how many questions there were before and after the closed-book filter."""
    if not cell.sweep.closed_book_filter:
        return None
    path = _artifacts.closed_book(cell).need().folder / "closed_book.parquet"
    kept = store.read(path, store.CLOSED_BOOK, columns=["question_id", "kept"]).to_pylist()
    return len(kept), sum(row["kept"] for row in kept)


def _metrics(results: Sequence[CellResult], seed: int) -> str:
    body = [
        {
            "strategy": c.strategy, "k": c.k, "gold": c.gold, "samples": c.samples, "setting": c.setting,
            **{name: [e.mean, e.low, e.high] for name, e in measure(c.rows, seed).items() if e.n},
        }
        for c in results
    ]  # fmt: skip
    return json.dumps(body, indent=1) + "\n"


def _made_by(cells: Sequence[DictConfig]) -> Mapping[str, str]:
    cfg = cells[0]
    reader = _artifacts.reader_identity(cfg)
    versions = ", ".join(f"{name} {number}" for name, number in store.versions().items())
    return {
        "Data": f"corpus {cfg.corpus.name}, questions {cfg.dataset.name}, split {cfg.sweep.split}"
        + (", without those that the reader answers closed-book" if cfg.sweep.closed_book_filter else ""),
        "Retriever": f"{cfg.retriever.name}, ranked by {cfg.rank_by}",
        "Reader": f"{cfg.reader.name} ({reader}, {_precision(cfg)})",
        "Seeds": f"split {cfg.dataset.split.get('seed', 'none')}, training {cfg.training.seed}, bootstrap {cfg.report.seed}",
        "Code": f"revision {store.git_revision()}; {versions}",
        "Cells": ", ".join(_artifacts.cell(cell).folder.name for cell in cells),
    }


def _precision(cfg: DictConfig) -> str:
    engine = cfg.reader.engine
    return resolve_dtype(engine.dtype, engine.device) if "dtype" in engine else str(engine.base_url)


main = entry(report, grid=True)
if __name__ == "__main__":
    main()
