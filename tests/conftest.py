"""What every test starts with."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _capture_warnings(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Let `caplog` have the warnings of Winnow, whatever libraries that earlier tests used did to the root logger.

    They raise its level, replace its handlers, or switch loggers off that exist when they are imported.
    """
    package = logging.getLogger("winnow")
    logging.disable(logging.NOTSET)
    for name in [name for name in logging.root.manager.loggerDict if name.startswith("winnow.")]:
        logger = logging.getLogger(name)
        logger.disabled, logger.propagate = False, True
        logger.setLevel(logging.NOTSET)
    package.disabled, package.propagate = False, False
    package.setLevel(logging.WARNING)
    package.addHandler(caplog.handler)
    yield
    package.removeHandler(caplog.handler)
    package.propagate = True
    package.setLevel(logging.NOTSET)
