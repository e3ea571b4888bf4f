"""Jobs of the driver: a plan, and the set of engines that serves it."""

from pathlib import Path

import pytest

from winnow.driver.jobs import Job
from winnow.driver.run import Driver
from winnow.errors import ConfigError
from winnow.ledger.sqlite import SqliteStore
from winnow.protocols import build_engine_map
from winnow.records import Answer, Decoding, Passage
from winnow.requests import (
    Generate,
    Likelihood,
    Message,
    Plan,
    Search,
)
from winnow.testing import ScriptedReader, make_search


def _fetch(query: str) -> Plan[Answer]:
    """A plan that searches, and asks for what was found."""
    (pages,) = yield [Search(query, 1)]
    (reply,) = yield [Generate((Message("user", pages.passages[0].text),), Decoding())]
    return Answer(reply.text, unknown=False)


def test_sets_of_engines_share_a_driver(tmp_path: Path) -> None:
    """One reader serves the plans of two sets, whose searches go to engines of their own; a plan
    names its set.
    """
    reader = ScriptedReader(str.upper)
    found = {name: [Passage(name, "", f"{name} text")] for name in ("wiki", "news")}
    searches = {name: make_search(lambda _, name=name: found[name], name) for name in found}
    engines = {
        name: {**build_engine_map(reader), **build_engine_map(search)}
        for name, search in searches.items()
    }
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        driver = Driver(engines, ledger)
        jobs = [Job((name, n), _fetch("q"), name) for name in engines for n in range(2)]
        answers = {outcome.tag: outcome.result.text for outcome in driver.run(jobs)}
        assert answers == {(name, n): f"{name.upper()} TEXT" for name in engines for n in range(2)}
        assert len(driver.engines) == 3
        assert (driver.stats.executed, driver.stats.merged) == (4, 4)
        with pytest.raises(
            ConfigError,
            match=r"requested Likelihood .* serves only Generate \(reader\), Search \(search\)\.",
        ):
            list(driver.run([Job(1, score_nothing(), "wiki")]))
        judged = {"plain": engines["wiki"], "judged": build_engine_map(reader, "judge")}
        with pytest.raises(ConfigError, match=r"serves only Generate \(judge\)\."):
            list(Driver(judged, ledger).run([Job(1, score_nothing(), "judged")]))
        with pytest.raises(ConfigError, match="the driver has"):
            list(driver.run([Job(1, _fetch("q"), "web")]))


def score_nothing() -> Plan[Answer]:
    """A plan that no scripted reader serves."""
    yield [Likelihood((), "x")]
    return Answer("", unknown=True)
