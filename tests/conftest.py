"""What every test starts with."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _reset_loggers() -> None:
    """Undo what libraries that earlier tests used did to loggers: the root's level, and loggers that they switched off."""
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)
    for name in list(root.manager.loggerDict):
        if name.split(".")[0] in {"winnow", "flows"}:
            logger = logging.getLogger(name)
            logger.disabled, logger.propagate = False, True
            logger.setLevel(logging.NOTSET)
