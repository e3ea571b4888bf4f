"""What the tests of several folders share."""

import logging
import sys

import pytest

from winnow.testing import LogRecorder


@pytest.fixture
def warning_log(monkeypatch: pytest.MonkeyPatch) -> LogRecorder:
    """Return a recorder of the warnings and errors that Winnow's modules log during the test.

    This replaces `caplog`, because some libraries that earlier tests of the process have used switch loggers off, or replace
    the handlers and the level of the root logger.
    """
    recorder = LogRecorder()
    for name, module in list(sys.modules.items()):
        if name.startswith("winnow.") and isinstance(getattr(module, "_log", None), logging.Logger):
            monkeypatch.setattr(module, "_log", recorder)
    return recorder
