"""An engine without a model answers no call, and says which one is missing."""

import pytest

from winnow.errors import LedgerError
from winnow.protocols import build_engine_map
from winnow.records import Decoding
from winnow.requests import Generate, Message
from winnow.sweeps.recorded import RecordedEngine


def test_a_call_that_was_not_recorded_is_refused() -> None:
    """The engine has every member of the protocol; a request is an error that names identity, kind
    and role.
    """
    engine = RecordedEngine("model@digest")
    assert {role for _, role in build_engine_map(engine, "judge")} == {"judge"}
    with pytest.raises(
        LedgerError,
        match="1 calls of model@digest are not among the recorded ones, such as Generate of the",
    ):
        engine.submit([Generate((Message("user", "Who?"),), Decoding(8))])
    assert engine.collect(0.0) == ()
