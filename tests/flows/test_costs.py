"""Costs of a run, and answers whose calls have changed."""

from pathlib import Path

import pytest

from flows import calls
from flows.project.engines import list_prices
from flows.project.runs import _build_cost_row, describe_usage
from flows.settings.door import compose
from winnow.driver.stats import RunStats
from winnow.identity.code import get_ledger_identity
from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.predictions import Price
from winnow.protocols import build_engine_map
from winnow.readers.openai_chat import OpenAIReader
from winnow.records import Answer, Decoding
from winnow.requests import Generate, Generation, Message, Plan, Usage
from winnow.sweeps.dry_run import CostEstimate
from winnow.testing import make_sample


def test_the_cost_of_a_role_is_the_sum_over_its_models() -> None:
    """Each by its own price; a model without one costs nothing, and other roles count apart."""
    stats = RunStats()
    stats.usage = {
        ("reader", "a"): Usage(1_000_000, 10),
        ("reader", "b"): Usage(2_000_000, 20),
        ("reader", "free"): Usage(5, 5),
        ("judge", "a"): Usage(3_000_000, 30),
        ("rewriter", "free"): Usage(7, 8),
    }
    text = describe_usage(stats, {"a": Price(1.0, 0.0), "b": Price(10.0, 0.0), "free": Price()})
    assert "The reader read 3000005 tokens and wrote 35, 21.0000 dollars." in text
    assert "The judge read 3000000 tokens and wrote 30, 3.0000 dollars." in text
    assert text.endswith("The rewriter read 7 tokens and wrote 8.")


def test_prices_are_by_the_identity_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the revision of the engine's code, as the driver counts them."""
    monkeypatch.setattr(OpenAIReader, "revision", 7, raising=False)
    price = Price(1.0, 2.0)
    engine = OpenAIReader("m", "m", "http://127.0.0.1:1/v1", price=price)
    identity = get_ledger_identity(engine)
    assert identity != engine.identity
    assert list_prices([build_engine_map(engine, "reader")]) == {identity: price}


def test_a_run_that_costs_nothing_has_a_price() -> None:
    """All its calls are in the ledger."""
    estimate = CostEstimate((1, 1), (1, 1), (0, 0), (0, 0), (0.0, 0.0), None, is_open=False)
    for is_priced, text in ((True, "0.0000 to 0.0000"), (False, "no price known")):
        row = _build_cost_row("reader", "m", estimate, is_priced=is_priced)
        assert row["dollars, about"] == text


def test_answers_that_their_calls_no_longer_give_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their calls were made again; a judgement has no stored answer, and keeps its calls."""
    request = Generate((Message("user", "x"),), Decoding())

    def plan() -> Plan[Answer]:
        (reply,) = yield [request]
        return Answer(reply.text, unknown=False)

    same, other = (make_sample(text).prediction for text in ("new", "former"))
    key = compute_request_key("m", request)
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        ledger.put("m", [(key, request, Generation("new"), 1.0)])
        for prediction, expected in ((same, 0), (other, 1), (None, 0)):
            monkeypatch.setattr(
                calls,
                "_iter_plans",
                lambda *_, one=prediction: [(plan(), {"reader": "m"}, (), one)],
            )
            assert calls.collect_keys(compose([]), [], ledger) == ({key}, expected)
