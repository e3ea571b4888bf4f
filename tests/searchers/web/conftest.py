"""A small web for each test."""

from collections.abc import Iterator

import pytest
from small_web import SmallWeb, serve_web


@pytest.fixture
def web() -> Iterator[SmallWeb]:
    """A web on this machine."""
    with serve_web() as running:
        yield running
