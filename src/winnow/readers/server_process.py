"""A language model server that a run starts, shares with other local runs, and stops at the end.

The server lives in a process group of its own, so that Ctrl-C reaches the run first. Each run that
uses it holds a lock; the last one stops it. After a killed run, the next one with the same settings
finds the server and stops it at its end.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import logging
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from winnow.artifacts.files import atomic_write, hold_lock
from winnow.artifacts.owners import read_start_time
from winnow.artifacts.provenance import compute_file_digest
from winnow.errors import ConfigError, ServerUnavailableError
from winnow.identity.hub import parse_model_name
from winnow.identity.markers import SpeedOnly
from winnow.modeling.loading import compute_weights_digest
from winnow.readers.child_processes import (
    CHILDREN,
    find_free_port,
    is_alive,
    is_ready,
    read_end,
    stop,
)

_log = logging.getLogger(__name__)
_MODEL_FILES = ("config.json", "tokenizer_config.json", "adapter_config.json")
"""Files of which one is in every folder of a model, a tokenizer or an adapter."""
_VERSION_SECONDS = 120.0
"""Time that a command has to print a version."""


@dataclass(frozen=True)
class ServerProcess:
    """How to start a server, which is stopped when its last use ends.

    Args:
        command: Words of the command. "{base}" stands for the folder or hub name of the model,
            "{revision}" for its commit on the hub, "{pinned}" for the folder or the hub name
            followed by "@" and the commit, and "{port}" for a free port of 127.0.0.1, on which the
            server must listen. The content of files that it names is part of the identity.
        version: Words of a command that prints the version of the server. What it prints is part of
            the identity.
        environment: Additional environment variables of the server, such as VLLM_BATCH_INVARIANT.
            They are part of the identity and are written to manifests; secrets belong in the
            environment of the run, which the server inherits.
        health: Path that answers with status 200 as soon as the server is ready.
        folder: Folder of the logs and of the state of running servers.
        timeout: Seconds that the server has to become ready.

    Raises:
        ConfigError: If the command is empty or lacks "{port}".
    """

    revision: ClassVar[int] = 1

    command: Sequence[str]
    version: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    health: Annotated[str, SpeedOnly("it decides when the first request is sent")] = "/health"
    folder: Annotated[str, SpeedOnly("the place of a log does not affect replies")] = "data/servers"
    timeout: Annotated[float, SpeedOnly("it decides how long to wait")] = 1800.0

    def __post_init__(self) -> None:
        if not self.command or not any("{port}" in word for word in self.command):
            raise ConfigError(
                "reader.engine.start.command must name a program and contain {port}; received "
                f"{list(self.command)}."
            )

    @classmethod
    def resolve_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings with the version command's output and with digests of files."""
        version = read_version(tuple(settings.get("version") or ()))
        return {**settings, "command": _digest_files(settings["command"]), "version": version}

    @property
    def identity(self) -> str:
        """Return the program, its printed version, and a digest of its command and environment."""
        words = _digest_files(self.command)
        environment = sorted((name, str(value)) for name, value in self.environment.items())
        digest = hashlib.sha256(json.dumps([words, environment]).encode()).hexdigest()[:8]
        version = read_version(tuple(self.version))
        return "-".join([Path(str(self.command[0])).name, *([version] if version else []), digest])

    def use(self, base: str) -> ServerUse:
        """Begin a use of the server of a model, which ends with `close`, or with this process."""
        key = (self._compute_key(base), os.getpid())
        with _LOCK:
            use = _USED.setdefault(key, ServerUse(self, base, Path(self.folder) / key[0]))
            use.count += 1
        return use

    def _compute_key(self, base: str) -> str:
        """Compute the name of the server's folder, which depends on the weights and the host."""
        place = str(Path(base).resolve()) if Path(base).exists() else base
        parts = (self.identity, place, compute_weights_digest(base), socket.gethostname())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def get_model_name(self, base: str) -> str:
        """Return the server's name for the model: the word of the command that is the model."""
        for template, word in zip(self.command, self.build_command(base, 0), strict=True):
            if template in ("{base}", "{pinned}"):
                return word
        return base

    def build_command(self, base: str, port: int) -> list[str]:
        """Return the words of the command for a model and a port.

        Raises:
            ConfigError: If the model has a commit and no word of the command says which.
        """
        name = parse_model_name(base)
        values = {
            "base": base if name is None else name.name,
            "pinned": base,
            "port": str(port),
            "revision": "main",
        }
        words = [str(word) for word in self.command]
        if name is not None and name.revision:
            values["revision"] = name.revision
            if not any("{revision}" in word or "{pinned}" in word for word in words):
                raise ConfigError(
                    f"The server would load the newest weights of {name.name} instead of those of "
                    f"{name.revision}: reader.engine.start.command={words} must contain "
                    "{revision} or {pinned}."
                )
        for placeholder, value in values.items():
            words = [word.replace(f"{{{placeholder}}}", value) for word in words]
        return words


@cache
def read_version(command: tuple[str, ...]) -> str:
    """Run a command and return the last line that it prints, or "" if there is no command.

    Raises:
        ConfigError: If the command cannot be run or fails.
    """
    if not command:
        return ""
    try:
        process = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(
            f"reader.engine.start.version: `{shlex.join(map(str, command))}` failed ({error}). "
            "Install the server, name its program with its folder, or set "
            "reader.engine.start.version=[]."
        ) from error
    lines = (process.stdout.strip() or process.stderr.strip()).splitlines()
    return lines[-1].strip() if lines else ""


def _digest_files(command: Sequence[str]) -> list[str]:
    """Return a command's words with the names of files and model folders replaced by content
    digests, also behind "=" and between commas. Programs keep their names.
    """
    words = []
    for word in map(str, command):
        option, separator, value = word.rpartition("=")
        parts = [(part and _compute_digest(Path(part))) or part for part in value.split(",")]
        words.append(f"{option}{separator}{','.join(parts)}")
    return words


def _compute_digest(path: Path) -> str:
    """Return the digest of a file, unless it is a program, or of a folder with a model, or ""."""
    with suppress(OSError):  # a long text is no name of a file
        if path.is_file():
            with path.open("rb") as stream:
                is_program = stream.read(4).startswith((b"\x7fELF", b"#!"))
            is_program &= os.access(path, os.X_OK)
            return "" if is_program else compute_file_digest(path)
        if any((path / name).is_file() for name in _MODEL_FILES):
            return compute_weights_digest(str(path))
    return ""


class ServerUse:
    """The use of one server by `count` readers of this process. A lock tells other processes."""

    def __init__(self, settings: ServerProcess, base: str, folder: Path) -> None:
        """Store the settings; the server is started on first use."""
        self.settings, self.base, self.folder = settings, base, folder
        self.count = 0
        self._lock = threading.Lock()
        self.log = folder / "server.log"
        self._state_file = folder / "state.json"
        self._users: int | None = None
        self._state: dict[str, Any] = {}

    def require_address(self) -> str:
        """Return the address of the running server; start it if none runs.

        Raises:
            ServerUnavailableError: If the server ends or is not ready in time.
        """
        with self._lock:
            if self._users is None or not is_alive(self._state):
                self.folder.mkdir(parents=True, exist_ok=True)
                with hold_lock(self.folder / "start.lock"):
                    self._register()
                    self._state = self._read_state()
                    if not is_alive(self._state):
                        self._start()
                self._wait_until_ready()
        return f"http://127.0.0.1:{self._state['port']}/v1"

    def close(self) -> None:
        """End the use by one reader, and release the server if it was the last one."""
        self.count -= 1
        if self.count <= 0:
            self.release()

    def release(self) -> None:
        """Stop the server unless another process uses it."""
        self.count = 0
        if self._users is None:
            return
        with hold_lock(self.folder / "start.lock"):
            users, self._users = self._users, None
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return  # another process uses the server, and will stop it
            else:
                stop(self._state or self._read_state())
                self._state_file.unlink(missing_ok=True)
                self._state = {}
            finally:
                os.close(users)

    def describe_failure(self) -> str:
        """Return whether the server runs, and the end of its log."""
        state = "runs" if is_alive(self._state) else "has ended"
        return f" The server {state}; its log {self.log} ends with:\n{read_end(self.log)}"

    def _register(self) -> None:
        """Take the shared lock of the users."""
        if self._users is None:
            self._users = os.open(self.folder / "users.lock", os.O_CREAT | os.O_RDWR, 0o644)
            fcntl.flock(self._users, fcntl.LOCK_SH)

    def _read_state(self) -> dict[str, Any]:
        """Return the server's process, start time and port, or {} if the state is unreadable."""
        try:
            state = json.loads(self._state_file.read_text())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) and {"pid", "start", "port"} <= set(state) else {}

    def _start(self) -> None:
        """Start the server and write its state."""
        port = find_free_port()
        command = self.settings.build_command(self.base, port)
        _log.warning("Starting `%s`; its log is %s.", shlex.join(command), self.log)
        environment = os.environ | {
            name: str(value) for name, value in self.settings.environment.items()
        }
        with self.log.open("wb") as log:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise ServerUnavailableError(
                    f"The server cannot be started: {error}. Install it, or correct "
                    f"reader.engine.start.command={list(self.settings.command)}."
                ) from error
        CHILDREN.append(process)
        self._state = {"pid": process.pid, "start": read_start_time(process.pid), "port": port}
        with atomic_write(self._state_file) as partial:
            partial.write_text(json.dumps(self._state))

    def _wait_until_ready(self) -> None:
        """Wait until the server answers, with a progress line.

        Raises:
            ServerUnavailableError: If it ends, or is not ready in time.
        """
        address = f"http://127.0.0.1:{self._state['port']}{self.settings.health}"
        deadline = time.monotonic() + self.settings.timeout
        if is_ready(address) and is_alive(self._state):
            return
        from tqdm import tqdm

        with tqdm(
            desc=f"waiting for {Path(str(self.settings.command[0])).name}",
            bar_format="{desc}: {elapsed}",
        ) as line:
            while not is_ready(address) or not is_alive(self._state):
                if not is_alive(self._state):  # another program may answer on its port
                    raise ServerUnavailableError(
                        f"The server ended before it was ready.{self.describe_failure()}"
                    )
                if time.monotonic() > deadline:
                    stop(self._state)
                    raise ServerUnavailableError(
                        f"The server was not ready after {self.settings.timeout:.0f} s and was "
                        "stopped. Raise reader.engine.start.timeout if it needs more "
                        f"time.{self.describe_failure()}"
                    )
                time.sleep(0.2)
                line.update()


_LOCK = threading.Lock()
_USED: dict[tuple[str, int], ServerUse] = {}
"""Servers in use, by key and process. A forked process inherits the servers of its parent."""


@atexit.register
def release_servers() -> None:
    """Release all servers that this process uses, as happens when it ends."""
    for (_, process), use in _USED.items():
        if process == os.getpid():
            use.release()


def exit_on_signals() -> None:
    """Let unhandled SIGTERM and SIGHUP end this process like sys.exit, which stops its servers."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda received, _: sys.exit(128 + received))
