"""A ledger with some calls."""

from pathlib import Path

from winnow.keys import compute_request_key
from winnow.ledger.sqlite import SqliteStore
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message, Usage


def filled(path: Path, engine: str, texts: str) -> None:
    """A ledger with a call a letter."""
    with SqliteStore(path) as ledger:
        for text in texts:
            request = Generate((Message("user", text),), Decoding())
            ledger.put(
                engine,
                [
                    (
                        compute_request_key(engine, request),
                        request,
                        Generation(text.upper(), usage=Usage(3, 2)),
                        0.5,
                    )
                ],
            )
