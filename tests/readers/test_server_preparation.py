"""What precedes the first call to a server: one preparation for all callers, and the check of the
version.
"""

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest

from winnow.errors import ConfigError, ServerUnavailableError
from winnow.readers.openai_errors import RetryableError
from winnow.readers.server_preparation import ServerPreparation


class Connection:
    """A connection to a server that reports a version, and counts how often it is asked."""

    def __init__(self, version: str | None, *, has_version: bool = True) -> None:
        """Report this version."""
        self.version, self.num_asked = version, 0
        self.dialect = SimpleNamespace(has_version=has_version)
        self.protocol = SimpleNamespace(
            base_url="http://127.0.0.1:9/v1", mask_api_key=lambda text: text.replace("KEY", "***")
        )

    def read_version(self) -> str | None:
        """Return the version."""
        self.num_asked += 1
        return self.version


def _prepare(connection: Any, version: str, callers: int = 1) -> ServerPreparation:
    preparation = ServerPreparation(connection, None, "model", version)

    async def wait() -> None:
        preparation.begin()
        await asyncio.gather(*(preparation.wait() for _ in range(callers)))

    asyncio.run(wait())
    return preparation


def test_all_callers_wait_for_one_preparation() -> None:
    """After a release, the next caller prepares anew."""
    connection = Connection("1.2")
    preparation = _prepare(connection, "1.2", callers=5)
    assert connection.num_asked == 1
    preparation.release()
    asyncio.run(preparation.wait())
    assert connection.num_asked == 2


def test_another_version_is_refused_and_none_is_no_version() -> None:
    """With the settings that help; every later caller gets the same error."""
    with pytest.raises(
        ConfigError,
        match=r"has version 1\.3, but reader\.engine\.version=1\.2.*version=1\.3, which makes new",
    ):
        _prepare(Connection("1.3"), "1.2", callers=2)
    with pytest.raises(ServerUnavailableError, match=r"does not report that it has version 1\.2"):
        _prepare(Connection(None), "1.2")
    _prepare(Connection(None), "")


def test_a_version_that_is_not_part_of_the_identity_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So that whoever wants new calls for another version can have them."""
    with caplog.at_level(logging.WARNING):
        _prepare(Connection("1.3"), "")
    assert "set reader.engine.version=1.3" in caplog.text


def test_a_version_that_cannot_be_checked_is_refused_at_once() -> None:
    """Where the kind of server reports none, and where the run starts the server itself."""
    for connection, start in (
        (Connection("1", has_version=False), None),
        (Connection("1"), object()),
    ):
        with pytest.raises(ConfigError, match=r"reader\.engine\.version=1 cannot be checked"):
            ServerPreparation(connection, start, "model", "1")  # type: ignore[arg-type]


def test_errors_of_a_started_server_have_the_end_of_its_log_without_the_key() -> None:
    """Those of a server that the run did not start, and those before it was ready, stay as they
    are.
    """
    preparation = _prepare(Connection("1"), "1")
    error = ServerUnavailableError("gone")
    assert preparation.add_log(error) is error
    preparation._use = SimpleNamespace(
        describe_failure=lambda: " Its log ends with: KEY", close=lambda: None
    )  # type: ignore[assignment]
    assert str(preparation.add_log(error)) == "gone Its log ends with: ***"
    other = ValueError("x")
    assert preparation.add_log(other) is other
    preparation.release()
    assert preparation.add_log(error) is error


def test_a_version_that_is_gone_for_a_while_is_asked_for_again() -> None:
    """After a failed call, another attempt may find the server restarted."""
    connection = Connection("1.2")
    preparation = ServerPreparation(connection, None, "model", "1.2")  # type: ignore[arg-type]

    async def use() -> None:
        preparation.begin()
        await preparation.wait()
        preparation.check_again()
        connection.version = None
        with pytest.raises(RetryableError, match="does not report its version any more"):
            await preparation.wait()
        preparation.check_again()
        connection.version = "1.2"
        await preparation.wait()

    asyncio.run(use())
    assert connection.num_asked == 3


def test_calls_that_fail_together_cause_one_check() -> None:
    """The second failure does not begin another one while it runs."""

    class Slow(Connection):
        def read_version(self) -> str | None:
            time.sleep(0.1)
            return super().read_version()

    connection = Slow("1.2")
    preparation = ServerPreparation(connection, None, "model", "1.2")  # type: ignore[arg-type]

    async def use() -> None:
        preparation.begin()
        await preparation.wait()
        preparation.check_again()
        first = asyncio.ensure_future(preparation.wait())
        await asyncio.sleep(0.02)
        preparation.check_again()
        await asyncio.gather(first, preparation.wait())

    asyncio.run(use())
    assert connection.num_asked == 2
