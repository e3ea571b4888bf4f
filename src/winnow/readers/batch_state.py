"""State files of batches: what was sent in each, so that the next run continues a paid batch."""

import dataclasses
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from winnow.artifacts.files import hold_lock, write_texts
from winnow.artifacts.owners import get_process_name, has_ended
from winnow.errors import ReaderError
from winnow.keys import find_control_tokens
from winnow.records import Decoding
from winnow.requests import Generate


class PackedRequests(Mapping[str, Generate]):
    """Requests by key as a state file holds them, which become requests when they are used."""

    def __init__(self, packed: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep JSON values that `pack_request` returned, by key."""
        self.packed = packed

    def __getitem__(self, key: str) -> Generate:
        """Build the request of a key."""
        return unpack_request(self.packed[key])

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter(self.packed)

    def __len__(self) -> int:
        return len(self.packed)


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch that was sent, or was about to be sent when its process ended.

    Attributes:
        path: Its state file.
        name: Name by which the server can find it.
        id: Id that the server gave to it, or None if it is not known.
        requests: Its requests by key.
    """

    path: Path
    name: str
    id: str | None
    requests: PackedRequests


@dataclass(frozen=True)
class StateFiles:
    """State files of batches that this process polls because it sent them or their sender ended.

    Args:
        folder: Folder of the files, which several processes may share.
        engine: Identity of the engine whose batches they are.
        silence: Seconds without a poll after which a process on another host counts as ended.
    """

    folder: Path
    engine: str
    silence: float

    def add(self, requests: Mapping[str, Generate]) -> SentBatch:
        """Write the state of a batch that is about to be sent."""
        name = f"winnow-{time.time_ns()}"
        packed_requests = {key: pack_request(request) for key, request in requests.items()}
        batch = SentBatch(self.folder / f"{name}.json", name, None, PackedRequests(packed_requests))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(batch)
        return batch

    def save_id(self, batch: SentBatch, batch_id: str) -> SentBatch:
        """Write the id that the server gave to a batch, and return the batch with it."""
        batch = dataclasses.replace(batch, id=batch_id)
        self._write(batch)
        return batch

    def read(self) -> list[SentBatch]:
        """Return the batches in the order sent, and take over batches that nobody polls.

        Raises:
            ReaderError: If a file is damaged.
        """
        batches = []
        for path in sorted(self.folder.glob("*.json")):
            with suppress(FileNotFoundError):  # its process was given the results
                batch = self._take(path)
                if batch is not None:
                    batches.append(batch)
        return batches

    def read_other_keys(self) -> set[str]:
        """Return the keys of requests in batches that other processes poll, which are paid for."""
        keys: set[str] = set()
        for path in self.folder.glob("*.json"):
            with suppress(FileNotFoundError):
                batch, engine, owner = _parse(path)
                if engine == self.engine and owner != get_process_name():
                    keys |= batch.requests.keys()
        return keys

    def release(self) -> None:
        """Let other processes poll the batches of this one, which does not any more."""
        paths = list(self.folder.glob("*.json"))
        if not paths:
            return
        with hold_lock(self.folder / ".lock"):
            for path in paths:
                with suppress(FileNotFoundError):  # another process has just deleted it
                    batch, engine, owner = _parse(path)
                    if engine == self.engine and owner == get_process_name():
                        self._write(batch, owner="")

    def _write(self, batch: SentBatch, owner: str | None = None) -> None:
        """Write a state file, the only record of a batch that is paid for, atomically."""
        state = {
            "name": batch.name,
            "batch": batch.id,
            "requests": batch.requests.packed,
            "engine": self.engine,
            "owner": get_process_name() if owner is None else owner,
        }
        write_texts(self.folder, {batch.path.name: json.dumps(state)})

    def _take(self, path: Path) -> SentBatch | None:
        """Return a batch if it is, or now becomes, this process's; return None otherwise."""
        batch, engine, owner = _parse(path)
        if engine != self.engine:
            return None
        if owner == get_process_name():
            os.utime(path)  # for processes on other hosts
            return batch
        if not self._has_ended(owner, path):
            return None
        with hold_lock(self.folder / ".lock"):
            batch, _, owner = _parse(path)  # its process may have written the id before it ended
            if not self._has_ended(owner, path):
                return None
            self._write(batch)
        return batch

    def _has_ended(self, owner: str, path: Path) -> bool:
        """Return whether the process of a batch has ended, or polls it no more."""
        if not owner:
            return True
        ended = has_ended(owner)
        return time.time() - path.stat().st_mtime > self.silence if ended is None else ended


def _parse(path: Path) -> tuple[SentBatch, str, str]:
    """Return the batch in a state file, with its engine's identity and the name of its process."""
    try:
        state = json.loads(path.read_text())
        requests = PackedRequests(dict(state["requests"]))
        batch = SentBatch(path, str(state["name"]), state["batch"], requests)
        return batch, state["engine"], state["owner"]
    except (ValueError, TypeError, KeyError) as error:
        raise ReaderError(
            f"{path} is not the state of a batch ({type(error).__name__}). Restore the file, or "
            f"`rm {path}` to abandon its batch."
        ) from None


def pack_request(request: Generate) -> dict[str, Any]:
    """Convert a request to JSON values for a state file, with the passages that affect its key."""
    passages = tuple(filter(find_control_tokens, request.passages))
    packed_request: dict[str, Any] = to_builtins(replace(request, passages=passages, shorter=None))
    return packed_request


def unpack_request(packed: Mapping[str, Any]) -> Generate:
    """Convert the JSON values of a state file to a request."""
    request = convert(packed, Generate)
    # `convert` would make 1.0 of a temperature of 1, which has another key
    return replace(request, decoding=Decoding(**packed["decoding"]))
