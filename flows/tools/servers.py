"""Starts servers of other programs on this machine, waits until they answer, and stops them."""

import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from winnow.errors import WinnowError

_STARTUP_SECONDS = 120
_STOP_SECONDS = 20


@contextmanager
def run_server(
    name: str, command: Sequence[str], health_url: str, log: Path, environment: Mapping[str, str]
) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a server, wait until it answers, and stop it at the end.

    Args:
        name: Name of the server for messages.
        command: Command that starts the server.
        health_url: Address that answers once the server is ready.
        log: File for the output of the server.
        environment: Environment variables of the server.

    Yields:
        The process of the server.

    Raises:
        WinnowError: If the server ends, or does not answer within two minutes.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        server = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    former = signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # the server is stopped then, too
    try:
        if not _is_answering(health_url, server):
            raise WinnowError(
                f"The {name} server did not answer at {health_url}. See its log: {log}."
            )
        yield server
    finally:
        signal.signal(signal.SIGTERM, former)
        server.terminate()
        try:
            server.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            server.kill()


def _is_answering(url: str, server: "subprocess.Popen[bytes]") -> bool:
    """Wait until a server answers, and return whether it did before it ended or time ran out."""
    deadline = time.monotonic() + _STARTUP_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 (an address on this machine)
                return True
        except OSError:
            time.sleep(0.5)
    return False


def is_port_free(port: int) -> bool:
    """Return whether no server listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0
