"""State files of batches: what was sent in each, so that the next run continues a batch that is
paid for.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import structs

from winnow.artifacts.files import write_texts
from winnow.keys import find_control_tokens
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Message


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


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write a state file, the only record of a batch that is paid for, atomically."""
    write_texts(path.parent, {path.name: json.dumps(state)})
