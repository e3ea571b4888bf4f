"""State files of batches: what was sent in each, so that the next run continues a batch that is
paid for.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from msgspec import structs

from winnow.artifacts.files import write_texts
from winnow.artifacts.owners import get_process_name, has_ended
from winnow.errors import ReaderError
from winnow.keys import find_control_tokens
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Message


@dataclass(frozen=True)
class StateFiles:
    """State files of the batches that this process polls, because it sent them or because their
    process has ended.

    Args:
        folder: Folder of the files, which several processes may share.
        engine: Identity of the engine whose batches they are.
        silence: Seconds without a poll after which a process on another host counts as ended.

    """

    folder: Path
    engine: str
    silence: float

    def read(self) -> dict[Path, Mapping[str, Any]]:
        """Return the states of the batches by their files, in the order in which they were sent.
        Batches that nobody polls become this process's.

        Raises:
            ReaderError: If a file is damaged.

        """
        states: dict[Path, Mapping[str, Any]] = {}
        for path in sorted(self.folder.glob("*.json")):
            with suppress(FileNotFoundError):  # its process was given the results
                state = self._take(path)
                if state is not None:
                    states[path] = state
        return states

    def read_other_keys(self) -> set[str]:
        """Return the keys of the requests in batches that other processes poll, which are paid
        for.
        """
        keys: set[str] = set()
        for path in self.folder.glob("*.json"):
            with suppress(FileNotFoundError):
                state = _parse(path)
                if state["engine"] == self.engine and not _is_own(state):
                    keys |= read_packed_requests(state).keys()
        return keys

    def write(self, path: Path, state: Mapping[str, Any]) -> None:
        """Write a state file, the only record of a batch that is paid for, atomically."""
        owned = {**state, "engine": self.engine, "owner": get_process_name()}
        write_texts(path.parent, {path.name: json.dumps(owned)})

    def _take(self, path: Path) -> Mapping[str, Any] | None:
        """Return the state of a batch that is this process's, also if it becomes it now, or None
        for another one.
        """
        state = _parse(path)
        if state["engine"] != self.engine:
            return None
        if _is_own(state):
            os.utime(path)  # for processes on other hosts
            return state
        if not self._is_free(path, state):
            return None
        with self._lock():
            state = _parse(path)  # its process may have written the batch's id before it ended
            if not self._is_free(path, state):
                return None
            self.write(path, state)
        return state

    def _is_free(self, path: Path, state: Mapping[str, Any]) -> bool:
        """Return whether the process of a batch has ended."""
        if "owner" not in state:
            return True
        ended = has_ended(state["owner"])
        return time.time() - path.stat().st_mtime > self.silence if ended is None else ended

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keep other processes from taking a batch."""
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _is_own(state: Mapping[str, Any]) -> bool:
    """Return whether this process polls a batch."""
    return state.get("owner") == get_process_name()


def _parse(path: Path) -> Mapping[str, Any]:
    """Return the state in a file."""
    try:
        state: Mapping[str, Any] = json.loads(path.read_text())
        return {"engine": state["engine"], **state}
    except (ValueError, TypeError, KeyError) as error:
        raise ReaderError(
            f"{path} is not the state of a batch ({type(error).__name__}). Restore the file, or "
            f"`rm {path}` to abandon its batch."
        ) from None


def read_packed_requests(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the requests of a batch by key, as `pack_request` wrote them."""
    requests: Mapping[str, Any] = state["requests"]
    return requests


def pack_request(request: Generate) -> dict[str, Any]:
    """Convert a request to JSON values for a state file, with the passages that its key
    depends on.
    """
    return {
        "messages": [structs.asdict(message) for message in request.messages],
        "decoding": asdict(request.decoding),
        "sample": request.sample,
        "passages": [
            asdict(passage) for passage in request.passages if find_control_tokens(passage)
        ],
    }


def unpack_request(packed: Mapping[str, Any]) -> Generate:
    """Convert the JSON values of a state file to a request."""
    messages = tuple(Message(**message) for message in packed["messages"])
    passages = tuple(Passage(**passage) for passage in packed.get("passages", ()))
    return Generate(messages, Decoding(**packed["decoding"]), packed["sample"], passages=passages)
