"""Answer questions in every cell of a sweep: strategies, k and placements; each distinct call is made once.

python -m flows.sweep strategy=post_fusion k=5
python -m flows.sweep -m strategy=concatenation,post_fusion k=1,5,10
python -m flows.sweep -m k=5,10,20 dry_run=true
python -m flows.sweep experiment=quick_start
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from flows import _artifacts
from flows._artifacts import Artifact
from flows._build import build
from flows._cells import choose_questions, labels, predictions, predictions_file, unfiltered, varying
from flows._drive import drive, foretell, open_ledger, open_reader, open_strategy, price_of
from flows._entry import entry
from flows._grid import expand
from flows._summary import Summary
from flows._track import track, tracker
from winnow import store
from winnow.driver import Job, Tally
from winnow.errors import ConfigError
from winnow.metrics.cells import Row, measure, prediction
from winnow.metrics.intervals import Estimate
from winnow.placement import Placement
from winnow.protocols import Strategy
from winnow.records import Placed, Price, Question
from winnow.tables import Rankings
from winnow.weights import Weighing


@dataclass
class Cell:
    """One setting at work: its config, artifact, strategy, questions and rankings."""

    cfg: DictConfig
    made: Artifact
    strategy: Strategy
    placement: Placement
    weighing: Weighing
    questions: Sequence[Question]
    rankings: Rankings
    short: int
    """Questions with fewer than k retrieved contexts; they are shown what there is."""
    placed: dict[str, Placed] = field(default_factory=dict)
    """Contexts of the questions that are under way."""

    def start(self, question: Question) -> Job:
        """Place a question's contexts and start its plan."""
        contexts = self.rankings.contexts(question) if self.cfg.k else ()
        placed = self.placement.place(question, contexts, int(self.cfg.k))
        placed = replace(placed, contexts=self.weighing.weigh(placed.contexts))
        self.placed[question.question_id] = placed
        return Job((self.made.key, question.question_id), self.strategy.plan(question, placed.contexts))


def sweep(configs: Sequence[DictConfig]) -> Summary:
    """Run all cells of all jobs that are not done, a driver a reader, and log each to MLflow."""
    cells = expand(configs)
    for cfg in cells:
        if cfg.k > cfg.depth:
            raise ConfigError(f"k={cfg.k} is larger than the stored rankings (depth={cfg.depth}). Lower k, or raise depth.")
        if _artifacts.needs_relevance(cfg) and cfg.score.depth is not None and cfg.k > cfg.score.depth:
            raise ConfigError(
                f"k={cfg.k} is larger than what the estimator scores (score.depth={cfg.score.depth}). Lower k, or set "
                "score.depth=null here and for `python -m flows.score`."
            )
    opened = _open(cells)
    by_reader: dict[tuple[str, str], list[Cell]] = {}
    for cell in opened:
        path = _artifacts.reader_path(cell.cfg)
        by_reader.setdefault((path, str(cell.cfg.reader.engine)), []).append(cell)
    if configs[0].dry_run:
        foretold = [_forecast(path, group) for (path, _), group in by_reader.items()]
        return Summary("Dry run: nothing was asked", foretold, _UNFILTERED if unfiltered(configs[0]) else "")
    told = [_run(path, due) for (path, _), group in by_reader.items() if (due := [c for c in group if not c.made.done])]
    runs, shown = tracker(configs[0]), []
    for cell, setting in zip(opened, varying([cell.cfg for cell in opened]), strict=True):
        rows = predictions(cell.cfg)
        found = measure(rows)
        if not runs.has_run(config_hash=cell.made.key, sweep=cell.cfg.sweep.name):
            _log(cell, setting, rows, found, runs)
        shown.append(_row(cell, setting, rows, found))
    return Summary(f"Sweep {configs[0].sweep.name}, 95 % intervals", shown, "\n".join(told) or _NOTHING)


def _open(cells: Iterable[DictConfig]) -> list[Cell]:
    """Load what the cells need, each ranking once for all cells that share it."""
    asked: dict[str, list[Question]] = {}
    ranked: dict[str, Rankings] = {}
    opened: dict[str, Cell] = {}
    for cfg in cells:
        chosen = store.key_of(_artifacts.sweep_questions(cfg))
        if chosen not in asked:
            asked[chosen] = choose_questions(cfg)
        folder = _artifacts.retrieval(cfg).need().folder
        needed = _artifacts.needs_relevance(cfg)
        relevance = _artifacts.relevance(cfg).need().folder / "relevance.parquet" if needed else None
        rerank = cfg.rank_by == "estimator"
        which = f"{chosen}/{folder}/{relevance}/{rerank}"
        if which not in ranked:
            ranked[which] = Rankings(folder, asked[chosen], relevance, rerank=rerank)
        short = ranked[which].shorter_than(cfg.k)
        made = _artifacts.cell(cfg)
        rules = build(cfg.placement.rule), build(cfg.weigh)
        cell = Cell(cfg, made, open_strategy(cfg), *rules, asked[chosen], ranked[which], short)
        opened.setdefault(made.key, cell)
    return list(opened.values())


def _jobs(cells: Sequence[Cell]) -> Iterator[Job]:
    """Yield the plans question by question, so that cells which share calls are under way together."""
    for row in itertools.zip_longest(*(cell.questions for cell in cells)):
        for cell, question in zip(cells, row, strict=True):
            if question is not None:
                yield cell.start(question)


def _run(path: str, cells: Sequence[Cell]) -> str:
    """Carry out the cells, write each one's predictions when its last question is answered, and tell what it took."""
    by_key = {cell.made.key: cell for cell in cells}
    by_id = {key: {q.question_id: q for q in cell.questions} for key, cell in by_key.items()}
    writers = {key: store.Appender(predictions_file(cell.made), store.PREDICTIONS) for key, cell in by_key.items()}
    reader = open_reader(cells[0].cfg, path)
    tally = Tally()
    left = {key: len(cell.questions) for key, cell in by_key.items()}
    total = sum(left.values())
    with open_ledger(cells[0].cfg) as ledger:
        for outcome, tally in drive(reader, ledger, _jobs(cells), total, "sweeping"):  # noqa: B007 (the last tally is told)
            key, question_id = cast("tuple[str, str]", outcome.tag)
            placed = by_key[key].placed.pop(question_id)
            writers[key].add(_row_of(prediction(by_id[key][question_id], placed, outcome)))
            left[key] -= 1
            if not left[key]:
                by_key[key].made.finish(writers[key].finish([q.question_id for q in by_key[key].questions]))
    return _told(tally, price_of(cells[0].cfg))


def _row_of(row: Any) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(row).items()}


def _log(cell: Cell, setting: str, rows: Sequence[Row], found: Mapping[str, Estimate], runs: Any) -> None:
    known = {name: one for name, one in found.items() if one.n}
    values = {name: one.mean for name, one in known.items()}
    values |= {f"{name}_{end}": getattr(one, end) for name, one in known.items() for end in ("low", "high")}
    values |= {
        "questions": float(len(rows)),
        "short_rankings": float(cell.short),
        "truncated_passages": float(sum(r["truncated_passages"] for r in rows)),
    }
    settings = {
        "rank_by": cell.cfg.rank_by,
        "weigh_by": cell.cfg.weigh.by,
        "decoding": OmegaConf.to_container(cell.cfg.decoding, resolve=True),
    }
    named = labels(cell.cfg)
    title = f"{named['strategy']} k={named['k']} {named['gold']} {setting}".strip()
    with track(cell.cfg, "sweep", cell.made, {**named, **settings}, runs, title) as run:
        run.metrics(values)
        run.file(predictions_file(cell.made))
        run.text(OmegaConf.to_yaml(cell.cfg, resolve=True), "config.yaml")


def _row(cell: Cell, setting: str, rows: Sequence[Row], found: Mapping[str, Estimate]) -> dict[str, Any]:
    return {
        **labels(cell.cfg),
        **({"setting": setting} if setting else {}),
        "n": len(rows),
        "EM": found["em"].percent(),
        "F1": found["f1"].percent(),
        "%Unk": found["unk"].percent(),
        "%NM": found["nm"].percent(),
        "tokens in": found["tokens_in"].plain(),
        "cut": sum(r["truncated_passages"] for r in rows),
        "short": cell.short,
    }


_UNFILTERED = "The closed-book filter has not run yet: the first questions of the split were counted as they come."
_NOTHING = "Every cell was done already; no call was made."


def _told(tally: Tally, price: Price) -> str:
    cost = f", {price.of(tally.usage.tokens_in, tally.usage.tokens_out):.4f} dollars" if price != Price() else ""
    return (
        f"{tally.asked} calls asked for: {tally.made} made, {tally.merged} merged in flight, {tally.from_ledger} from the "
        f"ledger, {tally.by_others} by other processes; {100 * tally.shared:.0f} % cost nothing. The calls made read "
        f"{tally.usage.tokens_in} tokens and wrote {tally.usage.tokens_out}{cost}."
    )


def _forecast(path: str, cells: Sequence[Cell]) -> dict[str, Any]:
    due = [cell for cell in cells if not cell.made.done]
    counts = {"cells": len(cells), "done": len(cells) - len(due)}
    return counts | foretell(cells[0].cfg, path, lambda: _jobs(due) if due else ())


main = entry(sweep, grid=True, dry_run=True)
if __name__ == "__main__":
    main()
