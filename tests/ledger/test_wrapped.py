"""A wrapped ledger does what the ledger does."""

from pathlib import Path

from winnow.ledger.sqlite import SqliteStore
from winnow.ledger.wrapped import WrappedStore
from winnow.records import Decoding
from winnow.requests import Generate, Generation, Message


def test_every_method_is_that_of_the_ledger(tmp_path: Path) -> None:
    """Storing, looking up, counting, claiming and deleting reach the file, which another ledger
    reads.
    """
    first, second = b"1" * 32, b"2" * 32
    request = Generate((Message("user", "a"),), Decoding())
    with WrappedStore(SqliteStore(tmp_path / "ledger.sqlite")) as store:
        store.put("engine", [(first, request, Generation("x"), 2.0)])
        assert store.get([first, second]) == {first: Generation("x")}
        assert (
            len(store),
            store.compute_mean_seconds("engine"),
            store.compute_mean_seconds("other"),
        ) == (1, 2.0, None)
        assert store.claim([first, second]) == {second}
        with SqliteStore(tmp_path / "ledger.sqlite") as other:
            assert len(other) == 1
            assert len(store.find_owners([second])) == 1
            assert other.claim([second]) == set()
            store.release([second])
            assert other.claim([second]) == {second}
        store.delete([first])
        assert store.get([first]) == {}
    with SqliteStore(tmp_path / "ledger.sqlite") as ledger:
        assert len(ledger) == 0
