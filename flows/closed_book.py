"""Find out which questions the reader answers without any passage; sweeps go on with the rest.

python -m flows.closed_book
python -m flows.closed_book reader=smollm2 closed_book.limit=null
python -m flows.closed_book reader=openai reader.base=gpt-4o-mini dry_run=true
"""

from collections.abc import Iterator, Sequence

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from flows._drive import drive, foretell, open_ledger, open_reader
from flows._entry import entry
from flows._summary import Summary
from flows._track import track
from winnow import store
from winnow.closed_book import closed_book_rows
from winnow.driver import Job
from winnow.records import Question
from winnow.strategies.closed_book import ClosedBook
from winnow.tables import questions_of


def closed_book(configs: Sequence[DictConfig]) -> Summary:
    """Ask for each job and count what is kept."""
    if configs[0].dry_run:
        rows = [foretell(cfg, _artifacts.reader_path(cfg), lambda cfg=cfg: _jobs(cfg, _asked(cfg))) for cfg in configs]  # type: ignore[misc]
        return Summary("Dry run: nothing was asked", rows)
    shown = []
    for cfg in configs:
        made = _artifacts.closed_book(cfg)
        if not made.done:
            _write(cfg, made)
        table = store.read(made.folder / "closed_book.parquet", store.CLOSED_BOOK).to_pylist()
        kept = sum(row["kept"] for row in table)
        shown.append({"closed book": made.folder, "asked": len(table), "answered": len(table) - kept, "kept": kept})
    return Summary("Closed-book filter", shown)


def _write(cfg: DictConfig, made: _artifacts.Artifact) -> None:
    asked = _asked(cfg)
    reader = open_reader(cfg, _artifacts.reader_path(cfg))
    with open_ledger(cfg) as ledger:
        driven = drive(reader, ledger, _jobs(cfg, asked), len(asked), "asking without passages")
        answers = {outcome.tag: outcome.answer.text for outcome, _ in driven}
    found = list(closed_book_rows((question, answers[n]) for n, question in enumerate(asked)))
    with track(cfg, "closed_book", made, {"k": 0, "strategy": "closed_book"}) as run:
        run.metrics({"em": sum(r["em"] for r in found) / len(found), "kept": sum(r["kept"] for r in found)})
    made.finish(store.write(made.folder / "closed_book.parquet", store.CLOSED_BOOK, found))


def _asked(cfg: DictConfig) -> Sequence[Question]:
    found = questions_of(_artifacts.questions(cfg).need().folder / "questions.parquet", [cfg.closed_book.split])
    return found[: cfg.closed_book.limit]


def _jobs(cfg: DictConfig, asked: Sequence[Question]) -> Iterator[Job]:
    strategy = ClosedBook(build(cfg.prompt), build(cfg.closed_book.decoding))
    return (Job(n, strategy.plan(question, ())) for n, question in enumerate(asked))


main = entry(closed_book, dry_run=True)
if __name__ == "__main__":
    main()
