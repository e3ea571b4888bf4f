"""Size, prune, export, import and merge."""

from pathlib import Path

import pytest

from tests.ledger.filled import filled
from winnow.errors import LedgerError
from winnow.ledger import tools
from winnow.ledger.sqlite import SqliteStore


def test_size_by_engine(tmp_path: Path) -> None:
    """Calls, tokens and seconds are summed; the largest comes first."""
    filled(tmp_path / "l.sqlite", "small", "a")
    filled(tmp_path / "l.sqlite", "large", "bcd")
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        first, second = tools.summarize_calls(ledger)
    assert (
        first.engine,
        first.kind,
        first.calls,
        first.tokens_in,
        first.tokens_out,
        first.seconds,
    ) == (("large", "Generate", 3, 9, 6, 1.5))
    assert second.calls == 1


def test_prune_by_engine_and_by_time(tmp_path: Path) -> None:
    """What was asked for goes, the rest stays; without a condition nothing is deleted."""
    filled(tmp_path / "l.sqlite", "old", "ab")
    filled(tmp_path / "l.sqlite", "new", "c")
    with SqliteStore(tmp_path / "l.sqlite") as ledger:
        assert tools.prune_calls(ledger, engines=["old"], before=0.0) == 0
        assert tools.prune_calls(ledger, engines=["old"]) == 2
        assert tools.prune_calls(ledger, before=4e9) == 1
        assert len(ledger) == 0
        with pytest.raises(LedgerError, match="every call"):
            tools.prune_calls(ledger)
