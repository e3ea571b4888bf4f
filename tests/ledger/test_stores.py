"""Stores by URL."""

from pathlib import Path

import pytest

from winnow.errors import ConfigError
from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.stores import open_store
from winnow.records import Decoding
from winnow.requests import Generate, Generation


def test_a_path_and_its_urls_open_one_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain, absolute and relative name the same file."""
    monkeypatch.chdir(tmp_path)
    with open_store("l.sqlite") as store:
        store.put("m", [(b"k", Generate((), Decoding()), Generation("x"), 0.0)])
    for url in (
        f"sqlite:///{tmp_path}/l.sqlite",
        "sqlite:///l.sqlite",
        str(tmp_path / "l.sqlite"),
    ):
        with open_store(url) as store:
            assert isinstance(store, SqliteStore)
            assert store.get([b"k"]) == {b"k": Generation("x")}


@pytest.mark.parametrize("url", ["mysql://host/name", "sqlite://l.sqlite"])
def test_other_urls_are_refused(url: str) -> None:
    """A scheme without an implementation, and two slashes."""
    with pytest.raises(ConfigError, match=r"a ledger's URL is sqlite:///PATH"):
        open_store(url)
