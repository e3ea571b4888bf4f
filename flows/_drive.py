"""Runs plans through the driver with the configured reader, the ledger and a progress bar."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from omegaconf import DictConfig

from flows import _artifacts
from flows._build import build
from flows._prompts import open_prompt
from flows._summary import progress
from winnow.driver import WINDOW, Driver, Job, Tally
from winnow.forecast import forecast
from winnow.ledger import Ledger
from winnow.protocols import Engine, Estimator, Strategy
from winnow.records import Decoding, Outcome, Price


def open_reader(cfg: DictConfig, path: str, name: str | None = None, *, check: bool = True) -> Engine:
    """Return the reader of the weights or the remote model `path`; what it needs is checked now, and loaded when asked."""
    priced = {"price": price_of(cfg)} if "budget" in cfg.reader.engine else {}
    reader: Engine = build(cfg.reader.engine, path=path, name=name or cfg.reader.name, **priced)
    if check:
        reader.check()
    return reader


def price_of(cfg: DictConfig) -> Price:
    """Return the reader's price from the table of conf/prices; zero for a model that is not in it."""
    factor = float(cfg.reader.get("price_factor", 1.0))
    found = next((row for row in cfg.prices.table if row.model == cfg.reader.base), None)
    return Price() if found is None else Price(factor * float(found.input), factor * float(found.output))


def open_strategy(cfg: DictConfig) -> Strategy:
    """Return the strategy of a job, with its prompt and decoding."""
    decoding: Decoding = build(cfg.decoding)
    strategy: Strategy = build(cfg.strategy.plan, prompt=open_prompt(cfg), decoding=decoding)
    return strategy


def open_estimator(cfg: DictConfig) -> Estimator:
    """Return the estimator; one that reads pairs gets the weights of its training, or its base's."""
    estimator: Estimator
    if "base" in cfg.estimator:
        estimator = build(cfg.estimator.engine, path=_artifacts.estimator_path(cfg))
    else:
        estimator = build(cfg.estimator.engine)
    return estimator


def open_ledger(cfg: DictConfig) -> Ledger:
    """Return the ledger of the settings, a context manager."""
    return Ledger(cfg.paths.ledger)


def drive(engine: Engine, ledger: Ledger, jobs: Iterable[Job], total: int, label: str) -> Iterator[tuple[Outcome, Tally]]:
    """Yield each outcome with the driver's running tally; the engine is closed at the end."""
    with progress(label, total) as advance:
        done = 0

        def tick(tally: Tally) -> None:
            nonlocal done
            text = f"{tally.made} calls made, {tally.from_ledger + tally.merged} shared"
            advance(tally.plans - done, text)
            done = tally.plans

        window = max(WINDOW, engine.capacity)  # a batch of 50,000 needs as many plans under way
        driver = Driver(dict.fromkeys(engine.serves, engine), ledger, window=window, tick=tick)
        try:
            for outcome in driver.run(jobs):
                yield outcome, driver.tally
        finally:
            engine.close()


def foretell(cfg: DictConfig, path: str, jobs: Callable[[], Iterable[Job]]) -> dict[str, Any]:
    """Return what the jobs would ask, cost and take, as a row of a dry run's summary; needs neither key nor weights."""
    reader = open_reader(cfg, path, check=False)
    with open_ledger(cfg) as ledger:
        seen = forecast(jobs, reader, ledger, price_of(cfg))
    low, high = seen.money
    return {
        "reader": reader.identity,
        "calls of a script a cell": _span(seen.asked),
        "in the ledger": _span(seen.stored),
        "to be made": _span(seen.missing),
        "prompt tokens, about": _span(seen.tokens),
        "dollars, about": f"{low:.4f} to {high:.4f}" if high else "no price known",
        "seconds, about": "no earlier call to go by" if seen.seconds is None else _span([round(s) for s in seen.seconds]),
    }


def _span(bounds: Sequence[int]) -> str:
    low, high = bounds
    return f"{low}" if low == high else f"{low} to {high}"
