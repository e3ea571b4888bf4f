"""What a cell is about: its questions, its labels and settings, its predictions; for the sweep and the report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from flows import _artifacts
from flows._artifacts import Artifact
from flows._drive import price_of
from winnow import store
from winnow.errors import ConfigError
from winnow.metrics.cells import Row, priced
from winnow.records import Price, Question
from winnow.tables import questions_of


def choose_questions(cfg: DictConfig) -> list[Question]:
    """Return the questions of a sweep: of its split, kept by the closed-book filter, the first `limit`."""
    found = questions_of(_artifacts.questions(cfg).need().folder / "questions.parquet", [cfg.sweep.split])
    if cfg.sweep.closed_book_filter and not unfiltered(cfg):
        path = _artifacts.closed_book(cfg).need().folder / "closed_book.parquet"
        rows = store.read(path, store.CLOSED_BOOK, columns=["question_id", "kept"]).to_pylist()
        kept = {row["question_id"]: row["kept"] for row in rows}
        known = [q for q in found if kept.get(q.question_id)]
        unasked = sum(q.question_id not in kept for q in found)
        if unasked and (cfg.sweep.limit is None or len(known) < cfg.sweep.limit):
            raise ConfigError(
                f"sweep.limit={cfg.sweep.limit} asks for more than the closed-book filter knows: it kept {len(known)}, "
                f"{unasked} of split {cfg.sweep.split!r} were not asked. Raise closed_book.limit (null is all), set "
                "closed_book.split to the same split, or switch the filter off with sweep.closed_book_filter=false."
            )
        found = known
    if not found:
        raise ConfigError(f"No question of split {cfg.sweep.split!r} is left to sweep.")
    return found[: cfg.sweep.limit]


def unfiltered(cfg: DictConfig) -> bool:
    """Tell whether a dry run comes before the closed-book stage, and so has to reckon with every question."""
    return bool(cfg.dry_run and cfg.sweep.closed_book_filter and not _artifacts.closed_book(cfg).done)


def settings(cell: DictConfig) -> dict[str, str]:
    """Return what else can tell cells apart; reports name those that vary."""
    hot = cell.decoding.temperature > 0
    decoding = f"T={cell.decoding.temperature}, {cell.decoding.samples} samples" if hot else "greedy"
    ranked, weighed = (f"{by} {cell.estimator.name}" if by == "estimator" else by for by in (cell.rank_by, cell.weigh.by))
    return {
        "dataset": cell.dataset.name,
        "split": cell.sweep.split,
        "retriever": cell.retriever.name,
        "ranked by": ranked,
        "weighed by": weighed,
        "reader": cell.reader.name,
        "decoding": decoding,
    }


def varying(cells: Sequence[DictConfig]) -> list[str]:
    """Return, for each cell, the settings that tell it from others, as "retriever=dense"; "" where none does."""
    every = [settings(cell) for cell in cells]
    names = [name for name in every[0] if len({one[name] for one in every}) > 1] if every else []
    return [", ".join(f"{name}={one[name]}" for name in names) for one in every]


def predictions(cell: DictConfig) -> list[Row]:
    """Return the rows of a finished cell, with what each question cost where the reader has a price."""
    rows = store.read(predictions_file(_artifacts.cell(cell).need()), store.PREDICTIONS).to_pylist()
    price = price_of(cell)
    return list(rows) if price == Price() else priced(rows, price)


def predictions_file(made: Artifact) -> Path:
    """Return where a cell's predictions lie."""
    return made.folder / "predictions.parquet"


def labels(cell: DictConfig) -> dict[str, Any]:
    """Return what names a cell in tables and on MLflow's compare page."""
    order = cell.placement.rule.get("order")
    gold = f"{cell.placement.name}_{order}" if isinstance(order, int) else cell.placement.name
    return {"strategy": cell.strategy.name, "k": int(cell.k), "gold": gold}
