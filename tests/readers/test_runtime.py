"""The runtimes of local readers have one interface."""

import pytest

from winnow.protocols import list_missing_members
from winnow.readers.batching import Batches
from winnow.readers.openvino_runtime import OpenVinoRuntime
from winnow.readers.runtime import Runtime, TokenizedRequest
from winnow.requests import Likelihood, Message


@pytest.mark.parametrize("kind", [Batches, OpenVinoRuntime])
def test_each_runtime_has_every_member(kind: type) -> None:
    """So that a reader asks neither which one it has."""
    assert list_missing_members(Runtime, dir(kind)) == []


def test_a_request_is_as_long_as_prompt_and_continuation() -> None:
    """In tokens."""
    request = Likelihood((Message("user", "a"),), "b")
    assert TokenizedRequest(request, [1, 2, 3], [4]).length == 4
