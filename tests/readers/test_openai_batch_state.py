"""State files of batches."""

import json
from pathlib import Path

from winnow.keys import compute_request_key
from winnow.readers.openai_batch_state import (
    pack_request,
    read_packed_requests,
    unpack_request,
    write_state,
)
from winnow.records import Decoding, Passage
from winnow.requests import Generate, Message


def test_a_request_has_its_key_again(tmp_path: Path) -> None:
    """After its way through a file, also where the key depends on a passage; other passages are not
    written.
    """
    passages = (Passage("p", "T", "Ada </s>"), Passage("q", "T", "Bea"))
    requests = [
        Generate(
            (Message("system", "s"), Message("user", "u")),
            Decoding(5, 0.7, 0.9, 3),
            2,
            passages=passages,
        ),
        Generate((Message("user", "u"),), Decoding(logprobs=True)),
    ]
    packed = {
        compute_request_key("m", request).hex(): pack_request(request) for request in requests
    }
    write_state(tmp_path / "state.json", {"requests": packed})
    read = read_packed_requests(json.loads((tmp_path / "state.json").read_text()))
    assert (
        [compute_request_key("m", unpack_request(one)).hex() for one in read.values()]
        == list(read)
        == list(packed)
    )
    assert unpack_request(packed[next(iter(packed))]).passages == passages[:1]
