"""Steps before a server's first call: starting it, if the run does, and checking its version."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace

from winnow.errors import ConfigError, ServerUnavailableError
from winnow.readers.openai_connection import OpenAIConnection
from winnow.readers.openai_errors import RetryableError
from winnow.readers.server_process import ServerProcess, ServerUse, exit_on_signals

_log = logging.getLogger(__name__)


@dataclass
class ServerPreparation:
    """Prepares a server in its own thread, so that the other engines of a run continue meanwhile.

    Args:
        connection: Connection, which receives the address of a started server.
        start: How to start the server, or None if it runs already.
        path: Model that the server is started with.
        version: Version that the server must report; "" accepts any.

    Raises:
        ConfigError: If a version is set and servers of this kind report none.
    """

    connection: OpenAIConnection
    start: ServerProcess | None
    path: str
    version: str
    _result: asyncio.Future[None] | None = field(default=None, repr=False)
    _use: ServerUse | None = field(default=None, repr=False)
    _is_ready: bool = False
    _is_repeated: bool = False

    def __post_init__(self) -> None:
        if self.version and (self.start is not None or not self.connection.dialect.has_version):
            raise ConfigError(
                f"reader.engine.version={self.version} cannot be checked: set it for a server that "
                "runs already, with reader.engine.dialect=vllm or llama.cpp. A started server "
                "has reader.engine.start.version."
            )

    def begin(self) -> None:
        """Do what only the main thread can do."""
        if self.start is not None:
            exit_on_signals()

    async def wait(self) -> None:
        """Wait until the server is ready.

        Raises:
            ServerUnavailableError: If it does not come up, or reports no version where one is set.
            RetryableError: If it reports no version any more.
            ConfigError: If it has another version.
        """
        if self._result is None:
            loop = asyncio.get_running_loop()
            self._result = loop.create_future()
            threading.Thread(target=self._prepare, args=(loop, self._result), daemon=True).start()
        await asyncio.shield(self._result)

    def check_again(self) -> None:
        """Check the version before the next call, as a failed server may have been replaced."""
        if self.version and self._result is not None and self._result.done():
            self._result, self._is_repeated = None, True

    def release(self) -> None:
        """Release a started server."""
        use, self._use, self._result, self._is_ready = self._use, None, None, False
        if use is not None:
            use.close()

    def add_log(self, error: Exception) -> Exception:
        """Return a call's error, with the end of the log if a started server is unreachable."""
        if self._use is None or not self._is_ready or not isinstance(error, ServerUnavailableError):
            return error
        text = f"{error}{self._use.describe_failure()}"
        return ServerUnavailableError(self.connection.protocol.mask_api_key(text))

    def _prepare(self, loop: asyncio.AbstractEventLoop, result: asyncio.Future[None]) -> None:
        """Prepare the server, and set the result of a future in its loop."""
        failure: Exception | None = None
        try:
            if self.start is None:
                self._check_version()
            else:
                self._use = self.start.use(self.path)
                address = self._use.require_address()
                self.connection.protocol = replace(self.connection.protocol, base_url=address)
        except Exception as error:
            failure = error

        def finish() -> None:
            self._is_ready = failure is None
            if not result.done():
                result.set_result(None) if failure is None else result.set_exception(failure)

        with suppress(RuntimeError):  # the reader was closed meanwhile
            loop.call_soon_threadsafe(finish)

    def _check_version(self) -> None:
        """Compare the version that the server reports with the setting."""
        address, version = self.connection.protocol.base_url, self.connection.read_version()
        if version is None and self._is_repeated:
            raise RetryableError(f"{address} does not report its version any more")
        if self.version and version is None:
            raise ServerUnavailableError(
                f"{address} does not report that it has version {self.version}. Start the server, "
                "or set reader.engine.version=''."
            )
        if self.version and version != self.version:
            raise ConfigError(
                f"{address} has version {version}, but reader.engine.version={self.version}. Start "
                f"that version, or set reader.engine.version={version}, which makes new calls."
            )
        if version and not self.version:
            _log.warning(
                "%s has version %s, which is not part of the identity, so that another version "
                "would not make new calls. To add it, set reader.engine.version=%s, which makes "
                "new calls.",
                address,
                version,
                version,
            )
