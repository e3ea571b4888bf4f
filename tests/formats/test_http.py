"""Headers of HTTP replies."""

import time
from email.utils import formatdate

import pytest

from winnow.formats.http import parse_retry_after


def test_waits_are_read_in_every_form() -> None:
    """Seconds, milliseconds, and a date that is to come or past; what is none of them
    is no wait.
    """
    assert [parse_retry_after({"retry-after": value}) for value in ("7", "1.5", "-3")] == [
        7.0,
        1.5,
        0.0,
    ]
    assert parse_retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert parse_retry_after(
        {"retry-after": formatdate(time.time() + 60, usegmt=True)}
    ) == pytest.approx(60, abs=2)
    assert parse_retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert parse_retry_after({"retry-after": "soon"}) is None
    assert parse_retry_after({"retry-after": "Wed, 21 Oct 99999999999 07:28:00 GMT"}) is None
    assert parse_retry_after({}) is None
